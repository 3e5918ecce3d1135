"""The test bed itself: what the other tests rely on."""

from __future__ import annotations

import datetime
from pathlib import Path

import psycopg
import pytest

from tests.conftest import Clock, check_transaction
from tests.servers import GROUPS, OWNER, STRANGER, Database


@pytest.mark.parametrize("group", GROUPS)
def test_each_role_has_a_login(database: Database, group: str) -> None:
    assert database.value(
        "select pg_has_role(current_user, 'lakequeue_' || %s, 'member')",
        group,
        user=f"test_{group}",
    )


def test_no_login_of_the_tests_is_a_superuser(database: Database) -> None:
    for user in (OWNER, STRANGER, *(f"test_{group}" for group in GROUPS)):
        assert database.value("show is_superuser", user=user) == "off"


def test_the_owner_may_not_do_everything(database: Database) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        database.query("create role surplus superuser")


def test_the_clock_stands_for_all_connections(database: Database, clock: Clock) -> None:
    noon = clock.set("2026-01-01 12:00+00")
    assert noon == datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    seen = database.connect()
    assert clock.now() == noon
    assert clock.advance(minutes=5) == noon + datetime.timedelta(minutes=5)
    assert seen.execute("select lakequeue._now()").fetchall() == [
        (noon + datetime.timedelta(minutes=5),)
    ]
    clock.run()
    assert abs(clock.now() - datetime.datetime.now(datetime.UTC)) < datetime.timedelta(minutes=1)


def test_databases_are_apart(database: Database, pristine: Database) -> None:
    assert database.name != pristine.name
    assert database.value("select to_regnamespace('tap') is not null")
    assert pristine.value("select to_regnamespace('tap') is null")
    assert pristine.value("select to_regnamespace('test') is null")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("select 1;\nrollback;\n", "must begin"),
        ("begin;\nselect 1;\n", "must begin"),
        ("begin;\nselect 1;\ncommit;\nrollback;\n", "commits"),
        ("-- begin;\nselect 1;\nrollback;\n", "must begin"),
    ],
)
def test_a_pgtap_file_that_leaves_something_is_refused(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "test_bad.sql"
    path.write_text(text)
    with pytest.raises(pytest.fail.Exception, match=complaint):
        check_transaction(path)


def test_a_pgtap_file_may_have_comments_and_functions(tmp_path: Path) -> None:
    path = tmp_path / "test_good.sql"
    path.write_text(
        "-- what it proves; commit;\n/* more */\nBEGIN;\n"
        "do $$\nbegin\n  perform 1;\nend;\n$$;\nselect 1;\nROLLBACK;\n-- end\n"
    )
    check_transaction(path)
