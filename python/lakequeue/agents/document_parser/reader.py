"""Reading PDFs: page by page, with the layout kept, and whatever state the file is in.

Two libraries share the work. pypdf is three times as fast and its layout mode keeps a label and
its value on one line; pdfplumber opens some damaged files that pypdf cannot, and reads pages
whose text is turned. A page that neither can read is reported as such and the others still come.

PDFs come from strangers. A page gets a bounded time and the process a bounded memory while it
is read; what exceeds them counts as unreadable. The time limit is an alarm signal, so it works in
the main thread of a process, which is where an agent reads.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pypdf
from pypdf.errors import DependencyError, PyPdfError

from lakequeue.agents.document_parser.layout import clean, squeeze

PAGE_SECONDS = 30.0
"""Longest time for one page in one library."""

DOCUMENT_SECONDS = 900.0
"""Longest time for all pages; those left over are reported as unreadable."""

MEMORY_BYTES = 2 * 1024**3
"""What reading may take on top of what the process has."""

PAGE_CHARACTERS = 200_000
"""A page has a few thousand characters; a longer one is cut here."""

FEW_CHARACTERS = 24
"""A page with less text than this is looked at a second time in another way."""

DOCUMENT_MISSING = "document_missing"
DOCUMENT_EMPTY = "document_empty"
DOCUMENT_ENCRYPTED = "document_encrypted"
DOCUMENT_UNREADABLE = "document_unreadable"
NOT_A_PDF = "not_a_pdf"

EXPLANATIONS = {
    DOCUMENT_MISSING: "There is no such file.",
    DOCUMENT_EMPTY: "The file is empty or has no pages.",
    DOCUMENT_ENCRYPTED: "The PDF needs a password to open.",
    DOCUMENT_UNREADABLE: "The file cannot be read: too damaged, or access is denied.",
    NOT_A_PDF: "The file is not a PDF.",
}

_HEADER = b"%PDF-"
_HEADER_WITHIN = 1024

log = logging.getLogger(__name__)
# What damaged files make these two say is not for the reader of a task's log.
logging.getLogger("pypdf").setLevel(logging.CRITICAL)
logging.getLogger("pdfminer").setLevel(logging.CRITICAL)


class UnreadableDocument(Exception):
    """No attempt can read this file; `problem` is one of the names above."""

    def __init__(self, problem: str, detail: str = "") -> None:
        message = EXPLANATIONS[problem]
        super().__init__(f"{message} {detail}" if detail else message)
        self.problem = problem


class TooMuch(BaseException):
    """The time for a page is over. Not an Exception: the libraries swallow those."""


@dataclass(frozen=True)
class Inspection:
    """What a file is, before anything is enqueued for it."""

    page_count: int | None
    bytes: int
    sha256: str | None
    problem: str | None

    @property
    def explanation(self) -> str | None:
        """The problem in words."""
        return None if self.problem is None else EXPLANATIONS[self.problem]


@dataclass(frozen=True)
class Page:
    """The text of a page; `problem` says why it may not be all of it."""

    number: int
    text: str
    problem: str | None = None


def inspect(path: str | Path) -> Inspection:
    """Say how many pages a file has, its size and hash, and what is wrong with it."""
    path = Path(path)
    try:
        size, sha256 = _hash(path)
    except (FileNotFoundError, NotADirectoryError):
        return Inspection(None, 0, None, DOCUMENT_MISSING)
    except (OSError, ValueError) as error:
        log.info("%s cannot be opened: %s", path, error)
        return Inspection(None, 0, None, DOCUMENT_UNREADABLE)
    try:
        with open_document(path) as document:
            return Inspection(document.page_count, size, sha256, None)
    except UnreadableDocument as error:
        return Inspection(None, size, sha256, error.problem)


@contextlib.contextmanager
def open_document(path: str | Path) -> Iterator[Document]:
    """Open a PDF with whichever library can; raises UnreadableDocument."""
    path = Path(path)
    _check_header(path)
    with contextlib.ExitStack() as stack:
        document = Document(path, stack)
        try:
            with limits():
                document.open()
        except (TooMuch, MemoryError):
            raise UnreadableDocument(DOCUMENT_UNREADABLE, "Opening it takes too much.") from None
        yield document


def pages(path: str | Path) -> Iterator[Page]:
    """Yield every page's text in order; raises UnreadableDocument before the first."""
    with open_document(path) as document:
        yield from document.pages()


class Document:
    """An opened PDF. Both libraries are opened only when they are needed."""

    def __init__(self, path: Path, stack: contextlib.ExitStack) -> None:
        self.path = path
        self.page_count = 0
        self._stack = stack
        self._pypdf: pypdf.PdfReader | None = None
        self._plumber: Any = None
        self._plumber_tried = False

    def open(self) -> None:
        """Count the pages. A file is refused only when neither library finds any."""
        try:
            self._pypdf = self._open_pypdf()
            self.page_count = len(self._pypdf.pages)
        except UnreadableDocument:
            raise
        except Exception as error:  # noqa: BLE001 - damaged files raise anything
            log.info("pypdf cannot open %s: %s", self.path, error)
            self._pypdf = None
        if self.page_count:
            return
        plumber = self._open_plumber()
        self.page_count = len(plumber.pages) if plumber is not None else 0
        if not self.page_count:
            well_formed = self._pypdf is not None and plumber is not None
            raise UnreadableDocument(DOCUMENT_EMPTY if well_formed else DOCUMENT_UNREADABLE)

    def pages(self) -> Iterator[Page]:
        """Read page after page; a failure is noted on its page."""
        until = time.monotonic() + DOCUMENT_SECONDS
        for number in range(1, self.page_count + 1):
            if time.monotonic() > until:
                yield Page(number, "", "not read: the document takes too long")
            else:
                yield self._page(number)

    def _page(self, number: int) -> Page:
        """Take the layout mode's text unless another way finds clearly more."""
        text, problem = self._attempt(self._read_layout, number)
        if _length(text) >= FEW_CHARACTERS:
            return Page(number, text, problem)
        plain, _ = self._attempt(self._read_plain, number)
        if problem is None and _length(plain) <= _length(text) + FEW_CHARACTERS:
            return Page(number, text)
        other, other_problem = self._attempt(self._read_plumber, number)
        best = max((text, other, plain), key=_length)
        if best is other and other_problem is None:
            return Page(number, other)
        if not _length(best):
            return Page(number, "", problem or other_problem)
        return Page(number, best, problem)

    def _attempt(self, read: Callable[[int], str], number: int) -> tuple[str, str | None]:
        try:
            with limits():
                return squeeze(clean(read(number))[:PAGE_CHARACTERS]), None
        except (TooMuch, MemoryError):
            return "", "not read: the page takes too much time or memory"
        except Exception as error:  # noqa: BLE001 - damaged pages raise anything
            log.info("page %s of %s: %s: %s", number, self.path, type(error).__name__, error)
            return "", f"not read: {type(error).__name__}"

    def _read_layout(self, number: int) -> str:
        if self._pypdf is None:
            raise LookupError("pypdf cannot open the file")
        return self._pypdf.pages[number - 1].extract_text(extraction_mode="layout")

    def _read_plain(self, number: int) -> str:
        if self._pypdf is None:
            raise LookupError("pypdf cannot open the file")
        return self._pypdf.pages[number - 1].extract_text()

    def _read_plumber(self, number: int) -> str:
        plumber = self._open_plumber()
        if plumber is None or number > len(plumber.pages):
            raise LookupError("pdfplumber does not find the page")
        page = plumber.pages[number - 1]
        try:
            return str(page.extract_text(layout=True, x_tolerance_ratio=0.15) or "")
        finally:
            page.close()

    def _open_pypdf(self) -> pypdf.PdfReader:
        reader = pypdf.PdfReader(self._stack.enter_context(self.path.open("rb")), strict=False)
        if reader.is_encrypted:
            try:
                opened = reader.decrypt("")
            except DependencyError:
                raise
            except (PyPdfError, NotImplementedError, ValueError, KeyError) as error:
                raise UnreadableDocument(DOCUMENT_ENCRYPTED, str(error)) from error
            if not opened:
                raise UnreadableDocument(DOCUMENT_ENCRYPTED)
        return reader

    def _open_plumber(self) -> Any:
        if not self._plumber_tried:
            self._plumber_tried = True
            import pdfplumber

            try:
                self._plumber = self._stack.enter_context(pdfplumber.open(self.path))
            except Exception as error:
                log.info("pdfplumber cannot open %s: %s", self.path, error)
                if "Password" in type(error.__context__).__name__ + repr(error):
                    raise UnreadableDocument(DOCUMENT_ENCRYPTED) from error
        return self._plumber


@contextlib.contextmanager
def limits(seconds: float = PAGE_SECONDS, memory: int = MEMORY_BYTES) -> Iterator[None]:
    """Bound time (in the main thread) and memory of what runs inside."""
    with _memory_limit(memory), _time_limit(seconds):
        yield


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(*_: object) -> None:
        raise TooMuch

    before = signal.signal(signal.SIGALRM, over)
    # Repeated, because a library may catch the first one in a bare except.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)


@contextlib.contextmanager
def _memory_limit(memory: int) -> Iterator[None]:
    statm = Path("/proc/self/statm")
    try:
        in_use = int(statm.read_text().split()[0]) * resource.getpagesize()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    except (OSError, ValueError):
        yield  # No Linux: the system's own limit has to do.
        return
    wanted = in_use + memory
    bounds = [bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([wanted, *bounds]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _check_header(path: Path) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(_HEADER_WITHIN)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnreadableDocument(DOCUMENT_MISSING) from error
    except (OSError, ValueError) as error:
        raise UnreadableDocument(DOCUMENT_UNREADABLE, str(error)) from error
    if not start:
        raise UnreadableDocument(DOCUMENT_EMPTY)
    if _HEADER not in start:
        raise UnreadableDocument(NOT_A_PDF)


def _hash(path: Path) -> tuple[int, str]:
    """Size and hash in one pass, so that they belong to the same bytes."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return file.tell(), digest.hexdigest()


def _length(text: str) -> int:
    return sum(not character.isspace() for character in text)
