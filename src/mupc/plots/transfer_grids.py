"""Training loss over both learning rates, for networks of growing width and depth."""

import statistics
from collections.abc import Mapping, Sequence

from . import style
from .style import Array, PathLike, Record

PANEL = (2.3, 2.7)
"""Width and height of a panel, in inches."""


def draw_transfer_grids(record: Record, path: PathLike, ladders: Mapping[str, Sequence[tuple[int, int]]]) -> None:
    """Draw a row for each ladder of networks (width, depth), smallest first. A star marks the optimum of each network,
    a circle that of the smallest."""
    import numpy as np

    config = record["config"]
    etas, betas = sorted(config["etas"]), sorted(config["betas"])
    grids = {size: _losses(record, size, etas, betas) for ladder in ladders.values() for size in ladder}
    finite = [value for grid in grids.values() for value in grid[np.isfinite(grid)]]
    low, high = (min(finite), max(finite)) if finite else (0.1, 1.0)
    columns = max(len(ladder) for ladder in ladders.values())
    size = PANEL[0] * columns + 1, PANEL[1] * len(ladders)
    options = {"size": size, "preset": record["preset"], "sharex": True, "sharey": True}
    with style.saved_panels(path, len(ladders), columns, **options) as (figure, axes):
        for panels, ladder in zip(axes, ladders.values(), strict=True):
            start = _lowest(grids[ladder[0]])
            for panel, (width, depth) in zip(panels, ladder, strict=False):
                grid = grids[width, depth]
                image = style.heat_map(panel, grid, betas, etas, (low, max(high, 1.01 * low)), dark_high=True)
                panel.plot(*start, "o", ms=11, mfc="none", mec=style.RED, mew=2)
                panel.plot(*_lowest(grid), "*", ms=9, color=style.RED)
                panel.set_title(f"N = {width}, H = {depth}", fontsize=10)
            panels[0].set_ylabel(r"weight rate $\eta$")
        for panel in axes[-1]:
            panel.tick_params(axis="x", labelrotation=90, labelsize=8)
            panel.set_xlabel(r"activity rate $\beta$")
        figure.colorbar(image, ax=axes, fraction=0.02, pad=0.01).set_label("lowest training loss")


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
