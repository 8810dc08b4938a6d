"""Inference steps over the condition number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import style


def draw_automatic_steps(record: dict[str, Any], path: Path, labels: Mapping[str, str]) -> None:
    """Steps over κ for each setting, with lines of slope ½ and 1 to compare, and κ over depth."""
    import numpy as np

    rows = record["data"]
    depths = sorted({row["depth"] for row in rows})
    with style.panels(1, 2) as (figure, axes):
        steps, kappa = axes[0]
        for (name, label), colour, slope in zip(labels.items(), style.COLOURS, (0.5, 1.0), strict=False):
            points = np.array([(row["condition_number"], row[name]) for row in rows if row[name]], float)
            if not len(points):
                continue
            x, y = points[np.argsort(points[:, 0])].T
            steps.loglog(x, y, "o", color=colour, label=label)
            middle = np.exp(np.mean(np.log(y)) - slope * np.mean(np.log(x)))
            steps.loglog(x, middle * x**slope, "--", color=colour, lw=1, label=f"slope {slope:g}")
        steps.set_xlabel("condition number κ")
        steps.set_ylabel("inference steps")
        figure.legend(loc="outside right center", fontsize=9)
        medians = [np.median([row["condition_number"] for row in rows if row["depth"] == depth]) for depth in depths]
        kappa.loglog(depths, medians, "o-", color=style.COLOURS[2])
        kappa.set_xscale("log", base=2)
        kappa.set_xlabel("hidden layers H")
        kappa.set_ylabel("condition number κ")
        figure.suptitle(f"linear μPC networks, N = {record['config']['width']}")
        style.label_preset(figure, record["preset"])
        style.save(figure, path)
