"""Condition numbers of inference over training, beside test accuracies."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import style
from .training import _accuracy_axis, _curve, _runs, finals_over_depth

Record = dict[str, Any]
CEILING = 1e13
"""Where κ is drawn that float64 does not tell from infinity."""


def draw_conditioning_over_training(record: Record, path: Path, labels: Mapping[str, str]) -> None:
    """κ above and test accuracy below, of the same runs; a column for each activation, a curve for each depth, and
    dashed the method to compare with."""
    config = record["config"]
    with style.panels(2, len(config["activations"]), sharex=True, sharey="row") as (figure, axes):
        for column, activation in enumerate(config["activations"]):
            _conditioning(axes[0, column], record, activation, column == 0)
            for method, depth, look in _lines(config):
                _curve(axes[1, column], _trained(record, config, method, activation, depth), "step", **look)
            _accuracy_axis(axes[1, column], column == 0)
            axes[1, column].set_xlabel("training step")
        for rates in config["rates"][1:]:
            axes[0, 0].plot([], [], "k--", label=labels[rates["method"]])
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center")
        _finish(figure, record, path, _titled(config, labels))


def draw_conditioning_with_accuracies(record: Record, path: Path, labels: Mapping[str, str]) -> None:
    """Test accuracy above, with μPC's at the greatest depth dashed; κ of smaller networks below."""
    config = record["config"]
    large, method, colours = config["accuracies"], config["rates"][0]["method"], _colours(config)
    with style.panels(2, len(config["activations"]), sharey="row") as (figure, axes):
        for column, activation in enumerate(config["activations"]):
            above, below = axes[:, column]
            for depth in large["depths"]:
                runs = _trained(record, large, method, activation, depth)
                _curve(above, runs, "step", color=colours[depth], label=f"H = {depth}")
            deepest = max(large["depths"])
            runs = _trained(record, large, "mupc", activation, deepest)
            _curve(above, runs, "step", color="black", ls="--", label=f"{labels['mupc']}, H = {deepest}")
            _accuracy_axis(above, column == 0)
            above.set_title(f"{style.written(activation)}, N = {large['widths'][0]}")
            _conditioning(below, record, activation, column == 0)
            below.set_title(f"{style.written(activation)}, N = {config['widths'][0]}")
            below.set_xlabel("training step")
        shown = [panel.get_legend_handles_labels() for panel in axes[::-1, 0]]
        named = {label: handle for handles, texts in shown for handle, label in zip(handles, texts, strict=True)}
        order = sorted(named, key=lambda label: (label.startswith(labels["mupc"]), int(label.split()[-1])))
        figure.legend([named[label] for label in order], order, loc="outside right center")
        _finish(figure, record, path, _titled(config, labels))


def draw_one_step_conditioning(record: Record, path: Path, labels: Mapping[str, str]) -> None:
    """The accuracy at the end over depth, for each method; and κ over training of smaller networks."""
    config = record["config"]
    with style.panels(1, 2) as (figure, axes):
        figure.set_size_inches(10.5, style.PANEL[1])
        finals, kappa = axes[0]
        finals_over_depth(finals, record, config["accuracies"], labels)
        _conditioning(kappa, record, config["activations"][0], True)
        kappa.set_title(f"one inference step, N = {config['widths'][0]}")
        kappa.set_xlabel("training step")
        figure.legend(*kappa.get_legend_handles_labels(), loc="outside right center")
        _finish(figure, record, path)


def _conditioning(panel: Any, record: Record, activation: str, labelled: bool) -> None:
    """κ over training for each depth: the median over seeds, and from the least to the greatest."""
    config = record["config"]
    for method, depth, look in _lines(config):
        runs = _trained(record, config, method, activation, depth)
        if runs:
            _kappa_curve(panel, runs, **look)
    style.log_ticks(panel)
    panel.set_title(style.written(activation))
    if labelled:
        panel.set_ylabel(r"condition number $\kappa$")


def _kappa_curve(panel: Any, runs: list[Record], **options: Any) -> None:
    steps = min((run["history"]["step"] for run in runs), key=len)
    seeds = [run["history"]["condition_number"] for run in runs]
    at = [[CEILING if kappa is None else kappa for kappa in found] for found in zip(*seeds, strict=False)]
    panel.plot(steps, [statistics.median(found) for found in at], **options)
    if len(runs) > 1 and options["ls"] == "-":
        low, high = ([end(found) for found in at] for end in (min, max))
        panel.fill_between(steps, low, high, color=options["color"], alpha=style.BAND, lw=0)


def _lines(config: Record) -> Iterator[tuple[str, int, Record]]:
    """Every method and depth, and how it is drawn: what the figure is about with solid lines and in the legend."""
    colours = _colours(config)
    for place, rates in enumerate(config["rates"]):
        for depth in config["depths"]:
            look = {"ls": "--"} if place else {"ls": "-", "label": f"H = {depth}"}
            yield rates["method"], depth, {"color": colours[depth], **look}


def _colours(config: Record) -> dict[int, Any]:
    """A colour for each depth that the figure shows, in any panel."""
    depths = sorted({*config["depths"], *(config["accuracies"] or config)["depths"]})
    return dict(zip(depths, style.ramp(len(depths)), strict=True))


def _trained(record: Record, config: Record, method: str, activation: str, depth: int) -> list[Record]:
    return _runs(record, method=method, activation=activation, depth=depth, width=config["widths"][0])


def _titled(config: Record, labels: Mapping[str, str]) -> str:
    return f"{labels[config['rates'][0]['method']]}, {style.written(config['data'])}"


def _finish(figure: Any, record: Record, path: Path, title: str | None = None) -> None:
    if title:
        figure.suptitle(title)
    style.label_preset(figure, record["preset"])
    style.save(figure, path)
