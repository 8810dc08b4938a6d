"""Eigenvalue densities, also of the Hessian's parts, and how condition numbers grow with the size of a network."""

import math
import statistics
from collections.abc import Sequence

from . import style
from .style import GREY, Array, Axes, Labels, Options, PathLike, Record

MOST_PANELS, BINS = 12, 60
PART_BINS, PART_PANEL = 40, 2.3
"""Bins, and width and height of a panel in inches, of the figures of the Hessian's parts."""
UNEVEN = 30
"""The axis is logarithmic if the tallest bin is this many times the median of the bins that hold something."""
BLUR = 0.6
"""The nodes of a quadrature are about as far apart as bins. Blurred by this many bins, they do not look like peaks."""


def draw_eigenvalue_densities(spectra: Sequence[Record], path: PathLike, laws: Sequence[Record] = ()) -> None:
    """Draw eigenvalue densities into a PNG file, a panel each, with the smallest and largest eigenvalue marked.

    **Arguments:**

    - `spectra`: dictionaries with `label`, `values` (sorted), `weights` (that sum to one) and `exact`: whether these
      are all eigenvalues, or the nodes of a quadrature. `smallest` and `largest` may tell the ends of the spectrum more
      exactly than its nodes. The first twelve are drawn.
    - `laws`: densities to compare every panel with, dictionaries with `label`, `values` and `density`.

    **Example:**

    ```python
    import numpy as np
    from mupc.plots import draw_eigenvalue_densities

    values = np.linspace(0.1, 4.0, 100)
    even = {"label": "even", "values": values, "weights": np.full(100, 0.01), "exact": True}
    draw_eigenvalue_densities([even], "spectrum.png")
    ```
    """
    shown = spectra[:MOST_PANELS]
    columns = {1: 1, 2: 2, 4: 2}.get(len(shown), 3)
    rows = -(-len(shown) // columns)
    size = style.SINGLE if len(shown) == 1 else None
    with style.saved_panels(path, rows, columns, size=size, ylabel="density") as (figure, axes):
        for panel, spectrum in zip(axes.flat, shown, strict=False):
            _plot_density(panel, spectrum, laws)
        for panel in axes.flat[len(shown) :]:
            panel.remove()
        figure.supxlabel(r"eigenvalue $\lambda$", fontsize=11)
        if len(shown) < len(spectra):
            figure.suptitle(f"the first {len(shown)} of {len(spectra)}", fontsize=11)


def _plot_density(panel: Axes, spectrum: Record, laws: Sequence[Record]) -> None:
    import numpy as np

    values, weights = (np.asarray(spectrum[name], float) for name in ("values", "weights"))
    heights, edges = histogram(values, weights, spectrum["exact"])
    panel.stairs(heights, edges, fill=True, color=style.BLUE, alpha=0.5)
    panel.stairs(heights, edges, color=style.BLUE, lw=1)
    for law, colour in zip(laws, style.cycle(len(laws) + 1)[1:], strict=True):
        panel.plot(law["values"], law["density"], color=colour, lw=1.5, label=law["label"])
    ends = spectrum.get("smallest", values[0]), spectrum.get("largest", values[-1])
    for value, name, dashes in zip(ends, ("min", "max"), (":", "--"), strict=True):
        panel.axvline(value, color=GREY, ls=dashes, lw=1.5, label=rf"$\lambda_{{\{name}}}$ = {value:.3g}")
    filled = heights[heights > 0]
    if filled.max() > UNEVEN * np.median(filled):
        panel.set_yscale("log")
    how = "" if spectrum["exact"] else ", Lanczos"
    panel.set_title(f"{spectrum['label']}{how}", fontsize=11)
    style.legend_under(panel, fontsize=9, ncols=2, columnspacing=1, handlelength=1.5)


def histogram(values: Array, weights: Array, exact: bool) -> tuple[Array, Array]:
    """Return the density in each bin and the edges of the bins; if not `exact`, every value is spread over the bins
    around it by a Gaussian."""
    import numpy as np

    heights, edges = np.histogram(values, BINS, weights=weights, density=True)
    if exact:
        return heights, edges
    step = edges[1] - edges[0]
    offsets = (edges[:-1, None] + step / 2 - values) / (BLUR * step)
    shares = np.exp(-(offsets**2) / 2)
    return shares / shares.sum(axis=0) @ weights / (step * weights.sum()), edges


def draw_block_spectra(
    record: Record, path: PathLike, symbol: str, varied: str, labels: Labels, law: Record | None
) -> None:
    """Draw the density of eigenvalues of a part of the activity Hessian, a row for each normalisation and a column for
    each size, and the law of random matrices if there is one.

    **Arguments:** the record and the file; the `symbol` of the part of the Hessian; which size is `varied`, `"depth"`
    or `"width"`; the names of the normalisations; and a law of random matrices with `label`, `values` and `density`.
    """
    import numpy as np

    sizes = record["config"][f"{varied}s"]
    values = [value for row in record["data"] for value in (row["quantiles"][0], row["quantiles"][-1])]
    edges = np.linspace(min(values, default=0.0), max(values, default=1.0), PART_BINS + 1)
    size = max(10.0, PART_PANEL * len(sizes)), PART_PANEL * len(labels) + 0.5
    options: Options = {"size": size, "xlabel": rf"eigenvalue of ${symbol}$", "sharex": True, "sharey": True}
    with style.saved_panels(path, len(labels), len(sizes), record, **options) as (figure, axes):
        for panels, (normalisation, label) in zip(axes, labels.items(), strict=True):
            for panel, at in zip(panels, sizes, strict=True):
                for row in style.select(record["data"], normalisation=normalisation, **{varied: at}):
                    panel.hist(row["quantiles"], edges, density=True, color=style.BLUE, alpha=0.7)
                if law is not None:
                    panel.plot(law["values"], law["density"], color=style.RED, lw=1.5, label=law["label"])
            panels[0].set_ylabel(f"{label}\ndensity", fontsize=10)
        top = max((patch.get_height() for panel in axes.flat for patch in panel.patches), default=0)
        axes[0, 0].set_ylim(0, 1.05 * top if top else None)
        for panel, at in zip(axes[0], sizes, strict=True):
            panel.set_title(f"{'H' if varied == 'depth' else 'N'} = {at}")
        style.legend_outside(figure, axes[0, 0], loc="outside upper right", fontsize=9)


def draw_condition_numbers(rows: Sequence[Record], path: PathLike) -> None:
    """Draw condition numbers over hidden layers, a line per width; over widths if there is only one depth.

    **Arguments:** the `networks` of a `summary.json` that `mupc hessian` wrote, and the file. The band spans the seeds;
    networks without a condition number are left out.

    **Example:**

    ```python
    import json
    from mupc.plots import draw_condition_numbers

    with open("summary.json") as file:
        draw_condition_numbers(json.load(file)["networks"], "condition-numbers.png")
    ```
    """
    by_depth = len({row["hidden_layers"] for row in rows}) > 1
    along, across = ("hidden_layers", "width") if by_depth else ("width", "hidden_layers")
    names = {"width": "width $N$", "hidden_layers": "hidden layers $H$"}
    with style.saved_panels(path, size=style.SINGLE) as (figure, ((panel,),)):
        for line, colour in style.ramped(sorted({row[across] for row in rows})):
            chosen = sorted(style.select(rows, **{across: line}), key=lambda row: row[along])
            found = {row[along]: values for row in chosen if (values := _finite(row))}
            medians = {at: statistics.median(values) for at, values in found.items()}
            style.plot_points(panel, medians, color=colour, marker="o", label=f"{names[across]} = {line}")
            low, high = ([end(values) for values in found.values()] for end in (min, max))
            style.fill(panel, list(found), low, high, colour)
        style.size_axis(panel, names[along], sorted({row[along] for row in rows}))
        panel.set(ylabel=style.KAPPA, title="Activity Hessian")
        if any(_finite(row) for row in rows):  # a logarithmic axis cannot be empty
            style.log_ticks(panel)
        style.legend_outside(figure, panel)


def _finite(row: Record) -> list[float]:
    values = (seed["condition_number"] for seed in row["seeds"])
    return [value for value in values if value is not None and math.isfinite(value)]
