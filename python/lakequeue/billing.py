"""What the cloud bills, asked on a person's action: compute of our job runs, model endpoints.

`Billing.start` begins a fetch and returns at once; a thread asks the SQL warehouse through the
Statement Execution API and hands the answer to the database. Which runs to ask for, that only one
fetch runs at a time, and what the rows mean is decided there (begin_compute_fetch,
record_compute_cost). One statement asks for all runs and endpoints, with bound parameters; it is
cancelled at the warehouse when somebody asks to, when it takes too long, or when the process ends.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Json

from lakequeue import workspace
from lakequeue.errors import Problem

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.service.sql import StatementResponse

log = logging.getLogger(__name__)

Call = Callable[..., list[dict[str, Any]]]

POLL_SECONDS = 2.0
MOST_SECONDS = 600.0
"""A warehouse that has to start takes minutes; what takes longer than this is given up."""
ANSWER_SECONDS = 20.0
CLOSE_SECONDS = 5.0

STATEMENT = """
with ours as (select explode(split(:run_ids, ',')) as run_id),
called as (select explode(split(:endpoints, '\\n')) as endpoint),
used as (
  select 'run' as kind, u.usage_metadata.job_run_id as name, u.cloud, u.sku_name, u.usage_unit, u.usage_date,
         u.usage_start_time, u.usage_quantity
  from system.billing.usage u
  join ours on ours.run_id = u.usage_metadata.job_run_id
  where u.workspace_id = :workspace_id
    and u.usage_date between cast(:usage_from as date) and cast(:usage_to as date)
  union all
  select 'endpoint', u.usage_metadata.endpoint_name, u.cloud, u.sku_name, u.usage_unit, u.usage_date,
         u.usage_start_time, u.usage_quantity
  from system.billing.usage u
  join called on called.endpoint = u.usage_metadata.endpoint_name
  where u.workspace_id = :workspace_id
    and u.usage_date between cast(:usage_from as date) and cast(:usage_to as date)
    and u.billing_origin_product = 'MODEL_SERVING'
)
select used.kind, used.name, used.sku_name, used.usage_unit, used.usage_date, p.currency_code,
       sum(used.usage_quantity) as quantity,
       sum(used.usage_quantity * p.pricing.effective_list.default) as cost
from used
left join system.billing.list_prices p
  on p.cloud = used.cloud and p.sku_name = used.sku_name and p.usage_unit = used.usage_unit
  and used.usage_start_time >= p.price_start_time
  and (p.price_end_time is null or used.usage_start_time < p.price_end_time)
group by used.kind, used.name, used.sku_name, used.usage_unit, used.usage_date, p.currency_code
"""  # noqa: E501
"""Every record type is in the sums: a retraction is negative. Ids are text there. A SKU without a
price stays in, with no cost."""
COLUMNS = ("kind", "name", "sku", "unit", "day", "currency", "quantity", "cost")

GRANTS = (
    "an account admin enables system.billing and grants the app's service principal USE SCHEMA on "
    "it and SELECT on its tables usage and list_prices"
)
_PHASES = {"PENDING": "waiting", "RUNNING": "running"}


class NoWarehouse(Problem):
    """No SQL warehouse is configured."""

    def __init__(self) -> None:
        super().__init__(
            "no SQL warehouse is configured, so billing cannot be asked",
            "set LAKEQUEUE_WAREHOUSE to the id of one",
        )


class _CancelledError(Exception):
    """Somebody asked to stop."""


class Billing:
    """Asks billing for costs in a thread of its own, one fetch at a time in all processes."""

    def __init__(
        self,
        call: Call,
        warehouse: str | None,
        *,
        poll_seconds: float = POLL_SECONDS,
        most_seconds: float = MOST_SECONDS,
    ) -> None:
        """`call` calls a function of the database and gives its rows."""
        self.warehouse = warehouse
        self._call = call
        self._poll_seconds = poll_seconds
        self._most_seconds = most_seconds
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, actor: str, **chosen: Any) -> dict[str, Any]:
        """Begin a fetch under this filter, or join the one that runs; does not wait for it.

        Raises NoWarehouse, and what the database refuses: a person who may not, no job.
        """
        if self.warehouse is None:
            raise NoWarehouse
        (begun,) = self._call("begin_compute_fetch", actor=actor, **chosen)
        if not begun["joined"]:
            self._thread = threading.Thread(
                target=self._run, args=(begun,), name="lakequeue-billing", daemon=True
            )
            self._thread.start()
        return begun

    def cancel(self, fetch: int, actor: str) -> None:
        """Ask the fetch to stop, whichever process runs it."""
        self._call("cancel_compute_fetch", fetch_id=fetch, actor=actor)

    def wait(self, seconds: float) -> bool:
        """Wait for this process's fetch; whether it has ended."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def close(self) -> None:
        """Stop the fetch under way, its statement too."""
        self._stop.set()
        self.wait(CLOSE_SECONDS)

    # --- the thread

    def _run(self, begun: dict[str, Any]) -> None:
        fetch = begun["fetch_id"]
        try:
            # Nothing is sent again by itself: two statements would be paid for.
            client = workspace.client(answer_seconds=ANSWER_SECONDS)
            with workspace.errors_in_words("asking which workspace this is"):
                place = str(client.get_workspace_id())
            rows = self._ask(client, begun, place)
            self._call("record_compute_cost", fetch_id=fetch, workspace=place, rows=Json(rows))
        except Exception as error:  # whatever it was, the person is told
            if not isinstance(error, Problem | _CancelledError):
                log.exception("fetch %s of costs failed", fetch)
            self._end(fetch, error)

    def _end(self, fetch: int, error: Exception) -> None:
        words = "cancelled" if isinstance(error, _CancelledError) else _words(error)
        try:
            self._call("update_compute_fetch", fetch_id=fetch, problem=words)
        except Problem as lost:
            # A fetch that is silent for a minute counts as failed.
            log.warning(
                "fetch %s of costs ended (%s), which cannot be noted: %s", fetch, words, lost
            )

    def _ask(
        self, client: WorkspaceClient, begun: dict[str, Any], place: str
    ) -> list[dict[str, str | None]]:
        """Let the warehouse answer; the rows of the answer."""
        from databricks.sdk.service.sql import StatementParameterListItem

        values = {
            "run_ids": ",".join(str(run) for run in begun["run_ids"]),
            "endpoints": "\n".join(begun["endpoints"]),
            "workspace_id": place,
            "usage_from": begun["usage_from"].isoformat(),
            "usage_to": begun["usage_to"].isoformat(),
        }
        with workspace.errors_in_words("asking the SQL warehouse"):
            answer = client.statement_execution.execute_statement(
                STATEMENT,
                str(self.warehouse),
                parameters=[
                    StatementParameterListItem(name=name, value=value, type="STRING")
                    for name, value in values.items()
                ],
                wait_timeout="0s",
            )
        statement = answer.statement_id or ""
        with self._cancelled_unless_done(client, statement):
            until = time.monotonic() + self._most_seconds
            while (state := _state(answer)) in ("PENDING", "RUNNING"):
                self._go_on(begun["fetch_id"], statement, _PHASES[state], until)
                with (
                    contextlib.suppress(workspace.Unreachable, workspace.Throttled),
                    workspace.errors_in_words("waiting for the SQL warehouse"),
                ):
                    answer = client.statement_execution.get_statement(statement)
            if state != "SUCCEEDED":
                raise _failed(answer, state)
            return list(self._rows(client, begun["fetch_id"], statement, answer))

    def _go_on(self, fetch: int, statement: str, phase: str, until: float) -> None:
        """Say how far it is, and wait a little; raises when it is to end."""
        (row,) = self._call(
            "update_compute_fetch", fetch_id=fetch, statement=statement, phase=phase
        )
        answer = next(iter(row.values()))
        if answer != "running":
            raise _CancelledError
        if time.monotonic() > until:
            raise Problem(
                f"the SQL warehouse did not answer within {self._most_seconds:g} seconds",
                "choose fewer days, or see whether the warehouse can start",
            )
        if self._stop.wait(self._poll_seconds):
            raise Problem("the process that asked was stopped", "ask again")

    @contextlib.contextmanager
    def _cancelled_unless_done(self, client: WorkspaceClient, statement: str) -> Iterator[None]:
        """A statement that nobody waits for any more would go on and be paid for."""
        try:
            yield
        except BaseException:
            with (
                contextlib.suppress(workspace.WorkspaceError),
                workspace.errors_in_words("cancelling the statement"),
            ):
                client.statement_execution.cancel_execution(statement)
            raise

    def _rows(
        self, client: WorkspaceClient, fetch: int, statement: str, answer: StatementResponse
    ) -> Iterator[dict[str, str | None]]:
        """All chunks of the answer; every value is text or null."""
        if answer.manifest is not None and answer.manifest.truncated:
            raise Problem("billing's answer is too long", "choose fewer days or agents")
        part = answer.result
        while part is not None:
            for row in part.data_array or ():
                yield dict(zip(COLUMNS, row, strict=True))
            if part.next_chunk_index is None:
                return
            self._call("update_compute_fetch", fetch_id=fetch, phase="reading")
            with workspace.errors_in_words("reading the SQL warehouse's answer"):
                part = client.statement_execution.get_statement_result_chunk_n(
                    statement, part.next_chunk_index
                )


def _state(answer: StatementResponse) -> str:
    """The statement's state; one that the SDK does not know yet counts as running."""
    if answer.status is None or answer.status.state is None:
        return "RUNNING"
    return answer.status.state.value


def _failed(answer: StatementResponse, state: str) -> Problem:
    """Why a statement ended without an answer, and what to do about it."""
    error = answer.status.error if answer.status is not None else None
    message = (error.message or "").strip() if error is not None else ""
    words = message.splitlines()[0] if message else f"the statement ended as {state}"
    code = error.error_code.value if error is not None and error.error_code is not None else ""
    if state in ("CANCELED", "CLOSED"):
        return Problem("the statement was stopped at the warehouse", "ask again")
    if any(word in f"{code} {words}".upper() for word in ("PERMISSION", "PRIVILEGE", "NOT_FOUND")):
        return Problem(f"billing cannot be read: {words}", GRANTS)
    return Problem(f"the query failed: {words}", "`lakequeue doctor` checks the warehouse")


def _words(error: Exception) -> str:
    if isinstance(error, workspace.NotAllowed):
        return f"{error.message} (the login needs CAN USE on the warehouse; {GRANTS})"
    if isinstance(error, Problem):
        return str(error)
    return f"a fault of ours, see the log: {type(error).__name__}"
