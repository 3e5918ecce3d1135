"""Model calls that ask the queue first (rule 4b), so that no minute exceeds a limit."""

from __future__ import annotations

import logging
from uuid import UUID, uuid4

from lakequeue.agents.document_parser.attempt import Attempt
from lakequeue.agents.document_parser.chat import CallTooLarge
from lakequeue.agents.document_parser.costs import Usage
from lakequeue.database import DatabaseUnavailable, LakequeueError

log = logging.getLogger(__name__)


class Reservations:
    """A throttle for the chat: one call at a time is reserved, made and settled."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._call: UUID | None = None

    def start(self, input_tokens: int, max_output_tokens: int) -> None:
        """Wait until the call may start; heartbeats go on, and a wish to stop is obeyed."""
        call = uuid4()
        try:
            while (
                pause := self._attempt.reserve_call(call, input_tokens, max_output_tokens)
            ) is not None:
                self._attempt.wait(pause)
        except LakequeueError as error:
            if error.sqlstate == "LQ413":
                raise CallTooLarge(str(error)) from error
            raise
        self._call = call

    def end(self, usage: Usage | None) -> None:
        """Settle the call. What cannot be settled counts in full until the run has ended."""
        if self._call is None:
            return
        call, self._call = self._call, None
        try:
            self._attempt.settle_call(call, usage)
        except (DatabaseUnavailable, LakequeueError) as error:
            log.warning("a model call could not be settled: %s", error)
