"""`lakequeue status`: what the queue and its agents are doing."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from lakequeue import limits
from lakequeue.commands._place import data_dir_option, opened
from lakequeue.table import Column, Row, render


@click.command("status")
@data_dir_option
@click.option("--agent", "agents", multiple=True, help="Only this agent; may be given again.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(data_dir: Path | None, agents: tuple[str, ...], as_json: bool) -> int:
    """Show tasks by status with their tokens and cost, how each agent stands, its limits, health.

    Reads LAKEQUEUE_DATABASE_URL, or the embedded PostgreSQL, which it starts if need be. Ends 1
    when a check of health is in alarm (README's runbook says what to do), else 0.
    """
    from lakequeue import database, migrate

    names = list(agents) or None
    with opened(data_dir) as place, database.connect(place.conninfo) as connection:
        migrate.check_version(connection)
        tasks = database.call(connection, "queue_metrics", agents=names)
        standing = database.call(connection, "agent_status", agents=names)
        throttles = database.call(connection, "explain_throttles", agents=names)
        health = database.call(connection, "health")
    alarmed = int(any(row["status"] == "alarm" for row in health))
    if as_json:
        everything = {"tasks": tasks, "agents": standing, "limits": throttles, "health": health}
        click.echo(json.dumps(everything, default=_plain, indent=1))
        return alarmed
    click.echo(render(TASKS, [Row(_task_cells(row)) for row in tasks]))
    click.echo()
    if standing:
        click.echo(render(AGENTS, [Row(_agent_cells(row)) for row in standing]))
        for row in standing:
            if row["paused_at"] is not None:
                click.echo(f"{row['agent']} is paused by {row['paused_by']}: {row['pause_reason']}")
            if row["cooldown_until"] is not None:
                click.echo(f"{row['model_endpoint']} cools down until {row['cooldown_until']:%X}")
        if throttles:
            click.echo()
            click.echo(render(LIMITS, [Row(_limit_cells(row)) for row in throttles]))
    else:
        click.echo("No agents yet: `lakequeue parse` makes one, or lakequeue.configure_agent(…).")
    for row in health:
        if row["status"] != "ok":
            click.echo(f"\n{row['status'].upper()} {row['name']}: {row['words']}")
    return alarmed


UNKNOWN = "\N{EN DASH}"

TASKS = (
    Column("tasks", 10),
    Column("count", 12, right=True),
    Column("input tokens", 15, right=True),
    Column("cached", 15, right=True),
    Column("output tokens", 15, right=True),
    Column("USD", 12, right=True),
    Column("priced", 25, right=True),
    Column("median response", 16, right=True),
)
AGENTS = (
    Column("agent", 30, elastic=True),
    Column("endpoint", 20),
    Column("enqueued", 12, right=True),
    Column("waiting", 10, right=True),
    Column("running", 10, right=True),
    Column("tokens last minute", 18, right=True),
    Column("oldest", 10, right=True),
    Column("429s last hour", 14, right=True),
)
LIMITS = (
    Column("agent", 25, elastic=True),
    Column("limit of", 25, elastic=True),
    Column("unit", 17),
    Column("used", 25, right=True),
    Column("booked", 11, right=True),
    Column("next task", 22),
)


def _task_cells(row: dict[str, Any]) -> list[str]:
    return [
        row["status"],
        f"{row['tasks']:,}",
        _known(row["input_tokens"], ","),
        _known(row["cached_tokens"], ","),
        _known(row["output_tokens"], ","),
        _known(row["llm_cost"], ".4f"),
        f"{row['priced']:,} of {row['ran']:,}" if row["ran"] else "",
        _duration(row["median_response"]),
    ]


def _known(value: Decimal | int | None, form: str) -> str:
    return UNKNOWN if value is None else format(value, form)


def _agent_cells(row: dict[str, Any]) -> list[str]:
    return [
        row["agent"],
        row["model_endpoint"],
        f"{row['enqueued']:,}",
        f"{row['waiting']:,}",
        f"{row['spending']:,}",
        f"{row['tokens_last_minute']:,}",
        _duration(row["oldest_waiting"]),
        f"{row['rate_limits_last_hour']:,}",
    ]


def _limit_cells(row: dict[str, Any]) -> list[str]:
    return [
        row["agent"],
        f"{row['scope']} {row['name']}" if row["scope"] == "endpoint" else "the agent",
        limits.UNITS[row["kind"]],
        f"{limits.whole(row['used']):,} of {row['ceiling']:,}",
        f"{limits.whole(row['booked']):,}",
        _next_task(row),
    ]


def _next_task(row: dict[str, Any]) -> str:
    if row["fits"] is None:
        return "none waits"
    if row["fits"]:
        return "fits"
    wait = row["fits_in"]
    return "waits for what runs" if wait is None else f"waits, {_duration(wait)}"


def _duration(value: timedelta | None) -> str:
    if value is None:
        return ""
    seconds = value.total_seconds()
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)
