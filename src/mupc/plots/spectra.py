"""Eigenvalue distributions of the activity Hessian's parts, beside the laws of random matrices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import style

Law = tuple[str, Any]
"""A name, and what has `edges` and a `density`, such as a `mupc.theory.Law`."""
BINS = 40


def draw_block_spectra(
    record: dict[str, Any], path: Path, symbol: str, varied: str, labels: Mapping[str, str], law: Law | None
) -> None:
    """A row for each normalisation, a column for each size: the density of eigenvalues, and the law if there is one."""
    import numpy as np

    config = record["config"]
    sizes = config["depths"] if varied == "depth" else config["widths"]
    letter = "H" if varied == "depth" else "N"
    values = [value for row in record["data"] for value in (row["quantiles"][0], row["quantiles"][-1])]
    edges = np.linspace(min(values, default=0.0), max(values, default=1.0), BINS + 1)
    width = max(10.0, 2.3 * len(sizes))
    with style.figure(width=width, height=2.3 * len(labels) + 0.5) as (figure, only):
        only.remove()
        axes = figure.subplots(len(labels), len(sizes), squeeze=False, sharex=True, sharey=True)
        for panels, (normalisation, label) in zip(axes, labels.items(), strict=True):
            for panel, size in zip(panels, sizes, strict=True):
                for row in record["data"]:
                    if (row["normalisation"], row[varied]) == (normalisation, size):
                        panel.hist(row["quantiles"], edges, density=True, color=style.COLOURS[0], alpha=0.7)
                if law is not None:
                    name, limit = law
                    low, high = limit.edges
                    at = np.linspace(low, high, 400)
                    panel.plot(at, limit.density(at), color=style.COLOURS[1], lw=1.5, label=name)
            panels[0].set_ylabel(f"{label}\ndensity", fontsize=10)
        top = max((panel.patches and max(patch.get_height() for patch in panel.patches)) or 0 for panel in axes.flat)
        axes[0, 0].set_ylim(0, 1.05 * top if top else None)
        for panel, size in zip(axes[0], sizes, strict=True):
            panel.set_title(f"{letter} = {size}")
        for panel in axes[-1]:
            panel.set_xlabel(rf"eigenvalue of ${symbol}$")
        if law is not None:
            figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", fontsize=9)
        style.label_preset(figure, record["preset"])
        style.save(figure, path)
