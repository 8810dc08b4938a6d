"""How time and memory grow with the sizes of a workload, on logarithmic axes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import style

AXES = {
    "hidden_layers": ("H", "hidden layers H"),
    "width": ("N", "width N"),
    "batch_size": ("B", "batch size B"),
    "steps": ("T", "inference steps T"),
}
QUANTITIES = {"median_s": ("time of an update (ms)", 1e3), "memory_bytes": ("memory (MiB)", 2.0**-20)}
SHARED = "update"
"""The workload of what is the same beside any inference."""
NAMES = {"mupc": "PC", "backprop": "BP", "unrolled": "step by step"}


def draw_performance(fits: Sequence[Mapping[str, Any]], path: str | Path, title: str = "") -> None:
    """Draws what was measured as points and the fitted powers as lines into a PNG file: a row for time, one for memory,
    a column for each size that was varied.

    **Arguments:** fits as dictionaries, as `mupc bench` writes them: `workload`, `name`, `quantity`, `axis`, `fixed`,
    `sizes`, `values` and `exponent`. The file, and a title.

    **Example:**

    ```python
    from mupc.plots.performance import draw_performance

    fit = {"workload": "gd", "name": "mupc", "quantity": "median_s", "axis": "width", "fixed": {"hidden_layers": 8},
           "sizes": [128, 256, 512], "values": [0.001, 0.004, 0.016], "exponent": 2.0}
    draw_performance([fit], "performance.png")
    ```
    """
    columns = [axis for axis in AXES if any(fit["axis"] == axis for fit in fits)]
    rows = [quantity for quantity in QUANTITIES if any(fit["quantity"] == quantity for fit in fits)]
    many = len({fit["workload"] for fit in fits} - {SHARED}) > 1
    with style.figure(width=max(5.0, 4.4 * len(columns)), height=3.9 * len(rows)) as (figure, only):
        only.remove()
        grid = figure.subplots(len(rows), len(columns), squeeze=False)
        for row, quantity in enumerate(rows):
            for column, axis in enumerate(columns):
                own = [fit for fit in fits if (fit["quantity"], fit["axis"]) == (quantity, axis)]
                _panel(grid[row, column], own, quantity, axis, many)
        figure.suptitle(title, fontsize=12)
        style.save(figure, path)


def _panel(axes: Any, fits: Sequence[Mapping[str, Any]], quantity: str, axis: str, many: bool) -> None:
    import numpy as np
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    label, scale = QUANTITIES[quantity]
    symbol, written = AXES[axis]
    ticks = sorted({size for fit in fits for size in fit["sizes"]})
    for colour, fit in zip(style.cycle(len(fits)), fits, strict=True):
        sizes, values = np.array(fit["sizes"], float), scale * np.array(fit["values"])
        offset = np.mean(np.log(values) - fit["exponent"] * np.log(sizes))
        fixed = ", ".join(f"{AXES[name][0]}={value}" for name, value in fit["fixed"].items())
        name = NAMES.get(fit["name"], fit["name"]) + (
            f", {fit['workload']}" if many and fit["workload"] != SHARED else ""
        )
        axes.plot(sizes, np.exp(offset) * sizes ** fit["exponent"], color=colour, lw=1.5)
        power = f"${symbol}^{{{fit['exponent']:.2f}}}$"
        axes.plot(sizes, values, "o", color=colour, ms=5, label=f"{name}: {power} ({fixed})")
    axes.set(xscale="log", yscale="log", xlabel=written, ylabel=label)
    style.log_ticks(axes)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter([str(tick) for tick in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), handlelength=1)
