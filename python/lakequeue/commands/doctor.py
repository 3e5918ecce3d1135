"""`lakequeue doctor`: looks at every part and says in words what to fix."""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from lakequeue.commands._place import data_dir_option, opened
from lakequeue.config import Settings


@click.command("doctor")
@data_dir_option
def command(data_dir: Path | None) -> int:
    """Check configuration, database, grants, workspace and all that is used of it.

    Reads LAKEQUEUE_DATABASE_URL, or the embedded PostgreSQL, which it starts if need be. Ends 0
    when nothing is wrong, else 1.
    """
    from lakequeue import doctor, embedded

    settings = Settings.from_environment()
    folder = data_dir or settings.data_dir or embedded.default_data_dir()
    volume = (settings.volume or folder / "volume").expanduser().absolute()
    wrong = 0
    with opened(data_dir) as place:
        for finding in doctor.examine(settings, place.conninfo, volume):
            click.echo(f"{finding.state.value:5}  {finding.part}: {finding.words}")
            if finding.hint:
                click.echo(textwrap.indent(finding.hint, "       hint: "))
            wrong += finding.state is doctor.State.WRONG
    return min(wrong, 1)
