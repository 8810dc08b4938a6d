"""The loss divided by the energy at equilibrium: over width and depth, and over training."""

import statistics

from . import style
from .style import Labels, PathLike, Record
from .training import shortest_steps

RATIO = "loss / energy at equilibrium"
MOMENTS = {"$t = 0$": None, "after a tenth of training": 0.1, "at the end": 1.0}
"""Titles of the maps, and the part of training that has passed; None is before training."""


def draw_ratio_maps(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw the ratio over N and H: at initialisation, after a tenth of training, and at the end."""
    import numpy as np

    config = record["config"]
    depths = config["depths"]
    grids = {}
    for title, moment in MOMENTS.items():
        widths = config["initial_widths"] if moment is None else config["widths"]
        values = [[_ratio(record, width, depth, moment) for width in widths] for depth in depths]
        grids[title] = (widths, np.array(values, float))
    top = max(np.nanmax(grid, initial=1.1) for _, grid in grids.values())
    ratios = [len(widths) for widths, _ in grids.values()]
    with style.saved_panels(path, 1, len(grids), preset=record["preset"], width_ratios=ratios) as (figure, axes):
        for panel, (title, (widths, grid)) in zip(axes[0], grids.items(), strict=True):
            texts = {place: _short(value) for place, value in np.ndenumerate(grid) if np.isfinite(value)}
            image = style.heat_map(panel, grid, widths, depths, (1, top), texts=texts)
            panel.tick_params(axis="x", labelsize=9)
            panel.set(xlabel="width N", title=title)
        axes[0, 0].set_ylabel("hidden layers H")
        figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01).set_label(RATIO)
        figure.suptitle(f"{next(iter(labels.values()))}, {style.written(config['data'])}", fontsize=12)


def draw_ratio_curves(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw the ratio over training: a panel for each method, a curve for each width."""
    config = record["config"]
    depth = config["depths"][0]
    columns = len(labels)
    with style.saved_panels(path, 1, columns, preset=record["preset"], sharex=True, sharey=True) as (figure, axes):
        for panel, (method, name) in zip(axes[0], labels.items(), strict=True):
            for width, colour in style.ramped(config["widths"]):
                rows = style.select(record["data"], width=width, depth=depth, method=method)
                runs = [row for row in rows if "history" in row]
                starts = [row["ratio"] for row in rows if "ratio" in row]
                if runs and starts:
                    curves = [[start, *_curve(run)] for start, run in zip(starts, runs, strict=False)]
                    style.plot_band(panel, shortest_steps(runs), curves, color=colour, label=f"N = {width}")
            panel.axhline(1, color="black", lw=1, ls=":")
            panel.set(title=f"{name}, H = {depth}", xlabel="training step")
            style.log_ticks(panel)
        axes[0, 0].set_ylabel(RATIO)
        style.legend_outside(figure, axes[0, 0])


def _curve(run: Record) -> list[float]:
    history = run["history"]
    return [loss / energy for loss, energy in zip(history["train_loss"][1:], history["energy"][1:], strict=True)]


def _ratio(record: Record, width: int, depth: int, moment: float | None) -> float:
    """Return the median over seeds after a part of training; NaN if there is none."""
    rows = style.select(record["data"], width=width, depth=depth)
    if moment is None:
        found = [row["ratio"] for row in rows if row.get("ratio") is not None]
    else:
        curves = [_curve(row) for row in style.select(rows, diverged=False) if "history" in row]
        found = [curve[round(moment * (len(curve) - 1))] for curve in curves if curve]
    return statistics.median(found) if found else float("nan")


def _short(value: float) -> str:
    """Write a number as 1.23, 35 or 2e4."""
    return f"{value:.2f}" if value < 10 else f"{value:.0f}" if value < 1e4 else style.scientific(value)
