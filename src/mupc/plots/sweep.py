"""A sweep: a contour figure over two numbers with the optimum marked, or lines over one."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import style

Cell = Mapping[str, Any]
Number = int | float
Point = tuple[Number, ...]

LABELS = {
    "weight_lr": "weight learning rate η",
    "activity_lr": "activity learning rate (β / 64)",
    "output_precision": "output precision λ",
    "width": "width N",
    "hidden_layers": "hidden layers H",
}
LEVELS = 14
LINES = 8
WIDE = 10.0
"""Ratio of the largest to the smallest value from which an axis or the colours are logarithmic."""


def setting_label(name: str) -> str:
    """A setting or result as people call it."""
    return LABELS.get(name, name.replace("_", " "))


def draw_sweep_contour(
    cells: Sequence[Cell],
    path: str | Path,
    x: str = "weight_lr",
    y: str = "activity_lr",
    value: str = "training loss",
    title: str = "",
) -> None:
    """Draws the mean over seeds as filled contours over two numeric settings, and marks the lowest. Diverged cells are
    crosses. Cells may lie on a grid or anywhere.

    **Arguments:** cells `{"settings": {name: number}, "value": number or None}`, the PNG file, the settings on the
    axes, what the value is, and a title.

    **Example:**

    ```python
    from mupc.plots.sweep import draw_sweep_contour

    rates = (0.01, 0.1, 1.0)
    cells = [{"settings": {"weight_lr": a, "activity_lr": b}, "value": a + 1 / b} for a in rates for b in rates]
    draw_sweep_contour(cells, "contour.png")
    ```
    """
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator

    found = seed_means(cells, (x, y))
    good = {point: mean for point, mean in found.items() if mean is not None}
    with style.figure(width=6.4, height=4.6) as (figure, axes):
        for point, mean in found.items():
            if mean is None:
                axes.plot(*point, "x", color="#D55E00", markersize=8, markeredgewidth=2, zorder=4, clip_on=False)
        if good:
            colours = _colours(axes, good, _logarithmic(found, 0), _logarithmic(found, 1))
            ticks = None if isinstance(colours.norm, LogNorm) else MaxNLocator(6)  # or they are those of the levels
            figure.colorbar(colours, ax=axes, label=_measured(value, cells), format="%.3g", ticks=ticks)
            best = min(good, key=lambda point: good[point])
            axes.plot(*best, "*", color="#CC0000", markeredgecolor="white", markersize=18, zorder=5, clip_on=False)
            where = f"best {good[best]:.4g} at {x} {best[0]:.3g}, {y} {best[1]:.3g}"
            axes.set_title("\n".join(filter(None, (title, where))), fontsize=11)
        for place, (name, axis) in enumerate(((x, axes.xaxis), (y, axes.yaxis))):
            _numbers(axis, sorted({point[place] for point in found}), _logarithmic(found, place))
            axis.set_label_text(setting_label(name) + (", × diverged" if place == 0 and len(good) < len(found) else ""))
        axes.grid(False)
        style.save(figure, path)


def draw_sweep_lines(
    cells: Sequence[Cell],
    path: str | Path,
    x: str,
    value: str = "training loss",
    title: str = "",
) -> None:
    """Draws the mean over seeds over one numeric setting: a line for each combination of the other settings, a dot for
    each seed, a star for the lowest. Diverged cells have no dot.

    **Arguments:** as for `draw_sweep_contour`.

    **Example:**

    ```python
    from mupc.plots.sweep import draw_sweep_lines

    cells = [{"settings": {"weight_lr": a}, "value": 1 / a} for a in (0.01, 0.1, 1.0)]
    draw_sweep_lines(cells, "lines.png", "weight_lr")
    ```
    """
    families: dict[str, list[Cell]] = {}
    for cell in cells:
        families.setdefault(_name(cell, (x, "seed")), []).append(cell)
    with style.figure(width=6.8 if len(families) > 1 else 6.4, height=4.2) as (figure, axes):
        shown = dict(list(families.items())[:LINES])
        for colour, (name, family) in zip(style.ramp(len(shown)), shown.items(), strict=True):
            good = [cell for cell in family if cell["value"] is not None]
            axes.plot([c["settings"][x] for c in good], [c["value"] for c in good], ".", color=colour, alpha=0.4)
            line = {at: mean for (at,), mean in sorted(seed_means(family, (x,)).items()) if mean is not None}
            axes.plot(list(line), list(line.values()), "o-", color=colour, label=name)
            if line:
                best = min(line, key=lambda at: line[at])
                axes.plot(best, line[best], "*", color=colour, markeredgecolor="black", markersize=15, zorder=5)
        found = {(cell["settings"][x],): None for cell in cells}
        _numbers(axes.xaxis, sorted(at for (at,) in found), _logarithmic(found, 0))
        style.log_ticks(axes)
        more = f" ({LINES} of {len(families)} lines shown)" if len(families) > LINES else ""
        axes.set(xlabel=setting_label(x), ylabel=_measured(value, cells), title=(title or "★ lowest") + more)
        if len(families) > 1:
            figure.legend(loc="outside right center")
        style.save(figure, path)


def seed_means(cells: Iterable[Cell], names: Sequence[str]) -> dict[Point, Number | None]:
    """The mean value of the cells at each point, None where one of them diverged."""
    found: dict[Point, list[Number | None]] = {}
    for cell in cells:
        found.setdefault(tuple(cell["settings"][name] for name in names), []).append(cell["value"])
    return {
        point: None if None in values else statistics.fmean(value for value in values if value is not None)
        for point, values in found.items()
    }


def _colours(axes: Any, good: Mapping[Point, Number], log_x: bool, log_y: bool) -> Any:
    """Filled contours through the points; coloured dots alone where points do not span a plane."""
    import numpy as np
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.tri import Triangulation

    x, y = (np.array(column, float) for column in zip(*good, strict=True))
    z = np.array(list(good.values()))
    low, high = z.min(), max(z.max(), z.min() * (1 + 1e-6) + 1e-12)
    log = low > 0 and high > WIDE * low
    norm = LogNorm(low, high) if log else Normalize(low, high)
    try:
        flat = Triangulation(np.log(x) if log_x else x, np.log(y) if log_y else y)  # neighbours as the eye sees them
    except (RuntimeError, ValueError):
        return axes.scatter(x, y, c=z, norm=norm, cmap="viridis_r", s=120, zorder=3)
    levels = (np.geomspace if log else np.linspace)(low, high, LEVELS)
    filled = axes.tricontourf(Triangulation(x, y, flat.triangles), z, levels=levels, norm=norm, cmap="viridis_r")
    axes.scatter(x, y, c="white", edgecolors="black", linewidths=0.5, s=14, zorder=3, clip_on=False)
    return filled


def _measured(value: str, cells: Sequence[Cell]) -> str:
    return f"{value}, mean over seeds" if any("seed" in cell["settings"] for cell in cells) else value


def _logarithmic(found: Iterable[Point], place: int) -> bool:
    values = [point[place] for point in found]
    return min(values) > 0 and max(values) >= WIDE * min(values)


def _numbers(axis: Any, values: Sequence[Number], log: bool) -> None:
    """A scale for numbers, with the numbers themselves as ticks if they are few."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator

    which = axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale
    which("log" if log else "linear")
    if len(values) <= 2 * LINES:
        shown = values if len(values) <= LINES else values[::2]
        axis.set_major_locator(FixedLocator(values))
        axis.set_major_formatter(FixedFormatter([f"{value:.3g}" if value in shown else "" for value in values]))
    elif log:
        short = max(values) < 1e3 * min(values)
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if short else (1,)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def _name(cell: Cell, without: Sequence[str]) -> str:
    rest = {name: value for name, value in cell["settings"].items() if name not in without}
    return ", ".join(f"{setting_label(name)} = {_short(value)}" for name, value in rest.items())


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) and math.isfinite(value) else str(value)
