"""Condition numbers and extreme eigenvalues over width and depth."""

import math
import statistics
from collections.abc import Mapping

from . import style
from .landscape import plot_contours
from .style import Axes, Labels, PathLike, Record, ScalarMappable, select

LIMIT = 1e12
"""Above this, float64 cannot tell κ from infinity."""
SHALLOW = 8
"""Fewer hidden layers are left out of the fitted powers."""
FITTED, RANDOM = "prediction", "normal"
"""Targets: what the network predicts, or random numbers."""


def draw_condition_grid(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw κ over N and H, a row for each kind of network and a column for each activation; below them the slices of
    the landscape, if there are any."""
    config = record["config"]
    activations, depths = config["activations"], config["slices"]
    rows = len(labels) + len(depths)
    with style.saved_panels(path, rows, len(activations), preset=record["preset"]) as (figure, axes):
        images = []
        for column, activation in enumerate(activations):
            for row, (kind, label) in enumerate(labels.items()):
                panel = axes[row, column]
                images.append(condition_heat_map(panel, record, kind, activation))
                panel.set_title(f"{label}, {style.written(activation)}")
            for row, depth in enumerate(depths, start=len(labels)):
                _plot_slice(axes[row, column], record, activation, depth)
        bar = figure.colorbar(images[0], ax=axes[: len(labels)], fraction=0.03, pad=0.01)
        bar.set_label(r"condition number $\kappa$")


def draw_extreme_eigenvalues(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw λmax above and λmin below, over hidden layers; a column for each activation, a line for each width."""
    config = record["config"]
    columns = len(config["activations"])
    with style.saved_panels(path, 2, columns, preset=record["preset"], sharex=True, sharey="row") as (figure, axes):
        for column, activation in enumerate(config["activations"]):
            above, below = axes[:, column]
            for panel, name in ((above, "largest"), (below, "smallest")):
                for width, colour in style.ramped(config["widths"]):
                    rows = select(record["data"], target=FITTED, activation=activation, width=width)
                    values = {depth: _median(rows, name, depth) for depth in config["depths"]}
                    shown = {depth: value for depth, value in values.items() if value is not None and value > 0}
                    style.plot_points(panel, shown, "o-", color=colour, label=f"N = {width}")
                style.size_axis(panel)
            below.set_yscale("log")
            above.set_title(style.written(activation))
            below.set_xlabel("hidden layers H")
            negative = select(record["data"], target=RANDOM, activation=activation, definite="indefinite")
            if negative:
                sizes = len({(row["width"], row["depth"]) for row in negative})
                below.set_title(f"$\\lambda_{{\\min}} < 0$ for a random target at {sizes} of the sizes", fontsize=9)
        axes[0, 0].set_ylabel(r"$\lambda_{\max}$")
        axes[1, 0].set_ylabel(r"$\lambda_{\min}$")
        style.legend_outside(figure, axes[0, 0])


def draw_condition_powers(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw κ over hidden layers for each kind, a line for each width, the power fitted to the widest dashed; and the
    time taken."""
    config = record["config"]
    widths, depths = config["widths"], config["depths"]
    with style.saved_panels(path, 1, len(labels) + 1, preset=record["preset"], sharex=True) as (figure, axes):
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
            style.plot_points(clock, {depth: _median(rows, "seconds", depth) for depth in depths}, color=colour)
        for panel in axes[0]:
            style.size_axis(panel, "hidden layers H")
            style.log_ticks(panel)
        axes[0, 0].set_ylabel(r"condition number $\kappa$")
        clock.set(title="time for one network", ylabel="seconds")
        style.legend_outside(figure, curves[0])


def condition_heat_map(panel: Axes, record: Record, kind: str, activation: str) -> ScalarMappable:
    """Draw κ as colours and numbers, with a star where a random target makes an eigenvalue negative."""
    import numpy as np

    widths, depths = record["config"]["widths"], record["config"]["depths"]
    values = np.full((len(depths), len(widths)), np.nan)
    rows = select(record["data"], kind=kind, activation=activation)
    texts: dict[tuple[int, ...], str] = {}
    starred = False
    for row, depth in enumerate(depths):
        for column, width in enumerate(widths):
            cell = select(rows, width=width, depth=depth)
            kappa = _kappa(select(cell, target=FITTED))
            if kappa is None:
                continue
            values[row, column] = min(kappa, LIMIT)
            star = bool(select(cell, target=RANDOM, definite="indefinite"))
            starred |= star
            texts[row, column] = (">1e12" if kappa >= LIMIT else _short(kappa)) + "*" * star
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


def _median(rows: list[Record], name: str, depth: int) -> float | None:
    values = [row[name] for row in rows if row["depth"] == depth and row[name] is not None]
    return statistics.median(values) if values else None


def _kappa(rows: list[Record]) -> float | None:
    """Return the median over seeds; None where one of them has a negative eigenvalue."""
    values = [math.inf if row["definite"] == "positive semidefinite" else row["condition_number"] for row in rows]
    return None if not values or None in values else statistics.median(values)


def _short(value: float) -> str:
    """Write a number as 2.3, 35, 470 or 9e3."""
    return f"{value:.2g}" if value < 100 else f"{value:.0f}" if value < 1000 else style.scientific(value)
