"""A SQL warehouse and the tables of system.billing, for the fake workspace.

The statement that Lakequeue sends is really run: in a PostgreSQL of the tests, after the few words
in which Databricks SQL differs are exchanged. So a wrong join, a lost record type or an id of the
wrong type shows.

    warehouse = Warehouse(workspace, connection)
    warehouse.price("JOBS", 0.15)
    warehouse.usage("JOBS", 2, run=4711)
    warehouse.hold.clear()                # statements run until it is set
"""

from __future__ import annotations

import datetime
import re
import threading
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import psycopg

from tests.databricks.workspace import WORKSPACE_ID, Refusal, Workspace

PATH = "/api/2.0/sql/statements"
WAREHOUSE_ID = "0123456789abcdef"

TABLES = """
create schema if not exists billing;
create type billing.usage_metadata as (job_id text, job_run_id text, endpoint_name text);
create type billing.effective_list as ("default" numeric);
create type billing.pricing as ("default" numeric, effective_list billing.effective_list);
create table billing.usage (
  workspace_id text, sku_name text, cloud text,
  usage_start_time timestamptz, usage_end_time timestamptz, usage_date date,
  usage_unit text, usage_quantity numeric, usage_metadata billing.usage_metadata,
  record_type text, billing_origin_product text);
create table billing.list_prices (
  price_start_time timestamptz, price_end_time timestamptz, sku_name text, cloud text,
  currency_code text, usage_unit text, pricing billing.pricing);
"""

# Databricks SQL, and the same in PostgreSQL.
WORDS = (
    (r"\bsystem\.billing\.", "billing."),
    (r"\bu\.usage_metadata\.(\w+)", r"(u.usage_metadata).\1"),
    (r"\bp\.pricing\.effective_list\.default\b", r'((p.pricing).effective_list)."default"'),
    (r"\bexplode\(", "unnest("),
    (r"\bsplit\(", "string_to_array("),
    (r"'\\n'", r"E'\\n'"),
)


@dataclass
class Statement:
    """A statement at the warehouse, in the words of the API."""

    number: int
    text: str
    parameters: dict[str, str]
    state: str = "PENDING"
    error: dict[str, str] | None = None
    columns: list[str] = field(default_factory=list)
    rows: list[list[str | None]] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"01f0-{self.number:08x}"


class Warehouse:
    """Answers the Statement Execution API of its workspace."""

    def __init__(
        self,
        workspace: Workspace,
        connection: psycopg.Connection[Any],
        day: datetime.date = datetime.date(2026, 1, 1),
    ) -> None:
        self.day = day
        """Of usage, where a test does not say."""
        self.statements: dict[str, Statement] = {}
        self.started = threading.Event()
        """Not set: the warehouse is starting, and statements wait."""
        self.hold = threading.Event()
        """Not set: statements run, and give no answer yet."""
        self.started.set()
        self.hold.set()
        self.fails: tuple[str, str] | None = None
        """Code and message with which statements fail."""
        self.rows_a_chunk = 1000
        self._connection = connection
        self._guard = threading.Lock()
        connection.execute(TABLES)
        workspace.more[PATH] = self.answer

    # --- for tests ----------------------------------------------------------------------------

    def price(
        self,
        sku: str,
        price: str,
        *,
        currency: str = "USD",
        unit: str = "DBU",
        start: str = "2020-01-01",
        end: str | None = None,
    ) -> None:
        """A list price."""
        self._connection.execute(
            """insert into billing.list_prices values
               (%s, %s, %s, 'AWS', %s, %s, row(%s::numeric, row(%s::numeric)))""",
            (start, end, sku, currency, unit, price, price),
        )

    def usage(
        self,
        sku: str,
        quantity: str,
        *,
        run: int | None = None,
        endpoint: str | None = None,
        day: datetime.date | None = None,
        unit: str = "DBU",
        record_type: str = "ORIGINAL",
        workspace: str = WORKSPACE_ID,
        job: int = 500_000,
    ) -> None:
        """A record of usage: of a job run, or of a serving endpoint."""
        at = datetime.datetime.combine(day or self.day, datetime.time(13), datetime.UTC)
        self._connection.execute(
            """insert into billing.usage values
               (%s, %s, 'AWS', %s, %s, %s, %s, %s, row(%s::text, %s::text, %s::text), %s, %s)""",
            (
                workspace,
                sku,
                at,
                at + datetime.timedelta(hours=1),
                day or self.day,
                unit,
                quantity,
                None if run is None else job,
                None if run is None else str(run),
                endpoint,
                record_type,
                "JOBS" if endpoint is None else "MODEL_SERVING",
            ),
        )

    # --- the API ------------------------------------------------------------------------------

    def answer(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """One call."""
        key, _, rest = path.removeprefix(PATH).strip("/").partition("/")
        if method == "POST" and not key:
            return self._execute(body)
        statement = self.statements.get(key)
        if statement is None:
            raise Refusal(404, "NOT_FOUND", f"The statement {key} was not found.")
        if method == "POST" and rest == "cancel":
            if statement.state in ("PENDING", "RUNNING"):
                statement.state = "CANCELED"
            return {}
        if rest.startswith("result/chunks/"):
            return self._chunk(statement, int(rest.rsplit("/", 1)[1]))
        self._advance(statement)
        return self._described(statement)

    def _execute(self, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("warehouse_id") != WAREHOUSE_ID:
            raise Refusal(404, "NOT_FOUND", f"SQL warehouse {body.get('warehouse_id')} not found.")
        if not re.fullmatch(r"0s|([5-9]|[1-4]\d|50)s", body.get("wait_timeout", "10s")):
            raise Refusal(400, "INVALID_PARAMETER_VALUE", "wait_timeout must be 0s or 5s to 50s")
        parameters = {item["name"]: item["value"] for item in body.get("parameters", ())}
        if not all(isinstance(value, str) for value in parameters.values()):
            raise Refusal(400, "MALFORMED_REQUEST", "Parameter values must be strings")
        with self._guard:
            statement = Statement(len(self.statements) + 1, body["statement"], parameters)
            self.statements[statement.key] = statement
        return self._described(statement)

    def _advance(self, statement: Statement) -> None:
        """One state on, as far as it may go."""
        if statement.state == "PENDING" and self.started.is_set():
            statement.state = "RUNNING"
        elif statement.state == "RUNNING" and self.hold.is_set():
            self._run(statement)

    def _run(self, statement: Statement) -> None:
        text = statement.text
        for pattern, replacement in WORDS:
            text = re.sub(pattern, replacement, text)
        text = re.sub(r"(?<!:):(\w+)", r"%(\1)s::text", text)
        try:
            if self.fails is not None:
                raise ValueError
            with self._guard:
                cursor = self._connection.execute(text, statement.parameters)
                statement.columns = [column.name for column in cursor.description or ()]
                statement.rows = [[_text(value) for value in row] for row in _plain(cursor)]
            statement.state = "SUCCEEDED"
        except (psycopg.Error, KeyError, ValueError) as error:
            code, message = self.fails or ("BAD_REQUEST", f"[PARSE_SYNTAX_ERROR] {error}")
            statement.state, statement.error = "FAILED", {"error_code": code, "message": message}

    def _described(self, statement: Statement) -> dict[str, Any]:
        status: dict[str, Any] = {"state": statement.state}
        if statement.error is not None:
            status["error"] = statement.error
        found: dict[str, Any] = {"statement_id": statement.key, "status": status}
        if statement.state == "SUCCEEDED":
            found["manifest"] = {
                "format": "JSON_ARRAY",
                "schema": {"columns": [{"name": name} for name in statement.columns]},
                "total_row_count": len(statement.rows),
                "truncated": False,
            }
            found["result"] = self._chunk(statement, 0)
        return found

    def _chunk(self, statement: Statement, index: int) -> dict[str, Any]:
        first = index * self.rows_a_chunk
        found: dict[str, Any] = {
            "chunk_index": index,
            "row_offset": first,
            "data_array": statement.rows[first : first + self.rows_a_chunk],
        }
        if first + self.rows_a_chunk < len(statement.rows):
            found["next_chunk_index"] = index + 1
        return found


def _plain(cursor: psycopg.Cursor[Any]) -> list[tuple[Any, ...]]:
    """Rows as tuples, whatever the connection makes of them."""
    return [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in cursor]


def _text(value: Any) -> str | None:
    """Every value is text there, or null."""
    if value is None:
        return None
    return format(value, "f") if isinstance(value, Decimal) else str(value)
