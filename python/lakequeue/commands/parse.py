"""`lakequeue parse`: documents in, structured results out, on this machine."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lakequeue.agents import DOCUMENT_PARSER
from lakequeue.commands._place import data_dir_option, is_default_folder, program
from lakequeue.config import Settings
from lakequeue.errors import WrongUse
from lakequeue.table import Column, Row, render

if TYPE_CHECKING:
    from lakequeue import stack
    from lakequeue.listener import Listener
    from lakequeue.worker import Worker

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Progress is read this often, notifications or not."""
LINE_SECONDS = 5.0
"""Without a terminal, progress is a line this often at most."""
OPEN = ("enqueued", "processing")
FINISH_SECONDS = 600.0
DRAIN_SECONDS = 3.0
"""Who presses Ctrl-C does not wait long for documents under way."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file to parse, and what it is called in the output."""

    path: Path
    name: str


@click.command("parse")
@click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER...")
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array instead of a table.")
@click.option("--customer", default="", help="For whom the documents are parsed; costs show it.")
@click.option(
    "--priority",
    type=click.IntRange(0, 9),
    default=5,
    show_default=True,
    help="Higher goes before lower.",
)
@click.option(
    "--again", is_flag=True, help="Parse files anew whose content was parsed or submitted before."
)
@click.option(
    "--tokens-per-minute",
    type=click.IntRange(min=1),
    help="What the simulator and the queue allow (default 200000).",
)
@click.option("--model", help="Model to ask, where LAKEQUEUE_CHAT_URL names an endpoint.")
@click.option(
    "--jobs", type=click.IntRange(1, 64), help="Documents under way at once (default 2 per CPU)."
)
def command(
    *,
    paths: tuple[str, ...],
    data_dir: Path | None,
    as_json: bool,
    customer: str,
    priority: int,
    again: bool,
    tokens_per_minute: int | None,
    model: str | None,
    jobs: int | None,
) -> None:
    """Parse PDF files, and all PDF files in folders, and show what they say.

    Starts a PostgreSQL of its own (or joins the one that runs, or uses LAKEQUEUE_DATABASE_URL),
    submits the documents, runs an agent for each, and ends when all are done. A file whose
    content was parsed before is not parsed again: its result is shown.

    Ends with 0 when all were completed, 1 when some failed, 2 on wrong use.

    \b
      lakequeue parse invoice.pdf
      lakequeue parse contracts/ --customer ACME --priority 8
      lakequeue parse invoices/ --json > results.json
    """
    began = time.monotonic()
    settings = Settings.from_environment()
    documents = find_documents(paths)
    options = _Options(customer, priority, again, tokens_per_minute, model, jobs)
    with _saying_how_to_continue():
        outcome = _parse(documents, settings, data_dir, options)
    if as_json:
        click.echo(json.dumps(outcome.rows, ensure_ascii=False, indent=1))
    else:
        click.echo(outcome.table())
        click.echo(outcome.summary(time.monotonic() - began))
    sys.exit(0 if outcome.all_completed else 1)


@dataclass(frozen=True, slots=True)
class _Options:
    customer: str
    priority: int
    again: bool
    tokens_per_minute: int | None
    model: str | None
    jobs: int | None


# --- what to parse ------------------------------------------------------------------------------


def find_documents(paths: tuple[str, ...]) -> list[Document]:
    """Find the files, in the order given; a folder stands for the PDF files below it."""
    missing = [path for path in paths if not Path(path).exists()]
    if missing:
        raise WrongUse(f"there is no file or folder {', '.join(missing)}", "nothing was submitted")
    documents: list[Document] = []
    for given in paths:
        path = Path(given)
        if not path.is_dir():
            documents.append(Document(path.absolute(), given))
            continue
        found = sorted(
            file for file in path.rglob("*") if file.suffix.lower() == ".pdf" and file.is_file()
        )
        if not found:
            raise WrongUse(f"the folder {given} has no PDF files", "nothing was submitted")
        documents += [Document(file.absolute(), str(file)) for file in found]
    return documents


def describe(documents: list[Document], again: bool) -> list[dict[str, Any]]:
    """Say what each file is, as enqueue_tasks takes it; what is no readable PDF is refused."""
    from lakequeue.agents.document_parser import reader

    described: list[dict[str, Any]] = []
    for document in documents:
        found = reader.inspect(document.path)
        if found.problem is not None:
            refusal = f"{found.problem}: {found.explanation}"
            described.append({"name": document.name, "refusal": refusal})
            continue
        entry: dict[str, Any] = {
            "name": document.name,
            "document_path": str(document.path),
            "page_count": found.page_count,
            "document_bytes": found.bytes,
        }
        if not again:
            entry["dedup_key"] = found.sha256
        described.append(entry)
    return described


# --- the run ------------------------------------------------------------------------------------


def _parse(
    documents: list[Document], settings: Settings, data_dir: Path | None, options: _Options
) -> Outcome:
    """Build the stack, submit, wait, and read the results."""
    from lakequeue import stack

    with contextlib.ExitStack() as resources:
        show = _Show(len(documents))
        place = stack.open_place(settings, data_dir, resources)
        forkserver = stack.start_forkserver(place, resources)
        # Side by side: the imports of the fork server, the migration, the simulator, the files.
        side = resources.enter_context(ThreadPoolExecutor(2))
        schema = side.submit(stack.ready_schema, place)
        model_ready = side.submit(
            stack.open_model,
            settings,
            place,
            options.model,
            options.tokens_per_minute,
            resources,
        )
        described = describe(documents, options.again)
        place = schema.result()
        store = stack.StoreInTheMaking(place, forkserver)
        model = model_ready.result()
        stack.configure(place, model)

        extraction = _Extraction(place, documents, described, options)
        resources.callback(extraction.close)
        show.begin(model)
        if not extraction.finished():
            # Where every document was parsed before, there is nothing to start a worker for.
            worker = stack.make_worker(
                place,
                model,
                store.get(),
                forkserver,
                jobs=options.jobs,
                drain_seconds=DRAIN_SECONDS,
            )
            with _working(worker) as check:
                extraction.wait(show, check)
        show.end()
        return Outcome(
            rows=extraction.rows(),
            fresh=extraction.fresh,
            simulated=model.simulator is not None,
            rejected=model.simulator.stats()["rejected"] if model.simulator else None,
            folder=None
            if place.server is None or is_default_folder(place.folder, settings)
            else place.folder,
        )


class _Extraction:
    """The documents of this call in the database."""

    def __init__(
        self,
        place: stack.Place,
        documents: list[Document],
        described: list[dict[str, Any]],
        options: _Options,
    ) -> None:
        from psycopg.types.json import Json

        from lakequeue import database
        from lakequeue.listener import Listener

        self._call = database.call
        self._connection = database.connect(place.conninfo, application_name="lakequeue parse")
        self._listener: Listener = Listener(place.conninfo, "lakequeue_changes", "lakequeue parse")
        self._listener.keep()
        self.id: int = database.call_value(
            self._connection,
            "create_extraction",
            name=_extraction_name(documents),
            customer=options.customer,
        )
        tasks = self._call(
            self._connection,
            "enqueue_tasks",
            agent=DOCUMENT_PARSER,
            documents=Json(described),
            priority=options.priority,
            extraction=self.id,
        )
        created = [row["task_id"] for row in tasks if row["created"]]
        unfinished = [row["task_id"] for row in self.rows() if row["status"] in OPEN]
        self.fresh: frozenset[int] = frozenset(created + unfinished)
        (status,) = self._call(self._connection, "agent_status", agents=[DOCUMENT_PARSER])
        if status["paused_at"] is not None:
            log.warning(
                "agent %s is paused (%s): nothing runs until it is resumed "
                "(lakequeue psql -c \"select lakequeue.resume_agent('%s')\")",
                DOCUMENT_PARSER,
                status["pause_reason"],
                DOCUMENT_PARSER,
            )

    def progress(self) -> dict[str, int]:
        (row,) = self._call(self._connection, "extraction_progress", extraction=self.id)
        return row

    def finished(self) -> bool:
        return not _open(self.progress())

    def wait(self, show: _Show, check: Callable[[], None]) -> None:
        """Wait until every task is final, whoever works on it."""
        while True:
            progress = self.progress()
            show.update(progress)
            if not _open(progress):
                return
            check()
            self._listener.keep()
            self._listener.wait(LOOK_SECONDS)

    def rows(self) -> list[dict[str, Any]]:
        """Give the results as `--json` prints them."""
        found = self._call(self._connection, "extraction_results", extraction=self.id)
        return [_json_row(row) for row in found]

    def close(self) -> None:
        self._listener.close()
        self._connection.close()


def _open(progress: dict[str, int]) -> int:
    return sum(progress[status] for status in OPEN)


def _extraction_name(documents: list[Document]) -> str:
    first = documents[0].name
    more = f" and {len(documents) - 1} more" if len(documents) > 1 else ""
    return f"parse {first[-200:]}{more}"


def _json_row(row: dict[str, Any]) -> dict[str, Any]:
    attempts = row["attempts"] or 0
    return {
        "document": row["document"],
        "task_id": row["task_id"],
        "status": row["status"],
        "result": row["result"],
        "confidence": row["confidence"],
        "input_tokens": row["input_tokens"] if attempts else 0,
        "output_tokens": row["output_tokens"] if attempts else 0,
        "llm_cost": _number(row["llm_cost"]) if attempts else 0.0,
        "attempts": attempts,
        "error": row["error"],
    }


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


@contextlib.contextmanager
def _working(worker: Worker) -> Iterator[Callable[[], None]]:
    """Run the worker in a thread; gives a function that raises what ended it."""
    trouble: list[BaseException] = []

    def work() -> None:
        try:
            worker.run()
        except BaseException as error:  # noqa: BLE001 - handed to the main thread
            trouble.append(error)

    def check() -> None:
        if trouble:
            raise trouble[0]

    thread = threading.Thread(target=work, name="lakequeue-worker")
    thread.start()
    patience: float | None = None
    try:
        yield check
        # Our documents are done; what it may still run belongs to others, and is not thrown away.
        patience = FINISH_SECONDS
    finally:
        worker.stop(patience)
        try:
            thread.join(2)
            if thread.is_alive() and patience is not None:
                click.echo("Done; finishing documents of others that are under way", err=True)
            thread.join()
        except BaseException:
            worker.stop()
            thread.join()
            raise


@contextlib.contextmanager
def _saying_how_to_continue() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        click.echo(
            "\nStopped. What is done is kept; run the same command again for the rest.", err=True
        )
        raise


# --- what is shown ------------------------------------------------------------------------------


class _Show:
    """Progress on stderr: a bar on a terminal, else a few lines."""

    def __init__(self, documents: int) -> None:
        self._documents = documents
        self._bar: Any = None
        self._terminal = sys.stderr.isatty()
        self._shown = 0
        self._line_due = 0.0

    def begin(self, model: stack.Model) -> None:
        count = f"{self._documents} document{'s' * (self._documents != 1)}"
        limit = f", {model.tokens_per_minute:,} tokens a minute" if model.tokens_per_minute else ""
        click.echo(f"Parsing {count} with the model {model.name}{limit}", err=True)
        if self._terminal:
            self._bar = click.progressbar(
                length=self._documents, file=sys.stderr, show_pos=True, show_eta=False
            )
            self._bar.render_progress()

    def update(self, progress: dict[str, int]) -> None:
        done = progress["documents"] - _open(progress)
        if self._bar is not None:
            self._bar.update(done - self._bar.pos)
        elif done != self._shown and time.monotonic() >= self._line_due:
            click.echo(f"{done} of {progress['documents']} done", err=True)
            self._line_due = time.monotonic() + LINE_SECONDS
        self._shown = done

    def end(self) -> None:
        if self._bar is not None:
            self._bar.update(self._documents - self._bar.pos)
            self._bar.render_finish()


COLUMNS = (
    Column("document", 40, elastic=True, keep="end"),
    Column("type", 14),
    Column("status", 10),
    Column("number", 18),
    Column("date", 10),
    Column("total", 12, right=True),
    Column("cur", 3),
    Column("conf", 4, right=True),
    Column("tokens", 8, right=True),
    Column("USD", 8, right=True),
)
NUMBER, CURRENCY = 3, 6


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one call."""

    rows: list[dict[str, Any]]
    fresh: frozenset[int]
    """The tasks that this call created or found unfinished; the others were paid for before."""
    simulated: bool
    rejected: int | None
    folder: Path | None
    """What other commands need as --data-dir; None: nothing."""

    @property
    def all_completed(self) -> bool:
        """Whether nothing failed, was refused or cancelled."""
        return all(row["status"] == "completed" for row in self.rows)

    def table(self) -> str:
        """Give one line per document; where there are no fields, the error has their place."""
        folder = _common_folder([row["document"] for row in self.rows])
        return render(
            COLUMNS,
            [
                _table_row(row | {"document": row["document"].removeprefix(folder)})
                for row in self.rows
            ],
        )

    def summary(self, seconds: float) -> str:
        """Sum it up, and say where to look further."""
        by_status: dict[str, int] = {}
        fresh: dict[int, dict[str, Any]] = {}  # a file given twice has one task, counted once
        earlier = 0
        for row in self.rows:
            by_status[row["status"]] = by_status.get(row["status"], 0) + 1
            if row["task_id"] in self.fresh:
                fresh[row["task_id"]] = row
            elif row["task_id"] is not None:
                earlier += 1
        parts = [", ".join(f"{count} {status}" for status, count in sorted(by_status.items()))]
        if earlier:
            parts.append(f"{earlier if fresh else 'all'} from earlier parses")
        ran = any(row["attempts"] for row in fresh.values())
        if ran:
            cost = sum(row["llm_cost"] or 0.0 for row in fresh.values())
            price = " (the simulator's made-up price)" if self.simulated else ""
            parts.append(f"{sum(map(_tokens, fresh.values())):,} tokens")
            parts.append(f"{cost:.4f} USD{price}")
        parts.append(f"{seconds:.1f} s")
        if ran and self.rejected is not None:
            parts.append(f"429 from the simulator: {self.rejected}")
        where = "" if self.folder is None else f" --data-dir {shlex.quote(str(self.folder))}"
        called = program()
        return f"\n{' · '.join(parts)}\nMore: {called} status{where} · {called} psql{where}"


def _common_folder(documents: list[str]) -> str:
    """The folder that all are in, with its slash: it would only push the names out of sight."""
    try:
        folder = os.path.commonpath([os.path.dirname(document) for document in documents])
    except ValueError:  # none, or some absolute and some not
        return ""
    return folder and os.path.join(folder, "")


def _tokens(row: dict[str, Any]) -> int:
    return int((row["input_tokens"] or 0) + (row["output_tokens"] or 0))


def _table_row(row: dict[str, Any]) -> Row:
    result: dict[str, Any] = row["result"] if isinstance(row["result"], dict) else {}
    fields: dict[str, Any] = result.get("fields") or {}

    def field(*names: str) -> str:
        for name in names:
            found = fields.get(name)
            value = found.get("value") if isinstance(found, dict) else found
            if value not in (None, "", []):
                return f"{value:,.2f}" if isinstance(value, int | float) else str(value)
        return ""

    cells = [
        row["document"],
        str(result.get("document_type") or ""),
        row["status"],
        field("invoice_number", "document_number", "contract_number", "title"),
        field("invoice_date", "date"),
        field("total_amount"),
        field("currency"),
        "" if row["confidence"] is None else f"{row['confidence']:.2f}",
        f"{_tokens(row):,}" if row["attempts"] else "",
        f"{row['llm_cost']:.5f}" if row["attempts"] and row["llm_cost"] is not None else "",
    ]
    if row["status"] != "completed" and row["error"]:
        last = CURRENCY if row["attempts"] else len(COLUMNS) - 1
        return Row(cells, span=(NUMBER, last, row["error"]))
    note = result.get("note")
    if note and not any(cells[NUMBER : CURRENCY + 1]):
        return Row(cells, span=(NUMBER, CURRENCY, str(note)))
    return Row(cells)
