"""Losses over the two learning rates, of a small and of a large network, with the optimum of each."""

import math
from collections.abc import Sequence

from . import style
from .style import Axes, Number, PathLike, Record

LEAST_SIZE = (5.0, 4.2)
"""Width and height of a panel, in inches, below which its title and labels would not fit."""


def draw_transfer(panels: Sequence[Record], path: PathLike) -> None:
    """Draw a heat map for each panel into a PNG file, all over the same rates, with the values written in. Cells that
    diverged have a cross, those that were not tried are blank.

    **Arguments:** for each panel its `title`, its `cells` with `weight_lr`, `activity_lr` and the value under the key
    `loss` (not finite, or None, for a divergence), and `marks`, a list of (text, (weight_lr, activity_lr)): the first
    is drawn as a box with full lines, the second with dashed ones. And the file.

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


def _plot_losses(panel: Axes, cells: Sequence[Record], columns: list[Number], rows: list[Number]) -> None:
    import numpy as np
    from matplotlib.colors import LogNorm
    from matplotlib.patheffects import withStroke

    outline = [withStroke(linewidth=2, foreground="white")]  # black letters are readable on any colour
    losses = np.full((len(rows), len(columns)), np.nan)
    diverged = 0
    for cell in cells:
        column, row = columns.index(cell["weight_lr"]), rows.index(cell["activity_lr"])
        loss = cell["loss"]
        if loss is not None and math.isfinite(loss):
            losses[row, column] = loss
            text = f"{loss:.3f}" if loss < 100 else f"{loss:.0e}"
        else:
            diverged += 1
            text = "×"
        panel.text(column, row, text, ha="center", va="center", fontsize=8, path_effects=outline)
    if np.isfinite(losses).any():
        low, high = np.nanmin(losses), np.nanmax(losses)
        panel.imshow(losses, norm=LogNorm(low, max(high, 1.001 * low)), cmap="viridis_r", aspect="auto")
    style.name_cells(panel, columns, rows)
    notes = ", × diverged" * bool(diverged) + ", blank not tried" * (len(cells) < losses.size)
    panel.set(xlabel=f"weight learning rate η{notes}", ylabel="activity learning rate, per sample")
    panel.set(xlim=(-0.5, len(columns) - 0.5), ylim=(-0.5, len(rows) - 0.5))


def _plot_marks(
    panel: Axes, marks: Sequence[tuple[str, tuple[Number, Number]]], columns: list[Number], rows: list[Number]
) -> None:
    from matplotlib.patches import Rectangle

    for dashes, (text, (weight_lr, activity_lr)) in zip(("-", "--"), marks, strict=False):
        corner = columns.index(weight_lr) - 0.5, rows.index(activity_lr) - 0.5
        box = Rectangle(corner, 1, 1, fill=False, ec=style.RED, lw=2.5, ls=dashes, label=text, zorder=3)
        box.set_clip_on(False)
        panel.add_patch(box)
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.24), ncols=2, fontsize=9, handlelength=1.5)
