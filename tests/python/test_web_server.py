"""`lakequeue web` as a process: where it listens, what it says, and how it starts and ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from lakequeue.commands.up import _only_one
from lakequeue.errors import Problem
from lakequeue.web import options, server
from tests.python.web_server import server as web_server
from tests.servers import Database

embedded_only = pytest.mark.parametrize("server", ["embedded"], indirect=True)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from lakequeue.cli import main; main()", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_taken_port_is_said_in_words(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for command in ("web", "up"):
            ran = run(command, "--port", str(port), "--data-dir", str(tmp_path / "data"))
            assert ran.returncode == 1
            assert f"port {port} on 127.0.0.1 is taken by another program" in ran.stderr
            assert "--port" in ran.stderr
            assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("host", "words"),
    [("no.such.host.invalid", "cannot listen on"), ("192.0.2.1", "not an address of this machine")],
)
def test_a_wrong_address_is_said_in_words(host: str, words: str) -> None:
    with pytest.raises(Problem, match=words):
        server.bind(host, 0)


def test_a_second_up_on_the_same_data_says_so(tmp_path: Path) -> None:
    with _only_one(tmp_path) as mark:
        mark.write("http://127.0.0.1:8080 (process 1)\n")
        mark.flush()
        ran = run("up", "--port", "0", "--data-dir", str(tmp_path))
        assert ran.returncode == 1
        assert "already runs" in ran.stderr
        assert "http://127.0.0.1:8080" in ran.stderr
    with _only_one(tmp_path):
        pass  # free again


def test_what_is_shown_as_the_address() -> None:
    for host, expected in (
        ("127.0.0.1", "http://127.0.0.1:"),
        ("0.0.0.0", "http://127.0.0.1:"),
        ("localhost", "http://localhost:"),
    ):
        with server.bind(host, 0) as listener:
            assert server.address(listener, host).startswith(expected)
    assert server.is_loopback("127.0.0.1")
    assert server.is_loopback("localhost")
    assert not server.is_loopback("0.0.0.0")


def test_the_key_of_sessions_is_made_once_and_is_ones_own(tmp_path: Path) -> None:
    key = options.secret_key(tmp_path)
    assert options.secret_key(tmp_path) == key
    assert len(key) >= 32
    assert (tmp_path / "web.secret").stat().st_mode & 0o077 == 0
    (tmp_path / "web.secret").write_bytes(b"")
    assert len(options.secret_key(tmp_path)) >= 32


@embedded_only
def test_it_listens_on_this_machine_only_and_ends_with_its_parent(
    pristine: Database, tmp_path: Path
) -> None:
    ours, theirs = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-c", "from lakequeue.cli import main; main()", "web",
             f"--fd={listener.fileno()}", f"--alive-fd={ours}", "--data-dir", str(tmp_path)],
            env={**os.environ, "LAKEQUEUE_DATABASE_URL": pristine.conninfo("test_web")},
            pass_fds=(listener.fileno(), ours),
        )  # fmt: skip
    os.close(ours)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as answer:
            assert answer.read() == b"ok\n"
        os.close(theirs)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


@embedded_only
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_told_to(pristine: Database, tmp_path: Path, number: int) -> None:
    with web_server(pristine, tmp_path) as (address, process):
        with urllib.request.urlopen(f"{address}/api/health", timeout=30) as answer:
            assert answer.status == 200
        process.send_signal(number)
        assert process.wait(60) == 0


@embedded_only
def test_a_database_of_another_version_is_told_at_the_start(
    empty_database: Database, tmp_path: Path
) -> None:
    ran = run(
        "web", "--port", "0", "--data-dir", str(tmp_path),
        LAKEQUEUE_DATABASE_URL=empty_database.conninfo(),
    )  # fmt: skip
    assert ran.returncode == 1
    assert "lakequeue migrate" in ran.stderr
    assert "Traceback" not in ran.stderr
