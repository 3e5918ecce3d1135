"""How the limits that `lakequeue.explain_throttles` tells of are put in words, everywhere."""

from __future__ import annotations

import math
from decimal import Decimal

TITLES = {
    "tasks": "Tasks at once",
    "tokens": "Tokens per minute",
    "input_tokens": "Input tokens per minute",
    "output_tokens": "Output tokens per minute",
    "requests": "Requests per minute",
}
UNITS = {
    "tasks": "tasks",
    "tokens": "tokens/min",
    "input_tokens": "input tokens/min",
    "output_tokens": "output tokens/min",
    "requests": "requests/min",
}
PARAMETERS = {
    "tasks": "max_concurrent_tasks",
    "tokens": "max_tpm",
    "input_tokens": "max_input_tpm",
    "output_tokens": "max_output_tpm",
    "requests": "max_rpm",
}
"""What `configure_agent` and `configure_endpoint` call them."""


def whole(amount: Decimal | int | None) -> int | None:
    """An amount without its fraction, never less than it is."""
    return None if amount is None else math.ceil(amount)
