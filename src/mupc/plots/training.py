"""Test accuracy of training runs: over depth, over epochs, over width."""

import statistics
from typing import Any

from . import style
from .style import Axes, Labels, Number, PathLike, Record

COLOURS = {"mupc": style.BLUE, "sp": style.RED, "bp": style.GREEN}


def draw_accuracy_over_depth(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw a panel for each method (columns) and activation (rows), a curve for each depth."""
    config, methods = record["config"], _methods(record["config"])
    activations = config["activations"]
    options = {"preset": record["preset"], "sharex": True, "sharey": True}
    with style.saved_panels(path, len(activations), len(methods), **options) as (_, axes):
        for row, activation in enumerate(activations):
            for column, method in enumerate(methods):
                panel = axes[row, column]
                for depth, colour in style.ramped(config["depths"]):
                    runs = trained_runs(record, method=method, activation=activation, depth=depth)
                    plot_accuracy(panel, runs, "step", color=colour, label=f"H = {depth}")
                what = f", {style.written(activation)}" if len(activations) > 1 else ""
                panel.set_title(labels[method] + what)
                accuracy_axis(panel, labelled=column == 0)
        for panel in axes[-1]:
            panel.set_xlabel("training step")
        style.legend_inside(axes[0, 0], loc="lower right")


def draw_accuracy_over_epochs(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw one panel with a curve for each method."""
    config = record["config"]
    with style.saved_panels(path, preset=record["preset"]) as (_, ((panel,),)):
        trained = []
        for method in _methods(config):
            runs = trained_runs(record, method=method)
            plot_accuracy(panel, runs, "epoch", color=COLOURS[method], label=labels[method])
            trained += [100 * value for run in runs for value in run["history"]["test_accuracy"][1:]]
        panel.set(title=f"{style.written(config['data'])}, H = {max(config['depths'])}", xlabel="epoch")
        accuracy_axis(panel)
        if trained:  # the untrained network, at chance, would flatten everything that follows
            panel.set_ylim(max(0, min(trained) - 1), max(trained) + 0.5)
        style.legend_inside(panel, loc="lower right")


def draw_accuracy_over_width(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw accuracy over training for each width, and at the end over width."""
    config = record["config"]
    with style.saved_panels(path, 1, 2, preset=record["preset"]) as (figure, axes):
        curves, ends = axes[0]
        for width, colour in style.ramped(config["widths"]):
            runs = trained_runs(record, method="mupc", width=width)
            plot_accuracy(curves, runs, "step", color=colour, label=f"N = {width}")
            style.plot_error_bars(ends, {width: _finals(runs)}, fmt="o", color=colour)
        curves.set_xlabel("training step")
        accuracy_axis(curves)
        style.legend_inside(curves, loc="lower right")
        style.size_axis(ends, "width N")
        ends.set_ylabel("final test accuracy (%)")
        figure.suptitle(f"{labels['mupc']}, H = {max(config['depths'])}")


def draw_solver_comparison(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw accuracy over epochs for each method, and at the end over what a step costs."""
    config = record["config"]
    methods, end = _methods(config), config["epochs"]
    with style.saved_panels(path, 1, 2, preset=record["preset"], sharey=True) as (figure, axes):
        curves, costs = axes[0]
        ends: list[Number] = []
        for method, colour in zip(methods, style.cycle(len(methods)), strict=True):
            runs = [_until(run, end) for run in trained_runs(record, method=method)]
            if not runs:
                continue
            plot_accuracy(curves, runs, "epoch", color=colour, label=labels[method])
            finals = [100 * run["history"]["test_accuracy"][-1] for run in runs]
            ends += finals
            milliseconds = 1e3 * statistics.median(run["seconds_per_step"] for run in runs)
            style.plot_error_bars(costs, {milliseconds: finals}, fmt="o", color=colour, ms=7)
        accuracy_axis(curves)
        if ends:
            curves.set_ylim(min(ends) - 6, max(ends) + 1)
        curves.set(title=f"N = {config['widths'][0]}, H = {max(config['depths'])}", xlabel="epoch")
        costs.set(title=f"after {end:g} epochs", xlabel="time per step (ms)")
        costs.set_xlim(left=0)
        style.legend_outside(figure, curves)


def plot_finals_over_depth(panel: Axes, record: Record, config: Record, labels: Labels) -> None:
    """Plot the accuracy at the end over depth, for each method of a config."""
    depths, width = config["depths"], config["widths"][0]
    for method, colour in zip(_methods(config), style.COLOURS, strict=False):
        runs = {depth: trained_runs(record, method=method, depth=depth, width=width) for depth in depths}
        finals = {depth: _finals(found) for depth, found in runs.items()}
        style.plot_error_bars(panel, finals, fmt="o-", color=colour, label=labels[method])
    style.size_axis(panel, "hidden layers H", depths)
    panel.set(ylabel="final test accuracy (%)", title=f"{style.written(config['data'])}, N = {width}")
    panel.legend(loc="best")


def trained_runs(record: Record, **wanted: object) -> list[Record]:
    """Return the runs with these values, without those that only tuned learning rates."""
    return [row for row in style.select(record["data"], **wanted) if "history" in row]


def shortest_steps(runs: list[Record], axis: str = "step") -> list[Number]:
    """Return the steps, or epochs, that all runs reached."""
    return min((run["history"][axis] for run in runs), key=len)


def plot_accuracy(panel: Axes, runs: list[Record], axis: str, **look: Any) -> None:
    """Plot test accuracy over training, with a cross at the end if a run diverged."""
    if not runs:
        return
    steps = shortest_steps(runs, axis)
    accuracies = [[100 * value for value in run["history"]["test_accuracy"]] for run in runs]
    style.plot_band(panel, steps, accuracies, **look)
    if any(run["diverged"] for run in runs):
        last = len(steps) - 1
        panel.plot(steps[last], statistics.fmean(run[last] for run in accuracies), "x", color=look["color"])


def accuracy_axis(panel: Axes, labelled: bool = True) -> None:
    """Make the y axis one for accuracies in per cent."""
    panel.set_ylim(0, 101)
    if labelled:
        panel.set_ylabel("test accuracy (%)")


def _methods(config: Record) -> list[str]:
    return [rates["method"] for rates in config["rates"]]


def _finals(runs: list[Record]) -> list[float]:
    return [100 * run["test_accuracy"] for run in runs]


def _until(run: Record, epoch: float) -> Record:
    """Return the run as if it had ended at an epoch."""
    kept = sum(value <= epoch + 1e-6 for value in run["history"]["epoch"])
    return {**run, "history": {name: values[:kept] for name, values in run["history"].items()}}
