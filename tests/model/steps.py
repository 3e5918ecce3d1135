"""What may be done, step by step: for each function of the API what it is called with.

`task`, `tasks`, `attempt`, `attempts` and `extraction` are drawn as how many were made after the
one that is meant, and become numbers (`resolve`) when it is known how many there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.model.rules import Usage

START = datetime(2026, 1, 5, 12, tzinfo=UTC)

# a and b share an endpoint; c asks before each of its model calls.
ENDPOINTS: dict[str, dict[str, Any]] = {
    "east": {"max_concurrent_tasks": 3, "max_tpm": 3000},
    "west": {"max_tpm": 4000, "max_rpm": 4},
}
AGENTS: dict[str, dict[str, Any]] = {
    "a": {"model_endpoint": "east", "max_attempts": 2, "max_rate_limited": 1},
    "b": {"model_endpoint": "east", "max_concurrent_tasks": 1, "reconcile_grace": timedelta(0)},
    "c": {"model_endpoint": "west", "reserves_calls": True, "breaker_failures": 3},
}
COMMON: dict[str, Any] = {
    "lease_duration": timedelta(seconds=60),
    "tokens_per_task": 0,
    "tokens_per_page": 100,
    "estimate_factor": 1.0,
}


def seconds(*some: float) -> st.SearchStrategy[timedelta]:
    return st.sampled_from([timedelta(seconds=n) for n in some])


def few(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, min_size=1, max_size=4)


def usages(**some: Any) -> st.SearchStrategy[Usage]:
    return st.builds(
        Usage,
        input=st.integers(0, 2500),
        output=st.integers(0, 500),
        cached=st.none() | st.integers(0, 100),
        cost=st.none() | st.integers(0, 99).map(lambda n: Decimal(n) / 100),
        complete=st.booleans(),
        **some,
    )


def settings(some: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=some)


RECENT = st.integers(0, 7)
AGENT = st.sampled_from(sorted(AGENTS))
ENDPOINT = st.sampled_from(sorted(ENDPOINTS))
CUSTOMER = st.sampled_from(["", "acme"])
WORKER = st.sampled_from(["v", "w", "x"])
KEY = st.integers(1, 2)
TOKENS = st.sampled_from([0, 100, 500, 1500, 3900])
DOCUMENT = st.fixed_dictionaries(
    {
        "priority": st.sampled_from([5, 0, 9]),
        "page_count": st.sampled_from([1, 5, 12, 35, None]),
        "dedup_key": st.sampled_from([None, "k"]),
    }
)
REPORT = st.fixed_dictionaries(
    {
        "attempt": RECENT,
        "outcome": st.sampled_from(
            ["success", "failure", "rate_limited", "permanent_failure", "cancelled"]
        ),
        "with_result": st.booleans(),
    },
    optional={
        "usage": usages(),
        "run_id": KEY,
        "retry_after": seconds(20, 9000),
        "forged": st.sampled_from([False] * 9 + [True]),
    },
)
LIMITS: dict[str, st.SearchStrategy[Any]] = {
    "max_concurrent_tasks": st.sampled_from([0, 1, 2, 4]),
    "max_tpm": st.sampled_from([0, 1000, 3000]),
    "max_input_tpm": st.sampled_from([0, 2000]),
    "max_output_tpm": st.sampled_from([0, 500]),
    "max_rpm": st.sampled_from([0, 2, 4]),
}
AGENT_SETTINGS: dict[str, st.SearchStrategy[Any]] = {
    "model_endpoint": ENDPOINT,
    "job_id": st.sampled_from([7, 0]),
    "max_attempts": st.integers(1, 3),
    "max_rate_limited": st.integers(0, 2),
    "reconcile_grace": seconds(0, 30),
    "retry_base": seconds(0, 20),
    "reserves_calls": st.booleans(),
    "breaker_failures": st.sampled_from([0, 2]),
}
DAYS = st.integers(0, 4).map(lambda n: START.date() + timedelta(days=n))

STEPS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "advance": {"by": seconds(60, 5, 10, 20, 30, 61, 120, 130, 300, 90_000)},
    "pause_agent": {"agent": AGENT},
    "resume_agent": {"agent": AGENT},
    "worker_heartbeat": {
        "worker": st.sampled_from(["v", "w"]),
        "stopping": st.booleans(),
        "relay": st.sampled_from([None, "databricks", "local"]),
    },
    "create_extraction": {"customer": CUSTOMER},
    "enqueue_tasks": {
        "agent": AGENT,
        "documents": few(DOCUMENT),
        "customer": st.none() | CUSTOMER,
        "extraction": st.none() | RECENT,
    },
    "extraction_progress": {"extraction": RECENT},
    "dequeue_tasks": {
        "worker": WORKER,
        "batch_size": st.sampled_from([10, 1, 2, 3]),
        "agents": st.none() | st.lists(AGENT, min_size=1, max_size=2, unique=True),
    },
    "record_runs": {"attempts": few(RECENT), "run_ids": st.just([1, 2, 3, 4])},
    "adopt_attempts": {"worker": WORKER, "batch_size": st.sampled_from([10, 1])},
    "runs_to_check": {"worker": WORKER},
    "extend_leases": {
        "attempts": few(RECENT),
        "tokens": st.just([None] * 4) | st.just([10, 200, 900, 3000]),
    },
    "fail_attempt": {
        "attempt": RECENT,
        "outcome": st.sampled_from(
            ["failure", "permanent_failure", "rate_limited", "cancelled", "given_back"]
        ),
    },
    "record_usage": {"attempt": RECENT, "usage": usages(trace=st.booleans())},
    "sweep_leases": {},
    "fold_rollups": {},
    "reserve_tokens": {
        "attempt": RECENT,
        "call": KEY,
        "input_tokens": TOKENS,
        "max_output_tokens": TOKENS,
    },
    "settle_tokens": {
        "attempt": RECENT,
        "call": KEY,
        "input_tokens": st.none() | TOKENS,
        "output_tokens": st.none() | TOKENS,
    },
    "report_rate_limit": {"attempt": RECENT, "retry_after": seconds(10, 60, 9000)},
    "record_callback": {"report": REPORT},
    "record_callbacks": {"reports": few(REPORT)},
    "store_result": {"attempt": RECENT},
    "cancel_tasks": {"tasks": few(RECENT)},
    "retry_tasks": {"tasks": few(RECENT)},
    "reprocess_tasks": {"tasks": few(RECENT)},
    "set_priorities": {"tasks": few(RECENT), "priority": st.sampled_from([0, 5, 9])},
    "queue_metrics": {
        "statuses": st.just(["enqueued", "processing", "completed", "failed", "cancelled"]),
        "agents": st.lists(AGENT, min_size=1, unique=True),
        "customers": st.lists(CUSTOMER, min_size=1, unique=True),
        "days": st.tuples(DAYS, DAYS),
    },
    "purge_tasks": {
        "older_than": st.sampled_from([timedelta(days=1), timedelta(days=2)]),
        "completed": st.booleans(),
    },
    "configure_agent": {"agent": AGENT, "settings": settings(AGENT_SETTINGS)},
}
# A limit that is lowered is exceeded at once by what runs: only the model knows that it may be.
LIMIT_STEPS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "configure_agent": {"agent": AGENT, "settings": settings(AGENT_SETTINGS | LIMITS)},
    "configure_endpoint": {
        "endpoint": ENDPOINT,
        "settings": settings(LIMITS | {"max_passed_over": seconds(20, 120)}),
    },
}


def resolve(
    arguments: Mapping[str, Any], made: Mapping[str, int], likely: Mapping[str, Sequence[int]] = {}
) -> dict[str, Any] | None:
    """The arguments with numbers; None if one means a task or the like, and there is none yet.

    made: how many tasks, attempts and extractions there are. likely: which of them something can
    be done to; three of four that are drawn are such ones.
    """

    def number(kind: str, drawn: int) -> int:
        some = likely.get(kind) if drawn % 4 else None
        some = some or range(made[kind])
        return some[-1 - drawn % len(some)]

    resolved: dict[str, Any] = {}
    for name, value in arguments.items():
        kind = name.removesuffix("s")
        if kind in made and value is not None:
            if not made[kind]:
                return None
            resolved[name] = (
                number(kind, value) if kind == name else [number(kind, n) for n in value]
            )
        elif name == "reports":
            resolved[name] = [resolve(report, made, likely) for report in value]
            if None in resolved[name]:
                return None
        elif name in ("settings", "report"):
            inner = resolve(value, made, likely)
            if inner is None:
                return None
            resolved |= inner
        elif name in ("run_ids", "tokens"):
            resolved[name] = value[: len(arguments["attempts"])]
        else:
            resolved[name] = value
    return resolved
