"""Activities over inference: how far from the exact solution, and how large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import style

Record = dict[str, Any]
STARTS = {"forward": "forward start", "random": "N(0, 1) start"}
COLOURS = dict(zip(("mupc", "sp"), style.COLOURS, strict=False))
GREY = "#666666"
FAR = 0.5


def draw_chain_dynamics(record: Record, path: Path, name: str) -> None:
    """Columns for the two starts; above the distance over steps for each step size, below one chain over its layers."""
    rates, depth = record["config"]["rates"], record["config"]["hidden_layers"]
    layers = range(1, depth + 1)
    with style.panels(2, len(STARTS), sharey="row") as (figure, axes):
        for column, (start, label) in enumerate(STARTS.items()):
            above, below = axes[:, column]
            for rate, colour in zip(rates, style.ramp(len(rates)), strict=True):
                for row in _rows(record, start=start, rate=rate):
                    steps, low, high = row["steps"], _finite(row["low"]), _finite(row["high"])
                    above.plot(
                        steps, _finite(row["median"]), color=colour, label=rf"$\beta\lambda_{{\max}}$ = {rate:g}"
                    )
                    above.fill_between(steps, low, high, color=colour, alpha=style.BAND, lw=0)
                    below.plot(layers, _finite(row["example"]["end"]), color=colour, lw=1.5)
            for row in _rows(record, start=start)[:1]:
                example = row["example"]
                below.plot(layers, example["start"], ":", color=GREY, lw=1.5, label="start")
                below.plot(layers, example["solution"], "--", color="black", lw=1.5, label="exact solution $z^*$")
            _step_axis(above, depth, record["config"]["beyond"] * depth)
            above.axhline(FAR, color=GREY, lw=1, ls=":")
            above.set_ylim(0, 1.05)
            above.set_title(f"{name}, {label}")
            below.set_title(f"one chain after {depth} steps, colours as above", fontsize=10)
            below.set_xlabel(r"layer $\ell$")
        axes[0, 0].set_ylabel("distance to $z^*$, relative to start\nmedian, quartiles over seeds", fontsize=9)
        axes[1, 0].set_ylabel(r"activity $z_\ell$")
        _legend(axes[0, 0], loc="lower left")
        _legend(axes[1, 0], loc="lower left")
        style.label_preset(figure, record["preset"])
        style.save(figure, path)


def draw_network_dynamics(record: Record, path: Path, labels: Mapping[str, str], layers: Sequence[int]) -> None:
    """Columns for the step sizes. A row for each method: norms of some layers over steps, dashed where the exact
    solution has them. In the last row all methods: the distance to that solution, or else the movement."""
    config = record["config"]
    depth, betas, linear = config["hidden_layers"], config["betas"], config["activation"] == "linear"
    colours = style.ramp(len(layers))
    with style.panels(len(labels) + 1, len(betas), sharex=True, sharey="row") as (figure, axes):
        for column, beta in enumerate(betas):
            for row, (method, label) in enumerate(labels.items()):
                panel, runs = axes[row, column], _rows(record, method=method)
                for place in reversed(range(len(layers))):
                    norms = [[at[place] for at in run["norms"][column]] for run in runs]
                    _mean(panel, runs, norms, color=colours[place], label=rf"$\ell$ = {layers[place]}")
                    exact = [run["solution_norms"][place] for run in runs if linear]
                    if exact:
                        panel.axhline(sum(exact) / len(exact), color=colours[place], ls="--", lw=1.2)
                panel.set_title(f"{label}, {style.written(config['activation'])}, β = {beta:g}")
                measured = [run["distance" if linear else "movement"][column] for run in runs]
                _mean(axes[-1, column], runs, measured, since=0 if linear else 1, color=COLOURS[method], label=label)
            axes[-1, column].set_title(f"all layers, β = {beta:g}")
            for panel in axes[:, column]:
                style.log_ticks(panel)
                _step_axis(panel, depth, config["beyond"] * depth)
                panel.label_outer()
        if linear:
            for panel in axes[:-1, -1]:
                panel.plot([], [], "--", color=GREY, lw=1.2, label="exact")
        for panel in axes[:-1, 0]:
            panel.set_ylabel(r"$\|z_\ell\|$, mean over samples")
        axes[-1, 0].set_ylabel(r"$\|z - z^*\|\,/\,\|z^*\|$" if linear else r"$\|z - z_{fwd}\|\,/\,\|z_{fwd}\|$")
        for panel in axes[:, -1]:
            _legend(panel, loc="center left", bbox_to_anchor=(1, 0.5))
        style.label_preset(figure, record["preset"])
        style.save(figure, path)


def _rows(record: Record, **wanted: object) -> list[Record]:
    return [row for row in record["data"] if all(row[name] == value for name, value in wanted.items())]


def _finite(values: Sequence[float | None]) -> list[float]:
    """A saved curve, in which None stands for what was not finite and cannot be drawn."""
    return [float("nan") if value is None else value for value in values]


def _mean(panel: Any, runs: Sequence[Record], curves: Sequence[Sequence[Any]], since: int = 0, **options: Any) -> None:
    """The mean over seeds ± a standard deviation, from a checkpoint on."""
    if runs:
        style.band(panel, runs[0]["steps"][since:], [_finite(curve)[since:] for curve in curves], **options)


def _step_axis(panel: Any, depth: int, last: int) -> None:
    """Steps from 0 on, logarithmic beyond 1, with a line where the paper stops."""
    ticks = [0, 1, *(4**k for k in range(1, 10) if 4**k <= last)]
    panel.set_xscale("symlog", base=2, linthresh=1)
    panel.set_xticks(ticks, [str(tick) for tick in ticks])
    panel.set_xlabel("inference step")
    panel.axvline(depth, color=GREY, lw=1, ls=":", label="T = H")


def _legend(panel: Any, **options: Any) -> None:
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=8, **options)
