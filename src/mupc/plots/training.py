"""Test accuracy, loss and energy of training runs: over depth, over epochs, over width."""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from . import style
from .style import ACCURACY, Axes, Labels, Number, Options, PathLike, Record

RATIO = "loss / energy at equilibrium"
MOMENTS = {"$t = 0$": None, "after a tenth of training": 0.1, "at the end": 1.0}
"""Titles of the maps of that ratio, and the part of training that has passed; None is before training."""
WIDE = (8.0, 4.4)
"""Width and height of a figure as wide as a page, in inches."""
TALL = (6.4, 6.8)
"""Width and height of a figure of three panels, one below the other, in inches."""
COLOURS = {"mupc": style.BLUE, "sp": style.RED, "error-space": style.RED, "bp": style.GREEN}
"""Colours by how the name of a method begins."""


def draw_accuracy_over_depth(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw a panel for each method (columns) and activation (rows), a curve for each depth."""
    activations, methods = record["config"]["activations"], _methods(record["config"])
    options: Options = {"xlabel": "training step", "ylabel": ACCURACY, "sharex": True, "sharey": True}
    with style.saved_panels(path, len(activations), len(methods), record, **options) as (figure, axes):
        for panel, (activation, method) in zip(axes.flat, itertools.product(activations, methods), strict=True):
            for depth, colour in style.ramped(record["config"]["depths"]):
                runs = trained_runs(record, method=method, activation=activation, depth=depth)
                plot_accuracy(panel, runs, color=colour, label=f"H = {depth}")
            what = f", {style.written(activation)}" if len(activations) > 1 else ""
            panel.set_title(labels[method] + what)
        style.accuracy_axis(axes[0, 0])
        style.legend_outside(figure, axes[0, 0])


def draw_accuracy_over_epochs(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw one panel with a curve for each method."""
    config = record["config"]
    with style.saved_panels(path, record=record, size=style.SINGLE, xlabel="epoch", ylabel=ACCURACY) as (
        figure,
        ((panel,),),
    ):
        trained: list[Number] = []
        dashes = {colour: iter(("-", "--", ":")) for colour in COLOURS.values()}
        for method in _methods(config):
            runs = trained_runs(record, method=method)
            colour = next(colour for name, colour in COLOURS.items() if method.startswith(name))
            look = {"color": colour, "ls": next(dashes[colour]), "label": labels[method]}
            plot_accuracy(panel, runs, "epoch", **look)
            trained += [100 * value for run in runs for value in run["history"]["test_accuracy"][1:]]
        panel.set_title(f"{style.written(config['data'])}, H = {max(config['depths'])}")
        if trained:  # the untrained network, at chance, would flatten everything that follows
            panel.set_ylim(max(0, min(trained) - 1), max(trained) + 0.5)
        style.legend_outside(figure, panel)


def draw_credit_over_epochs(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw the score over epochs for each method, and below it where the weight gradients of those that infer come
    from: the cosine to BP's (median over nodes solid, smallest dotted) and the energy in hidden nodes."""
    methods, trained = _methods(record["config"]), trained_runs(record)
    is_text = any("test_perplexity" in run for run in trained)
    names = ("validation perplexity" if is_text else ACCURACY, "cosine to BP", "hidden energy (%)")
    layout: Options = {"sharex": True, "height_ratios": (5, 3, 3), "xlabel": "epoch", "ylabel": names}
    with style.saved_panels(path, 3, 1, record, size=TALL, **layout) as (figure, ((score,), (cosine,), (energy,))):
        for place, (method, colour) in enumerate(zip(methods, style.cycle(len(methods)), strict=True)):
            runs = style.select(trained, method=method)
            look: Options = {"color": colour, "zorder": len(methods) + 2 - place}  # the first on top
            if not runs:
                continue
            draw = _plot_perplexity if is_text else plot_accuracy
            draw(score, runs, "epoch", **look, label=labels[method])
            if "median_cosine" in runs[0]["history"]:
                _plot_history(cosine, runs, "median_cosine", **look)
                _plot_history(cosine, runs, "smallest_cosine", ls=":", **look)
                _plot_history(energy, runs, "hidden_energy", 100, **look)
        if is_text:
            score.plot([], [], "s", ms=7, color=style.GREY, label="test perplexity, best network")
        else:
            style.accuracy_axis(score)
        copy = any(run.get("official_data") is False for run in trained)
        score.set_title(style.written(record["config"]["data"]) + (" (JPEG copy)" if copy and not is_text else ""))
        cosine.axhline(1, color="black", lw=1, ls=":")
        cosine.ticklabel_format(axis="y", useOffset=False)
        energy.set_ylim(bottom=0)
        style.legend_outside(figure, score, loc="outside upper center", ncols=2)


def _plot_perplexity(panel: Axes, runs: list[Record], axis: str, **look: Any) -> None:
    """Plot the perplexity in validation from the first evaluation after the start on, and that of the test at the
    end."""
    after: list[Record] = [
        {**run, "history": {name: values[1:] for name, values in run["history"].items()}} for run in runs
    ]
    _plot_history(panel, after, "validation_perplexity", **look)
    ends = [run["history"][axis][-1] for run in runs]
    square = look | {"label": None, "ls": "", "marker": "s", "ms": 7, "mec": "white", "clip_on": False}
    panel.plot(ends, [run["test_perplexity"] for run in runs], **square)


def _plot_history(panel: Axes, runs: list[Record], name: str, scale: Number = 1, **look: Any) -> None:
    """Plot one quantity of the history over epochs."""
    curves = [[scale * value for value in style.numbers(run["history"][name])] for run in runs]
    style.plot_band(panel, shortest_steps(runs, "epoch"), curves, **look)


def draw_family(record: Record, path: PathLike, labels: Labels, titles: Sequence[str]) -> None:
    """Draw a panel for each network that has finished runs, with its title, and in it a row for each method: its test
    error, with plain and with scaled rates."""
    every = ((part, depth) for part in record["config"]["parts"] for depth in part["depths"])
    found = [
        (title, part, trained_runs(record, data=part["data"], depth=depth))
        for title, (part, depth) in zip(titles, every, strict=True)
    ]
    networks = [each for each in found if each[-1]] or found[:1]
    columns = min(2, len(networks))
    rows = -(-len(networks) // columns)
    size = 2.4 + 3.0 * columns, 0.7 + 3.0 * rows
    with style.saved_panels(path, rows, columns, record, size=size, xlabel="test error (%)") as (figure, axes):
        for panel in axes.flat[len(networks) :]:
            panel.set_axis_off()
        shown: list[str] = []
        for panel, (title, part, runs) in zip(axes.flat, networks, strict=False):
            names = [name for name in _methods(part) if not name.endswith(SCALED)]
            for suffix, look in {"": {"color": style.BLUE, "marker": "o"}, SCALED: SCALED_LOOK}.items():
                chosen = {place: style.select(runs, method=name + suffix) for place, name in enumerate(names)}
                errors = {place: 100 - statistics.fmean(_finals(own)) for place, own in chosen.items() if own}
                if errors:
                    label = "scaled rates" if suffix else "plain rates"
                    panel.plot(list(errors.values()), list(errors), ls="", label=label, **look)
            panel.set(xscale="log", ylim=(len(names) - 0.5, -0.5))
            panel.set_title(title.replace(", ", "\n", 1), fontsize="medium")
            first = names != shown or panel.get_subplotspec().is_first_col()
            shown = names
            panel.set_yticks(range(len(names)), [labels[name] if first else "" for name in names])
            style.log_ticks(panel, "x")
        style.legend_outside(figure, axes[0, 0], loc="outside upper center", ncols=2)


SCALED = "-scaled"
"""How the names of methods end whose rates scale with the size of the network."""
SCALED_LOOK: Options = {"color": style.RED, "marker": "D", "mfc": "none", "ms": 8}


def draw_accuracy_over_width(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw accuracy over training for each width, and at the end over width."""
    config = record["config"]
    with style.saved_panels(path, 1, 2, record) as (figure, axes):
        curves, ends = axes[0]
        for width, colour in style.ramped(config["widths"]):
            runs = trained_runs(record, method="mupc", width=width)
            plot_accuracy(curves, runs, color=colour, label=f"N = {width}")
            style.plot_error_bars(ends, {width: _finals(runs)}, fmt="o", color=colour)
        curves.set_xlabel("training step")
        style.accuracy_axis(curves)
        style.legend_outside(figure, curves)
        style.size_axis(ends, "width N")
        ends.set_ylabel(f"final {ACCURACY}")
        figure.suptitle(f"{labels['mupc']}, H = {max(config['depths'])}")


def draw_accuracy_at_depths(
    record: Record,
    path: PathLike,
    curves: Mapping[str, Mapping[int, list[float]]],
    points: Mapping[str, tuple[int, float]],
    mark: tuple[str, int],
) -> None:
    """Draw the accuracies at the end over depth: a curve for each name, further `points`, and a line at one depth, the
    `mark`."""
    with style.saved_panels(path, record=record, size=WIDE, ylabel=ACCURACY) as (figure, ((panel,),)):
        looks = zip(("o-", "s-", "v--", "D-"), style.COLOURS, curves.items(), strict=False)
        for place, (look, colour, (name, curve)) in enumerate(looks):
            style.plot_error_bars(panel, curve, fmt=look, color=colour, ms=6, label=name, zorder=9 - place)
        for shape, (name, (depth, accuracy)) in zip("P*", points.items(), strict=False):
            panel.plot(depth, accuracy, shape, color=style.BLUE, ms=11, mec="white", label=name)
        style.accuracy_axis(panel)
        depths = {depth for curve in curves.values() for depth in curve} | {depth for depth, _ in points.values()}
        style.size_axis(panel, "hidden layers", sorted(depths))
        text, depth = mark
        panel.axvline(depth, ls=":", color=style.GREY, zorder=0)
        panel.text(depth, 0.03, f" {text}", transform=panel.get_xaxis_transform(), color=style.GREY, fontsize=9)
        style.legend_outside(figure, panel, order=curves, loc="outside upper center", ncols=2, fontsize=9)


def draw_solver_comparison(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw accuracy over epochs for each method, and at the end over what a step costs."""
    config = record["config"]
    methods, end = _methods(config), config["epochs"]
    with style.saved_panels(path, 1, 2, record, ylabel=ACCURACY, sharey=True) as (figure, axes):
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
        if ends:
            curves.set_ylim(min(ends) - 6, max(ends) + 1)
        curves.set(title=f"N = {config['widths'][0]}, H = {max(config['depths'])}", xlabel="epoch")
        costs.set(title=f"after {end:g} epochs", xlabel="time per step (ms)")
        costs.set_xlim(left=0)
        style.legend_outside(figure, curves)


def draw_exact_inference(record: Record, path: PathLike, name: str) -> None:
    """Draw loss, energy and accuracy of training at the exact equilibrium, a panel each, with a curve for each depth.
    The loss begins at the untrained network's."""
    config = record["config"]
    with style.saved_panels(path, 1, 3, record, xlabel="training step", sharex=True) as (figure, axes):
        loss, energy, accuracy = axes[0]
        for depth, colour in style.ramped(config["depths"]):
            runs = trained_runs(record, depth=depth)
            if not runs:
                continue
            look: dict[str, Any] = {"color": colour, "label": f"H = {depth}"}
            steps = shortest_steps(runs)
            losses = [[run["first_train_loss"], *run["history"]["train_loss"][1:]] for run in runs]
            style.plot_band(loss, steps, losses, **look)
            style.plot_band(energy, steps[1:], [run["history"]["energy"][1:] for run in runs], **look)
            plot_accuracy(accuracy, runs, **look)
        loss.set(title="training loss of the prediction", ylabel=r"$\frac{1}{2}\|y - f(x)\|^2$")
        energy.set(title="energy at the equilibrium", ylabel=r"$\mathcal{F}(z^*)$")
        accuracy.set_title("test accuracy")
        style.accuracy_axis(accuracy)
        style.log_ticks(loss)
        style.log_ticks(energy)
        style.legend_outside(figure, accuracy)
        figure.suptitle(f"{name}, linear, N = {config['widths'][0]}, {style.written(config['data'])}", fontsize=12)


def draw_ratio_maps(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw the loss divided by the energy at equilibrium over N and H: at initialisation, after a tenth of training,
    and at the end."""
    import numpy as np

    config = record["config"]
    depths = config["depths"]
    grids = {}
    for title, moment in MOMENTS.items():
        widths = config["initial_widths"] if moment is None else config["widths"]
        values = [[_ratio(record, width, depth, moment) for width in widths] for depth in depths]
        grids[title] = (widths, np.array(values, float))
    top = max(np.nanmax(grid, initial=1.1) for _, grid in grids.values())
    shares = [len(widths) for widths, _ in grids.values()]
    options: Options = {"xlabel": "width N", "ylabel": "hidden layers H", "width_ratios": shares}
    with style.saved_panels(path, 1, len(grids), record, **options) as (figure, axes):
        for panel, (title, (widths, grid)) in zip(axes[0], grids.items(), strict=True):
            shown = {place: value for place, value in np.ndenumerate(grid) if np.isfinite(value)}
            texts = {place: style.short(value, small=".2f", large=1e4) for place, value in shown.items()}
            image = style.heat_map(panel, grid, widths, depths, (1, top), texts=texts)
            panel.tick_params(axis="x", labelsize=9)
            panel.set_title(title)
        figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01, label=RATIO)
        figure.suptitle(f"{next(iter(labels.values()))}, {style.written(config['data'])}", fontsize=12)


def draw_ratio_curves(record: Record, path: PathLike, labels: Labels) -> None:
    """Draw that ratio over training: a panel for each method, a curve for each width."""
    depth = record["config"]["depths"][0]
    options: Options = {"xlabel": "training step", "ylabel": RATIO, "sharex": True, "sharey": True}
    with style.saved_panels(path, 1, len(labels), record, **options) as (figure, axes):
        for panel, (method, name) in zip(axes[0], labels.items(), strict=True):
            for width, colour in style.ramped(record["config"]["widths"]):
                rows = style.select(record["data"], width=width, depth=depth, method=method)
                runs = [row for row in rows if "history" in row]
                starts = [row["ratio"] for row in rows if "ratio" in row]
                if runs and starts:
                    curves = [[start, *_ratios(run)] for start, run in zip(starts, runs, strict=False)]
                    style.plot_band(panel, shortest_steps(runs), curves, color=colour, label=f"N = {width}")
            panel.axhline(1, color="black", lw=1, ls=":")
            panel.set_title(f"{name}, H = {depth}")
            style.log_ticks(panel)
        style.legend_outside(figure, axes[0, 0])


def plot_finals_over_depth(panel: Axes, record: Record, config: Record, labels: Labels) -> None:
    """Plot the accuracy at the end over depth, for each method of a config."""
    depths, width = config["depths"], config["widths"][0]
    for method, colour in zip(_methods(config), style.COLOURS, strict=False):
        runs = {depth: trained_runs(record, method=method, depth=depth, width=width) for depth in depths}
        finals = {depth: _finals(found) for depth, found in runs.items()}
        style.plot_error_bars(panel, finals, fmt="o-", color=colour, label=labels[method])
    style.size_axis(panel, "hidden layers H", depths)
    panel.set(ylabel=f"final {ACCURACY}", title=f"{style.written(config['data'])}, N = {width}")
    style.legend_under(panel, ncols=2, fontsize=9)


def trained_runs(record: Record, **wanted: object) -> list[Record]:
    """Return the runs with these values, without those that only tuned learning rates."""
    return [row for row in style.select(record["data"], **wanted) if "history" in row]


def shortest_steps(runs: list[Record], axis: str = "step") -> list[Number]:
    """Return the steps, or epochs, that all runs reached."""
    return min((run["history"][axis] for run in runs), key=len)


def plot_accuracy(panel: Axes, runs: list[Record], axis: str = "step", **look: Any) -> None:
    """Plot test accuracy over training, with a cross at the end if a run diverged."""
    if not runs:
        return
    steps = shortest_steps(runs, axis)
    accuracies = [[100 * value for value in run["history"]["test_accuracy"]] for run in runs]
    style.plot_band(panel, steps, accuracies, **look)
    if any(run["diverged"] for run in runs):
        end = statistics.fmean(accuracy[len(steps) - 1] for accuracy in accuracies)
        panel.plot(steps[-1], end, "x", color=look["color"])


def _methods(config: Record) -> list[str]:
    return [*dict.fromkeys(rates["method"] for rates in config["rates"])]


def _finals(runs: list[Record]) -> list[float]:
    return [100 * run["test_accuracy"] for run in runs]


def _until(run: Record, epoch: float) -> Record:
    """Return the run as if it had ended at an epoch."""
    kept = sum(value <= epoch + 1e-6 for value in run["history"]["epoch"])
    return {**run, "history": {name: values[:kept] for name, values in run["history"].items()}}


def _ratios(run: Record) -> list[float]:
    history = run["history"]
    return [loss / energy for loss, energy in zip(history["train_loss"][1:], history["energy"][1:], strict=True)]


def _ratio(record: Record, width: int, depth: int, moment: float | None) -> float:
    """Return the median over seeds after a part of training; NaN if there is none."""
    rows = style.select(record["data"], width=width, depth=depth)
    if moment is None:
        found = [row["ratio"] for row in rows if row.get("ratio") is not None]
    else:
        curves = [_ratios(row) for row in style.select(rows, diverged=False) if "history" in row]
        found = [curve[round(moment * (len(curve) - 1))] for curve in curves if curve]
    return statistics.median(found) if found else float("nan")
