"""A sweep as a section of a report."""

from collections.abc import Sequence
from typing import Any

from ..report import Block, Chart, ChartGrid, Fact, Facts, PageSection, PlainTable, Series
from .parsing import flag
from .report_runs import is_number
from .report_words import ABSENT, written_number, written_setting, written_time
from .sweep_words import OBJECTIVES, RATES, SCORES

MOST_ROWS, MOST_LINES = 50, 8
WIDE = 10
"""From this ratio of the largest to the smallest value of a setting on, its axis is logarithmic."""
Record = dict[str, Any]


def sweep_section(name: str, sweep: Record) -> PageSection:
    """Return the section on a sweep, from its sweep.json."""
    rows = [row for row in sweep["rows"] if isinstance(row, dict) and isinstance(row.get("settings"), dict)]
    objective = OBJECTIVES.get(str(sweep.get("objective")), "objective")
    counts = found if isinstance(found := sweep.get("counts"), dict) else {}
    best = rows[0] if rows and is_number(rows[0].get("value")) else None
    took = written_time(sweep.get("seconds"))
    facts = (
        Fact("Cells", f"{counts.get('complete', ABSENT)} of {counts.get('cells', ABSENT)}", _troubles(counts)),
        Fact(f"Lowest {objective}", written_number(best["value"]) if best else ABSENT, _described(best)),
        Fact("Time", took or ABSENT, "of the worker that ended last" if took else ""),
        Fact("Device", str(sweep.get("device", ABSENT))),
    )
    blocks: list[Block] = [Facts(facts)]
    blocks += [ChartGrid((chart,)) for chart in [_chart(rows, objective)] if chart is not None]
    return PageSection(f"Sweep {name}", (*blocks, _table(rows, objective), _common(sweep)))


def describe_sweep(sweep: Record) -> str:
    """Return in a line what a sweep varies."""
    axes = _plan(sweep).get("axes")
    names = [axis.get("name") for axis in axes if isinstance(axis, dict)] if isinstance(axes, list) else []
    return f"A sweep over {', '.join(flag(str(name)) for name in names) or 'settings'}"


def _plan(sweep: Record) -> Record:
    return found if isinstance(found := sweep.get("settings"), dict) else {}


def _common(sweep: Record) -> PlainTable:
    """Return the settings that all cells share, and how the sweep was made."""
    plan = _plan(sweep)
    config = found if isinstance(found := plan.get("config"), dict) else {}
    versions = found if isinstance(found := sweep.get("versions"), dict) else {}
    settings = {f"`{flag(name)}`": value for name, value in config.items() if value is not None}
    made = {"device": sweep.get("device"), **{f"{name} version": version for name, version in versions.items()}}
    rows = tuple((name, written_setting(value)) for name, value in (settings | made).items())
    return PlainTable("Settings that all cells share, and how they were computed.", ("setting", "value"), rows)


def _troubles(counts: Record) -> str:
    return ", ".join(f"{counts[name]} {name}" for name in ("failed", "diverged") if counts.get(name))


def _described(row: Record | None) -> str:
    return ", ".join(f"{flag(name)} {written_setting(value)}" for name, value in row["settings"].items()) if row else ""


def _table(rows: Sequence[Record], objective: str) -> PlainTable:
    names = list(dict.fromkeys(name for row in rows for name in row["settings"]))
    scores = [name for name in SCORES if any(is_number(row.get(name)) for row in rows)]
    cells = []
    for row in rows[:MOST_ROWS]:
        value = written_number(row["value"], 5) if is_number(row.get("value")) else str(row.get("note") or ABSENT)
        found = (SCORES[name][1](row[name]) if is_number(row.get(name)) else ABSENT for name in scores)
        settings = (written_setting(row["settings"].get(name)) for name in names)
        cells.append((*settings, str(row.get("cells", ABSENT)), value, *found))
    head = (*(f"`{flag(name)}`" for name in names), "cells", objective, *(SCORES[name][0] for name in scores))
    left = f", {len(cells)} of {len(rows)}" if len(rows) > len(cells) else ""
    return PlainTable(f"Settings, the best first{left}; means over seeds.", head, tuple(cells), 1)


def _chart(rows: Sequence[Record], objective: str) -> Chart | None:
    """Return the objective over a number that varies, a line for each combination of the others."""
    values = {name: {row["settings"].get(name) for row in rows} for row in rows for name in row["settings"]}
    varied = [name for name, found in values.items() if len(found) > 1 and all(map(is_number, found))]
    if not varied:
        return None
    over = next((name for name in RATES if name in varied), varied[0])
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        others = {name: value for name, value in row["settings"].items() if name != over}
        if is_number(row.get("value")):
            lines.setdefault(_described({"settings": others}) or objective, []).append(
                (row["settings"][over], row["value"])
            )
    series = tuple(
        Series(name, [x for x, _ in sorted(points)], [y for _, y in sorted(points)], colour=i, dash=i // MOST_LINES % 3)
        for i, (name, points) in enumerate(lines.items())
    )
    title = f"{objective.capitalize()} over {flag(over)}"
    xs = [x for line in series for x in line.x]
    return Chart(title, flag(over), objective, series, log_x=min(xs) > 0 and max(xs) > WIDE * min(xs)) if xs else None
