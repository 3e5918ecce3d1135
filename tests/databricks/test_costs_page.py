"""The page Cost, its JSON twin and its CSV: what they say, and who may press."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from lakequeue.billing import Billing
from lakequeue.web.app import Web
from tests.databricks.billing import WAREHOUSE_ID, Warehouse
from tests.databricks.test_billing import App, until
from tests.databricks.workspace import Workspace
from tests.python.test_web_pages import text
from tests.python.web_server import application, as_json, token_of
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)

DAY = "?from=2026-01-01&to=2026-01-01"


@pytest.fixture
def cloud(database: Database) -> App:
    return App(database, "=reader")


@pytest.fixture
def warehouse(workspace: Workspace, database: Database) -> Iterator[Warehouse]:
    with database.server.admin(database.name) as connection:
        connection.autocommit = True
        made = Warehouse(workspace, connection)
        made.price("JOBS", "0.5")
        yield made


@pytest.fixture
def app(cloud: App, tmp_path: Path) -> Iterator[Flask]:
    with application(
        cloud.database, tmp_path, warehouse=WAREHOUSE_ID, identity_header="X-Who"
    ) as app:
        web: Web = app.extensions["lakequeue"]
        web.billing._poll_seconds = 0.005
        yield app


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


def billing(app: Flask) -> Billing:
    found: Billing = app.extensions["lakequeue"].billing
    return found


def press(client: FlaskClient, what: str = "compute", who: str = "ann", **more: str) -> Any:
    return client.post(
        f"/costs/{what}{DAY}",
        data={"csrf_token": token_of(client), **more},
        headers={"X-Who": who},
    )


def test_costs_before_and_after_billing_was_asked(
    cloud: App, warehouse: Warehouse, app: Flask, client: FlaskClient
) -> None:
    cloud.runs(1001, 1002)
    warehouse.usage("JOBS", "3", run=1001)
    page = text(client.get(f"/costs{DAY}"))
    assert "$1.00" in page
    assert "priced 2 of 2 tasks" in page
    assert "none is billed yet: 2 tasks ran as jobs" in page
    assert "It was never loaded." in page
    assert "$0.00" not in page

    warehouse.hold.clear()
    answer = press(client)
    assert (answer.status_code, answer.location) == (303, f"/costs{DAY}")
    until(lambda: bool(cloud.status()["phase"] == "running"))
    pending = client.get(f"/costs{DAY}")
    assert "Asking system.billing" in text(pending)
    assert "ann asked for 2 runs" in text(pending)
    assert '<noscript><meta http-equiv="refresh"' in pending.get_data(as_text=True)
    assert as_json(client.get("/api/costs/fetch"))["state"] == "running"
    warehouse.hold.set()
    assert billing(app).wait(30)

    page = text(client.get(f"/costs{DAY}"))
    assert "$1.50" in page
    assert "list price; billed in full 1 of 2 tasks; as of" in page
    assert "Billing knew 1 of the 2 runs asked for; the others are not billed yet" in page
    for words in ("the app, the database, the SQL warehouse", "not as invoiced", "a dash is not"):
        assert words.lower() in page.lower()

    found = as_json(client.get(f"/api/costs{DAY}"))
    assert [(row["kind"], row["cost"], row["currency"]) for row in found["totals"]] == [
        ("llm", 1, "USD"),
        ("compute", 1.5, "USD"),
    ]
    assert found["fetch"]["state"] == "done"
    assert found["groups"][0]["agent"] == "=reader"

    sheet = client.get(f"/costs.csv{DAY}")
    assert sheet.mimetype == "text/csv"
    head, first, *_ = sheet.get_data(as_text=True).splitlines()
    assert head.lstrip("\ufeff").startswith("customer,agent,status,day,kind,currency,tasks")
    assert first.startswith("acme,'=reader,completed,2026-01-01,llm,USD,2,2,2,1.0,0.5")


def test_cancel_and_what_went_wrong(
    cloud: App, warehouse: Warehouse, app: Flask, client: FlaskClient
) -> None:
    cloud.runs(1001)
    warehouse.hold.clear()
    press(client)
    fetch = str(cloud.status()["fetch_id"])
    assert press(client, "compute/cancel", "vic", fetch=fetch).status_code == 403
    assert press(client, "compute/cancel", fetch=fetch).status_code == 303
    assert billing(app).wait(30)
    assert "Cancelled by ann" in text(client.get("/costs"))
    assert press(client, "compute/cancel", fetch="0").status_code == 404

    warehouse.hold.set()
    warehouse.fails = ("BAD_REQUEST", "[INSUFFICIENT_PERMISSIONS] <b>No</b> SELECT on usage")
    press(client)
    assert billing(app).wait(30)
    page = client.get("/costs").get_data(as_text=True)
    assert "billing cannot be read: [INSUFFICIENT_PERMISSIONS] &lt;b&gt;No" in page


@pytest.mark.parametrize("who", ["vic", "nobody", ""])
def test_only_operators_press(
    cloud: App, warehouse: Warehouse, client: FlaskClient, who: str
) -> None:
    cloud.runs(1001)
    assert client.get("/costs", headers={"X-Who": who}).status_code == 200
    assert press(client, who=who).status_code == 403
    assert cloud.status()["state"] == "never"
    assert warehouse.statements == {}


def test_a_form_from_elsewhere_is_refused(cloud: App, client: FlaskClient) -> None:
    for what in ("compute", "compute/cancel"):
        answer = client.post(f"/costs/{what}", headers={"X-Who": "ann"})
        assert answer.status_code == 403
    assert cloud.status()["state"] == "never"


def test_without_a_warehouse_it_says_so(cloud: App, tmp_path: Path) -> None:
    with application(cloud.database, tmp_path) as app:
        client = app.test_client()
        page = client.get("/costs").get_data(as_text=True)
        assert "No SQL warehouse is configured" in text(client.get("/costs"))
        assert not re.search(r"<button[^>]*>Load compute", page)
        answer = press(client)
        assert (answer.status_code, "LAKEQUEUE_WAREHOUSE" in text(answer)) == (409, True)


@pytest.mark.parametrize("by", ["day", "customer", "agent", "status"])
def test_the_page_tells_apart(cloud: App, client: FlaskClient, by: str) -> None:
    cloud.runs(1001)
    shown = {"day": "1 Jan 2026", "customer": "acme", "agent": "=reader", "status": "completed"}
    found = client.get(f"/costs{DAY}&by={by}").get_data(as_text=True)
    rows = re.findall(r'class="group-name">(.*?)</th>', found)
    assert re.sub(r"<[^>]+>", "", rows[0]) == shown[by]


def test_what_cannot_be_meant_is_refused(cloud: App, client: FlaskClient) -> None:
    assert client.get("/costs?by=month").status_code == 400
    assert client.get("/api/costs?by=day,month").status_code == 400
    assert client.get("/costs.csv?status=gone").status_code == 400
    assert client.get("/costs?agent=nobody").status_code == 404


def test_nothing_is_not_zero(database: Database, tmp_path: Path) -> None:
    with application(database, tmp_path) as app:
        page = app.test_client().get("/costs")
        assert page.status_code == 200
        assert "No task fits this filter." in text(page)
        assert "$0" not in text(page)
