"""What a sweep shows: cells done, best so far and time left, then a table and a figure."""

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Column, Table

from .. import plots
from ..io import counted
from ..sweep._cells import AT_EDGE, at_edge
from ..sweep._plan import Plan
from ..sweep._space import Settings
from ..sweep._study import Sweep
from .display import clock, percent, say

Summary = dict[str, Any]
ROWS = 20
RATES = ("weight_lr", "activity_lr")


def summarise(plan: Plan, name: str, cells: Sequence[Settings]) -> Summary:
    """The content of sweep.json: settings, counts, the rows of the table (means over seeds, best first), the best row
    and every cell."""
    states = [cell["state"] for cell in cells]
    counts = {
        "cells": plan.size,
        "complete": states.count("complete"),
        "failed": states.count("failed"),
        "diverged": sum(bool(cell["results"].get("diverged")) for cell in cells),
    }
    rows = _rows(cells)
    best = rows[0] if rows and rows[0]["value"] is not None else None
    return {
        "name": name,
        "settings": plan.record(),
        "objective": plan.objective,
        "counts": counts,
        "complete": counts["complete"] + counts["failed"] == plan.size,
        "best": best,
        "rows": rows,
        "cells": list(cells),
    }


def _rows(cells: Sequence[Settings]) -> list[Settings]:
    """Cells that differ in the seed alone as one row. A row with a cell that diverged, failed or is not finished has no
    value."""
    families: dict[tuple[Any, ...], list[Settings]] = {}
    for cell in cells:
        families.setdefault(tuple(item for item in cell["settings"].items() if item[0] != "seed"), []).append(cell)
    rows = [
        {
            "settings": dict(key),
            "value": _mean([cell["value"] for cell in family]),
            "test_accuracy": _mean([cell["results"].get("test_accuracy") for cell in family]),
            "validation_accuracy": _mean([cell["results"].get("validation_accuracy") for cell in family]),
            "cells": len(family),
            "note": _note(family),
            "config": family[0]["config"],
        }
        for key, family in families.items()
    ]
    return sorted(rows, key=lambda row: (row["value"] is None, row["value"] or 0.0))


def _mean(values: Sequence[int | float | None]) -> int | float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None


def _note(family: Sequence[Settings]) -> str:
    states = [cell["state"] for cell in family]
    counts = {
        "diverged": sum(bool(cell["results"].get("diverged")) for cell in family),
        "failed": states.count("failed"),
        "not finished": states.count("running") + states.count("waiting"),
    }
    of = f" {{}} of {len(family)}" if len(family) > 1 else ""
    return ", ".join(name + of.format(count) for name, count in counts.items() if count)


def describe(settings: Settings) -> str:
    """Settings in words; a row in which the seed alone varied has none."""
    return ", ".join(f"{name} {_written(value)}" for name, value in settings.items()) or "the mean over seeds"


def _written(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def objective(plan: Plan) -> str:
    """What is minimised, in words."""
    return "validation loss" if plan.objective == "validation_loss" else "training loss"


def show(plan: Plan, summary: Summary, console: Console) -> None:
    """The table, best first, and where everything is."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    names = [axis.name for axis in plan.axes if axis.name != "seed"] or ["seed"]
    validated = plan.objective == "validation_loss"
    accuracies = ["validation_accuracy"] * validated + ["test_accuracy"]
    for name in (*names, objective(plan), *(name.replace("_", " ") for name in accuracies)):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in summary["rows"][:ROWS]:
        value = "–" if row["value"] is None else f"{row['value']:.5g}"
        shown = (_written(row["settings"].get(name, "any")) for name in names)
        table.add_row(*shown, value, *(percent(row[name]) for name in accuracies), row["note"])
    console.print(table)
    seeds = max((row["cells"] for row in summary["rows"]), default=1)
    counts = summary["counts"]
    parts = [f"{counts['complete']} of {counted(counts['cells'], 'cell')}"]
    parts += [f"{counts[name]} {name}" for name in ("diverged", "failed") if counts[name]]
    parts += [f"means over {seeds} seeds"] if seeds > 1 else []
    parts += [f"best {ROWS} of {len(summary['rows'])} rows shown"] if len(summary["rows"]) > ROWS else []
    say(console, ", ".join(parts))
    if summary["best"] is not None:
        say(
            console, f"lowest {objective(plan)} {summary['best']['value']:.5g}: {describe(summary['best']['settings'])}"
        )
        rates = [axis for axis in plan.axes if axis.name in RATES and axis.numeric]
        if any(at_edge(summary["best"]["settings"][axis.name], axis.span) for axis in rates):
            say(console, AT_EDGE)
    if summary["out"] is not None:
        hint = f"; train it with: mupc train --config {summary['out']}/best.json" if summary["best"] else ""
        say(console, f"sweep folder {summary['out']}{hint}")


def draw(plan: Plan, summary: Summary, folder: Path) -> None:
    """Contours over both learning rates (for a sampler: over its first two numbers), at the best of all other settings;
    lines over one number otherwise, and nothing where no number varies."""
    axes = [axis for axis in plan.axes if axis.numeric and axis.name != "seed" and len(set(axis.span)) > 1]
    names = [axis.name for axis in axes]
    cells = [cell for cell in summary["cells"] if cell["state"] == "complete"]
    title, value = "", objective(plan)
    pair = RATES if set(RATES) <= set(names) else tuple(names[:2]) if plan.sampler else ()
    if len(pair) == 2:
        others = {k: v for k, v in summary["best"]["settings"].items() if k not in pair}
        fixed = {name: v for name, v in others.items() if not plan.sampler}
        chosen = [cell for cell in cells if all(cell["settings"][k] == v for k, v in fixed.items())]
        title = describe(fixed) if fixed else ""
        plots.draw_sweep_contour(chosen, folder / "contour.png", *pair, value=value, title=title)
    elif names:
        x = next((name for name in RATES if name in names), names[0])
        plots.draw_sweep_lines(cells, folder / "lines.png", x, value=value, title=title)


class Board:
    """A context in which `update()` shows how far a sweep is: a bar on a terminal, lines elsewhere."""

    def __init__(self, console: Console, sweep: Sweep) -> None:
        self.console, self.sweep, self.begin = console, sweep, time.monotonic()
        whole = Column(min_width=2 * len(str(sweep.plan.size)) + 1)  # or the text after it squeezes it
        columns = (SpinnerColumn(), BarColumn(bar_width=10), MofNCompleteColumn(table_column=whole))
        live = console.is_terminal and not console.quiet
        self.bar = Progress(*columns, TextColumn("{task.description}"), console=console) if live else None
        self.task = self.bar.add_task("", total=sweep.plan.size) if self.bar else None
        self.first: int | None = None
        self.last = -1

    def __enter__(self) -> "Board":
        varied = ", ".join(axis.name for axis in self.sweep.plan.axes)
        say(
            self.console,
            f"{counted(self.sweep.plan.size, 'cell')} over {varied}; lowest {objective(self.sweep.plan)} wins",
        )
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar:
            self.bar.stop()

    def update(self) -> None:
        """Shows the cells done, here and elsewhere, the best so far and the time left."""
        summary = summarise(self.sweep.plan, self.sweep.name, self.sweep.records())
        done, size = summary["counts"]["complete"] + summary["counts"]["failed"], self.sweep.plan.size
        self.first = done if self.first is None else self.first
        if done == self.last:
            return
        self.last = done
        parts = []
        if summary["best"] is not None:
            parts.append(f"best {summary['best']['value']:.4g} ({describe(summary['best']['settings'])})")
        if done > self.first:
            left = (time.monotonic() - self.begin) / (done - self.first) * (size - done)
            parts.append(f"{clock(left)} left")
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=done, description=" · ".join(parts))
        else:
            say(self.console, ", ".join((f"{done}/{counted(size, 'cell')}", *parts)))
