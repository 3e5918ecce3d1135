"""The simulator's HTTP side: chat completions, models, statistics, real limits."""

from __future__ import annotations

import json
import logging
import math
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from lakequeue.simulator.chat import (
    MODEL,
    Answer,
    BadRequest,
    PromptCache,
    answer,
    completion,
    parse_request,
)
from lakequeue.simulator.limits import MINUTE, SlidingWindow

MAX_BODY = 4 * 1024 * 1024
LOOPBACK = "127.0.0.1"
CLOSED = (
    "PERMISSION_DENIED: The endpoint is temporarily disabled due to a Databricks-set rate limit "
    "of 0."
)
"""What an account without a quota is told."""

LIMITS: dict[str, tuple[str, str]] = {
    "requests_per_second": ("requests per second", "requests"),
    "requests_per_minute": ("requests per minute", "requests"),
    "input_tokens_per_minute": ("input tokens per minute", "prompt tokens"),
    "output_tokens_per_minute": ("output tokens per minute", "max_tokens"),
    "tokens_per_minute": ("tokens per minute", "tokens"),
}
"""Each limit in words, and what a request takes of it."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refusal:
    """A limit that a request hit."""

    limit_type: str
    limit: int
    current: int
    retry_after: float


@dataclass(frozen=True)
class Admission:
    """A request that is being answered."""

    cached_tokens: int
    max_tokens: int
    """Reserved of the output limit until the answer is there."""


@dataclass
class Meter:
    """Limits and counters, shared by all connections.

    All limits are sliding windows. Requests, prompt tokens and the total count from the moment of
    admission; of output tokens max_tokens are reserved while a request is being answered, as
    Databricks does, and what the answer has counts from its end.
    """

    tokens_per_minute: int
    requests_per_second: int | None = None
    requests_per_minute: int | None = None
    input_tokens_per_minute: int | None = None
    output_tokens_per_minute: int | None = None
    now: Callable[[], float] = time.monotonic
    requests: int = 0
    rejected: int = 0
    errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._windows = {
            name: SlidingWindow(limit, 1.0 if name == "requests_per_second" else MINUTE)
            for name, limit in self.limits().items()
        }
        self._tokens = self._windows["tokens_per_minute"]
        self._cache = PromptCache()

    def limits(self) -> dict[str, int]:
        """The limits there are, by name."""
        limits = {name: getattr(self, name) for name in LIMITS}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def never(self, given: Answer, max_tokens: int) -> str | None:
        """The name of a limit that no minute can hold this request in."""
        units = _units(given, max_tokens)
        return next((name for name, limit in self.limits().items() if units[name] > limit), None)

    def admit(self, given: Answer, prompt: str, max_tokens: int = 0) -> Admission | Refusal:
        """Count a request, or refuse it without counting its tokens; `finish` what was admitted."""
        units = _units(given, max_tokens)
        with self._lock:
            now = self.now()
            self.requests += 1
            waits = {name: w.wait_for(units[name], now) for name, w in self._windows.items()}
            name = max(waits, key=lambda name: waits[name])
            if waits[name] > 0:
                self.rejected += 1
                window = self._windows[name]
                return Refusal(name, window.limit, window.usage(now), waits[name])
            for name, window in self._windows.items():
                if name == "output_tokens_per_minute":
                    window.hold(units[name], now)
                else:
                    window.add(units[name], now)
            cached = min(self._cache.look_up(prompt), given.prompt_tokens)
            self.input_tokens += given.prompt_tokens
            self.output_tokens += given.completion_tokens
            self.cached_tokens += cached
            return Admission(cached, units["output_tokens_per_minute"])

    def finish(self, given: Answer, admission: Admission) -> None:
        """The answer is there: what was reserved for it and not used is free again."""
        window = self._windows.get("output_tokens_per_minute")
        if window is not None:
            with self._lock:
                window.release(admission.max_tokens, given.completion_tokens, self.now())

    def error(self) -> None:
        """Count a request that was answered by an error of its own making."""
        with self._lock:
            self.requests += 1
            self.errors += 1

    def stats(self) -> dict[str, Any]:
        """What `/stats` tells."""
        with self._lock:
            now = self.now()
            return {
                "model": MODEL,
                "requests": self.requests,
                "accepted": self.requests - self.rejected - self.errors,
                "rejected": self.rejected,
                "errors": self.errors,
                "input_tokens": self.input_tokens,
                "output_tokens": self.output_tokens,
                "cached_tokens": self.cached_tokens,
                "tokens": self.input_tokens + self.output_tokens,
                "window": self._tokens.usage(now),
                "largest_window": self._tokens.largest,
                "windows": {
                    name: {"limit": w.limit, "used": w.usage(now), "largest": w.largest}
                    for name, w in self._windows.items()
                },
                "tokens_per_minute": self.tokens_per_minute,
                "requests_per_second": self.requests_per_second,
            }


def _units(given: Answer, max_tokens: int) -> dict[str, int]:
    """How much of each limit a request takes."""
    return {
        "requests_per_second": 1,
        "requests_per_minute": 1,
        "input_tokens_per_minute": given.prompt_tokens,
        "output_tokens_per_minute": max(max_tokens, given.completion_tokens),
        "tokens_per_minute": given.total_tokens,
    }


def _never(name: str, limit: int, units: int) -> BadRequest:
    """A refusal of what no minute can hold."""
    _, what = LIMITS[name]
    message = f"The request takes {units} {what}, more than the {limit} that a minute may have."
    if name == "output_tokens_per_minute":
        return BadRequest(message, "invalid_value", "max_tokens")
    return BadRequest(message, "context_length_exceeded", "messages")


class SimulatorServer(ThreadingHTTPServer):
    """Serves on the loopback interface only: it has no passwords."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, meter: Meter, port: int = 0, latency: float = 0.0) -> None:
        self.meter = meter
        self.latency = latency
        super().__init__((LOOPBACK, port), _Handler)

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as base_url."""
        return f"http://{LOOPBACK}:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """A client that went away is nothing to report."""
        log.debug("connection of %s ended", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: SimulatorServer
    server_version = "LakequeueSimulator"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 120
    _routes: ClassVar[dict[str, str]] = {
        "/v1/models": "_models",
        f"/v1/models/{MODEL}": "_model",
        "/stats": "_stats",
        "/health": "_health",
    }

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self) -> None:
        path = self.path.split("?", 1)[0]
        name = self._routes.get(path)
        if name is None:
            self._fail(HTTPStatus.NOT_FOUND, f"There is nothing at {path}.", "not_found")
        else:
            self._send(HTTPStatus.OK, getattr(self, name)())

    def do_POST(self) -> None:
        try:
            body = self._read()
        except BadRequest as error:
            self.close_connection = True
            self._fail(HTTPStatus.BAD_REQUEST, str(error), error.code)
            return
        path = self.path.split("?", 1)[0]
        if path != "/v1/chat/completions":
            self._fail(HTTPStatus.NOT_FOUND, f"There is nothing at {path}.", "not_found")
            return
        try:
            self._complete(body)
        except BadRequest as error:
            missing = error.code == "model_not_found"
            status = HTTPStatus.NOT_FOUND if missing else HTTPStatus.BAD_REQUEST
            self.server.meter.error()
            self._fail(status, str(error), error.code, error.parameter)
        except Exception:
            log.exception("the simulator failed")
            self.server.meter.error()
            self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, "The simulator failed.", "internal_error")

    def _complete(self, body: bytes) -> None:
        started = time.monotonic()
        try:
            request = parse_request(json.loads(body))
        except (ValueError, RecursionError):
            raise BadRequest("The body is not JSON.", "invalid_json") from None
        given = answer(request)
        meter = self.server.meter
        if 0 in meter.limits().values():
            meter.error()
            self._fail(HTTPStatus.FORBIDDEN, CLOSED, "permission_denied")
            return
        name = meter.never(given, request.max_tokens)
        if name is not None:
            raise _never(name, meter.limits()[name], _units(given, request.max_tokens)[name])
        outcome = meter.admit(given, request.prompt, request.max_tokens)
        if isinstance(outcome, Refusal):
            self._refuse(outcome)
            return
        try:  # A model takes its time.
            rest = self.server.latency - (time.monotonic() - started)
            if rest > 0:
                time.sleep(rest)
        finally:
            meter.finish(given, outcome)
        self._send(HTTPStatus.OK, completion(given, outcome.cached_tokens))

    def _refuse(self, refusal: Refusal) -> None:
        """Answer 429 the way Databricks model serving does, with Retry-After."""
        seconds = math.ceil(refusal.retry_after)
        unit, _ = LIMITS[refusal.limit_type]
        message = (
            f"REQUEST_LIMIT_EXCEEDED: Exceeded workspace {unit} rate limit for {MODEL}: "
            f"{refusal.current} of {refusal.limit} are used. Retry after {seconds} s."
        )
        body = {
            "error_code": "REQUEST_LIMIT_EXCEEDED",
            "message": message,
            "error": {
                "message": message,
                "type": "rate_limit_error",
                "code": "rate_limit_exceeded",
                "param": None,
                "limit_type": refusal.limit_type,
                "limit": refusal.limit,
                "current": refusal.current,
                "retry_after": seconds,
            },
        }
        self._send(HTTPStatus.TOO_MANY_REQUESTS, body, {"Retry-After": str(seconds)})

    def _read(self) -> bytes:
        try:
            length = int(self.headers.get("Content-Length", ""))
        except ValueError:
            raise BadRequest("Content-Length is missing.", "invalid_request_error") from None
        if not 0 <= length <= MAX_BODY:
            raise BadRequest(f"The body may have {MAX_BODY} bytes.", "request_too_large")
        return self.rfile.read(length)

    def _models(self) -> dict[str, Any]:
        return {"object": "list", "data": [self._model()]}

    def _model(self) -> dict[str, Any]:
        return {"id": MODEL, "object": "model", "created": 0, "owned_by": "lakequeue"}

    def _stats(self) -> dict[str, Any]:
        return self.server.meter.stats()

    def _health(self) -> dict[str, Any]:
        return {"status": "ok", "model": MODEL}

    def _fail(
        self, status: HTTPStatus, message: str, code: str, parameter: str | None = None
    ) -> None:
        kind = (
            "server_error"
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR
            else "invalid_request_error"
        )
        error = {"message": message, "type": kind, "param": parameter, "code": code}
        self._send(status, {"error": error})

    def _send(
        self, status: HTTPStatus, body: dict[str, Any], headers: dict[str, str] | None = None
    ) -> None:
        data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Request-Id", uuid.uuid4().hex)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        log.debug(format, *args)
