"""Calls of the chat endpoint: one at a time, paced, and each refusal told apart.

The client's own retries are off. It would hide a 429 from the queue, whose limits are shared by
all agents, and repeat calls whose cost nobody counts.
"""

from __future__ import annotations

import itertools
import logging
import math
import random
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import openai

from lakequeue.agents.document_parser.chunks import estimate_tokens
from lakequeue.agents.document_parser.costs import Usage
from lakequeue.agents.document_parser.prompt import MAX_OUTPUT_TOKENS, RESPONSE_FORMAT, SCHEMA

CALL_SECONDS = 180.0
WINDOW_SECONDS = 60.0

LONGEST_WAIT = 300.0
"""A single wait for a rate limit that is longer than this is the queue's business."""

LONGEST_WAITS = 1200.0
"""So are waits that add up to this without an answer in between."""

SERVER_ERROR_WAITS = (1.0, 4.0, 12.0)
"""Seconds before each repeat of a call that the server failed."""

_LIMIT_EXCEEDED = "REQUEST_LIMIT_EXCEEDED"
_LIMIT_OF_ZERO = re.compile(r"\blimit (?:of|is|:) ?0(?![\d.,]*\d)", re.IGNORECASE)
_LIMIT_STATUS = (400, 403, 429)
_PERMANENT = (400, 403, 404, 405, 413, 415, 422)

log = logging.getLogger(__name__)


class ModelRefused(Exception):
    """The endpoint will refuse this call however often it is made."""


class ContextTooLong(ModelRefused):
    """The prompt is longer than the model's window."""


class CallTooLarge(ContextTooLong):
    """No minute of the queue's limits can hold this call."""


class LimitOfZero(ModelRefused):
    """The endpoint allows nothing at all: waiting does not help, a quota does."""


class ModelUnavailable(Exception):
    """The endpoint failed; another attempt may succeed."""


class RateLimited(Exception):
    """The endpoint's limit cannot be waited out inside this run."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True)
class Reply:
    """What a call gave. `usage` is None if the endpoint did not say."""

    content: str | None
    finish_reason: str | None
    model: str
    usage: Usage | None


class Throttle(Protocol):
    """What says when a call may start, and hears what it used."""

    def start(self, input_tokens: int, max_output_tokens: int) -> None:
        """Return when the call may start."""

    def end(self, usage: Usage | None) -> None:
        """The call has ended; None if what it used is not known."""


class Pacer:
    """Keeps the tokens of this run's calls within a limit in any 60 seconds (rule 4c).

    For agents whose calls are not reserved: then nobody else spends beside a run this large.
    """

    def __init__(
        self,
        limit: int | None,
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.limit = limit
        self._now = now
        self._wait = wait
        self._expected = 0
        self._calls: deque[tuple[float, int]] = deque()

    def start(self, input_tokens: int, max_output_tokens: int) -> None:
        """Wait until the call fits."""
        self._expected = input_tokens + max_output_tokens
        while (pause := self.wait_for(self._expected)) > 0:
            self._wait(pause)

    def end(self, usage: Usage | None) -> None:
        """Count what the call used, or what it might have."""
        self.add(self._expected if usage is None else usage.total)

    def wait_for(self, tokens: int) -> float:
        """Seconds until a call with so many tokens may start."""
        if self.limit is None:
            return 0.0
        now = self._now()
        while self._calls and self._calls[0][0] <= now - WINDOW_SECONDS:
            self._calls.popleft()
        excess = sum(used for _, used in self._calls) + tokens - self.limit
        for at, used in self._calls:
            if excess <= 0:
                break
            excess -= used
            if excess <= 0:
                return at + WINDOW_SECONDS - now
        # More than the limit by itself: alone in its window is the best that can be done.
        return self._calls[-1][0] + WINDOW_SECONDS - now if excess > 0 and self._calls else 0.0

    def add(self, tokens: int) -> None:
        """Count a call that ended now. Its end, not its start: the endpoint counted in between."""
        if self.limit is not None:
            self._calls.append((self._now(), tokens))


class Chat:
    """The endpoint as one run sees it."""

    def __init__(
        self,
        base_url: str,
        token: str | Callable[[], str] | None,
        model: str,
        *,
        throttle: Throttle,
        wait: Callable[[float], None],
        report_rate_limit: Callable[[float | None], None],
    ) -> None:
        """`wait` sleeps, and raises when the run has to stop; `report_rate_limit` tells all."""
        self.model = model
        self.usage_complete = True
        self._client = openai.OpenAI(
            base_url=base_url, api_key=token or "none", max_retries=0, timeout=CALL_SECONDS
        )
        self._throttle = throttle
        self._wait = wait
        self._report = report_rate_limit
        self._ratio = 1.0

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(self, messages: list[dict[str, str]], before: Callable[[], None]) -> Reply:
        """One answered call; `before` runs right before each attempt at it."""
        estimate = estimate_tokens("".join(message["content"] for message in messages))
        estimate += estimate_tokens(str(SCHEMA))
        waited = 0.0
        failures = iter(SERVER_ERROR_WAITS)
        for number in itertools.count(1):
            before()
            try:
                return self._reserved(messages, estimate)
            except openai.APIStatusError as error:
                if is_rate_limit(error):
                    waited += self._wait_out(error, number, waited)
                    continue
                if error.status_code in _PERMANENT or _is_limit_of_zero(error):
                    raise _refusal(error) from error
                pause = next(failures, None)
                if pause is None:
                    raise ModelUnavailable(_describe(error)) from error
                pause = max(pause, min(_retry_after(error) or 0.0, WINDOW_SECONDS))
            except (openai.APIConnectionError, openai.APIResponseValidationError) as error:
                # The call may have been answered and charged without our hearing it.
                self.usage_complete = False
                pause = next(failures, None)
                if pause is None:
                    raise ModelUnavailable(_describe(error)) from error
            log.warning("the model endpoint failed; call repeated in %.0f s", pause)
            self._wait(pause)
        raise AssertionError("unreachable")

    def _reserved(self, messages: list[dict[str, str]], estimate: int) -> Reply:
        """The call, when the throttle lets it start; what is not known to be used stays counted."""
        self._throttle.start(math.ceil(estimate * max(1.0, self._ratio)), MAX_OUTPUT_TOKENS)
        used: Usage | None = None
        try:
            reply = self._call(messages, estimate)
            used = reply.usage
        except openai.APIStatusError as error:
            if error.status_code < 500:
                used = Usage()  # refused before it was worked on
            raise
        finally:
            self._throttle.end(used)
        return reply

    def _call(self, messages: list[dict[str, str]], estimate: int) -> Reply:
        parameters: Any = {
            "model": self.model,
            "messages": messages,
            "response_format": RESPONSE_FORMAT,
            "max_tokens": MAX_OUTPUT_TOKENS,
            "temperature": 0,
        }
        known, self.usage_complete = self.usage_complete, False
        try:
            completion = self._client.chat.completions.create(**parameters)
        except openai.APIStatusError:
            self.usage_complete = known
            raise
        # Whatever else interrupts the call leaves open what it used.
        self.usage_complete = known
        given = completion.usage
        usage = None
        if given is None:
            self.usage_complete = False
        else:
            details = given.prompt_tokens_details
            cached = (details.cached_tokens if details else None) or 0
            usage = Usage(given.prompt_tokens, given.completion_tokens, cached)
            self._ratio = max(0.5, given.prompt_tokens / max(1, estimate))
        if not completion.choices:
            return Reply(None, None, completion.model, usage)
        choice = completion.choices[0]
        return Reply(choice.message.content, choice.finish_reason, completion.model, usage)

    def _wait_out(self, error: openai.APIStatusError, number: int, waited: float) -> float:
        """Report a 429 at once, then wait inside the lease; returns the seconds waited."""
        told = _retry_after(error)
        self._report(told)
        pause = told if told is not None else min(WINDOW_SECONDS, 2.0**number)
        if pause > LONGEST_WAIT or waited + pause > LONGEST_WAITS:
            raise RateLimited(_describe(error), pause) from error
        # A little later than told, each at another moment: all agents were told the same.
        pause += random.uniform(0.05, min(3.0, 0.1 + pause / 10))  # noqa: S311 - no secret
        log.warning("rate limited; waiting %.1f s inside the lease", pause)
        self._wait(pause)
        return pause


def is_rate_limit(error: openai.APIStatusError) -> bool:
    """A 429, also where it comes as 400. A limit of zero is a refusal, not a limit."""
    if _is_limit_of_zero(error):
        return False
    if error.status_code == 429:
        return True
    return error.status_code == 400 and _LIMIT_EXCEEDED in _text_of(error)


def _is_limit_of_zero(error: openai.APIStatusError) -> bool:
    """What an account without a quota is told: 403 by Databricks, 429 by others."""
    if error.status_code not in _LIMIT_STATUS:
        return False
    inner = _body_of(error).get("error")
    limit = inner.get("limit") if isinstance(inner, dict) else None
    told = isinstance(limit, int) and not isinstance(limit, bool) and limit == 0
    return told or _LIMIT_OF_ZERO.search(_text_of(error)) is not None


def _refusal(error: openai.APIStatusError) -> ModelRefused:
    if _is_limit_of_zero(error):
        return LimitOfZero(
            f"{_describe(error)} (It allows no call at all: it needs a quota, or another model "
            "endpoint. Trying again does not help.)"
        )
    text = _text_of(error).lower()
    if error.status_code == 413 or "context_length" in text or "context length" in text:
        return ContextTooLong(_describe(error))
    return ModelRefused(_describe(error))


def _retry_after(error: openai.APIStatusError) -> float | None:
    """Seconds to wait, from the header or from the body that Databricks documents."""
    body = _body_of(error)
    inner = body.get("error")
    candidates: list[Any] = [error.response.headers.get("retry-after"), body.get("retry_after")]
    candidates.append(inner.get("retry_after") if isinstance(inner, dict) else None)
    for candidate in candidates:
        try:
            seconds = float(candidate)
        except (TypeError, ValueError):
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    return None


def _body_of(error: openai.APIStatusError) -> dict[str, Any]:
    """The whole body: the client keeps only what is inside "error"."""
    try:
        body = error.response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _text_of(error: openai.APIStatusError) -> str:
    return f"{error.message} {_body_of(error)}"


def _describe(error: openai.APIError) -> str:
    status = getattr(error, "status_code", None)
    prefix = f"The model endpoint answered {status}: " if status else "The model endpoint failed: "
    return (prefix + (error.message or type(error).__name__))[:2000]
