"""`lakequeue web`: the pages, the API and the webhook, without a worker."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakequeue.commands._place import data_dir_option
from lakequeue.config import Settings

if TYPE_CHECKING:
    from lakequeue.embedded import Server
    from lakequeue.stack import Place
    from lakequeue.web.options import Options

DEFAULT_HOST = "127.0.0.1"

host_option = click.option(
    "--host",
    default=DEFAULT_HOST,
    show_default=True,
    help="Address to listen on; 0.0.0.0 lets other machines in.",
)
port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 takes any free one (default: DATABRICKS_APP_PORT, or 8080).",
)


@click.command("web")
@data_dir_option
@host_option
@port_option
@click.option("--fd", type=int, hidden=True, help="A listening socket, handed over.")
@click.option("--alive-fd", type=int, hidden=True, help="A pipe that closes with our parent.")
@click.option("--any-document", is_flag=True, hidden=True)
def command(
    *,
    data_dir: Path | None,
    host: str,
    port: int | None,
    fd: int | None,
    alive_fd: int | None,
    any_document: bool,
) -> None:
    """Serve the pages, the JSON under /api/ and the agents' webhook, until SIGTERM or Ctrl-C.

    Works on LAKEQUEUE_DATABASE_URL, or on the embedded PostgreSQL. It runs no documents: that is
    what `lakequeue worker` does.

    Whoever reaches the port may look, so it listens on this machine only, unless --host says
    otherwise. Everybody may upload and act as well where it does so on the embedded PostgreSQL,
    and LAKEQUEUE_IDENTITY_HEADER is not set; else the operators of set_person (README: Who may
    act).
    """
    from lakequeue import stack
    from lakequeue.web import server

    settings = Settings.from_environment()
    listener = (
        server.bind(host, settings.port if port is None else port)
        if fd is None
        else socket.socket(fileno=fd)
    )
    with contextlib.ExitStack() as resources:
        place = stack.ready_schema(stack.open_place(settings, data_dir, resources))
        options = options_for(place, settings, host, any_document or place.server is not None)
        if fd is None:
            click.echo(f"Lakequeue is at {server.address(listener, host)}", err=True)
        server.serve(options, listener, log_level=settings.log_level, alive=alive_fd)


def options_for(place: Place, settings: Settings, host: str, any_document: bool) -> Options:
    """What the application has to know.

    Documents of tasks are shown wherever they are if `any_document`: on the embedded database
    only the machine's own user can make a task for a path. On any other database an application
    can, so only documents from the volume and the given folders are shown.
    """
    from lakequeue.web import options, server

    volume = (settings.volume or place.folder / "volume").expanduser().absolute()
    conninfo = place.conninfo
    if place.server is not None:
        conninfo = local_login(place.server, settings, host)
    hosts = settings.hosts
    if not hosts and server.is_loopback(host):
        # Else a foreign site could have its name point here and read what is on the pages.
        hosts = ("localhost", "127.0.0.1", "[::1]", host)
    return options.Options(
        conninfo=conninfo,
        folder=place.folder,
        volume=volume,
        document_roots=None if any_document else (volume, *settings.document_folders),
        secret_key=settings.secret_key.encode()
        if settings.secret_key is not None
        else options.secret_key(place.folder),
        trusted_hosts=tuple(dict.fromkeys(hosts)) or None,
        identity_header=settings.identity_header,
        person=_user_name(),
        workspace_url=_workspace_url(),
        experiment_id=settings.experiment_id,
        max_streams=settings.max_streams,
        warehouse=settings.warehouse,
    )


def local_login(embedded: Server, settings: Settings, host: str) -> str:
    """Who the web process is on the embedded database.

    Where only this machine's user can reach it, and no proxy names other people, it may act for
    them as an operator; else `set_person` says who may.
    """
    from lakequeue.web import server

    if settings.identity_header is None and server.is_loopback(host):
        return embedded.ensure_login(
            "lakequeue_local_operator", "lakequeue_web", "lakequeue_operator"
        )
    return embedded.ensure_login("lakequeue_local_web", "lakequeue_web")


def _workspace_url() -> str | None:
    """The workspace that has the runs of agents with a job."""
    host = os.environ.get("DATABRICKS_HOST", "").strip().rstrip("/")
    return f"https://{host.removeprefix('https://')}" if host else None


def _user_name() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "local"
