"""`lakequeue migrate`: brings a database to this version, shows its state, or goes back."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lakequeue.commands._place import Target, data_dir_option, opened
from lakequeue.errors import WrongUse


@click.command("migrate")
@data_dir_option
@click.option("--status", "show_status", is_flag=True, help="Show what is applied and pending.")
@click.option(
    "--revert-to",
    metavar="NAME",
    help="Undo every migration after NAME (or its number); `nothing` undoes all.",
)
@click.option("--yes", is_flag=True, help="Do not ask before data is deleted.")
def command(data_dir: Path | None, show_status: bool, revert_to: str | None, yes: bool) -> None:
    """Bring the database to the version of this program.

    Applies pending migrations, installs changed functions and triggers, sets grants and runs the
    verify scripts. Works on LAKEQUEUE_DATABASE_URL (a direct connection, not a transaction-mode
    pooler), or on the embedded database. Running it again changes nothing.

    With --status, ends with 1 if there is something to do.

    \b
      lakequeue migrate
      lakequeue migrate --status
      lakequeue migrate --revert-to lakequeue-0003-queue
      lakequeue migrate --revert-to nothing
    """
    if show_status and revert_to is not None:
        raise WrongUse("--status and --revert-to exclude each other")
    from lakequeue import migrate

    with opened(data_dir) as place:
        if show_status:
            status = migrate.status(place.conninfo)
            for line in status.lines():
                click.echo(line)
            if not status.up_to_date:
                sys.exit(1)
        elif revert_to is not None:
            _confirm(place, revert_to, yes)
            migrate.revert_to(place.conninfo, revert_to, click.echo)
        else:
            migrate.migrate(place.conninfo, click.echo)


def _confirm(place: Target, name: str, yes: bool) -> None:
    """Going back drops tables: never by a slip."""
    if yes:
        return
    from lakequeue import database, migrate

    # What cannot be done is said at once.
    migrate.kept_by_revert([done for done, _ in migrate.status(place.conninfo).applied], name)
    where = database.target(place.conninfo)
    if not sys.stdin.isatty():
        raise WrongUse(
            f"reverting to {name} deletes data in the database ({where})", "say --yes to mean it"
        )
    click.confirm(f"Revert to {name}? This deletes data in the database ({where})", abort=True)
