"""The agent that reads a PDF, asks a model for its fields and stores the result."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakequeue.agents.document_parser.agent import run
    from lakequeue.agents.document_parser.reader import Inspection, inspect

__all__ = ["Inspection", "inspect", "run"]

_HOMES = {"run": "agent", "inspect": "reader", "Inspection": "reader"}


def __getattr__(name: str) -> Any:
    """Load a part when it is asked for: the command line inspects files without MLflow."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
