"""Where documents are kept, and how they are handed out again.

An uploaded file is received into `incoming/`, checked there, and moved to a folder named after
its content, where it stands under its own name: what others called the same content stays theirs,
and a name cannot leave the folder. `Volume` is a folder of this machine;
databricks_volume.DatabricksVolume does the same in Unity Catalog.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import time
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from lakequeue.errors import Problem
from lakequeue.web.formats import file_name

ABANDONED_SECONDS = 24 * 3600
NAME_LENGTH = 120
_HEADER_WITHIN = 1024


class NoDocument(Exception):
    """A task's document cannot be shown; the words say why."""


def clean_name(name: str, length: int = 500) -> str:
    """A file's name as its sender knows it, without folders and what cannot be shown."""
    name = unicodedata.normalize("NFC", file_name(name.replace("\\", "/")))
    name = "".join(
        character
        for character in name
        if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn")
    ).strip()
    return name[:length] or "unnamed"


def stored_name(name: str) -> str:
    """The same, fit for a file system: letters, digits and a few marks, ending in .pdf."""
    stem = clean_name(name)
    if stem.lower().endswith(".pdf"):
        stem = stem[:-4]
    kept = "".join(c if c.isalnum() or c in "-_.()+ " else "_" for c in stem)
    kept = kept.strip(" .") or "document"
    while len(kept.encode()) > NAME_LENGTH:
        kept = kept[:-1]
    return f"{kept}.pdf"


class Volume:
    """A folder of documents."""

    kept_at_once = 1
    """How many files `keep` may be called for side by side."""

    def __init__(self, root: Path, shown: Sequence[Path] | None) -> None:
        """Make the folder if it is not there.

        shown: documents of tasks are shown from below these folders only; None: from anywhere.
        """
        self.root = root.expanduser().absolute()
        self._shown = shown
        self._incoming = self.root / "incoming"
        try:
            self._incoming.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise Problem(
                f"cannot make the folder for uploads, {self._incoming}: {error.strerror}",
                "LAKEQUEUE_VOLUME names another one",
            ) from error
        self._forget_abandoned()

    def receive(self) -> tuple[Path, BinaryIO]:
        """A new file to write an upload into."""
        path = self._incoming / secrets.token_hex(16)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        return path, os.fdopen(descriptor, "w+b")

    def keep(self, received: Path, sha256: str, name: str) -> str:
        """Move a received file to the place of its content, unless it is there by this name.

        Gives the path as agents read it. One place for all names would show a customer what
        another one had called the file.
        """
        folder = self.root / sha256[:2] / sha256
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = folder / stored_name(name)
        if kept.exists():
            received.unlink(missing_ok=True)
            return str(kept)
        with received.open("rb") as file:
            os.fsync(file.fileno())
        received.replace(kept)
        return str(kept)

    def check(self, path: str) -> None:
        """Raise NoDocument if a task's document cannot be shown."""
        find_document(path, self._shown)

    def find(self, path: str) -> Path:
        """Give a task's document as a file of this machine; raises NoDocument."""
        return find_document(path, self._shown)

    def _forget_abandoned(self) -> None:
        """What a process that was killed has left behind."""
        with contextlib.suppress(OSError):
            for path in self._incoming.iterdir():
                with contextlib.suppress(OSError):
                    if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                        path.unlink()


def is_pdf(path: Path) -> bool:
    """Whether a file begins as a PDF does."""
    with path.open("rb") as file:
        return b"%PDF-" in file.read(_HEADER_WITHIN)


def find_document(path: str, roots: Sequence[Path] | None) -> Path:
    """The file of a task, if it may be shown: a PDF, inside one of the roots (None: anywhere).

    Symbolic links are followed first and the result is checked, so that none leads out.
    """
    try:
        found = Path(path).resolve(strict=True)
        allowed = roots is None or any(
            found.is_relative_to(root.expanduser().resolve()) for root in roots
        )
        if not allowed:
            raise NoDocument("The document is kept outside of the folders that are shown here.")
        descriptor = os.open(found, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NoDocument("The document is not a file.")
            if b"%PDF-" not in file.read(_HEADER_WITHIN):
                raise NoDocument("The file is not a PDF.")
    except (OSError, ValueError, RuntimeError) as error:
        raise NoDocument(
            "The document cannot be read here: it was moved or deleted, or is kept elsewhere."
        ) from error
    return found
