"""The steps of the model test, taken by several connections at once.

Nobody can foretell the answers then. But a watcher recounts the rules all the time, nothing may be
refused for another reason than the API's own, and in the end whatever is left can be finished,
with every sum right.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.model.product import Known, Product
from tests.model.steps import AGENTS, COMMON, ENDPOINTS, START, STEPS, resolve
from tests.model.test_model import EXAMPLES, SERVERS, WEIGHTS
from tests.race.harness import Connection, together
from tests.race.scene import assert_sound, watching
from tests.servers import SUPERUSER, Database

CONNECTIONS = 4
ROUNDS = 120 if EXAMPLES else 6
STEPS_EACH = 50

Step = tuple[str, dict[str, Any]]


def sequences(count: int, number: int, steps_each: int) -> list[list[Step]]:
    """So many sequences of steps, always the same ones for a number."""
    a_step = st.one_of(
        [
            st.tuples(st.just(name), st.fixed_dictionaries(drawn))
            for name, drawn in STEPS.items()
            for _ in range(WEIGHTS.get(name, 1))
        ]
    )
    drawn: list[list[Step]] = []

    @seed(number)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(a_step, min_size=steps_each, max_size=steps_each))
    def draw(steps: list[Step]) -> None:
        drawn.append(steps)

    draw()
    return drawn


def take(product: Product, steps: list[Step]) -> int:
    """Take these steps, with whatever tasks and attempts are known by then; say how many."""
    taken = 0
    for step, arguments in steps:
        known = product.known
        made = {
            "task": len(known.tasks),
            "attempt": len(known.attempts),
            "extraction": len(known.extractions),
        }
        resolved = resolve(arguments, made)
        if resolved is not None:
            product.do(step, resolved)
            taken += 1
    return taken


def play(database: Database, connections: int, rounds: int, steps_each: int) -> tuple[int, Known]:
    """Let so many connections take steps at once, watched; say how many, and what there is now."""
    known = Known()
    with psycopg.connect(database.conninfo(SUPERUSER), autocommit=True) as connection:
        product = Product(connection, known)
        connection.execute("select test.set_clock(%s)", [START])
        for endpoint, limits in ENDPOINTS.items():
            product.configure_endpoint(endpoint, **limits)
        for agent, special in AGENTS.items():
            product.configure_agent(agent, **(COMMON | special))
    dealer = random.Random(7)
    taken = 0
    with watching(database):
        for number in range(rounds):
            hands = sequences(connections, number, steps_each)
            dealer.shuffle(hands)

            def step(connection: Connection, steps: list[Step]) -> int:
                return take(Product(connection, known), steps)

            outcomes = together(
                database,
                [lambda connection, hand=hand: step(connection, hand) for hand in hands],  # type: ignore[misc]
                user=SUPERUSER,
            )
            taken += sum(outcome.result() for outcome in outcomes)
    return taken, known


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_the_rules_hold_for_several_connections(database: Database) -> None:
    taken, known = play(database, CONNECTIONS, ROUNDS, STEPS_EACH)
    assert taken > ROUNDS * CONNECTIONS * STEPS_EACH / 2
    with psycopg.connect(database.conninfo(SUPERUSER), autocommit=True) as connection:
        finish(database, Product(connection, known))


def finish(database: Database, product: Product) -> None:
    """Work off whatever is left; nothing may be lost, nor count in a limit for ever."""
    for agent in AGENTS:
        # A breaker would pause it again while its leases run out, and nobody would resume it.
        product.configure_agent(agent, max_attempts=100, breaker_failures=0)
        product.resume_agent(agent)
    for _round in range(1000):
        product.advance(timedelta(hours=3))  # leases, cooldowns and waits for a retry are over
        product.sweep_leases()
        before = len(product.known.attempts)
        product.dequeue_tasks("y", 100, None)
        for attempt in range(before, len(product.known.attempts)):
            assert product.record_callback(
                attempt=attempt, outcome="success", with_result=True
            ) in ("accepted", "superseded")
        if all(task["finished_at"] is not None for task in product.look().tasks.values()):
            break
    product.advance(timedelta(hours=3))
    product.sweep_leases()
    assert {task["status"] for task in product.look().tasks.values()} <= {
        "completed",
        "failed",
        "cancelled",
    }
    assert [a for a in product.look().attempts.values() if a["run_ended_at"] is None] == []
    assert_sound(database)
    product.fold_rollups()
    assert_sound(database)
