"""Looks at PDFs in a process of its own: they come from strangers.

`python -m lakequeue.web.inspector` answers lines of JSON on its standard input. A file that takes
too long or too much memory, or kills the reader, costs that process and is reported as
unreadable; the web process goes on.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import select
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

INSPECT_SECONDS = 60.0
RENDER_SECONDS = 40.0
MOST_PIXELS = 12_000_000


@dataclass(frozen=True, slots=True)
class Inspected:
    """What a file is: see reader.Inspection."""

    page_count: int | None
    bytes: int
    sha256: str | None
    problem: str | None
    explanation: str | None

    @property
    def refusal(self) -> str | None:
        """Why no task is made for it, as `lakequeue parse` says it too."""
        return None if self.problem is None else f"{self.problem}: {self.explanation}"


class Inspector:
    """One reading process; callers take turns."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def inspect(self, path: Path) -> Inspected:
        """Say how many pages a file has, its size and hash, and what is wrong with it."""
        answer = self._ask({"do": "inspect", "path": str(path)}, INSPECT_SECONDS)
        if answer is None:
            return Inspected(
                None,
                path.stat().st_size,
                None,
                "document_unreadable",
                "Reading the file takes too much time or memory.",
            )
        return Inspected(**answer)

    def render(self, path: Path, page: int, width: int) -> bytes | None:
        """A page as a PNG picture; None if there is no such page, or it cannot be drawn."""
        request = {"do": "render", "path": str(path), "page": page, "width": width}
        answer = self._ask(request, RENDER_SECONDS)
        return None if answer is None or "png" not in answer else bytes.fromhex(answer["png"])

    def close(self) -> None:
        """End the process."""
        with self._guard:
            self._end()

    def _ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        with self._guard:
            try:
                return self._exchange(request, seconds)
            except (OSError, ValueError, EOFError) as error:
                log.warning("the process that reads PDFs was lost at %s: %s", request, error)
                self._end()
                return None

    def _exchange(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lakequeue.web.inspector"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        question, reply = self._process.stdin, self._process.stdout
        if question is None or reply is None:
            raise EOFError("it has no pipes")
        question.write(json.dumps(request).encode() + b"\n")
        question.flush()
        answer: dict[str, Any] = json.loads(_read_line(reply, time.monotonic() + seconds))
        return answer

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            self._process = None


def _read_line(pipe: Any, until: float) -> bytes:
    """A line from the process, which may be megabytes, before the time is over."""
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError("no answer in time")
        part = pipe.read1(1 << 20)
        if not part:
            raise EOFError("it ended")
        parts.append(part)
        if part.endswith(b"\n"):
            return b"".join(parts)


# --- the process --------------------------------------------------------------------------------


def main() -> None:
    """Answer until the pipe closes."""
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if request["do"] == "inspect":
            answer = _inspect(request["path"])
        else:
            answer = _render(request["path"], request["page"], request["width"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _inspect(path: str) -> dict[str, Any]:
    from lakequeue.agents.document_parser import reader

    found = reader.inspect(path)
    return {
        "page_count": found.page_count,
        "bytes": found.bytes,
        "sha256": found.sha256,
        "problem": found.problem,
        "explanation": found.explanation,
    }


def _render(path: str, number: int, width: int) -> dict[str, Any]:
    import io

    import pypdfium2

    from lakequeue.agents.document_parser import reader

    try:
        with reader.limits():
            document = pypdfium2.PdfDocument(path)
            try:
                if not 1 <= number <= len(document):
                    return {"problem": "no such page"}
                page = document[number - 1]
                scale = _scale(page.get_width(), page.get_height(), width)
                picture = page.render(scale=scale).to_pil()
            finally:
                document.close()
            buffer = io.BytesIO()
            picture.save(buffer, "PNG")
            return {"png": buffer.getvalue().hex()}
    except (reader.TooMuch, MemoryError):
        return {"problem": "too much"}
    except Exception as error:  # noqa: BLE001 - damaged files raise anything
        return {"problem": f"{type(error).__name__}: {error}"}


def _scale(page_width: float, page_height: float, width: int) -> float:
    """So that the page is `width` pixels wide, unless it is so long that this would be too much."""
    scale = width / max(page_width, 1.0)
    pixels = scale * scale * max(page_width, 1.0) * max(page_height, 1.0)
    return scale * min(1.0, math.sqrt(MOST_PIXELS / max(pixels, 1.0)))


if __name__ == "__main__":
    main()
