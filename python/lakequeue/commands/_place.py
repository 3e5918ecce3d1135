"""Which database a command works on, and how to call another command on it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakequeue.config import Settings
from lakequeue.errors import WrongUse

if TYPE_CHECKING:
    from lakequeue import embedded

data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the embedded database and of all else (default: a folder of yours).",
)


@dataclass(frozen=True)
class Target:
    """The database, and the embedded server if it is ours."""

    conninfo: str
    server: embedded.Server | None


@contextlib.contextmanager
def opened(data_dir: Path | None) -> Iterator[Target]:
    """LAKEQUEUE_DATABASE_URL, or else the embedded database as long as the block lasts."""
    settings = Settings.from_environment()
    if settings.database_url is not None:
        if data_dir is not None:
            raise WrongUse(
                "--data-dir is for the embedded database, but LAKEQUEUE_DATABASE_URL is set",
                "leave one of them out",
            )
        yield Target(settings.database_url, None)
        return
    from lakequeue import embedded

    with embedded.server(data_dir or settings.data_dir) as server:
        yield Target(server.conninfo(), server)


def is_default_folder(folder: Path, settings: Settings) -> bool:
    """Whether a command without --data-dir works in this folder."""
    from lakequeue import embedded

    return folder == (settings.data_dir or embedded.default_data_dir()).expanduser().absolute()


def program() -> str:
    """This program as it was called, to be pasted before another command."""
    called = sys.argv[0]
    if os.path.basename(called) == "__main__.py":
        return f"{shlex.quote(sys.orig_argv[0])} -m lakequeue"
    found = shutil.which("lakequeue")
    if os.path.basename(called) != "lakequeue" or (
        found is not None and os.path.abspath(found) == os.path.abspath(called)
    ):
        return "lakequeue"
    return shlex.quote(called)
