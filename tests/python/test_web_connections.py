"""The real server and clients that send slowly, wrongly, or do not read: nobody else waits."""

from __future__ import annotations

import contextlib
import socket
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lakequeue.web.guard import HEADERS
from tests.python.web_server import server as web_server
from tests.servers import Database

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True)

THREADS = 33  # of the server with a place for one stream
LESS_PATIENCE = """
from lakequeue.web import connections
connections.REQUEST_SECONDS = connections.STALL_SECONDS = 4.0
"""


def dial(address: str, first: bytes = b"") -> socket.socket:
    where = urlsplit(address)
    client = socket.create_connection((where.hostname, where.port), 30)
    client.sendall(first)
    return client


def told(client: socket.socket) -> bytes:
    """Everything that the server says until it closes."""
    said = b""
    with contextlib.suppress(ConnectionError), client:
        while data := client.recv(65536):
            said += data
    return said


def fetch(address: str, path: str) -> bytes:
    with urllib.request.urlopen(address + path, timeout=60) as answer:
        return bytes(answer.read())


HEAD = b"POST /api/callbacks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SLOW = {
    "nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nHost: loc",
    "a small body": HEAD + b"Content-Length: 100\r\n\r\n{",
    "a large body": HEAD + b"Content-Length: 10000000\r\n\r\n{",
    "a body without an end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    "reads nothing": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
}
# What is sent, and the status it is refused with.
WRONG = {
    b"hello\r\n\r\n": 400,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n": 400,
    b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n": 400,
    b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n": 414,
    b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: " + b"a" * 9000 + b"\r\n\r\n": 431,
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70_000: 431,
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: 1\r\n" * 200 + b"\r\n": 431,
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n": 400,
    HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}": 400,
    HEAD + b"Content-Length: -1\r\n\r\n": 400,
    HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}": 400,
    HEAD + b"Transfer-Encoding: rot13\r\n\r\n": 501,
    HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\nnonsense\r\n": 400,
    HEAD + b"Expect: miracles\r\nContent-Length: 2\r\n\r\n{}": 417,
}


def test_slow_clients_wait_apart_and_wrong_ones_are_told(
    pristine: Database, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as opened:
        address, process = opened.enter_context(
            web_server(pristine, tmp_path, first=LESS_PATIENCE, LAKEQUEUE_MAX_STREAMS="1")
        )
        fetch(address, "/api/health")  # what the first one pays for

        # Wrong requests, each answered at once, with the headers of every answer.
        for sent, status in WRONG.items():
            said = told(dial(address, sent))
            assert said.startswith(f"HTTP/1.1 {status} ".encode()), (sent[:80], said[:200])
            for name, value in HEADERS.items():
                assert f"{name}: {value}".encode() in said, sent[:80]
            assert b"Content-Security-Policy: " in said
            assert b"Traceback" not in said
            assert b"gunicorn.http" not in said

        # One that arrives byte by byte, and two in one packet, are served like others.
        request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        last = request + b"Connection: close\r\n\r\n"
        client = dial(address)
        for byte in b"\r\n" + last:
            client.sendall(bytes([byte]))
        assert told(client).endswith(b"ok\n")
        assert told(dial(address, request + b"\r\n" + last)).count(b"ok\n") == 2

        # Half as many again as there are threads of each kind of slow client.
        slow = {
            kind: [opened.enter_context(dial(address, first)) for _ in range(THREADS * 3 // 2)]
            for kind, first in SLOW.items()
        }
        for path in ("/healthz", "/api/health", "/tasks", "/static/style.css"):
            assert fetch(address, path), "they wait for threads that slow clients have"
        assert told(slow["half a head"][0]).startswith(b"HTTP/1.1 408 ")
        assert told(slow["a small body"][0]).startswith(b"HTTP/1.1 408 ")
        assert told(slow["nothing"][0]) == b""
        ends = [told(client)[:13] for client in slow["a large body"]]
        assert {b"HTTP/1.1 503 ", b"HTTP/1.1 400 "} >= set(ends)
        assert ends.count(b"HTTP/1.1 503 ") >= 1, "few at a time"
        process.terminate()
        assert process.wait(60) == 0, "nor does its end wait for them"
