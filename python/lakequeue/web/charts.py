"""Charts as SVG, made here: shapes only, coloured by the style sheet; words stand beside them.

The picture stretches to its place, so it holds no text; the scale and what each step holds are
written by the template, and every step has a title to point at.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from markupsafe import Markup

from lakequeue.web import formats

WIDTH = 1000
HEIGHT = 100
GAP = 0.18


@dataclass(frozen=True)
class Chart:
    """A picture and the words around it."""

    svg: Markup
    most: str
    """The upper end of the scale, with its unit."""
    marks: list[str]
    """Along the time axis, evenly spread."""


def _top(values: Sequence[float]) -> float:
    """A round number not below any of them."""
    most = max(values, default=0)
    if most <= 0:
        return 1
    unit = 10.0 ** math.floor(math.log10(most))
    return next(unit * step for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if unit * step >= most)


def _frame(parts: Sequence[Markup], label: str) -> Markup:
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img"'
        ' aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, label, Markup("").join(parts))


def _titles(titles: Sequence[str]) -> list[Markup]:
    step = WIDTH / max(1, len(titles))
    return [
        Markup(
            '<rect class="over" x="{:.2f}" width="{:.2f}" height="{}"><title>{}</title></rect>'
        ).format(number * step, step, HEIGHT, title)
        for number, title in enumerate(titles)
    ]


def bars(
    rows: Sequence[dict[str, Any]],
    names: Sequence[str],
    titles: Sequence[str],
    marks: list[str],
    label: str,
) -> Chart:
    """Stacked bars, one a row; what is unknown has no bar."""
    top = _top([sum(row[name] or 0 for name in names) for row in rows])
    step = WIDTH / max(1, len(rows))
    parts = []
    for number, row in enumerate(rows):
        y = float(HEIGHT)
        for name in names:
            height = HEIGHT * (row[name] or 0) / top
            if height <= 0:
                continue
            y -= height
            parts.append(
                Markup(
                    '<rect class="{}" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}"/>'
                ).format(name, (number + GAP / 2) * step, y, (1 - GAP) * step, height)
            )
    return Chart(_frame([*parts, *_titles(titles)], label), formats.number(round(top)), marks)


def lines(
    rows: Sequence[dict[str, Any]],
    names: Sequence[str],
    titles: Sequence[str],
    marks: list[str],
    label: str,
    *,
    write: Callable[[float], str],
) -> Chart:
    """Lines through the middles of the steps, with a gap where a value is unknown."""
    values = {name: [_amount(row[name]) for row in rows] for name in names}
    top = _top([value for each in values.values() for value in each if value is not None])
    step = WIDTH / max(1, len(rows))
    parts = []
    for name in names:
        for run in _runs(values[name]):
            points = [
                ((place + 0.5) * step, HEIGHT - HEIGHT * 0.97 * value / top) for place, value in run
            ]
            if len(points) == 1:  # a point alone is a short dash
                (x, y) = points[0]
                points = [(x - step / 4, y), (x + step / 4, y)]
            text = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
            parts.append(Markup('<polyline class="{}" points="{}"/>').format(name, text))
    return Chart(_frame([*parts, *_titles(titles)], label), write(top), marks)


def _amount(value: Any) -> float | None:
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    return None if value is None else float(value)


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """The stretches of known values, each with its places."""
    found: list[list[tuple[int, float]]] = []
    open_run = False
    for place, value in enumerate(values):
        if value is None:
            open_run = False
            continue
        if not open_run:
            found.append([])
            open_run = True
        found[-1].append((place, value))
    return found


def is_hourly(at: datetime.datetime, until: datetime.datetime) -> bool:
    """Whether a step is an hour, else a day."""
    return until - at <= datetime.timedelta(hours=2)


def step_label(at: datetime.datetime, until: datetime.datetime, zone: ZoneInfo) -> str:
    """An hour or a day in words."""
    local, end = at.astimezone(zone), until.astimezone(zone)
    if not is_hourly(at, until):
        return formats.day(local)
    return f"{local.day} {local:%b %H:%M} to {end:%H:%M}"


def time_marks(rows: Sequence[dict[str, Any]], zone: ZoneInfo) -> list[str]:
    """The beginning, the middle and the end of the time axis."""
    if not rows:
        return []
    hourly = is_hourly(rows[0]["at"], rows[0]["until"])
    one_day = hourly and rows[-1]["at"] - rows[0]["at"] < datetime.timedelta(hours=25)

    def mark(at: datetime.datetime) -> str:
        local = at.astimezone(zone)
        if one_day:
            return f"{local:%H:%M}"
        return f"{local.day} {local:%b %H:%M}" if hourly else f"{local.day} {local:%b}"

    # As many as there are steps to tell apart.
    places = dict.fromkeys((0, len(rows) // 2, len(rows) - 1))
    return [mark(rows[place]["at"]) for place in places]
