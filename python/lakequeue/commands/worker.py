"""`lakequeue worker`: claims tasks and runs their agents until it is told to stop."""

from __future__ import annotations

import contextlib
import logging
import signal
from pathlib import Path

import click

from lakequeue.commands._place import data_dir_option
from lakequeue.config import Settings
from lakequeue.errors import WrongUse


@click.command("worker")
@data_dir_option
@click.option(
    "--agent",
    "agents",
    multiple=True,
    help="Serve this agent; may be given several times (default: document-parser; with "
    "LAKEQUEUE_RELAY=databricks: all).",
)
@click.option(
    "--jobs", type=click.IntRange(1, 64), help="Documents under way at once (default 2 per CPU)."
)
@click.option(
    "--idle-limit",
    type=click.FloatRange(0.5, 3600),
    default=30.0,
    show_default=True,
    help="Longest wait in seconds between two looks at an idle queue.",
)
@click.option(
    "--tokens-per-minute",
    type=click.IntRange(min=1),
    help="What the simulator and the queue allow (default 200000).",
)
@click.option("--model", help="Model to ask, where LAKEQUEUE_CHAT_URL names an endpoint.")
def command(
    *,
    data_dir: Path | None,
    agents: tuple[str, ...],
    jobs: int | None,
    idle_limit: float,
    tokens_per_minute: int | None,
    model: str | None,
) -> None:
    """Claim tasks and run their agents until SIGTERM or Ctrl-C.

    Works on LAKEQUEUE_DATABASE_URL, or on the embedded PostgreSQL. Any number of workers may run
    side by side. Agents run on this machine; with LAKEQUEUE_RELAY=databricks, as runs of their
    jobs. Told to stop, it is gone within 15 seconds: documents under way on this machine have
    eight of them to be finished, the others go back to the queue; job runs go on.
    """
    from lakequeue import stack
    from lakequeue.relay import local

    settings = Settings.from_environment()
    if not settings.log_level_given:
        logging.getLogger("lakequeue").setLevel(logging.INFO)
    with contextlib.ExitStack() as resources:
        if settings.relay == "databricks":
            refuse_local_options(jobs, tokens_per_minute, model)
            worker = stack.make_databricks_worker(
                settings,
                stack.open_remote_place(settings, data_dir, resources),
                resources,
                agents=list(agents) or None,
                idle_limit=idle_limit,
            )
        else:
            local.refuse_others(agents)
            place = stack.open_place(settings, data_dir, resources)
            forkserver = stack.start_forkserver(place, resources)
            place = stack.ready_schema(place)
            store = stack.StoreInTheMaking(place, forkserver)
            chat = stack.open_model(settings, place, model, tokens_per_minute, resources)
            stack.configure(place, chat)
            worker = stack.make_worker(
                place,
                chat,
                store.get(),
                forkserver,
                jobs=jobs,
                agents=list(agents) or None,
                idle_limit=idle_limit,
                callback_url=settings.callback_url,
            )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: worker.stop())
        ready = f"worker {worker.name} is ready; Ctrl-C stops it"
        worker.run(lambda: click.echo(ready, err=True))


def refuse_local_options(
    jobs: int | None, tokens_per_minute: int | None, model: str | None
) -> None:
    """Say that options for agents on this machine mean nothing for job runs."""
    if jobs or tokens_per_minute or model:
        raise WrongUse(
            "--jobs, --tokens-per-minute and --model are for agents on this machine",
            "leave them out: limits are the database's, and models the jobs' own",
        )
