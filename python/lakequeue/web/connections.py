"""Connections that get a thread only once their request is here: slow clients wait apart.

gunicorn's thread worker gives each connection a thread that waits for whatever the client sends,
for ever: a few hundred clients that send a byte a minute leave no thread for the others. Here the
loop that accepts connections also receives each request's head, and its body where that is small,
without waiting for any of them. What is larger than that, and what is sent back, moves in a
thread, but not more slowly than `SLOWEST_BYTES` a second, and few large bodies at a time.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import re
import selectors
import socket
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gunicorn.http.errors import (
    ExpectationFailed,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
    UnsupportedTransferCoding,
)
from gunicorn.workers.gthread import ThreadWorker

from lakequeue.web.guard import CONTENT_SECURITY_POLICY, HEADERS

log = logging.getLogger(__name__)

REQUEST_SECONDS = 10.0
"""For a head, with the body if that is small; also for the turn of a large body."""
CROWDED_SECONDS = 1.0
"""The same while every place for a connection is taken."""
HEAD_BYTES = 64 * 1024
SMALL_BODY_BYTES = 64 * 1024
LARGE_BODIES = 16
"""Requests with a larger body at a time; half of the threads that streams leave to requests."""
STALL_SECONDS = 20.0
"""In a thread: no client is waited for longer without a single byte."""
GRACE_SECONDS = 10.0
SLOWEST_BYTES = 4096
"""A second, in the mean, once a thread has waited for the grace."""
LINGER_SECONDS = 2.0
"""After an answer the client has so long to close, so that it gets the answer's end."""
CHUNK = 64 * 1024

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)
_UNBOUNDED = re.compile(rb"\r\n(?:transfer-encoding|expect):", re.IGNORECASE)

REFUSALS: dict[type[Exception], tuple[int, str, str]] = {
    LimitRequestLine: (414, "URI Too Long", "The address is too long: choose less at once."),
    LimitRequestHeaders: (
        431,
        "Request Header Fields Too Large",
        "The request's head is too large: delete the cookies of this address.",
    ),
    ExpectationFailed: (417, "Expectation Failed", "Send the request without the header Expect."),
    UnsupportedTransferCoding: (
        501,
        "Not Implemented",
        "Send the body as it is, or with Transfer-Encoding: chunked.",
    ),
    ParseException: (400, "Bad Request", "This is no HTTP request that can be meant."),
}
_HEAD_TOO_LARGE = REFUSALS[LimitRequestHeaders]
_TOO_SLOW = (408, "Request Timeout", "The request did not arrive in time: send it again.")
_TOO_MANY = (
    503,
    "Service Unavailable",
    "Too many uploads are under way: try again in a moment.",
)
_FAULT = (500, "Internal Server Error", "This is a fault of ours, noted in the log.")


class ClientSocket(socket.socket):
    """A client's socket: a thread waits for it, but not for ever, nor for a trickle."""

    def begin(self) -> None:
        """A new request: what was is forgotten."""
        self._waited = 0.0
        self._moved = 0

    def setblocking(self, flag: bool) -> None:
        self.settimeout(STALL_SECONDS if flag else 0.0)

    def recv(self, size: int, flags: int = 0) -> bytes:
        began = time.monotonic()
        data = super().recv(size, flags)
        self._count(began, len(data))
        return data

    def sendall(self, data: Any, flags: int = 0) -> None:
        left = memoryview(data).cast("B")
        while left:
            began = time.monotonic()
            sent = self.send(left[:CHUNK], flags)
            self._count(began, sent)
            left = left[sent:]

    def _count(self, began: float, moved: int) -> None:
        self._waited += time.monotonic() - began
        self._moved += moved
        if self._waited > GRACE_SECONDS and self._moved < SLOWEST_BYTES * self._waited:
            raise ConnectionResetError(errno.ECONNRESET, "the client is too slow")


@dataclass(eq=False)
class _Arriving:
    """What is known of a connection without a thread."""

    began: float
    received: bytearray = field(default_factory=bytearray)
    head: int = 0
    """Length of the head, once it is here."""
    ended: bool = False
    """It has its answer; what still comes is thrown away."""


class PatientWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn is not typed
    """gunicorn's thread worker, whose threads wait for no client."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._arriving: dict[Any, _Arriving] = {}
        self._in_turn: deque[Any] = deque()
        self._large: set[Any] = set()

    # --- all of this runs in the loop that accepts connections

    def enqueue_req(self, conn: Any) -> None:
        """A connection is new, or goes on: it gets a thread when its request is here."""
        if not isinstance(conn.sock, ClientSocket):
            conn.sock = ClientSocket(fileno=conn.sock.detach())
            conn.sock.begin()
            conn.init()
        arriving = _Arriving(time.monotonic())
        if conn.parser.unreader.buf.getvalue():  # the request before was read beyond its end
            arriving.received += conn.parser.unreader.read()
        self._arriving[conn] = arriving
        conn.sock.setblocking(False)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._receive, conn))
        if arriving.received:
            self._consider(conn, arriving)

    def _receive(self, conn: Any, _: Any) -> None:
        arriving = self._arriving[conn]
        try:
            data = conn.sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(conn)
        elif not arriving.ended:
            arriving.received += data
            self._consider(conn, arriving)

    def _consider(self, conn: Any, arriving: _Arriving) -> None:
        """Give it a thread if its request is here, or too large to wait for."""
        received = arriving.received
        while received.startswith(b"\r\n"):  # an empty line may come first
            del received[:2]
        if not arriving.head:
            arriving.head = received.find(b"\r\n\r\n") + 4
            if arriving.head < 4:
                arriving.head = 0
                if len(received) > HEAD_BYTES:
                    self._refuse(conn, _HEAD_TOO_LARGE)
                return
        head = bytes(received[: arriving.head])
        found = _LENGTH.search(head)
        length = int(found[1]) if found else 0
        missing = arriving.head + length - len(received)
        if _UNBOUNDED.search(head) or (missing > 0 and length > SMALL_BODY_BYTES):
            self.poller.unregister(conn.sock)
            arriving.began = time.monotonic()
            self._in_turn.append(conn)
            self._next_in_turn()
        elif missing <= 0:
            self.poller.unregister(conn.sock)
            self._start(conn)

    def _next_in_turn(self) -> None:
        while self._in_turn and len(self._large) < LARGE_BODIES:
            conn = self._in_turn.popleft()
            self._large.add(conn)
            self._start(conn)

    def _start(self, conn: Any) -> None:
        conn.parser.unreader.unread(bytes(self._arriving.pop(conn).received))
        conn.data_ready = True
        conn.sock.begin()
        super().enqueue_req(conn)

    def finish_request(self, conn: Any, fs: Any) -> None:
        """Its thread is done with it."""
        self._large.discard(conn)
        if fs.cancelled() or fs.exception() is not None or not fs.result():
            self._linger(conn)
        else:
            super().finish_request(conn, fs)
        self._next_in_turn()

    def murder_pending(self) -> None:
        """Every second: what has not come in time does not come any more."""
        crowded = self.nr_conns >= self.worker_connections
        patience = CROWDED_SECONDS if crowded else REQUEST_SECONDS
        now = time.monotonic()
        for conn, arriving in list(self._arriving.items()):
            waited = now - arriving.began
            if arriving.ended:
                if waited > LINGER_SECONDS:
                    self._drop(conn)
            elif not arriving.received:
                if waited > patience or not self.alive:
                    self._drop(conn)
            elif conn in self._in_turn:
                if waited > REQUEST_SECONDS:
                    self._in_turn.remove(conn)
                    self.poller.register(
                        conn.sock, selectors.EVENT_READ, partial(self._receive, conn)
                    )
                    self._refuse(conn, _TOO_MANY)
            elif waited > patience:
                self._refuse(conn, _TOO_SLOW)
        super().murder_pending()

    def _refuse(self, conn: Any, refusal: tuple[int, str, str]) -> None:
        """Answer without a thread; it is registered with the poller."""
        with contextlib.suppress(OSError):
            conn.sock.send(_answer(*refusal))
        self.poller.unregister(conn.sock)
        self._linger(conn)

    def _linger(self, conn: Any) -> None:
        """Close it, once the client has the answer."""
        self._arriving[conn] = _Arriving(time.monotonic(), ended=True)
        try:
            conn.sock.setblocking(False)
            conn.sock.shutdown(socket.SHUT_WR)
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._receive, conn))
        except (OSError, ValueError):  # it is closed already
            self._drop(conn)

    def _drop(self, conn: Any) -> None:
        del self._arriving[conn]
        with contextlib.suppress(KeyError, ValueError):
            self.poller.unregister(conn.sock)
        self.nr_conns -= 1
        conn.close()

    # --- in a request's thread

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Exception) -> None:
        """What is no request is refused in words of ours, with the headers of every answer."""
        peer = addr[0] if addr else "a client"
        refusal = _FAULT
        if isinstance(exc, ParseException):
            log.info("not a request, from %s: %s", peer, type(exc).__name__)
            if req is not None:  # it has its answer; only what came behind it makes no sense
                return
            refusal = next(REFUSALS[kind] for kind in REFUSALS if isinstance(exc, kind))
        else:
            log.error("a request failed outside of the application", exc_info=exc)
        with contextlib.suppress(OSError):
            client.sendall(_answer(*refusal))


def _answer(status: int, reason: str, words: str) -> bytes:
    body = f"{words}\n".encode()
    headers = {
        **HEADERS,
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Cache-Control": "no-store",
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **({"Retry-After": "5"} if status == 503 else {}),
    }
    lines = [
        f"HTTP/1.1 {status} {reason}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
