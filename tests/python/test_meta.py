"""What must hold for every SQL object and file: tests, comments, privileges, style.

The database tests look at a pristine installation on each server.
"""

from __future__ import annotations

import re
from pathlib import Path

import pglast
import pytest
from pglast import ast

from lakequeue.web import formats, views
from tests.servers import GROUPS, Database

ROOT = Path(__file__).resolve().parents[2]
PROCEDURES = sorted((ROOT / "procedures").glob("*.sql"))
TRIGGERS = sorted((ROOT / "triggers").glob("*.sql"))
MIGRATIONS = [
    path
    for path in sorted((ROOT / "db" / "migrations").glob("*.sql"))
    if not path.name.endswith(".rollback.sql")
]
SQL_FILES = [
    *PROCEDURES,
    *TRIGGERS,
    *sorted((ROOT / "db").rglob("*.sql")),
]
# On these paths a foreign key to a hot parent cost a third of the rate.
HOT_TABLES = ("tasks", "task_attempts", "results", "task_events", "task_deltas")
MOST_INDEXES_A_ROW = 4
MAX_LINE = 150

by_name = pytest.mark.parametrize(
    "path", SQL_FILES, ids=lambda path: f"{path.parent.name}/{path.name}"
)


def column(rows: list[tuple[object, ...]]) -> list[object]:
    return [row[0] for row in rows]


# --- files --------------------------------------------------------------------------------------


def test_there_are_files() -> None:
    assert PROCEDURES
    assert TRIGGERS
    assert MIGRATIONS


def test_every_function_and_trigger_has_a_pgtap_file() -> None:
    untested = [
        f"{path.parent.name}/{path.name}"
        for path in (*PROCEDURES, *TRIGGERS)
        if not (ROOT / "tests" / "pgtap" / f"test_{path.name}").is_file()
    ]
    assert untested == []


def test_every_migration_can_be_reverted_and_verified() -> None:
    for path in MIGRATIONS:
        assert path.with_name(f"{path.stem}.rollback.sql").is_file(), f"{path.name}: no rollback"
        assert (ROOT / "db" / "verify" / path.name).is_file(), f"{path.name}: no verify script"


@pytest.mark.parametrize("path", PROCEDURES, ids=lambda path: path.name)
def test_a_procedure_file_makes_the_one_thing_it_is_named_after(path: Path) -> None:
    made = _created(path)
    assert made == [path.stem], f"{path.name} makes {made}"


@pytest.mark.parametrize("path", TRIGGERS, ids=lambda path: path.name)
def test_a_trigger_file_makes_one_trigger_and_its_function(path: Path) -> None:
    assert _created(path) == [path.stem]
    triggers = {
        statement.trigname
        for statement in _statements(path)
        if isinstance(statement, ast.CreateTrigStmt)
    }
    assert triggers == {path.stem}


def _statements(path: Path) -> list[ast.Node]:
    return [raw.stmt for raw in pglast.parse_sql(path.read_text()) if raw.stmt is not None]


def _created(path: Path) -> list[str]:
    names = []
    for statement in _statements(path):
        if isinstance(statement, ast.CreateFunctionStmt) and statement.funcname:
            schema, name = (part.sval for part in statement.funcname)
        elif isinstance(statement, ast.ViewStmt) and statement.view:
            schema, name = statement.view.schemaname, statement.view.relname
        else:
            continue
        assert schema == "lakequeue", f"{path.name}: {name} is not in schema lakequeue"
        names.append(name)
    return names


@by_name
def test_a_file_is_laid_out_like_the_others(path: Path) -> None:
    text = path.read_text()
    if not path.name.endswith(".rollback.sql"):
        assert text.startswith("-- "), "a file begins with what it is for"
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    for number, line in enumerate(text.splitlines(), start=1):
        assert "\t" not in line, f"line {number} has a tab"
        assert line == line.rstrip(), f"line {number} ends with spaces"
        assert len(line) <= MAX_LINE, f"line {number} is longer than {MAX_LINE} characters"


@by_name
def test_keywords_are_in_lower_case(path: Path) -> None:
    pglast.parse_sql(path.read_text())
    assert list(_loud_keywords(path.read_text())) == []


def _loud_keywords(code: str) -> list[str]:
    """Keywords that are not in lower case, in the code and in the function bodies within."""
    # The scanner counts bytes.
    raw = code.encode()
    loud = []
    for token in pglast.scan(code):
        text = raw[token.start : token.end + 1].decode()
        if token.kind != "NO_KEYWORD":
            if text != text.lower():
                loud.append(text)
        elif token.name == "SCONST" and (quote := re.match(r"\$\w*\$", text)):
            loud += _loud_keywords(text[len(quote[0]) : -len(quote[0])])
    return loud


@by_name
def test_skip_locked_stands_alone(path: Path) -> None:
    """The planner may run a subquery with LIMIT again and again: one claim took every row."""
    code = re.sub(r"--[^\n]*", "", path.read_text())
    for statement in code.split(";"):
        if "skip locked" in statement:
            assert not re.search(r"\bin\s*\(\s*select\b", statement), "`in (select … skip locked)`"
            assert not re.search(r"=\s*any\s*\(\s*select\b", statement)


def test_error_codes_are_in_the_reference() -> None:
    codes = {
        code
        for path in (*PROCEDURES, *TRIGGERS)
        for code in re.findall(r"'(LQ\d{3})'", path.read_text())
    }
    reference = (ROOT / "db" / "README.md").read_text()
    assert sorted(code for code in codes if code not in reference) == []


def test_public_functions_are_in_the_reference() -> None:
    reference = (ROOT / "db" / "README.md").read_text()
    public = [path.stem for path in PROCEDURES if not path.stem.startswith("_")]
    assert [name for name in public if not re.search(rf"\b{name}\b", reference)] == []


def test_kinds_of_events_are_in_the_reference_and_on_the_page() -> None:
    written = {
        kind
        for path in (*PROCEDURES, *TRIGGERS)
        for kind in re.findall(r"_log_event\(\s*'(\w+)'", path.read_text())
    }
    reference = (ROOT / "db" / "README.md").read_text()
    listed = re.search(r"^Kinds of events: (.*)$", reference, re.MULTILINE)
    assert listed is not None
    assert sorted(re.findall(r"`(\w+)`", listed[1])) == sorted(written)
    assert sorted(formats.EVENT_KINDS) == sorted(written)


# --- what is installed --------------------------------------------------------------------------


def test_the_files_are_what_is_installed(pristine: Database) -> None:
    installed = column(
        pristine.query(
            """select proname::text from pg_proc where pronamespace = 'lakequeue'::regnamespace
               union all
               select relname::text from pg_class
                where relnamespace = 'lakequeue'::regnamespace and relkind in ('v', 'm')"""
        )
    )
    assert sorted(map(str, installed)) == sorted(path.stem for path in (*PROCEDURES, *TRIGGERS))


def test_everything_has_a_comment(pristine: Database) -> None:
    bare = column(
        pristine.query(
            """
            with own as (
              select 'function ' || f.oid::regprocedure as what, obj_description(f.oid, 'pg_proc')
                from pg_proc f where f.pronamespace = 'lakequeue'::regnamespace
              union all
              select 'relation ' || c.oid::regclass, obj_description(c.oid, 'pg_class')
                from pg_class c
               where c.relnamespace = 'lakequeue'::regnamespace
                 and c.relkind in ('r', 'p', 'v', 'm', 'f')
              union all
              select 'column ' || c.oid::regclass || '.' || a.attname,
                     col_description(c.oid, a.attnum)
                from pg_class c
                join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
               where c.relnamespace = 'lakequeue'::regnamespace and c.relkind in ('r', 'p', 'f')
              union all
              select 'type ' || t.oid::regtype, obj_description(t.oid, 'pg_type')
                from pg_type t
               where t.typnamespace = 'lakequeue'::regnamespace
                 and (t.typtype in ('e', 'd', 'r')
                      or t.typtype = 'c' and exists (select from pg_class c
                                                      where c.oid = t.typrelid and c.relkind = 'c'))
              union all
              select 'trigger ' || t.tgname, obj_description(t.oid, 'pg_trigger')
                from pg_trigger t
                join pg_class c on c.oid = t.tgrelid
               where c.relnamespace = 'lakequeue'::regnamespace and not t.tgisinternal
              union all
              select 'schema ' || n.nspname, obj_description(n.oid, 'pg_namespace')
                from pg_namespace n where n.nspname = 'lakequeue'
            )
            select what from own as own(what, comment)
             where coalesce(btrim(comment), '') = '' and what not like '%yoyo%' order by what
            """
        )
    )
    assert bare == []


def test_every_search_path_is_pinned(pristine: Database) -> None:
    """Temporary tables come last, else a caller's `agents` would hide the real one."""
    loose = column(
        pristine.query(
            """select f.oid::regprocedure::text from pg_proc f
                where f.pronamespace = 'lakequeue'::regnamespace
                  and not exists (select from unnest(f.proconfig) as setting
                                   where setting ~ '^search_path=pg_catalog(, \\w+)*, pg_temp$')
                  and not (f.prosqlbody is not null and starts_with(f.proname, '_'))"""
        )
    )
    assert loose == []


def test_functions_without_a_search_path_are_part_of_their_callers(pristine: Database) -> None:
    """An internal SQL function with a parsed body (`return ...`, or `begin atomic` for rows) names
    nothing any more: what it meant was settled when it was installed. The planner puts it in the
    place of its call, so it costs none; one that it cannot (too much is promised, an argument is
    used twice) costs most."""
    functions = pristine.query(
        """select f.proname::text, f.oid::regprocedure::text, f.proretset,
                  array(select format_type(a.type, null)
                          from unnest(f.proargtypes::oid[]) with ordinality a(type, number)
                         order by a.number)
             from pg_proc f
            where f.pronamespace = 'lakequeue'::regnamespace and f.prosqlbody is not null"""
    )
    assert functions
    owner = pristine.connect()
    for name, signature, of_rows, types in functions:
        given = ", ".join(f"null::{kind} as a{number}" for number, kind in enumerate(types))
        call = f"lakequeue.{name}({', '.join(f'g.a{number}' for number in range(len(types)))})"
        source = f"(select {given} offset 0) g"
        query = f"select r.* from {source}, {call} r" if of_rows else f"select {call} from {source}"
        plan = owner.execute(f"explain (verbose) {query}").fetchall()
        assert f"{name}(" not in str(plan), f"{signature} is not inlined"


def test_the_owner_role_owns_everything(pristine: Database) -> None:
    foreign = column(
        pristine.query(
            """select oid::regprocedure::text from pg_proc
                where pronamespace = 'lakequeue'::regnamespace
                  and proowner <> 'lakequeue_owner'::regrole
               union all
               select oid::regclass::text from pg_class
                where relnamespace = 'lakequeue'::regnamespace
                  and relowner <> 'lakequeue_owner'::regrole
               union all
               select nspname from pg_namespace
                where nspname = 'lakequeue' and nspowner <> 'lakequeue_owner'::regrole"""
        )
    )
    assert foreign == []


def test_the_owner_role_is_harmless(pristine: Database) -> None:
    assert pristine.query(
        """select rolcanlogin, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolreplication
             from pg_roles where rolname = 'lakequeue_owner'"""
    ) == [(False,) * 6]


def test_public_functions_run_as_the_owner(pristine: Database) -> None:
    wrong = column(
        pristine.query(
            """select f.oid::regprocedure::text from pg_proc f
                where f.pronamespace = 'lakequeue'::regnamespace
                  and f.prorettype <> 'trigger'::regtype
                  and not starts_with(f.proname, '_')
                  and not f.prosecdef"""
        )
    )
    assert wrong == []


def test_names_are_not_overloaded(pristine: Database) -> None:
    """A new parameter with a default makes a second function, and old calls ambiguous."""
    overloaded = column(
        pristine.query(
            """select proname::text from pg_proc where pronamespace = 'lakequeue'::regnamespace
                group by proname having count(*) > 1"""
        )
    )
    assert overloaded == []


def test_what_is_a_low_confidence_is_the_same_on_pages_and_at_psql(pristine: Database) -> None:
    arguments = pristine.value(
        """select pg_get_function_arguments(oid) from pg_proc
            where oid = to_regproc('lakequeue.confidence_summary')"""
    )
    assert f"low real DEFAULT {views.LOW_CONFIDENCE}" in str(arguments)


def test_nothing_is_for_everyone(pristine: Database) -> None:
    granted = pristine.query(
        """select f.oid::regprocedure::text, g.privilege_type from pg_proc f
            cross join aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) g
            where f.pronamespace = 'lakequeue'::regnamespace and g.grantee = 0
           union all
           select c.oid::regclass::text, g.privilege_type from pg_class c
            cross join aclexplode(c.relacl) g
            where c.relnamespace = 'lakequeue'::regnamespace and g.grantee = 0
           union all
           select n.nspname, g.privilege_type from pg_namespace n
            cross join aclexplode(n.nspacl) g
            where n.nspname = 'lakequeue' and g.grantee = 0"""
    )
    assert granted == []


def test_no_role_has_privileges_on_tables(pristine: Database) -> None:
    """Only views may be read; everything else goes through functions."""
    granted = pristine.query(
        """
        with acl as (
          select c.oid, c.relkind, c.relowner, g.grantee, g.privilege_type from pg_class c
           cross join aclexplode(c.relacl) g
           where c.relnamespace = 'lakequeue'::regnamespace
          union all
          select c.oid, c.relkind, c.relowner, g.grantee, g.privilege_type from pg_class c
            join pg_attribute a on a.attrelid = c.oid
           cross join aclexplode(a.attacl) g
           where c.relnamespace = 'lakequeue'::regnamespace
        )
        select acl.oid::regclass::text, acl.grantee::regrole::text, acl.privilege_type from acl
         where acl.grantee <> acl.relowner
           and not (acl.relkind in ('v', 'm') and acl.privilege_type = 'SELECT')
        """
    )
    assert granted == []


def test_internal_functions_are_nobodys(pristine: Database) -> None:
    granted = pristine.query(
        """select f.oid::regprocedure::text, g.grantee::regrole::text from pg_proc f
            cross join aclexplode(f.proacl) g
            where f.pronamespace = 'lakequeue'::regnamespace
              and (starts_with(f.proname, '_') or f.prorettype = 'trigger'::regtype)
              and g.grantee <> f.proowner"""
    )
    assert granted == []


def test_every_public_function_is_somebodys(pristine: Database) -> None:
    useless = column(
        pristine.query(
            """select f.oid::regprocedure::text from pg_proc f
                where f.pronamespace = 'lakequeue'::regnamespace
                  and not starts_with(f.proname, '_') and f.prorettype <> 'trigger'::regtype
                  and not exists (select from aclexplode(f.proacl) g
                                   where g.grantee::regrole::text = any(%s))""",
            [f"lakequeue_{group}" for group in GROUPS],
        )
    )
    assert useless == []


def test_no_role_can_make_objects_in_the_schema(pristine: Database) -> None:
    for group in GROUPS:
        assert not pristine.value(
            "select has_schema_privilege('lakequeue_' || %s, 'lakequeue', 'create')", group
        )


def test_hot_tables_have_no_foreign_keys(pristine: Database) -> None:
    tables = [f"lakequeue.{name}" for name in HOT_TABLES]
    assert pristine.value("select %s::regclass[] is not null", tables)  # they all exist
    keys = pristine.query(
        """select conname from pg_constraint
            where contype = 'f'
              and (conrelid = any(%s::regclass[]) or confrelid = any(%s::regclass[]))""",
        tables,
        tables,
    )
    assert keys == []


def test_no_task_is_in_more_than_four_indexes(pristine: Database) -> None:
    """Every kind of row that the constraints allow is tried against every index's predicate."""
    indexes = pristine.query(
        """select c.relname::text, i.indisprimary, pg_get_expr(i.indpred, i.indrelid)
             from pg_index i join pg_class c on c.oid = i.indexrelid
            where i.indrelid = 'lakequeue.tasks'::regclass"""
    )
    predicates = [predicate for _, primary, predicate in indexes if not primary]
    assert all(predicates), "every index of tasks but the primary key is partial"
    nullable = column(
        pristine.query(
            """select a.attname::text from pg_attribute a
                where a.attrelid = 'lakequeue.tasks'::regclass and a.attnum > 0
                  and not a.attnotnull and not a.attisdropped
                  and exists (select from pg_constraint k
                               where k.conrelid = a.attrelid and k.contype = 'c'
                                 and a.attnum = any(k.conkey) and cardinality(k.conkey) > 1
                              union all
                              select from pg_index i
                               where i.indrelid = a.attrelid
                                 and pg_get_expr(i.indpred, i.indrelid)
                                     ~ ('\\m' || a.attname || '\\M'))
            """
        )
    )
    checks = column(
        pristine.query(
            """select pg_get_expr(conbin, conrelid) from pg_constraint
                where conrelid = 'lakequeue.tasks'::regclass and contype = 'c'"""
        )
    )
    owner = pristine.connect()
    with owner.transaction():
        owner.execute("create temporary table sample (like lakequeue.tasks)")
        owner.execute("alter table sample alter status drop not null")
        for (name,) in owner.execute(
            """select attname::text from pg_attribute
                where attrelid = 'sample'::regclass and attnum > 0"""
        ).fetchall():
            owner.execute(f"alter table sample alter {name} drop not null")
        switches = ", ".join(
            f"(values (true), (false)) as s{n}(v{n})" for n in range(len(nullable))
        )
        filled = {"text": "'x'", "timestamp with time zone": "now()"}
        types = dict(
            owner.execute(
                """select attname::text, format_type(atttypid, null) from pg_attribute
                    where attrelid = 'sample'::regclass"""
            ).fetchall()
        )
        values = ", ".join(
            f"case when v{n} then {filled.get(types[name], '1')} end"
            for n, name in enumerate(nullable)
        )
        owner.execute(
            f"""insert into sample (status, {", ".join(map(str, nullable))})
                select status, {values}
                  from unnest(enum_range(null::lakequeue.task_status)) as status, {switches}"""
        )
        allowed = " and ".join(f"coalesce({check}, true)" for check in checks)
        count = " + ".join(f"coalesce(({predicate})::int, 0)" for predicate in predicates)
        rows = owner.execute(
            f"select 1 + {count} as indexes, sample::text from sample where {allowed}"
            " order by indexes desc"
        ).fetchall()
    assert rows
    assert rows[0][0] <= MOST_INDEXES_A_ROW, f"a row in {rows[0][0]} indexes: {rows[0][1]}"


# --- plpgsql_check ------------------------------------------------------------------------------


@pytest.mark.parametrize("server", ["debian"], indirect=True)
def test_plpgsql_check_finds_nothing(pristine: Database) -> None:
    """The checker knows the tables; each trigger function is checked with each of its triggers."""
    with pristine.server.admin(pristine.name) as connection:
        connection.execute("set search_path = pg_catalog, lakequeue, pg_temp")
        found = connection.execute(
            """
            with checked as (
              select f.oid as function, 0::oid as relation, null::name as old, null::name as new
                from pg_proc f
               where f.pronamespace = 'lakequeue'::regnamespace
                 and f.prorettype <> 'trigger'::regtype
                 and f.prolang = (select oid from pg_language where lanname = 'plpgsql')
              union all
              select t.tgfoid, t.tgrelid, t.tgoldtable, t.tgnewtable from pg_trigger t
                join pg_proc f on f.oid = t.tgfoid
               where f.pronamespace = 'lakequeue'::regnamespace and not t.tgisinternal
            )
            select checked.function::regprocedure::text, finding.lineno, finding.level,
                   finding.message, finding.detail, finding.hint
              from checked
             cross join lateral checker.plpgsql_check_function_tb(
                     checked.function, checked.relation, fatal_errors => false,
                     extra_warnings => true, security_warnings => true,
                     compatibility_warnings => true,
                     oldtable => checked.old, newtable => checked.new) as finding
             -- The checker takes a string constant, as in `v_ids bigint[] := '{}'`, for a text.
             where coalesce(finding.detail, '') not like 'cast "text" value to %'
             order by 1, 2
            """
        ).fetchall()
    assert not found, "\n" + "\n".join(
        f"{function} line {line}: {level}: {' | '.join(part for part in rest if part)}"
        for function, line, level, *rest in found
    )
