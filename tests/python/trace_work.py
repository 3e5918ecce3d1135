"""Writes traces as an agent does, for the tests of settling."""

from __future__ import annotations

from typing import Any


def write(arguments: dict[str, Any]) -> int:
    """Write one trace per attempt, with a span for each [input, output, cached, USD].

    `tags`: more tags of an attempt's trace; `keys`: the run keys that they bear.
    """
    import mlflow
    from mlflow.entities import SpanType
    from mlflow.tracing.constant import SpanAttributeKey

    for attempt_id, calls in arguments["traces"].items():
        with mlflow.start_span("document", span_type=SpanType.AGENT):
            more = arguments.get("tags", {}).get(attempt_id, {})
            mlflow.update_current_trace(
                tags={"attempt_id": attempt_id, **more},
                client_request_id=arguments.get("keys", {}).get(attempt_id),
            )
            for given, answered, cached, cost in calls:
                with mlflow.start_span("call", span_type=SpanType.CHAT_MODEL) as span:
                    usage = {
                        "input_tokens": given,
                        "output_tokens": answered,
                        "total_tokens": given + answered,
                        "cache_read_input_tokens": cached,
                    }
                    span.set_attribute(SpanAttributeKey.CHAT_USAGE, usage)
                    if cost is not None:
                        costs = {"input_cost": cost, "output_cost": 0.0, "total_cost": cost}
                        span.set_attribute(SpanAttributeKey.LLM_COST, costs)
    return 0
