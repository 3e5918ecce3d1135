"""The local trace store and settling from it, with the real MLflow in forked processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Json

from lakequeue import database, traces
from lakequeue.agents.document_parser.costs import Prices, Usage
from lakequeue.forkserver import ForkServer
from tests.servers import Database

HERE = Path(__file__).parent
pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)


@pytest.fixture(scope="module")
def forkserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    preload = ["mlflow", "mlflow.store.tracking.sqlalchemy_store", "lakequeue.traces"]
    server = ForkServer(
        tmp_path_factory.mktemp("logs"), preload, {**traces.SWITCHES, "PYTHONPATH": path}
    )
    yield server
    server.close()


@pytest.fixture(scope="module")
def store(forkserver: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> traces.Store:
    """Made by four processes at once, which MLflow alone does not survive."""
    folder = tmp_path_factory.mktemp("mlflow")
    makers = [
        forkserver.start_process(
            "lakequeue.traces:prepare", {"folder": str(folder)}, traces.SWITCHES, f"make-{number}"
        )
        for number in range(4)
    ]
    for maker in makers:
        assert maker.wait(180)
        assert maker.exit_code == 0, maker.tail
    store = traces.known_store(folder)
    assert store is not None
    return store


def call(database_: Database, function: str, **parameters: Any) -> list[dict[str, Any]]:
    with database.connect(database_.conninfo()) as connection:
        return database.call(connection, function, **parameters)


def work(forkserver: ForkServer, target: str, arguments: dict[str, Any], store: Any) -> None:
    process = forkserver.start_process(target, arguments, store.environment(), "work")
    assert process.wait(180)
    assert process.exit_code == 0, process.tail


def test_a_store_of_another_mlflow_is_not_taken(
    store: traces.Store, monkeypatch: pytest.MonkeyPatch, server: object
) -> None:
    folder = Path(store.tracking_uri.removeprefix("sqlite:///")).parent
    assert traces.known_store(folder) == store
    monkeypatch.setattr(traces, "version", lambda _: "0.0.1")
    assert traces.known_store(folder) is None


def test_a_run_and_the_database_price_alike(pristine: Database) -> None:
    models = {
        "cached for less": (3, 15, Decimal("0.3")),
        "cached as input": (2, 8, None),
        "exact": (Decimal("0.000001"), Decimal("999999.99"), Decimal("0.123456")),
        "free": (0, 0, 0),
        "input alone": (1, 0, 0),
    }
    for model, (input_usd, output_usd, cached_usd) in models.items():
        call(
            pristine,
            "set_model_price",
            model=model,
            input_usd=input_usd,
            output_usd=output_usd,
            cached_usd=cached_usd,
        )
    given = pristine.value("select prices from lakequeue._model_prices()")
    tokens = [0, 1, 7, 999_999, 10**9]
    rows = pristine.query(
        """select m.model, i.n, o.n, c.n,
                  lakequeue._price(m.model, lakequeue._now(), i.n, o.n, c.n)
             from unnest(%s::text[]) m(model), unnest(%s::bigint[]) i(n), unnest(%s::bigint[]) o(n),
                  unnest(%s::bigint[]) c(n)""",
        [*models, "without a price"],
        tokens,
        tokens,
        [None, *tokens],
    )
    assert len(rows) == 6 * 5 * 5 * 6
    for model, used, output, cached, price in rows:
        prices = Prices.of(given, model)
        if prices is None:
            assert (model, price) == ("without a price", None)
        else:
            cost = prices.cost(Usage(used, output, cached or 0)).total
            # PostgreSQL divides to 16 digits or more.
            assert abs(cost - price) <= cost * Decimal("1e-15"), (model, used, output, cached)


def test_usage_is_settled_from_traces(
    pristine: Database, forkserver: ForkServer, store: traces.Store
) -> None:
    call(pristine, "configure_agent", agent="document-parser")
    call(pristine, "set_model_price", model="priced", input_usd=10, output_usd=20, cached_usd=1)
    kinds = [
        "two calls",
        "whole, without a call",
        "no trace",
        "says nothing",
        "not whole",
        "without a cost",
        "of another database",
    ]
    for number in range(len(kinds)):
        call(pristine, "enqueue_task", agent="document-parser", document_path=f"/{number}.pdf")
    claimed = call(pristine, "dequeue_tasks", worker="test")
    for row in claimed:
        call(
            pristine,
            "record_callback",
            attempt=row["attempt_id"],
            token=row["callback_token"],
            outcome="success",
            result=Json({}),
            input_tokens=1,
            output_tokens=1,
        )
    ids = dict(zip(kinds, [str(row["attempt_id"]) for row in claimed], strict=True))
    key = {str(row["attempt_id"]): str(row["run_key"]) for row in claimed}
    work(
        forkserver,
        "trace_work:write",
        {
            "traces": {
                ids["two calls"]: [[100, 10, 40, 0.25], [50, 5, 0, 0.125]],
                ids["whole, without a call"]: [],
                ids["says nothing"]: [],
                ids["not whole"]: [[7, 7, 0, 0.5]],
                ids["without a cost"]: [[100_000, 1_000, 50_000, None]],
                ids["of another database"]: [[9, 9, 9, 9.0]],
            },
            "tags": {
                ids["whole, without a call"]: {"usage_complete": "true"},
                ids["not whole"]: {"usage_complete": "false"},
                ids["without a cost"]: {"model": "priced"},
            },
            "keys": {
                ids["two calls"]: key[ids["two calls"]],
                ids["of another database"]: "another-run-key",
            },
        },
        store,
    )
    arguments = {
        "conninfo": pristine.conninfo("test_worker"),
        "experiment_id": store.experiment_id,
    }
    for _ in range(2):  # again: nothing is added
        work(forkserver, "lakequeue.traces:settle", arguments, store)
        rows = pristine.query(
            """select input_tokens, output_tokens, cached_tokens, llm_cost::float,
                      usage_complete, usage_source, trace_id is not null
                 from lakequeue.task_attempts order by id"""
        )
        untouched = (1, 1, None, None, False, "callback", False)
        assert dict(zip(kinds, rows, strict=True)) == {
            "two calls": (150, 15, 40, 0.375, True, "trace", True),
            "whole, without a call": (0, 0, 0, None, True, "trace", True),
            "no trace": untouched,
            "says nothing": untouched,
            "not whole": (7, 7, 0, 0.5, False, "trace", True),
            "without a cost": (100_000, 1_000, 50_000, 0.57, True, "trace", True),
            "of another database": untouched,
        }
    unsettled = {str(row["attempt_id"]) for row in call(pristine, "attempts_to_settle")}
    assert unsettled == {ids[kind] for kind in ("no trace", "says nothing", "of another database")}
