"""Copies of a database at work: a worker refuses them, `quiesce` lets go of what is the original's.

Real copies: a clone on the same server, a dump restored into another one, and a Lakebase branch as
far as it can be played (the branch is told by the endpoint's name).
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Json

from lakequeue import database as db
from lakequeue.database import LakequeueError, NotHome
from lakequeue.relay.databricks import DatabricksRelay
from lakequeue.worker import Worker
from tests.conftest import BED, Clock
from tests.databricks.test_worker import CALLBACK, Scene
from tests.databricks.workspace import Workspace
from tests.python.test_worker import running, until
from tests.python.web_server import application, pdf, token_of, upload
from tests.servers import Database, Server, temporary

embedded = pytest.mark.parametrize("server", ["embedded"], indirect=True)


@pytest.fixture
def scene(database: Database, clock: Clock, workspace: Workspace) -> Scene:
    """Three documents at an agent that runs two at once; the worker is gone, its runs go on."""
    scene = Scene(database, clock, workspace)
    scene.configure(max_concurrent_tasks=2)
    scene.enqueue(3)
    with running(scene.worker()):
        until(lambda: len([a for a in scene.attempts() if a["run_id"]]) == 2, explain=scene.explain)
    workspace.calls.clear()
    return scene


@pytest.fixture
def clone(scene: Scene, database: Database) -> Iterator[Database]:
    """A copy on the same server."""
    with temporary(lambda: database.server.copy(database)) as made:
        yield made


def call(database: Database, user: str, function: str, **parameters: Any) -> dict[str, Any]:
    with db.connect(database.conninfo(user)) as connection:
        (row,) = db.call(connection, function, **parameters)
    return row


def refusal(database: Database) -> LakequeueError:
    with pytest.raises(LakequeueError) as refused:
        call(database, "test_worker", "check_home")
    return refused.value


def report_of(scene: Scene, number: int) -> dict[str, Any]:
    """What the agent of an attempt of the original would say."""
    run = list(scene.workspace.runs.values())[number]
    return {
        "attempt": int(run.parameters["attempt_id"]),
        "token": run.parameters["callback_token"],
        "outcome": "success",
        "result": {"total": 1},
    }


@embedded
def test_a_worker_refuses_a_copy_and_after_quiesce_does_nothing_by_itself(
    scene: Scene, database: Database, clone: Database, tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "LAKEQUEUE_RELAY": "databricks",
        "LAKEQUEUE_DATABASE_URL": clone.conninfo("test_worker"),
    }
    program = [sys.executable, "-m", "lakequeue", "worker", "--data-dir", str(tmp_path)]
    refused = subprocess.run(
        program, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode == 1
    assert "this database is a copy: the installation lives at (server " in refused.stderr
    assert "lakequeue.quiesce(" in refused.stderr
    assert "Traceback" not in refused.stderr

    said = call(clone, "test_operator", "quiesce", reason="look at the queue")
    assert (said["outcome"], said["attempts_closed"], said["runs_let_go"]) == ("quiesced", 2, 2)

    # A day later its worker has looked at everything, and there was nothing to do.
    clone.query("select test.advance('1 day')")
    with running(Worker(clone.conninfo("test_worker"), DatabricksRelay(CALLBACK))):
        until(lambda: clone.query("select name from lakequeue.workers where stopped_at is null"))
        time.sleep(1.5)
    assert [call for call in scene.workspace.calls if "/jobs/" in str(call)] == []
    assert all(run.active for run in scene.workspace.runs.values()), "none is cancelled"
    assert clone.query("select status::text from lakequeue.tasks") == [("enqueued",)] * 3

    # What is resumed runs as a job of the copy's own, under keys and tokens of its own.
    keys = {str(attempt["run_key"]) for attempt in scene.attempts()}
    own = scene.workspace.add_job()
    parser = {"agent": "document-parser"}
    with db.connect(clone.conninfo("test_operator")) as connection:
        db.call(connection, "configure_agent", **parser, job_id=own)
        db.call(connection, "resume_agent", **parser, reason="debugging")
    with running(Worker(clone.conninfo("test_worker"), DatabricksRelay(CALLBACK))):
        until(lambda: len(scene.workspace.runs) == 4)
    ours = [run for run in scene.workspace.runs.values() if run.job_id == own]
    assert len(ours) == 2
    assert keys.isdisjoint(run.token for run in ours)

    # The original never heard of it: its runs report, its worker goes on.
    with running(scene.worker()):
        for run in list(scene.workspace.runs.values())[:2]:
            assert scene.report(run) == "accepted"
        until(lambda: scene.statuses() == {"completed": 2, "processing": 1}, explain=scene.explain)


@embedded
def test_a_worker_on_a_copy_that_looks_like_the_original_is_sent_away(scene: Scene) -> None:
    """Copied files of a server: here it is the very database, whose worker has claimed already."""
    never = threading.Event()
    scene.workspace.fault("run-now", hold=never, times=None)
    scene.configure(max_concurrent_tasks=3)
    worker = scene.worker()

    def quiesce_under_it() -> None:
        with running(worker):
            until(lambda: scene.workspace.called("run-now"))
            scene.call("quiesce", reason="found out", is_copy=True)
            worker._beat.due = 0.0
            worker.wake()
            until(lambda: worker._connection is None, explain=scene.explain)

    with pytest.raises(NotHome, match="quiesced while"):
        quiesce_under_it()
    never.set()
    assert scene.statuses() == {"enqueued": 3}
    assert scene.workspace.called("cancel") == 0


@embedded
def test_the_webhook_refuses_a_copy(scene: Scene, clone: Database, tmp_path: Path) -> None:
    report = report_of(scene, 0)
    call(clone, "test_operator", "set_person", identity="ann", role="operator")
    with application(clone, tmp_path, warehouse="w-1", identity_header="X-Who") as app:
        client = app.test_client()
        client.environ_base["HTTP_X_WHO"] = "ann"
        assert client.get("/").status_code == 200, "it may be looked at"
        for body in (report, [report]):
            answer = client.post("/api/callbacks", json=body)
            assert (answer.status_code, answer.get_json()["error"]["code"]) == (409, "LQ421")
        page = upload(client, (pdf(), "invoice.pdf"))
        assert page.status_code == 409
        assert "This database is a copy" in page.get_data(as_text=True)
        assert clone.value("select count(*) from lakequeue.extractions") == 0
        asked = client.post("/costs/compute", data={"csrf_token": token_of(client)})
        assert asked.status_code == 409
        assert clone.value("select count(*) from lakequeue.compute_fetches") == 0
        pause = {"csrf_token": token_of(client), "agent": "document-parser", "action": "pause"}
        pause["reason"] = "x"
        assert client.post("/agents/actions", data=pause).status_code == 409
        assert clone.value("select count(*) from lakequeue.agents where paused_at is not null") == 0
        assert clone.query("select status::text from lakequeue.tasks where locked_by is not null")

        call(clone, "test_operator", "quiesce", reason="look at the queue")
        answer = client.post("/api/callbacks", json=report)
        assert (answer.status_code, answer.get_json()["error"]["code"]) == (401, "LQ401")
        (answer,) = client.post("/api/callbacks", json=[report]).get_json()
        assert "wrong callback token" in answer["message"]
    report["result"] = Json(report["result"])
    (row,) = scene.call("record_callback", **report)
    assert row["record_callback"] == "accepted", "in the original it counts"


@pytest.mark.parametrize("server", ["debian"], indirect=True)
def test_a_restored_dump_is_one_or_the_other(
    scene: Scene, database: Database, request: pytest.FixtureRequest
) -> None:
    """Production may have moved there, or not: somebody has to say so."""
    other = request.config.stash[BED].server("embedded")
    with temporary(other.empty_database) as moved, temporary(other.empty_database) as copy:
        dump = subprocess.run(
            [
                database.server.program("pg_dump"),
                "--schema=lakequeue",
                "--schema=lakequeue_migrations",
                "--schema=test",
                database.server.conninfo(database.name),
            ],
            capture_output=True,
            check=True,
        ).stdout
        for target in (moved, copy):
            restore(other, target, dump)
            assert refusal(target).sqlstate == "LQ421"

        assert call(moved, "test_operator", "move_here", reason="the disk died") == {
            "move_here": "moved"
        }
        workspace = scene.workspace
        with running(Worker(moved.conninfo("test_worker"), DatabricksRelay(CALLBACK))):
            _first, second = workspace.runs.values()
            report = report_of(scene, 0) | {"result": Json({"total": 1})}
            answer = call(moved, "test_agent", "record_callback", **report)
            assert answer == {"record_callback": "accepted"}
            until(lambda: len(workspace.runs) == 3)
        assert second.active

        call(copy, "test_operator", "quiesce", reason="look at the queue")
        call(copy, "test_worker", "check_home")
        with pytest.raises(LakequeueError) as refused:
            call(copy, "test_agent", "record_callback", **report)
        assert refused.value.sqlstate == "LQ401"


def restore(server: Server, target: Database, dump: bytes) -> None:
    """Read a dump in with psql, as the server's superuser."""
    subprocess.run(
        [
            server.program("psql"),
            "--no-psqlrc",
            "--quiet",
            "--set=ON_ERROR_STOP=1",
            f"--dbname={server.conninfo(target.name)}",
        ],
        input=dump,
        stdout=subprocess.DEVNULL,
        check=True,
    )


class Branch:
    """A login of a Lakebase endpoint; the test server asks for no password."""

    def __init__(self, branch: str) -> None:
        self.endpoint = f"projects/p/branches/{branch}/endpoints/primary"

    def password(self) -> str:
        return "none"

    def refuse(self, password: str) -> None:
        raise AssertionError(password)


@embedded
def test_a_branch_is_told_by_its_endpoint(
    database: Database, clock: Clock, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shares everything else with its parent: here it is the very same database."""
    monkeypatch.setenv("PGSSLMODE", "prefer")
    scene = Scene(database, clock, workspace)
    try:
        db.log_in_with(Branch("production"))
        with running(scene.worker()):
            until(lambda: scene.query("select from lakequeue.workers"))
        db.log_in_with(Branch("debug"))
        with pytest.raises(LakequeueError, match=r"production.*debug") as refused:
            scene.worker().run()
        assert refused.value.hint is not None
        assert "lakebase_endpoint => 'projects/p/branches/debug/endpoints/primary'" in (
            refused.value.hint
        )
        call(
            database,
            "test_operator",
            "quiesce",
            reason="debugging",
            lakebase_endpoint="projects/p/branches/debug/endpoints/primary",
        )
        with running(scene.worker()):
            until(lambda: scene.query("select from lakequeue.workers where stopped_at is null"))
    finally:
        db.log_in_with(None)


@embedded
def test_workers_of_both_kinds_share_a_database(
    database: Database, clock: Clock, workspace: Workspace, tmp_path: Path
) -> None:
    """Each runs what is its own, and the workspace is never asked for a run of this machine."""
    from tests.python.test_worker import make_worker

    scene = Scene(database, clock, workspace)
    scene.agent_conninfo = database.conninfo("test_agent")
    scene.call("configure_agent", agent="job", job_id=scene.job, lease_duration="300 s")
    scene.configure(job_id=0)
    scene.enqueue(2, seconds=60)
    scene.call("enqueue_task", agent="job", document_path="/job.pdf")
    with running(scene.worker()), running(make_worker(scene, tmp_path)):
        until(lambda: scene.statuses() == {"processing": 3}, explain=scene.explain)
        until(lambda: all(a["run_id"] for a in scene.attempts()), explain=scene.explain)
        scene.advance(250)
        until(lambda: workspace.called("/runs/"), explain=scene.explain)
        time.sleep(1.5)
    assert len(workspace.runs) == 1
    assert workspace.called("/runs/") == 1, "the job run is looked up, no local one"
