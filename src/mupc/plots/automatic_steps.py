"""Inference steps over the condition number."""

from . import style
from .style import Labels, PathLike, Record


def draw_automatic_steps(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw steps over κ for each setting, with lines of slope ½ and 1 to compare with, and κ over depth."""
    import numpy as np

    rows = record["data"]
    with style.saved_panels(path, 1, 2, preset=record["preset"]) as (figure, axes):
        steps, kappa = axes[0]
        for (name, label), colour, slope in zip(labels.items(), style.COLOURS, (0.5, 1.0), strict=False):
            points = np.array([(row["condition_number"], row[name]) for row in rows if row[name]], float)
            if not len(points):
                continue
            x, y = points[np.argsort(points[:, 0])].T
            steps.loglog(x, y, "o", color=colour, label=label)
            middle = np.exp(np.mean(np.log(y)) - slope * np.mean(np.log(x)))
            steps.loglog(x, middle * x**slope, "--", color=colour, lw=1, label=f"slope {slope:g}")
        steps.set(xlabel="condition number κ", ylabel="inference steps")
        figure.legend(loc="outside right center", fontsize=9)
        medians = {
            depth: float(np.median([row["condition_number"] for row in style.select(rows, depth=depth)]))
            for depth in sorted({row["depth"] for row in rows})
        }
        style.plot_points(kappa, medians, "o-", color=style.GREEN)
        style.size_axis(kappa, "hidden layers H")
        kappa.set(yscale="log", ylabel="condition number κ")
        figure.suptitle(f"linear μPC networks, N = {record['config']['width']}")
