"""`lakequeue parse` at a strict endpoint whose limits are full: calls wait, none is refused.

Everything is real but the time at which it begins. A minute's worth of calls is made at once; then
both clocks, the database's and the endpoint's, are moved on until only a few seconds are left in
which these calls count. So the documents' calls have to wait for some seconds, not for a minute.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from lakequeue.agents import DOCUMENT_PARSER
from lakequeue.simulator.server import Meter, SimulatorServer
from tests.python.test_parse import DOCUMENTS, SECONDS, start, until
from tests.race.scene import RESULT, Row, answer, call, claim, enqueue, report
from tests.servers import Database

LEASE = 3
LEFT = 10.0
"""Seconds for which the minute is still full when the documents begin."""

REQUESTS, INPUT, OUTPUT = 20, 20_000, 4_000
"""Of output there is room for two answers under way, beside all that were given."""


class Endpoint:
    """The simulator in this process, whose clock can be moved on with that of the database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._ahead = 0.0
        self.meter = Meter(
            tokens_per_minute=10**9,
            requests_per_minute=REQUESTS,
            input_tokens_per_minute=INPUT,
            output_tokens_per_minute=OUTPUT,
            now=lambda: time.monotonic() + self._ahead,
        )
        self.server = SimulatorServer(self.meter, latency=0.2)
        database.query("create table public.ahead as select interval '0' as by")
        database.query("grant select on public.ahead to public")
        database.query(
            """create or replace function lakequeue._now() returns timestamptz
               language sql volatile set search_path = pg_catalog, pg_temp
               as $$ select clock_timestamp() + (select a.by from public.ahead a) $$"""
        )

    def move_on(self, seconds: float) -> None:
        """Never the database first: it would grant what does not fit yet."""
        self._ahead += seconds
        self.database.query("update public.ahead set by = by + %s * interval '1 second'", seconds)

    def ask(self, tokens: int) -> dict[str, Any]:
        """One call with so many prompt tokens, made without asking the queue."""
        body = {
            "model": "simulator",
            "max_tokens": 50,
            "messages": [{"role": "user", "content": "x" * 4 * tokens}],
        }
        request = urllib.request.Request(
            f"{self.server.base_url}/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as response:
            usage: dict[str, Any] = json.load(response)["usage"]
            return usage

    def is_full(self, tokens: int) -> bool:
        """Whether a call that did not ask the queue would get a 429."""
        try:
            self.ask(tokens)
        except urllib.error.HTTPError as error:
            return error.code == 429
        return False


@pytest.fixture
def endpoint(database: Database) -> Iterator[Endpoint]:
    endpoint = Endpoint(database)
    threading.Thread(target=endpoint.server.serve_forever, daemon=True).start()
    try:
        yield endpoint
    finally:
        endpoint.server.shutdown()
        endpoint.server.server_close()


def fill(database: Database, endpoint: Endpoint) -> None:
    """An agent whose calls take all the prompt tokens and requests that this minute has left."""
    enqueue(database, 1, "filler")
    row = claim(database, agents=["filler"])
    of_attempt = {"attempt": row["attempt_id"], "token": row["callback_token"]}
    stats = endpoint.meter.stats()
    count = REQUESTS - stats["accepted"]
    size, rest = divmod(INPUT - stats["input_tokens"], count)
    with database.connect("test_agent") as agent:
        for number in range(count):
            key, tokens = uuid.uuid4(), size + (rest if number == 0 else 0)
            sizes = {"input_tokens": tokens, "max_output_tokens": 50}
            (said,) = call(agent, "reserve_tokens", **of_attempt, **sizes, call=key)
            assert said["answer"] == "granted"
            used = endpoint.ask(tokens)
            settled = answer(
                agent,
                "settle_tokens",
                **of_attempt,
                call=key,
                input_tokens=used["prompt_tokens"],
                output_tokens=used["completion_tokens"],
            )
            assert settled == "settled"
        assert report(agent, row, "success", result=RESULT) == "accepted"


CALLS = """
select count(*) filter (where c.granted_at is null) as waiting,
       count(*) filter (where c.granted_at is not null and c.ended_at is null) as open,
       count(*) filter (where c.ended_at is not null) as settled,
       coalesce(sum(c.input_tokens) filter (where c.ended_at is not null), 0) as input,
       coalesce(sum(c.output_tokens) filter (where c.ended_at is not null), 0) as output
  from lakequeue.model_calls c
"""
WAITS = """
select extract(epoch from c.granted_at - c.asked_at)::float as seconds
  from lakequeue.model_calls c join lakequeue.agents a on a.id = c.agent_id and a.name = %s
"""


def rows(database: Database, query: str, *values: object) -> list[Row]:
    with psycopg.connect(database.conninfo(), row_factory=psycopg.rows.dict_row) as connection:
        return connection.execute(query.encode(), values).fetchall()


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
def test_documents_wait_for_their_calls_and_none_is_refused(
    database: Database, endpoint: Endpoint, tmp_path: Path
) -> None:
    operator = database.connect("test_operator")
    for agent in ("filler", DOCUMENT_PARSER):
        call(
            operator,
            "configure_agent",
            agent=agent,
            model_endpoint="simulator",
            reserves_calls=True,
            tokens_per_task=1000,
            tokens_per_page=0,
        )
    call(
        operator,
        "configure_agent",
        agent=DOCUMENT_PARSER,
        parameters=Jsonb({"model": "simulator", "chunk_tokens": 1500}),
        lease_duration=f"{LEASE} seconds",
        reconcile_grace="0",
        max_concurrent_tasks=1,
    )
    call(
        operator,
        "configure_endpoint",
        endpoint="simulator",
        max_rpm=REQUESTS,
        max_input_tpm=INPUT,
        max_output_tpm=OUTPUT,
    )
    documents = len(list(DOCUMENTS.glob("*.pdf")))

    def attempts(status: str) -> int:
        query = """select count(*) from lakequeue.task_attempts a
                     join lakequeue.agents g on g.id = a.agent_id and g.name = %s
                    where a.status::text = %s"""
        return int(database.value(query, DOCUMENT_PARSER, status))

    process = start(
        "parse",
        DOCUMENTS,
        "--json",
        "--model=simulator",
        "--jobs=6",
        f"--data-dir={tmp_path}",
        LAKEQUEUE_DATABASE_URL=database.conninfo(),
        LAKEQUEUE_CHAT_URL=endpoint.server.base_url,
    )
    try:
        # The first document shows that all runs; the others begin when the minute is full.
        until(lambda: attempts("running"))
        call(operator, "pause_agent", agent=DOCUMENT_PARSER)
        until(lambda: attempts("succeeded") and not attempts("running"))
        first = time.monotonic()
        fill(database, endpoint)
        endpoint.move_on(60 - LEFT - (time.monotonic() - first))
        call(operator, "configure_agent", agent=DOCUMENT_PARSER, max_concurrent_tasks=0)
        call(operator, "resume_agent", agent=DOCUMENT_PARSER)

        until(lambda: rows(database, CALLS)[0]["waiting"] >= 3)
        served = endpoint.meter.stats()["accepted"]
        refused = endpoint.is_full(1)
        waiting = rows(database, CALLS)[0]
        assert endpoint.meter.stats()["accepted"] == served, "calls were served when all was full"
        assert refused, "whoever does not ask the queue is refused"
        assert (waiting["open"], waiting["settled"]) == (0, served)

        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, err
    finally:
        process.kill()
        process.communicate()

    parsed = json.loads(out)
    assert [row["status"] for row in parsed] == ["completed"] * documents
    # A lease of three seconds was extended while calls waited for longer than that.
    assert [row["attempts"] for row in parsed] == [1] * documents
    waits = sorted(row["seconds"] for row in rows(database, WAITS, DOCUMENT_PARSER))
    assert waits[-1] > LEASE
    assert sum(wait > 0.1 for wait in waits) >= 6

    stats = endpoint.meter.stats()
    assert stats["rejected"] == 1, "but for the one that did not ask, no call was refused"
    assert stats["errors"] == 0
    calls = rows(database, CALLS)[0]
    assert (calls["waiting"], calls["open"]) == (0, 0)
    assert calls["settled"] == stats["accepted"] > REQUESTS
    assert (calls["input"], calls["output"]) == (stats["input_tokens"], stats["output_tokens"])
    for limit in ("requests_per_minute", "input_tokens_per_minute", "output_tokens_per_minute"):
        window = stats["windows"][limit]
        assert 0.5 * window["limit"] < window["largest"] <= window["limit"], limit
