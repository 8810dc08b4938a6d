"""Training loss over both learning rates, for networks of growing width and depth."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import style

Record = dict[str, Any]


def draw_transfer_grids(record: Record, path: Path, ladders: Mapping[str, Sequence[tuple[int, int]]]) -> None:
    """A row for each ladder of networks, smallest first; its optimum is marked in all of them."""
    import numpy as np

    config = record["config"]
    etas, betas = sorted(config["etas"]), sorted(config["betas"])
    grids = {size: _grid(record, size, etas, betas) for ladder in ladders.values() for size in ladder}
    finite = [value for grid in grids.values() for value in grid[np.isfinite(grid)]]
    low, high = (min(finite), max(finite)) if finite else (0.1, 1.0)
    columns = max(len(ladder) for ladder in ladders.values())
    with style.figure(width=2.3 * columns + 1, height=2.7 * len(ladders)) as (figure, only):
        only.remove()
        axes = figure.subplots(len(ladders), columns, squeeze=False, sharex=True, sharey=True)
        for panels, ladder in zip(axes, ladders.values(), strict=True):
            start = _best(grids[ladder[0]])
            for panel, size in zip(panels, ladder, strict=False):
                grid = grids[size]
                image = style.heat_map(panel, grid, betas, etas, (low, max(high, 1.01 * low)), dark_high=True)
                if start is not None:
                    panel.plot(start[1], start[0], "o", ms=11, mfc="none", mec=style.COLOURS[1], mew=2)
                own = _best(grid)
                if own is not None:
                    panel.plot(own[1], own[0], "*", ms=9, color=style.COLOURS[1])
                panel.set_title(f"N = {size[0]}, H = {size[1]}", fontsize=10)
            panels[0].set_ylabel(r"weight rate $\eta$")
        for panel in axes[-1]:
            panel.tick_params(axis="x", labelrotation=90, labelsize=8)
            panel.set_xlabel(r"activity rate $\beta$")
        figure.colorbar(image, ax=axes, fraction=0.02, pad=0.01).set_label("lowest training loss")
        style.label_preset(figure, record["preset"])
        style.save(figure, path)


def _grid(record: Record, size: tuple[int, int], etas: list[float], betas: list[float]) -> Any:
    """The mean over seeds; NaN where a run diverged or is missing."""
    import numpy as np

    found: dict[tuple[float, float], list[float]] = {}
    for row in record["data"]:
        if (row["width"], row["depth"]) == size:
            value = None if row["diverged"] else row["lowest_train_loss"]
            found.setdefault((row["eta"], row["beta"]), []).append(float("nan") if value is None else value)
    return np.array([[statistics.fmean(found.get((eta, beta), [float("nan")])) for beta in betas] for eta in etas])


def _best(grid: Any) -> tuple[int, int] | None:
    import numpy as np

    if not np.any(np.isfinite(grid)):
        return None
    row, column = np.unravel_index(np.nanargmin(grid), grid.shape)
    return int(row), int(column)
