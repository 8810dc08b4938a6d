"""Condition numbers and extreme eigenvalues over width and depth, and what they mean for inference and training."""

import math
import statistics
from collections.abc import Mapping

from . import style
from .landscape import plot_contours
from .style import Axes, Labels, Options, PathLike, Record, ScalarMappable, select

LIMIT = 1e12
"""Above this, float64 cannot tell κ from infinity."""
SHALLOW = 8
"""Fewer hidden layers are left out of the fitted powers."""
CHANCE = 10
"""Test accuracy of guessing one of ten classes, in per cent."""
FITTED, RANDOM = "prediction", "normal"
"""Targets: what the network predicts, or random numbers."""


def draw_condition_grid(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw κ over N and H, a row for each kind of network and a column for each activation; below them the slices of
    the landscape, if there are any."""
    config = record["config"]
    activations, depths = config["activations"], config["slices"]
    rows = len(labels) + len(depths)
    with style.saved_panels(path, rows, len(activations), record) as (figure, axes):
        images = []
        for column, activation in enumerate(activations):
            for row, (kind, label) in enumerate(labels.items()):
                panel = axes[row, column]
                images.append(_plot_heat_map(panel, record, kind, activation))
                panel.set_title(f"{label}, {style.written(activation)}")
            for row, depth in enumerate(depths, start=len(labels)):
                _plot_slice(axes[row, column], record, activation, depth)
        figure.colorbar(images[0], ax=axes[: len(labels)], fraction=0.03, pad=0.01, label=style.KAPPA)


def draw_extreme_eigenvalues(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw λmax above and λmin below, over hidden layers; a column for each activation, a line for each width."""
    config = record["config"]
    ylabel = r"$\lambda_{\max}$", r"$\lambda_{\min}$"
    options: Options = {"xlabel": "hidden layers H", "ylabel": ylabel, "sharex": True, "sharey": "row"}
    with style.saved_panels(path, 2, len(config["activations"]), record, **options) as (figure, axes):
        for (above, below), activation in zip(axes.T, config["activations"], strict=True):
            rows = select(record["data"], activation=activation)
            for panel, name in ((above, "largest"), (below, "smallest")):
                for width, colour in style.ramped(config["widths"]):
                    values = style.medians(select(rows, target=FITTED, width=width), "depth", name)
                    shown = {depth: value for depth, value in values.items() if value > 0}
                    style.plot_points(panel, shown, "o-", color=colour, label=f"N = {width}")
                style.size_axis(panel)
            below.set_yscale("log")
            above.set_title(style.written(activation))
            negative = select(rows, target=RANDOM, definite="indefinite")
            if negative:
                sizes = len({(row["width"], row["depth"]) for row in negative})
                below.set_title(f"$\\lambda_{{\\min}} < 0$ for a random target at {sizes} of the sizes", fontsize=9)
        style.legend_outside(figure, axes[0, 0])


def draw_condition_powers(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw κ over hidden layers for each kind, a line for each width, the power fitted to the widest dashed; and the
    time taken."""
    config = record["config"]
    widths, depths = config["widths"], config["depths"]
    with style.saved_panels(path, 1, len(labels) + 1, record, ylabel=style.KAPPA, sharex=True) as (figure, axes):
        *curves, clock = axes[0]
        for panel, (kind, label) in zip(curves, labels.items(), strict=True):
            for width, colour in style.ramped(widths):
                rows = select(record["data"], target=FITTED, kind=kind, width=width)
                kappas = {depth: _kappa(select(rows, depth=depth)) for depth in depths}
                style.plot_points(panel, kappas, "o-", color=colour, label=f"N = {width}")
            _plot_power(panel, {depth: kappa for depth, kappa in kappas.items() if kappa and depth >= SHALLOW})
            panel.set_title(label)
        for width, colour in style.ramped(widths):
            rows = select(record["data"], target=FITTED, width=width)
            style.plot_points(clock, style.medians(rows, "depth", "seconds"), color=colour)
        for panel in axes[0]:
            style.size_axis(panel, "hidden layers H")
            style.log_ticks(panel)
        clock.set(title="time for one network", ylabel="seconds")
        style.legend_outside(figure, curves[0])


def draw_activity_decay(record: Record, path: PathLike, decays: Mapping[str, float]) -> None:
    """Draw a panel of condition numbers for each activation, and one of the accuracies of the methods with `decays`."""
    activations = record["config"]["activations"]
    with style.saved_panels(path, 1, len(activations) + 1, record) as (figure, axes):
        *maps, accuracy = axes[0]
        for panel, activation in zip(maps, activations, strict=True):
            image = _plot_heat_map(panel, record, "sp", activation)
            panel.set_title(rf"$\kappa$ with $\alpha = 1$, {style.written(activation)}", fontsize=11)
        figure.colorbar(image, ax=maps[-1], fraction=0.05, label=style.KAPPA)
        best = {
            place: [100 * max(run["history"]["test_accuracy"]) for run in select(record["data"], method=method)]
            for place, method in enumerate(decays)
        }
        style.plot_error_bars(accuracy, best, fmt="o-", color=style.BLUE)
        accuracy.axhline(CHANCE, color="black", lw=1, ls=":")
        accuracy.set_xticks(range(len(decays)), [f"{decay:g}" for decay in decays.values()])
        accuracy.set(title="linear, trained", xlabel=r"activity decay $\alpha$", ylabel="best test accuracy (%)")
        accuracy.set_ylim(0, 100)


def draw_automatic_steps(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw inference steps over κ for each setting, with lines of slope ½ and 1 to compare with, and κ over depth."""
    import numpy as np

    with style.saved_panels(path, 1, 2, record) as (figure, axes):
        steps, kappa = axes[0]
        for (name, label), colour, slope in zip(labels.items(), style.COLOURS, (0.5, 1.0), strict=False):
            points = [(row["condition_number"], row[name]) for row in record["data"] if row[name]]
            if not points:
                continue
            x, y = np.array(sorted(points), float).T
            steps.loglog(x, y, "o", color=colour, label=label)
            middle = np.exp(np.mean(np.log(y)) - slope * np.mean(np.log(x)))
            steps.loglog(x, middle * x**slope, "--", color=colour, lw=1, label=f"slope {slope:g}")
        steps.set(xlabel="condition number κ", ylabel="inference steps")
        figure.legend(loc="outside right center", fontsize=9)
        style.plot_points(kappa, style.medians(record["data"], "depth", "condition_number"), "o-", color=style.GREEN)
        style.size_axis(kappa, "hidden layers H")
        kappa.set(yscale="log", ylabel="condition number κ")
        figure.suptitle(f"linear μPC networks, N = {record['config']['width']}")


def _plot_heat_map(panel: Axes, record: Record, kind: str, activation: str) -> ScalarMappable:
    """Draw κ as colours and numbers, with a star where a random target makes an eigenvalue negative."""
    import numpy as np

    widths, depths = record["config"]["widths"], record["config"]["depths"]
    values = np.full((len(depths), len(widths)), np.nan)
    texts = {}
    for place in np.ndindex(values.shape):
        size = {"depth": depths[place[0]], "width": widths[place[1]]}
        cell = select(record["data"], kind=kind, activation=activation, **size)
        kappa = _kappa(select(cell, target=FITTED))
        if kappa is not None:
            values[place] = min(kappa, LIMIT)
            star = "*" if select(cell, target=RANDOM, definite="indefinite") else ""
            texts[place] = (">1e12" if kappa >= LIMIT else style.short(kappa)) + star
    starred = any("*" in text for text in texts.values())
    found = [row["condition_number"] for row in select(record["data"], target=FITTED) if row["condition_number"]]
    top = min(LIMIT, 2 * max(found, default=10.0))
    image = style.heat_map(panel, values, widths, depths, (1, top), texts=texts)
    note = r"    * $\lambda_{\min} < 0$ for a random target" * starred
    panel.set_xlabel(f"width N{note}", fontsize=9 if starred else None)
    panel.set_ylabel("hidden layers H")
    return image


def _plot_slice(panel: Axes, record: Record, activation: str, depth: int) -> None:
    found = [row for row in select(record["data"], activation=activation, depth=depth) if "energies" in row]
    for row in found[:1]:
        span, points = row["span"], row["points"]
        plot_contours(panel, row["energies"], [span * (2 * place / (points - 1) - 1) for place in range(points)])
        low, high = row["curvatures"]
        panel.set_title(f"H = {depth}, N = {row['width']}:  $\\lambda$ = {low:.2g}, {high:.2g}", fontsize=9)
    panel.set(xlabel=r"along $v_{\min}$", ylabel=r"along $v_{\max}$")


def _plot_power(panel: Axes, kappas: Mapping[int, float]) -> None:
    """Draw the power of H that fits, at twice its height so that it does not hide the points."""
    import numpy as np

    if len(kappas) < 3:
        return
    at, kappa = np.array(list(kappas.items()), float).T
    slope, start = np.polyfit(np.log(at), np.log(kappa), 1)
    line, middle = np.exp(start) * at**slope, len(at) // 2
    panel.plot(at, 2 * line, "k--", lw=1.5)
    panel.annotate(f"$H^{{{slope:.2f}}}$", (at[middle], 2.6 * line[middle]), ha="right")


def _kappa(rows: list[Record]) -> float | None:
    """Return the median over seeds; None where one of them has a negative eigenvalue."""
    values = [math.inf if row["definite"] == "positive semidefinite" else row["condition_number"] for row in rows]
    return None if not values or None in values else statistics.median(values)
