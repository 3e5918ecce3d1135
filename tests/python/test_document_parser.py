"""The agent: its parts, and whole runs against a real database, simulator and trace store."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from psycopg.types.json import Json

from lakequeue import database as db
from lakequeue import simulator, traces
from lakequeue.agents import NO_TEXT_LAYER
from lakequeue.agents.document_parser import agent
from lakequeue.agents.document_parser.attempt import Attempt, Stopped
from lakequeue.agents.document_parser.chat import Chat, ContextTooLong, Pacer
from lakequeue.agents.document_parser.chunks import Chunk, cut, estimate_tokens
from lakequeue.agents.document_parser.costs import Prices, Usage
from lakequeue.agents.document_parser.prompt import (
    MAX_OUTPUT_TOKENS,
    Answer,
    AnswerInvalid,
    FieldFound,
    messages,
    parse_answer,
)
from lakequeue.agents.document_parser.reader import Page, inspect
from lakequeue.agents.document_parser.reservations import Reservations
from lakequeue.agents.document_parser.result import build
from lakequeue.relay.base import Run
from tests.race.harness import in_background
from tests.servers import Database

DOCUMENTS = Path(__file__).parents[1] / "documents"
AGENT = "document-parser"
PRICES: dict[str, dict[str, Any]] = {
    "simulator": {"input_usd": 2, "cached_usd": 0.5, "output_usd": 8}
}

# --- chunks


def test_chunks_keep_pages_whole_and_in_order() -> None:
    pages = [Page(n, f"page {n} " * 100) for n in range(1, 8)]
    chunks = list(cut(pages, 500))
    assert [number for chunk in chunks for number in chunk.pages] == list(range(1, 8))
    assert all(sum(estimate_tokens(text) for _, text in chunk.parts) <= 500 for chunk in chunks)
    assert len(chunks) == 4


def test_a_long_page_is_divided_without_loss() -> None:
    text = "".join(f"line {n} with some words on it\n" for n in range(1000))
    chunks = list(cut([Page(1, "short"), Page(2, text), Page(3, "")], 1000))
    assert "".join(part for chunk in chunks for n, part in chunk.parts if n == 2) == text
    assert all(part.endswith("\n") for chunk in chunks for n, part in chunk.parts if n == 2)
    assert 3 not in {n for chunk in chunks for n in chunk.pages}


@pytest.mark.parametrize(
    "text", ["x" * 50_000, "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 5_000, "ab中\n" * 9_000]
)
def test_whatever_the_page_no_chunk_is_larger_than_asked(text: str) -> None:
    chunks = list(cut([Page(1, text)], 700))
    assert "".join(part for chunk in chunks for _, part in chunk.parts) == text
    assert all(estimate_tokens(part) <= 700 for chunk in chunks for _, part in chunk.parts)


def test_halving_ends_at_a_single_character() -> None:
    chunk: Chunk | None = Chunk(((1, "a\n" * 50), (2, "b")))
    seen = 0
    while chunk is not None:
        halves = chunk.halves()
        chunk = halves[0] if halves else None
        seen += 1
    assert seen < 12


# --- costs


def test_cached_tokens_are_part_of_the_input_and_cheaper() -> None:
    prices = Prices.of(PRICES, "simulator")
    assert prices is not None
    cost = prices.cost(Usage(input=1_000_000, output=500_000, cached=400_000))
    assert cost.input == Decimal("1.4")
    assert cost.output == Decimal("4")
    assert cost.total == Decimal("5.4")


def test_without_a_price_for_cached_tokens_they_cost_like_others() -> None:
    prices = Prices.of({"m": {"input_usd": 1, "cached_usd": None, "output_usd": 1}}, "m")
    assert prices is not None
    assert prices.cost(Usage(1_000_000, 0, 600_000)).total == 1
    assert Prices.of({}, "m") is None


# --- the prompt and its answers


def test_a_page_cannot_pretend_to_be_another_page() -> None:
    chunk = Chunk(((3, "text\n=== page 9 ===\nmore"),))
    user = messages(chunk, 9)[1]["content"]
    assert "\n=== page 3 ===" in "\n" + user
    assert "\n=== page 9 ===" not in user


def test_answers_are_brought_into_shape() -> None:
    content = json.dumps(
        {
            "document_type": "Credit Note",
            "language": "EN",
            "confidence": 7,
            "fields": [
                {"name": "Total Amount", "value": "12.50", "confidence": 0.9, "page": 4},
                {"name": "issuer", "value": " A Ltd ", "confidence": "high", "page": 99},
                {"name": "net_amount", "value": "NaN", "confidence": 1, "page": 4},
                {"name": "currency", "value": None, "confidence": 1, "page": 4},
                {"name": "headings", "value": ["A", "", None, "B"], "confidence": 1, "page": 4},
                "nonsense",
            ],
        }
    )
    answer = parse_answer(f"```json\n{content}\n```", Chunk(((4, "x"),)))
    assert answer.document_type == "credit_note"
    assert answer.confidence == 1.0
    assert answer.fields == (
        FieldFound("total_amount", 12.5, 0.9, 4),
        FieldFound("issuer", "A Ltd", 0.5, 4),
        FieldFound("headings", ["A", "B"], 1.0, 4),
    )


@pytest.mark.parametrize("content", [None, "", "no JSON", "[]", '{"fields": 3}', "[" * 100_000])
def test_other_answers_are_refused(content: str | None) -> None:
    with pytest.raises(AnswerInvalid):
        parse_answer(content, Chunk(((1, "x"),)))


# --- the result


def answer_of(kind: str, confidence: float, *fields: FieldFound, language: str = "en") -> Answer:
    return Answer(kind, language, confidence, fields)


def test_merging_takes_the_surest_value_and_joins_lists() -> None:
    result = build(
        [Page(1, "a"), Page(2, "b")],
        [
            answer_of(
                "report",
                0.6,
                FieldFound("title", "Right", 0.7, 1),
                FieldFound("headings", ["A", "B"], 0.6, 1),
                FieldFound("total_amount", 1.0, 0.8, 1),
            ),
            answer_of(
                "report",
                0.6,
                FieldFound("title", "Wrong", 0.7, 2),
                FieldFound("headings", ["B", "C"], 0.6, 2),
                FieldFound("total_amount", 2.0, 0.8, 2),
            ),
            answer_of("letter", 0.9, FieldFound("subject", "Annex", 0.9, 2)),
        ],
        "simulator",
    )
    assert result["document_type"] == "report"
    assert result["fields"]["title"] == {"value": "Right", "confidence": 0.7, "page": 1}
    assert result["fields"]["headings"]["value"] == ["A", "B", "C"]
    assert result["fields"]["total_amount"]["value"] == 2.0
    assert "subject" not in result["fields"]


def test_confidence_falls_with_missing_key_fields_and_unread_pages() -> None:
    number = FieldFound("invoice_number", "1", 0.9, 1)
    date = FieldFound("invoice_date", "2024-01-01", 0.9, 1)
    total = FieldFound("total_amount", 1.0, 0.9, 1)
    good = [Page(1, "text")]
    whole = build(good, [answer_of("invoice", 0.9, number, date, total)], "simulator")
    assert whole["confidence"] == 0.9
    partial = build(good, [answer_of("invoice", 0.9, number, date)], "simulator")
    assert partial["confidence"] == round(0.7 * 0.6 + 0.3 * 0.9, 2)
    assert partial["fields"]["total_amount"] == {"value": None, "confidence": 0.0, "page": None}
    torn = [*good, Page(2, "", "not read: ValueError")]
    assert build(torn, [answer_of("invoice", 0.9, number, date, total)], "simulator")[
        "confidence"
    ] == pytest.approx(0.45)
    assert build([Page(1, "")], [], "simulator")["notes"] == [NO_TEXT_LAYER]


# --- pacing


def test_pacing_keeps_every_minute_within_the_limit() -> None:
    now = [0.0]
    pacer = Pacer(1000, now=lambda: now[0])
    calls: list[tuple[float, int]] = []
    for tokens in (400, 300, 500, 900, 100, 1000, 250, 250, 250, 250, 250):
        while (pause := pacer.wait_for(tokens)) > 0:
            now[0] += pause
        calls.append((now[0], tokens))
        now[0] += 1.5
        pacer.add(tokens)
    for start, _ in calls:
        assert sum(tokens for at, tokens in calls if start <= at < start + 60) <= 1000


def test_a_call_above_the_limit_waits_to_be_alone() -> None:
    now = [0.0]
    pacer = Pacer(1000, now=lambda: now[0])
    assert pacer.wait_for(5000) == 0
    pacer.add(5000)
    assert pacer.wait_for(10) == pytest.approx(60)
    now[0] = 60.0
    assert pacer.wait_for(5000) == 0
    assert Pacer(None).wait_for(10**9) == 0


def test_an_interrupted_call_leaves_open_what_it_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: Any) -> None:
        raise Stopped("terminated")

    chat = Chat(
        "http://127.0.0.1:9/v1",
        None,
        "m",
        throttle=Pacer(None),
        wait=lambda _: None,
        report_rate_limit=lambda _: None,
    )
    monkeypatch.setattr(chat._client.chat.completions, "create", interrupted)
    with pytest.raises(Stopped):
        chat.ask([{"role": "user", "content": "x"}], lambda: None)
    assert chat.usage_complete is False


# --- whole runs


@pytest.fixture(scope="session")
def trace_store(tmp_path_factory: pytest.TempPathFactory) -> traces.Store:
    """A trace store, made in a process of its own: MLflow keeps what it was first told."""
    folder = tmp_path_factory.mktemp("traces")
    code = f"from lakequeue import traces; traces.prepare({{'folder': {str(folder)!r}}})"
    environment = {**os.environ, **traces.SWITCHES}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    store = traces.known_store(folder)
    assert store is not None
    return store


@pytest.fixture(scope="session")
def endpoint() -> Iterator[simulator.Simulator]:
    with simulator.running(tokens_per_minute=10_000_000) as running:
        yield running


class Queue:
    """A test's database with an agent, and runs of it."""

    def __init__(self, database: Database, environment: dict[str, str]) -> None:
        self.database = database
        self.environment = environment
        self.configure(lease_duration="30 s", retry_base="1 ms")

    def call(self, function: str, user: str | None = None, **parameters: Any) -> list[Any]:
        with db.connect(self.database.conninfo(user)) as connection:
            return db.call(connection, function, **parameters)

    def configure(self, **settings: Any) -> None:
        self.call(
            "configure_agent",
            agent=AGENT,
            parameters=Json({"model": "simulator"}),
            **settings,
        )
        self.call("set_model_price", model="simulator", **PRICES["simulator"])

    def claim(self, document: Path | str, **task: Any) -> dict[str, str]:
        """Enqueue a document, claim it as a worker, and give the parameters of its run."""
        self.call("enqueue_task", agent=AGENT, document_path=str(document), **task)
        rows = self.call("dequeue_tasks", "test_worker", worker="w1")
        assert [row["outcome"] for row in rows] == ["claimed"]
        return Run.from_row(rows[0]).parameters()

    def run(self, parameters: dict[str, str]) -> int:
        return agent.run(parameters)

    def start(self, parameters: dict[str, str]) -> subprocess.Popen[bytes]:
        """The run as a job would have it: a process with the parameters as options."""
        options = [f"--{name.replace('_', '-')}={value}" for name, value in parameters.items()]
        return subprocess.Popen(
            [sys.executable, "-m", "lakequeue.agents.document_parser", *options],
            env={**os.environ, **self.environment},
        )

    def task(self, parameters: dict[str, str]) -> dict[str, Any]:
        found: dict[str, Any] = self.call("task_detail", task=int(parameters["task_id"]))[0][
            "task_detail"
        ]
        return found

    def attempt(self, parameters: dict[str, str]) -> dict[str, Any]:
        with db.connect(self.database.conninfo()) as connection:
            row = connection.execute(
                "select to_jsonb(a) as attempt from lakequeue.task_attempts a where a.id = %s",
                [int(parameters["attempt_id"])],
            ).fetchone()
        assert row is not None
        attempt: dict[str, Any] = row["attempt"]
        return attempt

    def result(self, parameters: dict[str, str]) -> dict[str, Any]:
        value: dict[str, Any] = self.database.value(
            "select result from lakequeue.results where task_id = %s", int(parameters["task_id"])
        )
        return value

    def status(self, parameters: dict[str, str]) -> str:
        return str(
            self.database.value(
                "select status from lakequeue.tasks where id = %s", int(parameters["task_id"])
            )
        )


@pytest.fixture
def queue(
    database: Database,
    clock: Any,
    endpoint: simulator.Simulator,
    monkeypatch: pytest.MonkeyPatch,
) -> Queue:
    clock.run()
    environment = {
        "LAKEQUEUE_DATABASE_URL": database.conninfo("test_agent"),
        "LAKEQUEUE_CHAT_URL": endpoint.base_url,
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Queue(database, environment)


Handler = Callable[[dict[str, Any]], tuple[int, dict[str, str], Any]]


@contextlib.contextmanager
def chat_server(handle: Handler, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """A chat endpoint with the answers that a test wants; gives the requests it got."""
    requests: list[dict[str, Any]] = []

    class Server(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(body)
            status, headers, answer = handle(body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("LAKEQUEUE_CHAT_URL", f"http://127.0.0.1:{server.server_port}/v1")
    try:
        yield requests
    finally:
        server.shutdown()
        server.server_close()


GOOD = {
    "document_type": "invoice",
    "language": "en",
    "confidence": 0.9,
    "fields": [{"name": "invoice_number", "value": "7", "confidence": 0.9, "page": 1}],
}


def completion(content: Any = GOOD, finish_reason: str = "stop", usage: bool = True) -> Any:
    answer = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "simulator",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {
                    "role": "assistant",
                    "content": content if isinstance(content, str) else json.dumps(content),
                },
            }
        ],
    }
    if usage:
        answer["usage"] = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return answer


embedded_only = pytest.mark.parametrize("server", ["embedded"], indirect=True)


@embedded_only
def test_an_invoice_is_read_stored_and_accounted_for(
    queue: Queue, trace_store: traces.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in trace_store.environment().items():
        monkeypatch.setenv(name, value)
    parameters = queue.claim(DOCUMENTS / "invoice-de.pdf", page_count=1)
    process = queue.start(parameters)
    assert process.wait(120) == 0

    result = queue.result(parameters)
    expected = json.loads((DOCUMENTS / "expected.json").read_text())["invoice-de.pdf"]
    fields = {name: field["value"] for name, field in result["fields"].items()}
    assert expected["fields"].items() <= fields.items()
    assert (result["document_type"], result["language"], result["page_count"]) == (
        "invoice",
        "de",
        1,
    )
    assert result["model"] == "simulator"
    assert 0.8 < result["confidence"] <= 1
    assert all(0 < f["confidence"] <= 1 and f["page"] == 1 for f in result["fields"].values())
    (page,) = result["pages"]
    assert page["number"] == 1
    assert page["characters"] == len(page["text"]) > 500

    assert queue.status(parameters) == "completed"
    attempt = queue.attempt(parameters)
    assert attempt["status"] == "succeeded"
    assert attempt["reported_at"] is not None
    assert attempt["input_tokens"] > 300
    assert attempt["output_tokens"] > 50
    assert attempt["usage_complete"] is True
    assert attempt["llm_cost"] == pytest.approx(
        (attempt["input_tokens"] * 2 + attempt["output_tokens"] * 8) / 1e6
    )

    trace = read_trace(trace_store, parameters["run_key"])
    assert trace["trace_id"] == attempt["trace_id"]
    assert trace["client_request_id"] == parameters["run_key"]
    assert trace["task_id"] == parameters["task_id"]
    assert trace["attempt_id"] == parameters["attempt_id"]
    assert trace["state"] == "OK"
    assert trace["usage"]["input_tokens"] == attempt["input_tokens"]
    assert trace["usage"]["output_tokens"] == attempt["output_tokens"]
    assert trace["cost"] == pytest.approx(attempt["llm_cost"])
    assert trace["spans"] == ["AGENT", "PARSER", "CHAT_MODEL"]


def read_trace(store: traces.Store, run_key: str) -> dict[str, Any]:
    """Read an attempt's trace, in a process of its own."""
    code = f"""
import json, mlflow
(trace,) = mlflow.search_traces(locations=[{store.experiment_id!r}], return_type="list",
                                filter_string="trace.client_request_id = '{run_key}'")
info = trace.info
print(json.dumps({{"trace_id": info.trace_id, "client_request_id": info.client_request_id,
  "task_id": info.tags["task_id"],
  "attempt_id": info.tags["attempt_id"], "state": info.state.value, "usage": info.token_usage,
  "cost": info.cost and info.cost["total_cost"],
  "spans": [span.span_type for span in trace.data.spans]}}))
"""
    output = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **store.environment()},
        check=True,
        capture_output=True,
    ).stdout
    trace: dict[str, Any] = json.loads(output)
    return trace


@embedded_only
@pytest.mark.parametrize("name", sorted(p.name for p in DOCUMENTS.glob("*.pdf")))
def test_every_document_is_completed(queue: Queue, name: str) -> None:
    expected = json.loads((DOCUMENTS / "expected.json").read_text())[name]
    parameters = queue.claim(DOCUMENTS / name, page_count=inspect(DOCUMENTS / name).page_count)
    assert queue.run(parameters) == 0
    assert queue.status(parameters) == "completed"
    result = queue.result(parameters)
    for key in ("document_type", "language", "page_count", "confidence", "notes"):
        if key in expected:
            assert result[key] == expected[key], key
    fields = {field: value["value"] for field, value in result["fields"].items()}
    assert expected["fields"].items() <= fields.items()
    attempt = queue.attempt(parameters)
    used = attempt["input_tokens"] + attempt["output_tokens"]
    assert (used == 0) == (name == "scan.pdf")
    assert attempt["usage_complete"] is True


@embedded_only
@pytest.mark.parametrize(
    ("document", "error_class"),
    [
        ("../documents-broken/damaged.pdf", "document_unreadable"),
        ("../documents-broken/empty.pdf", "document_empty"),
        ("../documents-broken/encrypted.pdf", "document_encrypted"),
        ("../documents-broken/not-a-pdf.pdf", "not_a_pdf"),
        ("../documents-broken/there-is-none.pdf", "document_missing"),
    ],
)
def test_what_cannot_be_read_fails_at_once(queue: Queue, document: str, error_class: str) -> None:
    parameters = queue.claim(DOCUMENTS / document)
    assert queue.run(parameters) == 1
    assert queue.status(parameters) == "failed"
    attempt = queue.attempt(parameters)
    assert attempt["error_class"] == error_class
    assert attempt["error"]


@embedded_only
def test_a_cancel_request_stops_the_run_before_the_model_is_asked(queue: Queue) -> None:
    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    queue.call("cancel_task", task=int(parameters["task_id"]), reason="test", actor="tester")
    assert queue.run(parameters) == 0
    assert queue.status(parameters) == "cancelled"
    assert queue.attempt(parameters)["status"] == "cancelled"


@embedded_only
def test_a_run_with_a_wrong_token_changes_nothing(queue: Queue) -> None:
    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    assert queue.run({**parameters, "callback_token": "wrong"}) == 2
    assert queue.status(parameters) == "processing"
    assert queue.attempt(parameters)["reported_at"] is None


@embedded_only
def test_a_run_that_lost_its_lease_stops(
    queue: Queue, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        clock.advance(minutes=10)
        queue.call("sweep_leases", "test_worker")
        return 200, {}, completion()

    parameters = queue.claim(DOCUMENTS / "report-en.pdf")
    parameters["parameters"] = json.dumps({"model": "simulator", "chunk_tokens": 500})
    # A run that has used more than its estimate says so, and asks, before each call.
    parameters["estimated_tokens"] = "50"
    with chat_server(lose, monkeypatch) as requests:
        assert queue.run(parameters) == 0
    assert len(requests) == 1
    assert queue.status(parameters) == "enqueued"
    attempt = queue.attempt(parameters)
    assert attempt["status"] == "expired"
    assert (attempt["input_tokens"], attempt["output_tokens"]) == (100, 10)


@embedded_only
def test_a_429_is_reported_at_once_and_waited_out(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    cooled: list[bool] = []

    def limited(body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        cooled.append(
            queue.database.value("select cooldown_until is not null from lakequeue.model_endpoints")
        )
        if len(cooled) == 1:
            return 429, {"Retry-After": "0.1"}, {"error_code": "REQUEST_LIMIT_EXCEEDED"}
        if len(cooled) == 2:  # Some clients see a 400 instead, with the wait in the body.
            body = {"error_code": "REQUEST_LIMIT_EXCEEDED", "error": {"retry_after": 0.1}}
            return 400, {}, {**body, "message": "REQUEST_LIMIT_EXCEEDED: tokens per minute"}
        return 200, {}, completion()

    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    with chat_server(limited, monkeypatch):
        assert queue.run(parameters) == 0
    assert cooled == [False, True, True]
    assert queue.status(parameters) == "completed"
    assert queue.attempt(parameters)["status"] == "succeeded"


@embedded_only
def test_a_429_without_a_foreseeable_end_goes_back_to_the_queue(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    with chat_server(lambda _: (429, {"Retry-After": "3000"}, {}), monkeypatch) as requests:
        assert queue.run(parameters) == 1
    assert len(requests) == 1
    assert queue.status(parameters) == "enqueued"
    assert queue.attempt(parameters)["status"] == "rate_limited"
    waits = queue.database.value("select extract(epoch from retry_at - now()) from lakequeue.tasks")
    assert 2900 < waits < 3100


@embedded_only
@pytest.mark.parametrize("status", [400, 403, 404, 422])
def test_a_refusal_fails_the_task_at_once(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    refusal = {"error": {"message": "rate limit of 0.5 a second, or of 10"}}
    with chat_server(lambda _: (status, {}, refusal), monkeypatch) as requests:
        assert queue.run(parameters) == 1
    assert len(requests) == 1
    assert queue.status(parameters) == "failed"
    assert queue.attempt(parameters)["error_class"] == "model_request_refused"
    assert "or of 10" in queue.attempt(parameters)["error"]


@embedded_only
@pytest.mark.parametrize("reserves_calls", [True, False])
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (
            403,
            {
                "error_code": "PERMISSION_DENIED",
                "message": "PERMISSION_DENIED: The endpoint is temporarily disabled due to a "
                "Databricks-set rate limit of 0.",
            },
        ),
        (429, {"error": {"message": "Exceeded rate limit of 0 tokens per minute"}}),
        (429, {"error": {"message": "Too many requests", "limit": 0, "retry_after": 60}}),
        (400, {"error_code": "REQUEST_LIMIT_EXCEEDED", "message": "Your limit is 0."}),
    ],
)
def test_a_limit_of_zero_is_permanent_and_says_so(
    queue: Queue,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    body: dict[str, Any],
    reserves_calls: bool,
) -> None:
    """Rule 11: nobody waits for a limit of zero to end, and it does not cool the endpoint."""
    queue.configure(reserves_calls=reserves_calls)
    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    with chat_server(lambda _: (status, {"Retry-After": "60"}, body), monkeypatch) as requests:
        assert queue.run(parameters) == 1
    assert len(requests) == 1
    assert queue.status(parameters) == "failed"
    attempt = queue.attempt(parameters)
    assert attempt["error_class"] == "model_limit_of_zero"
    assert "needs a quota" in attempt["error"]
    assert queue.database.value("select cooldown_until from lakequeue.model_endpoints") is None
    assert queue.database.query("select from lakequeue.model_calls where ended_at is null") == []


@embedded_only
@pytest.mark.parametrize("limit", [1, 10])
def test_any_other_limit_is_waited_for(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    answers = iter(
        [
            (
                429,
                {"Retry-After": "0"},
                {"error": {"message": f"limit of {limit}", "limit": limit}},
            ),
            (
                429,
                {"Retry-After": "0"},
                {"error": {"message": "limit of 0.5 requests", "limit": 0.5}},
            ),
            (200, {}, completion()),
        ]
    )
    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    with chat_server(lambda _: next(answers), monkeypatch):
        assert queue.run(parameters) == 0
    assert queue.status(parameters) == "completed"


@embedded_only
def test_server_errors_are_repeated_and_then_left_to_the_queue(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakequeue.agents.document_parser.chat.SERVER_ERROR_WAITS", (0.01, 0.01))
    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    with chat_server(lambda _: (503, {}, {"error": {"message": "down"}}), monkeypatch) as requests:
        assert queue.run(parameters) == 1
    assert len(requests) == 3
    assert queue.status(parameters) == "enqueued"
    assert queue.attempt(parameters)["error_class"] == "model_unavailable"


@embedded_only
def test_an_answer_that_is_no_answer_is_asked_for_once_more(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([completion("sorry, I cannot"), completion()])
    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    with chat_server(lambda _: (200, {}, next(answers)), monkeypatch):
        assert queue.run(parameters) == 0
    assert queue.result(parameters)["fields"]["invoice_number"]["value"] == "7"
    assert queue.attempt(parameters)["input_tokens"] == 200

    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    with chat_server(lambda _: (200, {}, completion("no")), monkeypatch) as requests:
        assert queue.run(parameters) == 1
    assert len(requests) == 2
    assert queue.attempt(parameters)["error_class"] == "model_answer_invalid"


@embedded_only
def test_a_chunk_too_long_for_the_model_is_halved(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        text = body["messages"][1]["content"]
        if len(text) > 4000:
            return 400, {}, {"error": {"code": "context_length_exceeded", "message": "too long"}}
        if len(text) > 2500:
            return 200, {}, completion('{"fields": [', finish_reason="length")
        return 200, {}, completion()

    parameters = queue.claim(DOCUMENTS / "report-en.pdf")
    with chat_server(small, monkeypatch) as requests:
        assert queue.run(parameters) == 0
    assert queue.status(parameters) == "completed"
    pages = [
        line
        for body in requests
        if len(body["messages"][1]["content"]) <= 2500
        for line in body["messages"][1]["content"].split("\n")
        if line.startswith("=== page ")
    ]
    assert list(dict.fromkeys(pages)) == [f"=== page {n} ===" for n in range(1, 13)]


@embedded_only
def test_an_endpoint_that_tells_no_usage_leaves_it_incomplete(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    with chat_server(lambda _: (200, {}, completion(usage=False)), monkeypatch):
        assert queue.run(parameters) == 0
    assert queue.attempt(parameters)["usage_complete"] is False


@embedded_only
def test_a_lost_connection_loses_no_result(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_off(body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        with queue.database.server.admin() as connection:
            connection.execute(
                """select pg_terminate_backend(pid) from pg_stat_activity
                    where usename = 'test_agent' and datname = %s""",
                [queue.database.name],
            )
        return 200, {}, completion()

    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    with chat_server(cut_off, monkeypatch):
        assert queue.run(parameters) == 0
    assert queue.status(parameters) == "completed"
    assert queue.attempt(parameters)["reported_at"] is not None


@embedded_only
def test_heartbeats_extend_the_lease_and_carry_the_usage(queue: Queue, clock: Any) -> None:
    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    clock.set("2030-01-01 12:00+00")
    attempt = Attempt(
        int(parameters["attempt_id"]),
        parameters["callback_token"],
        float(parameters["lease_seconds"]),
        queue.environment["LAKEQUEUE_DATABASE_URL"],
        int(parameters["estimated_tokens"]),
    )
    assert attempt.interval <= float(parameters["lease_seconds"]) / 3
    attempt.usage = Usage(500, 50, 100)
    attempt.beat()
    attempt.close()
    lease = queue.database.value(
        "select extract(epoch from lease_expires_at - '2030-01-01 12:00+00') from lakequeue.tasks"
    )
    assert lease == 30
    row = queue.attempt(parameters)
    assert (row["input_tokens"], row["output_tokens"], row["cached_tokens"]) == (500, 50, 100)
    assert row["usage_complete"] is False


@embedded_only
@pytest.mark.parametrize("asked", [True, False])
def test_sigterm_ends_a_run_that_waits(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """Asked to cancel, the run reports so; else it leaves that to whoever ended it."""
    called = threading.Event()

    def slow(body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        called.set()
        return 429, {"Retry-After": "120"}, {}

    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    with chat_server(slow, monkeypatch):
        queue.environment["LAKEQUEUE_CHAT_URL"] = os.environ["LAKEQUEUE_CHAT_URL"]
        process = queue.start(parameters)
        assert called.wait(60)
        if asked:
            queue.call("cancel_task", task=int(parameters["task_id"]), reason="x", actor="t")
        sent = time.monotonic()
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)
    assert time.monotonic() - sent < 10
    attempt = queue.attempt(parameters)
    if asked:
        assert (code, attempt["status"]) == (0, "cancelled")
        assert queue.status(parameters) == "cancelled"
    else:
        assert (code, attempt["status"]) == (143, "running")
        assert queue.status(parameters) == "processing"


@embedded_only
def test_a_result_that_is_too_large_is_stored_without_page_texts(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = Attempt.store_result

    def store(self: Attempt, result: dict[str, Any], confidence: float) -> str:
        if any(page["text"] for page in result["pages"]):
            raise db.LakequeueError("LQ413", "too large")
        return stored(self, result, confidence)

    monkeypatch.setattr(Attempt, "store_result", store)
    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    assert queue.run(parameters) == 0
    result = queue.result(parameters)
    assert result["pages"][0]["text"] == ""
    assert result["pages"][0]["characters"] > 0
    assert "page texts left out: the result is too large" in result["notes"]


@embedded_only
def test_tracing_that_fails_does_not_fail_the_document(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    queue.environment |= {**traces.SWITCHES, "MLFLOW_TRACKING_URI": "http://127.0.0.1:9"}
    queue.environment["MLFLOW_EXPERIMENT_ID"] = "1"
    assert queue.start(parameters).wait(120) == 0
    assert queue.status(parameters) == "completed"
    assert queue.attempt(parameters)["usage_complete"] is True


def test_wrong_parameters_are_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LAKEQUEUE_DATABASE_URL", "host=/nowhere")
    monkeypatch.setenv("LAKEQUEUE_CHAT_URL", "http://127.0.0.1:9/v1")
    assert agent.run({"task_id": "1"}) == 2
    assert "is missing" in caplog.text


def test_an_unreachable_database_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAKEQUEUE_DATABASE_URL", f"host={tmp_path} dbname=x")
    monkeypatch.setenv("LAKEQUEUE_CHAT_URL", "http://127.0.0.1:9/v1")
    parameters = {
        "task_id": "1",
        "attempt_id": "1",
        "run_key": "k",
        "callback_token": "t",
        "document_path": "x.pdf",
        "lease_seconds": "0.1",
        "parameters": '{"model": "simulator"}',
    }
    assert agent.run(parameters) == 2
    assert "could not be reached" in caplog.text


# --- reserved calls (rule 4b) -------------------------------------------------------------------


class Line:
    """An attempt's line to the queue that says what the test wants."""

    def __init__(self, *answers: float | Exception | None) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[object, int, int]] = []
        self.waited: list[float] = []
        self.settled: list[tuple[object, Usage | None]] = []
        self.refusal: Exception | None = None

    def reserve_call(self, call: object, input_tokens: int, max_output_tokens: int) -> float | None:
        self.asked.append((call, input_tokens, max_output_tokens))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)

    def settle_call(self, call: object, usage: Usage | None) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.settled.append((call, usage))


def test_a_reserved_call_waits_as_told_and_is_settled_once() -> None:
    line = Line(0.5, 2.0, None)
    reservations = Reservations(line)  # type: ignore[arg-type]
    reservations.start(100, 20)
    assert line.waited == [0.5, 2.0]
    assert len({call for call, _, _ in line.asked}) == 1, "the same call each time"
    assert line.asked[0][1:] == (100, 20)
    reservations.end(Usage(90, 5, 0))
    reservations.end(Usage(90, 5, 0))
    assert line.settled == [(line.asked[0][0], Usage(90, 5, 0))]


def test_a_call_that_never_fits_asks_for_smaller_chunks() -> None:
    reservations = Reservations(Line(db.LakequeueError("LQ413", "too large")))  # type: ignore[arg-type]
    with pytest.raises(ContextTooLong):
        reservations.start(100, 20)
    reservations.end(None)


def test_a_settlement_that_is_lost_does_not_lose_the_answer() -> None:
    line = Line(None)
    line.refusal = db.LakequeueError("LQ404", "no such call")
    reservations = Reservations(line)  # type: ignore[arg-type]
    reservations.start(1, 1)
    reservations.end(Usage(1, 1, 0))
    assert line.settled == []


class OtherCall:
    """Another attempt's call under way, which takes what a minute may have of output tokens."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        queue.configure(reserves_calls=True)
        run = queue.claim(DOCUMENTS / "invoice-de.pdf")
        self._of_attempt: dict[str, Any] = {
            "attempt": int(run["attempt_id"]),
            "token": run["callback_token"],
            "call": uuid4(),
        }
        (said,) = queue.call(
            "reserve_tokens", "test_agent", **self._of_attempt, input_tokens=9, max_output_tokens=90
        )
        assert said["answer"] == "granted"

    def is_all_there_may_be(self) -> None:
        """The next call fits as soon as this one is settled."""
        limit = MAX_OUTPUT_TOKENS + 89
        self._queue.call("configure_endpoint", endpoint=AGENT, max_output_tpm=limit)

    def settle(self) -> None:
        used = {"input_tokens": 9, "output_tokens": 1}
        self._queue.call("settle_tokens", "test_agent", **self._of_attempt, **used)


@pytest.fixture
def other_call(queue: Queue) -> OtherCall:
    return OtherCall(queue)


def wait_until_a_call_waits(queue: Queue, parameters: dict[str, str]) -> None:
    query = "select count(*) from lakequeue.model_calls where attempt_id = %s"
    until = time.monotonic() + 60
    while queue.database.value(query, int(parameters["attempt_id"])) == 0:
        assert time.monotonic() < until, "it never asked"
        time.sleep(0.02)


@embedded_only
def test_heartbeats_go_on_while_a_call_waits(
    queue: Queue, other_call: OtherCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.configure(lease_duration="1.5 s")
    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    other_call.is_all_there_may_be()
    leases: set[Any] = set()
    with (
        chat_server(lambda _: (200, {}, completion()), monkeypatch) as requests,
        in_background(lambda: queue.run(parameters)) as outcome,
    ):
        wait_until_a_call_waits(queue, parameters)
        asked = time.monotonic()
        while len(leases) < 5:  # a heartbeat each half second: longer than the lease
            queue.call("sweep_leases", "test_worker")
            leases.add(
                queue.database.value(
                    "select lease_expires_at from lakequeue.tasks where id = %s",
                    int(parameters["task_id"]),
                )
            )
            assert None not in leases, "the lease was lost"
            assert time.monotonic() < asked + 30, "no heartbeats"
            time.sleep(0.05)
        assert requests == []
        other_call.settle()
    assert time.monotonic() - asked > 1.5
    assert outcome.result() == 0
    assert len(requests) == 1
    assert queue.status(parameters) == "completed"
    assert queue.attempt(parameters)["number"] == 1
    waits = queue.database.query(
        """select c.granted_at - c.asked_at > '1.5 s', c.ended_at is not null,
                  c.input_tokens, c.output_tokens
             from lakequeue.model_calls c where c.attempt_id = %s""",
        int(parameters["attempt_id"]),
    )
    assert waits == [(True, True, 100, 10)]


@embedded_only
@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_a_run_that_is_not_wanted_any_more_stops_waiting_for_its_call(
    queue: Queue, other_call: OtherCall, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """It hears so from its next asking, long before its next heartbeat."""
    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    other_call.is_all_there_may_be()
    with (
        chat_server(lambda _: (200, {}, completion()), monkeypatch) as requests,
        in_background(lambda: queue.run(parameters)) as outcome,
    ):
        wait_until_a_call_waits(queue, parameters)
        asked = time.monotonic()
        if end == "cancelled":
            queue.call("cancel_task", task=int(parameters["task_id"]), reason="x", actor="t")
        else:
            attempt = int(parameters["attempt_id"])
            queue.call("fail_attempt", "test_worker", attempt=attempt, error_class="run_died")
    assert time.monotonic() - asked < 8, "it waited for its heartbeat"
    assert outcome.result() == 0
    assert requests == []
    assert queue.attempt(parameters)["status"] == end
    assert queue.status(parameters) == ("cancelled" if end == "cancelled" else "enqueued")
    left = "select from lakequeue.model_calls where attempt_id = %s"
    assert queue.database.query(left, int(parameters["attempt_id"])) == []


@embedded_only
def test_a_call_that_is_refused_gives_its_room_back(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before it was worked on, it used nothing; what failed later may have."""
    monkeypatch.setattr("lakequeue.agents.document_parser.chat.SERVER_ERROR_WAITS", (0.01, 0.01))
    queue.configure(reserves_calls=True)
    answers = iter(
        [
            (429, {"Retry-After": "0"}, {}),
            (503, {}, {"error": {"message": "down"}}),
            (200, {}, completion()),
        ]
    )
    parameters = queue.claim(DOCUMENTS / "invoice-en.pdf")
    with chat_server(lambda _: next(answers), monkeypatch):
        assert queue.run(parameters) == 0
    calls = queue.database.query(
        """select c.input_tokens > 100, c.output_tokens from lakequeue.model_calls c
            where c.ended_at is not null order by c.id"""
    )
    assert calls == [(False, 0), (True, MAX_OUTPUT_TOKENS), (False, 10)]
