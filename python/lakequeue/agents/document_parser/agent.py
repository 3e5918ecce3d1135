"""The run of one attempt: read, ask, store, confirm.

Exit codes: 0 the task needs nothing more from this run (done, cancelled, or somebody else has
it); 1 it failed and the database knows why; 2 it failed and could not say so.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from psycopg.types.json import Json

from lakequeue import database, workspace
from lakequeue.agents import DOCUMENT_PARSER
from lakequeue.agents.document_parser import reader, result, tracing
from lakequeue.agents.document_parser.attempt import (
    CANCEL,
    EXTENDED,
    LOST,
    TERMINATED,
    Attempt,
    Stopped,
)
from lakequeue.agents.document_parser.chat import (
    CallTooLarge,
    Chat,
    ContextTooLong,
    LimitOfZero,
    ModelRefused,
    ModelUnavailable,
    Pacer,
    RateLimited,
    Reply,
)
from lakequeue.agents.document_parser.chunks import Chunk, cut
from lakequeue.agents.document_parser.costs import Cost, Prices
from lakequeue.agents.document_parser.prompt import (
    MAX_OUTPUT_TOKENS,
    Answer,
    AnswerInvalid,
    messages,
    overhead_tokens,
    parse_answer,
)
from lakequeue.agents.document_parser.reservations import Reservations
from lakequeue.agents.document_parser.webhook import Webhook

CHUNK_TOKENS = 6_000
"""Page text in one call. Larger chunks save overhead; smaller ones lose less to a failed call."""

LEAST_CHUNK_TOKENS = 200

log = logging.getLogger(__name__)


class WrongParameters(Exception):
    """The run was started with parameters that no attempt has."""


@dataclass(frozen=True)
class Task:
    """A run's parameters, read."""

    task_id: int
    attempt_id: int
    run_key: str
    callback_token: str
    document_path: str
    estimated_tokens: int
    max_tpm: int | None
    reserves_calls: bool
    lease_seconds: float
    model: str
    chunk_tokens: int
    prices: Prices | None
    chat_url: str
    chat_token: str | None
    database_url: str
    callback_url: str | None

    @classmethod
    def read(cls, parameters: Mapping[str, str], environment: Mapping[str, str]) -> Task:
        """Read what the relay hands over; raises WrongParameters naming what is wrong."""
        try:
            settings = json.loads(parameters.get("parameters") or "{}")
            model_prices = json.loads(parameters.get("model_prices") or "{}")
            model = str(settings["model"])
            return cls(
                task_id=int(parameters["task_id"]),
                attempt_id=int(parameters["attempt_id"]),
                run_key=parameters["run_key"],
                callback_token=parameters["callback_token"],
                document_path=parameters["document_path"],
                estimated_tokens=int(parameters.get("estimated_tokens") or 0),
                max_tpm=int(parameters["max_tpm"]) if parameters.get("max_tpm") else None,
                reserves_calls=bool(parameters.get("reserves_calls")),
                lease_seconds=float(parameters["lease_seconds"]),
                model=model,
                chunk_tokens=int(settings.get("chunk_tokens", CHUNK_TOKENS)),
                prices=Prices.of(model_prices, model),
                chat_url=environment["LAKEQUEUE_CHAT_URL"],
                chat_token=environment.get("LAKEQUEUE_CHAT_TOKEN") or None,
                database_url=environment["LAKEQUEUE_DATABASE_URL"],
                callback_url=parameters.get("callback_url")
                or environment.get("LAKEQUEUE_CALLBACK_URL")
                or None,
            )
        except KeyError as error:
            raise WrongParameters(f"{error.args[0]} is missing") from error
        except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
            raise WrongParameters(str(error)) from error

    def text_tokens(self) -> int:
        """Page text per call: with its overhead and answer it fits into a minute's limit."""
        wanted = self.chunk_tokens
        if self.max_tpm is not None:
            wanted = min(wanted, self.max_tpm - overhead_tokens() - MAX_OUTPUT_TOKENS)
        return max(LEAST_CHUNK_TOKENS, wanted)


def run(parameters: dict[str, str]) -> int:
    """Do the work of one attempt and report it; see the module for the exit codes."""
    try:
        task = Task.read(parameters, os.environ)
    except WrongParameters as error:
        log.error("wrong parameters: %s", error)
        return 2
    bearer = workspace.Bearer() if workspace.in_job_run() else None
    attempt = Attempt(
        task.attempt_id,
        task.callback_token,
        task.lease_seconds,
        task.database_url,
        task.estimated_tokens,
        webhook=Webhook(task.callback_url, bearer.token if bearer else None)
        if task.callback_url
        else None,
    )
    try:
        attempt.start()
        return _Run(task, attempt, _chat_token(task, bearer)).run()
    except database.DatabaseUnavailable as error:
        log.error("the database could not be reached: %s", error)
    except database.LakequeueError as error:
        log.error("the database refused this run: %s %s", error.sqlstate, error)
    finally:
        attempt.close()
    return 2


def _chat_token(task: Task, bearer: workspace.Bearer | None) -> str | Callable[[], str] | None:
    """The token for the model: the configured one, or our own where the workspace serves it."""
    if task.chat_token is not None or bearer is None:
        return task.chat_token
    try:
        at_home = _origin(task.chat_url) == _origin(bearer.host)
    except workspace.WorkspaceError as error:
        log.warning("calling the model without a token: %s", error)
        return None
    return bearer.token if at_home else None


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


@dataclass(frozen=True)
class _Failure:
    """An end that is no success, as record_callback takes it."""

    outcome: str
    error_class: str
    message: str
    retry_after: float | None = None


class _Run:
    def __init__(
        self, task: Task, attempt: Attempt, chat_token: str | Callable[[], str] | None = None
    ) -> None:
        self.task = task
        self.chat_token = chat_token
        self.attempt = attempt
        self.tracer = tracing.Tracer()
        self.cost = Cost() if task.prices else None
        self.usage_complete = True
        self.trace_id: str | None = None
        self._interruptible = False

    def run(self) -> int:
        """Work, then report."""
        with self._terminable():
            return self._run()

    def _run(self) -> int:
        """The result is stored before anything else can go wrong."""
        tags = {"task_id": str(self.task.task_id), "attempt_id": str(self.task.attempt_id)}
        try:
            with self.tracer.root(DOCUMENT_PARSER, tags, self.task.run_key) as root:
                self.trace_id = root.trace_id
                root.inputs(document=self.task.document_path, model=self.task.model)
                try:
                    with self._interrupted():
                        found = self._work()
                finally:
                    complete = str(self.usage_complete).lower()
                    self.tracer.tag(usage_complete=complete, model=self.task.model)
                stored = self._store(found)
                root.outputs({key: value for key, value in found.items() if key != "pages"})
        except Stopped as stopped:
            return self._stopped(stopped.reason)
        except (database.DatabaseUnavailable, database.LakequeueError):
            raise
        except Exception as error:  # noqa: BLE001 - every end of a run is reported
            return self._failed(_explain(error))
        answer = self._record("success")
        log.info("task %s: result %s, callback %s", self.task.task_id, stored, answer)
        return 0

    # --- work

    def _work(self) -> dict[str, Any]:
        pages = self._read()
        answers: list[Answer] = []
        texts = any(page.text for page in pages)
        if not texts and any(page.problem for page in pages):
            raise reader.UnreadableDocument(
                reader.DOCUMENT_UNREADABLE, "None of its pages can be read."
            )
        if texts:
            chat = Chat(
                self.task.chat_url,
                self.chat_token,
                self.task.model,
                throttle=Reservations(self.attempt)
                if self.task.reserves_calls
                else Pacer(self.task.max_tpm, wait=self.attempt.wait),
                wait=self.attempt.wait,
                report_rate_limit=self.attempt.report_rate_limit,
            )
            with contextlib.closing(chat):
                for chunk in cut(pages, self.task.text_tokens()):
                    answers.extend(self._ask(chat, chunk, len(pages)))
        return result.build(pages, answers, self.task.model)

    def _read(self) -> list[reader.Page]:
        with self.tracer.span("read", tracing.PARSER) as span:
            span.inputs(document=self.task.document_path)
            pages: list[reader.Page] = []
            for page in reader.pages(Path(self.task.document_path)):
                pages.append(page)
                self.attempt.check()
            characters = sum(len(page.text) for page in pages)
            span.outputs({"pages": len(pages), "characters": characters})
            return pages

    def _ask(self, chat: Chat, chunk: Chunk, page_count: int) -> list[Answer]:
        """One chunk's answers: one, or several where the model's window asks for smaller ones."""
        try:
            reply = self._call(chat, chunk, page_count)
            if reply.finish_reason != "length":
                try:
                    return [parse_answer(reply.content, chunk)]
                except AnswerInvalid as error:
                    log.warning("pages %s: %s Asked again.", chunk.pages, error)
                return [parse_answer(self._call(chat, chunk, page_count).content, chunk)]
        except ContextTooLong:
            if chunk.halves() is None:
                raise
        halves = chunk.halves()
        if halves is None:
            raise AnswerInvalid("The model's answer is longer than it may be.")
        return [answer for half in halves for answer in self._ask(chat, half, page_count)]

    def _call(self, chat: Chat, chunk: Chunk, page_count: int) -> Reply:
        with self.tracer.span("chat", tracing.CHAT_MODEL) as span:
            span.inputs(model=self.task.model, pages=list(chunk.pages), characters=chunk.characters)
            try:
                reply = chat.ask(messages(chunk, page_count), self.attempt.check)
            finally:
                self.usage_complete &= chat.usage_complete
            cost = None
            if reply.usage is not None:
                self.attempt.usage += reply.usage
                if self.task.prices is not None and self.cost is not None:
                    cost = self.task.prices.cost(reply.usage)
                    self.cost += cost
            span.outputs(reply.content)
            span.usage(reply.model, reply.usage, cost)
            return reply

    # --- reports

    def _store(self, found: dict[str, Any]) -> str:
        try:
            return self.attempt.store_result(found, found["confidence"])
        except database.LakequeueError as error:
            if error.sqlstate != "LQ413":
                raise
        # What the pages say is worth less than what was found in them.
        pages = [{**page, "text": ""} for page in found["pages"]]
        notes = [*found.get("notes", []), "page texts left out: the result is too large"]
        return self.attempt.store_result(
            {**found, "pages": pages, "notes": notes}, found["confidence"]
        )

    def _record(self, outcome: str, **details: Any) -> str:
        cost: Decimal | None = self.cost.total if self.cost is not None else None
        return self.attempt.record(
            outcome,
            llm_cost=cost,
            usage_complete=self.usage_complete,
            trace_id=self.trace_id,
            **details,
        )

    def _failed(self, failure: _Failure) -> int:
        log.error("task %s: %s: %s", self.task.task_id, failure.error_class, failure.message)
        self._record(
            failure.outcome,
            error_class=failure.error_class,
            error=Json({"message": failure.message}),
            retry_after=failure.retry_after,
        )
        return 1

    def _stopped(self, reason: str) -> int:
        """Stop as asked. A signal alone does not say why, so the database is asked."""
        if reason == TERMINATED:
            answer = self.attempt.beat(patience=self.attempt.interval)
            reason = TERMINATED if answer == EXTENDED else answer
        log.info("task %s: stopped: %s", self.task.task_id, reason)
        if reason == TERMINATED:
            # Whoever ended the run knows why, and says so: a worker that stops gives the attempt
            # back, and a run that just ends is found out. The usage went with the heartbeat.
            return 128 + signal.SIGTERM
        if reason == CANCEL:
            self._record("cancelled")
        elif reason == LOST:
            # Its usage still counts (rule 10); the attempt is closed, so nothing else changes.
            self._record("failure", error_class="lease_lost")
        return 0

    # --- signals

    @contextlib.contextmanager
    def _terminable(self) -> Iterator[None]:
        """SIGTERM ends the work, but never interrupts the handing over of a result."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def terminate(*_: object) -> None:
            self.attempt.stop(TERMINATED)
            # Inside a call of the database, the next wait or check stops the run instead.
            if self._interruptible and not self.attempt.calling:
                self._interruptible = False
                raise Stopped(TERMINATED)

        before = signal.signal(signal.SIGTERM, terminate)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    @contextlib.contextmanager
    def _interrupted(self) -> Iterator[None]:
        self._interruptible = True
        try:
            yield
        finally:
            self._interruptible = False


def _explain(error: Exception) -> _Failure:
    """Which outcome an exception is: what cannot succeed on a second try is permanent."""
    message = str(error) or type(error).__name__
    match error:
        case reader.UnreadableDocument():
            return _Failure("permanent_failure", error.problem, message)
        case RateLimited():
            return _Failure("rate_limited", "rate_limited", message, error.retry_after)
        case ModelRefused():
            return _Failure("permanent_failure", _refused_class(error), message)
        case ModelUnavailable() | workspace.WorkspaceError():
            return _Failure("failure", "model_unavailable", message)
        case AnswerInvalid():
            return _Failure("failure", "model_answer_invalid", message)
    log.error("unexpected error", exc_info=error)
    return _Failure("failure", "unexpected_error", f"{type(error).__name__}: {message}")


def _refused_class(error: ModelRefused) -> str:
    match error:
        case CallTooLarge():
            return "call_too_large"
        case LimitOfZero():
            return "model_limit_of_zero"
    return "model_request_refused"
