"""How time and memory grow with the sizes of a workload, on log–log axes."""

from collections.abc import Sequence

from . import style
from .style import Axes, PathLike, Record

SIZES = {
    "hidden_layers": ("H", "hidden layers H"),
    "width": ("N", "width N"),
    "batch_size": ("B", "batch size B"),
    "steps": ("T", "inference steps T"),
}
"""The symbol and the label of each size."""
QUANTITIES = {"median_s": ("time of an update (ms)", 1e3), "memory_bytes": ("memory (MiB)", 2.0**-20)}
"""The label and the unit of each quantity."""
SHARED = "update"
"""The workload that is the same next to any inference."""
NAMES = {"mupc": "PC", "backprop": "BP", "unrolled": "step by step"}


def draw_performance(fits: Sequence[Record], path: PathLike, title: str = "") -> None:
    """Draw measurements as points and the fitted powers as lines into a PNG file: a row for time, one for memory, a
    column for each size that was varied.

    **Arguments:** fits as dictionaries, as `mupc bench` writes them: `workload`, `name`, `quantity`, `axis`, `fixed`,
    `sizes`, `values` and `exponent`. The file, and a title.

    **Example:**

    ```python
    from mupc.plots import draw_performance

    fit = {"workload": "gd", "name": "mupc", "quantity": "median_s", "axis": "width", "fixed": {"hidden_layers": 8},
           "sizes": [128, 256, 512], "values": [0.001, 0.004, 0.016], "exponent": 2.0}
    draw_performance([fit], "performance.png")
    ```
    """
    columns = [axis for axis in SIZES if style.select(fits, axis=axis)]
    rows = [quantity for quantity in QUANTITIES if style.select(fits, quantity=quantity)]
    many = len({fit["workload"] for fit in fits} - {SHARED}) > 1
    size = max(5.0, 4.4 * len(columns)), 3.9 * len(rows)
    with style.saved_panels(path, len(rows), len(columns), size=size) as (figure, axes):
        for panels, quantity in zip(axes, rows, strict=True):
            for panel, axis in zip(panels, columns, strict=True):
                own = style.select(fits, quantity=quantity, axis=axis)
                _plot_fits(panel, own, quantity, axis, many) if own else panel.remove()
        figure.suptitle(title, fontsize=12)


def _plot_fits(panel: Axes, fits: Sequence[Record], quantity: str, axis: str, many: bool) -> None:
    """Draw one quantity over one size. With `many` workloads, the legend says which one a line belongs to."""
    import numpy as np

    label, scale = QUANTITIES[quantity]
    symbol, written = SIZES[axis]
    for colour, fit in zip(style.cycle(len(fits)), fits, strict=True):
        sizes, values = np.array(fit["sizes"], float), scale * np.array(fit["values"])
        offset = np.mean(np.log(values) - fit["exponent"] * np.log(sizes))
        panel.plot(sizes, np.exp(offset) * sizes ** fit["exponent"], color=colour, lw=1.5)
        name = str(NAMES.get(fit["name"], fit["name"]))
        if many and fit["workload"] != SHARED:
            name += f", {fit['workload']}"
        fixed = ", ".join(f"{SIZES[size][0]}={value}" for size, value in fit["fixed"].items())
        power = f"${symbol}^{{{fit['exponent']:.2f}}}$"
        panel.plot(sizes, values, "o", color=colour, ms=5, label=f"{name}: {power} ({fixed})")
    style.size_axis(panel, written, sorted({size for fit in fits for size in fit["sizes"]}))
    style.log_ticks(panel)
    panel.set_ylabel(label)
    panel.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), handlelength=1)
