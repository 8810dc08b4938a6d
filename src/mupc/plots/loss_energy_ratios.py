"""The loss over the equilibrated energy: over width and depth, and over training."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import style

Record = dict[str, Any]


def draw_ratio_maps(record: Record, path: Path, names: Mapping[str, str]) -> None:
    """The ratio over N and H: at initialisation, after a tenth of training, and at the end."""
    import numpy as np

    config = record["config"]
    depths = config["depths"]
    moments = {"$t = 0$": None, "after a tenth of training": 0.1, "at the end": 1.0}
    grids = {}
    for title, moment in moments.items():
        widths = config["initial_widths"] if moment is None else config["widths"]
        values = [[_ratio(record, width, depth, moment) for width in widths] for depth in depths]
        grids[title] = (widths, np.array(values, float))
    top = max(np.nanmax(grid, initial=1.1) for _, grid in grids.values())
    with style.panels(1, len(grids), width_ratios=[len(widths) for widths, _ in grids.values()]) as (figure, axes):
        for panel, (title, (widths, grid)) in zip(axes[0], grids.items(), strict=True):
            texts = {place: _short(value) for place, value in np.ndenumerate(grid) if np.isfinite(value)}
            image = style.heat_map(panel, grid, widths, depths, (1, top), texts=texts)
            panel.tick_params(axis="x", labelsize=9)
            panel.set_xlabel("width N")
            panel.set_title(title)
        axes[0, 0].set_ylabel("hidden layers H")
        figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01).set_label("loss / energy at equilibrium")
        figure.suptitle(f"{next(iter(names.values()))}, {style.written(config['data'])}", fontsize=12)
        style.label_preset(figure, record["preset"])
        style.save(figure, path)


def draw_ratio_curves(record: Record, path: Path, names: Mapping[str, str]) -> None:
    """A panel for each method, a curve for each width."""
    config = record["config"]
    widths, depth = config["widths"], config["depths"][0]
    with style.panels(1, len(names), sharex=True, sharey=True) as (figure, axes):
        for panel, (method, name) in zip(axes[0], names.items(), strict=True):
            for width, colour in zip(widths, style.ramp(len(widths)), strict=True):
                runs = [row for row in _rows(record, width, depth, method) if "history" in row]
                starts = [row["ratio"] for row in _rows(record, width, depth, method) if "ratio" in row]
                if not (runs and starts):
                    continue
                steps = min((run["history"]["step"] for run in runs), key=len)
                curves = [[start, *_curve(run)] for start, run in zip(starts, runs, strict=False)]
                style.band(panel, steps, curves, color=colour, label=f"N = {width}")
            panel.axhline(1, color="black", lw=1, ls=":")
            panel.set_title(f"{name}, H = {depth}")
            panel.set_xlabel("training step")
            style.log_ticks(panel)
        axes[0, 0].set_ylabel("loss / energy at equilibrium")
        handles = axes[0, 0].get_legend_handles_labels()
        if handles[0]:
            figure.legend(*handles, loc="outside right center")
        style.label_preset(figure, record["preset"])
        style.save(figure, path)


def _rows(record: Record, width: int, depth: int, method: str | None = None) -> list[Record]:
    rows = [row for row in record["data"] if (row["width"], row["depth"]) == (width, depth)]
    return [row for row in rows if method in (None, row["method"])]


def _curve(run: Record) -> list[float]:
    history = run["history"]
    return [loss / energy for loss, energy in zip(history["train_loss"][1:], history["energy"][1:], strict=True)]


def _ratio(record: Record, width: int, depth: int, moment: float | None) -> float:
    """The median over seeds at a part of training; None is before it."""
    rows = _rows(record, width, depth)
    if moment is None:
        found = [row["ratio"] for row in rows if row.get("ratio") is not None]
    else:
        curves = [_curve(row) for row in rows if "history" in row and not row["diverged"]]
        found = [curve[round(moment * (len(curve) - 1))] for curve in curves if curve]
    return statistics.median(found) if found else float("nan")


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}" if value < 1e4 else f"{value:.0e}".replace("e+0", "e")
