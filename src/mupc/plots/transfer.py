"""Losses over the two learning rates, of a small and of a large network, with the optimum of each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import style

Cell = Mapping[str, Any]
LEAST = (5.0, 4.2)
"""Inches of a panel, below which its title and labels would not fit."""


def draw_transfer(panels: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draws a heat map for each panel into a PNG file, all over the same rates, with the values written in. Cells that
    diverged have a cross, those that were not tried are blank.

    **Arguments:** for each panel its `title`, its `cells` with `weight_lr`, `activity_lr` and the value under the key
    `loss` (not finite, or None, for a divergence), and `marks`, a list of (text, (weight_lr, activity_lr)): the first
    is drawn as a box with full lines, the second with dashed ones. And the file.

    **Example:**

    ```python
    from mupc.plots.transfer import draw_transfer

    cells = [{"weight_lr": a, "activity_lr": b, "loss": a / b} for a in (0.1, 0.2) for b in (0.3, 0.6)]
    panel = {"title": "8 hidden layers of 32", "cells": cells, "marks": [("lowest", (0.1, 0.6))]}
    draw_transfer([panel], "transfer.png")
    ```
    """
    import numpy as np
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    every = [cell for panel in panels for cell in panel["cells"]]
    columns, rows = (sorted({cell[name] for cell in every}) for name in ("weight_lr", "activity_lr"))
    width, height = max(LEAST[0], 1.6 + 0.6 * len(columns)), max(LEAST[1], 1.9 + 0.45 * len(rows))
    with style.figure(1, len(panels), width=len(panels) * width, height=height) as (figure, axes):
        for axis, panel in zip(np.atleast_1d(axes), panels, strict=True):
            losses = np.full((len(rows), len(columns)), np.nan)
            for cell in panel["cells"]:
                at = columns.index(cell["weight_lr"]), rows.index(cell["activity_lr"])
                value = np.nan if cell["loss"] is None else cell["loss"]
                losses[at[1], at[0]] = value if np.isfinite(value) else np.nan
                text = "×" if not np.isfinite(value) else f"{value:.3f}" if value < 100 else f"{value:.0e}"
                axis.text(*at, text, ha="center", va="center", fontsize=8, path_effects=_outline())
            if np.isfinite(losses).any():
                low, high = np.nanmin(losses), np.nanmax(losses)
                axis.imshow(losses, norm=LogNorm(low, max(high, 1.001 * low)), cmap="viridis_r", aspect="auto")
            for line, (text, (eta, lr)) in zip(("-", "--"), panel["marks"], strict=False):
                corner = columns.index(eta) - 0.5, rows.index(lr) - 0.5
                box = Rectangle(corner, 1, 1, fill=False, ec=style.COLOURS[1], lw=2.5, ls=line, label=text, zorder=3)
                box.set_clip_on(False)
                axis.add_patch(box)
            axis.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
            axis.set_yticks(range(len(rows)), [f"{value:g}" for value in rows])
            axis.set(xlim=(-0.5, len(columns) - 0.5), ylim=(-0.5, len(rows) - 0.5), title=panel["title"])
            crosses = ", × diverged" if np.isnan(losses).sum() > losses.size - len(panel["cells"]) else ""
            blanks = ", blank not tried" if len(panel["cells"]) < losses.size else ""
            axis.set(xlabel=f"weight learning rate η{crosses}{blanks}", ylabel="activity learning rate, per sample")
            axis.grid(False)
            axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.24), ncols=2, fontsize=9, handlelength=1.5)
        style.save(figure, path)


def _outline() -> list[Any]:
    """White around black letters, readable on any colour."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2, foreground="white")]
