"""Which database a command works on."""

from __future__ import annotations

import contextlib
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
    help="Folder of the embedded database (default: a folder of yours).",
)


@dataclass(frozen=True)
class Place:
    """The database, and the embedded server if it is ours."""

    conninfo: str
    server: embedded.Server | None


@contextlib.contextmanager
def opened(data_dir: Path | None) -> Iterator[Place]:
    """LAKEQUEUE_DATABASE_URL, or else the embedded database as long as the block lasts."""
    settings = Settings.from_environment()
    if settings.database_url is not None:
        if data_dir is not None:
            raise WrongUse(
                "--data-dir is for the embedded database, but LAKEQUEUE_DATABASE_URL is set",
                "leave one of them out",
            )
        yield Place(settings.database_url, None)
        return
    from lakequeue import embedded

    with embedded.server(data_dir or settings.data_dir) as server:
        yield Place(server.conninfo(), server)
