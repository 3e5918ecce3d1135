"""`lakequeue psql`: a SQL shell on the database."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import click

from lakequeue.commands._place import Target, data_dir_option, opened
from lakequeue.errors import Problem


@click.command("psql", context_settings={"ignore_unknown_options": True})
@data_dir_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[PSQL ARGUMENTS]...")
def command(data_dir: Path | None, arguments: tuple[str, ...]) -> None:
    """Open psql on LAKEQUEUE_DATABASE_URL, or on the embedded database.

    Further arguments go to psql; what psql would take for our own goes after `--`. Ends with the
    exit code of psql. The functions are in the schema lakequeue.

    \b
      lakequeue psql
      lakequeue psql -c "select * from lakequeue.queue_metrics()"
      lakequeue psql -f tour.sql
      lakequeue psql -- --help
    """
    with opened(data_dir) as place:
        sys.exit(_run(place, list(arguments)))


def _run(place: Target, arguments: list[str]) -> int:
    from psycopg.conninfo import make_conninfo

    from lakequeue import database

    parts = database.parse_conninfo(place.conninfo)
    environment = dict(os.environ)
    login = database.login_for(place.conninfo)
    password = parts.pop("password", None) if login is None else login.password()
    if password:
        # The command line is visible to everyone on the machine.
        environment["PGPASSWORD"] = str(password)
    # Ctrl-C is psql's: it cancels a query there, and we wait until psql ends. A handler that does
    # nothing, since an ignored signal would stay ignored in psql.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        shell = subprocess.Popen(
            [_program(place), f"--dbname={make_conninfo('', **parts)}", *arguments],
            env=environment,
        )
        try:
            return shell.wait()
        except BaseException:  # told to end ourselves
            shell.terminate()
            shell.wait()
            raise
    finally:
        signal.signal(signal.SIGINT, before)


def _program(place: Target) -> str:
    """Our own psql for our own server; for another one rather the system's, which can do TLS."""
    if place.server is not None:
        return str(place.server.bin_dir / "psql")
    found = shutil.which("psql")
    if found is not None:
        return found
    from lakequeue import embedded

    try:
        return str(embedded.bin_dir() / "psql")
    except Problem as problem:
        raise Problem("no psql is installed", "install PostgreSQL's client programs") from problem
