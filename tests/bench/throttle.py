"""429s, quota used and waits: reservations and totals beside two common ways to do without."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.bench.simulation import (
    Call,
    Limits,
    Policy,
    Simulation,
    Task,
    percentile,
    wait_beyond_turn,
)
from tests.servers import Server

LIMITS = Limits(requests=600, input=200_000, output=20_000)
MAX_OUTPUT = 500
CAP = 6
"""The one cap that an operator sets who knows the mix of documents, not what comes next."""
CALL_TOKENS = 4000 + MAX_OUTPUT
"""The most that a call can use, and so an estimate per page that holds."""


@dataclass(frozen=True)
class Workload:
    """Tasks that always wait: more than the quota can serve."""

    name: str
    make: Callable[[random.Random, float], list[Task]]
    minutes: float
    warm_up: float
    """Minutes before the steady state."""
    cap: int
    """The concurrency that serves just this workload best, known in hindsight."""


def a_call(dice: random.Random) -> Call:
    """3,000 to 4,000 prompt tokens, answered within three seconds."""
    output = dice.randint(150, 450)
    return Call(dice.randint(3000, 4000), MAX_OUTPUT, output, 1 + output / 225)


def short(dice: random.Random, minutes: float) -> list[Task]:
    """One call each."""
    return [Task(0.0, 5, [a_call(dice)], 1.0) for _ in range(int(75 * minutes))]


def long(dice: random.Random, minutes: float) -> list[Task]:
    """60 calls each, a good eight minutes if nothing holds them up."""
    return [
        Task(0.0, 5, [a_call(dice) for _ in range(60)], 5.0) for _ in range(int(2 * minutes) + 8)
    ]


def mixed(dice: random.Random, minutes: float) -> list[Task]:
    """From one call to a hundred, three priorities, arriving all the time."""
    tasks = [
        Task(
            float(second),
            dice.choices([0, 5, 9], [5, 4, 1])[0],
            [a_call(dice) for _ in range(min(100, max(1, int(dice.lognormvariate(1.2, 1.2)))))],
            1.0,
        )
        for second in range(int(minutes * 60))
        for _ in range(2 if second == 0 or second % 6 == 0 else 0)
    ]
    backlog = [
        Task(0.0, 0, [a_call(dice) for _ in range(dice.choice([1, 2, 30]))], 1.0) for _ in range(30)
    ]
    return sorted(tasks + backlog, key=lambda task: task.created)


WORKLOADS = [
    Workload("short", short, 6, 2, 5),
    Workload("long", long, 8, 4, 8),
    Workload("mixed", mixed, 7, 3, 6),
]

POLICIES: list[tuple[str, Policy, float]] = [
    ("reservations", "reserved", 1.0),
    ("totals", "totals", 1.0),
    ("totals, 30 % low", "totals", 0.7),
    ("retries only", "retries", 1.0),
    ("concurrency cap", "cap", 1.0),
    ("cap in hindsight", "cap", 1.0),
]
SLOW = ("totals, 30 % low", "cap in hindsight")
"""What the quick mode tries with the first workload only."""


def run(quick: bool) -> dict[str, Any]:
    """Run everything and print a table."""
    server = Server("embedded")
    try:
        rows = [
            simulate(server, workload, title, policy, accuracy, quick)
            for workload in WORKLOADS
            for title, policy, accuracy in POLICIES
            if title not in SLOW or not quick or workload is WORKLOADS[0]
        ]
    finally:
        server.stop()
    return summary(rows)


def simulate(
    server: Server, workload: Workload, title: str, policy: Policy, accuracy: float, quick: bool
) -> dict[str, Any]:
    """One line of the table."""
    minutes = workload.minutes * (1 if quick else 4)
    tasks = workload.make(random.Random(workload.name), minutes)
    database = server.clone()
    try:
        sim = Simulation(
            database,
            policy,
            LIMITS,
            tasks,
            seconds=minutes * 60,
            cap=CAP if title == "concurrency cap" else workload.cap,
            tokens_per_call=int(CALL_TOKENS * accuracy),
            output_share=MAX_OUTPUT / CALL_TOKENS,
        ).run()
        overran = database.value(
            "select count(*) from lakequeue.task_attempts where raised is not null"
        )
    finally:
        database.drop()
    waits = {
        priority: [t.claimed - t.created for t in tasks if t.priority == priority and t.claimed]
        for priority in sorted({t.priority for t in tasks}, reverse=True)
    }
    requests = sim.calls_made + sim.endpoint.rejected
    quota_used = sim.endpoint.quota_used(LIMITS, workload.warm_up * 60, minutes * 60)
    wasted = sum(c.input + c.output for c in sim.wasted) / max(
        1, sum(c.input + c.output for _, c in sim.endpoint.served)
    )
    row = {
        "workload": workload.name,
        "policy": title,
        "requests": requests,
        "rejected": sim.endpoint.rejected,
        "quota_used": quota_used,
        "wasted": wasted,
        "goodput": quota_used * (1 - wasted),
        "overran": overran,
        "finished": sum(t.finished is not None for t in tasks),
        "most_running": sim.most_running,
        "wait_p50": {p: percentile(w, 0.5) for p, w in waits.items()},
        "wait_p95": {p: percentile(w, 0.95) for p, w in waits.items()},
        "beyond_turn": wait_beyond_turn(tasks, minutes * 60),
        "call_wait_mean": sum(sim.call_waits) / max(1, len(sim.call_waits)),
    }
    print_row(row, header=workload is WORKLOADS[0] and title == POLICIES[0][0])
    return row


def print_row(row: dict[str, Any], *, header: bool) -> None:
    """A line of the table, as soon as it is known."""
    if header:
        print(
            f"{'workload':9}{'policy':18}{'requests':>9}{'429s':>7}{'quota':>7}{'goodput':>9}{'done':>6}"
            f"{'runs':>6}{'overran':>9}{'beyond turn':>13}  wait p50/p95 by priority"
        )
    waits = "  ".join(
        f"{priority}: {row['wait_p50'][priority]:.0f}/{row['wait_p95'][priority]:.0f} s"
        for priority in row["wait_p50"]
    )
    print(
        f"{row['workload']:9}{row['policy']:18}{row['requests']:9}{row['rejected']:7}"
        f"{row['quota_used']:7.1%}{row['goodput']:9.1%}{row['finished']:6}{row['most_running']:6}"
        f"{row['overran']:9}{row['beyond_turn']:11.0f} s  {waits}",
        flush=True,
    )


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the JSON line says: reservations over all workloads, beside the baselines."""

    def of(policy: str) -> list[dict[str, Any]]:
        return [row for row in rows if row["policy"] == policy]

    reserved, totals = of("reservations"), of("totals")
    off, retries = of("totals, 30 % low"), of("retries only")
    cap, hindsight = of("concurrency cap"), of("cap in hindsight")

    def least(rows: list[dict[str, Any]], what: str) -> float:
        return round(float(min(row[what] for row in rows)), 4)

    def rejected(rows: list[dict[str, Any]]) -> int:
        return sum(row["rejected"] for row in rows)

    def by_workload(rows: list[dict[str, Any]], what: str) -> dict[str, float]:
        return {row["workload"]: round(row[what], 4) for row in rows}

    return {
        "rejected": rejected(reserved),
        "quota_used": least(reserved, "quota_used"),
        "goodput": least(reserved, "goodput"),
        "quota_used_by_workload": by_workload(reserved, "quota_used"),
        "largest_wait_beyond_turn": round(max(row["beyond_turn"] for row in reserved), 1),
        "totals_rejected": rejected(totals),
        "totals_quota_used": by_workload(totals, "quota_used"),
        "low_estimates_rejected": rejected(off),
        "low_estimates_rejected_share": round(
            rejected(off) / max(1, sum(row["requests"] for row in off)), 5
        ),
        "low_estimates_overran": sum(row["overran"] for row in off),
        "baseline_rejected": rejected(retries),
        "baseline_goodput": by_workload(retries, "goodput"),
        "cap_rejected": rejected(cap),
        "cap_goodput": by_workload(cap, "goodput"),
        "hindsight_rejected": rejected(hindsight),
        "hindsight_goodput": by_workload(hindsight, "goodput"),
    }
