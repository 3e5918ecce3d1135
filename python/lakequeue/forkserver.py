"""A process that has imported the heavy libraries once and forks a child per piece of work.

Importing MLflow and the PDF libraries costs seconds of CPU; a fork of a process that has them
costs tenths. Python's own multiprocessing forkserver is one per program, imports the caller's
main module again, and lets its children outlive the caller; this one belongs to its owner:

* the owner dies, even by kill -9: the socket between the two closes, the fork server kills its
  children and ends;
* the fork server dies: its owner notices, and closes the pipe that every child watches;
* both die: that pipe closes by itself.

So no child outlives its owner, by two ways that do not depend on each other.

The child side at the end of this file is single-threaded, because it forks.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import logging
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

log = logging.getLogger(__name__)

TAIL_BYTES = 4_000
LOG_LIMIT_BYTES = 1_000_000
LOGS_KEPT = 200
SEND_TIMEOUT_SECONDS = 60.0
"""A message waits in the socket while the fork server is still importing."""


class ForkServerError(Exception):
    """The fork server is gone or cannot take work."""


class ForkedProcess:
    """One child of the fork server, seen from its owner."""

    def __init__(self, server: ForkServer, number: int, log_path: Path) -> None:
        """Made by ForkServer.start_process only."""
        self._server = server
        self._number = number
        self._ended = threading.Event()
        self.log_path = log_path
        self.pid: int | None = None
        self.exit_code: int | None = None
        self.tail = ""

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet, as far as its owner knows."""
        return not self._ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended; False when the timeout came first."""
        return self._ended.wait(timeout)

    def send_signal(self, number: int) -> None:
        """Signal it and what it started; nothing happens when it has ended."""
        if self.alive:
            self._server._signal(self._number, number)

    def _end(self, exit_code: int | None, reason: str = "") -> None:
        self.exit_code = exit_code
        with contextlib.suppress(OSError):
            self.tail = _read_tail(self.log_path)
            if exit_code == 0 and self.log_path.stat().st_size == 0:
                self.log_path.unlink()
        if reason:
            self.tail = f"{self.tail}\n{reason}".strip()
        self._ended.set()


@dataclass(frozen=True, slots=True)
class _Pipes:
    control: socket.socket
    life: int


class ForkServer:
    """Owner's side: starts the process, hands it work, hears what ended. Thread-safe."""

    def __init__(
        self,
        log_dir: Path,
        preload: Iterable[str],
        environment: Mapping[str, str] | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """Prepare only; `start` or the first piece of work starts the process.

        `environment` is set before the imports (some libraries read theirs just once).
        """
        self._log_dir = log_dir
        self._preload = list(preload)
        self._environment = dict(environment or {})
        self.on_end = on_end
        self._lock = threading.RLock()
        self._send_lock = threading.Lock()  # apart: the reader must never wait for a sender
        self._pipes: _Pipes | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._children: dict[int, ForkedProcess] = {}
        self._last_number = 0
        self._ready = False
        self.warm = False
        """Whether the first imports are over, well or not: work given before waits for them."""
        self._closed = False

    def start(self) -> None:
        """Start the process if it does not run; returns at once, the imports go on behind."""
        with self._lock:
            if self._closed:
                raise ForkServerError("the fork server was closed")
            if self._pipes is not None:
                return
            self._log_dir.mkdir(parents=True, exist_ok=True)
            _drop_old_logs(self._log_dir)
            ours, theirs = socket.socketpair()
            life_read, life_write = os.pipe()
            ours.settimeout(SEND_TIMEOUT_SECONDS)
            command = [
                sys.executable,
                "-m",
                __name__,
                str(theirs.fileno()),
                str(life_read),
                ",".join(self._preload),
            ]
            try:
                with open(self._log_dir / "forkserver.log", "ab") as output:
                    self._process = subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                        env={**os.environ, **self._environment},
                        pass_fds=(theirs.fileno(), life_read),
                        # A Ctrl-C in the terminal is the owner's to handle.
                        start_new_session=True,
                    )
            except OSError as error:
                ours.close()
                os.close(life_write)
                raise ForkServerError(f"cannot start the fork server: {error}") from error
            finally:
                theirs.close()
                os.close(life_read)
            self._ready = False
            self._pipes = _Pipes(ours, life_write)
            self._reader = threading.Thread(
                target=self._read, args=(self._pipes, self._process), daemon=True
            )
            self._reader.start()

    def start_process(
        self,
        target: str,
        arguments: Mapping[str, Any],
        environment: Mapping[str, str],
        name: str,
    ) -> ForkedProcess:
        """Fork a child that calls `target` ("module:function") with `arguments` and exits.

        The integer that the function returns is the exit code. What the child prints goes to
        a log file called after `name`. Returns before the child runs.
        """
        with self._lock:
            self.start()
            self._last_number += 1
            number = self._last_number
            child = ForkedProcess(self, number, self._log_dir / f"{name}.log")
            self._children[number] = child
        if number % LOGS_KEPT == 0:
            _drop_old_logs(self._log_dir)
        try:
            self._send(
                {
                    "do": "start",
                    "number": number,
                    "target": target,
                    "arguments": dict(arguments),
                    "environment": dict(environment),
                    "log": str(child.log_path),
                }
            )
        except ForkServerError:
            with self._lock:
                self._children.pop(number, None)
            raise
        return child

    def close(self) -> None:
        """End the process and all its children, at once."""
        with self._lock:
            self._closed = True
            pipes, process, reader = self._pipes, self._process, self._reader
            if pipes is None:
                return
            # A shutdown, not a close: the reader thread still sits in recv on it.
            with contextlib.suppress(OSError):
                pipes.control.shutdown(socket.SHUT_RDWR)
            if process is not None and not self._ready:
                process.kill()  # it would notice only after its imports, and has no children yet
        if reader is not None and reader is not threading.current_thread():
            reader.join(timeout=10)
        if process is not None:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _send(self, message: dict[str, Any]) -> None:
        with self._lock:
            pipes = self._pipes
        if pipes is None:
            raise ForkServerError("the fork server has ended")
        try:
            with self._send_lock:
                pipes.control.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            # Half a message may be in the pipe: this fork server is of no use any more.
            with contextlib.suppress(OSError):
                pipes.control.shutdown(socket.SHUT_RDWR)
            raise ForkServerError(f"the fork server does not take work: {error}") from error

    def _signal(self, number: int, signal_number: int) -> None:
        with contextlib.suppress(ForkServerError):
            self._send({"do": "signal", "number": number, "signal": int(signal_number)})

    def _read(self, pipes: _Pipes, process: subprocess.Popen[bytes]) -> None:
        """Hear from one fork server until it ends (a thread of its own)."""
        buffer = b""
        while True:
            try:
                data = pipes.control.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                break
            if not data:
                break
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                self._hear(json.loads(line))
        self._lost(pipes, process)

    def _hear(self, message: dict[str, Any]) -> None:
        if "ended" in message:
            with self._lock:
                child = self._children.pop(message["ended"], None)
            if child is not None:
                child._end(message["code"], message.get("reason", ""))
                self._tell()
        elif "started" in message:
            with self._lock:
                child = self._children.get(message["started"])
            if child is not None:
                child.pid = message["pid"]
        elif "ready" in message:
            self._ready = self.warm = True
            self._tell()
            log.debug("fork server ready after %.1f s", message["ready"])

    def _lost(self, pipes: _Pipes, process: subprocess.Popen[bytes]) -> None:
        """The fork server ended: so must its children, and whoever waits for them be told."""
        os.close(pipes.life)
        pipes.control.close()
        try:
            code: int | None = process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        with self._lock:
            orphans = list(self._children.values())
            self._children.clear()
            self.warm = True
            if self._pipes is pipes:
                self._pipes = None
            expected = self._closed
        if not expected:
            log.error(
                "the fork server ended unexpectedly (exit code %s), %d runs with it: %s",
                code,
                len(orphans),
                _tail_or_nothing(self._log_dir / "forkserver.log"),
            )
        for child in orphans:
            child._end(None, "the process was ended together with its fork server")
        self._tell()

    def _tell(self) -> None:
        if self.on_end is not None:
            self.on_end()


def _read_tail(path: Path) -> str:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES))
        return file.read().decode(errors="replace").replace("\x00", "").strip()


def _tail_or_nothing(path: Path) -> str:
    try:
        return _read_tail(path)
    except OSError:
        return ""


def _drop_old_logs(folder: Path) -> None:
    """Keep the newest logs only: they are for looking into a failure, not a record."""
    with contextlib.suppress(OSError):
        logs = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime)
        for path in logs[:-LOGS_KEPT]:
            path.unlink(missing_ok=True)


# The fork server itself.


class _Server:
    """The process that imports once and forks; one loop, no threads."""

    def __init__(self, control: socket.socket, life: int) -> None:
        self._control = control
        self._life = life
        self._buffer = b""
        self._children: dict[int, tuple[int, str]] = {}  # by number: pid and log
        self._numbers: dict[int, int] = {}  # pid: number

    def serve(self) -> None:
        """Do what the owner asks until its end of the socket closes."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(wake_read, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(timeout=2):
                    if key.fileobj is self._control:
                        data = self._receive()
                        if not data:
                            self._kill_all()
                            return
                        self._take(data)
                    else:
                        with contextlib.suppress(BlockingIOError):
                            os.read(wake_read, 512)
                self._reap()
                self._bound_logs()

    def say(self, message: dict[str, Any]) -> None:
        """Tell the owner; when it is gone, the next read says so."""
        with contextlib.suppress(OSError):
            self._control.sendall(json.dumps(message).encode() + b"\n")

    def _receive(self) -> bytes:
        try:
            return self._control.recv(65536)
        except OSError:
            return b""

    def _take(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if message["do"] == "start":
                self._start(message)
            elif message["do"] == "signal" and message["number"] in self._children:
                self._kill(self._children[message["number"]][0], message["signal"])

    def _start(self, message: dict[str, Any]) -> None:
        number = message["number"]
        try:
            pid = os.fork()
        except OSError as error:
            self.say({"ended": number, "code": None, "reason": f"cannot fork: {error}"})
            return
        if pid == 0:
            self._control.close()
            signal.set_wakeup_fd(-1)
            _child(self._life, message)
        # Set by both sides, so that a signal to the group cannot come too early.
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self._children[number] = (pid, message["log"])
        self._numbers[pid] = number
        self.say({"started": number, "pid": pid})

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            number = self._numbers.pop(pid, None)
            if number is None:
                continue
            del self._children[number]
            self._kill(pid, signal.SIGKILL)  # what it started ends with it
            self.say({"ended": number, "code": os.waitstatus_to_exitcode(status)})

    def _bound_logs(self) -> None:
        """A run that prints without end must not fill the disk (its log is opened to append)."""
        for _, path in self._children.values():
            with contextlib.suppress(OSError):
                if os.stat(path).st_size > LOG_LIMIT_BYTES:
                    os.truncate(path, 0)

    def _kill_all(self) -> None:
        for pid, _ in self._children.values():
            self._kill(pid, signal.SIGKILL)

    @staticmethod
    def _kill(pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)


def _child(life: int, message: dict[str, Any]) -> NoReturn:
    """Be one piece of work: own process group, own log, ending with the owner."""
    code = 1
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        output = os.open(message["log"], flags, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        threading.Thread(target=_end_with_owner, args=(life,), daemon=True).start()
        os.environ.update(message["environment"])
        random.seed()  # else every fork draws the same jitter
        code = _call(message["target"], message["arguments"])
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:  # noqa: BLE001 - whatever it is, the exit code must say so
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
        # Not sys.exit: the exit handlers of the imported libraries are the fork server's.
        os._exit(code & 0xFF)


def _call(target: str, arguments: dict[str, Any]) -> int:
    module, _, function = target.partition(":")
    result = getattr(importlib.import_module(module), function)(arguments)
    return int(result or 0)


def _end_with_owner(life: int) -> None:
    """Wait for the pipe's other end, which only the owner holds, to close."""
    with contextlib.suppress(OSError):
        os.read(life, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main(arguments: list[str]) -> None:
    """Import what was asked for, then serve."""
    began = time.monotonic()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=int(arguments[0]))
    life = int(arguments[1])
    for module in filter(None, arguments[2].split(",")):
        try:
            importlib.import_module(module)
        except Exception:  # noqa: BLE001 - an import may fail in any way
            # The child that needs it fails with the reason; others go on.
            print(f"cannot preload {module}:", file=sys.stderr)
            traceback.print_exc()
    if threading.active_count() > 1:
        names = ", ".join(thread.name for thread in threading.enumerate())
        print(f"threads in the fork server (their locks may be held): {names}", file=sys.stderr)
    gc.collect()
    gc.freeze()  # children share the imported objects' memory instead of copying it
    server = _Server(control, life)
    server.say({"ready": time.monotonic() - began})
    server.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
