"""The local relay with real processes: ends, cancels, and nobody outlives the worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakequeue.forkserver import ForkServer
from lakequeue.relay import local
from lakequeue.relay.base import EndedRun, Run, RunState, SubmitError
from lakequeue.relay.local import LocalRelay

HERE = Path(__file__).parent
AGENT = {"document-parser": "relay_work:run"}
PYTHONPATH = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])


def make_run(attempt_id: int = 1, agent: str = "document-parser", **payload: Any) -> Run:
    return Run(
        task_id=10 + attempt_id,
        attempt_id=attempt_id,
        attempt_number=1,
        agent=agent,
        run_key=uuid.uuid4(),
        callback_token="token",
        document_path="/tmp/a.pdf",
        customer="",
        payload=payload,
        estimated_tokens=1000,
        max_tpm=None,
        lease_duration=timedelta(seconds=30),
        job_id=None,
        agent_parameters={"model": "simulator"},
        model_prices={"simulator": {"input_usd": 0.5}},
    )


def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait for something another process does."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
    return value


def living(pid: int) -> bool:
    """Whether a process lives (a zombie does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def note_of(path: Path) -> dict[str, Any]:
    until(path.exists)
    note: dict[str, Any] = json.loads(path.read_text())
    return note


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[LocalRelay]:
    forkserver = ForkServer(tmp_path / "logs", ["json"], {"PYTHONPATH": PYTHONPATH})
    relay = LocalRelay(forkserver, {"LAKEQUEUE_TEST_A": "handed over"}, 4, AGENT)
    relay.start(lambda: None)
    yield relay
    relay.close()


def end_of(relay: LocalRelay, run_id: int) -> EndedRun:
    return ends_of(relay, run_id)[run_id]


def ends_of(relay: LocalRelay, *run_ids: int) -> dict[int, EndedRun]:
    ended: dict[int, EndedRun] = {}

    def all_ended() -> bool:
        ended.update({run.run_id: run for run in relay.ended()})
        return set(run_ids) <= set(ended)

    until(all_ended)
    return ended


def test_parameters_are_flat_text() -> None:
    parameters = make_run(7, pages=[1, 2]).parameters()
    assert set(parameters) == {
        "task_id",
        "attempt_id",
        "attempt_number",
        "run_key",
        "callback_token",
        "document_path",
        "customer",
        "payload",
        "estimated_tokens",
        "max_tpm",
        "lease_seconds",
        "parameters",
        "model_prices",
        "reserves_calls",
    }
    assert all(isinstance(value, str) for value in parameters.values())
    assert parameters["max_tpm"] == ""
    assert parameters["reserves_calls"] == ""
    assert parameters["lease_seconds"] == "30"
    assert json.loads(parameters["payload"]) == {"pages": [1, 2]}
    assert json.loads(parameters["model_prices"]) == {"simulator": {"input_usd": 0.5}}


def test_a_token_is_not_shown() -> None:
    assert "token'" not in repr(make_run())


def test_a_run_gets_parameters_and_environment(relay: LocalRelay, tmp_path: Path) -> None:
    run = make_run(note=str(tmp_path / "note"))
    run_id = relay.submit(run)
    assert relay.state(run_id) in (RunState.RUNNING, RunState.SUCCEEDED)
    note = note_of(tmp_path / "note")
    assert note["parameters"] == run.parameters()
    assert note["environment"] == {"LAKEQUEUE_TEST_A": "handed over"}
    assert note["pid"] != os.getpid()
    assert end_of(relay, run_id) == EndedRun(1, run_id, 0, "")
    assert relay.state(run_id) is RunState.SUCCEEDED
    assert relay.ended() == []
    assert not list((tmp_path / "logs").glob("run-*"))


def test_the_same_run_key_is_the_same_run(relay: LocalRelay, tmp_path: Path) -> None:
    run = make_run(note=str(tmp_path / "note"))
    run_id = relay.submit(run)
    assert relay.submit(run) == run_id
    end_of(relay, run_id)
    assert relay.submit(run) == run_id, "also when it has ended"
    assert relay.alive() == 0


def test_run_ids_are_unique_positive_bigints(relay: LocalRelay) -> None:
    ids = [relay._next_id() for _ in range(10_000)]
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids)
    assert all(0 < run_id < 2**63 for run_id in ids)


def test_a_failing_run_says_why(relay: LocalRelay) -> None:
    raising = relay.submit(make_run(1, **{"raise": "no such page"}))
    coded = relay.submit(make_run(2, code=3, print="it printed this"))
    killed = relay.submit(make_run(3, kill=True))
    ended = ends_of(relay, raising, coded, killed)
    assert ended[raising].exit_code == 1
    assert "RuntimeError: no such page" in ended[raising].tail
    assert ended[coded].exit_code == 3
    assert ended[coded].tail == "it printed this"
    assert ended[killed].exit_code == -signal.SIGKILL
    assert relay.state(coded) is RunState.FAILED


def test_an_agent_that_does_not_run_here_is_refused(relay: LocalRelay) -> None:
    with pytest.raises(SubmitError, match="cannot run locally"):
        relay.submit(make_run(agent="other"))


def test_another_relays_run_is_unknown(relay: LocalRelay) -> None:
    assert relay.state(12345) is RunState.UNKNOWN
    relay.cancel(12345)


def test_cancel_ends_a_run(relay: LocalRelay, tmp_path: Path) -> None:
    run_id = relay.submit(make_run(note=str(tmp_path / "note"), seconds=60))
    note_of(tmp_path / "note")
    relay.cancel(run_id)
    assert end_of(relay, run_id).exit_code == -signal.SIGTERM


def test_cancel_kills_a_run_that_does_not_heed_it(
    relay: LocalRelay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "TERM_SECONDS", 0.3)
    run_id = relay.submit(make_run(note=str(tmp_path / "note"), seconds=60, stubborn=True))
    note_of(tmp_path / "note")
    relay.cancel(run_id)
    assert end_of(relay, run_id).exit_code == -signal.SIGKILL


def test_close_ends_all_runs(relay: LocalRelay, tmp_path: Path) -> None:
    run_id = relay.submit(make_run(note=str(tmp_path / "note"), seconds=60, stubborn=True))
    pid = note_of(tmp_path / "note")["pid"]
    relay.close()
    until(lambda: not living(pid))
    assert relay.state(run_id) is RunState.GONE
    with pytest.raises(SubmitError):
        relay.submit(make_run(2))


def test_runs_end_with_a_killed_fork_server_and_the_next_starts_another(
    relay: LocalRelay, tmp_path: Path
) -> None:
    run_id = relay.submit(make_run(1, note=str(tmp_path / "note"), seconds=60))
    pid = note_of(tmp_path / "note")["pid"]
    process = relay._forkserver._process
    assert process is not None
    process.kill()
    ended = end_of(relay, run_id)
    assert ended.exit_code is None
    assert relay.state(run_id) is RunState.GONE
    until(lambda: not living(pid))
    assert end_of(relay, relay.submit(make_run(2))).exit_code == 0


def test_a_log_stays_bounded(tmp_path: Path, relay: LocalRelay) -> None:
    run_id = relay.submit(make_run(flood=True))
    log = tmp_path / "logs" / f"run-{run_id}.log"
    until(log.exists)
    largest = 0

    def was_cut() -> bool:
        nonlocal largest
        size = log.stat().st_size
        largest = max(largest, size)
        return size < largest

    until(was_cut)
    relay.cancel(run_id)
    end_of(relay, run_id)


OWNER = """
import sys, time, uuid
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_relay_local import AGENT, PYTHONPATH, make_run
from lakequeue.forkserver import ForkServer
from lakequeue.relay.local import LocalRelay
folder = Path(sys.argv[2])
relay = LocalRelay(ForkServer(folder / "logs", [], {"PYTHONPATH": PYTHONPATH}), {}, 4, AGENT)
relay.start(lambda: None)
relay.submit(make_run(1, note=str(folder / "one"), seconds=600, stubborn=True))
relay.submit(make_run(2, note=str(folder / "two"), seconds=600))
print(relay._forkserver._process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("also_the_fork_server", [False, True])
def test_runs_end_with_a_killed_worker(tmp_path: Path, also_the_fork_server: bool) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(HERE), str(tmp_path)], stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        forkserver = int(owner.stdout.readline())
        pids = [note_of(tmp_path / name)["pid"] for name in ("one", "two")]
        if also_the_fork_server:
            # Stopped, it can kill nobody: what is left is the pipe that the runs watch.
            os.kill(forkserver, signal.SIGSTOP)
        owner.kill()
        until(lambda: not any(living(pid) for pid in pids))
    if also_the_fork_server:
        os.kill(forkserver, signal.SIGKILL)
    until(lambda: not living(forkserver))
