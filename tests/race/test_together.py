"""Everything against everything: each pair of functions, and all of them at once, on few tasks.

Leases are aged and grace is nothing, so that sweeps find work; keys, tasks and attempts are drawn
from a small pool, so that everybody meets. Nobody may be refused for a deadlock, and a watcher
recounts the rules all the time.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Json

from tests.race.harness import Connection, together
from tests.race.scene import (
    RESULT,
    answer,
    assert_sound,
    call,
    configure,
    enqueue,
    limit_endpoint,
    watching,
)
from tests.servers import Database

AGENTS = ("a", "b")
ENDPOINTS = ("one", "two")
KEYS = [f"k{n}" for n in range(12)]


class Dice:
    """What one of the sessions does next."""

    def __init__(self, connection: Connection, seed: int) -> None:
        self.connection = connection
        self.random = random.Random(seed)

    def call(self, function: str, **arguments: Any) -> None:
        call(self.connection, function, **arguments)

    def tasks(self) -> list[int]:
        rows = self.connection.execute("select id from lakequeue.tasks").fetchall()
        return self.random.sample([row[0] for row in rows], 4)

    def attempts(self, count: int) -> list[tuple[int, str]]:
        """Some attempts, running or not, with their tokens, in any order."""
        rows = self.connection.execute(
            """select a.id, lakequeue._callback_token(a.id, a.run_key)
                 from lakequeue.task_attempts a
                where a.status = 'running' or random() < 0.1"""
        ).fetchall()
        return self.random.sample(rows, min(count, len(rows)))

    # --- what can be done ---

    def dequeue(self) -> None:
        self.call("dequeue_tasks", worker=self.random.choice("vw"), batch_size=3)

    def sweep(self) -> None:
        self.call("sweep_leases", batch_size=5)

    def age(self) -> None:
        """Time passes for some leases, as if their workers had died."""
        self.connection.execute(
            """update lakequeue.tasks set lease_expires_at = now() - interval '1 hour'
                where id = any(array(
                  select id from lakequeue.tasks
                   where id = any(array(select id from lakequeue.tasks where status = 'processing'
                                         order by random() limit 2))
                     and status = 'processing'
                   order by id for no key update skip locked))"""
        )

    def age_and_sweep(self) -> None:
        self.age()
        self.sweep()

    def report(self) -> None:
        for attempt, token in self.attempts(1):
            kinds = ["success", "failure", "rate_limited", "cancelled"]
            outcome = self.random.choice(kinds)
            self.call(
                "record_callback",
                attempt=attempt,
                token=token,
                outcome=outcome,
                result=RESULT if outcome == "success" else None,
                input_tokens=self.random.randrange(500),
                output_tokens=10,
                usage_complete=self.random.random() < 0.5,
                run_id=self.random.randrange(9),
            )

    def reports(self) -> None:
        reports = [
            {"attempt": attempt, "token": token, "outcome": "failure"}
            for attempt, token in self.attempts(3)
        ]
        self.call("record_callbacks", callbacks=Json(reports))

    def store(self) -> None:
        for attempt, token in self.attempts(1):
            self.call("store_result", attempt=attempt, token=token, result=RESULT)

    def use(self) -> None:
        for attempt, _token in self.attempts(1):
            tokens = self.random.randrange(900)
            self.call("record_usage", attempt=attempt, input_tokens=tokens, output_tokens=1)

    def cancel(self) -> None:
        self.call("cancel_tasks", tasks=self.tasks())

    def retry(self) -> None:
        self.call("retry_tasks", tasks=self.tasks())

    def reprocess(self) -> None:
        self.call("reprocess_tasks", tasks=self.tasks())

    def extend(self) -> None:
        some = self.attempts(4)
        used = [self.random.randrange(300) for _ in some]
        self.call(
            "extend_leases",
            attempts=[attempt for attempt, _token in some],
            tokens=[token for _attempt, token in some],
            input_tokens=used,
        )

    def configure(self) -> None:
        agent, endpoint = self.random.choice(AGENTS), self.random.choice(ENDPOINTS)
        self.call("configure_agent", agent=agent, model_endpoint=endpoint)

    def pause(self) -> None:
        agent = self.random.choice(AGENTS)
        self.call("pause_agent", agent=agent)
        self.call("resume_agent", agent=agent)

    def enqueue(self) -> None:
        keys = self.random.sample(KEYS, 3)
        documents = [{"document_path": "/k", "dedup_key": key, "page_count": 1} for key in keys]
        self.call("enqueue_tasks", agent=self.random.choice(AGENTS), documents=Json(documents))

    def fail(self) -> None:
        for attempt, _token in self.attempts(1):
            self.call("fail_attempt", attempt=attempt, error_class="gone")

    def check(self) -> None:
        self.call("runs_to_check", worker="w")

    def adopt(self) -> None:
        self.call("worker_heartbeat", worker="v", stopping=self.random.random() < 0.5)
        self.call("adopt_attempts", worker="w")

    def record(self) -> None:
        ids = [attempt for attempt, _token in self.attempts(4)]
        self.call("record_runs", attempts=ids, run_ids=ids)

    def cool(self) -> None:
        for attempt, token in self.attempts(1):
            self.call("report_rate_limit", attempt=attempt, token=token, retry_after="1 ms")

    def fold(self) -> None:
        self.call("fold_rollups", batch_size=20)


Action = Callable[["Dice"], None]

PAIRED: list[Action] = [
    Dice.dequeue,
    Dice.age_and_sweep,
    Dice.report,
    Dice.store,
    Dice.use,
    Dice.cancel,
    Dice.retry,
    Dice.reprocess,
    Dice.extend,
    Dice.configure,
]
OTHERS: list[Action] = [
    Dice.age,
    Dice.reports,
    Dice.pause,
    Dice.enqueue,
    Dice.fail,
    Dice.check,
    Dice.adopt,
    Dice.record,
    Dice.cool,
    Dice.fold,
]


@pytest.fixture
def crowded(database: Database) -> Database:
    for agent, endpoint in zip(AGENTS, ENDPOINTS, strict=True):
        configure(
            database,
            agent,
            model_endpoint=endpoint,
            max_concurrent_tasks=6,
            reconcile_grace="0 seconds",
            max_attempts=100,
            max_rate_limited=1000,
            retry_base="0 seconds",
        )
        enqueue(database, 12, agent)
    for endpoint in ENDPOINTS:
        limit_endpoint(database, endpoint, max_concurrent_tasks=8, max_tpm=1_000_000)
    return database


def play(connection: Connection, seed: int, actions: Sequence[Action], seconds: float) -> int:
    """Take turns in these actions; a refusal that a caller could not help is an error."""
    dice = Dice(connection, seed)
    deadline = time.monotonic() + seconds
    for turn in itertools.count():
        if time.monotonic() > deadline:
            return turn
        try:
            dice.random.choice(actions)(dice)
        except psycopg.Error as error:
            if error.sqlstate != "LQ409":  # the keys of this enqueue kept changing
                raise
    return 0


def test_no_pair_of_functions_deadlocks_or_breaks_a_rule(crowded: Database) -> None:
    pairs = list(itertools.combinations_with_replacement(PAIRED, 2))

    def one_side(connection: Connection, side: int) -> int:
        turns = 0
        for number, pair in enumerate(pairs):
            # A little dequeue in each, so that there are attempts to meet on.
            turns += play(connection, number, [pair[side % 2], pair[side % 2], Dice.dequeue], 0.12)
        return turns

    with watching(crowded):
        outcomes = together(
            crowded,
            [lambda c, side=side: one_side(c, side) for side in range(4)],  # type: ignore[misc]
        )
    assert all(outcome.result() > len(pairs) for outcome in outcomes)
    assert_sound(crowded)


def test_everything_at_once(crowded: Database) -> None:
    actions = [*PAIRED, *OTHERS]
    with watching(crowded) as watch:
        outcomes = together(
            crowded,
            [lambda c, seed=seed: play(c, seed, actions, 4) for seed in range(8)],  # type: ignore[misc]
        )
    assert all(outcome.result() > 10 for outcome in outcomes)
    assert watch.looks > 10
    assert_sound(crowded)
    with psycopg.connect(crowded.conninfo(), autocommit=True) as connection:
        while answer(connection, "fold_rollups"):
            pass
    assert_sound(crowded)
