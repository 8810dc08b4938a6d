"""A sweep: a contour figure over two numbers with the optimum marked, or lines over one."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import style
from .style import Axes, Number, PathLike, Record, ScalarMappable

Point = tuple[Number, ...]

LABELS = {
    "weight_lr": "weight learning rate η",
    "activity_lr": "activity learning rate (β / 64)",
    "output_precision": "output precision λ",
    "width": "width N",
    "hidden_layers": "hidden layers H",
}
LEVELS = 14
"""The number of contours."""
MOST_LINES = 8
MOST_TICKS = 16
"""Up to this many values, an axis has a tick at each of them; with more than half as many, every other is named."""
WIDE = 10.0
"""If the largest value is this many times the smallest, the axis or the colours are logarithmic."""
STAR = "#CC0000"


def draw_sweep_contour(
    cells: Sequence[Record],
    path: PathLike,
    x: str = "weight_lr",
    y: str = "activity_lr",
    value: str = "training loss",
    title: str = "",
) -> None:
    """Draw the mean over seeds as filled contours over two numeric settings, and mark the lowest. Diverged cells are
    crosses. Cells may lie on a grid or anywhere.

    **Arguments:** cells `{"settings": {name: number}, "value": number or None}`, the PNG file, the settings on the
    axes, what the value is, and a title.

    **Example:**

    ```python
    from mupc.plots import draw_sweep_contour

    rates = (0.01, 0.1, 1.0)
    cells = [{"settings": {"weight_lr": a, "activity_lr": b}, "value": a + 1 / b} for a in rates for b in rates]
    draw_sweep_contour(cells, "contour.png")
    ```
    """
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator

    found = seed_means(cells, (x, y))
    finite = {point: mean for point, mean in found.items() if mean is not None}
    columns = [sorted({point[place] for point in found}) for place in (0, 1)]
    with style.saved_panels(path, size=(6.4, 4.6)) as (figure, ((panel,),)):
        for point in found.keys() - finite.keys():
            panel.plot(*point, "x", color=style.RED, markersize=8, markeredgewidth=2, zorder=4, clip_on=False)
        if finite:
            colours = _plot_contours(panel, finite, [_is_wide(values) for values in columns])
            ticks = None if isinstance(colours.norm, LogNorm) else MaxNLocator(6)  # None: those of the levels
            figure.colorbar(colours, ax=panel, label=_measured(value, cells), format="%.3g", ticks=ticks)
            best = min(finite, key=lambda point: finite[point])
            panel.plot(*best, "*", color=STAR, markeredgecolor="white", markersize=18, zorder=5, clip_on=False)
            where = f"best {finite[best]:.4g} at {x} {best[0]:.3g}, {y} {best[1]:.3g}"
            panel.set_title("\n".join(filter(None, (title, where))), fontsize=11)
        _number_axis(panel, "x", columns[0])
        _number_axis(panel, "y", columns[1])
        crosses = ", × diverged" if len(finite) < len(found) else ""
        panel.set(xlabel=setting_label(x) + crosses, ylabel=setting_label(y))
        panel.grid(False)


def draw_sweep_lines(
    cells: Sequence[Record], path: PathLike, x: str, value: str = "training loss", title: str = ""
) -> None:
    """Draw the mean over seeds over one numeric setting: a line for each combination of the other settings, a dot for
    each seed, a star for the lowest. Diverged cells have no dot.

    **Arguments:** as for `draw_sweep_contour`.

    **Example:**

    ```python
    from mupc.plots import draw_sweep_lines

    cells = [{"settings": {"weight_lr": a}, "value": 1 / a} for a in (0.01, 0.1, 1.0)]
    draw_sweep_lines(cells, "lines.png", "weight_lr")
    ```
    """
    families: dict[str, list[Record]] = {}
    for cell in cells:
        others = {name: at for name, at in cell["settings"].items() if name not in (x, "seed")}
        texts = [setting_label(name) + f" = {at:{'.3g' * isinstance(at, float)}}" for name, at in others.items()]
        families.setdefault(", ".join(texts), []).append(cell)
    with style.saved_panels(path, size=(6.8 if len(families) > 1 else 6.4, 4.2)) as (figure, ((panel,),)):
        for (name, family), colour in style.ramped(list(families.items())[:MOST_LINES]):
            seeds = [(cell["settings"][x], cell["value"]) for cell in family if cell["value"] is not None]
            panel.plot([at for at, _ in seeds], [mean for _, mean in seeds], ".", color=colour, alpha=0.4)
            line = {at: mean for (at,), mean in sorted(seed_means(family, (x,)).items()) if mean is not None}
            style.plot_points(panel, line, "o-", color=colour, label=name)
            if line:
                best = min(line, key=lambda at: line[at])
                panel.plot(best, line[best], "*", color=colour, markeredgecolor="black", markersize=15, zorder=5)
        _number_axis(panel, "x", sorted({cell["settings"][x] for cell in cells}))
        style.log_ticks(panel)
        more = f" ({MOST_LINES} of {len(families)} lines shown)" if len(families) > MOST_LINES else ""
        panel.set(xlabel=setting_label(x), ylabel=_measured(value, cells), title=(title or "★ lowest") + more)
        if len(families) > 1:
            style.legend_outside(figure, panel)


def setting_label(name: str) -> str:
    """Return a setting or result as people call it."""
    return LABELS.get(name, name.replace("_", " "))


def seed_means(cells: Iterable[Record], names: Sequence[str]) -> dict[Point, Number | None]:
    """Return the mean value of the cells at each point, None where one of them diverged."""
    found: dict[Point, list[Any]] = {}
    for cell in cells:
        found.setdefault(tuple(cell["settings"][name] for name in names), []).append(cell["value"])
    return {point: None if None in values else statistics.fmean(values) for point, values in found.items()}


def _plot_contours(panel: Axes, finite: Mapping[Point, Number], logarithmic: Sequence[bool]) -> ScalarMappable:
    """Draw filled contours through the points, or coloured dots where the points do not span a plane."""
    import numpy as np
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.tri import Triangulation

    x, y = columns = [np.array(column, float) for column in zip(*finite, strict=True)]
    z = np.array(list(finite.values()))
    low, high = z.min(), max(z.max(), z.min() * (1 + 1e-6) + 1e-12)
    log = low > 0 and high > WIDE * low
    norm = LogNorm(low, high) if log else Normalize(low, high)
    try:  # neighbours as the eye sees them
        flat = Triangulation(*(np.log(at) if log else at for at, log in zip(columns, logarithmic, strict=True)))
    except (RuntimeError, ValueError):
        return panel.scatter(x, y, c=z, norm=norm, cmap="viridis_r", s=120, zorder=3)
    levels = (np.geomspace if log else np.linspace)(low, high, LEVELS)
    filled = panel.tricontourf(Triangulation(x, y, flat.triangles), z, levels=levels, norm=norm, cmap="viridis_r")
    panel.scatter(x, y, c="white", edgecolors="black", linewidths=0.5, s=14, zorder=3, clip_on=False)
    return filled


def _measured(value: str, cells: Sequence[Record]) -> str:
    return f"{value}, mean over seeds" if any("seed" in cell["settings"] for cell in cells) else value


def _is_wide(values: Sequence[Number]) -> bool:
    return min(values) > 0 and max(values) >= WIDE * min(values)


def _number_axis(panel: Axes, which: str, values: Sequence[Number]) -> None:
    """Scale an axis for these sorted numbers, with the numbers themselves as ticks if they are few."""
    from matplotlib.ticker import NullLocator

    if _is_wide(values):
        style.log_ticks(panel, which)
    axis = getattr(panel, f"{which}axis")
    if len(values) <= MOST_TICKS:
        named = values if len(values) <= MOST_TICKS // 2 else values[::2]
        axis.set_ticks(values, [f"{value:.3g}" if value in named else "" for value in values])
    axis.set_minor_locator(NullLocator())
