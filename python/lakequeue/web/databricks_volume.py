"""The same as volume.Volume in a Unity Catalog volume, through the Files API.

Agents read /Volumes/… as files; an app cannot. What is uploaded is received and checked in a folder
of this machine and then sent; what is shown is fetched into a folder with a bound, and kept there
for the next page.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import posixpath
import secrets
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lakequeue import workspace
from lakequeue.web.options import MEGABYTE, Options
from lakequeue.web.volume import NoDocument, Volume, is_pdf, stored_name
from lakequeue.workspace import NotThere, WorkspaceError

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

PREFIX = "/Volumes/"
PATIENCE_SECONDS = 20.0
"""How long a person waits for a workspace that has too much to do."""
ANSWER_SECONDS = 30.0
CACHE_BYTES = 1000 * MEGABYTE
IN_USE_SECONDS = 300.0
"""A fetched file that was asked for so lately may be being sent."""


def open_volume(options: Options) -> Volume:
    """The folder of this machine, or the volume, that the options name."""
    if str(options.volume).startswith(PREFIX) and not options.volume.is_dir():
        return DatabricksVolume(str(options.volume), options.folder, options.document_roots)
    return Volume(options.volume, options.document_roots)


class DatabricksVolume(Volume):
    """A folder of documents in a Unity Catalog volume."""

    kept_at_once = 8

    def __init__(
        self,
        path: str,
        folder: Path,
        shown: Sequence[Path] | None,
        *,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """Nothing is called yet.

        path: /Volumes/CATALOG/SCHEMA/VOLUME, or a folder in it. folder: of this machine, for what
        is received or fetched. shown: as for Volume. cache_bytes: most that is kept fetched.
        """
        super().__init__(folder / "volume", shown)
        self._path = path.rstrip("/")
        self._cache = self.root / "fetched"
        self._cache.mkdir(mode=0o700, exist_ok=True)
        self._cache_bytes = cache_bytes
        self._guard = threading.Lock()

    @functools.cached_property
    def _client(self) -> WorkspaceClient:
        return workspace.client(patience=PATIENCE_SECONDS, answer_seconds=ANSWER_SECONDS)

    def _connect(self) -> WorkspaceClient:
        with self._guard:
            return self._client

    def keep(self, received: Path, sha256: str, name: str) -> str:
        """Send a received file to the place of its content, as Volume; raises a WorkspaceError."""
        files = self._connect().files
        folder = f"{self._path}/{sha256[:2]}/{sha256}"
        kept = f"{folder}/{stored_name(name)}"
        with workspace.errors_in_words(f"keeping {name}"):
            with contextlib.suppress(NotThere), workspace.errors_in_words(f"looking at {kept}"):
                files.get_metadata(kept)
                received.unlink(missing_ok=True)
                return kept
            files.create_directory(folder)
            # One part after another: in parallel each file would take 100 MB of memory.
            files.upload_from(kept, str(received), overwrite=True, use_parallel=False)
        received.unlink(missing_ok=True)
        return kept

    def check(self, path: str) -> None:
        """Raise NoDocument if a task's document cannot be shown."""
        self._facts(path)

    def find(self, path: str) -> Path:
        """Fetch a task's document, unless it is here already; raises NoDocument."""
        key = hashlib.sha256(self._facts(path).encode()).hexdigest()
        found = self._cache / key
        try:
            # Its last use is kept as time of access; the time of change makes the pages' marks.
            os.utime(found, ns=(time.time_ns(), found.stat().st_mtime_ns))
        except OSError:
            self._fetch(path, found)
        if not is_pdf(found):
            raise NoDocument("The file is not a PDF.")
        return found

    def _facts(self, path: str) -> str:
        """What tells this version of the file from others."""
        plain = posixpath.normpath(path)
        roots = [PREFIX] if self._shown is None else [f"{root}/" for root in self._shown]
        if not plain.startswith(PREFIX) or not any(plain.startswith(root) for root in roots):
            raise NoDocument("The document is kept outside of the folders that are shown here.")
        try:
            files = self._connect().files
            with workspace.errors_in_words(f"looking at {plain}"):
                facts = files.get_metadata(plain)
        except NotThere as error:
            raise NoDocument(
                "The document is not in the volume: it was moved or deleted."
            ) from error
        except WorkspaceError as error:
            raise NoDocument(
                f"The document cannot be read at the moment: {error.message}"
            ) from error
        return f"{plain}\n{facts.last_modified}\n{facts.content_length}"

    def _fetch(self, path: str, target: Path) -> None:
        part = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
        try:
            with workspace.errors_in_words(f"fetching {path}"):
                self._connect().files.download_to(posixpath.normpath(path), str(part))
            part.replace(target)
        except WorkspaceError as error:
            raise NoDocument(
                f"The document cannot be read at the moment: {error.message}"
            ) from error
        finally:
            part.unlink(missing_ok=True)
        self._make_room()

    def _make_room(self) -> None:
        """Delete what was not asked for the longest, until the rest is within the bound."""
        with self._guard, contextlib.suppress(FileNotFoundError):
            kept = sorted(
                (file.stat().st_atime, file.stat().st_size, file) for file in self._cache.iterdir()
            )
            total = sum(size for _, size, _ in kept)
            for used, size, file in kept:
                if total <= self._cache_bytes or used > time.time() - IN_USE_SECONDS:
                    return
                file.unlink(missing_ok=True)
                total -= size
