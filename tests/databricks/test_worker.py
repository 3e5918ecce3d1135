"""The worker with Databricks runs: callbacks get lost, answers too, and nothing is paid twice.

The agent is played by the test: a job run does nothing here, and reports when the test says so.
The database's clock stands still and is moved on; nothing waits for a lease.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from psycopg.types.json import Json

from lakequeue import stack
from lakequeue.commands.worker import command
from lakequeue.config import Settings
from lakequeue.errors import Problem
from lakequeue.relay.databricks import DatabricksRelay
from lakequeue.worker import Worker
from tests.conftest import Clock
from tests.databricks.workspace import FakeRun, Workspace
from tests.python.test_worker import Queue, running, until
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)

CALLBACK = "https://lakequeue-1.apps.example/api/callbacks"
LEASE = 300


class Scene(Queue):
    """A queue whose agent is a job of the fake workspace."""

    def __init__(self, database: Database, clock: Clock, workspace: Workspace) -> None:
        super().__init__(database.conninfo(), database.conninfo("test_worker"), "")
        self.clock = clock
        self.workspace = workspace
        self.job = workspace.add_job()
        self.clock.advance(seconds=0)
        self.configure(job_id=self.job, lease_duration=f"{LEASE} s", reconcile_grace=f"{LEASE} s")

    def worker(self, **settings: Any) -> Worker:
        return Worker(self.worker_conninfo, DatabricksRelay(CALLBACK), **settings)

    def advance(self, seconds: float) -> None:
        """Move the database's clock on, and wake the worker as a notification would."""
        self.clock.advance(seconds=seconds)
        self.wake()

    def wake(self) -> None:
        self.query("select pg_notify('lakequeue_worker', '')")

    def run(self) -> FakeRun:
        """The one run that there is, once the database knows its id."""
        until(lambda: any(attempt["run_id"] for attempt in self.attempts()), explain=self.explain)
        (run,) = self.workspace.runs.values()
        return run

    def report(self, run: FakeRun, outcome: str = "success", **more: Any) -> str:
        """What the agent of this run does at its end."""
        if outcome == "success":
            more["result"] = Json({"total": 1})
        (row,) = self.call(
            "record_callback",
            attempt=int(run.parameters["attempt_id"]),
            token=run.parameters["callback_token"],
            outcome=outcome,
            run_id=run.run_id,
            **more,
        )
        return str(row["record_callback"])

    def explain(self) -> str:
        return f"{self.statuses()} {self.attempts()} {self.workspace.runs}"

    def wait_until(self, **statuses: int) -> None:
        until(lambda: self.statuses() == statuses, explain=self.explain)


@pytest.fixture
def scene(database: Database, clock: Clock, workspace: Workspace) -> Scene:
    return Scene(database, clock, workspace)


# --- submitting ---------------------------------------------------------------------------------


def test_a_document_becomes_a_run_whose_id_is_recorded(scene: Scene) -> None:
    (task,) = scene.enqueue(1)
    with running(scene.worker()):
        run = scene.run()
        (attempt,) = scene.attempts()
        assert attempt["run_id"] == run.run_id
        assert run.token == str(attempt["run_key"])
        assert run.parameters["task_id"] == str(task)
        assert run.parameters["callback_url"] == CALLBACK
        assert scene.report(run) == "accepted"
        scene.wait_until(completed=1)
    assert len(scene.workspace.runs) == 1


def test_lost_answers_leave_one_run_and_one_charge(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor does a log have the run's token: the SDK would write down what it sends."""
    caplog.set_level("DEBUG")
    scene.workspace.fault("run-now", drop=True, times=2)
    scene.enqueue(1)
    with running(scene.worker()):
        run = scene.run()
        assert scene.workspace.called("run-now") == 3
        assert scene.report(run, llm_cost=0.25, input_tokens=10, output_tokens=1) == "accepted"
    (attempt,) = scene.attempts()
    assert (attempt["status"], attempt["run_id"]) == ("succeeded", run.run_id)
    assert float(attempt["llm_cost"]) == 0.25
    assert "run-now" in caplog.text
    assert run.parameters["callback_token"] not in caplog.text


def test_two_minutes_of_429_cost_two_minutes(scene: Scene) -> None:
    """The attempt waits inside its lease, without hammering; nothing counts as a failure."""
    now = time.time()
    scene.workspace.now = lambda: now
    scene.workspace.fault("run-now", status=429, retry_after=1, times=None, until=now + 120)
    scene.enqueue(3)
    with running(scene.worker()):
        until(lambda: scene.workspace.called("run-now") > 3, explain=scene.explain)
        assert scene.workspace.called("run-now") <= 9
        scene.advance(121)
        scene.workspace.now = lambda: now + 121
        until(lambda: all(a["run_id"] for a in scene.attempts()), explain=scene.explain)
    assert len(scene.workspace.runs) == 3
    assert {(a["number"], a["status"]) for a in scene.attempts()} == {(1, "running")}


def test_429_for_longer_than_the_lease_gives_the_task_back(scene: Scene) -> None:
    scene.configure(lease_duration="2 s", retry_base="1 hour", retry_cap="1 hour")
    scene.workspace.fault("run-now", status=429, retry_after=30, times=None)
    scene.enqueue(1)
    with running(scene.worker()):
        until(lambda: [a["status"] for a in scene.attempts()] == ["rate_limited"])
    assert scene.statuses() == {"enqueued": 1}
    (attempt,) = scene.attempts()
    assert (attempt["status"], attempt["error_class"]) == ("rate_limited", "no_room")
    (task,) = scene.query("select failures, rate_limited, retry_at from lakequeue.tasks")
    assert (task["failures"], task["rate_limited"]) == (0, 1)
    assert task["retry_at"] is not None
    assert scene.workspace.called("run-now") == 1


def test_a_callback_may_come_before_the_run_id_is_stored(scene: Scene) -> None:
    answers = []
    scene.workspace.on_run = lambda run: answers.append(scene.report(run))
    scene.enqueue(2)
    with running(scene.worker()):
        scene.wait_until(completed=2)
        until(lambda: len(answers) == 2)
        time.sleep(0.5)  # for what the worker does with the run ids
    assert answers == ["accepted"] * 2
    assert {a["run_id"] for a in scene.attempts()} == set(scene.workspace.runs)
    assert all(run.active for run in scene.workspace.runs.values()), "none is cancelled"


WORKER = """
import sys
from lakequeue.relay.databricks import DatabricksRelay
from lakequeue.worker import Worker
worker = Worker(sys.argv[1], DatabricksRelay(sys.argv[2]))
print(worker.name, flush=True)
worker.run()
"""


def test_what_a_killed_worker_submitted_is_found_again(scene: Scene) -> None:
    """Killed between the run's start and the record of its id; the adopter's key is the same."""
    never = threading.Event()
    scene.workspace.fault("run-now", hold=never)
    scene.enqueue(1)
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, scene.worker_conninfo, CALLBACK],
        stdout=subprocess.PIPE,
        text=True,
    ) as victim:
        try:
            until(lambda: scene.workspace.runs, 60)
        finally:
            victim.kill()
    never.set()
    (attempt,) = scene.attempts()
    assert attempt["run_id"] is None
    scene.clock.advance(seconds=61)
    with running(scene.worker()):
        run = scene.run()
    (attempt,) = scene.attempts()
    assert (attempt["number"], attempt["run_id"]) == (1, run.run_id)
    assert scene.workspace.called("run-now") == 2


def test_a_slow_workspace_keeps_nothing_waiting(scene: Scene) -> None:
    """While a submission hangs, the worker sweeps, beats and stops in time."""
    never = threading.Event()
    scene.workspace.fault("run-now", hold=never, times=None)
    scene.enqueue(1)
    worker = scene.worker()
    with running(worker) as thread:
        until(lambda: scene.workspace.runs)
        scene.clock.advance(seconds=20)
        worker._beat.due = 0.0
        worker.wake()
        until(
            lambda: scene.query(
                "select from lakequeue.workers where heartbeat_at = (select lakequeue._now())"
            ),
            10,
        )
        worker.stop()
        thread.join(10)
        assert not thread.is_alive(), "it waited for a submission that hangs for half a minute"
    never.set()
    assert scene.statuses() == {"processing": 1}, "left to be adopted"


# --- the callback that does not come --------------------------------------------------------------


def test_a_living_run_keeps_its_lease(scene: Scene) -> None:
    fresh = "select from lakequeue.tasks where lease_expires_at > lakequeue._now() + '200 s'"
    scene.enqueue(1)
    with running(scene.worker()):
        scene.run().become("QUEUED")
        for _ in range(4):  # longer than lease and grace together
            scene.advance(LEASE - 50)
            until(lambda: scene.query(fresh), explain=scene.explain)
    assert [a["status"] for a in scene.attempts()] == ["running"]
    assert scene.workspace.called("runs/get") == 4


@pytest.mark.parametrize(
    ("code", "status", "error_class", "task"),
    [
        ("SUCCESS", "failed", "run_died", "enqueued"),
        ("RUN_EXECUTION_ERROR", "failed", "run_died", "enqueued"),
        ("INVALID_RUN_CONFIGURATION", "failed", "run_refused", "failed"),
        ("WORKSPACE_RUN_LIMIT_EXCEEDED", "rate_limited", "no_room", "enqueued"),
        ("USER_CANCELED", "cancelled", "run_cancelled", "cancelled"),
        (None, "failed", "run_died", "enqueued"),
    ],
)
def test_a_run_that_ended_without_a_word(
    scene: Scene, code: str | None, status: str, error_class: str, task: str
) -> None:
    scene.configure(retry_base="1 hour", retry_cap="1 hour")
    scene.enqueue(1)
    with running(scene.worker()):
        run = scene.run()
        if code is None:
            run.deleted = True
        else:
            run.end(code, "so it was")
        scene.advance(LEASE - 50)
        scene.wait_until(**{task: 1})
    (attempt,) = scene.attempts()
    assert (attempt["status"], attempt["error_class"]) == (status, error_class)
    assert ("does not exist" if code is None else "so it was") in attempt["error"]
    assert attempt["run_ended_at"] is not None


def test_a_stored_result_needs_no_callback(scene: Scene) -> None:
    scene.enqueue(1)
    with running(scene.worker()):
        run = scene.run()
        scene.call(
            "store_result",
            attempt=int(run.parameters["attempt_id"]),
            token=run.parameters["callback_token"],
            result=Json({"total": 1}),
        )
        run.end("SUCCESS")
        scene.advance(3 * LEASE)
        scene.wait_until(completed=1)
    assert [a["status"] for a in scene.attempts()] == ["succeeded"]
    assert scene.workspace.called("/runs/") == 0


def test_a_state_that_nobody_knows_is_waited_for_until_the_grace_has_passed(scene: Scene) -> None:
    scene.configure(max_attempts=1)
    scene.enqueue(1)
    with running(scene.worker()):
        scene.run().become("HIBERNATING")
        scene.advance(LEASE + 10)
        until(lambda: scene.workspace.called("runs/get") >= 1)
        scene.wake()
        time.sleep(0.5)
        assert scene.statuses() == {"processing": 1}
        scene.advance(LEASE)
        scene.wait_until(failed=1)
    assert [a["status"] for a in scene.attempts()] == ["expired"]


def test_a_workspace_that_is_away_decides_nothing(scene: Scene) -> None:
    scene.enqueue(2)
    with running(scene.worker()):
        until(lambda: len([a for a in scene.attempts() if a["run_id"]]) == 2)
        scene.workspace.fault("runs/get", status=503, times=None)
        scene.advance(LEASE + 10)
        until(lambda: scene.workspace.called("runs/get") >= 1)
        assert scene.statuses() == {"processing": 2}
        scene.workspace.mend()
        scene.advance(11)
        until(
            lambda: (
                scene.query(
                    "select from lakequeue.tasks where lease_expires_at < (select lakequeue._now())"
                )
                == []
            )
        )
    assert [a["status"] for a in scene.attempts()] == ["running"] * 2


def test_after_an_outage_runs_are_looked_up_before_the_sweep_decides(scene: Scene) -> None:
    """No worker was there for hours; the leases are long over, but the runs live."""
    scene.enqueue(60)
    with running(scene.worker(batch_size=60)):
        until(
            lambda: len([a for a in scene.attempts() if a["run_id"]]) == 60, explain=scene.explain
        )
    dead, *_ = scene.workspace.runs.values()
    dead.end("RUN_EXECUTION_ERROR")
    scene.configure(retry_base="1 hour", retry_cap="1 hour")
    scene.clock.advance(hours=5)
    answer = threading.Event()
    scene.workspace.fault("runs/get", hold=answer)
    scene.workspace.calls.clear()
    with running(scene.worker()):
        until(lambda: scene.workspace.called("runs/get"))
        time.sleep(1.2)  # longer than a sweep would wait
        assert scene.statuses() == {"processing": 60}
        answer.set()
        scene.wait_until(processing=59, enqueued=1)
    assert sorted({a["status"] for a in scene.attempts()}) == ["failed", "running"]
    assert len(scene.workspace.runs) == 60, "no page is paid twice"
    assert scene.workspace.called("/runs/") <= 5


def test_a_look_up_that_hangs_does_not_stop_the_sweep(scene: Scene) -> None:
    scene.configure(max_attempts=1)
    scene.enqueue(1)
    with running(scene.worker()):
        scene.run()
        never = threading.Event()
        scene.workspace.fault("runs/get", hold=never)
        scene.advance(3 * LEASE)
        until(lambda: scene.workspace.called("runs/get"))
        scene.advance(61)
        scene.wait_until(failed=1)
        never.set()


def test_a_sweep_by_another_worker_waits_for_the_look_up(scene: Scene) -> None:
    """Both come back after an outage: what one looks up the other must not give away."""
    scene.enqueue(1)
    with running(scene.worker()):
        run = scene.run()
    scene.clock.advance(hours=5)
    answer = threading.Event()
    scene.workspace.fault("runs/get", hold=answer)
    with running(scene.worker()):
        until(lambda: scene.workspace.called("runs/get"))
        with running(scene.worker()) as other:
            time.sleep(2.5)  # it sweeps every second
            assert scene.statuses() == {"processing": 1}
            answer.set()
            until(
                lambda: scene.query(
                    "select from lakequeue.tasks where lease_expires_at > lakequeue._now()"
                )
            )
            assert other.is_alive()
    assert [a["status"] for a in scene.attempts()] == ["running"]
    assert run.active
    assert len(scene.workspace.runs) == 1


# --- cancelling ---------------------------------------------------------------------------------


def test_a_cancelled_task_ends_its_run(scene: Scene) -> None:
    scene.workspace.cancels_at_once = False
    scene.call("set_person", identity="tester", role="operator")
    (task,) = scene.enqueue(1)
    with running(scene.worker()):
        run = scene.run()
        scene.call("cancel_task", task=task, reason="test", actor="tester")
        until(lambda: run.life_cycle == "TERMINATING", explain=scene.explain)
        assert scene.statuses() == {"processing": 1}, "it spends until its end is known"
        run.end("USER_CANCELED")
        scene.advance(11)
        scene.wait_until(cancelled=1)
    (attempt,) = scene.attempts()
    assert (attempt["status"], attempt["run_ended_at"] is not None) == ("cancelled", True)


def test_a_run_that_lost_its_task_is_cancelled(scene: Scene) -> None:
    scene.configure(retry_base="1 ms", retry_cap="1 ms")
    scene.enqueue(1)
    with running(scene.worker()):
        late = scene.run()
        scene.query("select lakequeue.fail_attempt(%s, 'mistaken')", scene.attempts()[0]["id"])
        scene.advance(1)
        until(lambda: len([a for a in scene.attempts() if a["run_id"]]) == 2, explain=scene.explain)
        other = next(run for run in scene.workspace.runs.values() if run is not late)
        assert scene.report(late) == "accepted", "the first success wins"
        scene.advance(11)
        until(lambda: not other.active, explain=scene.explain)
        scene.advance(11)
        until(lambda: scene.attempts()[1]["run_ended_at"] is not None, explain=scene.explain)
    assert [a["status"] for a in scene.attempts()] == ["succeeded", "superseded"]
    assert late.active, "which is left alone"


def test_an_idle_worker_asks_the_database_less_and_less(scene: Scene) -> None:
    worker = scene.worker()
    assert worker._tend.wait() == 1
    worker._last_activity -= 400
    assert worker._tend.wait() == pytest.approx(20, abs=1)
    worker._last_activity -= 1_000_000
    assert worker._tend.wait() == 30


def test_the_command_runs_it(scene: Scene, tmp_path: Path) -> None:
    scene.enqueue(1)
    environment = {
        **os.environ,
        "LAKEQUEUE_RELAY": "databricks",
        "LAKEQUEUE_DATABASE_URL": scene.worker_conninfo,
        "LAKEQUEUE_CALLBACK_URL": CALLBACK,
    }
    program = [sys.executable, "-m", "lakequeue", "worker", "--data-dir", str(tmp_path)]
    with subprocess.Popen(program, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: scene.workspace.runs or process.poll() is not None, 60)
            assert scene.run().parameters["callback_url"] == CALLBACK
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert scene.statuses() == {"processing": 1}, "the run goes on"


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        ((), {"LAKEQUEUE_RELAY": "cloud"}, "LAKEQUEUE_RELAY is 'cloud'"),
        ((), {"LAKEQUEUE_DATABASE_URL": ""}, "job runs cannot reach the embedded PostgreSQL"),
        (("--agent", "document-parser", "--agent", "typo"), {}, 'there is no agent "typo"'),
        (("--jobs", "3"), {}, "--jobs, --tokens-per-minute and --model are for agents on this"),
        ((), {"DATABRICKS_CLIENT_ID": ""}, "there is no Databricks login"),
        ((), {"DATABRICKS_HOST": "http://127.0.0.1:9"}, "the Databricks workspace cannot be used"),
    ],
)
def test_what_is_missing_is_told_in_words(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    variables: dict[str, str],
    words: str,
) -> None:
    monkeypatch.setenv("LAKEQUEUE_RELAY", "databricks")
    monkeypatch.setenv("LAKEQUEUE_DATABASE_URL", scene.worker_conninfo)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(command, arguments)
    assert isinstance(result.exception, Problem)
    assert words in str(result.exception)


def test_up_serves_pages_and_starts_runs(scene: Scene, database: Database, tmp_path: Path) -> None:
    """As in an app: one command, one login for both, a webhook that completes the task."""
    database.query("grant lakequeue_web to test_worker")
    scene.enqueue(1)
    environment = {
        **os.environ,
        "LAKEQUEUE_RELAY": "databricks",
        "LAKEQUEUE_DATABASE_URL": scene.worker_conninfo,
        "LAKEQUEUE_CALLBACK_URL": CALLBACK,
    }
    program = [sys.executable, "-m", "lakequeue", "up", "--port", "0", "--data-dir", str(tmp_path)]
    with subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            run = scene.run()
            report = {
                "attempt": int(run.parameters["attempt_id"]),
                "token": run.parameters["callback_token"],
                "outcome": "success",
                "result": {"total": 1},
            }
            request = urllib.request.Request(
                f"{address}/api/callbacks",
                data=json.dumps(report).encode(),
                headers={"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=20) as response:
                assert json.load(response)["answer"] == "accepted"
            began = time.monotonic()
            process.terminate()
            assert process.wait(60) == 0
            assert time.monotonic() - began < 12
        finally:
            process.kill()
            database.query("revoke lakequeue_web from test_worker")
    assert scene.statuses() == {"completed": 1}


def test_no_run_is_lost_from_the_books_in_any_weather(scene: Scene) -> None:
    """Two workers, a workspace of which a quarter of the calls fail, agents that often say nothing.

    In the end every task is completed, every run is in the books and none lives on.
    """
    chance = random.Random(5)
    scene.configure(max_attempts=100, max_rate_limited=100, retry_base="1 s", retry_cap="5 s")
    scene.configure(breaker_failures=0)  # bad luck is no broken release
    scene.workspace.weather = lambda path: chance.choices(
        [None, {"drop": True}, {"status": 500}, {"status": 429, "retry_after": 0}], [9, 1, 1, 1]
    )[0]
    scene.enqueue(8)
    silent = set()

    def live() -> None:
        """Let each run do something now and then; an hour passes in half a minute."""
        scene.advance(20)
        for run in list(scene.workspace.runs.values()):
            if not run.active or run.run_id in silent or chance.random() < 0.5:
                continue
            end = chance.choice(["reports", "reports", "dies", "says nothing", "hangs"])
            if end == "reports":
                scene.report(run)
            if end == "hangs":
                silent.add(run.run_id)
            else:
                run.end("SUCCESS" if end != "dies" else "RUN_EXECUTION_ERROR")

    with running(scene.worker()), running(scene.worker()):
        for _ in range(600):
            live()
            if scene.statuses() == {"completed": 8}:
                break
            for run_id in list(silent):  # a run that hangs is ended by its job's time limit
                if chance.random() < 0.3:
                    scene.workspace.runs[run_id].end("CANCELED")
                    silent.discard(run_id)
            time.sleep(0.1)
        assert scene.statuses() == {"completed": 8}, scene.explain()
        scene.workspace.weather = None
        for _ in range(600):  # a look-up that failed is made again later, in real seconds
            if not any(run.active for run in scene.workspace.runs.values()):
                break
            scene.advance(20)
            time.sleep(0.1)
    noted = {attempt["run_id"] for attempt in scene.attempts()} - {None}
    assert noted == set(scene.workspace.runs)
    assert not [run for run in scene.workspace.runs.values() if run.active]
    assert len(scene.query("select from lakequeue.results")) >= 8


# --- usage from traces ----------------------------------------------------------------------------


def test_usage_comes_from_the_trace_within_seconds(scene: Scene, tmp_path: Path) -> None:
    """The report names no trace; the worker finds it by its tag, as soon as the run has ended."""
    settings = Settings.from_environment(
        {"LAKEQUEUE_DATABASE_URL": scene.worker_conninfo, "MLFLOW_EXPERIMENT_ID": "4711"}
    )
    with contextlib.ExitStack() as resources:
        place = stack.open_remote_place(settings, tmp_path, resources)
        worker = stack.make_databricks_worker(settings, place, resources)
        scene.enqueue(2)
        with running(worker):
            until(lambda: len(scene.workspace.runs) == 2, explain=scene.explain)
            settled = "select from lakequeue.task_attempts where usage_source = 'trace'"
            for number, run in enumerate(scene.workspace.runs.values(), 1):
                trace(scene.workspace, run)
                scene.report(run, input_tokens=1, output_tokens=1)
                began = time.monotonic()
                until(lambda: len(scene.query(settled)) == number, 120)  # noqa: B023
            took = time.monotonic() - began
    # The first one waits for MLflow to be imported; the second comes as they all do.
    assert took < 30
    for attempt in scene.attempts():
        assert (attempt["input_tokens"], attempt["output_tokens"]) == (500, 20)
        assert attempt["cached_tokens"] is None, "the trace does not say"
        assert attempt["usage_complete"] is True


def trace(workspace: Workspace, run: FakeRun) -> None:
    """What an agent has written at its end."""
    workspace.tracking.start(
        {
            "trace": {
                "trace_info": {
                    "trace_id": f"tr-{run.run_id}",
                    "client_request_id": run.token,
                    "trace_location": {
                        "type": "MLFLOW_EXPERIMENT",
                        "mlflow_experiment": {"experiment_id": "4711"},
                    },
                    "request_time": "2026-11-29T12:00:00Z",
                    "execution_duration": "1s",
                    "state": "OK",
                    "trace_metadata": {
                        "mlflow.trace.tokenUsage": '{"input_tokens": 500, "output_tokens": 20}'
                    },
                    "tags": {"attempt_id": run.parameters["attempt_id"]},
                }
            }
        }
    )
