"""Several connections that act at the same moment.

    outcomes = together(database, [dequeue] * 8, user="test_worker")
    assert sum(len(outcome.result()) for outcome in outcomes) == 8

Each callable gets a connection of its own, opened beforehand, and all are released together by a
barrier. `repeated` does it again and again, since a race shows only now and then; `holding` is a
transaction that keeps its locks while others act; a `Crowd` takes random steps in transactions of
which some stay open; `wait_until_blocked` replaces a sleep.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import psycopg

from tests.servers import Database

Connection = psycopg.Connection[tuple[Any, ...]]
T = TypeVar("T")

SECONDS = 60


@dataclass
class Outcome(Generic[T]):
    """What one of the callables gave: a value or an exception."""

    value: T | None = None
    error: BaseException | None = None

    def result(self) -> T:
        """The value; the exception is raised again."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # None only if T allows it

    @property
    def sqlstate(self) -> str | None:
        """The SQLSTATE that the database refused with."""
        return self.error.sqlstate if isinstance(self.error, psycopg.Error) else None


def together(
    database: Database,
    actions: Sequence[Callable[[Connection], T]],
    *,
    user: str | None = None,
    users: Sequence[str | None] | None = None,
    seconds: float = SECONDS,
) -> list[Outcome[T]]:
    """Run all actions at the same moment, each on a connection of its own.

    Connections are in autocommit, as `user`, or one of `users` for each action. Returns the
    outcomes in the order of the actions; an action that hangs fails the test.
    """
    logins = users if users is not None else [user] * len(actions)
    connections = [database.connect(login) for login in logins]
    outcomes: list[Outcome[T]] = [Outcome() for _ in actions]
    barrier = threading.Barrier(len(actions))

    def run(number: int) -> None:
        try:
            barrier.wait(seconds)
            outcomes[number].value = actions[number](connections[number])
        except BaseException as error:  # noqa: BLE001  # handed to the test
            outcomes[number].error = error

    threads = [
        threading.Thread(target=run, args=[number], name=f"action-{number}", daemon=True)
        for number in range(len(actions))
    ]
    try:
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        hanging = [thread.name for thread in threads if thread.is_alive()]
        if hanging:
            waits = database.server_activity()
            for connection in connections:
                connection.cancel_safe()
            for thread in threads:  # a connection closed under a thread crashes the process
                thread.join(SECONDS)
            raise AssertionError(f"{', '.join(hanging)} did not end in {seconds} s:\n{waits}")
    finally:
        for connection in connections:
            connection.close()
    return outcomes


def repeated(seconds: float, at_most: int = 1000) -> Iterator[int]:
    """Number the rounds of a race until the time is over."""
    deadline = time.monotonic() + seconds
    for number in range(at_most):
        if number and time.monotonic() > deadline:
            return
        yield number


@contextlib.contextmanager
def holding(database: Database, user: str | None = None) -> Iterator[Connection]:
    """A connection in an open transaction, whose locks are held until the block ends.

    It commits at the end; `connection.rollback()` before that undoes it.
    """
    connection = database.connect(user, autocommit=False)
    try:
        yield connection
        connection.commit()
    finally:
        connection.close()


@contextlib.contextmanager
def in_background(action: Callable[[], T]) -> Iterator[Outcome[T]]:
    """Run an action in a thread while the block goes on; its outcome is there after the block."""
    outcome: Outcome[T] = Outcome()

    def run() -> None:
        try:
            outcome.value = action()
        except BaseException as error:  # noqa: BLE001  # handed to the test
            outcome.error = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield outcome
    finally:  # also when the block failed: its connection is about to be closed
        thread.join(SECONDS)
    if thread.is_alive():
        raise AssertionError(f"the action did not end in {SECONDS} s")


def wait_until_blocked(database: Database, connection: Connection, seconds: float = 20) -> None:
    """Return as soon as this connection, busy in another thread, waits for a lock."""
    pid = connection.info.backend_pid
    deadline = time.monotonic() + seconds
    with database.server.admin(database.name) as watcher:
        while True:
            row = watcher.execute("select cardinality(pg_blocking_pids(%s))", [pid]).fetchone()
            if row is not None and row[0]:
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"nothing blocked the connection within {seconds} s")
            time.sleep(0.005)


class Crowd:
    """Connections that take random steps in transactions, of which some stay open."""

    def __init__(self, database: Database, seed: int) -> None:
        self.dice = random.Random(seed)
        self.owner = database.connect()
        self.idle = [database.connect(autocommit=False) for _ in range(4)]
        self.open: list[Connection] = []
        self.done: Counter[str] = Counter()
        for connection in self.idle:  # what is open may hold what others want
            connection.execute("set lock_timeout = '20ms'")
            connection.commit()

    def pick(self) -> tuple[Connection, bool]:
        """One to take a step on, and whether its transaction is open already."""
        again = bool(self.open) and self.dice.random() < 0.2
        return self.dice.choice(self.open if again else self.idle), again

    def attempt(
        self, connection: Connection, does: Callable[[Connection], None], *pardoned: str
    ) -> bool:
        """Take a step; false if the database refused it with one of these SQLSTATEs."""
        try:
            does(connection)
        except psycopg.Error as error:
            if error.sqlstate not in pardoned:
                raise
            connection.rollback()
            return False
        self.done[does.__name__] += 1
        return True

    def keep_open(self, connection: Connection) -> None:
        """Leave its transaction open until `end_one` comes to it."""
        self.idle.remove(connection)
        self.open.append(connection)

    def end_first(self, connection: Connection, stays_open: float) -> None:
        """After its first step: leave a transaction open, with that probability, or commit."""
        if len(self.idle) > 1 and self.dice.random() < stays_open:
            self.keep_open(connection)
        else:
            connection.commit()

    def end_one(self, commits: float) -> None:
        """Commit an open transaction, with that probability, or roll it back."""
        connection = self.open.pop(self.dice.randrange(len(self.open)))
        connection.commit() if self.dice.random() < commits else connection.rollback()
        self.idle.append(connection)

    def end_all(self) -> None:
        """Commit whatever is open."""
        for connection in self.open:
            connection.commit()
