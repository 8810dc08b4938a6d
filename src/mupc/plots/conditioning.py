"""Condition numbers and extreme eigenvalues over width and depth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import style
from .landscape import contours

Record = dict[str, Any]
LIMIT = 1e12
"""Beyond this, κ is not told from infinity in float64."""
SHALLOW = 8
FITTED, RANDOM = "prediction", "normal"


def draw_condition_grid(record: Record, path: Path, labels: Mapping[str, str]) -> None:
    """A row for each kind of network with κ over N and H, a column for each activation; slices of the landscape below
    where there are any."""
    config = record["config"]
    activations, depths = config["activations"], config["slices"]
    rows = len(labels) + len(depths)
    with style.panels(rows, len(activations)) as (figure, axes):
        images = []
        for column, activation in enumerate(activations):
            for row, (kind, label) in enumerate(labels.items()):
                panel = axes[row, column]
                images.append(heat(panel, record, kind, activation))
                panel.set_title(f"{label}, {style.written(activation)}")
            for row, depth in enumerate(depths, start=len(labels)):
                _slice(axes[row, column], record, activation, depth)
        bar = figure.colorbar(images[0], ax=axes[: len(labels)], fraction=0.03, pad=0.01)
        bar.set_label(r"condition number $\kappa$")
        style.label_preset(figure, record["preset"])
        style.save(figure, path)


def draw_extreme_eigenvalues(record: Record, path: Path, labels: Mapping[str, str]) -> None:
    """λmax above, λmin below, over hidden layers; a column for each activation, a line for each width."""
    config = record["config"]
    widths = config["widths"]
    names = {"largest": r"$\lambda_{\max}$", "smallest": r"$\lambda_{\min}$"}
    with style.panels(2, len(config["activations"]), sharex=True, sharey="row") as (figure, axes):
        for column, activation in enumerate(config["activations"]):
            for panel, (name, symbol) in zip(axes[:, column], names.items(), strict=True):
                for width, colour in zip(widths, style.ramp(len(widths)), strict=True):
                    values = {
                        depth: _median(record, name, activation=activation, width=width, depth=depth)
                        for depth in config["depths"]
                    }
                    shown = {depth: value for depth, value in values.items() if value is not None and value > 0}
                    panel.plot(list(shown), list(shown.values()), "o-", color=colour, label=f"N = {width}")
                panel.set_xscale("log", base=2)
                panel.set_yscale("log" if name == "smallest" else "linear")
                if column == 0:
                    panel.set_ylabel(symbol)
            axes[0, column].set_title(style.written(activation))
            axes[1, column].set_xlabel("hidden layers H")
            lost = _negative(record, activation)
            if lost:
                note = f"$\\lambda_{{\\min}} < 0$ for a random target at {lost} of the sizes"
                axes[1, column].set_title(note, fontsize=9)
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center")
        style.label_preset(figure, record["preset"])
        style.save(figure, path)


def draw_condition_powers(record: Record, path: Path, labels: Mapping[str, str]) -> None:
    """κ over hidden layers for each kind, a line for each width, the fit to the widest dashed; and the time taken."""
    import numpy as np

    config = record["config"]
    widths, depths = config["widths"], config["depths"]
    colours = style.ramp(len(widths))
    with style.panels(1, len(labels) + 1, sharex=True) as (figure, axes):
        *curves, clock = axes[0]
        for panel, (kind, label) in zip(curves, labels.items(), strict=True):
            for width, colour in zip(widths, colours, strict=True):
                values = {depth: _kappa(record, kind=kind, width=width, depth=depth) for depth in depths}
                shown = {depth: value for depth, value in values.items() if value is not None}
                panel.plot(list(shown), list(shown.values()), "o-", color=colour, label=f"N = {width}")
            fitted = [(depth, value) for depth, value in shown.items() if depth >= SHALLOW]
            if len(fitted) > 2:
                at, kappa = np.array(fitted, float).T
                slope, start = np.polyfit(np.log(at), np.log(kappa), 1)
                line = np.exp(start) * at**slope
                panel.plot(at, 2 * line, "k--", lw=1.5)
                panel.annotate(f"$H^{{{slope:.2f}}}$", (at[len(at) // 2], 2.6 * line[len(at) // 2]), ha="right")
            panel.set_title(label)
        for width, colour in zip(widths, colours, strict=True):
            times = {d: _median(record, "seconds", width=width, depth=d) for d in depths}
            clock.plot([d for d in depths if times[d]], [t for t in times.values() if t], color=colour)
        for panel in axes[0]:
            panel.set_xscale("log", base=2)
            style.log_ticks(panel)
            panel.set_xlabel("hidden layers H")
        axes[0, 0].set_ylabel(r"condition number $\kappa$")
        clock.set_title("time for one network")
        clock.set_ylabel("seconds")
        figure.legend(*curves[0].get_legend_handles_labels(), loc="outside right center")
        style.label_preset(figure, record["preset"])
        style.save(figure, path)


def heat(panel: Any, record: Record, kind: str, activation: str) -> Any:
    """κ as colour and, in each field, as a number; with a star where a random target makes an eigenvalue negative."""
    import numpy as np

    widths, depths = record["config"]["widths"], record["config"]["depths"]
    values = np.full((len(depths), len(widths)), np.nan)
    texts, starred = {}, False
    for row, depth in enumerate(depths):
        for column, width in enumerate(widths):
            where = {"kind": kind, "activation": activation, "width": width, "depth": depth}
            kappa = _kappa(record, **where)
            if kappa is None:
                continue
            values[row, column] = min(kappa, LIMIT)
            star = any(found["definite"] == "indefinite" for found in _rows(record, RANDOM, **where))
            starred |= star
            texts[row, column] = (">1e12" if kappa >= LIMIT else _short(kappa)) + "*" * star
    image = style.heat_map(panel, values, widths, depths, (1, _top(record)), texts=texts)
    panel.set_xlabel(
        "width N" + r"    * $\lambda_{\min} < 0$ for a random target" * starred, fontsize=9 if starred else None
    )
    panel.set_ylabel("hidden layers H")
    return image


def _slice(panel: Any, record: Record, activation: str, depth: int) -> None:
    found = [
        row for row in record["data"] if "energies" in row and (row["activation"], row["depth"]) == (activation, depth)
    ]
    for row in found[:1]:
        span, points = row["span"], row["points"]
        axis = [span * (2 * place / (points - 1) - 1) for place in range(points)]
        contours(panel, row["energies"], axis)
        low, high = row["curvatures"]
        panel.set_title(f"H = {depth}, N = {row['width']}:  $\\lambda$ = {low:.2g}, {high:.2g}", fontsize=9)
    panel.set_xlabel(r"along $v_{\min}$")
    panel.set_ylabel(r"along $v_{\max}$")


def _rows(record: Record, target: str = FITTED, **where: Any) -> list[Record]:
    rows = [row for row in record["data"] if row.get("target") == target]
    return [row for row in rows if all(row[name] == value for name, value in where.items())]


def _median(record: Record, name: str, **where: Any) -> float | None:
    values = [row[name] for row in _rows(record, **where) if row[name] is not None]
    return statistics.median(values) if values else None


def _kappa(record: Record, **where: Any) -> float | None:
    """The median over seeds; None where one of them has a negative eigenvalue."""
    rows = _rows(record, **where)
    values = [math.inf if row["definite"] == "positive semidefinite" else row["condition_number"] for row in rows]
    return None if not values or None in values else statistics.median(values)


def _negative(record: Record, activation: str) -> int:
    rows = [row for row in _rows(record, RANDOM, activation=activation) if row["definite"] == "indefinite"]
    return len({(row["width"], row["depth"]) for row in rows})


def _top(record: Record) -> float:
    values = [row["condition_number"] for row in _rows(record) if row["condition_number"]]
    return min(LIMIT, 2 * max(values, default=10.0))


def _short(value: float) -> str:
    """2.3, 35, 470, 9e3 …"""
    if value < 1000:
        return f"{value:.2g}" if value < 100 else f"{value:.0f}"
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"
