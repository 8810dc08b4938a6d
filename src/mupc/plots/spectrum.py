"""Eigenvalue densities, and how condition numbers grow with the size of a network."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import style

MOST_PANELS, BINS = 12, 60
ALONE = (6.4, 4.2)
"""Inches of a figure with one panel."""
UNEVEN = 30
"""The tallest bin over the median of those that hold something, from which on the axis is logarithmic."""
BLUR = 0.6
"""The nodes of a quadrature are about as far apart as bins. Blurred by so many bins, they do not look like peaks."""
GREY = "#666666"

Table = Mapping[str, Any]


def draw_eigenvalue_densities(spectra: Sequence[Table], path: str | Path, laws: Sequence[Table] = ()) -> None:
    """Draws eigenvalue densities into a PNG file, a panel each, with the smallest and largest eigenvalue marked.

    **Arguments:**

    - `spectra`: dictionaries with `label`, `values` (sorted), `weights` (that sum to one) and `exact`: whether these
      are all eigenvalues, or the nodes of a quadrature. `smallest` and `largest` may tell the ends of the spectrum more
      exactly than its nodes. The first twelve are drawn.
    - `laws`: densities to compare every panel with, dictionaries with `label`, `values` and `density`.

    **Example:**

    ```python
    import numpy as np
    from mupc.plots.spectrum import draw_eigenvalue_densities

    values = np.linspace(0.1, 4.0, 100)
    even = {"label": "even", "values": values, "weights": np.full(100, 0.01), "exact": True}
    draw_eigenvalue_densities([even], "spectrum.png")
    ```
    """
    import numpy as np

    shown = spectra[:MOST_PANELS]
    columns = {1: 1, 2: 2, 4: 2}.get(len(shown), 3)
    rows = -(-len(shown) // columns)
    width, height = ALONE if len(shown) == 1 else (style.PANEL[0] * columns, style.PANEL[1] * rows)
    blue = style.COLOURS[0]
    with style.figure(width=width, height=height) as (figure, only):
        only.remove()
        axes = figure.subplots(rows, columns, squeeze=False)
        for panel, spectrum in zip(axes.flat, shown, strict=False):
            values, weights = (np.asarray(spectrum[name], float) for name in ("values", "weights"))
            heights, edges = _bins(values, weights, spectrum["exact"])
            panel.stairs(heights, edges, fill=True, color=blue, alpha=0.5)
            panel.stairs(heights, edges, color=blue, lw=1)
            for law, colour in zip(laws, style.cycle(len(laws) + 1)[1:], strict=True):
                panel.plot(law["values"], law["density"], color=colour, lw=1.5, label=law["label"])
            ends = spectrum.get("smallest", values[0]), spectrum.get("largest", values[-1])
            for value, name, dashes in zip(ends, ("min", "max"), (":", "--"), strict=True):
                label = rf"$\lambda_{{\{name}}}$ = {value:.3g}"
                panel.axvline(value, color=GREY, ls=dashes, lw=1.5, label=label)
            filled = heights[heights > 0]
            if filled.max() > UNEVEN * np.median(filled):
                panel.set_yscale("log")
            how = "" if spectrum["exact"] else ", Lanczos"
            panel.set_title(f"{spectrum['label']}{how}", fontsize=11)
            panel.legend(fontsize=9)
        for panel in axes.flat[len(shown) :]:
            panel.remove()
        for panel in axes[:, 0]:
            panel.set_ylabel("density")
        figure.supxlabel(r"eigenvalue $\lambda$", fontsize=11)
        if len(shown) < len(spectra):
            figure.suptitle(f"the first {len(shown)} of {len(spectra)}", fontsize=11)
        style.save(figure, path)


def _bins(values: Any, weights: Any, exact: bool) -> Any:
    """The density in each bin, and the edges of the bins; if not exact, with every value spread over the bins around
    it by a Gaussian."""
    import numpy as np

    heights, edges = np.histogram(values, BINS, weights=weights, density=True)
    if exact:
        return heights, edges
    step = edges[1] - edges[0]
    offsets = (edges[:-1, None] + step / 2 - values) / (BLUR * step)
    shares = np.exp(-(offsets**2) / 2)
    return shares / shares.sum(axis=0) @ weights / (step * weights.sum()), edges


def draw_condition_numbers(rows: Sequence[Table], path: str | Path) -> None:
    """Draws condition numbers over hidden layers, a line per width; over widths if there is but one depth.

    **Arguments:** the `networks` of a `summary.json` that `mupc hessian` wrote. The band spans the seeds; networks
    without a condition number are left out.

    **Example:**

    ```python
    import json
    from mupc.plots.spectrum import draw_condition_numbers

    with open("summary.json") as file:
        draw_condition_numbers(json.load(file)["networks"], "condition-numbers.png")
    ```
    """
    by_depth = len({row["hidden_layers"] for row in rows}) > 1
    along, across = ("hidden_layers", "width") if by_depth else ("width", "hidden_layers")
    names = {"width": "width $N$", "hidden_layers": "hidden layers $H$"}
    with style.figure(width=ALONE[0], height=ALONE[1]) as (figure, axes):
        lines = sorted({row[across] for row in rows})
        for colour, line in zip(style.ramp(len(lines)), lines, strict=True):
            chosen = sorted((row for row in rows if row[across] == line), key=lambda row: row[along])
            found = {row[along]: _finite(row) for row in chosen}
            ends = {x: (min(values), max(values)) for x, values in found.items() if values}
            middle = [statistics.median(found[x]) for x in ends]
            axes.plot(list(ends), middle, color=colour, marker="o", label=f"{names[across]} = {line}")
            low, high = zip(*ends.values(), strict=True) if ends else ((), ())
            axes.fill_between(list(ends), low, high, color=colour, alpha=style.BAND, lw=0)
        ticks = sorted({row[along] for row in rows})
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set(xlabel=names[along], ylabel=r"condition number $\kappa$", title="Activity Hessian")
        if any(_finite(row) for row in rows):  # a logarithmic axis cannot be empty
            style.log_ticks(axes)
        axes.legend(fontsize=9)
        style.save(figure, path)


def _finite(row: Table) -> list[float]:
    values = (seed["condition_number"] for seed in row["seeds"])
    return [value for value in values if value is not None and math.isfinite(value)]
