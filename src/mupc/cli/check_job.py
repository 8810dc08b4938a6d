"""A coordinate check, from flags to a run folder."""

import dataclasses
import time
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from .. import diagnostics, plots
from ..diagnostics import ACTIVITY_LR, WEIGHT_LR, CoordinateCheck, CoordinateSettings, ShapeSizes, Slope
from ..inference import AbstractSolver, Energy
from ..io import checks, device, versions
from . import config
from .check import CheckFlags
from .config import TrainConfig, in_flags
from .display import say
from .hessian_cases import open_checkpoint
from .job import load_data, network_options
from .run_folder import RunFolder
from .solvers import SOLVERS, make_solver

Summary = dict[str, Any]


def check(flags: CheckFlags, console: Console) -> Summary:
    """Checks what the flags ask for, writes a run folder and returns its summary.

    **Arguments:** the flags of `mupc check`, and the console to show it on.
    """
    console.quiet = flags.output.quiet or flags.output.json
    return _compare(flags, console) if flags.compare.checkpoint is None else _report(flags, console)


def _compare(flags: CheckFlags, console: Console) -> Summary:
    """Slopes and verdicts over networks of several sizes."""
    compare, network = flags.compare, flags.network
    checks.integer("--steps", compare.steps, 0)
    settings = _settings(flags, None)
    comparison = CoordinateSettings(
        widths=compare.widths,
        depths=compare.depths,
        width=compare.width,
        hidden_layers=compare.hidden_layers,
        steps=compare.steps,
        seeds=compare.seeds,
        weight_lr=settings.chosen_weight_lr,
        solver=lambda depth: _solver(settings, depth),
        energy=Energy(output_precision=settings.output_precision),
        network=network_options(network),
    )
    shapes = comparison.shapes()
    with jax.enable_x64(False):  # as `mupc train`
        found = diagnostics.measure_shapes(load_data(settings), comparison)
        _solver(settings, compare.hidden_layers)  # mistakes in its flags, ahead of the folder
        folder = _folder(flags, dataclasses.asdict(compare) | dataclasses.asdict(network) | _used(settings))
        say(console, f"coordinate check: {_title(flags, settings)}")
        measured: list[ShapeSizes] = []
        begin = time.perf_counter()
        with folder.recording(), Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
            task = bar.add_task("networks", total=len(shapes))
            for one in found:
                measured.append(one)
                folder.append({**one.shape._asdict(), "sizes": [size._asdict() for size in one.sizes]})
                bar.advance(task)
                if not console.is_terminal:
                    say(console, f"{one.shape.hidden_layers} hidden layers of {one.shape.width}: measured")
    interrupted = len(measured) < len(shapes)
    result = CoordinateCheck((), ()) if interrupted else diagnostics.judge_shapes(measured, network.parameterisation)
    message = f"interrupted; {len(measured)} of {len(shapes)} sizes are in {folder.path / 'metrics.jsonl'}."
    summary = {
        "verdicts": result.verdicts,
        "passed": result.passed and not interrupted,
        "failures": [in_flags(line) for line in result.failures],
        "slopes": [dataclasses.asdict(slope) for slope in result.slopes],
        "seconds": time.perf_counter() - begin,
        "interrupted": interrupted,
        "message": message if interrupted else "all networks were measured",
        "device": device(),
        "out": str(folder.path),
    }
    folder.write("summary.json", summary)
    for axis in result.verdicts.get("at init", {}):
        rows = [size._asdict() for one in measured if axis in one.shape.axes for size in one.sizes]
        expected = {
            (slope.step, slope.quantity, slope.group): slope.expected for slope in result.slopes if slope.axis == axis
        }
        plots.draw_coordinate_scaling(rows, axis, folder.path / "figures" / f"coordinates-{axis}.png", expected)
        say(console, "")
        console.print(_table(axis, [slope for slope in result.worst if slope.axis == axis]))
    _conclude(summary, console)
    return summary


def _report(flags: CheckFlags, console: Console) -> Summary:
    """The sizes of one network, layer by layer."""
    for group in (flags.compare, flags.network):
        for field in dataclasses.fields(group):
            if field.name != "checkpoint" and getattr(group, field.name) != field.default:
                flag = f"--{field.name.replace('_', '-')}"
                raise ValueError(f"{flag} has no effect with --checkpoint, one network as it is: leave it out.")
    network, trained = open_checkpoint(str(flags.compare.checkpoint))
    settings = _settings(flags, trained)
    begin = time.perf_counter()
    with jax.enable_x64(any(leaf.dtype == np.float64 for leaf in jax.tree.leaves(network))):
        sizes = diagnostics.coordinate_sizes(
            network,
            load_data(settings),
            solver=_solver(settings, network.hidden_layers),
            weight_lr=settings.chosen_weight_lr,
            energy=Energy(
                loss=settings.loss,
                output_precision=settings.output_precision,
                activity_decay=settings.activity_decay,
            ),
        )
    rows = [
        {"quantity": quantity, "layer": int(layer), "size": float(size)}
        for quantity, values in sizes.items()
        for layer, size in zip(diagnostics.layer_numbers(quantity, values, network.hidden_layers), values, strict=True)
    ]
    folder = _folder(flags, {"checkpoint": flags.compare.checkpoint} | _used(settings))
    summary = {
        "sizes": rows,
        "passed": all(bool(np.all(np.isfinite(values))) for values in sizes.values()),
        "seconds": time.perf_counter() - begin,
        "interrupted": False,
        "message": "sizes of one network: nothing to compare",
        "device": device(),
        "out": str(folder.path),
    }
    folder.write("summary.json", summary)
    plots.draw_layer_sizes(rows, folder.path / "figures" / "sizes.png")
    say(console, f"mean absolute entries of {flags.compare.checkpoint}, layer by layer")
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    for name in ("layer", *(name.replace(" ", "\n") for name in sizes)):
        table.add_column(name, justify="right", no_wrap=True)
    cells = {(row["layer"], row["quantity"]): f"{row['size']:.2g}" for row in rows}
    for layer in range(1, network.hidden_layers + 2):
        table.add_row(str(layer), *(cells.get((layer, quantity), "") for quantity in sizes))
    console.print(table)
    say(console, f"run folder {folder.path}")
    return summary


def _settings(flags: CheckFlags, trained: TrainConfig | None) -> TrainConfig:
    """What the flags say, over what a run was trained with, or else over the library's own for this check."""
    base = TrainConfig(weight_lr=WEIGHT_LR) if trained is None else trained
    given = {name: value for name, value in dataclasses.asdict(flags.learn).items() if value is not None}
    if "solver" in given:  # the settings of a run's solver mean nothing to another
        default = TrainConfig()
        names = {name for choice in SOLVERS.values() for name in choice.flags}
        base = dataclasses.replace(base, **{name: getattr(default, name) for name in names})
    settings = dataclasses.replace(base, **given)
    if trained is None and settings.solver == "gd" and settings.activity_lr is None:
        settings = dataclasses.replace(settings, activity_lr=ACTIVITY_LR)
    return settings


def _solver(settings: TrainConfig, hidden_layers: int) -> AbstractSolver:
    return make_solver(dataclasses.replace(settings, hidden_layers=hidden_layers))


def _used(settings: TrainConfig) -> dict[str, Any]:
    names = ("data", "data_dir", *SOLVERS[settings.solver].flags, "solver", "loss", "output_precision", "weight_lr")
    return {name: value for name, value in config.as_dict(settings).items() if name in names}


def _folder(flags: CheckFlags, resolved: dict[str, Any]) -> RunFolder:
    folder = RunFolder(flags.output.out, "check")
    folder.write("config.json", {"config": resolved, "versions": versions(), "device": device()})
    return folder


def _title(flags: CheckFlags, settings: TrainConfig) -> str:
    network = flags.network
    parts = [network.activation, network.parameterisation, f"skip {network.skip}", f"solver {settings.solver}"]
    parts += [
        f"λ = {settings.output_precision:g}",
        f"Adam at {settings.chosen_weight_lr:g}",
        f"{flags.compare.seeds} seeds",
    ]
    return ", ".join(parts)


def _table(axis: str, worst: list[Slope]) -> Table:
    """A row per quantity, by the layers furthest from what is expected."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    table.add_column(f"over {axis}", no_wrap=True)
    table.add_column("furthest off in", no_wrap=True)
    table.add_column("slope", justify="right", no_wrap=True)
    table.add_column("expected", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    stage = ""
    for slope in worst:
        if slope.stage != stage:
            stage = slope.stage
            table.add_row(f"[bold]{stage}[/bold]")
        found = f"{slope.slope:+.2f} ± {slope.interval:.2f}" if np.isfinite(slope.slope) else "–"
        expected = f"{slope.expected:+.2f} ± {slope.tolerance:.2f}"
        table.add_row(f"  {slope.quantity}", slope.place, found, expected, slope.verdict)
    return table


def _conclude(summary: Summary, console: Console) -> None:
    say(console, "")
    for stage, axes in summary["verdicts"].items():
        say(console, f"{stage}: " + ", ".join(f"{verdict} over {axis}" for axis, verdict in axes.items()))
    for line in summary["failures"]:
        say(console, f"- {line}")
    say(console, f"run folder {summary['out']}")
