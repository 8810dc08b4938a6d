"""Activities: the size of the forward pass, and how far inference moves them."""

from collections.abc import Sequence
from typing import Any

from . import style
from .style import GREY, Axes, Labels, PathLike, Record, numbers, select

FORWARD_PANELS = {"sp": "SP, skips", "orthogonal": "orthogonal, no skips", "mupc": "Depth-μP, skips"}
LOOKS = {
    "linear": {"marker": "o", "color": style.BLUE},
    "tanh": {"marker": "s", "color": style.RED},
    "relu": {"marker": "^", "color": style.GREEN},
}
STARTS = {"forward": "forward start", "random": "N(0, 1) start"}
COLOURS = {"mupc": style.BLUE, "sp": style.RED}
CHAIN_SIZE = (9.0, 5.8)
"""Width and height of the figure of chains, in inches."""
FAR = 0.5
"""The distance, relative to the start, up to which inference counts as far from the solution."""


def draw_forward_pass(record: Record, path: PathLike) -> None:
    """Draw a panel for each parameterisation: mean |z| of the last hidden layer over the number of layers."""
    depths = sorted(record["config"]["layers"])
    with style.saved_panels(path, 1, len(FORWARD_PANELS), record, sharex=True) as (figure, axes):
        for panel, (kind, label) in zip(axes[0], FORWARD_PANELS.items(), strict=True):
            for activation in record["config"]["activations"]:
                rows = style.select(record["data"], kind=kind, activation=activation)
                sizes = {layers: _size(rows, layers) or None for layers in depths}
                style.plot_points(panel, sizes, label=style.written(activation), **LOOKS[activation])
            style.size_axis(panel, "layers L")
            panel.set(yscale="log", title=label)
        axes[0, -1].set_ylim(0.1, 10)
        axes[0, 0].set_ylabel("mean |z|, last hidden layer")
        style.legend_outside(figure, axes[0, 0])


def draw_chain_dynamics(record: Record, path: PathLike, name: str) -> None:
    """Draw columns for the two starts: above the distance over steps for each step size, below one chain over its
    layers."""
    config = record["config"]
    depth = config["hidden_layers"]
    layers = range(1, depth + 1)
    with style.saved_panels(path, 2, len(STARTS), record, size=CHAIN_SIZE, sharey="row") as (figure, axes):
        for column, (start, label) in enumerate(STARTS.items()):
            above, below = axes[:, column]
            rows = select(record["data"], start=start)
            for rate, colour in style.ramped(config["rates"]):
                for row in select(rows, rate=rate):
                    named = rf"$\beta\lambda_{{\max}}$ = {rate:g}"
                    above.plot(row["steps"], numbers(row["median"]), color=colour, label=named)
                    style.fill(above, row["steps"], numbers(row["low"]), numbers(row["high"]), colour)
                    below.plot(layers, numbers(row["example"]["end"]), color=colour, lw=1.5)
            for row in rows[:1]:
                below.plot(layers, row["example"]["start"], ":", color=GREY, lw=1.5, label="start")
                exact = row["example"]["solution"]
                below.plot(layers, exact, "--", color="black", lw=1.5, label="exact solution $z^*$")
            _step_axis(above, depth, config["beyond"] * depth)
            above.axhline(FAR, color=GREY, lw=1, ls=":")
            above.set(ylim=(0, 1.05), title=f"{name}, {label}")
            below.set_title(f"one chain after {depth} steps, colours as above", fontsize=10)
            below.set_xlabel(r"layer $\ell$")
        axes[0, 0].set_ylabel("distance to $z^*$, relative to start\nmedian, quartiles over seeds", fontsize=9)
        axes[1, 0].set_ylabel(r"activity $z_\ell$")
        style.legend_outside(figure, *axes[:, 0], fontsize=9)


def draw_network_dynamics(record: Record, path: PathLike, labels: Labels, layers: Sequence[int]) -> None:
    """Draw a column for each step size. A row for each method has the norms of some layers over steps, dashed for the
    exact solution. The last row has all methods: the distance to that solution, or else the movement."""
    config = record["config"]
    depth, betas, linear = config["hidden_layers"], config["betas"], config["activation"] == "linear"
    panels = style.saved_panels(path, len(labels) + 1, len(betas), record, sharex=True, sharey="row")
    with panels as (_, axes):
        for column, beta in enumerate(betas):
            for row, (method, label) in enumerate(labels.items()):
                panel, runs = axes[row, column], select(record["data"], method=method)
                for place, (layer, colour) in reversed(list(enumerate(style.ramped(layers)))):
                    norms = [[at[place] for at in run["norms"][column]] for run in runs]
                    _plot_mean(panel, runs, norms, color=colour, label=rf"$\ell$ = {layer}")
                    exact = [run["solution_norms"][place] for run in runs if linear]
                    if exact:
                        panel.axhline(sum(exact) / len(exact), color=colour, ls="--", lw=1.2)
                panel.set_title(f"{label}, {style.written(config['activation'])}, β = {beta:g}")
                measured = [run["distance" if linear else "movement"][column] for run in runs]
                since = 0 if linear else 1
                _plot_mean(axes[-1, column], runs, measured, since, color=COLOURS[method], label=label)
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
            panel.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)


def _plot_mean(
    panel: Axes, runs: Sequence[Record], curves: Sequence[Sequence[Any]], since: int = 0, **look: Any
) -> None:
    """Plot the mean over seeds from the step with number `since` on."""
    if runs:
        style.plot_band(panel, runs[0]["steps"][since:], [numbers(curve)[since:] for curve in curves], **look)


def _step_axis(panel: Axes, depth: int, last: int) -> None:
    """Make the x axis one for steps from 0, logarithmic above 1, with a line where the paper stops."""
    ticks = [0, 1, *(4**k for k in range(1, 10) if 4**k <= last)]
    panel.set_xscale("symlog", base=2, linthresh=1)
    panel.set_xticks(ticks, [str(tick) for tick in ticks])
    panel.set_xlabel("inference step")
    panel.axvline(depth, color=GREY, lw=1, ls=":", label="T = H")


def _size(rows: list[Record], layers: int) -> float | None:
    """Return the size in the network with this many layers, or else after as many layers of a deeper one."""
    found = style.select(rows, layers=layers) or [row for row in rows if row["layers"] > layers]
    return found[0]["sizes"][layers - 2] if found else None
