"""What operators do from pages: to tasks that are picked or fit the filter, and to agents.

The database decides who may, what is done and what is skipped. A filter is evaluated again when
the action runs, in bounded chunks; the count is shown before.
"""

from __future__ import annotations

import datetime
import itertools
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from flask import Blueprint, flash, jsonify, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from lakequeue.web import filters, formats, guard, views
from lakequeue.web.filters import BadFilter, Filter, parse_key

blueprint = Blueprint("actions", __name__)

MOST_TASKS = 10_000
"""For one press; what is left over is said, and the next press goes on behind it."""
MOST_PICKED = 1000
SECONDS = 20.0
LOOK_SECONDS = 20.0
"""Of the database, to find what a filter with a part of a path fits."""
CHUNK = 200
LIST_PAGE = 1000
EXAMPLES = 3


@dataclass(frozen=True)
class Action:
    """Something that is done to many tasks by one function of the database."""

    function: str
    verb: str
    effect: str
    outcomes: dict[str, str]
    """What its outcomes mean, after a number."""


ACTIONS = {
    "cancel": Action(
        "cancel_tasks",
        "Cancel",
        "Tasks that wait are cancelled at once; those that are processing are asked to stop. "
        "A result that comes first is kept.",
        {"cancelled": "cancelled", "requested": "asked to stop"},
    ),
    "retry": Action(
        "retry_tasks",
        "Retry",
        "The same tasks go back to the queue, at their old places, with all their attempts again. "
        "One with a stored result is completed from it, at no cost.",
        {"enqueued": "back in the queue", "completed": "completed from a stored result"},
    ),
    "reprocess": Action(
        "reprocess_tasks",
        "Reprocess",
        "Each gets a new task, which costs tokens again; the old one and its result stay.",
        {"enqueued": "reprocessed by new tasks"},
    ),
    "priority": Action(
        "set_priorities",
        "Set the priority of",
        "Tasks that wait take their new place at once; 9 goes first.",
        {"changed": "changed"},
    ),
}


@dataclass
class Tally:
    """What has become of the tasks."""

    outcomes: Counter[str] = field(default_factory=Counter)
    skipped: list[str] = field(default_factory=list)
    next: str | None = None
    """Where it stopped, if there are more: a cursor of the list, which goes to older tasks."""
    looked_to: datetime.datetime | None = None
    """Tasks before it were not looked at, since time was over."""

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Count the answers of one call."""
        for row in rows:
            self.outcomes[row["outcome"]] += 1
            if row["outcome"] == "skipped" and len(self.skipped) < EXAMPLES:
                self.skipped.append(f"task {row['task_id']}, {row['detail']}")

    def words(self, action: Action) -> str:
        """For people."""
        parts = [
            f"{count:,} {action.outcomes.get(outcome, outcome)}"
            for outcome, count in sorted(self.outcomes.items())
            if outcome != "skipped"
        ]
        if left_out := self.outcomes["skipped"]:
            others = "" if left_out <= len(self.skipped) else " and others"
            parts.append(f"{left_out:,} skipped ({'; '.join(self.skipped)}{others})")
        text = ", ".join(parts) or "No task fits any more"
        if self.looked_to is not None:
            at = self.looked_to.astimezone(views.known_zone())
            text += f". Looked back to {formats.day(at.date())}, {at:%H:%M} only"
            text += ": go on for older ones"
        elif self.next is not None:
            text += ". There are more: go on with the rest"
        return text + "."


@blueprint.post("/tasks/actions")
def on_tasks() -> ResponseReturnValue:
    """Ask whether it is meant, or do it."""
    today = views.clock()["today"]
    guard.check_token()
    chosen = Filter.parse(request.args, today)
    name = request.form.get("action", "")
    if name not in ACTIONS:
        raise BadFilter(f"There is no action {name!r}.")
    action = ACTIONS[name]
    whole = request.form.get("all") == "yes"
    picked = [key for text in request.form.getlist("task") if (key := parse_key(text)) is not None]
    back = _back(chosen)
    if not whole and not picked:
        flash("Pick tasks first, by the boxes at the left of the list.", "problem")
        return redirect(back, 303)
    if len(picked) > MOST_PICKED:
        raise BadFilter(f"At most {MOST_PICKED:,} tasks can be picked at once.")
    more: dict[str, Any] = {"priority": _priority()} if name == "priority" else {}
    if request.form.get("confirmed") != "yes":
        return _confirm(chosen, name, picked, whole, back)
    more["reason"] = request.form.get("reason", "").strip() or None
    if whole:
        tally = _apply_to_all(action, _fitting(chosen, _concerned(_scope(chosen, name))), more)
    else:
        tally = Tally()
        for place in range(0, len(picked), CHUNK):
            tally.add(_write(action, picked[place : place + CHUNK], more))
    views.reads().forget()
    if request.accept_mimetypes.best == "application/json":
        return jsonify(
            outcomes=dict(tally.outcomes),
            skipped=tally.skipped,
            more=tally.next is not None,
            next=tally.next,
            looked_back_to=views.jsonable(tally.looked_to),
        )
    flash(tally.words(action), "done")
    if tally.next is not None:
        again = [("after", tally.next), ("rest", name)]
        again += [("priority", str(more["priority"]))] if name == "priority" else []
        back = url_for("pages.tasks") + chosen.query(again)
    return redirect(back, 303)


def _priority() -> int | None:
    return request.form.get("priority", type=int)


def _back(chosen: Filter) -> str:
    task = parse_key(request.form.get("page_of"))
    if task is not None:
        return url_for("pages.task", key=task)
    return url_for("pages.tasks") + chosen.query()


def _confirm(
    chosen: Filter, name: str, picked: list[int], whole: bool, back: str
) -> ResponseReturnValue:
    scope = _scope(chosen, name) if whole else []
    concerned = _concerned(scope)
    count, fitting = _count(chosen, scope) if whole else (len(picked), None)
    return render_template(
        "confirm.html",
        action=ACTIONS[name],
        name=name,
        chosen=chosen,
        whole=whole,
        picked=picked,
        count=count,
        looked_to=fitting and fitting.looked_to,
        following=fitting and fitting.next,
        concerned=concerned,
        only_listed=_only_listed(chosen),
        others=[] if _only_listed(chosen) else [row for row in scope if not row["concerned"]],
        start=_start() or "",
        most=MOST_TASKS,
        back=back,
        page_of=request.form.get("page_of", ""),
        priority=_priority(),
        may_operate=views.may_operate(),
    )


def _scope(chosen: Filter, name: str) -> list[dict[str, Any]]:
    """How many tasks fit the filter, by status, and which statuses the action can concern."""
    return filters.in_order(views.reads().call("action_scope", action=name, **chosen.parameters()))


def _concerned(scope: list[dict[str, Any]]) -> list[str]:
    return [row["status"] for row in scope if row["concerned"]]


def _count(chosen: Filter, scope: list[dict[str, Any]]) -> tuple[int, views.Listing | None]:
    """How many it can concern now.

    Those that only the list knows are counted in it, no further than is done at a press.
    """
    if _only_listed(chosen):
        fitting = _fitting(chosen, _concerned(scope))
        return sum(1 for _ in itertools.islice(fitting, MOST_TASKS)), fitting
    return sum(row["tasks"] for row in scope if row["concerned"]), None


def _only_listed(chosen: Filter) -> bool:
    """Whether nothing but the list tells which: those with a word in the path, and a rest."""
    return bool(chosen.document or _start())


def _start() -> str | None:
    """Where the press before has stopped."""
    return request.form.get("from") or None


def _fitting(chosen: Filter, statuses: list[str]) -> views.Listing:
    """The tasks, newest first, read page by page while the action goes on.

    From where the press before has stopped: what has come or was made since then is newer, out of
    reach.
    """
    wanted = {**chosen.listing(), "statuses": statuses}
    return views.Listing(wanted, LIST_PAGE, LOOK_SECONDS, after=_start())


def _apply_to_all(action: Action, fitting: views.Listing, more: dict[str, Any]) -> Tally:
    """To as many as are done at a press, but some in any case."""
    tally = Tally()
    ends = time.monotonic() + SECONDS
    left = MOST_TASKS
    rows = iter(fitting)
    while chunk := list(itertools.islice(rows, min(CHUNK, left) or 1)):
        if tally.outcomes and (left <= 0 or time.monotonic() > ends):
            return tally
        tally.add(_write(action, [row["task_id"] for row in chunk], more))
        tally.next = filters.cursor(chunk[-1]["listed_at"], chunk[-1]["task_id"])
        left -= len(chunk)
    tally.next, tally.looked_to = fitting.next, fitting.looked_to
    return tally


def _write(action: Action, tasks: list[int], more: dict[str, Any]) -> list[dict[str, Any]]:
    return views.reads().write(action.function, tasks=tasks, actor=guard.person(), **more)


@blueprint.post("/agents/actions")
def on_agents() -> ResponseReturnValue:
    """Pause or resume an agent."""
    views.clock()
    guard.check_token()
    agent = request.form.get("agent", "")
    name = request.form.get("action", "")
    if name not in ("pause", "resume"):
        raise BadFilter(f"There is no action {name!r}.")
    views.reads().write(
        f"{name}_agent",
        agent=agent,
        reason=request.form.get("reason", "").strip() or None,
        actor=guard.person(),
    )
    views.reads().forget()
    flash(f"{agent} is {'paused' if name == 'pause' else 'resumed'}.", "done")
    return redirect(url_for("pages.agents") + f"#agent-{quote(agent)}", 303)
