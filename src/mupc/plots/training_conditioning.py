"""Condition numbers of inference over training, next to test accuracies."""

import statistics
from collections.abc import Iterator
from typing import Any

from . import style
from .style import ACCURACY, Axes, Colour, Labels, Options, PathLike, Record
from .training import plot_accuracy, plot_finals_over_depth, shortest_steps, trained_runs

CEILING = 1e13
"""Where a κ is drawn that float64 cannot tell from infinity."""


def draw_conditioning_over_training(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw κ above and test accuracy below, of the same runs: a column for each activation, a curve for each depth,
    and dashed the method to compare with."""
    config = record["config"]
    ylabel = style.KAPPA, ACCURACY
    options: Options = {"xlabel": "training step", "ylabel": ylabel, "sharex": True, "sharey": "row"}
    with style.saved_panels(path, 2, len(config["activations"]), record, **options) as (figure, axes):
        for (above, below), activation in zip(axes.T, config["activations"], strict=True):
            _plot_conditioning(above, record, activation)
            for method, depth, look in _lines(config):
                plot_accuracy(below, _runs(record, config, method, activation, depth), **look)
        for rates in config["rates"][1:]:
            axes[0, 0].plot([], [], "k--", label=labels[rates["method"]])
        style.accuracy_axis(axes[1, 0])
        style.legend_outside(figure, axes[0, 0])
        figure.suptitle(_title(config, labels))


def draw_conditioning_with_accuracies(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw test accuracy above, with μPC's at the greatest depth dashed; κ of smaller networks below."""
    config = record["config"]
    large, method, colours = config["accuracies"], config["rates"][0]["method"], _colours(config)
    deepest = max(large["depths"])
    mupc = f"{labels['mupc']}, H = {deepest}"
    options: Options = {"xlabel": "training step", "ylabel": (ACCURACY, style.KAPPA), "sharey": "row"}
    with style.saved_panels(path, 2, len(config["activations"]), record, **options) as (figure, axes):
        for (above, below), activation in zip(axes.T, config["activations"], strict=True):
            for depth in large["depths"]:
                runs = _runs(record, large, method, activation, depth)
                plot_accuracy(above, runs, color=colours[depth], label=f"H = {depth}")
            runs = _runs(record, large, "mupc", activation, deepest)
            plot_accuracy(above, runs, color="black", ls="--", label=mupc)
            _plot_conditioning(below, record, activation)
            above.set_title(f"{style.written(activation)}, N = {large['widths'][0]}")
            below.set_title(f"{style.written(activation)}, N = {config['widths'][0]}")
        style.accuracy_axis(axes[0, 0])
        style.legend_outside(figure, *axes[::-1, 0], order=[f"H = {depth}" for depth in colours])
        figure.suptitle(_title(config, labels))


def draw_one_step_conditioning(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw the accuracy at the end over depth, for each method; and κ over training of smaller networks."""
    config = record["config"]
    with style.saved_panels(path, 1, 2, record, size=(10.5, style.PANEL[1])) as (figure, axes):
        finals, kappa = axes[0]
        plot_finals_over_depth(finals, record, config["accuracies"], labels)
        _plot_conditioning(kappa, record, config["activations"][0])
        kappa.set(title=f"one inference step, N = {config['widths'][0]}", xlabel="training step", ylabel=style.KAPPA)
        style.legend_outside(figure, kappa)


def _plot_conditioning(panel: Axes, record: Record, activation: str) -> None:
    """Plot κ over training for each depth: the median over seeds, and a band from the least to the greatest."""
    config = record["config"]
    for method, depth, look in _lines(config):
        runs = _runs(record, config, method, activation, depth)
        if not runs:
            continue
        seeds = [run["history"]["condition_number"] for run in runs]
        at = [[CEILING if kappa is None else kappa for kappa in found] for found in zip(*seeds, strict=False)]
        panel.plot(shortest_steps(runs), [statistics.median(found) for found in at], **look)
        if len(runs) > 1 and look["ls"] == "-":
            style.fill(panel, shortest_steps(runs), list(map(min, at)), list(map(max, at)), look["color"])
    style.log_ticks(panel)
    panel.set_title(style.written(activation))


def _lines(config: Record) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield every method, depth and look: the method of the figure has solid lines and is in the legend."""
    colours = _colours(config)
    for place, rates in enumerate(config["rates"]):
        for depth in config["depths"]:
            look = {"ls": "--"} if place else {"ls": "-", "label": f"H = {depth}"}
            yield rates["method"], depth, {"color": colours[depth], **look}


def _colours(config: Record) -> dict[int, Colour]:
    """Return a colour for each depth that any panel of the figure shows."""
    return dict(style.ramped(sorted({*config["depths"], *(config["accuracies"] or config)["depths"]})))


def _runs(record: Record, config: Record, method: str, activation: str, depth: int) -> list[Record]:
    return trained_runs(record, method=method, activation=activation, depth=depth, width=config["widths"][0])


def _title(config: Record, labels: Labels) -> str:
    return f"{labels[config['rates'][0]['method']]}, {style.written(config['data'])}"
