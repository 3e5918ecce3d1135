"""Brings a database to the version of this code, and back.

`migrate` applies the pending migrations of `db/migrations` (by yoyo), then installs every changed
file of `procedures/` and `triggers/` in one transaction, drops what no file makes any more, sets
the grants and the schema version, and runs the scripts of `db/verify`. All of it happens under
one session advisory lock on one direct connection: not through a transaction-mode pooler.

Bookkeeping lives in a schema of its own, `lakequeue_migrations`, so that schema `lakequeue` holds
nothing but the product.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from lakequeue import database
from lakequeue.database import Connection
from lakequeue.errors import Problem

if TYPE_CHECKING:
    from yoyo.migrations import Migration, MigrationList

    from lakequeue.yoyo_backend import Backend

Progress = Callable[[str], None]
Kind = Literal["routine", "view", "trigger"]

OWNER = "lakequeue_owner"
BOOKKEEPING = "lakequeue_migrations"
SEARCH_PATH = "pg_catalog, lakequeue, pg_temp"
NOTHING = "nothing"
LOCK_WAIT_SECONDS = 600.0
# How long a statement waits for a table that others use. Whoever comes after it waits as well, so
# it is better to give up than to stop a queue behind a forgotten transaction.
LOCK_TIMEOUT = "60s"
# An advisory lock of all migrating sessions of a database, whatever their version.
LOCK_KEY = int.from_bytes(hashlib.sha256(b"lakequeue migrate").digest()[:8], signed=True)

_MIGRATION_NAME = re.compile(r"lakequeue-(\d{4})-[a-z0-9-]+")
_OBJECT_NAME = re.compile(r"[a-z_][a-z0-9_]*")


class MigrationError(Problem):
    """The database could not be brought to the wanted version; what failed was rolled back."""


class VersionMismatch(Problem):
    """The database has another schema version than this code, or none."""


# --- the files --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceFile:
    """A file of procedures/ or triggers/: it makes the objects that have its name."""

    path: str
    name: str
    is_trigger: bool
    text: str
    sha256: str


@dataclass(frozen=True)
class Source:
    """The folder with db, procedures and triggers, all of one version."""

    folder: Path

    @cached_property
    def migration_names(self) -> list[str]:
        """In the order in which they apply; there is always at least one."""
        folder = self.migrations_folder
        if not folder.is_dir():
            raise MigrationError(f"no folder {folder}", "this installation is incomplete")
        names = sorted(
            path.stem
            for path in folder.iterdir()
            if path.suffix in (".sql", ".py") and not path.name.endswith(".rollback.sql")
        )
        if not names:
            raise MigrationError(f"no migrations in {folder}", "this installation is incomplete")
        for name in names:
            _number(name)
        return names

    @property
    def migrations_folder(self) -> Path:
        return self.folder / "db" / "migrations"

    @property
    def version(self) -> int:
        """The number of the newest migration."""
        return max(map(_number, self.migration_names))

    @cached_property
    def files(self) -> list[SourceFile]:
        """The files that are installed anew whenever they change."""
        found: dict[str, SourceFile] = {}
        for kind in ("procedures", "triggers"):
            folder = self.folder / kind
            if not folder.is_dir():
                raise MigrationError(f"no folder {folder}", "this installation is incomplete")
            for path in sorted(folder.glob("*.sql")):
                relative = f"{kind}/{path.name}"
                if not _OBJECT_NAME.fullmatch(path.stem):
                    raise MigrationError(f"{relative}: the name of a file is that of its object")
                if path.stem in found:
                    raise MigrationError(f"{relative} has the name of {found[path.stem].path}")
                data = path.read_bytes()
                found[path.stem] = SourceFile(
                    path=relative,
                    name=path.stem,
                    is_trigger=kind == "triggers",
                    text=data.decode(),
                    sha256=hashlib.sha256(data).hexdigest(),
                )
        return list(found.values())

    @property
    def grants(self) -> str:
        path = self.folder / "db" / "grants.sql"
        if not path.is_file():
            raise MigrationError(f"no file {path}", "this installation is incomplete")
        return path.read_text()

    @property
    def verify_scripts(self) -> list[Path]:
        return sorted((self.folder / "db" / "verify").glob("*.sql"))


def installed_source() -> Source:
    """Of this package: inside it when it was installed from a wheel, else the checkout around."""
    package = Path(__file__).resolve().parent
    inside = package / "sql"
    return Source(inside if inside.is_dir() else package.parents[1])


@cache
def code_version() -> int:
    """The schema version that this code needs.

    Read once, since an upgrade puts newer files under a process that goes on with the old code.
    """
    return installed_source().version


def _number(migration: str) -> int:
    match = _MIGRATION_NAME.fullmatch(migration)
    if match is None:
        raise MigrationError(
            f"{migration} is not named like a migration", "name it lakequeue-NNNN-what"
        )
    return int(match.group(1))


# --- migrating --------------------------------------------------------------------------------


@dataclass
class Report:
    """What a migration did."""

    version: int
    applied: list[str] = field(default_factory=list)
    installed: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    verified: int = 0

    @property
    def changed(self) -> bool:
        return bool(self.applied or self.installed or self.dropped)


def migrate(
    conninfo: str = "", progress: Progress | None = None, source: Source | None = None
) -> Report:
    """Bring the database to the version of the source; `progress` gets lines of words."""
    source = source or installed_source()
    say = progress or _silent
    report = Report(version=source.version)
    _ = source.grants  # before anything is changed
    with _locked_session(conninfo, say) as conn:
        _make_bookkeeping(conn)
        report.applied = _apply_migrations(conn, source, say)
        _share_bookkeeping(conn)
        _install(conn, source, report, say)
        report.verified = _verify(conn, source)
    if not report.changed:
        say(f"nothing to do: schema version {report.version} is installed")
    else:
        say(f"schema version {report.version} is installed")
    return report


def _apply_migrations(conn: Connection, source: Source, say: Progress) -> list[str]:
    backend, migrations = _yoyo(conn, source)
    # Under the lock: another process may have applied some while we waited for it.
    unknown = [name for name in _applied(conn) if name not in source.migration_names]
    if unknown:
        raise MigrationError(
            f"the database has migrations that this version of Lakequeue does not know: "
            f"{', '.join(unknown)}",
            "use the newer Lakequeue, or revert with it first",
        )
    done = []
    for migration in backend.to_apply(migrations):
        with _in_words(f"migration {migration.id}"):
            backend.apply_one(migration)
        say(f"applied {migration.id}")
        done.append(migration.id)
    return done


def _install(conn: Connection, source: Source, report: Report, say: Progress) -> None:
    """Functions, views, triggers, grants and version: all or nothing."""
    with conn.transaction():
        _act_as_owner(conn)
        present = {(thing.kind == "trigger", thing.name) for thing in _things(conn).values()}
        known = _installed_hashes(conn)
        changed = [
            file
            for file in source.files
            if known.get(file.path) != file.sha256 or (file.is_trigger, file.name) not in present
        ]
        # Bodies are checked when everything is there: functions may call each other.
        conn.execute("set local check_function_bodies to off")
        report.installed = [file.path for file in _replace(conn, source.files, changed, say)]
        report.dropped = _drop_orphans(conn, source)
        with _in_words("db/grants.sql"):
            conn.execute(source.grants.encode())
        with _in_words("_set_schema_version"):
            conn.execute("select lakequeue._set_schema_version(%s)", [source.version])
        if report.installed:
            _check_bodies(conn, {Path(path).stem: path for path in report.installed})
        conn.execute("set local role none")
        _note_installed(conn, source.files)
    if report.installed:
        say(f"installed {len(report.installed)} of {len(source.files)} functions and triggers")
    if report.dropped:
        say(f"dropped {', '.join(report.dropped)}")


def _verify(conn: Connection, source: Source) -> int:
    scripts = source.verify_scripts
    for path in scripts:
        with (
            _in_words(f"verify/{path.name}", "everything is installed, but does not pass"),
            conn.transaction(force_rollback=True),
        ):
            _act_as_owner(conn)
            conn.execute("set local plpgsql.check_asserts to on")
            conn.execute(path.read_bytes())
    return len(scripts)


# --- functions, views and triggers ------------------------------------------------------------


@dataclass(frozen=True)
class _Thing:
    """An object of schema lakequeue that a file makes; `state` changes when it is replaced."""

    kind: Kind
    name: str
    shown: str
    state: str


class _CannotReplace(Exception):
    """`create or replace` does not do: what depends on the object has to go first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


# What depends on something that is not there yet: try again after the other files.
_LATER = {"42883", "42P01", "42704", "42703"}
# A changed return type or parameter name, changed view columns, dependants in the way, a plain
# `create`, another kind of object with the name.
_REPLACE = {"42P13", "42P16", "2BP01", "42710", "42723", "42P07", "42809"}


def _replace(
    conn: Connection, files: list[SourceFile], changed: list[SourceFile], say: Progress
) -> list[SourceFile]:
    """Install the changed files in place or, where that cannot be, everything from scratch."""
    try:
        with conn.transaction():
            _run_files(conn, changed)
        return changed
    except _CannotReplace as obstacle:
        say(f"installing all functions and triggers anew: {obstacle.reason}")
    with _in_words("dropping functions, views and triggers"):
        _drop(conn, _things(conn))
    try:
        _run_files(conn, files)
    except _CannotReplace as obstacle:
        raise MigrationError(obstacle.reason) from obstacle
    return files


def _run_files(conn: Connection, files: Iterable[SourceFile]) -> None:
    """Execute whole files; those that need what another one makes get another turn."""
    pending = list(files)
    while pending:
        failed: list[tuple[SourceFile, psycopg.Error]] = []
        for file in pending:
            try:
                with conn.transaction():
                    _run_file(conn, file)
            except psycopg.Error as error:
                if error.sqlstate in _REPLACE:
                    raise _CannotReplace(f"{file.path}: {_message(error)}") from error
                if error.sqlstate not in _LATER:
                    raise _error(file.path, error) from error
                failed.append((file, error))
        if len(failed) == len(pending):
            raise _error(failed[0][0].path, failed[0][1]) from failed[0][1]
        pending = [file for file, _ in failed]


def _run_file(conn: Connection, file: SourceFile) -> None:
    before = _things(conn)
    conn.execute(file.text.encode())
    after = _things(conn)
    made = {key for key, thing in after.items() if before.get(key) != thing}
    foreign = sorted(after[key].shown for key in made if after[key].name != file.name)
    if foreign:
        raise MigrationError(
            f"{file.path} makes {', '.join(foreign)}", "a file makes what has the file's name"
        )
    own = {key: thing for key, thing in after.items() if thing.name == file.name}
    if not any((thing.kind == "trigger") == file.is_trigger for thing in own.values()):
        what = "trigger" if file.is_trigger else "function or view"
        raise MigrationError(f"{file.path} makes no {what} {file.name}")
    # A new parameter makes a second function beside the old one, and calls become ambiguous.
    replaced = {
        key: thing for key, thing in own.items() if key not in made and thing.kind != "view"
    }
    if made and replaced:
        _drop(conn, replaced)


def _things(conn: Connection) -> dict[tuple[Kind, int], _Thing]:
    rows = _rows(
        conn,
        """
        with schema as (select oid from pg_namespace where nspname = 'lakequeue'),
        extension as (
          select d.classid, d.objid from pg_depend d where d.deptype = 'e')
        select 'routine', p.oid::bigint, p.proname,
               format('lakequeue.%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid)),
               p.ctid::text || p.xmin::text
          from pg_proc p join schema s on p.pronamespace = s.oid
         where (1255, p.oid) not in (select e.classid, e.objid from extension e)
        union all
        select 'view', c.oid::bigint, c.relname, format('lakequeue.%I', c.relname), ''
          from pg_class c join schema s on c.relnamespace = s.oid
         where c.relkind = 'v' and (1259, c.oid) not in (select e.classid, e.objid from extension e)
        union all
        select 'trigger', t.oid::bigint, t.tgname,
               format('%I on lakequeue.%I', t.tgname, c.relname), t.ctid::text || t.xmin::text
          from pg_trigger t
          join pg_class c on c.oid = t.tgrelid
          join schema s on s.oid = c.relnamespace
         where not t.tgisinternal and t.tgparentid = 0
        """,
    )
    return {(kind, oid): _Thing(kind, name, shown, state) for kind, oid, name, shown, state in rows}


def _drop(conn: Connection, things: dict[tuple[Kind, int], _Thing]) -> None:
    """Drop them in whatever order works; never by cascade, which could reach tables."""
    pending = [thing for _, thing in sorted(things.items(), key=lambda item: item[0], reverse=True)]
    while pending:
        left: list[_Thing] = []
        reason: psycopg.Error | None = None
        for thing in pending:
            try:
                with conn.transaction():
                    conn.execute(f"drop {thing.kind} {thing.shown}".encode())
            except psycopg.errors.DependentObjectsStillExist as error:
                left.append(thing)
                reason = error
        if reason is not None and len(left) == len(pending):
            raise reason
        pending = left


def _drop_orphans(conn: Connection, source: Source) -> list[str]:
    """Drop what no file makes: the files are the truth."""
    triggers = {file.name for file in source.files if file.is_trigger}
    names = {file.name for file in source.files}
    orphans = {
        key: thing
        for key, thing in _things(conn).items()
        if thing.name not in (triggers if thing.kind == "trigger" else names)
    }
    with _in_words("dropping what no file makes"):
        _drop(conn, orphans)
    return sorted(f"{thing.kind} {thing.shown}" for thing in orphans.values())


def _check_bodies(conn: Connection, paths: dict[str, str]) -> None:
    """What creating a function checks of its body, now that everything is there."""
    conn.execute("set local check_function_bodies to on")
    routines = _rows(
        conn,
        """
        select p.proname, p.oid::bigint, l.lanvalidator::regproc::text
          from pg_proc p join pg_language l on l.oid = p.prolang
         where p.pronamespace = 'lakequeue'::regnamespace and l.lanvalidator <> 0
         order by p.proname
        """,
    )
    for name, oid, validator in routines:
        if name in paths:
            with _in_words(paths[name]):
                check = sql.SQL("select {}({})").format(sql.Identifier(validator), sql.Literal(oid))
                conn.execute(check)


# --- reverting --------------------------------------------------------------------------------


def revert_to(
    conninfo: str,
    name: str,
    progress: Progress | None = None,
    source: Source | None = None,
) -> list[str]:
    """Revert every migration after `name`, or all of them if it is `nothing`.

    Functions, views and triggers belong to the newest version and are all dropped; `migrate`, of
    the version that goes with `name`, installs its own. Roles stay.
    """
    source = source or installed_source()
    say = progress or _silent
    with _locked_session(conninfo, say) as conn:
        applied = _applied(conn)
        kept = kept_by_revert(applied, name)
        later = applied[len(kept) :]
        if not later:
            say(f"nothing to do: {kept[-1]} is the newest migration that is applied")
            return []
        backend, migrations = _yoyo(conn, source)
        known = {migration.id: migration for migration in migrations}
        for migration in later:
            if migration not in known:
                raise MigrationError(
                    f"this version of Lakequeue does not know {migration}",
                    "revert with the newer Lakequeue",
                )
            if not (source.migrations_folder / f"{migration}.rollback.sql").is_file():
                raise MigrationError(f"{migration} has no rollback script, so it cannot be undone")
        doomed = [known[migration] for migration in reversed(later)]
        _revert(conn, backend, doomed)
        for migration in doomed:
            say(f"reverted {migration.id}")
        say(
            "functions, views and triggers are dropped: run `lakequeue migrate` of the version "
            "that you go back to"
            if kept
            else "the database holds nothing of Lakequeue but its migration log; its roles stay"
        )
        return [migration.id for migration in doomed]


def _revert(conn: Connection, backend: Backend, doomed: list[Migration]) -> None:
    for migration in doomed:
        migration.load()
    # One transaction, so that a failure changes nothing, unless a migration forbids one.
    whole = all(migration.use_transactions for migration in doomed)
    with backend.transaction() if whole else contextlib.nullcontext():
        with conn.transaction(), _in_words("dropping functions, views and triggers"):
            _act_as_owner(conn)
            _drop(conn, _things(conn))
            conn.execute("set local role none")
            conn.execute("delete from lakequeue_migrations.installed_files")
        for migration in doomed:
            with _in_words(f"reverting {migration.id}"):
                backend.rollback_one(migration)


def kept_by_revert(applied: list[str], name: str) -> list[str]:
    """The applied migrations up to `name`, which may be its number alone."""
    if not applied:
        raise MigrationError("no migration is applied, so there is nothing to revert")
    if name == NOTHING:
        return []
    for position, migration in enumerate(applied):
        if name == migration or (name.isdigit() and int(name) == _number(migration)):
            return applied[: position + 1]
    raise MigrationError(
        f"no migration {name} is applied", f"applied are {', '.join(applied)}, or say {NOTHING}"
    )


# --- looking ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Status:
    """How a database and this code compare."""

    code_version: int
    database_version: int | None
    applied: list[tuple[str, datetime]]
    pending: list[str]
    unknown: list[str]
    changed_files: list[str]
    removed_files: list[str]

    @property
    def up_to_date(self) -> bool:
        return not (self.pending or self.unknown or self.changed_files or self.removed_files)

    def lines(self) -> Iterator[str]:
        """For people."""
        for name, at in self.applied:
            mark = "  (unknown to this version of Lakequeue)" if name in self.unknown else ""
            yield f"applied  {name}  {at:%Y-%m-%d %H:%M:%S} UTC{mark}"
        yield from (f"pending  {name}" for name in self.pending)
        if self.applied and self.changed_files:
            yield from (f"changed  {path}" for path in self.changed_files)
        yield from (f"removed  {path}" for path in self.removed_files)
        found = "none" if self.database_version is None else str(self.database_version)
        yield f"schema version: {found} in the database, {self.code_version} in this code"
        if self.unknown:
            yield "the database is newer than this code: upgrade Lakequeue"
        elif self.up_to_date:
            yield "nothing to do"
        else:
            yield "run `lakequeue migrate`"


def status(conninfo: str = "", source: Source | None = None) -> Status:
    """Compare without changing anything, and without waiting for a migration that runs."""
    source = source or installed_source()
    with database.connect(conninfo, application_name="lakequeue migrate") as conn:
        database.check_server(conn)
        applied = _applied_with_times(conn)
        names = [name for name, _ in applied]
        known = _installed_hashes(conn)
        paths = {file.path: file.sha256 for file in source.files}
        return Status(
            code_version=source.version,
            database_version=_found_version(conn),
            applied=applied,
            pending=[name for name in source.migration_names if name not in names],
            unknown=[name for name in names if name not in source.migration_names],
            changed_files=[path for path, sha in paths.items() if known.get(path) != sha],
            removed_files=[path for path in known if path not in paths],
        )


def check_version(conn: psycopg.Connection[Any], source: Source | None = None) -> int:
    """The schema version, if it is the one that this code needs; else what to do."""
    database.check_server(conn)
    wanted = source.version if source else code_version()
    problem = version_problem(_found_version(conn), wanted)
    if problem is not None:
        raise problem
    return wanted


def version_problem(found: int | None, wanted: int | None = None) -> VersionMismatch | None:
    """Why a database of this version cannot be used, if so (None as version: not installed)."""
    wanted = code_version() if wanted is None else wanted
    if found is None:
        return VersionMismatch(
            "Lakequeue is not installed in this database", "run `lakequeue migrate`"
        )
    if found < wanted:
        return VersionMismatch(
            f"the database has schema version {found}, older than this code's {wanted}",
            "run `lakequeue migrate`",
        )
    if found > wanted:
        return VersionMismatch(
            f"the database has schema version {found}, newer than this code's {wanted}",
            "upgrade Lakequeue here (pip install --upgrade lakequeue) and restart what runs",
        )
    return None


def _found_version(conn: psycopg.Connection[Any]) -> int | None:
    try:
        found = database.call_value(conn, "schema_version")
    except database.NotInstalled:
        return None
    except psycopg.errors.InsufficientPrivilege as error:
        raise Problem(
            f"this login may not use Lakequeue: {_message(error)}",
            "grant it one of the roles lakequeue_app, _worker, _web, _agent, _operator, _reader",
        ) from error
    return None if found is None else int(found)


# --- bookkeeping ------------------------------------------------------------------------------


@contextlib.contextmanager
def _locked_session(conninfo: str, say: Progress) -> Iterator[Connection]:
    """A connection that only one process at a time has."""
    with contextlib.closing(
        database.connect(conninfo, application_name="lakequeue migrate")
    ) as conn:
        database.check_server(conn)
        # Statements are sent whole, and types change under them.
        conn.prepare_threshold = None
        conn.add_notice_handler(lambda notice: say(f"{notice.severity}: {notice.message_primary}"))
        conn.execute("set client_min_messages to warning")
        conn.execute(f"set lock_timeout to '{LOCK_TIMEOUT}'")
        conn.execute(
            """select set_config(name, '0', false) from pg_settings
                where name in ('statement_timeout', 'idle_in_transaction_session_timeout',
                               'transaction_timeout', 'idle_session_timeout')"""
        )
        _take_lock(conn, say)
        with database.errors_in_words():
            yield conn
        # Closing would do, but the next one in line should not have to wait for the server.
        conn.execute("select pg_advisory_unlock(%s)", [LOCK_KEY])


def _take_lock(conn: Connection, say: Progress) -> None:
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    told = False
    while not _rows(conn, "select pg_try_advisory_lock(%s)", [LOCK_KEY])[0][0]:
        holder = _rows(
            conn,
            """select l.pid from pg_locks l
                where l.locktype = 'advisory' and l.granted and l.objsubid = 1
                  and l.database = (select oid from pg_database where datname = current_database())
                  and (l.classid::bigint << 32) | l.objid::bigint = %s""",
            [LOCK_KEY],
        )
        who = f"server process {holder[0][0]}" if holder else "another process"
        if time.monotonic() > deadline:
            raise MigrationError(
                f"{who} has been migrating this database for {LOCK_WAIT_SECONDS / 60:g} minutes",
                "see what it does in pg_stat_activity",
            )
        if not told:
            say(f"{who} is migrating this database: waiting for it")
            told = True
        time.sleep(0.2)


def _make_bookkeeping(conn: Connection) -> None:
    if _exists(conn, f"{BOOKKEEPING}.installed_files"):
        return
    with _in_words("making the schema lakequeue_migrations"), conn.transaction():
        if not _rows(conn, "select 1 from pg_namespace where nspname = %s", [BOOKKEEPING]):
            conn.execute(f"create schema {BOOKKEEPING}")
        conn.execute(
            f"comment on schema {BOOKKEEPING} is "
            "'What `lakequeue migrate` has applied and installed.'"
        )
        conn.execute(
            f"""create table {BOOKKEEPING}.installed_files (
                  path text primary key,
                  sha256 text not null,
                  installed_at timestamptz not null default now())"""
        )
        conn.execute(
            f"comment on table {BOOKKEEPING}.installed_files is "
            "'Files of procedures/ and triggers/ as they were last installed.'"
        )


def _share_bookkeeping(conn: Connection) -> None:
    """Whoever may act as the owner may migrate next time, too."""
    owned = "select 1 from pg_namespace where nspname = %s and nspowner = current_user::regrole"
    if _rows(conn, owned, [BOOKKEEPING]):
        conn.execute(f"grant usage on schema {BOOKKEEPING} to {OWNER}")
        conn.execute(f"grant all on all tables in schema {BOOKKEEPING} to {OWNER}")


def _note_installed(conn: Connection, files: list[SourceFile]) -> None:
    paths = [file.path for file in files]
    conn.execute("delete from lakequeue_migrations.installed_files where path <> all(%s)", [paths])
    conn.execute(
        """insert into lakequeue_migrations.installed_files as f (path, sha256)
            select * from unnest(%s::text[], %s::text[])
            on conflict (path) do update set sha256 = excluded.sha256, installed_at = now()
             where f.sha256 <> excluded.sha256""",
        [paths, [file.sha256 for file in files]],
    )


def _installed_hashes(conn: Connection) -> dict[str, str]:
    if not _exists(conn, f"{BOOKKEEPING}.installed_files"):
        return {}
    return dict(_rows(conn, "select path, sha256 from lakequeue_migrations.installed_files"))


def _applied(conn: Connection) -> list[str]:
    return [name for name, _ in _applied_with_times(conn)]


def _applied_with_times(conn: Connection) -> list[tuple[str, datetime]]:
    if not _exists(conn, f"{BOOKKEEPING}._yoyo_migration"):
        return []
    rows = _rows(
        conn, "select migration_id, applied_at_utc from lakequeue_migrations._yoyo_migration"
    )
    return sorted((name, at.replace(tzinfo=UTC)) for name, at in rows)


def _exists(conn: Connection, table: str) -> bool:
    return bool(_rows(conn, "select to_regclass(%s) is not null", [table])[0][0])


def _yoyo(conn: Connection, source: Source) -> tuple[Backend, MigrationList]:
    # Imported here: programs that only check the version need none of it.
    from yoyo import read_migrations

    from lakequeue.yoyo_backend import Backend

    backend = Backend(conn)
    backend.ensure_internal_schema_updated()
    migrations = read_migrations(str(source.migrations_folder))
    if sorted(migration.id for migration in migrations) != source.migration_names:
        raise MigrationError(f"yoyo does not find the migrations in {source.migrations_folder}")
    return backend, migrations


def _act_as_owner(conn: Connection) -> None:
    """For this transaction: whatever it makes belongs to the owner role."""
    conn.execute(f"set local role {OWNER}")
    conn.execute(f"set local search_path to {SEARCH_PATH}")


def _rows(
    conn: psycopg.Connection[Any], query: str, parameters: list[Any] | None = None
) -> list[tuple[Any, ...]]:
    with conn.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(query.encode(), parameters).fetchall()


# --- errors -----------------------------------------------------------------------------------


@contextlib.contextmanager
def _in_words(what: str, hint: str | None = None) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise _error(what, error, hint) from error


_HINTS = {
    "42501": "the login must be a member of lakequeue_owner, or have CREATEROLE for the first "
    "migration, and needs CREATE on the database",
    "55P03": "something else uses the table: end it (see pg_stat_activity) and try again",
    "40P01": "something else uses the table: try again",
}


def _error(what: str, error: psycopg.Error, hint: str | None = None) -> Problem:
    if error.sqlstate is None or error.sqlstate.startswith(("08", "57P")):
        return database.DatabaseUnavailable(f"{what}: {_message(error)}")
    details = [
        hint,
        error.diag.message_detail,
        error.diag.message_hint,
        _HINTS.get(error.sqlstate),
        _place(error),
    ]
    return MigrationError(
        f"{what}: {_message(error)}", "; ".join(text for text in details if text) or None
    )


def _message(error: psycopg.Error) -> str:
    return error.diag.message_primary or str(error).strip()


def _place(error: psycopg.Error) -> str | None:
    """The line that libpq points at, or the place inside a function."""
    line = re.search(r"^LINE \d+: .*", str(error), re.MULTILINE)
    if line:
        return line.group(0)
    return error.diag.context.splitlines()[0] if error.diag.context else None


def _silent(line: str) -> None:
    del line
