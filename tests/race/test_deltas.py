"""Rules 15 and 16: the mark behind which deltas are read passes none that somebody could commit.

Everybody reads deltas from fold_books' mark on, so one that is committed below it would be lost to
all numbers for ever. So here writers have drawn ids and stay open while folds and others go on.
`assert_sound` says so if any delta is below the mark.
"""

from __future__ import annotations

import random

import pytest

from tests.race.harness import Connection, holding
from tests.race.scene import (
    assert_sound,
    call,
    claim,
    configure,
    enqueue,
    report,
    violations,
)
from tests.servers import Database, temporary

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)

SEQUENCE = "lakequeue.task_deltas_id_seq"
ADD = "select lakequeue.enqueue_task('parser', '/late')"
ADD_A_DELTA = """
insert into lakequeue.task_deltas (agent_id, customer, tasks, to_status)
select id, '', 0, 'enqueued' from lakequeue.agents
"""
FOLD = "select lakequeue.fold_rollups(%s)"
# Of one snapshot: what there is, and what those say who read rollups and deltas.
COUNTED = "select count(*) from lakequeue.tasks where status = 'enqueued'"
TOLD = """
select array[
  (select coalesce(sum(l.tasks), 0) from lakequeue._ledger(
     lakequeue._agent_ids(null), lakequeue._statuses('{enqueued}'), null) l),
  (select sum(lakequeue._enqueued(a.id)) from lakequeue.agents a),
  (select sum(s.enqueued) from lakequeue.agent_status() s),
  (select m.tasks from lakequeue.queue_metrics() m where m.status = 'enqueued')]
"""


def mark(database: Database) -> int:
    return int(database.value("select lakequeue._folded_to()"))


def drawn(database: Database) -> int:
    return int(database.value("select coalesce(pg_sequence_last_value(%s), 0)", SEQUENCE))


def fold(database: Database, times: int = 4, most: int = 100) -> int:
    """Fold now and again; returns the mark."""
    for _ in range(times):
        database.query(FOLD, most)
    return mark(database)


def assert_told(connection: Connection) -> None:
    """What readers say is what there is, in this transaction."""
    (counted,) = connection.execute(COUNTED).fetchone() or (None,)
    (told,) = connection.execute(TOLD).fetchone() or (None,)
    assert told == [counted] * 4


@pytest.mark.parametrize("prepared", [False, True])
def test_the_mark_waits_for_whoever_has_drawn_an_id(database: Database, prepared: bool) -> None:
    configure(database)
    enqueue(database, 2)
    assert fold(database) == drawn(database), "nobody writes, so it moves on at once"
    with holding(database) as late:
        # What has notified cannot be prepared.
        late.execute(ADD_A_DELTA if prepared else ADD)
        mine = drawn(database)
        for _ in range(3):
            enqueue(database, 1)
            claim(database)
            assert fold(database) < mine, "others have committed younger ones, and they are folded"
        if prepared:
            late.execute("prepare transaction 'late'")
            enqueue(database, 1)
            assert fold(database) < mine
            database.query("commit prepared 'late'")
        late.commit()
        assert_sound(database)
        assert database.value("select min(d.id) from lakequeue.task_deltas d") == mine
    assert fold(database) == drawn(database), "now it moves on"
    assert database.value("select count(*) from lakequeue.task_deltas") == 0
    assert_sound(database)


def test_it_waits_for_each_of_several(database: Database) -> None:
    """Whoever comes after the note does not hold back what was noted."""
    configure(database)
    fold(database)
    with holding(database) as first:
        first.execute(ADD)
        assert fold(database) < (a := drawn(database))
        with holding(database) as second:
            second.execute(ADD)
            b = drawn(database)
            first.commit()
            assert a <= fold(database) < b
            with holding(database) as third:
                third.execute(ADD)
                second.rollback()
                assert b <= fold(database) < drawn(database)
    assert fold(database) == drawn(database)
    assert_sound(database)


def test_a_fold_with_an_old_snapshot_moves_nothing(database: Database) -> None:
    """It sees that the writer has ended, and not what that has written."""
    configure(database)
    enqueue(database, 1)
    fold(database)
    with holding(database) as late, holding(database) as old:
        late.execute(ADD)
        fold(database)
        old.execute("set transaction isolation level repeatable read")
        old.execute("select count(*) from lakequeue.agents")
        late.commit()
        old.execute(FOLD, [100])
    assert_sound(database)
    assert fold(database) == drawn(database)
    assert_sound(database)


def test_a_writer_in_another_database_stalls_nothing(database: Database) -> None:
    """Nor one of a copy of this one, whose tables have the same oids."""
    configure(database)
    with temporary(database.server.clone) as copy:
        configure(copy)
        with holding(copy) as elsewhere:
            elsewhere.execute(ADD)
            before = mark(database)
            enqueue(database, 1)
            assert before < fold(database) == drawn(database)


def test_whatever_happens_numbers_are_exact(database: Database) -> None:
    """Random steps, some in transactions that stay open, some of readers with old snapshots."""
    configure(database, max_attempts=2)
    dice = random.Random(8)
    connections = [database.connect(autocommit=False) for _ in range(4)]
    watcher = database.connect()
    is_open: dict[Connection, str] = {}
    marks: set[int] = set()
    held_back = 0

    def act(connection: Connection) -> str:
        """Something that is left open: a writer, one that has taken a part back, or a reader."""
        what = dice.choice(["writes", "writes", "takes back", "reads", "ends one"])
        if what == "reads":
            connection.execute("set transaction isolation level repeatable read")
            assert_told(connection)
            return what
        connection.execute("savepoint a")
        connection.execute(ADD)
        if what == "takes back":
            connection.execute("rollback to a")
        if what == "ends one":
            for row in call(connection, "dequeue_tasks", worker="w", batch_size=1):
                if row["outcome"] == "claimed":
                    report(connection, row, dice.choice(["failure", "permanent_failure"]))
        return what

    for _ in range(70):
        step = dice.random()
        if step < 0.45:
            watcher.execute(FOLD, [dice.choice([1, 3, 100])])
        elif step < 0.7 and is_open:
            connection = dice.choice(list(is_open))
            if is_open.pop(connection) == "reads":
                assert_told(connection)
            connection.commit() if dice.random() < 0.7 else connection.rollback()
        elif len(is_open) < len(connections):
            connection = dice.choice([one for one in connections if one not in is_open])
            is_open[connection] = act(connection)
            if dice.random() < 0.4:
                connection.commit()
                is_open.pop(connection)
        else:
            enqueue(database, 1)
        assert violations(watcher) == []
        assert_told(watcher)
        marks.add(mark(database))
        held_back += mark(database) < drawn(database)
    # Something must have happened for that to mean something.
    assert len(marks) >= 6, marks
    assert held_back >= 15
    for connection in is_open:
        connection.commit()
        connection.close()
    assert fold(database) == drawn(database)
    assert_sound(database)


def test_a_sequence_that_was_set_back_hides_no_delta(database: Database) -> None:
    configure(database)
    enqueue(database, 3)
    assert fold(database) > 0
    database.query("select setval(%s, 1)", SEQUENCE)  # as after some copies of a database
    enqueue(database, 2)
    fold(database)
    assert database.value("select count(*) from lakequeue.task_deltas") == 0
    assert_told(database.connect())
    assert_sound(database)
