"""Losses over the two learning rates, of small and of large networks, with the optimum of each."""

import math
import statistics
from collections.abc import Mapping, Sequence

from . import style
from .style import Array, Axes, Colour, Number, Options, PathLike, Record

GRID_PANEL = (2.3, 2.7)
"""Width and height of one of many panels, in inches."""
CURVE_PANEL = (2.7, 2.7)
"""Width and height of a panel of curves, in inches."""
CLIPPED = 12
"""Losses above the least one by this factor are not shown."""
LEAST_SIZE = (5.0, 4.2)
"""Width and height of a panel, in inches, below which its title and labels would not fit."""


def draw_transfer(panels: Sequence[Record], path: PathLike) -> None:
    """Draw a heat map for each panel into a PNG file, all over the same rates, with the values written in. Cells that
    diverged have a cross, those that were not tried are blank.

    **Arguments:** for each panel its `title`, its `cells` with `weight_lr`, `activity_lr` (None for a solver without a
    rate) and the value under the key `loss` (not finite, or None, for a divergence), and `marks`, a list of (text,
    (weight_lr, activity_lr)): the first is drawn as a box with full lines, the second with dashed ones. And the file.

    **Example:**

    ```python
    from mupc.plots import draw_transfer

    cells = [{"weight_lr": a, "activity_lr": b, "loss": a / b} for a in (0.1, 0.2) for b in (0.3, 0.6)]
    panel = {"title": "8 hidden layers of 32", "cells": cells, "marks": [("lowest", (0.1, 0.6))]}
    draw_transfer([panel], "transfer.png")
    ```
    """
    every = [cell for panel in panels for cell in panel["cells"]]
    columns, rows = (sorted({cell[name] for cell in every}) for name in ("weight_lr", "activity_lr"))
    width, height = max(LEAST_SIZE[0], 1.6 + 0.6 * len(columns)), max(LEAST_SIZE[1], 1.9 + 0.45 * len(rows))
    with style.saved_panels(path, 1, len(panels), size=(len(panels) * width, height)) as (_, axes):
        for panel, content in zip(axes[0], panels, strict=True):
            _plot_losses(panel, content["cells"], columns, rows)
            _plot_marks(panel, content["marks"], columns, rows)
            panel.set_title(content["title"])


def _plot_losses(panel: Axes, cells: Sequence[Record], columns: list[Number], rows: list[Number | None]) -> None:
    import numpy as np
    from matplotlib.colors import LogNorm
    from matplotlib.patheffects import withStroke

    outline = [withStroke(linewidth=2, foreground="white")]  # black letters are readable on any colour
    losses = np.full((len(rows), len(columns)), np.nan)
    for cell in cells:
        column, row, loss = columns.index(cell["weight_lr"]), rows.index(cell["activity_lr"]), cell["loss"]
        finite = loss is not None and math.isfinite(loss)
        losses[row, column] = loss if finite else np.nan
        text = "×" if not finite else f"{loss:.3f}" if loss < 100 else f"{loss:.0e}"
        panel.text(column, row, text, ha="center", va="center", fontsize=8, path_effects=outline)
    known = np.isfinite(losses).sum()
    if known:
        low, high = np.nanmin(losses), np.nanmax(losses)
        panel.imshow(losses, norm=LogNorm(low, max(high, 1.001 * low)), cmap="viridis_r", aspect="auto")
    style.name_cells(panel, columns, [row for row in rows if row is not None])
    notes = ", × diverged" * bool(known < len(cells)) + ", blank not tried" * (len(cells) < losses.size)
    panel.set(
        xlabel=f"weight learning rate η{notes}", ylabel="" if rows == [None] else "activity learning rate, per sample"
    )
    panel.set(xlim=(-0.5, len(columns) - 0.5), ylim=(-0.5, len(rows) - 0.5))


def _plot_marks(
    panel: Axes,
    marks: Sequence[tuple[str, tuple[Number, Number | None]]],
    columns: list[Number],
    rows: list[Number | None],
) -> None:
    from matplotlib.patches import Rectangle

    for dashes, (text, (weight_lr, activity_lr)) in zip(("-", "--"), marks, strict=False):
        corner = columns.index(weight_lr) - 0.5, rows.index(activity_lr) - 0.5
        box = Rectangle(corner, 1, 1, fill=False, ec=style.RED, lw=2.5, ls=dashes, label=text, zorder=3)
        box.set_clip_on(False)
        panel.add_patch(box)
    style.legend_under(panel, ncols=2, fontsize=9, handlelength=1.5)


def draw_transfer_grids(record: Record, path: PathLike, ladders: Mapping[str, Sequence[tuple[int, int]]]) -> None:
    """Draw training losses over both learning rates, a row for each ladder of networks (width, depth), smallest first.
    A star marks the optimum of each network, a circle that of the smallest."""
    import numpy as np

    config = record["config"]
    etas, betas = sorted(config["etas"]), sorted(config["betas"])
    grids = {size: _losses(record, size, etas, betas) for ladder in ladders.values() for size in ladder}
    finite = [value for grid in grids.values() for value in grid[np.isfinite(grid)]]
    low, high = (min(finite), max(finite)) if finite else (0.1, 1.0)
    columns = max(len(ladder) for ladder in ladders.values())
    size = GRID_PANEL[0] * columns + 1, GRID_PANEL[1] * len(ladders)
    options: Options = {"size": size, "sharex": True, "sharey": True}
    labels = {"xlabel": r"activity rate $\beta$", "ylabel": r"weight rate $\eta$"}
    with style.saved_panels(path, len(ladders), columns, record, **options | labels) as (figure, axes):
        for panels, ladder in zip(axes, ladders.values(), strict=True):
            start = _lowest(grids[ladder[0]])
            for panel, (width, depth) in zip(panels, ladder, strict=False):
                grid = grids[width, depth]
                image = style.heat_map(panel, grid, betas, etas, (low, max(high, 1.01 * low)), dark_high=True)
                panel.plot(*start, "o", ms=11, mfc="none", mec=style.RED, mew=2)
                panel.plot(*_lowest(grid), "*", ms=9, color=style.RED)
                panel.set_title(f"N = {width}, H = {depth}", fontsize=10)
        for panel in axes[-1]:
            panel.tick_params(axis="x", labelrotation=90, labelsize=8)
        figure.colorbar(image, ax=axes, fraction=0.02, pad=0.01, label="lowest training loss")


def draw_scaled_transfer(
    record: Record, path: PathLike, titles: Sequence[str], panels: Sequence[Mapping[str, Mapping[float, float]]]
) -> None:
    """Draw the loss over the weight rate, a curve for each network by its name, smallest first, in rows of as many
    panels as there are titles. A star marks the optimum of each network, a dashed line that of the smallest."""
    columns = len(titles)
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    options: Options = {"xlabel": r"weight rate $\eta$", "ylabel": "training loss at the end", "sharey": True}
    size = CURVE_PANEL[0] * columns + 1, CURVE_PANEL[1] * len(rows)
    with style.saved_panels(path, len(rows), columns, record, size=size, **options) as (_, axes):
        for row, contents in zip(axes, rows, strict=True):
            colours = dict(style.ramped(list(dict.fromkeys(name for content in contents for name in content))))
            for panel, content in zip(row, contents, strict=True):
                for name, curve in content.items():
                    _plot_curve(panel, curve, colours[name])
                for curve in list(content.values())[:1]:
                    panel.axvline(min(curve, key=curve.__getitem__), ls="--", lw=1.2, color=style.RED, zorder=1)
                style.log_ticks(panel, "x")
                panel.tick_params(axis="x", labelsize=8)
            for name, colour in colours.items():
                row[-1].plot([], [], color=colour, label=name)
            if colours:
                row[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=9, handlelength=1.2)
        for panel, title in zip(axes[0], titles, strict=True):
            panel.set_title(title, fontsize=10)
        lowest = [min(curve.values()) for content in panels for curve in content.values()]
        if lowest and math.isfinite(min(lowest)):
            axes[0, 0].set_ylim(0.8 * min(lowest), CLIPPED * min(lowest))
            style.log_ticks(axes[0, 0])


def _plot_curve(panel: Axes, curve: Mapping[float, float], colour: Colour) -> None:
    """Plot the finite losses, and a star at the least."""
    known = {eta: loss for eta, loss in sorted(curve.items()) if math.isfinite(loss)}
    style.plot_points(panel, known, lw=1.5, color=colour)
    if known:
        best = min(known, key=known.__getitem__)
        panel.plot(best, known[best], "*", ms=10, mec="white", mew=0.5, zorder=3, color=colour)


def _losses(record: Record, size: tuple[int, int], etas: list[float], betas: list[float]) -> Array:
    """Return the mean over seeds (η, β); NaN where a run diverged or is missing."""
    import numpy as np

    found: dict[tuple[float, float], list[float]] = {}
    for row in style.select(record["data"], width=size[0], depth=size[1]):
        loss = None if row["diverged"] else row["lowest_train_loss"]
        found.setdefault((row["eta"], row["beta"]), []).append(float("nan") if loss is None else loss)
    return np.array([[statistics.fmean(found.get((eta, beta), [float("nan")])) for beta in betas] for eta in etas])


def _lowest(grid: Array) -> tuple[list[int], list[int]]:
    """Return the column and the row of the lowest value, as lists to plot; empty ones if there is none."""
    import numpy as np

    if not np.any(np.isfinite(grid)):
        return [], []
    row, column = np.unravel_index(np.nanargmin(grid), grid.shape)
    return [int(column)], [int(row)]
