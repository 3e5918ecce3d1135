"""What the application has to know, in one object."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from lakequeue.errors import Problem

MEGABYTE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Options:
    """Built by the commands from settings and command line."""

    conninfo: str
    folder: Path
    """For the uploads, unless `volume` names another place, and for the session secret."""
    volume: Path
    """Where uploaded documents are kept; agents read them there."""
    document_roots: tuple[Path, ...] | None
    """Documents are shown from below these folders only; None: wherever a task says."""
    secret_key: bytes
    trusted_hosts: tuple[str, ...] | None = None
    """Host names that may be asked for; None: any."""
    identity_header: str | None = None
    """Names the person, where a proxy in front sets it."""
    person: str = "local"
    """Who acts, where no header names them."""
    max_file_bytes: int = 100 * MEGABYTE
    max_upload_bytes: int = 2000 * MEGABYTE
    workspace_url: str | None = None
    """The Databricks workspace whose job runs are linked; None: runs are local."""
    experiment_id: str | None = None
    """The MLflow experiment of job runs, whose traces are linked."""
    max_streams: int = 200
    warehouse: str | None = None
    """The SQL warehouse that is asked for costs; None: they cannot be asked for."""


def secret_key(folder: Path) -> bytes:
    """The key that signs session cookies: made once, readable by its owner only."""
    file = folder / "web.secret"
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read(file)
    except OSError as error:
        raise Problem(
            f"cannot write {file}: {error.strerror}", "choose another folder with --data-dir"
        ) from error
    with os.fdopen(descriptor, "wb") as new:
        key = secrets.token_hex(32).encode()
        new.write(key)
    return key


def _read(file: Path) -> bytes:
    key = file.read_bytes().strip()
    if len(key) < 32:
        # Two that start at once: the other one has made the file, but not written it yet, or it
        # was cut short. A fresh key only makes open forms ask to be sent again.
        key = secrets.token_hex(32).encode()
        file.write_bytes(key)
    return key
