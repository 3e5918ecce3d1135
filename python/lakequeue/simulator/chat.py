"""The chat protocol without HTTP: checks a request, reads its pages, counts tokens.

How tokens are counted: the characters of all messages plus those of the JSON schema, divided by
four and rounded up, are prompt tokens; the characters of the answer, divided by four and rounded
up, are completion tokens. Both count against the limit, at the moment the request is admitted.
Prompt tokens count as cached where a prompt begins, in whole blocks of 1,024 tokens, like one of
the last prompts did: so a repeated document is cheaper, and two different ones are not.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from lakequeue.simulator.reading import read_document

MODEL = "simulator"
CHARACTERS_PER_TOKEN = 4
CACHE_BLOCK = 1024
CACHE_ENTRIES = 20_000
DEFAULT_MAX_TOKENS = 16_384

_PAGE = re.compile(r"^=== page (\d{1,7}) ===[ \t]*$", re.MULTILINE)


class BadRequest(Exception):
    """A request that cannot succeed however often it is sent."""

    def __init__(self, message: str, code: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.parameter = parameter


@dataclass(frozen=True)
class Request:
    """What matters of a request's body."""

    prompt: str
    text: str
    wants_json: bool
    max_tokens: int

    @property
    def prompt_tokens(self) -> int:
        return count_tokens(self.prompt)


@dataclass(frozen=True)
class Answer:
    """The content of an answer and its tokens."""

    content: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


def count_tokens(text: str) -> int:
    """Characters divided by four, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def parse_request(body: Any) -> Request:
    """Check a request's body; raises BadRequest with the protocol's words."""
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object.", "invalid_request_error")
    if body.get("model") != MODEL:
        raise BadRequest(
            f"The model {body.get('model')!r} does not exist here; it is {MODEL!r}.",
            "model_not_found",
            "model",
        )
    if body.get("stream"):
        raise BadRequest("The simulator does not stream.", "unsupported_value", "stream")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a list with at least one.", "invalid_type", "messages")
    texts: list[tuple[str, str]] = []
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadRequest("Each message needs a role.", "invalid_type", "messages")
        texts.append((message["role"], _content(message.get("content"))))
    schema = _schema(body.get("response_format"))
    maximum = body.get("max_completion_tokens", body.get("max_tokens", DEFAULT_MAX_TOKENS))
    if not isinstance(maximum, int) or isinstance(maximum, bool) or maximum < 1:
        raise BadRequest("max_tokens must be a positive integer.", "invalid_value", "max_tokens")
    return Request(
        prompt=schema + "".join(text for _, text in texts),
        text="\n".join(text for role, text in texts if role == "user"),
        wants_json=body.get("response_format") is not None,
        max_tokens=maximum,
    )


def answer(request: Request) -> Answer:
    """Read the pages of a request by rules, or say what this is."""
    pages = split_pages(request.text)
    if request.wants_json:
        content = json.dumps(read_document(pages), ensure_ascii=False, separators=(",", ":"))
    else:
        content = (
            "This is Lakequeue's model simulator: it answers by rules, in JSON, when asked to."
        )
    finish_reason = "stop"
    longest = request.max_tokens * CHARACTERS_PER_TOKEN
    if len(content) > longest:
        content, finish_reason = content[:longest], "length"
    return Answer(content, finish_reason, request.prompt_tokens, count_tokens(content))


def split_pages(text: str) -> list[tuple[int, str]]:
    """The pages of a prompt by its "=== page N ===" lines; without any, all is page 1."""
    marks = list(_PAGE.finditer(text))
    if not marks:
        return [(1, text)]
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return [(int(mark[1]), text[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]


def completion(given: Answer, cached_tokens: int) -> dict[str, Any]:
    """An answer as the protocol's chat.completion object."""
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": MODEL,
        "system_fingerprint": MODEL,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": given.content, "refusal": None},
                "logprobs": None,
                "finish_reason": given.finish_reason,
            }
        ],
        "usage": {
            "prompt_tokens": given.prompt_tokens,
            "completion_tokens": given.completion_tokens,
            "total_tokens": given.total_tokens,
            "prompt_tokens_details": {"cached_tokens": cached_tokens},
        },
    }


class PromptCache:
    """Remembers how prompts began. Not locked: its owner does that."""

    def __init__(self, entries: int = CACHE_ENTRIES) -> None:
        self._entries = entries
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def look_up(self, prompt: str) -> int:
        """Tokens at the start of a prompt that an earlier one had too; remembers this one."""
        step = CACHE_BLOCK * CHARACTERS_PER_TOKEN
        digest = hashlib.blake2b(digest_size=16)
        cached, unbroken = 0, True
        for start in range(0, len(prompt) - step + 1, step):
            digest.update(prompt[start : start + step].encode("utf-8", "surrogatepass"))
            key = digest.digest()
            unbroken = unbroken and key in self._known
            cached += CACHE_BLOCK if unbroken else 0
            self._known[key] = None
            self._known.move_to_end(key)
        while len(self._known) > self._entries:
            self._known.popitem(last=False)
        return cached


def _content(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        if len(parts) == len(content):
            return "".join(str(part.get("text", "")) for part in parts)
    raise BadRequest(
        "The simulator reads text only: content is a string or text parts.",
        "invalid_type",
        "messages",
    )


def _schema(response_format: Any) -> str:
    if response_format is None:
        return ""
    kind = response_format.get("type") if isinstance(response_format, dict) else None
    if kind in ("text", "json_object"):
        return ""
    schema = response_format.get("json_schema") if kind == "json_schema" else None
    if not isinstance(schema, dict) or not isinstance(schema.get("schema"), dict):
        raise BadRequest(
            "response_format must be text, json_object or json_schema with a schema.",
            "invalid_value",
            "response_format",
        )
    return json.dumps(schema["schema"], separators=(",", ":"))
