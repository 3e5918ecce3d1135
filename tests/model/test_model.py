"""Random sequences of everything that the API can do, beside the model of rules.py.

After each step the answer must be the model's, and so must every task, every attempt, what its
agents have in a row, and in the end all sums. What is printed at a failure is the shortest
sequence found, a program of `state.do(...)`.
"""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from psycopg.pq import TransactionStatus

from tests.model.product import Known, Product
from tests.model.rules import Agent, Attempt, Queue, Task, Usage
from tests.model.steps import AGENTS, COMMON, ENDPOINTS, LIMIT_STEPS, START, STEPS, resolve
from tests.race.scene import Row, violations
from tests.servers import SERVER_NAMES, SUPERUSER, Database

EXAMPLES = int(os.environ.get("LAKEQUEUE_TEST_MODEL", "0"))
SERVERS = SERVER_NAMES if EXAMPLES else ["embedded"]
# How often a step is drawn, where once would be too seldom to get anywhere.
WEIGHTS = {
    "advance": 8,
    "dequeue_tasks": 8,
    "sweep_leases": 7,
    "record_callback": 6,
    "reserve_tokens": 5,
    "store_result": 4,
    "enqueue_tasks": 5,
    "retry_tasks": 3,
    "settle_tokens": 3,
    "cancel_tasks": 2,
    "extend_leases": 2,
    "fail_attempt": 2,
    "record_runs": 2,
    "record_usage": 2,
    "runs_to_check": 2,
}
# Sequences that never get as far as this prove little.
REACHED = {
    ("cancel_tasks", "requested"),
    ("extend_leases", "lost"),
    ("record_callback", "accepted"),
    ("record_callback", "duplicate"),
    ("record_callback", "superseded"),
    ("reprocess_tasks", "enqueued"),
    ("reserve_tokens", "granted"),
    ("reserve_tokens", "wait"),
    ("retry_tasks", "enqueued"),
    ("settle_tokens", "settled"),
    ("store_result", "superseded"),
    ("sweep_leases", "0: some"),  # expired
    ("sweep_leases", "1: some"),  # due retries
}
# What can be done something to.
STATUSES = {
    "cancel_tasks": ("enqueued", "processing"),
    "retry_tasks": ("failed", "cancelled"),
    "reprocess_tasks": ("completed",),
    "set_priorities": ("enqueued",),
}


class Machine(RuleBasedStateMachine):
    """One example: a transaction that is rolled back, so that nothing need be made anew."""

    connection: psycopg.Connection[Any]
    seen: Counter[tuple[str, str]]

    def __init__(self) -> None:
        super().__init__()
        self.connection.execute("begin")
        self.connection.execute("select test.set_clock(%s), setseed(0.5)", [START])
        self.queue = Queue(START)
        self.product = Product(self.connection, Known())
        self.product.look()
        for endpoint, limits in ENDPOINTS.items():
            self.do("configure_endpoint", {"endpoint": endpoint, "settings": limits})
        for agent, special in AGENTS.items():
            self.do("configure_agent", {"agent": agent, "settings": COMMON | special})
            documents = [
                {"priority": 5, "page_count": pages, "dedup_key": None} for pages in (5, 12)
            ]
            self.do("enqueue_tasks", {"agent": agent, "documents": documents})
        self.do("dequeue_tasks", {"worker": "v", "batch_size": 4, "agents": None})

    def do(self, step: str, arguments: dict[str, Any]) -> None:
        """Do it to both; they must agree on the answer and on what stands afterwards."""
        made = {
            "task": len(self.queue.tasks),
            "attempt": len(self.queue.attempts),
            "extraction": len(self.queue.extractions),
        }
        resolved = resolve(arguments, made, self.likely(step))
        if resolved is None:
            return
        expected = getattr(self.queue, step)(**copy.deepcopy(resolved))
        answer = self.product.do(step, resolved)
        assert answer == expected, f"{step} {resolved}"
        self.seen.update((step, word) for word in words(answer))
        self.compare()

    def likely(self, step: str) -> dict[str, list[int]]:
        """Where a step can do something, so that not most of them are in vain."""
        statuses = STATUSES.get(step, ())
        tasks = [t.number for t in self.queue.tasks if t.status in statuses and not t.purged]
        open_calls = [c.attempt for c in self.queue.calls if c.granted and c.ended_at is None]
        attempts = [
            number
            for number, attempt in enumerate(self.queue.attempts)
            if (attempt in open_calls if step == "settle_tokens" else attempt.status == "running")
            # late ones of tasks that are not final, too: a success counts
            or (step == "store_result" and attempt.task.finished_at is None)
        ]
        return {"task": tasks, "attempt": attempts}

    def compare(self) -> None:
        there = self.product.look()
        for name, agent in there.agents.items():
            known = self.queue.agents[name]
            known.learnt = tuple(agent.pop("learnt"))
            assert agent == stands_of_agent(known), name
        for task in self.queue.tasks:
            if task.retry_between is not None:
                retry_at = there.tasks[task.number]["retry_at"]
                assert task.retry_between[0] <= retry_at <= task.retry_between[1], task.number
                task.retry_at, task.retry_between = retry_at, None
        assert there.tasks == {t.number: stands(t) for t in self.queue.tasks if not t.purged}
        assert there.attempts == {
            number: stands_of_attempt(attempt)
            for number, attempt in enumerate(self.queue.attempts)
            if not attempt.task.purged
        }

    def teardown(self) -> None:
        if self.connection.info.transaction_status == TransactionStatus.INTRANS:
            # Limits may have been lowered; that they hold is the model's business.
            over = ("rule 3: agent", "rule 3: endpoint")
            broken = [v for v in violations(self.connection) if not v.startswith(over)]
            self.connection.execute("rollback")
            assert broken == []
        self.connection.execute("rollback")


def words(answer: Any) -> Iterator[str]:
    """What was answered, without numbers."""
    if isinstance(answer, str):
        yield answer
    elif isinstance(answer, dict):
        yield from (word for value in answer.values() for word in words(value))
    elif isinstance(answer, list):
        yield from (word for value in answer for word in words(value))
    elif isinstance(answer, tuple) and answer and isinstance(answer[0], str):
        yield answer[0]
    elif isinstance(answer, tuple):
        yield from (f"{place}: some" for place, number in enumerate(answer) if number)


def stands(task: Task) -> Row:
    return {
        "status": task.status,
        "priority": task.priority,
        "created_at": task.created_at,
        "attempts": len(task.attempts),
        "failures": task.failures,
        "rate_limited": task.rate_limited,
        "retry_at": task.retry_at,
        "worker": task.worker,
        "lease_expires_at": task.lease_expires_at,
        "cancel_requested": task.cancel_requested,
        "passed_over_at": task.passed_over_at,
        "finished_at": task.finished_at,
        "dedup_key": task.dedup_key,
    }


def stands_of_attempt(attempt: Attempt) -> Row:
    used = attempt.used or Usage()
    source = None if attempt.used is None else "trace" if used.trace else "callback"
    return {
        "status": attempt.status,
        "worker": attempt.worker,
        "run_id": attempt.run_id,
        "estimated_tokens": attempt.estimated_tokens,
        "reserves_calls": attempt.reserves_calls,
        "has_result": attempt.has_result,
        "ended_at": attempt.ended_at,
        "reported_at": attempt.reported_at,
        "run_ended_at": attempt.run_ended_at,
        "presumed_dead_at": attempt.presumed_dead_at,
        "checked_at": attempt.checked_at,
        "input_tokens": used.input,
        "output_tokens": used.output,
        "cached_tokens": used.cached,
        "llm_cost": used.cost,
        "usage_complete": used.complete,
        "usage_source": source,
    }


def stands_of_agent(agent: Agent) -> Row:
    return {"paused": agent.paused, "failures_in_a_row": agent.failures_in_a_row}


def as_rule(name: str, step: str, drawn: dict[str, st.SearchStrategy[Any]]) -> Any:
    def run(self: Machine, arguments: dict[str, Any]) -> None:
        self.do(step, arguments)

    run.__name__ = name  # by which hypothesis leaves some rules out of an example
    return rule(arguments=st.fixed_dictionaries(drawn))(run)


RULES = {
    (name := f"{step}_{n}"): as_rule(name, step, drawn)
    for step, drawn in (STEPS | LIMIT_STEPS).items()
    for n in range(WEIGHTS.get(step, 1))
}


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_the_queue_is_as_the_rules_say(database: Database) -> None:
    """Always the same sequences; LAKEQUEUE_TEST_MODEL=N are N random ones on each server."""
    seen: Counter[tuple[str, str]] = Counter()
    with psycopg.connect(database.conninfo(SUPERUSER), autocommit=True) as connection:
        machine = type("Example", (Machine,), {**RULES, "connection": connection, "seen": seen})
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=EXAMPLES or 60,
                stateful_step_count=70,
                derandomize=not EXAMPLES,
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    for (step, word), times in sorted(seen.items()):
        print(f"{times:6} {step}: {word}")
    assert set(seen) >= REACHED
