"""An attempt's line to the database: heartbeats, and reports that are not lost.

Only functions of the schema are called. The connection is made when it is needed and again when
it was lost; every call can be repeated, because the functions answer a repeat like the first.
"""

from __future__ import annotations

import datetime
import logging
import threading
import time
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Json

from lakequeue import database
from lakequeue.agents.document_parser.costs import Usage
from lakequeue.agents.document_parser.webhook import Webhook

EXTENDED, LOST, CANCEL, TERMINATED = "extended", "lost", "cancel", "terminated"

LONGEST_INTERVAL = 15.0
"""Heartbeats are a third of the lease apart, but a wish to cancel is heard within this."""

LONGEST_PATIENCE = 900.0
"""A database that is away for longer than this is given up."""

log = logging.getLogger(__name__)


class Stopped(BaseException):
    """The run has to stop. Not an Exception, so that no library takes it for a failed call."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Attempt:
    """Speaks for one attempt. Safe to use from the run's thread and the heartbeat's."""

    def __init__(
        self,
        attempt_id: int,
        token: str,
        lease_seconds: float,
        conninfo: str,
        estimate: int,
        *,
        webhook: Webhook | None = None,
    ) -> None:
        self.attempt_id = attempt_id
        self.usage = Usage()
        self._token = token
        self._lease = lease_seconds
        self._estimate = estimate
        self._conninfo = conninfo
        self._webhook = webhook
        self._connection: database.Connection | None = None
        self._line = threading.Lock()
        self._callers: set[int] = set()
        self._wake = threading.Event()
        self._reason: str | None = None
        self._closed = threading.Event()
        self._beaten_at = time.monotonic()
        self._thread: threading.Thread | None = None

    @property
    def interval(self) -> float:
        """Seconds between heartbeats."""
        return max(0.05, min(self._lease / 3, LONGEST_INTERVAL))

    @property
    def calling(self) -> bool:
        """Whether this thread is inside a call, where an exception would break the connection."""
        return threading.get_ident() in self._callers

    @property
    def patience(self) -> float:
        """How long a lost database is waited for when something is to be delivered."""
        return min(LONGEST_PATIENCE, max(60.0, 2 * self._lease))

    # --- the lease

    def start(self) -> None:
        """Take the first heartbeat now and the others in a thread."""
        self.beat(patience=self._lease)
        self._thread = threading.Thread(target=self._beat_on, name="heartbeat", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the heartbeats and the connection."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        with self._line:
            self._hang_up()

    def stop(self, reason: str) -> None:
        """Make the run stop at the next check; the first reason stays."""
        if self._reason is None:
            self._reason = reason
        self._wake.set()

    def beat(self, patience: float = 0.0) -> str:
        """Extend the lease and tell the usage so far; returns the database's answer."""
        usage, started = self.usage, time.monotonic()
        rows = self._call(
            "extend_leases",
            patience,
            attempts=[self.attempt_id],
            tokens=[self._token],
            input_tokens=[usage.input],
            output_tokens=[usage.output],
            cached_tokens=[usage.cached],
        )
        answer = str(rows[0]["answer"]) if rows else LOST
        if answer == EXTENDED:
            self._beaten_at = started
        else:
            self.stop(answer)
        return answer

    def check(self) -> None:
        """Raise Stopped if the run must not go on. Asks the database if it has not for a while.

        A run that could not reach the database for a whole lease makes no more model calls until
        it can: somebody else may have its task by then.
        """
        until = time.monotonic() + self.patience
        while True:
            if self._reason is not None:
                raise Stopped(self._reason)
            silent = time.monotonic() - self._beaten_at
            spent = self.usage.total > self._estimate
            if silent <= self.interval and not spent:
                return
            try:
                self.beat()
            except database.DatabaseUnavailable:
                if silent < self._lease:
                    return
                if time.monotonic() > until:
                    raise
                self.wait(min(1.0, self.interval))
            else:
                if self._reason is None:
                    return

    def wait(self, seconds: float) -> None:
        """Sleep; raises Stopped as soon as the run has to stop."""
        if self._wake.wait(seconds):
            raise Stopped(self._reason or LOST)

    # --- model calls

    def reserve_call(self, call: UUID, input_tokens: int, max_output_tokens: int) -> float | None:
        """Ask whether a model call may start: None if so, else after how long to ask again.

        Raises Stopped if the run has to stop, LakequeueError LQ413 if the call never fits.
        """
        # Ask without waiting for the disk and, if granted, once more with waiting: the first holds
        # the endpoint's lock, the second does not.
        for durable in (False, True):
            (row,) = self._call(
                "reserve_tokens",
                self.patience,
                attempt=self.attempt_id,
                token=self._token,
                input_tokens=input_tokens,
                max_output_tokens=max_output_tokens,
                call=call,
                durable=durable,
            )
            if row["answer"] in (LOST, CANCEL):
                self.stop(row["answer"])
                raise Stopped(row["answer"])
            if row["answer"] == "wait":
                return float(row["wait"].total_seconds())
        return None

    def settle_call(self, call: UUID, usage: Usage | None) -> None:
        """Tell that a model call has ended, and what it used if that is known."""
        self._call(
            "settle_tokens",
            self.patience,
            attempt=self.attempt_id,
            token=self._token,
            call=call,
            input_tokens=usage.input if usage else None,
            output_tokens=usage.output if usage else None,
        )

    # --- reports

    def report_rate_limit(self, retry_after: float | None) -> None:
        """Tell the queue of a 429, so that nobody else runs into it. Waiting needs no database."""
        try:
            self._call(
                "report_rate_limit",
                self.interval,
                attempt=self.attempt_id,
                token=self._token,
                retry_after=_interval(retry_after),
            )
        except database.DatabaseUnavailable as error:
            log.warning("the rate limit could not be reported: %s", error)

    def store_result(self, result: dict[str, Any], confidence: float) -> str:
        """Hand over the result, which completes the task."""
        rows = self._call(
            "store_result",
            self.patience,
            attempt=self.attempt_id,
            token=self._token,
            result=Json(result),
            confidence=confidence,
        )
        return str(rows[0]["store_result"])

    def record(self, outcome: str, retry_after: float | None = None, **details: Any) -> str:
        """Report how the attempt ended: by the webhook, or by SQL where that does not work."""
        usage = self.usage
        report = {
            "attempt": self.attempt_id,
            "token": self._token,
            "outcome": outcome,
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "cached_tokens": usage.cached,
            **details,
        }
        if self._webhook is not None:
            answer = self._webhook.confirm({**report, "retry_after": retry_after})
            if answer is not None:
                return answer
        rows = self._call(
            "record_callback", self.patience, **report, retry_after=_interval(retry_after)
        )
        return str(rows[0]["record_callback"])

    # --- the line

    def _call(self, function: str, patience: float, **parameters: Any) -> list[dict[str, Any]]:
        """Call a function; while the database is away, try again until patience ends."""
        until = time.monotonic() + patience
        pause = 0.2
        while True:
            caller = threading.get_ident()
            self._callers.add(caller)
            try:
                with self._line:
                    return self._call_once(function, parameters)
            except database.DatabaseUnavailable as error:
                if time.monotonic() + pause > until:
                    raise
                log.warning("%s: %s; trying again", function, error)
            finally:
                self._callers.discard(caller)
            time.sleep(pause)
            pause = min(5.0, 2 * pause)

    def _call_once(self, function: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            if self._connection is None or self._connection.closed:
                self._connection = database.connect(
                    self._conninfo, application_name="lakequeue document-parser"
                )
            return database.call(self._connection, function, **parameters)
        except database.LakequeueError:
            raise
        except (database.DatabaseUnavailable, psycopg.OperationalError) as error:
            # Also deadlocks and timeouts of the server's, which a new try may escape.
            self._hang_up()
            if isinstance(error, database.DatabaseUnavailable):
                raise
            raise database.DatabaseUnavailable(str(error).strip()) from error

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _beat_on(self) -> None:
        while not self._closed.wait(self.interval):
            try:
                if self.beat() != EXTENDED:
                    return
            except database.DatabaseUnavailable as error:
                log.warning("heartbeat: %s", error)
            except database.LakequeueError as error:
                log.error("heartbeat refused: %s", error)
                self.stop(LOST)
                return


def _interval(seconds: float | None) -> datetime.timedelta | None:
    return None if seconds is None else datetime.timedelta(seconds=seconds)
