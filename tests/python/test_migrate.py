"""Migrations and the installer: on the real files, and on small ones that change."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import threading
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Json
from yoyo.migrations import MigrationStep

from lakequeue import database as lakequeue_database
from lakequeue import migrate
from lakequeue.errors import Problem
from lakequeue.migrate import MigrationError, Source, Status, VersionMismatch
from lakequeue.yoyo_backend import Backend
from tests.race.scene import VIOLATIONS, call
from tests.servers import INSTALLER, Database, Server

REAL = migrate.installed_source()

on_one_server = pytest.mark.parametrize("server", ["embedded"], indirect=True)


# --- the real files ---------------------------------------------------------------------------


def test_deploy_revert_deploy_gives_the_same_catalog(
    empty_database: Database, pristine: Database
) -> None:
    """Whoever installs: a login with CREATEROLE here, one without in `pristine`, no superuser."""
    conninfo = empty_database.conninfo()
    before = _catalog(empty_database)
    report = migrate.migrate(conninfo)
    assert report.applied == REAL.migration_names
    assert report.verified == len(REAL.verify_scripts) >= len(REAL.migration_names)
    deployed = _catalog(empty_database)
    assert "CREATE FUNCTION lakequeue.dequeue_tasks" in deployed
    own = "--schema=lakequeue"
    assert _catalog(pristine, own) == _catalog(empty_database, own)

    reverted = migrate.revert_to(conninfo, "nothing")
    assert reverted == REAL.migration_names[::-1]
    assert _catalog(empty_database) == before

    migrate.migrate(conninfo)
    assert _catalog(empty_database) == deployed


def test_each_migration_reverts_to_what_was_before(
    empty_database: Database, tmp_path: Path
) -> None:
    """One by one: what a migration leaves behind would hide among the others."""

    def lines() -> list[str]:
        """In any order, since a column that is put back is its table's last."""
        return sorted(line.rstrip(",") for line in _catalog(empty_database).splitlines())

    conninfo = empty_database.conninfo()
    folder = tmp_path / "db" / "migrations"
    folder.mkdir(parents=True)
    deployed = []
    for name in REAL.migration_names:
        for path in REAL.migrations_folder.glob(f"{name}.*"):
            shutil.copy(path, folder)
        with migrate._locked_session(conninfo, print) as conn:
            migrate._make_bookkeeping(conn)
            assert migrate._apply_migrations(conn, Source(tmp_path), print) == [name]
        deployed.append(lines())
    migrate.migrate(conninfo)
    for name, before in zip(REAL.migration_names[-2::-1], deployed[-2::-1], strict=True):
        migrate.revert_to(conninfo, name)
        assert lines() == before


@on_one_server
def test_interrupted_at_any_statement_it_can_be_run_again(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each migration, each way, fails at each of its statements (but comments) and once more when
    it is marked, by an error or with its server process; so does the installer."""
    conninfo = empty_database.conninfo()
    admin = empty_database.server.admin(empty_database.name)
    left = 0  # statements until it happens
    deadly = False
    faults = 0
    execute, note, run_file = MigrationStep._execute, Backend._note, migrate._run_file

    def count_down(connection: psycopg.Connection[Any]) -> None:
        nonlocal left, faults
        left -= 1
        if left < 0:
            faults += 1
            if deadly:
                admin.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])
            connection.execute("select 1 / 0")

    def doomed_execute(step: Any, cursor: Any, statement: str, out: Any = None) -> None:
        if not statement.lower().startswith("comment on"):
            count_down(cursor.connection)
        execute(step, cursor, statement, out)

    def doomed_note(backend: Any, migration: Any, direction: str) -> None:
        count_down(backend._connection)
        note(backend, migration, direction)

    def doomed_file(connection: Any, file: Any) -> None:
        count_down(connection)
        run_file(connection, file)

    def state() -> object:
        return admin.execute(CATALOG_STATE).fetchone()

    with migrate._locked_session(conninfo, print) as conn:
        migrate._make_bookkeeping(conn)
        _, migrations = migrate._yoyo(conn, REAL)
    monkeypatch.setattr(MigrationStep, "_execute", doomed_execute)
    monkeypatch.setattr(Backend, "_note", doomed_note)
    conn = lakequeue_database.connect(conninfo)
    for apply, migration in [(True, m) for m in migrations] + [
        (False, m) for m in migrations[::-1]
    ]:
        before, statement = state(), 0
        while state() == before:
            left, deadly = statement, statement % 8 == 3
            if conn.closed:
                conn = lakequeue_database.connect(conninfo)
            conn.prepare_threshold = None
            with contextlib.suppress(psycopg.Error, Problem):
                if apply:
                    Backend(conn).apply_one(migration)
                else:
                    migrate._revert(conn, Backend(conn), [migration])
                assert left >= 0
            if left < 0:
                assert state() == before, f"{migration.id}, statement {statement + 1}"
            statement += 1
    conn.close()
    assert faults > 150
    monkeypatch.undo()

    monkeypatch.setattr(migrate, "_run_file", doomed_file)
    left, deadly = len(REAL.files) // 4, True
    with pytest.raises(Problem):
        migrate.migrate(conninfo)
    assert len(migrate.status(conninfo).changed_files) == len(REAL.files), "all or nothing"
    monkeypatch.undo()
    assert len(migrate.migrate(conninfo).installed) == len(REAL.files)
    assert migrate.status(conninfo).up_to_date
    admin.close()


# Differs as soon as anything of the product was made, changed, dropped or marked.
CATALOG_STATE = """
with own as (
  select c.oid, c.xmin from pg_class c where c.relnamespace = to_regnamespace('lakequeue')
)
select (select n.xmin::text from pg_namespace n where n.nspname = 'lakequeue'),
       (select string_agg(own.oid || ':' || own.xmin, ' ' order by own.oid) from own),
       (select string_agg(a.attrelid || ':' || a.attnum || ':' || a.xmin, ' '
                          order by a.attrelid, a.attnum)
          from pg_attribute a where a.attrelid in (select own.oid from own)),
       (select string_agg(c.oid || ':' || c.xmin, ' ' order by c.oid)
          from pg_constraint c where c.connamespace = to_regnamespace('lakequeue')),
       (select string_agg(p.oid || ':' || p.xmin, ' ' order by p.oid)
          from pg_proc p where p.pronamespace = to_regnamespace('lakequeue')),
       (select string_agg(t.oid || ':' || t.xmin, ' ' order by t.oid)
          from pg_type t where t.typnamespace = to_regnamespace('lakequeue')),
       (select string_agg(d.oid || ':' || d.xmin, ' ' order by d.oid) from pg_default_acl d),
       (select string_agg(m.migration_id, ' ' order by 1)
          from lakequeue_migrations._yoyo_migration m)
"""


@on_one_server
def test_runs_under_way_are_known_as_job_runs_after_the_migration(database: Database) -> None:
    """0007: an attempt notes its job; the one that was running when it came has one, too."""
    database.query(
        """select lakequeue.configure_agent('job', job_id => 7), lakequeue.configure_agent('here'),
                  lakequeue.enqueue_task('job', '/a'), lakequeue.enqueue_task('here', '/b')"""
    )
    database.query("select count(*) from lakequeue.dequeue_tasks('w', 2)")
    migrate.revert_to(database.conninfo(), "lakequeue-0005-throttle")
    migrate.migrate(database.conninfo())
    assert database.query(
        """select g.name, a.job_id from lakequeue.task_attempts a
             join lakequeue.agents g on g.id = a.agent_id order by g.name"""
    ) == [("here", None), ("job", 7)]


@on_one_server
def test_what_was_purged_before_the_migration_is_in_the_hours(database: Database) -> None:
    """0008: the hours of a day add up to it, also after the way back and forth."""
    database.query(
        """insert into lakequeue.purged_tasks
           values (1, 'acme', 'failed', timestamptz '2026-01-01 12:00+00', null, 3, 0, 0, 0, 0)"""
    )
    migrate.revert_to(database.conninfo(), "lakequeue-0007-copies")
    migrate.migrate(database.conninfo())
    assert database.query("select status::text, tasks from lakequeue.hourly_rollups") == [
        ("failed", 3)
    ]


@on_one_server
def test_what_was_told_before_the_migration_is_counted(database: Database) -> None:
    """0009: coverage and hours are those of the tasks there are, folded or not."""
    agent = database.connect()
    call(agent, "configure_agent", agent="a")
    usages: list[dict[str, Any]] = [
        {},
        {"input_tokens": 0},
        {"output_tokens": 7, "llm_cost": Decimal("0.5")},
    ]
    for number, used in enumerate(usages):
        call(agent, "enqueue_task", agent="a", document_path=f"/{number}")
        (row,) = call(agent, "dequeue_tasks", worker="w", batch_size=1)
        report = {"attempt": row["attempt_id"], "token": row["callback_token"]}
        call(agent, "record_callback", **report, outcome="success", result=Json({}), **used)
        if number == 1:
            call(agent, "fold_rollups")
    call(agent, "enqueue_task", agent="a", document_path="/waits")
    database.query(
        """with purged as (
             insert into lakequeue.purged_tasks
             values (1, 'acme', 'failed', lakequeue._hour(now()), null, 3, 0, 0, 0, 0))
           insert into lakequeue.task_rollups
           values (1, 'acme', 'failed', lakequeue._day(now()), 3, 0, 0, 0, 0)"""
    )
    told = database.query("select * from lakequeue.queue_metrics()")
    migrate.revert_to(database.conninfo(), "lakequeue-0008-dashboard")
    migrate.migrate(database.conninfo())
    problems = [row for (row,) in database.query(VIOLATIONS) if "hours:" not in row]
    assert problems == []
    after = database.query("select * from lakequeue.queue_metrics()")
    unknown = ("failed", 3, None, None, None, None, 3, 0, None)
    assert after == [unknown if row[0] == "failed" else row for row in told]


@on_one_server
def test_deltas_are_read_from_a_mark_on_whatever_was_there(database: Database) -> None:
    """0014: folded or not, before it, while it is reverted, and after."""
    owner = database.connect()
    call(owner, "configure_agent", agent="a")

    def add() -> None:
        for name in ("/1", "/2"):
            call(owner, "enqueue_task", agent="a", document_path=name)

    add()
    call(owner, "fold_rollups")
    add()
    told = database.query("select * from lakequeue.queue_metrics()")
    migrate.revert_to(database.conninfo(), "lakequeue-0013-attempts")
    assert database.value("select count(*) from lakequeue.task_deltas") == 2
    migrate.migrate(database.conninfo())
    assert database.query("select * from lakequeue.queue_metrics()") == told
    add()
    call(owner, "fold_rollups", batch_size=1)
    assert call(owner, "queue_metrics", statuses=["enqueued"])[0]["tasks"] == 6
    call(owner, "fold_rollups")
    assert call(owner, "queue_metrics", statuses=["enqueued"])[0]["tasks"] == 6


@on_one_server
def test_histograms_are_carried_over_by_the_migration(database: Database) -> None:
    """0015: of all agents, all customers and whole months, folded or not, there and back."""
    owner = database.connect()
    for agent in "ab":
        call(owner, "configure_agent", agent=agent)
    for number in range(12):
        owner.execute(
            "select test.set_clock(%s::timestamptz + %s * interval '9 days')",
            ["2026-01-28 12:00+00", number],
        )
        agent, customer = "ab"[number % 2], ("", "acme", "globex")[number % 3]
        call(owner, "enqueue_task", agent=agent, document_path="/d", customer=customer)
        (row,) = call(owner, "dequeue_tasks", worker="w", batch_size=1)
        owner.execute("select test.advance(make_interval(secs => %s))", [3**number % 1000])
        report = {"attempt": row["attempt_id"], "token": row["callback_token"]}
        call(owner, "record_callback", **report, outcome="success", result=Json({}))
        if number == 8:
            call(owner, "fold_rollups")
    rows = "select h.* from lakequeue.{} h order by h::text"
    tables = ("response_histogram", "hourly_histogram")
    kept = [database.query(rows.format(table)) for table in tables]
    assert all(len(found) > 4 * 3 for found in kept)
    migrate.revert_to(database.conninfo(), "lakequeue-0013-attempts")
    days = database.query("select count(*), sum(tasks) from lakequeue.response_histogram")
    assert days == [(9, 9)], "what was there before"
    migrate.migrate(database.conninfo())
    assert [sorted(map(str, database.query(rows.format(table)))) for table in tables] == [
        sorted(map(str, found)) for found in kept
    ]
    assert database.query(VIOLATIONS) == []
    call(owner, "fold_rollups")
    assert database.query(VIOLATIONS) == []


@on_one_server
def test_calls_that_are_open_are_read_after_the_migration(database: Database) -> None:
    """0016: what was asked for before it, or before it is reverted and applied again."""
    owner = database.connect()
    call(owner, "configure_agent", agent="a", reserves_calls=True, max_rpm=2)
    call(owner, "enqueue_task", agent="a", document_path="/1")
    (row,) = call(owner, "dequeue_tasks", worker="w", batch_size=1)
    ask = {"attempt": row["attempt_id"], "token": row["callback_token"]}
    ask |= {"input_tokens": 1, "max_output_tokens": 1}
    for answer in ("granted", "granted", "wait"):
        assert call(owner, "reserve_tokens", **ask)[0]["answer"] == answer
    read = """select lakequeue._note_calls(id), (
                select count(*) from lakequeue._open_calls(array[id], only_waiting => w))
                from lakequeue.model_endpoints, (values (false), (true)) v(w)"""
    counts = [3, 1]
    assert [count for _, count in database.query(read)] == counts
    database.query("select setval('lakequeue.model_calls_id_seq', 1000)")
    migrate.revert_to(database.conninfo(), "lakequeue-0015-histograms")
    migrate.migrate(database.conninfo())
    for _ in range(2):  # before they are moved, and after
        assert [count for _, count in database.query(read)] == counts
        assert database.query(VIOLATIONS) == []
    assert database.value("select min(place) from lakequeue.model_calls") >= 2**62
    assert call(owner, "reserve_tokens", **ask)[0]["answer"] == "wait"


@on_one_server
def test_failures_in_a_row_and_long_runs_are_kept_by_the_migration(database: Database) -> None:
    """0017, there and back: the newest count of each agent, and what was overtaken."""
    owner = database.connect()
    outcomes = {"a": [True, True], "b": [True, False], "c": [True, False, True], "d": []}
    for agent, failures in outcomes.items():
        call(owner, "configure_agent", agent=agent)
        for failed in failures:
            count = "select lakequeue._count_outcome((lakequeue._agent(%s)).id, %s, 'x')"
            owner.execute(count, [agent, failed])
    counts = {"a": 2, "b": 0, "c": 1, "d": 0}
    call(owner, "enqueue_task", agent="a", document_path="/1")
    call(owner, "dequeue_tasks", worker="w", batch_size=1)
    database.query("select setval('lakequeue.task_attempts_id_seq', 1000)")
    note = "select lakequeue._note_running(array(select id from lakequeue.model_endpoints))"
    runs = "select count(*) from lakequeue.model_endpoints, lakequeue._running(array[id])"
    owner.execute(note)
    read = "select agent, failures_in_a_row from lakequeue.agent_status()"
    assert dict(database.query(read)) == counts
    migrate.revert_to(database.conninfo(), "lakequeue-0016-calls")
    rows = "select name, failures_in_a_row from lakequeue.agents"
    assert dict(database.query(rows)) == counts
    assert database.value("select max(place) from lakequeue.task_attempts") <= 1000
    migrate.migrate(database.conninfo())
    assert dict(database.query(read)) == counts
    for _ in range(2):
        assert database.value(runs) == 1
        assert database.query(VIOLATIONS) == []
        owner.execute(note)


@on_one_server
def test_lessons_and_long_calls_are_kept_by_the_migration(database: Database) -> None:
    """0018, there and back: what each agent has learnt, and a call that was overtaken."""
    owner = database.connect()
    for agent in ("a", "b"):
        call(owner, "configure_agent", agent=agent, reserves_calls=True, max_rpm=9)
    owner.execute(
        """insert into lakequeue.learning_books
             (agent_id, no, learnt_at, learnt_from, estimate_error_p50, estimate_error_p95)
           select (lakequeue._agent('a')).id, n, '2026-01-01'::timestamptz + n * '1 day'::interval,
                  n, 0.1 * n, 0.2 * n
             from generate_series(1, 3) n"""
    )
    call(owner, "enqueue_task", agent="a", document_path="/1")
    (row,) = call(owner, "dequeue_tasks", worker="w", batch_size=1)
    ask = {"attempt": row["attempt_id"], "token": row["callback_token"]}
    ask |= {"input_tokens": 1, "max_output_tokens": 1}
    assert call(owner, "reserve_tokens", **ask)[0]["answer"] == "granted"
    database.query("select setval('lakequeue.model_calls_id_seq', 1000)")
    note = "select lakequeue._note_calls(id) from lakequeue.model_endpoints"
    calls = "select count(*) from lakequeue.model_endpoints, lakequeue._open_calls(array[id])"
    place = "select max(place) from lakequeue.model_calls"
    owner.execute(note)
    assert database.value(place) >= 2**62
    read = """select agent, learnt_from, estimate_error_p50, estimate_error_p95
                from lakequeue.agent_status()"""
    learnt = [("a", 3, pytest.approx(0.3), pytest.approx(0.6)), ("b", 0, None, None)]
    assert database.query(read) == learnt
    migrate.revert_to(database.conninfo(), "lakequeue-0017-versions")
    rows = """select name, learnt_from, estimate_error_p50, estimate_error_p95,
                     learnt_at::date::text
                from lakequeue.agents order by name"""
    assert database.query(rows) == [(*learnt[0], "2026-01-04"), (*learnt[1], None)]
    assert database.value(place) == 1000
    migrate.migrate(database.conninfo())
    assert database.query(read) == learnt
    for _ in range(2):  # before it is moved again, and after
        assert database.value(calls) == 1
        assert database.query(VIOLATIONS) == []
        owner.execute(note)


@on_one_server
def test_bills_from_before_the_migration_are_in_the_ledger(database: Database) -> None:
    """0019, there and back: billed in full or not, in two currencies, retried, live."""
    owner = database.connect()
    call(owner, "configure_agent", agent="a", job_id=7, max_attempts=1, retry_base="0 s")

    def run(task: int, outcome: str, **more: Any) -> int:
        (row,) = call(owner, "dequeue_tasks", worker="w", batch_size=1)
        assert row["task_id"] == task
        attempt: int = row["attempt_id"]
        call(owner, "record_runs", attempts=[attempt], run_ids=[attempt])
        report = {"attempt": attempt, "token": row["callback_token"], "outcome": outcome}
        call(owner, "record_callback", **report, **more)
        return attempt

    def enqueue(name: str) -> int:
        return int(call(owner, "enqueue_task", agent="a", document_path=name)[0]["enqueue_task"])

    tasks = {name: enqueue(f"/{name}") for name in ("full", "half", "live", "again", "unbilled")}
    done = {"result": Json({})}
    runs = [run(tasks["full"], "success", **done)]
    runs += [run(tasks[name], "permanent_failure") for name in ("half", "live", "again")]
    run(tasks["unbilled"], "success", **done)
    used: dict[str, str | None] = {"kind": "run", "sku": "JOBS", "unit": "DBU", "quantity": "1"}
    used["day"] = "2026-01-01"
    bill = [used | {"name": str(n), "currency": "USD", "cost": str(n)} for n in runs]
    bill.append(used | {"name": str(runs[0]), "currency": "EUR", "cost": "0.5"})
    bill.append(used | {"name": str(runs[1]), "sku": "NEW", "currency": "USD", "cost": None})
    (begun,) = call(owner, "begin_compute_fetch")
    call(owner, "record_compute_cost", fetch_id=begun["fetch_id"], workspace="w", rows=Json(bill))
    call(owner, "fold_rollups")
    call(owner, "retry_tasks", tasks=[tasks["live"], tasks["again"]])
    run(tasks["live"], "rate_limited")
    database.query(
        "update lakequeue.tasks set retry_at = now() + '1 day' where id = %s", tasks["live"]
    )
    run(tasks["again"], "success", **done)
    read = """select status, day, currency, tasks, ran, priced, cost, median_cost, median_of
                from lakequeue.cost_report(by => '{status,day}') where kind = 'compute'"""
    told = database.query(read)
    assert [row[:3] for row in told if row[0] != "completed"] == [
        ("enqueued", None, "USD"),
        ("failed", told[1][1], "USD"),
    ]
    assert database.query(VIOLATIONS) == []
    for fold in (False, True):
        if fold:
            call(owner, "fold_rollups")
        migrate.revert_to(database.conninfo(), "lakequeue-0018-lessons")
        migrate.migrate(database.conninfo())
        assert database.query(VIOLATIONS) == []
        assert database.query(read) == told


def test_everything_belongs_to_the_owner_role(pristine: Database) -> None:
    strangers = pristine.query(
        """select 'relation', relname, relowner::regrole from pg_class
            where relnamespace = 'lakequeue'::regnamespace
              and relowner <> 'lakequeue_owner'::regrole
           union all
           select 'routine', proname, proowner::regrole from pg_proc
            where pronamespace = 'lakequeue'::regnamespace
              and proowner <> 'lakequeue_owner'::regrole
           union all
           select 'type', typname, typowner::regrole from pg_type
            where typnamespace = 'lakequeue'::regnamespace
              and typowner <> 'lakequeue_owner'::regrole"""
    )
    assert strangers == []


def test_second_run_changes_nothing(pristine: Database) -> None:
    lines: list[str] = []
    report = migrate.migrate(pristine.conninfo(), lines.append)
    assert not report.changed
    assert lines == [f"nothing to do: schema version {REAL.version} is installed"]
    status = migrate.status(pristine.conninfo())
    assert status.up_to_date
    assert status.database_version == status.code_version == REAL.version


def test_another_administrator_may_migrate_next(empty_database: Database) -> None:
    migrate.migrate(empty_database.conninfo())
    with empty_database.server.admin(empty_database.name) as admin:
        admin.execute(f"grant create on database {empty_database.name} to {INSTALLER}".encode())
    assert not migrate.migrate(empty_database.conninfo(INSTALLER)).changed
    migrate.revert_to(empty_database.conninfo(INSTALLER), "nothing")
    assert migrate.migrate(empty_database.conninfo(INSTALLER)).changed


def test_a_stranger_is_told_what_is_missing(empty_database: Database) -> None:
    with pytest.raises(MigrationError, match="permission denied") as raised:
        migrate.migrate(empty_database.conninfo("test_stranger"))
    assert raised.value.hint
    assert "lakequeue_owner" in raised.value.hint


def test_several_at_once(empty_database: Database) -> None:
    """Each migration and file once, and the others wait."""
    barrier = threading.Barrier(4)
    reports: list[migrate.Report] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            barrier.wait()
            reports.append(migrate.migrate(empty_database.conninfo()))
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(report.changed for report in reports) == [False, False, False, True]


# --- another server ---------------------------------------------------------------------------


@pytest.mark.parametrize("server", ["debian"], indirect=True)
def test_a_dump_in_an_empty_server_keeps_every_rule(pristine: Database) -> None:
    """Of an older PostgreSQL, by plain logins; roles belong to a server, so they come first."""
    pristine.query("select lakequeue.configure_agent('a'), lakequeue.enqueue_task('a', '/1')")
    pristine.query("select lakequeue.enqueue_task('a', '/2')")
    pristine.query("select lakequeue.check_home()", user="test_worker")
    (claimed,) = pristine.query(
        "select attempt_id, callback_token from lakequeue.dequeue_tasks('w', 1)"
    )
    empty = Server("embedded")
    try:
        # As the newer server's pg_dump writes it, without the tests' own extension.
        pg_dump = empty.program("pg_dump")
        without = ("--exclude-schema=checker", "--exclude-extension=plpgsql_check")
        with empty.admin() as admin:
            admin.execute(f"create role {INSTALLER} login createrole".encode())
            admin.execute(f"create database restored owner {INSTALLER}".encode())
        restored = Database(empty, "restored", INSTALLER)
        roles = next(REAL.migrations_folder.glob("lakequeue-0001-*.sql")).read_text()
        restored.query(roles[: roles.index("end $$;")] + "end $$")
        with empty.admin() as admin:
            for login in ("worker", "agent", "stranger"):
                group = "" if login == "stranger" else f" in role lakequeue_{login}"
                admin.execute(f"create role test_{login} login{group}".encode())
        dump = subprocess.run(
            [pg_dump, *without, pristine.conninfo()], capture_output=True, check=True
        ).stdout
        subprocess.run(
            [
                empty.program("psql"),
                "--no-psqlrc",
                "--quiet",
                "--single-transaction",
                "--set=ON_ERROR_STOP=1",
                restored.conninfo(),
            ],
            input=dump,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        # Tables, functions with their settings, triggers, identities, privileges, comments.
        # (Each version writes what was parsed, views and functions, in its own way.)
        before, after = (
            re.sub(
                r"( AS\n SELECT|\n    RETURN) .*?;$",
                "",
                _catalog(each, *without, pg_dump=pg_dump),
                flags=re.S | re.M,
            )
            for each in (pristine, restored)
        )
        assert after == before
        assert "CREATE VIEW lakequeue.task_costs" in after
        assert not migrate.migrate(restored.conninfo()).changed
        restored.query(
            "set role lakequeue_owner; create function lakequeue.x() returns int return 1"
        )
        assert not restored.value(
            "select has_function_privilege('test_stranger', 'lakequeue.x()', 'execute')"
        )
        with pytest.raises(psycopg.Error, match="is a copy") as copy:
            restored.query("select lakequeue.check_home()", user="test_worker")
        assert copy.value.sqlstate == "LQ421"
        with pytest.raises(psycopg.Error) as guarded:
            restored.query(
                "update lakequeue.tasks set status = 'failed', finished_at = now() where id = 2"
            )
        assert guarded.value.sqlstate == "LQ409"
        restored.query("select lakequeue.move_here('the disk died')")
        answer = "select lakequeue.record_callback(%s, %s, 'success', '1')"
        assert restored.value(answer, *claimed, user="test_agent") == "accepted"
        tasks = "select task_id, attempt_id from lakequeue.dequeue_tasks('w', 1)"
        assert restored.query(tasks, user="test_worker") == [(2, claimed[0] + 1)]
        assert restored.value("select lakequeue.enqueue_task('a', '/3')") == 3
    finally:
        empty.stop()


# --- versions ---------------------------------------------------------------------------------


@on_one_server
def test_version_check(empty_database: Database, small: Small) -> None:
    with lakequeue_database.connect(empty_database.conninfo()) as conn:
        with pytest.raises(VersionMismatch, match="not installed") as none:
            migrate.check_version(conn, small.source)
        assert none.value.hint == "run `lakequeue migrate`"
        small.migrate()
        assert migrate.check_version(conn, small.source) == 2
        small.add_migration(3, "create table lakequeue.more (id int)", "drop table lakequeue.more")
        with pytest.raises(VersionMismatch, match=r"version 2, older than this code's 3") as older:
            migrate.check_version(conn, small.source)
        assert older.value.hint == "run `lakequeue migrate`"
        small.migrate()
        small.remove_migration(3)
        with pytest.raises(VersionMismatch, match=r"version 3, newer than this code's 2") as newer:
            migrate.check_version(conn, small.source)
        assert newer.value.hint
        assert "upgrade" in newer.value.hint


def test_version_check_by_each_role(pristine: Database) -> None:
    for user in ("test_app", "test_web", "test_worker", "test_agent", "test_operator"):
        with lakequeue_database.connect(pristine.conninfo(user)) as conn:
            assert migrate.check_version(conn) == REAL.version
    with (
        lakequeue_database.connect(pristine.conninfo("test_stranger")) as conn,
        pytest.raises(Problem, match="may not use Lakequeue"),
    ):
        migrate.check_version(conn)


@on_one_server
def test_a_newer_database_is_left_alone(small: Small) -> None:
    small.add_migration(3, "create table lakequeue.more (id int)", "drop table lakequeue.more")
    small.migrate()
    small.remove_migration(3)
    with pytest.raises(MigrationError, match="does not know: lakequeue-0003-more"):
        small.migrate()
    with pytest.raises(MigrationError, match="does not know lakequeue-0003-more"):
        small.revert_to("1")
    status = small.status()
    assert status.unknown == ["lakequeue-0003-more"]
    assert "the database is newer than this code: upgrade Lakequeue" in list(status.lines())


@on_one_server
def test_status_of_an_empty_database_changes_nothing(
    empty_database: Database, small: Small
) -> None:
    before = _catalog(empty_database)
    status = small.status()
    assert status.pending == ["lakequeue-0001-roles", "lakequeue-0002-things"]
    assert status.database_version is None
    assert list(status.lines())[-1] == "run `lakequeue migrate`"
    assert _catalog(empty_database) == before


# --- small files that change ------------------------------------------------------------------


@dataclass
class Small:
    """A small product in a folder of its own, on the real roles and schema."""

    folder: Path
    database: Database

    @property
    def source(self) -> Source:
        return Source(self.folder)  # a new one, which reads the files anew

    def migrate(self) -> migrate.Report:
        return migrate.migrate(self.database.conninfo(), source=self.source)

    def revert_to(self, name: str) -> list[str]:
        return migrate.revert_to(self.database.conninfo(), name, source=self.source)

    def status(self) -> Status:
        return migrate.status(self.database.conninfo(), self.source)

    def write(self, path: str, text: str) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def remove(self, path: str) -> None:
        (self.folder / path).unlink()

    def add_migration(self, number: int, deploy: str, revert: str, name: str = "more") -> None:
        base = f"db/migrations/lakequeue-{number:04}-{name}"
        self.write(f"{base}.sql", f"set local role lakequeue_owner;\n{deploy};\n")
        self.write(f"{base}.rollback.sql", f"set local role lakequeue_owner;\n{revert};\n")

    def remove_migration(self, number: int) -> None:
        for path in (self.folder / "db" / "migrations").glob(f"lakequeue-{number:04}-*"):
            path.unlink()

    def function(self, name: str, signature: str, returns: str, body: str) -> None:
        self.write(
            f"procedures/{name}.sql",
            f"create or replace function lakequeue.{name}({signature}) returns {returns}\n"
            f"language plpgsql as $$ begin {body} end $$;\n",
        )

    def value(self, statement: str) -> Any:
        with psycopg.connect(self.database.conninfo(), autocommit=True) as conn:
            conn.execute("set role lakequeue_owner")
            row = conn.execute(statement.encode()).fetchone()
            return row[0] if row else None


@pytest.fixture
def small(empty_database: Database, tmp_path: Path) -> Small:
    small = Small(tmp_path / "product", empty_database)
    for suffix in ("sql", "rollback.sql"):
        name = f"db/migrations/lakequeue-0001-roles.{suffix}"
        small.write(name, (REAL.folder / name).read_text())
    small.add_migration(
        2,
        "create table lakequeue.things (id int, version int)",
        "drop table lakequeue.things",
        "things",
    )
    small.write("db/grants.sql", "revoke all on all routines in schema lakequeue from public;\n")
    small.function(
        "_set_schema_version",
        "version int",
        "void",
        "delete from lakequeue.things t where t.id = 0; "
        "insert into lakequeue.things values (0, version);",
    )
    small.function(
        "schema_version",
        "",
        "int",
        "return (select t.version from lakequeue.things t where t.id = 0);",
    )
    small.write(
        "triggers/on_things.sql",
        "create or replace function lakequeue.on_things() returns trigger language plpgsql\n"
        "as $$ begin return new; end $$;\n"
        "create or replace trigger on_things before insert on lakequeue.things\n"
        "for each row execute function lakequeue.on_things();\n",
    )
    return small


@on_one_server
class TestInstaller:
    def test_changed_file_alone_is_installed(self, small: Small) -> None:
        small.function("answer", "", "int", "return 41;")
        small.migrate()
        before = small.value("select 'lakequeue.schema_version()'::regprocedure::oid")
        small.function("answer", "", "int", "return 42;")
        assert small.status().changed_files == ["procedures/answer.sql"]
        assert small.migrate().installed == ["procedures/answer.sql"]
        assert small.value("select lakequeue.answer()") == 42
        assert small.value("select 'lakequeue.schema_version()'::regprocedure::oid") == before

    def test_object_that_someone_dropped_comes_back(self, small: Small) -> None:
        small.function("answer", "", "int", "return 42;")
        small.migrate()
        with psycopg.connect(small.database.conninfo()) as conn:
            conn.execute("set role lakequeue_owner")
            conn.execute("drop function lakequeue.answer()")
            conn.execute("drop trigger on_things on lakequeue.things")
        assert small.migrate().installed == ["procedures/answer.sql", "triggers/on_things.sql"]

    def test_changed_return_type(self, small: Small) -> None:
        small.function("answer", "", "int", "return 42;")
        small.migrate()
        small.function("answer", "", "text", "return 'forty-two';")
        small.migrate()
        assert small.value("select lakequeue.answer()") == "forty-two"

    def test_new_parameter_leaves_no_overload(self, small: Small) -> None:
        small.function("answer", "a int", "int", "return a;")
        small.migrate()
        small.function("answer", "a int, b int = 2", "int", "return a + b;")
        report = small.migrate()
        assert report.installed == ["procedures/answer.sql"]
        assert small.value("select lakequeue.answer(40)") == 42
        assert small.value("select count(*) from pg_proc where proname = 'answer'") == 1

    def test_changed_function_that_a_view_uses(self, small: Small) -> None:
        small.function("answer", "", "int", "return 42;")
        view = "create or replace view lakequeue.answers as select lakequeue.answer() as answer;\n"
        small.write("procedures/answers.sql", view)
        small.function("read_answers", "", "setof lakequeue.answers", "return query table answers;")
        small.migrate()
        small.function("answer", "", "bigint", "return 43;")
        small.migrate()
        assert small.value("select answer from lakequeue.answers") == 43
        assert (
            small.value(
                "select format_type(atttypid, null) from pg_attribute "
                "where attrelid = 'lakequeue.answers'::regclass and attname = 'answer'"
            )
            == "bigint"
        )

    def test_changed_view_columns(self, small: Small) -> None:
        small.write(
            "procedures/pairs.sql", "create or replace view lakequeue.pairs as select 1 as a, 2 b;"
        )
        small.migrate()
        small.write(
            "procedures/pairs.sql", "create or replace view lakequeue.pairs as select 2 as b;"
        )
        small.migrate()
        assert small.value("select b from lakequeue.pairs") == 2

    def test_files_may_need_each_other_in_any_order(self, small: Small) -> None:
        """a is a view on function z, m returns rows of a, and b reads m when it is made."""
        small.write(
            "procedures/a.sql", "create or replace view lakequeue.a as select lakequeue.z() z;"
        )
        small.write(
            "procedures/b.sql", "create or replace view lakequeue.b as select * from lakequeue.m();"
        )
        small.function("m", "", "setof lakequeue.a", "return query select * from lakequeue.a;")
        small.function("z", "", "int", "return 26;")
        small.migrate()
        assert small.value("select z from lakequeue.b") == 26
        small.function("z", "", "text", "return 'zz';")
        small.migrate()
        assert small.value("select z from lakequeue.b") == "zz"

    def test_function_becomes_a_view(self, small: Small) -> None:
        small.function("answers", "", "int", "return 42;")
        small.migrate()
        small.write("procedures/answers.sql", "create view lakequeue.answers as select 42 as a;")
        small.migrate()
        assert small.value("select a from lakequeue.answers") == 42
        assert small.value("select count(*) from pg_proc where proname = 'answers'") == 0

    def test_plain_create_without_replace(self, small: Small) -> None:
        small.write("procedures/v.sql", "create view lakequeue.v as select 1 as a;")
        small.migrate()
        small.write("procedures/v.sql", "create view lakequeue.v as select 2 as a;")
        small.migrate()
        assert small.value("select a from lakequeue.v") == 2

    def test_what_no_file_makes_is_dropped(self, small: Small) -> None:
        small.function("answer", "", "int", "return 42;")
        small.write("procedures/v.sql", "create view lakequeue.v as select lakequeue.answer() a;")
        small.migrate()
        with psycopg.connect(small.database.conninfo()) as conn:
            conn.execute("set role lakequeue_owner")
            conn.execute("create function lakequeue.by_hand() returns int return 1")
        for path in ("procedures/answer.sql", "procedures/v.sql", "triggers/on_things.sql"):
            small.remove(path)
        assert small.status().removed_files == [
            "procedures/answer.sql",
            "procedures/v.sql",
            "triggers/on_things.sql",
        ]
        assert small.migrate().dropped == [
            "routine lakequeue.answer()",
            "routine lakequeue.by_hand()",
            "routine lakequeue.on_things()",
            "trigger on_things on lakequeue.things",
            "view lakequeue.v",
        ]
        assert small.status().up_to_date

    def test_trigger_moves_to_another_table(self, small: Small) -> None:
        small.migrate()
        small.add_migration(3, "create table lakequeue.more (id int)", "drop table lakequeue.more")
        path = small.folder / "triggers" / "on_things.sql"
        path.write_text(path.read_text().replace("on lakequeue.things", "on lakequeue.more"))
        small.migrate()
        where = "select string_agg(tgrelid::regclass::text, ',') from pg_trigger"
        assert small.value(f"{where} where tgname = 'on_things'") == "lakequeue.more"

    def test_signature_of_a_trigger_function_with_its_trigger(self, small: Small) -> None:
        small.migrate()
        path = small.folder / "triggers" / "on_things.sql"
        path.write_text(path.read_text().replace("create or replace trigger", "create trigger"))
        small.migrate()
        assert small.value("select count(*) from pg_trigger where tgname = 'on_things'") == 1

    def test_never_drops_what_a_table_needs(self, small: Small) -> None:
        """By cascade, a default or a generated column would go with its function."""
        small.function("answer", "", "int", "return 42;")
        small.migrate()
        with psycopg.connect(small.database.conninfo()) as conn:
            conn.execute("set role lakequeue_owner")
            conn.execute("create table lakequeue.mine (a int default lakequeue.answer())")
        small.function("answer", "", "text", "return '42';")
        with pytest.raises(MigrationError, match="cannot drop function") as changed:
            small.migrate()
        assert changed.value.hint
        assert "mine" in changed.value.hint
        small.remove("procedures/answer.sql")
        with pytest.raises(MigrationError, match="cannot drop function") as removed:
            small.migrate()
        assert removed.value.hint
        assert "mine" in removed.value.hint
        assert small.value("select lakequeue.answer()") == 42

    def test_percent_signs_and_dollar_quotes(self, small: Small) -> None:
        small.function("answer", "", "text", "return format('%s %% %L $q$ ; $q$', 1, ':x');")
        small.migrate()
        assert small.value("select lakequeue.answer()") == "1 % ':x' $q$ ; $q$"

    def test_public_may_execute_nothing(self, small: Small) -> None:
        small.function("answer", "", "int", "return 42;")
        small.migrate()
        small.function("answer", "", "text", "return '42';")
        small.migrate()
        public = (
            "select count(*) from pg_proc p where pronamespace = 'lakequeue'::regnamespace "
            "and has_function_privilege('test_stranger', p.oid, 'execute')"
        )
        assert small.value(public) == 0


@on_one_server
class TestFailures:
    """A failure says where and why, and changes nothing."""

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            ("retrun 1;", "syntax error"),
            ("return (select nothing_such;", "syntax error|missing|mismatched"),
        ],
    )
    def test_broken_body(self, small: Small, body: str, reason: str) -> None:
        small.function("answer", "", "int", "return 42;")
        small.migrate()
        small.function("first", "", "int", "return 1;")
        small.function("answer", "", "int", body)
        with pytest.raises(MigrationError, match=rf"procedures/answer.sql: .*({reason})"):
            small.migrate()
        assert small.value("select lakequeue.answer()") == 42
        assert small.value("select to_regproc('lakequeue.first')") is None
        assert small.status().changed_files == ["procedures/answer.sql", "procedures/first.sql"]

    def test_broken_body_of_a_sql_function(self, small: Small) -> None:
        small.write(
            "procedures/answer.sql",
            "create function lakequeue.answer() returns int language sql\n"
            "as $$ select a.no_such_column from lakequeue.things a $$;\n",
        )
        with pytest.raises(
            MigrationError, match=r"procedures/answer.sql: column .* does not exist"
        ):
            small.migrate()

    def test_missing_table_of_a_view(self, small: Small) -> None:
        small.write("procedures/v.sql", "create view lakequeue.v as select * from lakequeue.gone;")
        with pytest.raises(MigrationError, match=r"procedures/v.sql: relation .* does not exist"):
            small.migrate()

    def test_file_that_makes_something_else(self, small: Small) -> None:
        small.write(
            "procedures/answer.sql", "create function lakequeue.other() returns int return 1;"
        )
        with pytest.raises(MigrationError, match=r"answer.sql makes lakequeue.other\(\)"):
            small.migrate()

    def test_file_that_makes_nothing(self, small: Small) -> None:
        small.write("procedures/answer.sql", "select 1;")
        with pytest.raises(MigrationError, match="makes no function or view answer"):
            small.migrate()
        small.remove("procedures/answer.sql")
        small.write(
            "triggers/answer.sql",
            "create function lakequeue.answer() returns trigger language plpgsql "
            "as $$ begin return new; end $$;",
        )
        with pytest.raises(MigrationError, match="makes no trigger answer"):
            small.migrate()

    def test_same_name_twice(self, small: Small) -> None:
        small.function("on_things", "", "int", "return 1;")
        with pytest.raises(MigrationError, match="has the name of"):
            small.migrate()

    def test_migration_fails_half_way(self, small: Small) -> None:
        small.add_migration(3, "create table lakequeue.more (id int);\nselect 1/0", "select 1")
        with pytest.raises(MigrationError, match="migration lakequeue-0003-more: division by zero"):
            small.migrate()
        assert small.status().pending == ["lakequeue-0003-more"]
        assert small.value("select to_regclass('lakequeue.more')") is None
        small.add_migration(3, "create table lakequeue.more (id int)", "drop table lakequeue.more")
        assert small.migrate().applied == ["lakequeue-0003-more"]

    def test_verify_script_fails(self, small: Small) -> None:
        small.write(
            "db/verify/lakequeue-0002-things.sql",
            "insert into lakequeue.things values (7, 7);\n"
            "do $$ begin assert false, 'things are bad'; end $$;\n",
        )
        with pytest.raises(MigrationError, match="things are bad") as raised:
            small.migrate()
        assert raised.value.hint
        assert "does not pass" in raised.value.hint
        assert small.value("select count(*) from lakequeue.things where id = 7") == 0

    def test_grants_fail(self, small: Small) -> None:
        small.write("db/grants.sql", "grant execute on function lakequeue.gone() to lakequeue_app;")
        with pytest.raises(MigrationError, match=r"db/grants.sql: function .* does not exist"):
            small.migrate()

    def test_missing_and_empty_folders(self, small: Small) -> None:
        for name in small.source.migration_names:
            for suffix in ("sql", "rollback.sql"):
                small.remove(f"db/migrations/{name}.{suffix}")
        with pytest.raises(MigrationError, match="no migrations in"):
            small.migrate()
        (small.folder / "db" / "migrations").rmdir()
        with pytest.raises(MigrationError, match="no folder"):
            small.migrate()

    def test_missing_grants(self, small: Small) -> None:
        small.remove("db/grants.sql")
        with pytest.raises(MigrationError, match=r"no file .*grants\.sql"):
            small.migrate()
        assert small.status().applied == []

    def test_wrong_name_of_a_migration(self, small: Small) -> None:
        small.write("db/migrations/0003-more.sql", "select 1;")
        with pytest.raises(MigrationError, match="not named like a migration"):
            small.migrate()

    def test_table_in_use(self, small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "100ms")
        small.migrate()
        small.add_migration(
            3, "alter table lakequeue.things add more int", "alter table lakequeue.things drop more"
        )
        with psycopg.connect(small.database.conninfo()) as conn:
            conn.execute("set role lakequeue_owner")
            conn.execute("select * from lakequeue.things")
            with pytest.raises(MigrationError, match="lock timeout") as raised:
                small.migrate()
            assert raised.value.hint
            assert "pg_stat_activity" in raised.value.hint
            conn.rollback()
        assert small.migrate().applied == ["lakequeue-0003-more"]

    def test_another_migration_is_running(self, small: Small) -> None:
        lines: list[str] = []
        waiting = threading.Event()

        def say(line: str) -> None:
            lines.append(line)
            waiting.set()

        with psycopg.connect(small.database.conninfo(), autocommit=True) as holder:
            holder.execute("select pg_advisory_lock(%s)", [migrate.LOCK_KEY])
            pid = holder.info.backend_pid
            thread = threading.Thread(
                target=migrate.migrate, args=(small.database.conninfo(), say, small.source)
            )
            thread.start()
            assert waiting.wait(30)
            assert lines == [f"server process {pid} is migrating this database: waiting for it"]
            assert small.status().applied == []
        thread.join()
        assert lines[-1] == "schema version 2 is installed"

    def test_killed_in_the_middle(self, small: Small) -> None:
        """No lock and no half-done migration stays behind."""
        small.migrate()
        small.add_migration(
            3,
            "create table lakequeue.more (id int);\nset local role none;\n"
            "select pg_terminate_backend(pg_backend_pid())",
            "drop table lakequeue.more",
        )
        with pytest.raises(lakequeue_database.DatabaseUnavailable):
            small.migrate()
        assert small.value("select to_regclass('lakequeue.more')") is None
        small.add_migration(3, "create table lakequeue.more (id int)", "drop table lakequeue.more")
        assert small.migrate().applied == ["lakequeue-0003-more"]

    def test_output_of_a_query_stays_off_standard_output(
        self, small: Small, capsys: pytest.CaptureFixture[str]
    ) -> None:
        small.add_migration(3, "select 'a row of text'", "select 1")
        small.migrate()
        assert capsys.readouterr().out == ""

    def test_without_transaction(self, small: Small) -> None:
        small.migrate()
        small.write(
            "db/migrations/lakequeue-0003-index.sql",
            "-- transactional: false\n"
            "set role lakequeue_owner;\n"
            "create index concurrently things_id on lakequeue.things (id);\n",
        )
        small.write(
            "db/migrations/lakequeue-0003-index.rollback.sql", "drop index lakequeue.things_id;\n"
        )
        assert small.migrate().applied == ["lakequeue-0003-index"]
        assert small.migrate().changed is False
        assert small.revert_to("2") == ["lakequeue-0003-index"]


@on_one_server
class TestRevert:
    def test_to_a_name_or_number(self, small: Small) -> None:
        small.add_migration(3, "create table lakequeue.more (id int)", "drop table lakequeue.more")
        small.migrate()
        assert small.revert_to("lakequeue-0002-things") == ["lakequeue-0003-more"]
        assert small.value("select to_regclass('lakequeue.things')") is not None
        assert (
            small.value(
                "select count(*) from pg_proc where pronamespace = 'lakequeue'::regnamespace"
            )
            == 0
        )
        assert small.status().database_version is None
        assert small.migrate().applied == ["lakequeue-0003-more"]
        assert small.revert_to("3") == []
        assert small.revert_to("1") == ["lakequeue-0003-more", "lakequeue-0002-things"]

    def test_all_or_nothing(self, small: Small) -> None:
        small.add_migration(3, "create table lakequeue.more (id int)", "drop table lakequeue.more")
        small.write("db/migrations/lakequeue-0002-things.rollback.sql", "select 1/0;")
        small.migrate()
        before = _catalog(small.database)
        with pytest.raises(MigrationError, match="reverting lakequeue-0002-things: division"):
            small.revert_to("nothing")
        assert _catalog(small.database) == before
        assert small.status().up_to_date

    def test_unknown_name(self, small: Small) -> None:
        small.migrate()
        with pytest.raises(MigrationError, match="no migration never is applied") as raised:
            small.revert_to("never")
        assert raised.value.hint
        assert "lakequeue-0001-roles, lakequeue-0002-things" in raised.value.hint

    def test_without_rollback_script(self, small: Small) -> None:
        small.migrate()
        small.remove("db/migrations/lakequeue-0002-things.rollback.sql")
        with pytest.raises(MigrationError, match="has no rollback script"):
            small.revert_to("1")

    def test_nothing_applied(self, small: Small) -> None:
        with pytest.raises(MigrationError, match="nothing to revert"):
            small.revert_to("nothing")

    def test_roles_stay(self, small: Small) -> None:
        small.migrate()
        small.revert_to("nothing")
        with psycopg.connect(small.database.conninfo()) as conn:
            row = conn.execute("select to_regrole('lakequeue_owner') is not null").fetchone()
        assert row == (True,)


def _catalog(database: Database, *options: str, pg_dump: str | None = None) -> str:
    """Everything in the database but the bookkeeping, as pg_dump tells it."""
    dump = subprocess.run(
        [
            pg_dump or database.server.program("pg_dump"),
            "--schema-only",
            "--exclude-schema=lakequeue_migrations",
            *options,
            database.server.conninfo(database.name),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    # Newer versions put a random word into two lines.
    lines = [line for line in dump.stdout.splitlines() if not line.startswith(("\\", "--"))]
    return "\n".join(lines)
