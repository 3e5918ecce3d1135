"""A model simulator: the OpenAI chat protocol on this machine, with real rate limits.

It stands in for a model endpoint so that the whole product runs without one. Everything it
says of itself is "simulator". Its answers come from rules, so the same page gets the same answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakequeue.errors import Problem

DEFAULT_TOKENS_PER_MINUTE = 200_000
MODEL = "simulator"

_START_SECONDS = 30.0
_STOP_SECONDS = 5.0


@dataclass(frozen=True)
class Simulator:
    """A running simulator."""

    base_url: str
    pid: int

    def stats(self) -> dict[str, Any]:
        """Its counters: requests, rejected, tokens, largest_window and more."""
        url = self.base_url.removesuffix("/v1") + "/stats"
        with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - our own address
            counters: dict[str, Any] = json.load(response)
        return counters


@contextlib.contextmanager
def running(
    tokens_per_minute: int = DEFAULT_TOKENS_PER_MINUTE,
    requests_per_second: int | None = None,
    latency: float = 0.0,
    port: int = 0,
    *,
    requests_per_minute: int | None = None,
    input_tokens_per_minute: int | None = None,
    output_tokens_per_minute: int | None = None,
) -> Iterator[Simulator]:
    """Run a simulator in a process of its own that ends with this block, or with this process.

    Limits that are None are none; of 0, nothing is answered.
    """
    command = [
        sys.executable,
        "-m",
        "lakequeue.simulator",
        f"--port={port}",
        f"--tokens-per-minute={tokens_per_minute}",
        f"--latency={latency}",
        f"--parent={os.getpid()}",
    ]
    limits = {
        "requests-per-second": requests_per_second,
        "requests-per-minute": requests_per_minute,
        "input-tokens-per-minute": input_tokens_per_minute,
        "output-tokens-per-minute": output_tokens_per_minute,
    }
    command += [f"--{name}={limit}" for name, limit in limits.items() if limit is not None]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_environment(),
        cwd="/",
        start_new_session=True,
    ) as process:
        try:
            yield Simulator(_read_address(process), process.pid)
        finally:
            _stop(process)


def _environment() -> dict[str, str]:
    """This environment with the folder of the package that this process uses."""
    source = str(Path(__file__).resolve().parents[2])
    others = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": source + (os.pathsep + others if others else "")}


def _read_address(process: subprocess.Popen[bytes]) -> str:
    if process.stdout is None:
        raise Problem("The simulator has no output.")
    ready = select.select([process.stdout], [], [], _START_SECONDS)[0]
    line = process.stdout.readline() if ready else b""
    try:
        return str(json.loads(line)["base_url"])
    except (ValueError, KeyError, TypeError):
        process.kill()
        raise Problem(
            "The model simulator did not start.",
            "its own output above says why"
            if ready
            else f"it gave no address within {_START_SECONDS:.0f} s",
        ) from None


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask by closing its input, then by a signal, then without asking."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    for end in (process.terminate, process.kill):
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            end()
        else:
            return
    process.wait()
