"""`python -m lakequeue.agents.document_parser --task-id …`: the agent as a job's program."""

from __future__ import annotations

import logging
import os
import sys

import click

from lakequeue import database
from lakequeue.agents.document_parser.agent import run
from lakequeue.lakebase import Login

_REQUIRED = ("task_id", "attempt_id", "run_key", "callback_token", "document_path", "lease_seconds")
_OPTIONAL = (
    "attempt_number",
    "customer",
    "payload",
    "estimated_tokens",
    "max_tpm",
    "parameters",
    "model_prices",
    "reserves_calls",
    "callback_url",
)


def _options(command: click.Command) -> click.Command:
    """Give the command an option per run parameter; a job passes all of them as text."""
    for name in (*_REQUIRED, *_OPTIONAL):
        option = click.Option(
            [f"--{name.replace('_', '-')}"], required=name in _REQUIRED, default=None
        )
        command.params.append(option)
    return command


@click.command(name="document-parser")
def main(**parameters: str | None) -> None:
    """Run one attempt of the document parser.

    The options are what dequeue_tasks hands out; LAKEQUEUE_DATABASE_URL and LAKEQUEUE_CHAT_URL
    say where database and model are; LAKEBASE_ENDPOINT, whose credentials log in there.
    """
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if endpoint := os.environ.get("LAKEBASE_ENDPOINT"):
        database.log_in_with(Login(endpoint))
    sys.exit(run({name: value for name, value in parameters.items() if value is not None}))


_options(main)

if __name__ == "__main__":
    main()
