"""Activity decay: condition numbers over width and depth, and accuracy over its strength."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import style
from .conditioning import heat


def draw_activity_decay(record: dict[str, Any], path: Path, decays: Mapping[str, float]) -> None:
    """A panel of condition numbers for each activation, and one of accuracies."""
    activations = record["config"]["activations"]
    with style.panels(1, len(activations) + 1) as (figure, axes):
        *maps, accuracy = axes[0]
        for panel, activation in zip(maps, activations, strict=True):
            image = heat(panel, record, "sp", activation)
            panel.set_title(rf"$\kappa$ with $\alpha = 1$, {style.written(activation)}", fontsize=11)
        figure.colorbar(image, ax=maps[-1], fraction=0.05).set_label(r"condition number $\kappa$")
        points = {}
        for place, method in enumerate(decays):
            runs = [row for row in record["data"] if row.get("method") == method]
            if runs:
                points[place] = [100 * max(run["history"]["test_accuracy"]) for run in runs]
        spread = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in points.values()]
        means = [statistics.fmean(values) for values in points.values()]
        accuracy.errorbar(list(points), means, spread, fmt="o-", color=style.COLOURS[0], capsize=3)
        accuracy.axhline(10, color="black", lw=1, ls=":")
        accuracy.set_xticks(range(len(decays)), [f"{decay:g}" for decay in decays.values()])
        accuracy.set(title="linear, trained", xlabel=r"activity decay $\alpha$", ylabel="best test accuracy (%)")
        accuracy.set_ylim(0, 100)
        style.label_preset(figure, record["preset"])
        style.save(figure, path)
