"""Eigenvalue distributions of the activity Hessian's parts, next to the laws of random matrices."""

from . import style
from .style import Labels, PathLike, Record

BINS = 40
PANEL = 2.3
"""Width and height of a panel, in inches."""


def draw_block_spectra(
    record: Record,
    path: PathLike,
    symbol: str,
    varied: str,
    labels: Labels,
    law: Record | None,
) -> None:
    """Draw the density of eigenvalues, a row for each normalisation and a column for each size, and the law if there is
    one.

    **Arguments:** the record and the file; the `symbol` of the part of the Hessian; which size is `varied`, `"depth"`
    or `"width"`; the names of the normalisations; and a law of random matrices with `label`, `values` and `density`.
    """
    import numpy as np

    sizes = record["config"][f"{varied}s"]
    letter = "H" if varied == "depth" else "N"
    values = [value for row in record["data"] for value in (row["quantiles"][0], row["quantiles"][-1])]
    edges = np.linspace(min(values, default=0.0), max(values, default=1.0), BINS + 1)
    size = max(10.0, PANEL * len(sizes)), PANEL * len(labels) + 0.5
    options = {"size": size, "preset": record["preset"], "sharex": True, "sharey": True}
    with style.saved_panels(path, len(labels), len(sizes), **options) as (figure, axes):
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
            panel.set_title(f"{letter} = {at}")
        for panel in axes[-1]:
            panel.set_xlabel(rf"eigenvalue of ${symbol}$")
        style.legend_outside(figure, axes[0, 0], loc="outside upper right", fontsize=9)
