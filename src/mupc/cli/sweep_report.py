"""Report a sweep: its summary, the cells done so far, a table and a figure."""

import collections
import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from .. import plots
from ..io import counted
from ..io.progress import ProgressDisplay
from ..sweep import AT_EDGE, CellRecord, CellSettings, Sweep, SweepPlan, at_edge
from .display import plain_table
from .run_folder import RunFolder
from .runner import Session
from .sweep_words import OBJECTIVES, RATES, SCORES

Summary = dict[str, Any]
ROWS = 20
"""Rows of the table that are shown."""


def summarise_sweep(sweep: Sweep) -> Summary:
    """Return the content of sweep.json: settings, counts, the rows of the table (means over seeds, best first), the
    best row and every cell."""
    plan, cells = sweep.plan, sweep.records()
    found, rows = _count(cells), _rows(cells)
    return {
        "name": sweep.name,
        "settings": dataclasses.asdict(plan),
        "objective": plan.objective,
        "counts": {"cells": plan.size, **{name: found[name] for name in ("complete", "failed", "diverged")}},
        "complete": found["complete"] + found["failed"] == plan.size,
        "best": rows[0] if rows and rows[0]["value"] is not None else None,
        "rows": rows,
        "cells": cells,
    }


def _count(cells: Sequence[CellRecord]) -> collections.Counter[str]:
    diverged = sum(bool(cell["results"].get("diverged")) for cell in cells)
    return collections.Counter([cell["state"] for cell in cells]) + collections.Counter(diverged=diverged)


def _rows(cells: Sequence[CellRecord]) -> list[Summary]:
    """Return one row for cells that differ only in the seed. A row with a cell that diverged, failed or is not finished
    does not have a value."""
    families: dict[tuple[Any, ...], list[CellRecord]] = {}
    for cell in cells:
        families.setdefault(tuple(item for item in cell["settings"].items() if item[0] != "seed"), []).append(cell)
    rows: list[Summary] = [
        {"settings": dict(settings), "value": _mean([cell["value"] for cell in family])}
        | {name: _mean([cell["results"].get(name) for cell in family]) for name in SCORES}
        | {"cells": len(family), "note": _note(family), "config": family[0]["config"]}
        for settings, family in families.items()
    ]
    return sorted(rows, key=lambda row: (row["value"] is None, row["value"] or 0.0))


def _mean(values: Sequence[Any]) -> float | None:
    return None if None in values else statistics.fmean(values)


def _note(family: Sequence[CellRecord]) -> str:
    found = _count(family)
    counts = {name: found[name] for name in ("diverged", "failed")}
    counts["not finished"] = found["running"] + found["waiting"]
    of = f" {{}} of {len(family)}" if len(family) > 1 else ""
    return ", ".join(name + of.format(count) for name, count in counts.items() if count)


def show_sweep(plan: SweepPlan, summary: Summary, session: Session) -> None:
    """Show the table, best first, and where everything is."""
    names = [axis.name for axis in plan.axes if axis.name != "seed"] or ["seed"]
    known = {name: score for name, score in SCORES.items() if any(row[name] is not None for row in summary["rows"])}
    table = plain_table(*names, OBJECTIVES[plan.objective], *(title for title, _ in known.values()), "", left=("",))
    for row in summary["rows"][:ROWS]:
        value = "–" if row["value"] is None else f"{row['value']:.5g}"
        settings = (_written(row["settings"].get(name, "any")) for name in names)
        scores = ("–" if row[name] is None else written(row[name]) for name, (_, written) in known.items())
        table.add_row(*settings, value, *scores, row["note"])
    session.console.print(table)
    for line in _conclusions(plan, summary):
        session.say(line)


def _conclusions(plan: SweepPlan, summary: Summary) -> list[str]:
    counts, rows, best = summary["counts"], summary["rows"], summary["best"]
    seeds = max((row["cells"] for row in rows), default=1)
    parts = [f"{counts['complete']} of {counted(counts['cells'], 'cell')}"]
    parts += [f"{counts[name]} {name}" for name in ("diverged", "failed") if counts[name]]
    parts += [f"means over {seeds} seeds"] if seeds > 1 else []
    parts += [f"best {ROWS} of {len(rows)} rows shown"] if len(rows) > ROWS else []
    lines = [", ".join(parts)]
    if best is not None:
        lines.append(f"lowest {OBJECTIVES[plan.objective]} {best['value']:.5g}: {_describe(best['settings'])}")
        rates = [axis for axis in plan.axes if axis.name in RATES and axis.numbers]
        if any(at_edge(best["settings"][axis.name], axis.numbers) for axis in rates):
            lines.append(AT_EDGE)
    if summary["out"] is not None:
        hint = f"; train it with: mupc train --config {summary['out']}/best.json" if best else ""
        lines.append(f"sweep folder {summary['out']}{hint}")
    return lines


def draw_sweep(plan: SweepPlan, summary: Summary, folder: RunFolder, loss: str) -> None:
    """Draw contours over both learning rates (for a sampler: over its first two numbers) at the best of all other
    settings. Otherwise draw lines over one number, and nothing if no number varies. Name
    the `loss`, unless it varies."""
    names = [axis.name for axis in plan.axes if axis.name != "seed" and len(set(axis.numbers)) > 1]
    cells = [cell for cell in summary["cells"] if cell["state"] == "complete"]
    value = OBJECTIVES[plan.objective] + f" ({plots.LOSSES[loss]})" * ("loss" in plan.config)
    pair = RATES if set(RATES) <= set(names) else tuple(names[:2]) if plan.sampler else ()
    if len(pair) == 2:
        best = summary["best"]["settings"]
        fixed = {} if plan.sampler else {name: best[name] for name in best if name not in pair}
        cells = [cell for cell in cells if fixed.items() <= cell["settings"].items()]
        title = _describe(fixed) if fixed else ""
        plots.draw_sweep_contour(cells, folder.figure("contour"), *pair, value=value, title=title)
    elif names:
        x = next((name for name in RATES if name in names), names[0])
        plots.draw_sweep_lines(cells, folder.figure("lines"), x, value=value)


def _describe(settings: CellSettings) -> str:
    """Return settings in words. A row in which only the seed varied does not have any."""
    return ", ".join(f"{name} {_written(value)}" for name, value in settings.items()) or "the mean over seeds"


def _written(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class SweepProgress:
    """Show how far a sweep is, here and at other workers. Call `update` within the context `display`."""

    def __init__(self, session: Session, sweep: Sweep) -> None:
        varied = ", ".join(axis.name for axis in sweep.plan.axes)
        session.say(f"{counted(sweep.plan.size, 'cell')} over {varied}; lowest {OBJECTIVES[sweep.plan.objective]} wins")
        self.display, self._sweep, self._done = ProgressDisplay(session.console, "cell"), sweep, -1

    def update(self) -> None:
        """Show the cells done and the best so far, if there are more than before."""
        summary = summarise_sweep(self._sweep)
        counts, best = summary["counts"], summary["best"]
        done = counts["complete"] + counts["failed"]
        if done != self._done:
            self._done = done
            parts = [] if best is None else [f"best {best['value']:.4g} ({_describe(best['settings'])})"]
            self.display.update(done, counts["cells"], parts)
