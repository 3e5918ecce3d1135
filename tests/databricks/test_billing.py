"""Costs from billing: the real SDK, the statement really run over the tables of system.billing."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from psycopg.types.json import Json

from lakequeue import database as db
from lakequeue.billing import Billing, NoWarehouse
from tests.databricks.billing import WAREHOUSE_ID, Warehouse
from tests.databricks.workspace import WORKSPACE_ID, Workspace
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)

START = "2026-01-01 12:00+00"
END_SECONDS = 30


class App:
    """An application of Lakequeue: its database, and its web process that asks billing."""

    def __init__(self, database: Database, name: str = "reader", job: int = 500_000) -> None:
        self.database = database
        self.name = name
        self.owner("set_person", identity="ann", role="operator")
        self.owner("set_person", identity="vic", role="viewer")
        self.owner("configure_agent", agent=name, job_id=job, model_endpoint="claude")
        database.query("select test.set_clock(%s)", START)

    def owner(self, function: str, **parameters: Any) -> list[dict[str, Any]]:
        with db.connect(self.database.conninfo()) as connection:
            return db.call(connection, function, **parameters)

    def web(self, function: str, **parameters: Any) -> list[dict[str, Any]]:
        with db.connect(self.database.conninfo("test_web")) as connection:
            return db.call(connection, function, **parameters)

    def billing(self, **options: Any) -> Billing:
        return Billing(self.web, WAREHOUSE_ID, **{"poll_seconds": 0.005, **options})

    def runs(self, *runs: int) -> None:
        """Tasks that completed, one for each run."""
        documents = Json([{"document_path": f"/{run}.pdf"} for run in runs])
        self.owner("enqueue_tasks", agent=self.name, documents=documents, customer="acme")
        claimed = self.owner("dequeue_tasks", worker="w", batch_size=len(runs))
        attempts = [row["attempt_id"] for row in claimed]
        self.owner("record_runs", attempts=attempts, run_ids=list(runs))
        self.database.query(
            """select lakequeue.record_callback(
                 a.id, lakequeue._callback_token(a.id, a.run_key), 'success', '{}',
                 llm_cost => 0.5)
               from lakequeue.task_attempts a where a.id = any(%s)""",
            attempts,
        )

    def load(self, billing: Billing | None = None, **chosen: Any) -> dict[str, Any]:
        """Press, and wait for the end."""
        asking = billing or self.billing()
        asking.start("ann", **chosen)
        assert asking.wait(END_SECONDS)
        return self.status()

    def status(self) -> dict[str, Any]:
        (row,) = self.web("compute_fetch_status")
        return row

    def compute(self, **chosen: Any) -> dict[str | None, tuple[Decimal | None, int, int]]:
        """By currency: cost, tasks billed in full, tasks that ran as a job."""
        return {
            row["currency"]: (row["cost"], row["priced"], row["ran"])
            for row in self.web("cost_report", by=[], **chosen)
            if row["kind"] == "compute"
        }


@pytest.fixture
def app(database: Database) -> App:
    return App(database)


@pytest.fixture
def warehouse(workspace: Workspace, database: Database) -> Iterator[Warehouse]:
    with database.server.admin(database.name) as connection:
        connection.autocommit = True
        made = Warehouse(workspace, connection)
        made.price("JOBS", "0.5")
        yield made


def until(true: Callable[[], bool]) -> None:
    """Waits for what another thread is about to do."""
    end = time.monotonic() + END_SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


# --- what is counted ------------------------------------------------------------------------------


def test_all_record_types_skus_and_currencies(app: App, warehouse: Warehouse) -> None:
    app.runs(1001, 1002, 1003)
    warehouse.price("PHOTON", "0.001", currency="EUR")
    # serverless: several rows of a run in an hour, then a correction of one of them
    warehouse.usage("JOBS", "2", run=1001)
    warehouse.usage("JOBS", "0.25", run=1001)
    warehouse.usage("JOBS", "-2", run=1001, record_type="RETRACTION")
    warehouse.usage("JOBS", "1.5", run=1001, record_type="RESTATEMENT")
    warehouse.usage("PHOTON", "3", run=1001, day=datetime.date(2026, 1, 2))
    warehouse.usage("JOBS", "4", run=1002)

    ended = app.load()
    assert (ended["state"], ended["runs"], ended["billed"], ended["ignored"]) == ("done", 3, 2, 0)
    assert app.compute() == {"USD": (Decimal("2.875"), 2, 3), "EUR": (Decimal("0.003"), 1, 3)}
    rows = app.database.query(
        "select sku, unit, day::text, currency, quantity from lakequeue.compute_costs order by 1, 5"
    )
    assert rows == [
        ("JOBS", "DBU", "2026-01-01", "USD", Decimal("1.75")),
        ("JOBS", "DBU", "2026-01-01", "USD", Decimal("4")),
        ("PHOTON", "DBU", "2026-01-02", "EUR", Decimal("3")),
    ]


def test_what_is_retracted_later_goes_and_a_repeat_adds_nothing(
    app: App, warehouse: Warehouse
) -> None:
    app.runs(1001)
    assert app.load()["billed"] == 0
    assert app.compute() == {None: (None, 0, 1)}  # not billed yet is not 0
    warehouse.usage("JOBS", "2", run=1001)
    app.load()
    app.load()
    assert app.compute() == {"USD": (Decimal("1"), 1, 1)}
    warehouse.usage("JOBS", "-2", run=1001, record_type="RETRACTION")
    app.load()
    assert app.compute() == {"USD": (Decimal("0"), 1, 1)}  # billed, and nothing


def test_prices_are_those_of_the_time_and_what_has_none_is_unknown(
    app: App, warehouse: Warehouse
) -> None:
    app.runs(1001, 1002)
    warehouse.price("NEW", "10", end="2026-01-01")
    warehouse.price("NEW", "20", start="2026-01-01")
    warehouse.usage("NEW", "1", run=1001)
    warehouse.usage("JOBS", "1", run=1002)
    warehouse.usage("UNPRICED", "7", run=1002)
    app.load()
    # the second task's cost is known in part only
    assert app.compute() == {"USD": (Decimal("20.5"), 1, 2)}


def test_two_applications_in_one_billing_table(app: App, warehouse: Warehouse) -> None:
    other = App(app.database.server.clone(), "other", job=500_001)
    try:
        app.runs(1001)
        other.runs(2001, 2002)
        warehouse.usage("JOBS", "1", run=1001)
        for run in (2001, 2002, 3001):  # the third is of nobody that we know
            warehouse.usage("JOBS", "10", run=run, job=500_001)
        warehouse.usage("JOBS", "100", run=1001, workspace="another workspace")  # its run 1001
        assert (app.load()["state"], other.load()["state"]) == ("done", "done")
        assert app.compute() == {"USD": (Decimal("0.5"), 1, 1)}
        assert other.compute() == {"USD": (Decimal("10"), 2, 2)}
    finally:
        other.database.drop()


def test_models_are_billed_per_endpoint_and_day(app: App, warehouse: Warehouse) -> None:
    app.runs(1001, 1002)
    warehouse.price("TOKENS", "0.07")
    warehouse.usage("TOKENS", "30", endpoint="claude")
    warehouse.usage("TOKENS", "-10", endpoint="claude", record_type="RETRACTION")
    warehouse.usage("TOKENS", "50", endpoint="another endpoint")
    app.load()
    (row,) = app.web("endpoint_cost_report")
    assert (row["endpoint"], row["day"], row["currency"], row["billed"], row["estimate"]) == (
        "claude",
        datetime.date(2026, 1, 1),
        "USD",
        Decimal("1.4"),
        Decimal("1"),
    )
    assert app.compute() == {None: (None, 0, 2)}


def test_a_thousand_runs_are_one_statement(app: App, warehouse: Warehouse) -> None:
    runs = range(900_000_000_000_001, 900_000_000_001_001)
    app.runs(*runs)
    for run in runs:
        warehouse.usage("JOBS", "0.1", run=run)
        warehouse.usage("OTHER", "1", run=run)
    warehouse.rows_a_chunk = 300
    assert app.load()["billed"] == 1000
    assert app.compute() == {"USD": (Decimal("50"), 0, 1000)}  # the other SKU has no price
    (statement,) = warehouse.statements.values()
    assert str(runs[0]) not in statement.text
    assert statement.parameters["run_ids"].count(",") == 999
    assert statement.parameters["workspace_id"] == WORKSPACE_ID


def test_settled_runs_are_not_asked_for_again(app: App, warehouse: Warehouse) -> None:
    app.runs(1001)
    warehouse.usage("JOBS", "2", run=1001)
    app.load()
    app.database.query("select test.advance('7 days')")
    assert app.load()["runs"] == 1
    assert app.load()["runs"] == 0
    assert app.compute() == {"USD": (Decimal("1"), 1, 1)}


# --- asking ---------------------------------------------------------------------------------------


def test_two_people_press_and_one_statement_runs(app: App, warehouse: Warehouse) -> None:
    app.runs(1001)
    warehouse.hold.clear()
    one, other = app.billing(), app.billing()  # two processes
    first, second = one.start("ann"), other.start("ann")
    assert (first["joined"], second["joined"]) == (False, True)
    assert first["fetch_id"] == second["fetch_id"]
    until(lambda: app.status()["phase"] == "running")
    assert app.status()["state"] == "running"
    warehouse.hold.set()
    assert one.wait(END_SECONDS)
    assert app.status()["state"] == "done"
    assert len(warehouse.statements) == 1


def test_a_starting_warehouse_is_waited_for(app: App, warehouse: Warehouse) -> None:
    app.runs(1001)
    warehouse.started.clear()
    billing = app.billing()
    billing.start("ann")
    until(lambda: app.status()["phase"] == "waiting")
    warehouse.started.set()
    assert billing.wait(END_SECONDS)
    assert app.status()["state"] == "done"


def test_cancel_reaches_the_warehouse(app: App, warehouse: Warehouse) -> None:
    app.runs(1001)
    warehouse.usage("JOBS", "2", run=1001)
    warehouse.hold.clear()
    billing, another = app.billing(), app.billing()
    fetch = billing.start("ann")["fetch_id"]
    until(lambda: app.status()["phase"] == "running")
    another.cancel(fetch, "ann")  # whichever process runs it
    assert billing.wait(END_SECONDS)
    ended = app.status()
    assert (ended["state"], ended["cancelled_by"], ended["as_of"]) == ("cancelled", "ann", None)
    assert [statement.state for statement in warehouse.statements.values()] == ["CANCELED"]
    assert app.compute() == {None: (None, 0, 1)}
    warehouse.hold.set()
    assert app.load()["state"] == "done"


@pytest.mark.parametrize("how", ["closed", "too slow"])
def test_a_statement_that_nobody_waits_for_is_cancelled(
    app: App, warehouse: Warehouse, how: str
) -> None:
    app.runs(1001)
    warehouse.hold.clear()
    billing = app.billing(most_seconds=0.1 if how == "too slow" else 600)
    billing.start("ann")
    if how == "closed":
        until(lambda: app.status()["phase"] == "running")
        billing.close()
    assert billing.wait(END_SECONDS)
    assert app.status()["state"] == "failed"
    assert ("stopped" if how == "closed" else "within 0.1 seconds") in app.status()["problem"]
    assert [statement.state for statement in warehouse.statements.values()] == ["CANCELED"]


@pytest.mark.parametrize(
    ("code", "message", "words"),
    [
        ("BAD_REQUEST", "[INSUFFICIENT_PERMISSIONS] No USE SCHEMA", ("cannot be read", "grants")),
        ("BAD_REQUEST", "[TABLE_OR_VIEW_NOT_FOUND] system.billing", ("cannot be read", "enables")),
        ("IO_ERROR", "The cluster was lost", ("the query failed: The cluster was lost",)),
        ("A_NEW_CODE", "", ("the query failed: the statement ended as FAILED",)),
    ],
)
def test_a_statement_that_fails_is_told_in_words(
    app: App, warehouse: Warehouse, code: str, message: str, words: tuple[str, ...]
) -> None:
    app.runs(1001)
    warehouse.fails = (code, message)
    ended = app.load()
    assert ended["state"] == "failed"
    assert all(word in ended["problem"] for word in words), ended["problem"]
    assert app.compute() == {None: (None, 0, 1)}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"status": 403}, ("CAN USE", "grants")),
        ({"status": 404}, ("asking the SQL warehouse",)),
        ({"status": 429}, ("asking the SQL warehouse",)),
        ({"drop": True}, ("asking the SQL warehouse",)),
    ],
)
def test_a_warehouse_that_refuses_is_told_in_words(
    app: App,
    warehouse: Warehouse,
    workspace: Workspace,
    fault: dict[str, Any],
    words: tuple[str, ...],
) -> None:
    app.runs(1001)
    workspace.fault("sql/statements", method="POST", **fault)
    ended = app.load()
    assert ended["state"] == "failed"
    assert all(word in ended["problem"] for word in words), ended["problem"]
    assert len(warehouse.statements) == ("drop" in fault)  # it is not sent twice


def test_a_poll_that_fails_is_repeated(
    app: App, warehouse: Warehouse, workspace: Workspace
) -> None:
    app.runs(1001)
    workspace.fault("sql/statements/", method="GET", status=503, times=3)
    workspace.fault("sql/statements/", method="GET", status=429, times=3)
    assert app.load()["state"] == "done"


def test_who_may_press(app: App, warehouse: Warehouse, workspace: Workspace) -> None:
    app.runs(1001)
    for person in ("vic", "nobody"):
        with pytest.raises(db.LakequeueError) as refused:
            app.billing().start(person)
        assert refused.value.sqlstate == "LQ403"
    with pytest.raises(NoWarehouse):
        Billing(app.web, None).start("ann")
    assert app.status()["state"] == "never"
    assert workspace.calls == []
