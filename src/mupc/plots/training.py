"""Test accuracy of training runs: over depth, over epochs, over width."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import style

Record = dict[str, Any]
COLOURS = dict(zip(("mupc", "sp", "bp"), style.COLOURS, strict=False))


def draw_accuracy_over_depth(record: Record, path: Path, labels: Mapping[str, str]) -> None:
    """A panel for each method (columns) and activation (rows), a curve for each depth."""
    methods, activations = _methods(record), record["config"]["activations"]
    depths = record["config"]["depths"]
    with style.panels(len(activations), len(methods), sharex=True, sharey=True) as (figure, axes):
        for row, activation in enumerate(activations):
            for column, method in enumerate(methods):
                panel = axes[row, column]
                for depth, colour in zip(depths, style.ramp(len(depths)), strict=True):
                    runs = _runs(record, method=method, activation=activation, depth=depth)
                    _curve(panel, runs, "step", color=colour, label=f"H = {depth}")
                what = f", {style.written(activation)}" if len(activations) > 1 else ""
                panel.set_title(labels[method] + what)
                _accuracy_axis(panel, column == 0)
                if row == len(activations) - 1:
                    panel.set_xlabel("training step")
        _legend(axes[0, 0])
        style.label_preset(figure, record["preset"])
        style.save(figure, path)


def draw_accuracy_over_epochs(record: Record, path: Path, labels: Mapping[str, str]) -> None:
    """One panel, a curve for each method."""
    with style.panels(1, 1) as (figure, axes):
        panel = axes[0, 0]
        trained = []
        for method in _methods(record):
            runs = _runs(record, method=method)
            _curve(panel, runs, "epoch", color=COLOURS[method], label=labels[method])
            trained += [100 * value for run in runs for value in run["history"]["test_accuracy"][1:]]
        depth = max(record["config"]["depths"])
        panel.set_title(f"{style.written(record['config']['data'])}, H = {depth}")
        panel.set_xlabel("epoch")
        _accuracy_axis(panel, True)
        if trained:  # the untrained network, at chance, would hide all that follows
            panel.set_ylim(max(0, min(trained) - 1), max(trained) + 0.5)
        _legend(panel)
        style.label_preset(figure, record["preset"])
        style.save(figure, path)


def draw_accuracy_over_width(record: Record, path: Path, labels: Mapping[str, str]) -> None:
    """Accuracy over training for each width, and at the end over width."""
    import numpy as np

    widths = record["config"]["widths"]
    with style.panels(1, 2) as (figure, axes):
        curves, ends = axes[0]
        for width, colour in zip(widths, style.ramp(len(widths)), strict=True):
            runs = _runs(record, method="mupc", width=width)
            _curve(curves, runs, "step", color=colour, label=f"N = {width}")
            if runs:
                finals = 100 * np.array([run["test_accuracy"] for run in runs])
                spread = finals.std(ddof=1) if len(finals) > 1 else 0.0
                ends.errorbar(width, finals.mean(), yerr=spread, fmt="o", color=colour, capsize=3)
        curves.set_xlabel("training step")
        _accuracy_axis(curves, True)
        _legend(curves)
        ends.set_xscale("log", base=2)
        ends.set_xlabel("width N")
        ends.set_ylabel("final test accuracy (%)")
        depth = max(record["config"]["depths"])
        figure.suptitle(f"{labels['mupc']}, H = {depth}")
        style.label_preset(figure, record["preset"])
        style.save(figure, path)


def draw_solver_comparison(record: Record, path: Path, labels: Mapping[str, str]) -> None:
    """Accuracy over epochs for each method, and at the end over what a step costs."""
    import statistics

    methods = _methods(record)
    end = record["config"]["epochs"]
    with style.panels(1, 2, sharey=True) as (figure, axes):
        curves, costs = axes[0]
        ends = []
        for method, colour in zip(methods, style.cycle(len(methods)), strict=True):
            runs = [_until(run, end) for run in _runs(record, method=method)]
            if not runs:
                continue
            _curve(curves, runs, "epoch", color=colour, label=labels[method])
            finals = [100 * run["history"]["test_accuracy"][-1] for run in runs]
            ends += finals
            spread = statistics.stdev(finals) if len(finals) > 1 else 0.0
            cost = 1e3 * statistics.median(run["seconds_per_step"] for run in runs)
            costs.errorbar(cost, statistics.fmean(finals), yerr=spread, fmt="o", color=colour, capsize=3, ms=7)
        curves.set_xlabel("epoch")
        _accuracy_axis(curves, True)
        if ends:
            curves.set_ylim(min(ends) - 6, max(ends) + 1)
        costs.set_xlabel("time per step (ms)")
        costs.set_xlim(left=0)
        width, depth = record["config"]["widths"][0], max(record["config"]["depths"])
        curves.set_title(f"N = {width}, H = {depth}")
        costs.set_title(f"after {end:g} epochs")
        figure.legend(*curves.get_legend_handles_labels(), loc="outside right center")
        style.label_preset(figure, record["preset"])
        style.save(figure, path)


def finals_over_depth(panel: Any, record: Record, config: Record, labels: Mapping[str, str]) -> None:
    """The accuracy at the end of the runs of a config over depth, for each method."""
    import numpy as np

    depths, width = config["depths"], config["widths"][0]
    for method, colour in zip(_methods({"config": config}), style.COLOURS, strict=False):
        found = {depth: _runs(record, method=method, depth=depth, width=width) for depth in depths}
        finals = {depth: 100 * np.array([run["test_accuracy"] for run in runs]) for depth, runs in found.items()}
        shown = {depth: values for depth, values in finals.items() if len(values)}
        spreads = [values.std(ddof=1) if len(values) > 1 else 0.0 for values in shown.values()]
        means = [values.mean() for values in shown.values()]
        panel.errorbar(list(shown), means, yerr=spreads, fmt="o-", color=colour, capsize=3, label=labels[method])
    panel.set_xscale("log", base=2)
    panel.set_xticks(depths, [str(depth) for depth in depths])
    panel.set_xlabel("hidden layers H")
    panel.set_ylabel("final test accuracy (%)")
    panel.set_title(f"{style.written(config['data'])}, N = {width}")
    panel.legend(loc="best")


def _until(run: Record, epoch: float) -> Record:
    """The run as if it had ended there."""
    kept = sum(value <= epoch + 1e-6 for value in run["history"]["epoch"])
    return {**run, "history": {name: values[:kept] for name, values in run["history"].items()}}


def _methods(record: Record) -> list[str]:
    return [rates["method"] for rates in record["config"]["rates"]]


def _runs(record: Record, **wanted: object) -> list[Record]:
    """The runs of the table that are no tuning runs and have these values."""
    rows = [row for row in record["data"] if "history" in row]
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def _curve(panel: Any, runs: list[Record], axis: str, **options: Any) -> None:
    """Test accuracy over training, with a cross where a run diverged."""
    if not runs:
        return
    shortest = min(runs, key=lambda run: len(run["history"]["step"]))
    accuracies = [[100 * value for value in run["history"]["test_accuracy"]] for run in runs]
    style.band(panel, shortest["history"][axis], accuracies, **options)
    if any(run["diverged"] for run in runs):
        steps = shortest["history"][axis]
        mean = sum(run[len(steps) - 1] for run in accuracies) / len(accuracies)
        panel.plot(steps[-1], mean, "x", color=options["color"])


def _legend(panel: Any) -> None:
    if panel.get_legend_handles_labels()[0]:
        panel.legend(loc="lower right")


def _accuracy_axis(panel: Any, labelled: bool) -> None:
    """An axis of accuracies in per cent."""
    panel.set_ylim(0, 101)
    if labelled:
        panel.set_ylabel("test accuracy (%)")
