"""How time and memory grow with the sizes of a workload, on log–log axes."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from . import style
from .style import Number, PathLike, Record

PERFORMANCE_SIZES = {
    "hidden_layers": ("H", "hidden layers H"),
    "width": ("N", "width N"),
    "batch_size": ("B", "batch size B"),
    "steps": ("T", "inference steps T"),
}
"""The symbol and the label of each size."""
QUANTITIES = {"median_s": ("time of an update (ms)", 1e3), "memory_bytes": ("memory (MiB)", 2.0**-20)}
"""The label and the unit of each quantity."""
NAMES = {"mupc": "PC", "backprop": "BP", "unrolled": "step by step"}


class PerformanceLine(NamedTuple):
    """What the points of a line share: the program that was timed, its workload, and all sizes but one, by symbol. Over
    H, the size T may be `"H"`."""

    program: str
    workload: str
    fixed: tuple[tuple[str, int | str], ...]

    @property
    def label(self) -> str:
        """Its name in a legend or table."""
        sizes = ", ".join(f"{symbol}={value}" for symbol, value in self.fixed)
        return f"{NAMES.get(self.program, self.program)}, {self.workload} ({sizes})"


Lines = dict[PerformanceLine, dict[int, Number]]
"""Values over a size, by line."""


def draw_performance(rows: Iterable[Record], path: PathLike, title: str = "") -> None:
    """Draw time and memory over each size that varies, with the other sizes fixed, into a PNG file. Draw nothing if no
    size has two values.

    **Arguments:** rows of `mupc bench`, the file, and a title.

    **Example:**

    ```python
    from mupc.plots import draw_performance

    sizes = {"workload": "gd", "hidden_layers": 8, "batch_size": 64, "steps": 8}
    rows = [{**sizes, "width": n, "times": {"mupc": {"median_s": 1e-8 * n**2}}} for n in (128, 256, 512)]
    draw_performance(rows, "performance.png")
    ```
    """
    panels = lines_over_sizes(rows)
    quantities = [quantity for quantity in QUANTITIES if any(quantity == key[0] for key in panels)]
    varied = [size for size in PERFORMANCE_SIZES if any(size == key[1] for key in panels)]
    if not panels:
        return
    size = max(5.0, 4.4 * len(varied)), 3.9 * len(quantities)
    with style.saved_panels(path, len(quantities), len(varied), size=size) as (figure, axes):
        for panel, key in zip(axes.flat, ((q, s) for q in quantities for s in varied), strict=True):
            if key not in panels:
                panel.remove()
                continue
            label, unit = QUANTITIES[key[0]]
            for colour, (line, points) in zip(style.cycle(len(panels[key])), panels[key].items(), strict=True):
                values = {x: unit * points[x] for x in sorted(points)}
                style.plot_points(panel, values, "o-", color=colour, lw=1.5, ms=5, label=line.label)
            ticks = sorted({x for points in panels[key].values() for x in points})
            style.size_axis(panel, PERFORMANCE_SIZES[key[1]][1], ticks)
            style.log_ticks(panel)
            panel.set_ylabel(label)
            panel.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), handlelength=1)
        figure.suptitle(title, fontsize=12)


def lines_over_sizes(rows: Iterable[Record]) -> dict[tuple[str, str], Lines]:
    """Return the lines over each size that has several values, by quantity and size. Over H, points with T = H are a
    line, too."""
    found: dict[tuple[str, str], Lines] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        for size in (size for size in PERFORMANCE_SIZES if row.get(size) is not None):
            fixed = {symbol: row.get(other) for other, (symbol, _) in PERFORMANCE_SIZES.items() if other != size}
            if size == "hidden_layers" and row.get("steps") == row[size]:
                fixed["T"] = "H"
            shared = tuple((symbol, value) for symbol, value in fixed.items() if value is not None)
            for name, taken in row.get("times", {}).items():
                line = PerformanceLine(name, row["workload"], shared)
                for quantity in filter(taken.get, QUANTITIES):
                    found[quantity, size][line][row[size]] = taken[quantity]
    several = {key: {n: points for n, points in lines.items() if len(points) > 1} for key, lines in found.items()}
    return {key: lines for key, lines in several.items() if lines}
