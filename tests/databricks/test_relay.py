"""The Databricks relay against the fake workspace: one run per attempt, whatever gets lost."""

from __future__ import annotations

import dataclasses
import threading
import uuid
from datetime import timedelta
from typing import Any

import pytest

from lakequeue.agents.document_parser.__main__ import main as program
from lakequeue.agents.document_parser.agent import Task
from lakequeue.relay.base import (
    Run,
    RunState,
    SubmitError,
    SubmitLaterError,
    SubmitUncertainError,
)
from lakequeue.relay.databricks import (
    LOOKS_A_MINUTE,
    NOT_ALLOWED_SECONDS,
    PAGE,
    SUBMITS_A_SECOND,
    DatabricksRelay,
    Rate,
)
from tests.databricks.workspace import FakeRun, Workspace

CALLBACK = "https://lakequeue-1.apps.example/api/callbacks"


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def relay(workspace: Workspace, time: Time) -> DatabricksRelay:
    return DatabricksRelay(CALLBACK, clock=time.clock, sleep=time.sleep)


@pytest.fixture
def job(workspace: Workspace) -> int:
    return workspace.add_job()


def make_run(job_id: int | None, **changes: Any) -> Run:
    run = Run(
        task_id=11,
        attempt_id=12,
        attempt_number=2,
        agent="document-parser",
        run_key=uuid.uuid4(),
        callback_token="token",
        document_path="/Volumes/main/lakequeue/documents/Prüfung 2024.pdf",
        customer="Müller & Söhne",
        payload={"pages": [1, 2]},
        estimated_tokens=1000,
        max_tpm=None,
        lease_duration=timedelta(minutes=5),
        job_id=job_id,
        agent_parameters={"model": "m"},
        model_prices={},
    )
    return dataclasses.replace(run, **changes)


# --- submitting ---------------------------------------------------------------------------------


def test_a_run_gets_all_its_parameters_as_text(
    workspace: Workspace, relay: DatabricksRelay, job: int
) -> None:
    run = make_run(job)
    made = workspace.runs[relay.submit(run)]
    assert made.job_id == job
    assert made.token == str(run.run_key)
    assert made.parameters == {**run.parameters(), "callback_url": CALLBACK}
    assert made.parameters["customer"] == "Müller & Söhne"
    assert (relay.outlives_worker, relay.alive(), relay.ended()) == (True, 0, [])


def test_the_agents_program_takes_all_of_them(
    workspace: Workspace, relay: DatabricksRelay, job: int
) -> None:
    parameters = workspace.runs[relay.submit(make_run(job))].parameters
    of_the_job = {"variables", "secrets"}
    assert set(parameters) == {option.name for option in program.params} - of_the_job
    environment = {"LAKEQUEUE_CHAT_URL": "http://x/v1", "LAKEQUEUE_DATABASE_URL": "dbname=x"}
    task = Task.read(parameters, {**environment, "LAKEQUEUE_CALLBACK_URL": "https://other"})
    assert (task.attempt_id, task.callback_token, task.callback_url) == (12, "token", CALLBACK)
    assert Task.read({**parameters, "callback_url": ""}, environment).callback_url is None


def test_without_a_webhook_a_run_confirms_by_sql(workspace: Workspace, job: int) -> None:
    made = workspace.runs[DatabricksRelay().submit(make_run(job))]
    assert "callback_url" not in made.parameters


def test_an_answer_that_is_lost_leaves_one_run(
    workspace: Workspace, relay: DatabricksRelay, job: int
) -> None:
    run = make_run(job)
    workspace.fault("run-now", drop=True)
    with pytest.raises(SubmitUncertainError):
        relay.submit(run)
    (made,) = workspace.runs
    assert relay.submit(run) == made
    assert DatabricksRelay(CALLBACK).submit(run) == made, "an adopter finds it too"
    assert len(workspace.runs) == 1


def test_two_attempts_are_two_runs(relay: DatabricksRelay, job: int) -> None:
    assert relay.submit(make_run(job)) != relay.submit(make_run(job))


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_server_error_leaves_it_open(
    workspace: Workspace, relay: DatabricksRelay, job: int, status: int
) -> None:
    workspace.fault("run-now", status=status)
    with pytest.raises(SubmitUncertainError):
        relay.submit(make_run(job))


def test_what_can_never_start_is_refused(
    workspace: Workspace, relay: DatabricksRelay, job: int
) -> None:
    with pytest.raises(SubmitError, match="Job 4711 does not exist"):
        relay.submit(make_run(4711))
    with pytest.raises(SubmitError, match="The job parameters are too long"):
        relay.submit(make_run(job, payload="x" * 10_000))
    with pytest.raises(
        SubmitError, match=r"has no job: .*configure_agent\('document-parser', job_"
    ):
        relay.submit(make_run(None))
    run = make_run(job)
    workspace.runs[relay.submit(run)].deleted = True
    with pytest.raises(SubmitError, match="was deleted"):
        relay.submit(run)


def test_after_a_429_nothing_is_asked_before_its_time(
    workspace: Workspace, relay: DatabricksRelay, job: int, time: Time
) -> None:
    workspace.fault("run-now", status=429, retry_after=40, times=None)
    with pytest.raises(SubmitLaterError) as later:
        relay.submit(make_run(job))
    assert later.value.seconds == 40
    time.now += 30
    with pytest.raises(SubmitLaterError) as later:
        relay.submit(make_run(job))
    assert later.value.seconds == 10
    assert workspace.called("run-now") == 1
    workspace.mend()
    time.now += 10
    assert relay.submit(make_run(job)) in workspace.runs


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_login_is_no_documents_fault(
    workspace: Workspace, relay: DatabricksRelay, job: int, status: int
) -> None:
    workspace.fault("run-now", status=status)
    with pytest.raises(SubmitLaterError) as later:
        relay.submit(make_run(job))
    assert later.value.seconds == NOT_ALLOWED_SECONDS


def test_no_second_sees_more_than_20_runs_started(time: Time) -> None:
    rate = Rate(SUBMITS_A_SECOND, 1.0, time.clock)
    starts = []
    for _ in range(100):
        wait = rate.take(patience=10)
        assert wait is not None
        starts.append(time.now + wait)
        time.now += 0.01
    assert starts == sorted(starts)
    assert max(sum(start <= other < start + 1 for other in starts) for start in starts) == 20
    assert starts[-1] < 1000 + 100 / 20, "and it is not slower than that"


def test_submitting_keeps_to_the_rate(
    workspace: Workspace, relay: DatabricksRelay, job: int, time: Time
) -> None:
    for _ in range(45):
        relay.submit(make_run(job))
    assert time.now - 1000 == pytest.approx(2.0)
    assert len(time.slept) == 2


def test_a_place_that_comes_too_late_is_not_taken(time: Time) -> None:
    rate = Rate(1, 10.0, time.clock)
    assert rate.take() == 0
    assert rate.take(patience=9) is None
    assert rate.take(patience=10) == 10
    assert rate.take(patience=10) is None


def test_many_are_submitted_side_by_side(workspace: Workspace, job: int) -> None:
    relay = DatabricksRelay()
    together = threading.Barrier(relay.calls_at_once, timeout=10)

    def wait_for_all(run: FakeRun) -> None:
        together.wait()

    workspace.on_run = wait_for_all
    threads = [
        threading.Thread(target=relay.submit, args=(make_run(job),))
        for _ in range(relay.calls_at_once)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(workspace.runs) == relay.calls_at_once


# --- states -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "state"),
    [
        ("SUCCESS", RunState.SUCCEEDED),
        ("SUCCESS_WITH_FAILURES", RunState.SUCCEEDED),
        ("RUN_EXECUTION_ERROR", RunState.FAILED),
        ("INTERNAL_ERROR", RunState.FAILED),
        ("CLOUD_FAILURE", RunState.FAILED),
        ("DRIVER_ERROR", RunState.FAILED),
        ("LIBRARY_INSTALLATION_ERROR", RunState.FAILED),
        ("CANCELED", RunState.FAILED),
        ("CLUSTER_TERMINATED_BY_USER", RunState.FAILED),
        ("A_CODE_OF_NEXT_YEAR", RunState.FAILED),
        ("USER_CANCELED", RunState.CANCELLED),
        ("UNAUTHORIZED_ERROR", RunState.REFUSED),
        ("RESOURCE_NOT_FOUND", RunState.REFUSED),
        ("INVALID_RUN_CONFIGURATION", RunState.REFUSED),
        ("BUDGET_POLICY_LIMIT_EXCEEDED", RunState.REFUSED),
        ("WORKSPACE_RUN_LIMIT_EXCEEDED", RunState.CROWDED),
        ("MAX_CONCURRENT_RUNS_EXCEEDED", RunState.CROWDED),
        ("MAX_JOB_QUEUE_SIZE_EXCEEDED", RunState.CROWDED),
    ],
)
def test_how_a_run_ended(
    workspace: Workspace, relay: DatabricksRelay, job: int, code: str, state: RunState
) -> None:
    run_id = relay.submit(make_run(job))
    workspace.runs[run_id].end(code, "it was so")
    status = relay.states([run_id])[run_id]
    assert status.state is state
    assert "it was so" in status.detail
    assert f"/run/{run_id}" in status.detail


@pytest.mark.parametrize(
    ("life_cycle", "now", "state"),
    [
        ("RUNNING", "RUNNING", RunState.RUNNING),
        ("QUEUED", "QUEUED", RunState.RUNNING),
        ("PENDING", "PENDING", RunState.RUNNING),
        ("TERMINATING", "TERMINATING", RunState.RUNNING),
        ("WAITING_FOR_RETRY", "WAITING", RunState.RUNNING),
        ("HIBERNATING", "RUNNING", RunState.RUNNING),
        ("RUNNING", "HIBERNATING", RunState.RUNNING),
        ("HIBERNATING", "HIBERNATING", RunState.UNKNOWN),
        ("INTERNAL_ERROR", "TERMINATED", RunState.FAILED),
        ("TERMINATED", "TERMINATED", RunState.FAILED),
    ],
)
def test_a_state_that_nobody_knows_means_waiting(
    workspace: Workspace,
    relay: DatabricksRelay,
    job: int,
    life_cycle: str,
    now: str,
    state: RunState,
) -> None:
    run_id = relay.submit(make_run(job))
    workspace.runs[run_id].become(life_cycle, now)
    assert relay.states([run_id])[run_id].state is state


def test_a_run_over_the_jobs_limit_found_no_room(workspace: Workspace) -> None:
    relay = DatabricksRelay()
    job = workspace.add_job(max_concurrent_runs=1, queue=False)
    first, second = relay.submit(make_run(job)), relay.submit(make_run(job))
    states = relay.states([first, second])
    assert states[first].state is RunState.RUNNING
    assert states[second].state is RunState.CROWDED


def test_a_run_that_is_not_there_is_gone(relay: DatabricksRelay) -> None:
    status = relay.states([4711])[4711]
    assert status.state is RunState.GONE
    assert "Run 4711 does not exist" in status.detail


def test_many_are_looked_up_by_the_page(
    workspace: Workspace, relay: DatabricksRelay, job: int
) -> None:
    run_ids = [relay.submit(make_run(job)) for _ in range(10 * PAGE)]
    other = workspace.add_job()
    for _ in range(3 * PAGE):
        workspace.run_now({"job_id": other})
    workspace.runs[run_ids[0]].end("SUCCESS")
    workspace.runs[run_ids[1]].end("RUN_EXECUTION_ERROR")
    workspace.calls.clear()
    states = relay.states(run_ids)
    assert set(states) == set(run_ids)
    assert states[run_ids[0]].state is RunState.SUCCEEDED
    assert states[run_ids[1]].state is RunState.FAILED
    assert all(states[run_id].state is RunState.RUNNING for run_id in run_ids[2:])
    assert workspace.called("runs/list") == 10
    assert workspace.called("runs/get") == 2


def test_a_new_worker_learns_the_jobs_from_the_runs(
    workspace: Workspace, relay: DatabricksRelay, job: int
) -> None:
    run_ids = [relay.submit(make_run(job)) for _ in range(3 * PAGE)]
    replacement = DatabricksRelay()
    workspace.calls.clear()
    assert len(replacement.states(run_ids)) == len(run_ids)
    assert (workspace.called("runs/list"), workspace.called("runs/get")) == (3, 1)


def test_looks_are_bounded(
    workspace: Workspace, relay: DatabricksRelay, job: int, time: Time
) -> None:
    run_ids = list(range(1, LOOKS_A_MINUTE + 101))
    assert len(relay.states(run_ids)) == LOOKS_A_MINUTE
    assert relay.states(run_ids) == {}
    assert workspace.called("/runs/") == LOOKS_A_MINUTE
    time.now += 60
    assert len(relay.states(run_ids[-100:])) == 100


@pytest.mark.parametrize(
    ("what", "calls"),
    [({"status": 429}, 1), ({"status": 500}, 3), ({"status": 403}, 3), ({"drop": True}, 3)],
)
def test_trouble_ends_the_looking(
    workspace: Workspace, relay: DatabricksRelay, job: int, what: dict[str, Any], calls: int
) -> None:
    run_ids = [relay.submit(make_run(job)) for _ in range(5)]
    workspace.calls.clear()
    workspace.fault("runs/get", **what, times=None)
    assert relay.states(run_ids) == {}
    assert workspace.called("runs/get") == calls
    workspace.mend()
    assert len(relay.states(run_ids)) == 5


def test_one_run_that_cannot_be_looked_up_keeps_no_other(
    workspace: Workspace, relay: DatabricksRelay, job: int
) -> None:
    run_ids = [relay.submit(make_run(job)) for _ in range(5)]
    workspace.fault("runs/get", status=500)
    assert set(relay.states(run_ids)) == set(run_ids[1:])


# --- cancelling ---------------------------------------------------------------------------------


def test_cancel_reaches_the_run(workspace: Workspace, relay: DatabricksRelay, job: int) -> None:
    workspace.cancels_at_once = False
    run_id = relay.submit(make_run(job))
    relay.cancel(run_id)
    assert workspace.runs[run_id].life_cycle == "TERMINATING"
    assert relay.states([run_id])[run_id].state is RunState.RUNNING, "it ends later"
    workspace.cancels_at_once = True
    relay.cancel(run_id)
    assert relay.states([run_id])[run_id].state is RunState.CANCELLED


def test_cancelling_what_is_not_there_or_cannot_be_reached(
    workspace: Workspace,
    relay: DatabricksRelay,
    job: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    relay.cancel(4711)
    run_id = relay.submit(make_run(job))
    workspace.fault("runs/cancel", status=500)
    relay.cancel(run_id)
    assert f"cancelling run {run_id}" in caplog.text
    assert workspace.runs[run_id].active
    relay.cancel(run_id)
    assert not workspace.runs[run_id].active
    relay.cancel(run_id)
