"""The web part for tests: as an application to call, and as a real process to connect to."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from psycopg.types.json import Json

from lakequeue import database as db
from lakequeue.web.app import create_app
from lakequeue.web.guard import TOKEN
from lakequeue.web.options import Options
from tests.servers import Database

AGENT = "document-parser"
DOCUMENTS = Path(__file__).resolve().parents[1] / "documents"
START_SECONDS = 60


@contextlib.contextmanager
def application(database: Database, folder: Path, **changes: Any) -> Iterator[Flask]:
    """The application on a test database, with the rights of a web login."""
    volume = folder / "volume"
    options = {
        "conninfo": database.conninfo("test_web"),
        "folder": folder,
        "volume": volume,
        "document_roots": (volume,),
        "secret_key": b"a key for tests, 32 bytes or more",
        "person": "ann",
        **changes,
    }
    app = create_app(Options(**options))
    try:
        yield app
    finally:
        app.extensions["lakequeue"].close()


@contextlib.contextmanager
def server(
    database: Database, folder: Path, *arguments: str, first: str = "", **environment: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`lakequeue web` on a test database: its address and its process; `first` is run before."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{first}\nfrom lakequeue.cli import main; main()", "web",
         "--port", "0",
         "--data-dir", str(folder), *arguments],
        env={
            **os.environ,
            "LAKEQUEUE_DATABASE_URL": database.conninfo("test_web"),
            **environment,
        },
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        yield _address(process), process
    finally:
        process.terminate()
        try:
            process.wait(20)
        finally:
            process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if found := re.search(r"http://\S+", line):
            return found[0]
    raise AssertionError("the server did not start: " + "".join(said))


class Queue:
    """A database with an agent and an operator, ann, and short words for putting tasks into it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.call("configure_agent", agent=AGENT, retry_base="0", reconcile_grace="0")
        self.call("set_person", identity="ann", role="operator")

    def call(self, function: str, **parameters: Any) -> list[dict[str, Any]]:
        """As the owner."""
        with db.connect(self.database.conninfo()) as connection:
            return db.call(connection, function, **parameters)

    def value(self, function: str, **parameters: Any) -> Any:
        return next(iter(self.call(function, **parameters)[0].values()))

    def enqueue(self, path: str = "/documents/a.pdf", **more: Any) -> int:
        return int(self.value("enqueue_task", agent=AGENT, document_path=path, **more))

    def extraction(self, *documents: dict[str, Any], **more: Any) -> int:
        key: int = self.value("create_extraction", **{"name": "some documents", **more})
        self.call("enqueue_tasks", agent=AGENT, documents=Json(list(documents)), extraction=key)
        return key

    def claim(self) -> dict[str, Any]:
        (row,) = self.call("dequeue_tasks", worker="w", batch_size=1)
        assert row["outcome"] == "claimed"
        return row

    def complete(self, result: Any, confidence: float | None = None, **usage: Any) -> int:
        """Claims the next task and completes it."""
        row = self.claim()
        self.call(
            "record_callback",
            attempt=row["attempt_id"],
            token=row["callback_token"],
            outcome="success",
            result=Json(result),
            confidence=confidence,
            **usage,
        )
        return int(row["task_id"])

    def fail(self, message: str) -> int:
        row = self.claim()
        self.call(
            "record_callback",
            attempt=row["attempt_id"],
            token=row["callback_token"],
            outcome="permanent_failure",
            error=Json(message),
        )
        return int(row["task_id"])

    def statuses(self) -> dict[str, int]:
        rows = self.database.query("select status::text, count(*) from lakequeue.tasks group by 1")
        return dict(rows)


def token_of(client: FlaskClient) -> str:
    """The token of this browser's pages, also where none offers its person a form."""
    with client.session_transaction() as session:
        return str(session.setdefault(TOKEN, "made for a test"))


def upload(client: FlaskClient, *files: tuple[bytes, str], **fields: str) -> Any:
    """Sends the form; a field that is None is left out."""
    data: dict[str, Any] = {"csrf_token": token_of(client), **fields}
    data["documents"] = [(io.BytesIO(content), name) for content, name in files]
    return client.post("/upload", data=data, content_type="multipart/form-data")


def pdf(name: str = "invoice-en.pdf") -> bytes:
    return (DOCUMENTS / name).read_bytes()


def as_json(response: Any) -> Any:
    return json.loads(response.get_data(as_text=True))
