"""`python -m lakequeue.simulator`: run the simulator until interrupted."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import sys
import threading
from typing import Any

import click

from lakequeue.simulator import DEFAULT_TOKENS_PER_MINUTE
from lakequeue.simulator.server import Meter, SimulatorServer


@click.command(name="simulator")
@click.option("--port", default=0, show_default="a free one", type=click.IntRange(0, 65535))
@click.option(
    "--tokens-per-minute",
    default=DEFAULT_TOKENS_PER_MINUTE,
    show_default=True,
    type=click.IntRange(min=1),
    help="Tokens that any 60 seconds may have; more is answered by 429.",
)
@click.option(
    "--requests-per-second",
    default=None,
    type=click.IntRange(min=1),
    help="Requests that any second may have.  [default: no limit]",
)
@click.option(
    "--requests-per-minute",
    default=None,
    type=click.IntRange(min=0),
    help="Requests that any 60 seconds may have; 0: nothing is answered.  [default: no limit]",
)
@click.option(
    "--input-tokens-per-minute",
    default=None,
    type=click.IntRange(min=0),
    help="Prompt tokens that any 60 seconds may have.  [default: no limit]",
)
@click.option(
    "--output-tokens-per-minute",
    default=None,
    type=click.IntRange(min=0),
    help="Answer tokens that any 60 seconds may have; max_tokens of those under way count.  "
    "[default: no limit]",
)
@click.option(
    "--latency",
    default=0.0,
    show_default=True,
    type=click.FloatRange(min=0, max=600),
    help="Seconds that each answer takes at least.",
)
@click.option("--parent", default=None, type=int, hidden=True)
def main(
    *,
    port: int,
    tokens_per_minute: int,
    requests_per_second: int | None,
    requests_per_minute: int | None,
    input_tokens_per_minute: int | None,
    output_tokens_per_minute: int | None,
    latency: float,
    parent: int | None,
) -> None:
    """Serve Lakequeue's model simulator on the loopback interface.

    It speaks the OpenAI chat protocol at /v1 with real rate limits, answers by fixed rules
    instead of a model, and tells its counters at /stats.
    """
    logging.basicConfig(level=logging.WARNING)
    meter = Meter(
        tokens_per_minute,
        requests_per_second,
        requests_per_minute,
        input_tokens_per_minute,
        output_tokens_per_minute,
    )
    try:
        server = SimulatorServer(meter, port, latency)
    except OSError as error:
        raise click.ClickException(f"Port {port} cannot be used: {error.strerror}") from error
    threading.Thread(target=server.serve_forever, daemon=True).start()
    done = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: done.set())
    if parent is None:
        click.echo(f"Simulator at {server.base_url}, statistics at /stats. Stop it with Ctrl-C.")
        done.wait()
    else:
        click.echo(json.dumps({"base_url": server.base_url}))
        sys.stdout.flush()
        _wait_for_parent(parent, done)
    server.server_close()


def _wait_for_parent(parent: int, done: threading.Event) -> None:
    """End with the process that started this one, however it ends.

    Its end of our standard input closes when it dies; should another process have inherited that
    end, the changed parent id tells. A kill -9 leaves no other trace.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle.
    while not done.is_set():
        readable: list[Any] = select.select([sys.stdin], [], [], 0.5)[0]
        if (readable and not os.read(sys.stdin.fileno(), 1024)) or os.getppid() != parent:
            return


if __name__ == "__main__":
    main()
