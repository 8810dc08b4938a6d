"""Run a coordinate check, from flags to a run folder."""

import dataclasses
import time
from typing import Any

import jax
import numpy as np
from rich.table import Table

from .. import diagnostics, plots
from ..diagnostics import ACTIVITY_LR, WEIGHT_LR, CoordinateCheck, CoordinateSettings, ShapeSizes, Slope
from ..inference import AbstractSolver, Energy
from ..io import checks
from ..io.progress import ProgressDisplay
from .building import SOLVERS, load_data, make_solver, network_options
from .check import CheckFlags
from .config import SOLVER_FLAGS, TrainFlags
from .display import plain_table
from .parsing import flag
from .run_folder import RunFolder
from .runner import Session
from .trained_model import open_checkpoint, refuse_other_flags

Row = dict[str, Any]
OWN = TrainFlags(solver="gd", weight_lr=WEIGHT_LR, output_precision=1.0)
"""What this check has for defaults, whatever those of `mupc train` are."""


def compare_networks(flags: CheckFlags, session: Session) -> Row:
    """Measure networks of several sizes, judge their slopes, write a run folder and return its summary."""
    checks.integer("--steps", flags.compare.steps, 0)
    learning = _learning(flags, None)
    settings = _settings(flags, learning)
    shapes = settings.shapes()
    measured: list[ShapeSizes] = []
    with jax.enable_x64(False):  # as `mupc train`
        found = diagnostics.measure_shapes(load_data(learning), settings)
        settings.solver_for(flags.compare.hidden_layers)  # refuses wrong flags, before there is a folder
        groups = dataclasses.asdict(flags.compare) | dataclasses.asdict(flags.network)
        folder = RunFolder(flags.output.out, "check", format=flags.output.format)
        folder.write_config(groups | _used(learning))
        session.say(f"coordinate check: {_title(flags, learning)}")
        begin = time.perf_counter()
        with folder.recording(), ProgressDisplay(session.console, "size") as progress:
            for shape, sizes in found:
                measured.append((shape, sizes))
                folder.append({**shape._asdict(), "sizes": [size._asdict() for size in sizes]})
                line = f"{shape.hidden_layers} hidden layers of {shape.width}: measured"
                progress.update(len(measured), len(shapes), plain=line)
    interrupted = len(measured) < len(shapes)
    result = CoordinateCheck((), ()) if interrupted else diagnostics.judge_shapes(measured, settings.parameterisation)
    message = f"interrupted; {len(measured)} of {len(shapes)} sizes are in {folder.path / 'metrics.jsonl'}."
    results = {
        "verdicts": result.verdicts,
        "verdict": result.verdict,
        "passed": result.passed,
        "failures": [line.replace("mupc.ErrorSpace", flag("ErrorSpace")) for line in result.failures],
        "unclear": result.unclear,
        "slopes": [dataclasses.asdict(slope) for slope in result.slopes],
    }
    ended = message if interrupted else "all networks were measured"
    summary = folder.write_summary(results, begin, ended, interrupted)
    for axis in result.verdicts.get("at init", {}):
        rows = [size._asdict() for shape, sizes in measured if axis in shape.axes for size in sizes]
        slopes = [slope for slope in result.slopes if slope.axis == axis]
        expected = {(slope.step, slope.quantity, slope.group): slope.expected for slope in slopes}
        plots.draw_coordinate_scaling(rows, axis, folder.figure(f"coordinates-{axis}"), expected)
        session.say("")
        session.console.print(_table(axis, [slope for slope in result.worst if slope.axis == axis]))
    session.say("")
    for stage, axes in result.verdicts.items():
        session.say(f"{stage}: " + ", ".join(f"{verdict} over {axis}" for axis, verdict in axes.items()))
    for line in (*summary["failures"], *summary["unclear"]):
        session.say(f"- {line}")
    session.say(f"run folder {folder.path}")
    return summary


def report_network(flags: CheckFlags, session: Session) -> Row:
    """Measure one trained network layer by layer, write a run folder and return its summary."""
    refuse_other_flags(flags.compare, flags.network)
    network, trained = open_checkpoint(str(flags.compare.checkpoint))
    learning = _learning(flags, trained)
    begin = time.perf_counter()
    with jax.enable_x64(any(leaf.dtype == np.float64 for leaf in jax.tree.leaves(network))):
        sizes = diagnostics.coordinate_sizes(
            network,
            load_data(learning),
            solver=_solver(learning, network.hidden_layers),
            weight_lr=_rate(learning),
            energy=Energy(learning.loss, learning.output_precision, learning.activity_decay),
        )
    rows = [
        {"quantity": quantity, "layer": int(layer), "size": float(size)}
        for quantity, values in sizes.items()
        for layer, size in zip(diagnostics.layer_numbers(quantity, values, network.hidden_layers), values, strict=True)
    ]
    folder = RunFolder(flags.output.out, "check", format=flags.output.format)
    folder.write_config({"checkpoint": flags.compare.checkpoint} | _used(learning))
    finite = all(bool(np.all(np.isfinite(values))) for values in sizes.values())
    verdict = {"verdict": "pass" if finite else "fail", "passed": finite}
    ended = "sizes of one network: nothing to compare"
    summary = folder.write_summary({"sizes": rows, **verdict}, begin, ended)
    plots.draw_layer_sizes(rows, folder.figure("sizes"))
    session.say(f"mean absolute entries of {flags.compare.checkpoint}, layer by layer")
    table = plain_table("layer", *(name.replace(" ", "\n") for name in sizes))
    cells = {(row["layer"], row["quantity"]): f"{row['size']:.2g}" for row in rows}
    for layer in range(1, network.hidden_layers + 2):
        table.add_row(str(layer), *(cells.get((layer, quantity), "") for quantity in sizes))
    session.console.print(table)
    session.say(f"run folder {folder.path}")
    return summary


def _settings(flags: CheckFlags, learning: TrainFlags) -> CoordinateSettings:
    compare = dataclasses.asdict(flags.compare)
    del compare["checkpoint"]
    return CoordinateSettings(
        **compare,
        weight_lr=_rate(learning),
        solver=lambda depth: _solver(learning, depth),
        energy=Energy(output_precision=learning.output_precision),
        network=network_options(flags.network),
    )


def _learning(flags: CheckFlags, trained: TrainFlags | None) -> TrainFlags:
    """Return the settings of learning: the given flags over those of a run, or over the defaults of this check."""
    base = OWN if trained is None else trained
    if base.solver is None:  # a run of backpropagation
        base = dataclasses.replace(base, method="pc", solver=OWN.solver, output_precision=OWN.output_precision)
    given = {name: value for name, value in dataclasses.asdict(flags.learn).items() if value is not None}
    if "solver" in given:  # the settings of a run's solver mean nothing to another
        other: Row = {"weight_lr": WEIGHT_LR, **dict.fromkeys(SOLVER_FLAGS)}
        base = dataclasses.replace(base, **other)
    learning = dataclasses.replace(base, **given)
    if trained is None and learning.solver == "gd" and learning.activity_lr is None:
        learning = dataclasses.replace(learning, activity_lr=ACTIVITY_LR)
    return learning


def _solver(learning: TrainFlags, hidden_layers: int) -> AbstractSolver:
    return make_solver(dataclasses.replace(learning, hidden_layers=hidden_layers))


def _rate(learning: TrainFlags) -> float:
    return WEIGHT_LR if learning.weight_lr is None else learning.weight_lr


def _used(learning: TrainFlags) -> Row:
    names = (
        "data",
        "data_dir",
        *SOLVERS[str(learning.solver)].flags,
        "solver",
        "loss",
        "output_precision",
        "weight_lr",
    )
    return {name: value for name, value in vars(learning).items() if name in names}


def _title(flags: CheckFlags, learning: TrainFlags) -> str:
    network = flags.network
    form = f"{network.activation}, {network.parameterisation}, skip {network.skip}, solver {learning.solver}"
    rates = f"λ = {learning.output_precision:g}, Adam at {_rate(learning):g}"
    return f"{form}, {rates}, {flags.compare.seeds} seeds"


def _table(axis: str, worst: list[Slope]) -> Table:
    """Return a table with a row per quantity: the layers furthest from the expected slope."""
    texts = [f"over {axis}", "furthest off in", "verdict"]
    table = plain_table(*texts[:2], "slope", "expected", texts[2], left=texts)
    stage = ""
    for slope in worst:
        if slope.stage != stage:
            stage = slope.stage
            table.add_row(f"[bold]{stage}[/bold]")
        found = f"{slope.slope:+.2f} ± {slope.interval:.2f}" if np.isfinite(slope.slope) else "–"
        expected = f"{slope.expected:+.2f} ± {slope.tolerance:.2f}"
        table.add_row(f"  {slope.quantity}", slope.place, found, expected, slope.verdict)
    return table
