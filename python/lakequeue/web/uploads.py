"""Receiving many files at once: each is written to the volume as it arrives, never to memory."""

from __future__ import annotations

import io
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO

from flask import Request, current_app
from psycopg.types.json import Json

from lakequeue import database
from lakequeue.web.formats import plural, size
from lakequeue.web.inspector import Inspector
from lakequeue.web.reads import Reads
from lakequeue.web.volume import Volume, clean_name, stored_name

FORM_PARTS = 5000
FORM_MEMORY_BYTES = 1_000_000
DEFAULT_PRIORITY = 5


class ReceivedFile(io.RawIOBase):
    """A file of the volume that a form's part is written into; what is too large is not kept."""

    def __init__(self, path: Path, file: BinaryIO, most_bytes: int) -> None:
        """Take an open file and how large it may become."""
        super().__init__()
        self.path = path
        self.bytes = 0
        self.too_large = False
        self._file = file
        self._most_bytes = most_bytes

    def write(self, data: Any) -> int:
        """Keep it, or only count it."""
        length = len(data)
        self.bytes += length
        if self.bytes > self._most_bytes:
            if not self.too_large:
                self.too_large = True
                self._file.truncate(0)
        else:
            self._file.write(data)
        return length

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(buffer)  # type: ignore[attr-defined,no-any-return]

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def discard(self) -> None:
        """Close it, and delete it if it was not kept."""
        self.close()
        self.path.unlink(missing_ok=True)


class UploadRequest(Request):
    """A request whose files go to the volume."""

    max_form_parts = FORM_PARTS
    max_form_memory_size = FORM_MEMORY_BYTES

    received: list[ReceivedFile]

    def _get_file_stream(
        self,
        total_content_length: int | None,
        content_type: str | None,
        filename: str | None = None,
        content_length: int | None = None,
    ) -> IO[bytes]:
        del total_content_length, content_type, filename, content_length
        web = current_app.extensions["lakequeue"]
        path, file = web.volume.receive()
        stream = ReceivedFile(path, file, web.options.max_file_bytes)
        if not hasattr(self, "received"):
            self.received = []
        self.received.append(stream)
        return stream  # type: ignore[return-value]

    def discard_files(self) -> None:
        """At the end of the request: delete what was received and not kept."""
        for stream in getattr(self, "received", ()):
            stream.discard()


class BadUpload(Exception):
    """The form cannot be meant as it is; the words say what to change."""


@dataclass(slots=True)
class Submission:
    """What the form says."""

    agent: str
    name: str = ""
    customer: str = ""
    priority: int = DEFAULT_PRIORITY
    again: bool = False
    files: list[tuple[str, ReceivedFile]] = field(default_factory=list)


def read_form(request: Request, agents: list[str]) -> Submission:
    """The upload form; raises BadUpload."""
    form = request.form
    agent = form.get("agent") or (agents[0] if agents else "")
    if agent not in agents:
        raise BadUpload(f"There is no agent {agent!r} any more: choose another one.")
    priority = form.get("priority", str(DEFAULT_PRIORITY))
    if priority not in "0123456789" or len(priority) != 1:
        raise BadUpload("The priority is a number from 0 to 9.")
    submission = Submission(
        agent=agent,
        name=form.get("name", "").strip()[:500],
        customer=form.get("customer", "").strip(),
        priority=int(priority),
        again=form.get("again") == "yes",
    )
    if len(submission.customer) > 200:
        raise BadUpload("The customer's name is too long: 200 characters at most.")
    for part in request.files.getlist("documents"):
        if part.filename and isinstance(part.stream, ReceivedFile):
            submission.files.append((clean_name(part.filename), part.stream))
    if not submission.files:
        raise BadUpload("Choose at least one PDF file.")
    if not submission.name:
        submission.name = _name(submission.files)
    return submission


def _name(files: list[tuple[str, ReceivedFile]]) -> str:
    first = files[0][0][:400]
    more = len(files) - 1
    return first if not more else f"{first} and {plural(more, 'more file')}"


def describe(submission: Submission, volume: Volume, inspector: Inspector) -> list[dict[str, Any]]:
    """Each file as enqueue_tasks takes it; what is no readable PDF is refused, with the reason.

    While one is inspected, those before it are already kept, as many at once as the volume likes.
    """
    documents: list[dict[str, Any]] = []
    kept: dict[tuple[str, str], Future[str]] = {}
    waiting: list[tuple[dict[str, Any], Future[str]]] = []
    with ThreadPoolExecutor(volume.kept_at_once, "keep") as threads:
        for name, stream in submission.files:
            document, sha256 = _describe(name, stream, inspector)
            documents.append(document)
            if sha256 is None:
                continue
            if not submission.again:
                document["dedup_key"] = sha256
            place = (sha256, stored_name(name) if submission.again else "")
            if place not in kept:  # a repeat is no task, and its name no file
                kept[place] = threads.submit(volume.keep, stream.path, sha256, name)
            waiting.append((document, kept[place]))
    for document, path in waiting:
        document["document_path"] = path.result()
    return documents


def _describe(
    name: str, stream: ReceivedFile, inspector: Inspector
) -> tuple[dict[str, Any], str | None]:
    """A file's document, and its hash if it is to be kept."""
    if stream.too_large:
        most = current_app.extensions["lakequeue"].options.max_file_bytes
        refusal = f"document_too_large: {size(stream.bytes)}, the limit is {size(most)}."
        return {"name": name, "refusal": refusal}, None
    stream.close()
    found = inspector.inspect(stream.path)
    if found.refusal is not None or found.sha256 is None:
        return {"name": name, "refusal": found.refusal or "document_unreadable"}, None
    document = {
        "name": name,
        "page_count": found.page_count,
        "document_bytes": found.bytes,
    }
    return document, found.sha256


def submit(
    reads: Reads, submission: Submission, documents: list[dict[str, Any]], person: str
) -> int:
    """Open an extraction and enqueue its tasks: both or nothing."""
    with database.checkout(reads.pool) as connection, connection.transaction():
        database.check_home(connection)
        extraction: int = database.call_value(
            connection,
            "create_extraction",
            name=submission.name,
            customer=submission.customer,
            submitted_by=person,
        )
        database.call(
            connection,
            "enqueue_tasks",
            agent=submission.agent,
            documents=Json(documents),
            priority=submission.priority,
            extraction=extraction,
        )
    return extraction
