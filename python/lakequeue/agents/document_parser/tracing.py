"""One MLflow trace per attempt. Tracing never fails a document: what goes wrong is logged."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

from lakequeue.agents.document_parser.costs import Cost, Usage
from lakequeue.traces import SWITCHES

log = logging.getLogger(__name__)

AGENT, PARSER, CHAT_MODEL = "AGENT", "PARSER", "CHAT_MODEL"


class Span:
    """A span, or nothing where tracing is off or broken."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    @property
    def trace_id(self) -> str | None:
        return getattr(self._span, "trace_id", None) if self._span is not None else None

    def inputs(self, **values: Any) -> None:
        """Note what goes in; never page texts, which are in the result."""
        with _logged():
            if self._span is not None:
                self._span.set_inputs(values)

    def outputs(self, values: Any) -> None:
        """Note what came out."""
        with _logged():
            if self._span is not None:
                self._span.set_outputs(values)

    def usage(self, model: str, usage: Usage | None, cost: Cost | None) -> None:
        """Note a model call's tokens and cost, if known; only leaf spans may carry them."""
        if self._span is None:
            return
        with _logged():
            from mlflow.tracing.constant import CostKey, SpanAttributeKey, TokenUsageKey

            self._span.set_attribute(SpanAttributeKey.MODEL, model)
            if usage is None:
                return
            self._span.set_attribute(
                SpanAttributeKey.CHAT_USAGE,
                {
                    TokenUsageKey.INPUT_TOKENS: usage.input,
                    TokenUsageKey.OUTPUT_TOKENS: usage.output,
                    TokenUsageKey.TOTAL_TOKENS: usage.total,
                    TokenUsageKey.CACHE_READ_INPUT_TOKENS: usage.cached,
                },
            )
            if cost is not None:
                self._span.set_attribute(
                    SpanAttributeKey.LLM_COST,
                    {
                        CostKey.INPUT_COST: float(cost.input),
                        CostKey.OUTPUT_COST: float(cost.output),
                        CostKey.TOTAL_COST: float(cost.total),
                    },
                )


class Tracer:
    """Makes the spans of one attempt."""

    def __init__(self) -> None:
        self._mlflow: Any = None
        # Without a store of its own MLflow would make one in the current folder.
        configured = os.environ.get("MLFLOW_TRACKING_URI") or os.environ.get(
            "DATABRICKS_RUNTIME_VERSION"
        )
        if not configured:
            return
        # Before MLflow is imported, unless the environment says otherwise.
        for name, value in SWITCHES.items():
            os.environ.setdefault(name, value)
        with _logged():
            import mlflow

            uri = os.environ.get("MLFLOW_TRACKING_URI")
            if uri:
                mlflow.set_tracking_uri(uri)
            self._mlflow = mlflow

    @contextlib.contextmanager
    def root(self, name: str, tags: dict[str, str], client_request_id: str) -> Iterator[Span]:
        """The attempt's trace: found by its tags, and by the run key as client_request_id."""
        with self.span(name, AGENT) as span:
            if span.trace_id is not None:
                with _logged():
                    self._mlflow.update_current_trace(
                        tags=tags, client_request_id=client_request_id
                    )
            yield span

    def tag(self, **tags: str) -> None:
        """Add tags to the trace whose root is open."""
        with _logged():
            if self._mlflow is not None:
                self._mlflow.update_current_trace(tags=tags)

    @contextlib.contextmanager
    def span(self, name: str, span_type: str) -> Iterator[Span]:
        """A span that ends with the block; an exception passes through and marks it as failed."""
        manager: Any = None
        span: Any = None
        if self._mlflow is not None:
            with _logged():
                manager = self._mlflow.start_span(name=name, span_type=span_type)
                span = manager.__enter__()
        if span is None:
            yield Span()
            return
        try:
            yield Span(span)
        except BaseException as error:
            with _logged(passing=error):
                # The kinds of stop that are no Exception would leave the span looking well.
                if not isinstance(error, Exception):
                    span.set_status("ERROR")
                manager.__exit__(type(error), error, error.__traceback__)
            raise
        with _logged():
            manager.__exit__(None, None, None)


@contextlib.contextmanager
def _logged(passing: BaseException | None = None) -> Iterator[None]:
    """Log what tracing raises, except the exception that is on its way anyway."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a document is worth more than its trace
        if error is not passing:
            log.warning("tracing failed: %s: %s", type(error).__name__, error)
