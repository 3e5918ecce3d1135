"""The stream of changes: one LISTEN connection a process, fanned out to every open page.

Events say that something has changed, not what: a page reads its own numbers again. A hint is
followed by a second look half a second later, and the database is asked every second whether
anything has changed (rule 14), so a lost notification costs a second and no burst ends stale.
A `probe` event says that the database was seen just now; a page that has not received one lately
says that it is polling. While nobody watches, nothing is asked: an idle database may sleep.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import random
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import psycopg

from lakequeue import database
from lakequeue.errors import Problem
from lakequeue.listener import Backoff, Listener
from lakequeue.web.reads import with_time_limit

log = logging.getLogger(__name__)

CHANNEL = "lakequeue_changes"
SECOND_LOOK_SECONDS = 0.5
LOOK_SECONDS = 1.0
PROBE_SECONDS = 5.0
"""Also keeps proxies from taking the stream for idle, and finds clients that have gone."""
DEBOUNCE_SECONDS = 0.2
DELIVERIES_PER_SECOND = 2500
"""With very many pages changes are told less often, so that pages are served beside them."""
STREAM_SECONDS = 100.0
"""A stream ends by itself before the 110 s at which a proxy may cut it; the page resumes."""
STREAM_JITTER_SECONDS = 5.0
WAKE_SECONDS = 10.0
"""A stream that waits is woken by events and by the end; this is only for safety."""
QUEUE_LENGTH = 32
REPLAY_LENGTH = 256
RETRY_MILLISECONDS = 1000
LOOK_TIMEOUT_SECONDS = 5
LATE_SECONDS = 15.0


class TooManyStreams(Exception):
    """Every place is taken; the page goes on by polling."""


def event(name: str, data: dict[str, Any], event_id: str | None = None) -> bytes:
    """One event as it travels."""
    head = f"id: {event_id}\n" if event_id is not None else ""
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class Stream:
    """One open page. Its queue is bounded: a page that does not read is told to start over."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._ready = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._overflow = False

    def put(self, item: bytes) -> None:
        """Hand over an event."""
        with self._ready:
            if len(self._waiting) >= QUEUE_LENGTH:
                self._waiting.clear()
                self._overflow = True
            self._waiting.append(item)
            self._ready.notify()

    def wake(self) -> None:
        """Let the waiting thread look around."""
        with self._ready:
            self._ready.notify()

    def take(self, timeout: float) -> list[bytes]:
        """The events since the last call; none after `timeout` seconds."""
        with self._ready:
            if not self._waiting and not self._hub.stopping:
                self._ready.wait(timeout)
            items = list(self._waiting)
            self._waiting.clear()
            if self._overflow:
                self._overflow = False
                items.insert(0, event("resync", {}))
            return items

    def close(self) -> None:
        """Give the place back; may be called again."""
        self._hub.remove(self)


class Hub:
    """Watches the database while there are streams."""

    def __init__(self, conninfo: str, max_streams: int) -> None:
        """Prepare only; the first stream starts the thread."""
        self._conninfo = with_time_limit(conninfo, LOOK_TIMEOUT_SECONDS)
        self._max_streams = max_streams
        self._guard = threading.Lock()
        self._streams: set[Stream] = set()
        self._thread: threading.Thread | None = None
        self._epoch = secrets.token_hex(4)
        self._sequence = 0
        self._replay: deque[tuple[int, bytes]] = deque(maxlen=REPLAY_LENGTH)
        self._stop = threading.Event()
        self._someone = threading.Event()

        self._listener = Listener(conninfo, CHANNEL, "lakequeue web (listening)")
        self._looker: database.Connection | None = None
        self._trouble = Backoff(0.5, 10.0)
        self._mark: str | None = None
        self._published_at = 0.0
        self._pending_at: float | None = None
        self._second_at: float | None = None
        self._look_at = 0.0
        self._probe_at = 0.0
        self._seen_at: float | None = None
        self._woken_at = 0.0
        self.version = 0
        """Counts the changes that this process has heard of."""

    # --- for the pages

    @property
    def stopping(self) -> bool:
        """Whether the process is about to end."""
        return self._stop.is_set()

    @property
    def streams(self) -> int:
        """How many pages are open."""
        return len(self._streams)

    @property
    def seen_seconds_ago(self) -> float | None:
        """How long ago the database was seen; None: not since the process started."""
        return None if self._seen_at is None else time.monotonic() - self._seen_at

    @property
    def listening(self) -> bool:
        """Whether notifications arrive."""
        return self._listener.fileno() is not None

    @property
    def late(self) -> bool:
        """Whether pages are open, and the database has not been seen for them for too long."""
        looking_since = max(self._woken_at, self._seen_at or 0.0)
        return self.streams > 0 and time.monotonic() - looking_since > LATE_SECONDS

    def open(self, last_id: str | None) -> tuple[Stream, list[bytes]]:
        """A new stream, and what it has missed since the event `last_id`."""
        stream = Stream(self)
        with self._guard:
            if len(self._streams) >= self._max_streams or self.stopping:
                raise TooManyStreams
            if not self._streams:
                self._woken_at = time.monotonic()
            missed = self._missed(last_id)
            if self._sees:
                # The next probe may be seconds away; what it would say is known already.
                missed.append(self._probe_event())
            self._streams.add(stream)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="lakequeue-live", daemon=True
                )
                self._thread.start()
        self._someone.set()
        return stream, missed

    def remove(self, stream: Stream) -> None:
        """Forget a stream."""
        with self._guard:
            self._streams.discard(stream)

    def stop(self) -> None:
        """End all streams soon. Safe in a signal handler: it takes no lock and waits for none."""
        self._stop.set()
        self._someone.set()

    def frames(self, stream: Stream, missed: list[bytes]) -> Iterator[bytes]:
        """What a stream sends, until it is time to resume."""
        until = (
            time.monotonic()
            + STREAM_SECONDS
            + random.uniform(-STREAM_JITTER_SECONDS, STREAM_JITTER_SECONDS)  # noqa: S311
        )
        try:
            yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
            yield from missed
            while not self.stopping and (left := until - time.monotonic()) > 0:
                yield from stream.take(min(WAKE_SECONDS, left))
            yield event("bye", {})
        finally:
            stream.close()

    def _missed(self, last_id: str | None) -> list[bytes]:
        """Called with the guard held. The first event sets the id to resume from."""
        here = f"{self._epoch}-{self._sequence}"
        if not last_id:
            return [event("hello", {}, here)]
        epoch, _, number = last_id.rpartition("-")
        if epoch == self._epoch and number.isascii() and number.isdigit():
            last = int(number)
            oldest = self._replay[0][0] if self._replay else self._sequence + 1
            if oldest - 1 <= last <= self._sequence:
                return [event("hello", {}, last_id)] + [
                    item for sequence, item in self._replay if sequence > last
                ]
        return [event("resync", {}, here)]

    # --- the thread

    def _run(self) -> None:
        while not self._stop.is_set():
            if not self._streams:
                self._rest()
                continue
            try:
                self._turn()
            except Exception:
                # A bug must not end the stream of changes for good.
                log.exception("watching for changes failed")
                self._stop.wait(1.0)
        self._disconnect()
        with self._guard:
            streams = list(self._streams)
        for stream in streams:
            stream.wake()

    def _rest(self) -> None:
        """Nobody watches: leave the database alone until somebody does."""
        self._disconnect()
        self._someone.clear()
        with self._guard:
            if self._streams:
                return
            # What changes from now on is not heard of: nobody may resume from before.
            self._epoch = secrets.token_hex(4)
            self._replay.clear()
        if not self._stop.is_set():
            self._someone.wait()
        self._look_at = self._probe_at = 0.0

    def _turn(self) -> None:
        now = time.monotonic()
        if self._listener.keep():
            self._look_at = 0.0
        due = [self._look_at, self._probe_at]
        due += [at for at in (self._pending_at, self._second_at) if at is not None]
        if self._listener.wait(min(max(0.0, min(due) - now), LOOK_SECONDS)):
            # The mark is read first: what commits after it is found by the second look.
            self._look()
            self._publish_change()
            self._second_at = time.monotonic() + SECOND_LOOK_SECONDS
        now = time.monotonic()
        if self._second_at is not None and now >= self._second_at:
            self._second_at = None
            self._look_at = 0.0
        if now >= self._look_at and self._look():
            self._publish_change()
        if self._pending_at is not None and now >= self._pending_at:
            self._publish_change()
        if now >= self._probe_at:
            self._probe_at = now + PROBE_SECONDS
            self._probe()

    def _look(self) -> bool:
        """Ask whether anything has changed since the last time."""
        self._look_at = time.monotonic() + LOOK_SECONDS
        if self._looker is None and time.monotonic() < self._trouble.due:
            return False
        try:
            if self._looker is None:
                self._looker = database.connect(
                    self._conninfo, application_name="lakequeue web (watching)"
                )
            mark = str(database.call_value(self._looker, "latest_change"))
        except (Problem, psycopg.Error) as error:
            if not self._trouble.failures:
                log.warning("cannot see whether anything has changed: %s", error)
                self._send(event("trouble", {}))
            self._trouble.fail()
            self._hang_up()
            return False
        self._seen_at = time.monotonic()
        if self._trouble.failures:
            self._trouble.succeed()
            self._probe_at = 0.0
        changed = self._mark is not None and mark != self._mark
        self._mark = mark
        return changed

    def _publish_change(self) -> None:
        now = time.monotonic()
        gap = max(DEBOUNCE_SECONDS, self.streams / DELIVERIES_PER_SECOND)
        if now - self._published_at < gap:
            self._pending_at = self._published_at + gap
            return
        self._pending_at, self._published_at = None, now
        self.version += 1
        with self._guard:
            self._sequence += 1
            item = event("change", {"at": _now()}, f"{self._epoch}-{self._sequence}")
            self._replay.append((self._sequence, item))
            for stream in self._streams:
                stream.put(item)

    def _probe(self) -> None:
        """Tell the pages that the database was seen, if it was."""
        self._send(self._probe_event() if self._sees else event("trouble", {}))

    @property
    def _sees(self) -> bool:
        seen = self.seen_seconds_ago
        return seen is not None and seen < 2 * LOOK_SECONDS and not self._trouble.failures

    def _probe_event(self) -> bytes:
        return event("probe", {"at": _now(), "listening": self.listening})

    def _send(self, item: bytes) -> None:
        with self._guard:
            for stream in self._streams:
                stream.put(item)

    def _disconnect(self) -> None:
        self._listener.close()
        self._hang_up()
        self._mark = None

    def _hang_up(self) -> None:
        if self._looker is not None:
            with contextlib.suppress(psycopg.Error):
                self._looker.close()
            self._looker = None


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
