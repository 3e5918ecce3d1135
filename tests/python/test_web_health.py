"""`/healthz`, `/readyz`, `/metrics`, and what pages and commands show of health."""

from __future__ import annotations

import contextlib
import html
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families

from lakequeue import doctor, migrate
from lakequeue.commands.status import command as status
from lakequeue.web import health, live, reads
from tests.python.web_server import AGENT, Queue, application, as_json
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)

NOWHERE = "host=127.0.0.1 port=1 user=secret_user password=secret_word dbname=x"
HOSTILE = 'a "quoted"\\ name\n# TYPE evil gauge\nevil{x="y"} 1\r\u2028\N{SNOWMAN}'


@pytest.fixture
def queue(pristine: Database) -> Queue:
    return Queue(pristine)


@pytest.fixture
def client(queue: Queue, tmp_path: Path) -> Iterator[FlaskClient]:
    with application(queue.database, tmp_path) as app:
        yield app.test_client()


def says(client: FlaskClient, path: str) -> tuple[int, str]:
    response = client.get(path)
    assert response.headers["Content-Type"].startswith("text/plain")
    return response.status_code, response.get_data(as_text=True).strip()


Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(client: FlaskClient) -> Series:
    """What Prometheus' own parser reads, by name and labels."""
    client.application.extensions["lakequeue"].reads.forget()
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found: Series = {}
    for family in text_string_to_metric_families(response.get_data(as_text=True)):
        assert family.documentation, family.name
        assert family.type in ("gauge", "counter"), family.name
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"twice: {key}"
            assert sample.name.startswith("lakequeue_"), sample.name
            found[key] = sample.value
    return found


def value(series: Series, metric: str, /, **labels: str) -> float:
    return series[f"lakequeue_{metric}", frozenset(labels.items())]


# --- probes ---------------------------------------------------------------------------------------


def test_a_well_process_is_alive_and_ready(client: FlaskClient) -> None:
    assert says(client, "/healthz") == (200, "ok")
    assert says(client, "/readyz") == (200, "ok")


def test_without_a_database_it_is_alive_and_not_ready(queue: Queue, tmp_path: Path) -> None:
    with application(queue.database, tmp_path, conninfo=NOWHERE) as app:
        client = app.test_client()
        assert says(client, "/healthz") == (200, "ok")
        code, words = says(client, "/readyz")
        assert (code, words) == (503, "the database does not answer, or is not installed")
        series = scrape(client)
        assert value(series, "database_up") == 0
        assert value(series, "sse_clients") == 0, "what the process knows by itself is told"
        assert "secret" not in client.get("/metrics").get_data(as_text=True)


def test_another_schema_version_is_not_ready(queue: Queue, client: FlaskClient) -> None:
    queue.database.query("update lakequeue.installation set schema_version = 7")
    code, words = says(client, "/readyz")
    assert code == 503
    assert "schema version 7, older than this code's" in words


def test_a_migration_under_a_web_process_is_noticed_and_said(
    queue: Queue, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    schema_version = reads.Reads.schema_version

    def counting(self: reads.Reads) -> int:
        asked.append(self)
        return schema_version(self)

    monkeypatch.setattr(reads.Reads, "schema_version", counting)
    monkeypatch.setattr(reads, "VERSION_SECONDS", 1000)
    for path in ("/agents", "/tasks", "/api/agents", "/agents"):
        assert client.get(path).status_code == 200
    assert len(asked) == 1, "not once a request"

    newer = migrate.code_version() + 1
    queue.database.query("update lakequeue.installation set schema_version = %s", newer)
    assert client.get("/agents").status_code == 200, "for some seconds"
    monkeypatch.setattr(reads, "VERSION_SECONDS", 0)
    for path in ("/", "/tasks", "/costs", "/tasks/1", "/tasks.csv", "/upload", "/api/tasks"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5"), path
        words = html.unescape(answer.get_data(as_text=True))
        assert f"database has schema version {newer}, newer than this code's" in words, path
        assert "pgrade Lakequeue here" in words, path
    assert client.post("/tasks/actions", data={"action": "cancel"}).status_code == 503
    health = client.get("/api/health")
    assert (health.status_code, as_json(health)["schema_version"]) == (503, newer)
    assert client.get("/static/style.css").status_code == 200
    assert client.get("/healthz").status_code == 200

    queue.enqueue()
    row = queue.claim()
    report = {"attempt": row["attempt_id"], "token": row["callback_token"], "outcome": "failure"}
    assert as_json(client.post("/api/callbacks", json=report))["answer"] == "accepted"

    queue.database.query("update lakequeue.installation set schema_version = %s", newer - 1)
    assert client.get("/agents").status_code == 200


def test_a_process_that_ends_is_not_ready(client: FlaskClient) -> None:
    client.application.extensions["lakequeue"].hub.stop()
    assert says(client, "/readyz") == (503, "this process is about to end")
    assert says(client, "/healthz") == (200, "ok")


def test_an_exhausted_pool_is_not_ready(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = reads.PoolUse(in_use=8, idle=0, most=8, waiting=3)
    monkeypatch.setattr(reads.Reads, "pool_use", lambda self: use)
    assert says(client, "/readyz") == (
        503, "all 8 database connections are in use, 3 requests wait",
    )  # fmt: skip


def test_a_scrape_does_not_wait_for_what_does_not_answer(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prometheus gives up after 10 seconds, and would not even learn that there is trouble."""
    monkeypatch.setattr(reads, "READY_SECONDS", 0.1)
    database = client.application.extensions["lakequeue"].reads
    with contextlib.ExitStack() as taken:
        for _ in range(reads.POOL_SIZE):
            taken.enter_context(database.pool.connection())
        began = time.monotonic()
        series = scrape(client)
        assert time.monotonic() - began < reads.POOL_SECONDS
    assert value(series, "database_up") == 0
    assert value(series, "pool_connections", state="in_use") == reads.POOL_SIZE


def test_the_pool_is_counted_as_it_is(client: FlaskClient) -> None:
    database = client.application.extensions["lakequeue"].reads
    assert database.pool_use() == reads.PoolUse(0, 0, reads.POOL_SIZE, 0), "not opened yet"
    with database.pool.connection():
        used = database.pool_use()
        assert used.in_use >= 1
        assert not used.exhausted


def test_a_watcher_that_sees_nothing_is_not_ready(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = client.application.extensions["lakequeue"].hub
    stream, _ = hub.open(None)
    try:
        assert says(client, "/readyz") == (200, "ok")
        later = time.monotonic() + live.LATE_SECONDS + 1
        hub.stop()  # the thread ends, and sees nothing any more
        hub._thread.join(10)
        hub._stop.clear()
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert says(client, "/readyz") == (
            503, "the watcher for changes has not seen the database lately",
        )  # fmt: skip
    finally:
        stream.close()
    assert says(client, "/readyz") == (200, "ok"), "while nobody watches nothing is asked"


# --- metrics --------------------------------------------------------------------------------------


def test_metrics_are_what_the_database_counts(queue: Queue, client: FlaskClient) -> None:
    queue.call("configure_agent", agent=AGENT, max_concurrent_tasks=5)
    for _ in range(4):
        queue.enqueue()
    queue.complete({}, input_tokens=1200, output_tokens=300, cached_tokens=50, llm_cost=0.0123)
    queue.fail("damaged")
    queue.claim()
    queue.call("worker_heartbeat", worker="w")
    series = scrape(client)
    assert value(series, "database_up") == 1
    for state, count in {"enqueued": 1, "processing": 1}.items():
        assert value(series, "tasks", agent=AGENT, status=state) == count
    for outcome, count in {"completed": 1, "failed": 1, "cancelled": 0}.items():
        assert value(series, "tasks_finished_total", agent=AGENT, outcome=outcome) == count
    assert value(series, "input_tokens_total", agent=AGENT) == 1200
    assert value(series, "output_tokens_total", agent=AGENT) == 300
    assert value(series, "cached_tokens_total", agent=AGENT) == 50
    assert value(series, "model_cost_usd_total", agent=AGENT) == 0.0123
    assert value(series, "running_attempts", agent=AGENT) == 1
    assert value(series, "agent_oldest_waiting_seconds", agent=AGENT) > 0
    assert value(series, "agent_paused", agent=AGENT) == 0
    limit = {"scope": "agent", "name": AGENT, "kind": "tasks"}
    assert value(series, "limit_ceiling", **limit) == 5
    assert value(series, "limit_used", **limit) == 1
    assert value(series, "limit_room", **limit) == 4
    assert value(series, "workers", state="alive") == 1
    assert value(series, "health_status", check="horizon") == health.STATES.index("ok")
    assert value(series, "unfolded_deltas") > 0
    assert value(series, "dead_rows") >= 0
    assert value(series, "pool_connections_max") == reads.POOL_SIZE
    assert not [key for key in series if "customer" in dict(key[1])]
    assert client.get("/api/prometheus").headers["Content-Type"].startswith("text/plain; version=")
    queue.call("sweep_leases")
    series = scrape(client)
    assert 0 <= value(series, "sweep_age_seconds") < 60


def test_names_cannot_break_the_format(queue: Queue, client: FlaskClient) -> None:
    queue.call("configure_agent", agent="plain", model_endpoint="of plain", max_tpm=10)
    queue.call("configure_endpoint", endpoint="of plain", max_rpm=10)
    for table in ("agents", "model_endpoints"):  # from when names could have several lines
        queue.database.query(
            f"update lakequeue.{table} set name = replace(name, 'plain', %s)", HOSTILE
        )
    series = scrape(client)
    assert value(series, "tasks", agent=HOSTILE, status="enqueued") == 0
    limit = {"scope": "endpoint", "name": f"of {HOSTILE}", "kind": "requests"}
    assert value(series, "limit_ceiling", **limit) == 10
    lines = client.get("/metrics").get_data(as_text=True).split("\n")
    assert not [line for line in lines if line.startswith("evil")]
    assert all(line.startswith(("lakequeue_", "# HELP lakequeue_", "# TYPE lakequeue_", ""))
               for line in lines)  # fmt: skip


# --- pages and commands ---------------------------------------------------------------------------


def alarming(queue: Queue) -> None:
    """A retry that nobody sweeps."""
    queue.enqueue()
    queue.call("sweep_leases")
    queue.database.query(
        "update lakequeue.tasks set created_at = now(), retry_at = now() - interval '6 minutes'"
    )
    queue.database.query(  # the sweep was before that
        "update lakequeue.sweep_books set retries_from = now() - interval '7 minutes'"
    )


def test_operators_see_alarms_on_the_overview(queue: Queue, client: FlaskClient) -> None:
    alarming(queue)
    page = client.get("/").get_data(as_text=True)
    assert 'id="alarm-sweep_lag" class="grave"' in page
    assert "select * from lakequeue.sweep_leases()" in page.replace("<wbr>", "")
    (row,) = as_json(client.get("/api/attention"))["alarms"]
    assert (row["name"], row["status"]) == ("sweep_lag", "alarm")
    queue.call("set_person", identity="ann", role="viewer")
    client.application.extensions["lakequeue"].reads.forget()
    assert "sweep_lag" not in client.get("/").get_data(as_text=True)
    assert as_json(client.get("/api/attention"))["alarms"] == []


def run_status(queue: Queue, monkeypatch: pytest.MonkeyPatch, *options: str) -> Any:
    monkeypatch.setenv("LAKEQUEUE_DATABASE_URL", queue.database.conninfo("test_reader"))
    result = CliRunner().invoke(status, list(options), standalone_mode=False)
    assert result.exception is None, result.output
    return result


def test_status_tells_alarms_and_ends_with_one(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run_status(queue, monkeypatch)
    assert result.return_value == 0
    assert "ALARM" not in result.output
    alarming(queue)
    result = run_status(queue, monkeypatch)
    assert result.return_value == 1
    assert "\nALARM sweep_lag: due retries or dead runs wait for a sweep" in result.output
    result = run_status(queue, monkeypatch, "--json")
    assert result.return_value == 1
    assert '"name": "sweep_lag"' in result.output


def test_the_doctor_tells_alarms(queue: Queue) -> None:
    from lakequeue import database

    with database.connect(queue.database.conninfo("test_web")) as connection:
        (found,) = doctor._health(connection)
        assert (found.part, found.state) == ("health", doctor.State.WELL)
        alarming(queue)
        (found,) = doctor._health(connection)
        assert (found.part, found.state) == ("health, sweep_lag", doctor.State.WRONG)
        assert found.hint is not None
        assert "sweep_leases" in found.hint
    with database.connect(queue.database.conninfo("test_agent")) as connection:
        assert list(doctor._health(connection)) == []


# --- README ---------------------------------------------------------------------------------------

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


def runbook() -> list[list[str]]:
    """The cells of the rows of README's runbook."""
    table = README[README.index("### Runbook") : README.index("## Who sees what")]
    rows = re.findall(r"^\| (`.*) \| (.*) \| (.*) \|$", table, re.MULTILINE)
    return [list(row) for row in rows]


def test_the_runbook_has_every_check_and_its_statements_run(queue: Queue) -> None:
    checks = [name for row in runbook() for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(checks) == sorted(row["name"] for row in queue.call("health"))
    statements = [
        code
        for row in runbook()
        for code in re.findall(r"`((?:select|vacuum|show|alter) [^`]+)`", row[2])
    ]
    assert len(statements) > 20
    with queue.database.server.admin(queue.database.name) as admin:
        for statement in statements:
            # A process, task or role that there is not; and quiesce refuses what is no copy.
            missing = "pg_drop_replication_slot" in statement or "analyst" in statement
            refusal: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
            if missing:
                refusal = pytest.raises(
                    (psycopg.errors.UndefinedObject, psycopg.errors.ObjectNotInPrerequisiteState)
                )
            elif "quiesce" in statement:
                refusal = pytest.raises(psycopg.Error, match="nobody has noted yet")
            with refusal:
                admin.execute(statement.replace("4711", str(2**31 - 1)))


def test_the_alert_rules_name_metrics_that_there_are(queue: Queue, client: FlaskClient) -> None:
    queue.enqueue()
    names = {name for name, _ in scrape(client)}
    rules = README[README.index("groups:") : README.index("### Runbook")]
    told = set(re.findall(r"\b(lakequeue_\w+)", rules))
    assert len(told) >= 3
    assert told <= names
    numbers = dict(re.findall(r"alert: Lakequeue(Alarm|Warning), expr: \w+ == (\d)", rules))
    assert {word.lower(): health.STATES[int(n)] for word, n in numbers.items()} == {
        "alarm": "alarm",
        "warning": "warning",
    }
