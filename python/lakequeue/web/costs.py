"""What tasks cost: model cost at once, compute cost when a person asks billing for it."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, jsonify, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from lakequeue.billing import Billing
from lakequeue.web import export, formats, guard, views
from lakequeue.web.filters import BadFilter, Filter, parse_key

blueprint = Blueprint("costs", __name__)

DIMENSIONS = ("day", "customer", "agent", "status")
ROWS_SHOWN = 100
KEPT_SECONDS = 10.0


def _filter() -> Filter:
    return Filter.parse(request.args, views.clock()["today"])


def _dimensions(default: str) -> list[str]:
    """What to tell apart, from the address."""
    chosen = [name for name in request.args.get("by", default).split(",") if name]
    if unknown := [name for name in chosen if name not in DIMENSIONS]:
        raise BadFilter(f"Costs are not told apart by {unknown[0]!r}.")
    return chosen


def _report(chosen: Filter, by: list[str], asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The costs, at most ten seconds old, and never older than what billing has answered."""
    return views.reads().shared(
        "cost_report",
        kept_seconds=KEPT_SECONDS,
        mark=asked["as_of"],
        **chosen.parameters(),
        by=by,
    )


def _endpoints(chosen: Filter) -> list[dict[str, Any]]:
    asked = chosen.parameters()
    return views.reads().shared(
        "endpoint_cost_report", **{name: asked[name] for name in ("from_day", "to_day", "agents")}
    )


def _fetch() -> dict[str, Any]:
    """How the newest question to billing is getting on; never shared, so that its end is seen."""
    return views.reads().one("compute_fetch_status")


def _grouped(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row per group: its model cost, and its compute cost in each currency."""
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in DIMENSIONS)
        group = groups.setdefault(
            key,
            {
                **{name: row[name] for name in DIMENSIONS},
                "tasks": row["tasks"],
                "llm": None,
                "compute": [],
            },
        )
        if row["kind"] == "llm":
            group["llm"] = row
        else:
            group["compute"].append(row)
    return list(groups.values())


def _medians(total: dict[str, Any] | None) -> dict[str, Any]:
    """Of how many tasks the medians are, in words, and whether that is fewer than there are."""
    model = [total["llm"]] if total and total["llm"] else []
    compute = total["compute"] if total else []
    return {
        "llm": _median_of(model, "priced tasks"),
        "compute": _median_of(compute, "tasks billed in full"),
        "sampled": any(row["median_of"] < row["priced"] for row in (*model, *compute)),
    }


def _median_of(rows: list[dict[str, Any]], those: str) -> str:
    if all(row["median_of"] == row["priced"] for row in rows):
        return f"of the {those}"
    if not any(row["median_of"] for row in rows):
        return f"none of the newest is among the {those}"
    if len(rows) == 1:
        return f"of the newest {formats.number(rows[0]['median_of'])} {those}"
    counts = (f"{formats.number(row['median_of'])} in {row['currency']}" for row in rows)
    return f"of the newest {those}: {', '.join(counts)}"


@blueprint.get("/costs")
def page() -> str:
    """Costs under the filter, in all and by one of day, customer, agent, status."""
    chosen = _filter()
    by = _dimensions("day")[:1]
    asked = _fetch()
    groups = _grouped(_report(chosen, by, asked))
    totals = _grouped(_report(chosen, [], asked))
    return render_template(
        "cost.html",
        chosen=chosen,
        agents=views.agents(),
        by=by[0] if by else "day",
        dimensions=DIMENSIONS,
        total=totals[0] if totals else None,
        medians=_medians(totals[0] if totals else None),
        groups=groups[:ROWS_SHOWN],
        left_out=max(0, len(groups) - ROWS_SHOWN),
        endpoints=_endpoints(chosen)[:ROWS_SHOWN],
        fetch=asked,
        now=views.clock()["now"],
        warehouse=_billing().warehouse,
        may_operate=views.may_operate(),
        address=_address,
    )


def _address(endpoint: str, chosen: Filter, by: str | None = None) -> str:
    query = chosen.query()
    if by is not None:
        query += f"{'&' if query else '?'}by={by}"
    return url_for(endpoint) + query


def _billing() -> Billing:
    found: Billing = views.web().billing
    return found


@blueprint.post("/costs/compute")
def load() -> ResponseReturnValue:
    """Ask billing for the compute cost of what the filter shows; an operator's action."""
    chosen = _filter()
    guard.check_token()
    _billing().start(guard.person(), **chosen.parameters())
    return _back(chosen)


@blueprint.post("/costs/compute/cancel")
def cancel() -> ResponseReturnValue:
    """Stop asking."""
    chosen = _filter()
    guard.check_token()
    _billing().cancel(parse_key(request.form.get("fetch")) or 0, guard.person())
    return _back(chosen)


def _back(chosen: Filter) -> ResponseReturnValue:
    if request.accept_mimetypes.best == "application/json":
        return jsonify(views.jsonable(_fetch())), 202
    by = request.args.get("by")
    return redirect(_address("costs.page", chosen, by if by in DIMENSIONS else None), 303)


@blueprint.get("/costs.csv")
def as_csv() -> Response:
    """Every group apart, as a spreadsheet reads it."""
    chosen = _filter()
    response = Response(
        export.rows_csv(_report(chosen, _dimensions(",".join(DIMENSIONS)), _fetch())),
        content_type="text/csv; charset=utf-8",
    )
    response.headers["Content-Disposition"] = "attachment; filename=costs.csv"
    return response


@blueprint.get("/api/costs")
def as_json() -> Response:
    """The page's numbers, and what is told apart as `by` says; money in the row's currency."""
    chosen = _filter()
    asked = _fetch()
    return jsonify(
        views.jsonable(
            {
                "from": chosen.from_day,
                "to": chosen.to_day,
                "time_zone": views.clock()["time_zone"],
                "totals": _report(chosen, [], asked),
                "groups": _report(chosen, _dimensions(",".join(DIMENSIONS)), asked),
                "endpoints": _endpoints(chosen),
                "fetch": asked,
            }
        )
    )


@blueprint.get("/api/costs/fetch")
def fetch() -> Response:
    """How the newest question to billing is getting on."""
    return jsonify(views.jsonable(_fetch()))
