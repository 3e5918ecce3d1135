"""`python -m lakequeue.agents.document_parser --task-id …`: the agent as a job's program."""

from __future__ import annotations

import logging
import os
import re
import sys
from typing import Any

import click

from lakequeue import database, workspace
from lakequeue.agents import OPTIONAL_PARAMETERS, REQUIRED_PARAMETERS
from lakequeue.agents.document_parser.agent import run
from lakequeue.lakebase import Login


def _options(command: click.Command) -> click.Command:
    """Give the command an option per run parameter; a job passes all of them as text."""
    for name in (*REQUIRED_PARAMETERS, *OPTIONAL_PARAMETERS):
        option = click.Option(
            [f"--{name.replace('_', '-')}"], required=name in REQUIRED_PARAMETERS, default=None
        )
        command.params.append(option)
    return command


class _Assignment(click.ParamType[tuple[str, str]]):
    """NAME=VALUE."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        found = re.fullmatch(r"([A-Z][A-Z0-9_]*)=(.*)", value, re.DOTALL)
        if found is None:
            self.fail("use NAME=VALUE", param, ctx)
        return found[1], found[2]


@click.command(name="document-parser")
@click.option(
    "--set", "variables", type=_Assignment(), multiple=True, help="Set an environment variable."
)
@click.option(
    "--secret",
    "secrets",
    type=_Assignment(),
    multiple=True,
    metavar="NAME=SCOPE/KEY",
    help="Set one to a secret of the workspace.",
)
def main(
    variables: tuple[tuple[str, str], ...],
    secrets: tuple[tuple[str, str], ...],
    **parameters: str | None,
) -> None:
    """Run one attempt of the document parser.

    The options are what dequeue_tasks hands out; LAKEQUEUE_DATABASE_URL and LAKEQUEUE_CHAT_URL
    say where database and model are; LAKEBASE_ENDPOINT, whose credentials log in there. Where a
    job has no environment of its own, as on serverless compute, --set and --secret make one.
    """
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        # Secrets first: they are read with the login that the platform gives to a run, which the
        # others may replace.
        found = workspace.secrets(dict(secrets)) if secrets else {}
    except workspace.WorkspaceError as error:
        raise click.ClickException(str(error)) from error
    os.environ.update({**dict(variables), **found})
    if endpoint := os.environ.get("LAKEBASE_ENDPOINT"):
        database.log_in_with(Login(endpoint))
    sys.exit(run({name: value for name, value in parameters.items() if value is not None}))


_options(main)


def job() -> None:
    """Run as a job's wheel task, where even sys.exit(0) may count as a failure."""
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise


if __name__ == "__main__":
    main()
