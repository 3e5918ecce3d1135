"""For probes and Prometheus: `/healthz`, `/readyz`, `/metrics`.

The first two tell nothing about the work and ask nobody who they are. `/metrics` shows the numbers
of the overview, by agent and never by customer, to whoever reaches the pages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from flask import Blueprint, Response
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from lakequeue import __version__, database, migrate
from lakequeue.web import views

blueprint = Blueprint("health", __name__)

KEPT_SECONDS = 5.0
"""Several Prometheus servers cost the database no more than one."""
STATES = ("ok", "unknown", "warning", "alarm")
NO_DATABASE = (database.DatabaseUnavailable, database.NotInstalled, psycopg.Error)


@blueprint.get("/healthz")
def alive() -> Response:
    """The process answers; the database is not asked (see /readyz)."""
    return _words(200, "ok")


@blueprint.get("/readyz")
def ready() -> Response:
    """Whether pages can be served now: 200, or 503 with the reason in words."""
    reason = _not_ready()
    return _words(200, "ok") if reason is None else _words(503, reason)


def _words(status: int, words: str) -> Response:
    return Response(f"{words}\n", status, mimetype="text/plain")


def _not_ready() -> str | None:
    hub, pool = views.web().hub, views.reads().pool_use()
    if hub.stopping:
        return "this process is about to end"
    if pool.exhausted:
        return f"all {pool.most} database connections are in use, {pool.waiting} requests wait"
    if hub.late:
        return "the watcher for changes has not seen the database lately"
    try:
        problem = migrate.version_problem(views.reads().schema_version())
    except NO_DATABASE:
        return "the database does not answer, or is not installed"
    return None if problem is None else str(problem)


@blueprint.get("/metrics")
@blueprint.get("/api/prometheus")
def metrics() -> Response:
    """Everything in Prometheus' text format.

    By two names: the proxy of Databricks Apps takes a program's token under /api/ only.
    """
    text = generate_latest(_Scrape([*_process(), *_database()]))
    return Response(text, content_type=CONTENT_TYPE_PLAIN_0_0_4)


@dataclass(frozen=True)
class _Scrape:
    """What was found, as the library wants to be handed it."""

    found: Sequence[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.found


Sample = tuple[Sequence[str], Any]


def _gauge(name: str, words: str, labels: Sequence[str], samples: Iterable[Sample]) -> Metric:
    family = GaugeMetricFamily(f"lakequeue_{name}", words, labels=labels)
    for values, value in samples:
        if value is not None:
            family.add_metric(values, float(value))
    return family


def _counter(name: str, words: str, labels: Sequence[str], samples: Iterable[Sample]) -> Metric:
    family = CounterMetricFamily(f"lakequeue_{name}", words, labels=labels)
    for values, value in samples:
        family.add_metric(values, float(value))
    return family


def _one(value: Any) -> list[Sample]:
    return [((), value)]


def _process() -> Iterator[Metric]:
    """What this process knows by itself."""
    hub, pool = views.web().hub, views.reads().pool_use()
    yield InfoMetricFamily("lakequeue", "The program.", {"version": __version__})
    yield _gauge("sse_clients", "Open pages that are updated live.", (), _one(hub.streams))
    yield _gauge("sse_clients_max", "Most of them.", (), _one(views.web().options.max_streams))
    yield _gauge(
        "listening", "Whether notifications arrive (1) or not (0).", (), _one(hub.listening)
    )
    yield _gauge(
        "listener_probe_age_seconds",
        "Since the watcher for changes has seen the database; it looks only while a page is open.",
        (),
        _one(hub.seen_seconds_ago),
    )
    yield _gauge(
        "pool_connections",
        "Database connections of this process.",
        ("state",),
        [(("in_use",), pool.in_use), (("idle",), pool.idle)],
    )
    yield _gauge("pool_connections_max", "Most of them.", (), _one(pool.most))
    yield _gauge("pool_waiting_requests", "Requests that wait for one.", (), _one(pool.waiting))
    yield _counter(
        "reports_received", "Reports of agents by the webhook.", (), _one(views.web().tally.reports)
    )


def _database() -> Iterator[Metric]:
    """What the database says; all of it, or only that it does not answer."""
    found = None
    with contextlib.suppress(*NO_DATABASE):
        views.reads().schema_version()  # within seconds, while a scrape still waits for the answer
        found = [*_agents(), *_limits(), *_totals(), *_workers(), *_health()]
    yield _gauge(
        "database_up", "Whether the database answered (1) or not (0).", (), _one(found is not None)
    )
    yield from found or ()


def _rows(function: str, **parameters: Any) -> list[dict[str, Any]]:
    return views.reads().shared(function, kept_seconds=KEPT_SECONDS, **parameters)


def _agents() -> Iterator[Metric]:
    rows = _rows("agent_status")
    yield _gauge(
        "tasks",
        "Tasks that are not finished; those that wait for a retry are enqueued, too.",
        ("agent", "status"),
        [
            ((row["agent"], status), row[status])
            for row in rows
            for status in ("enqueued", "processing")
        ],
    )
    for name, words, column in (
        ("retry_tasks", "Enqueued tasks that wait for the time of their retry.", "waiting"),
        ("running_attempts", "Attempts that may still spend.", "spending"),
    ):
        yield _gauge(name, words, ("agent",), [((row["agent"],), row[column]) for row in rows])
    yield _gauge(
        "agent_oldest_waiting_seconds",
        "Age of the oldest claimable task; none where nothing waits.",
        ("agent",),
        [
            ((row["agent"],), row["oldest_waiting"].total_seconds())
            for row in rows
            if row["oldest_waiting"] is not None
        ],
    )
    yield _gauge(
        "agent_paused",
        "Whether nothing is claimed for it (1) or not (0).",
        ("agent",),
        [((row["agent"],), row["paused_at"] is not None) for row in rows],
    )


def _limits() -> Iterator[Metric]:
    # Agents of one endpoint share its limits.
    limits = {(row["scope"], row["name"], row["kind"]): row for row in _rows("explain_throttles")}
    for column, words in (
        ("ceiling", "A limit: tasks at once, or the others per minute."),
        ("used", "What is used of a limit now."),
        ("booked", "What running agents that reserve their calls will probably use of it."),
        ("room", "What is left of a limit."),
    ):
        yield _gauge(
            f"limit_{column}",
            words,
            ("scope", "name", "kind"),
            [(key, row[column]) for key, row in limits.items()],
        )


def _totals() -> Iterator[Metric]:
    rows = _rows("agent_totals")
    yield _counter(
        "tasks_finished",
        "How often a task became so.",
        ("agent", "outcome"),
        [
            ((row["agent"], outcome), row[outcome])
            for row in rows
            for outcome in ("completed", "failed", "cancelled")
        ],
    )
    for name, words, column in (
        ("input_tokens", "Input tokens reported, cached ones included.", "input_tokens"),
        ("output_tokens", "Output tokens reported.", "output_tokens"),
        ("cached_tokens", "Input tokens that the provider had cached.", "cached_tokens"),
        ("model_cost_usd", "Model cost as far as it is known, in USD.", "llm_cost"),
    ):
        yield _counter(name, words, ("agent",), [((row["agent"],), row[column]) for row in rows])


def _workers() -> Iterator[Metric]:
    states = [row["state"] for row in _rows("list_workers")]
    yield _gauge(
        "workers",
        "Worker processes; stopped and lost ones of the last day.",
        ("state",),
        [((name,), states.count(name)) for name in ("alive", "silent", "stopped", "lost")],
    )


def _health() -> Iterator[Metric]:
    rows = _rows("health")
    yield _gauge(
        "health_status",
        f"Checks of health: {', '.join(f'{n} {name}' for n, name in enumerate(STATES))}.",
        ("check",),
        [((row["name"],), STATES.index(row["status"])) for row in rows],
    )
    for row in rows:
        unit = row["unit"] or ""
        name = row["name"] if not unit or row["name"].endswith(unit) else f"{row['name']}_{unit}"
        yield _gauge(
            name, f"Check {row['name']} of health, see the runbook.", (), _one(row["value"])
        )
