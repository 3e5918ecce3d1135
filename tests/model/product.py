"""The same as rules.Queue, asked of the database: what the functions answer, and what stands there.

Tasks, attempts and extractions go by numbers, in the order in which they were made; `Known` keeps
their ids, for one connection or for several.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row
from psycopg.types.json import Json

from tests.model.rules import Usage
from tests.race.scene import RESULT, Row, answer, call

TASKS = """
select t.id, t.status::text, t.priority, t.created_at, t.attempt_count as attempts, t.failures,
       t.rate_limited, t.retry_at, t.locked_by as worker, t.lease_expires_at,
       t.cancel_requested_at is not null as cancel_requested, t.passed_over_at, t.finished_at,
       t.dedup_key
  from lakequeue.tasks t
"""
ATTEMPTS = """
select a.id, a.status::text, a.worker, a.run_id, a.estimated_tokens,
       a.reserves_calls, r.attempt_id is not null as has_result, a.ended_at, a.reported_at,
       a.run_ended_at, a.presumed_dead_at, a.checked_at, a.input_tokens, a.output_tokens,
       a.cached_tokens, a.llm_cost, a.usage_complete, a.usage_source
  from lakequeue.task_attempts a left join lakequeue.results r on r.attempt_id = a.id
"""
AGENTS = """
select a.name, a.paused_at is not null as paused,
       coalesce((select k.failures from lakequeue.breaker_books k
                  where k.agent_id = a.id order by k.no desc limit 1), 0) as failures_in_a_row,
       array[a.estimate_factor::numeric, a.run_input_tpm::numeric, a.run_output_tpm::numeric,
             a.run_rpm::numeric] as learnt
  from lakequeue.agents a
"""


@dataclass
class Known:
    """The ids behind the numbers."""

    tasks: list[int] = field(default_factory=list)
    attempts: list[tuple[int, str]] = field(default_factory=list)  # with their tokens
    extractions: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def number(self, task: int) -> int:
        """Of a task; a new one gets its number here."""
        with self.lock:
            if task not in self.tasks:
                self.tasks.append(task)
            return self.tasks.index(task)


@dataclass
class Look:
    """The rows that stand there, by name or number."""

    agents: dict[str, Row]
    tasks: dict[int, Row]
    attempts: dict[int, Row]


class Product:
    """Lakequeue as one connection sees it."""

    def __init__(self, connection: psycopg.Connection[Any], known: Known) -> None:
        self.connection = connection
        self.known = known

    # --- calling ------------------------------------------------------------------------------

    def call(self, function: str, **arguments: Any) -> list[Row]:
        return call(self.connection, function, **arguments)

    def answer(self, function: str, **arguments: Any) -> Any:
        return answer(self.connection, function, **arguments)

    def do(self, step: str, arguments: dict[str, Any]) -> Any:
        """What a step was answered; a refusal (call again, too) is its SQLSTATE."""
        try:
            return getattr(self, step)(**arguments)
        except psycopg.Error as error:
            if not (error.sqlstate or "").startswith(("LQ", "55P03")):
                raise
            if self.connection.info.transaction_status == TransactionStatus.INERROR:
                self.connection.execute("rollback to savepoint before_step")
            return error.sqlstate

    def _by(self, attempt: int) -> dict[str, Any]:
        number, token = self.known.attempts[attempt]
        return {"attempt": number, "token": token}

    def _attempts(self, attempts: Sequence[int]) -> list[int]:
        return [self.known.attempts[n][0] for n in attempts]

    # --- configuration ------------------------------------------------------------------------

    def advance(self, by: timedelta) -> None:
        self.connection.execute("select test.advance(%s)", [by])

    def configure_agent(self, agent: str, **settings: Any) -> None:
        self.call("configure_agent", agent=agent, **settings)

    def configure_endpoint(self, endpoint: str, **settings: Any) -> None:
        self.call("configure_endpoint", endpoint=endpoint, **settings)

    def pause_agent(self, agent: str) -> None:
        self.call("pause_agent", agent=agent)

    def resume_agent(self, agent: str) -> None:
        self.call("resume_agent", agent=agent)

    def worker_heartbeat(self, worker: str, stopping: bool, relay: str | None) -> None:
        self.call("worker_heartbeat", worker=worker, stopping=stopping, relay=relay)

    # --- submitting ---------------------------------------------------------------------------

    def create_extraction(self, customer: str) -> None:
        self.known.extractions.append(
            self.answer("create_extraction", name="batch", customer=customer)
        )

    def enqueue_tasks(
        self,
        agent: str,
        documents: Sequence[dict[str, Any]],
        customer: str | None = None,
        extraction: int | None = None,
    ) -> Any:
        sent = [{"document_path": "/a.pdf"} | document for document in documents]
        more = {
            "agent": agent,
            "customer": customer,
            "extraction": None if extraction is None else self.known.extractions[extraction],
        }
        if len(sent) == 1:
            before = len(self.known.tasks)
            number = self.known.number(self.answer("enqueue_task", **more, **sent[0]))
            return [(number, number == before)]
        rows = self.call("enqueue_tasks", **more, documents=Json(sent))
        return [(self.known.number(row["task_id"]), row["created"]) for row in rows]

    def extraction_progress(self, extraction: int) -> Any:
        (row,) = self.call("extraction_progress", extraction=self.known.extractions[extraction])
        return Counter({status: row[status] for status in list(row)[2:] if row[status]})

    # --- workers ------------------------------------------------------------------------------

    def dequeue_tasks(self, worker: str, batch_size: int, agents: Sequence[str] | None) -> Any:
        rows = self.call(
            "dequeue_tasks",
            worker=worker,
            batch_size=batch_size,
            agents=None if agents is None else list(agents),
        )
        claims = [row for row in rows if row["outcome"] == "claimed"]
        with self.known.lock:
            self.known.attempts += [(row["attempt_id"], row["callback_token"]) for row in claims]
        return self._claims(claims)

    def _claims(self, rows: Sequence[Row]) -> Any:
        return [
            (self.known.number(row["task_id"]), row["attempt_number"], row["estimated_tokens"])
            for row in rows
        ]

    def record_runs(self, attempts: Sequence[int], run_ids: Sequence[int]) -> Any:
        rows = self.call("record_runs", attempts=self._attempts(attempts), run_ids=list(run_ids))
        return [row["answer"] for row in rows]

    def adopt_attempts(self, worker: str, batch_size: int) -> Any:
        return self._claims(self.call("adopt_attempts", worker=worker, batch_size=batch_size))

    def runs_to_check(self, worker: str) -> Any:
        rows = self.call("runs_to_check", worker=worker)
        numbers = {attempt: number for number, (attempt, _) in enumerate(self.known.attempts)}
        return {numbers[row["attempt_id"]]: row["why"] for row in rows}

    def extend_leases(self, attempts: Sequence[int], tokens: Sequence[int | None]) -> Any:
        rows = self.call(
            "extend_leases", attempts=self._attempts(attempts), input_tokens=list(tokens)
        )
        return [(row["answer"], row["lease_expires_at"]) for row in rows]

    def fail_attempt(self, attempt: int, outcome: str) -> Any:
        number = self.known.attempts[attempt][0]
        return self.answer("fail_attempt", attempt=number, error_class="gone", outcome=outcome)

    def record_usage(self, attempt: int, usage: Usage) -> Any:
        return self.answer(
            "record_usage",
            attempt=self.known.attempts[attempt][0],
            input_tokens=usage.input,
            output_tokens=usage.output,
            cached_tokens=usage.cached,
            llm_cost=usage.cost,
            complete=usage.complete,
            source="trace" if usage.trace else "callback",
        )

    def sweep_leases(self) -> Any:
        (row,) = self.call("sweep_leases")
        return tuple(row.values())

    def fold_rollups(self) -> None:
        self.call("fold_rollups")

    # --- agents -------------------------------------------------------------------------------

    def reserve_tokens(
        self, attempt: int, call: int, input_tokens: int, max_output_tokens: int
    ) -> Any:
        (row,) = self.call(
            "reserve_tokens",
            **self._by(attempt),
            input_tokens=input_tokens,
            max_output_tokens=max_output_tokens,
            call=uuid.UUID(int=call),
        )
        assert (row["answer"] == "wait") == (row["wait"] is not None)
        return row["answer"]

    def settle_tokens(
        self, attempt: int, call: int, input_tokens: int | None, output_tokens: int | None
    ) -> Any:
        return self.answer(
            "settle_tokens",
            **self._by(attempt),
            call=uuid.UUID(int=call),
            input_tokens=input_tokens,
            output_tokens=output_tokens,
        )

    def report_rate_limit(self, attempt: int, retry_after: timedelta) -> Any:
        return self.answer("report_rate_limit", **self._by(attempt), retry_after=retry_after)

    def record_callback(self, **report: Any) -> Any:
        return self.answer("record_callback", **self._report(**report))

    def record_callbacks(self, reports: Sequence[dict[str, Any]]) -> Any:
        def plain(value: Any) -> Any:
            return value.obj if isinstance(value, Json) else str(value)

        sent = [
            {name: plain(value) for name, value in self._report(**report).items()}
            for report in reports
        ]
        rows = self.call("record_callbacks", callbacks=Json(sent))
        return [row["answer"] for row in rows]

    def _report(
        self,
        attempt: int,
        outcome: str,
        with_result: bool = False,
        usage: Usage | None = None,
        run_id: int | None = None,
        retry_after: timedelta | None = None,
        forged: bool = False,
    ) -> dict[str, Any]:
        usage = usage or Usage()
        report = self._by(attempt) | {
            "outcome": outcome,
            "result": RESULT if with_result else None,
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cached_tokens": usage.cached,
            "llm_cost": usage.cost,
            "usage_complete": usage.complete,
            "run_id": run_id,
            "retry_after": retry_after,
        }
        if forged:
            report["token"] = "0" * 64
        return {name: value for name, value in report.items() if value is not None}

    def store_result(self, attempt: int) -> Any:
        return self.answer("store_result", **self._by(attempt), result=RESULT)

    # --- people -------------------------------------------------------------------------------

    def cancel_tasks(self, tasks: Sequence[int]) -> Any:
        return self._each("cancel_task", tasks)

    def retry_tasks(self, tasks: Sequence[int]) -> Any:
        return self._each("retry_task", tasks)

    def reprocess_tasks(self, tasks: Sequence[int]) -> Any:
        return self._each("reprocess_task", tasks)

    def set_priorities(self, tasks: Sequence[int], priority: int) -> Any:
        how = "set_priority" if len(tasks) == 1 else "set_priorities"
        return self._each(how, tasks, priority=priority)

    def _each(self, function: str, numbers: Sequence[int], **more: Any) -> Any:
        """What was done to each task: by the function for one, or else by that for many."""
        tasks = [self.known.tasks[number] for number in numbers]
        if len(tasks) == 1:
            said = self.answer(function, task=tasks[0], reason="why", **more)
            outcome, _, detail = said.partition(": ")
            outcomes = [(outcome, detail)]
        else:
            many = function if function == "set_priorities" else f"{function}s"
            rows = self.call(many, tasks=tasks, reason="why", **more)
            outcomes = [(row["outcome"], row["detail"]) for row in rows]
        if function == "reprocess_task":
            for new in sorted(int(detail) for outcome, detail in outcomes if outcome == "enqueued"):
                self.known.number(new)
        return [outcome for outcome, _detail in outcomes]

    # --- looking ------------------------------------------------------------------------------

    def queue_metrics(
        self,
        statuses: Sequence[str],
        agents: Sequence[str],
        customers: Sequence[str],
        days: tuple[date, date],
    ) -> Any:
        rows = self.call(
            "queue_metrics",
            from_day=days[0],
            to_day=days[1],
            statuses=list(statuses),
            agents=list(agents),
            customers=list(customers),
        )
        return {row["status"]: tuple(row.values())[1:8] for row in rows}

    def purge_tasks(self, older_than: timedelta, completed: bool) -> Any:
        (row,) = self.call("purge_tasks", older_than=older_than, completed=completed)
        return tuple(row.values())

    def look(self) -> Look:
        """What stands of agents, tasks and attempts; the next step may be refused."""
        keep = self.connection.info.transaction_status == TransactionStatus.INTRANS
        with self.connection.pipeline():  # one way to the server and back
            agents, tasks, attempts = (
                self.connection.cursor(row_factory=dict_row).execute(statement)
                for statement in (AGENTS, TASKS, ATTEMPTS)
            )
            if keep:
                self.connection.execute("savepoint before_step")
        task_numbers = {task: number for number, task in enumerate(self.known.tasks)}
        numbers = {attempt: number for number, (attempt, _) in enumerate(self.known.attempts)}
        return Look(
            {row.pop("name"): row for row in agents},
            {task_numbers[row.pop("id")]: row for row in tasks},
            {numbers[row.pop("id")]: row for row in attempts},
        )
