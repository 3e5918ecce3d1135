"""The queues that `cycle` compares: ours, and others from PyPI (extra `bench`) by their own SQL.

All are called through psycopg, so that none has another client than the rest.
"""

from __future__ import annotations

import abc
import datetime
import importlib.util
import json
from typing import Any

import psycopg
from psycopg.types.json import Json

from tests.servers import Database

LIMITS = {
    "max_concurrent_tasks": 100_000,
    "max_tpm": 10**12,
    "max_input_tpm": 10**12,
    "max_output_tpm": 10**12,
    "max_rpm": 10**9,
}
DOCUMENT = {"document_path": "/Volumes/main/audit/2024/invoices/0001.pdf", "page_count": 3}
RESULT = {"document_type": "invoice", "total": {"value": 717.97, "confidence": 0.95}}

Connection = psycopg.Connection[tuple[Any, ...]]


class Queue(abc.ABC):
    """A queue as its clients see it."""

    name: str

    @abc.abstractmethod
    def install(self, database: Database) -> None:
        """Lay it into a new database."""

    def connect(self, conninfo: str) -> Connection:
        """Connect a client, in autocommit."""
        return psycopg.connect(conninfo, autocommit=True)

    @abc.abstractmethod
    def enqueue(self, client: Connection, count: int) -> None:
        """Enqueue so many tasks."""

    @abc.abstractmethod
    def dequeue(self, client: Connection, count: int) -> list[Any]:
        """Claim as many tasks; what `complete` needs of each."""

    @abc.abstractmethod
    def complete(self, client: Connection, claims: list[Any]) -> None:
        """Say that they are done, so that it is kept for good."""


class Lakequeue(Queue):
    """Ours, with everything on: attempts, tokens, results, usage, rollups, notifications."""

    def __init__(
        self,
        name: str,
        limits: dict[str, int] | None = None,
        agent: str = "reader",
        durable: bool = True,
    ) -> None:
        self.name = name
        self.limits = limits or {}
        self.agent = agent
        self.durable = durable

    def install(self, database: Database) -> None:
        """Configure the agent; the functions are there."""
        limits = "".join(f", {name} => {value}" for name, value in self.limits.items())
        database.query(f"select lakequeue.configure_agent(%s{limits})", self.agent)
        database.query("select lakequeue.worker_heartbeat('w', relay => 'local')")

    def enqueue(self, client: Connection, count: int) -> None:
        """By enqueue_task for one, by enqueue_tasks for many."""
        if count == 1:
            client.execute(
                "select lakequeue.enqueue_task(%(agent)s, %(document_path)s,"
                " page_count => %(page_count)s)",
                DOCUMENT | {"agent": self.agent},
            )
        else:
            client.execute(
                "select count(*) from lakequeue.enqueue_tasks(%s, %s)",
                [self.agent, Json([DOCUMENT] * count)],
            )

    def dequeue(self, client: Connection, count: int) -> list[Any]:
        """All columns, as a worker needs them; what is not durable is confirmed, as it does."""
        rows = client.execute(
            "select outcome, attempt_id, callback_token, run_key, document_path, payload,"
            " parameters from lakequeue.dequeue_tasks('w', %s, durable => %s)",
            [count, self.durable],
        ).fetchall()
        claims = [row for row in rows if row[0] == "claimed"]
        if claims and not self.durable:
            client.execute(
                "select count(*) from lakequeue.confirm_claims('w', %s, %s)",
                [[row[1] for row in claims], [row[3] for row in claims]],
            )
        return [row[1:3] for row in claims]

    def complete(self, client: Connection, claims: list[Any]) -> None:
        """With result and usage, by record_callback for one, record_callbacks for many."""
        if len(claims) == 1:
            client.execute(
                "select lakequeue.record_callback(%s, %s, 'success', %s, 0.95,"
                " input_tokens => 900, output_tokens => 100, usage_complete => true)",
                [*claims[0], Json(RESULT)],
            )
        else:
            reports = [
                {"attempt": attempt, "token": token, "outcome": "success", "result": RESULT}
                | {"confidence": 0.95, "input_tokens": 900, "output_tokens": 100}
                | {"usage_complete": True}
                for attempt, token in claims
            ]
            client.execute("select count(*) from lakequeue.record_callbacks(%s)", [Json(reports)])


class Pgmq(Queue):
    """Pgmq's send, read and archive."""

    name = "pgmq"

    def install(self, database: Database) -> None:
        """Run the SQL that the package carries."""
        from pgmq.install import install_pgmq_from_sql

        with psycopg.connect(database.conninfo()) as connection:
            install_pgmq_from_sql(conn=connection)
        database.query("select pgmq.create('reader')")

    def enqueue(self, client: Connection, count: int) -> None:
        """By send, or send_batch."""
        if count == 1:
            client.execute("select * from pgmq.send('reader', %s::jsonb)", [Json(DOCUMENT)])
        else:
            client.execute(
                "select * from pgmq.send_batch('reader', %s::jsonb[])", [[Json(DOCUMENT)] * count]
            )

    def dequeue(self, client: Connection, count: int) -> list[Any]:
        """By read, invisible to others for five minutes."""
        rows = client.execute("select * from pgmq.read('reader', 300, %s)", [count]).fetchall()
        return [row[0] for row in rows]

    def complete(self, client: Connection, claims: list[Any]) -> None:
        """By archive."""
        if len(claims) == 1:
            client.execute("select pgmq.archive('reader', %s::bigint)", claims)
        else:
            client.execute("select * from pgmq.archive('reader', %s::bigint[])", [claims])


class Procrastinate(Queue):
    """Procrastinate's functions; it fetches and finishes jobs one at a time."""

    name = "procrastinate"

    def install(self, database: Database) -> None:
        """Run the schema that the package carries."""
        from procrastinate.schema import SchemaManager

        database.query(SchemaManager.get_schema())
        database.query("select procrastinate_register_worker_v1()")

    def enqueue(self, client: Connection, count: int) -> None:
        """By one call for all."""
        client.execute(
            "select procrastinate_defer_jobs_v1(array(select row('reader', 'read', 0, null, null,"
            " %s::jsonb, null)::procrastinate_job_to_defer_v1 from generate_series(1, %s)))",
            [Json(DOCUMENT), count],
        )

    def dequeue(self, client: Connection, count: int) -> list[Any]:
        """By a call for each."""
        from procrastinate.sql import queries

        values = {"queues": ["reader"], "worker_id": 1}
        claims = [client.execute(queries["fetch_job"], values).fetchone() for _ in range(count)]
        return [claim[0] for claim in claims if claim is not None and claim[0] is not None]

    def complete(self, client: Connection, claims: list[Any]) -> None:
        """By a call for each."""
        from procrastinate.sql import queries

        for claim in claims:
            values = {"job_id": claim, "status": "succeeded", "delete_job": False}
            client.execute(queries["finish_job"], values)


class Pgqueuer(Queue):
    """Pgqueuer's statements, as its Queries class runs them."""

    name = "pgqueuer"

    def __init__(self) -> None:
        self.worker = "00000000-0000-0000-0000-000000000001"

    def install(self, database: Database) -> None:
        """Run the DDL that the package makes."""
        from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment

        database.query(QueryBuilderEnvironment().build_install_query())

    def connect(self, conninfo: str) -> Connection:
        """Its statements number their parameters as the server does."""
        return psycopg.connect(conninfo, autocommit=True, cursor_factory=psycopg.RawCursor)

    def enqueue(self, client: Connection, count: int) -> None:
        """By one statement for all."""
        from pgqueuer.adapters.persistence.qb import QueryQueueBuilder

        payload = json.dumps(DOCUMENT).encode()
        values = ([0], ["reader"], [payload], [datetime.timedelta(0)], [None], ["{}"])
        client.execute(
            QueryQueueBuilder().build_enqueue_query(), [value * count for value in values]
        )

    def dequeue(self, client: Connection, count: int) -> list[Any]:
        """By one statement for all, without limits."""
        from pgqueuer.adapters.persistence.qb import QueryQueueBuilder

        query = QueryQueueBuilder().build_dequeue_query(
            batch_size=count,
            entrypoints=["reader"],
            concurrency_limits=[0],
            queue_manager_id=self.worker,
            global_concurrency_limit=None,
            heartbeat_timeout=datetime.timedelta(minutes=5),
        )
        return [row[0] for row in client.execute(query.sql, query.args).fetchall()]

    def complete(self, client: Connection, claims: list[Any]) -> None:
        """By one statement for all, which moves them to its log."""
        from pgqueuer.adapters.persistence.qb import QueryQueueBuilder

        client.execute(
            QueryQueueBuilder().build_log_job_query(),
            [claims, ["successful"] * len(claims), [None] * len(claims)],
        )


OURS: tuple[Queue, ...] = (
    Lakequeue("lakequeue"),
    Lakequeue("lakequeue, throttled", LIMITS),
    Lakequeue("throttled, confirmed", LIMITS, durable=False),
)
PEERS: tuple[Queue, ...] = tuple(
    peer
    for peer in (Pgmq(), Procrastinate(), Pgqueuer())
    if importlib.util.find_spec(peer.name) is not None
)
