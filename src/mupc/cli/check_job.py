"""Run a coordinate check, from flags to a run folder."""

import dataclasses
import time
from typing import Any

import equinox as eqx
import jax
import numpy as np
from rich.table import Table

from .. import diagnostics, plots
from ..data import Dataset
from ..diagnostics import WEIGHT_LR, CoordinateCheck, CoordinateSettings, ShapeSizes, Slope
from ..inference import Energy
from ..io import checks, size_in_words
from ..io.progress import ProgressDisplay
from ..network import AbstractNetwork, Network, models
from .building import (
    SOLVERS,
    as_used,
    form_options,
    load_data,
    make_algorithm,
    make_solver,
    network_maker,
    train_config,
)
from .check import CheckFlags
from .config import TrainFlags, pick
from .display import plain_table
from .flags import SOLVER, NetworkFlags
from .parsing import flag
from .run_folder import RunFolder
from .runner import Session
from .trained_model import open_checkpoint, refuse_other_flags

Row = dict[str, Any]
SHOWN = ("data", "data_dir", "solver", "loss", "output_precision", "optimiser", "weight_lr", "rate_scaling")
"""Settings of learning that config.json repeats, as well as those of the solver."""


def compare_networks(flags: CheckFlags, session: Session) -> Row:
    """Measure networks of several sizes, judge their slopes, write a run folder and return its summary."""
    compare = flags.compare
    checks.integer("--steps", compare.steps, 0)
    settings, learning = _settings(flags)
    shapes = settings.shapes()
    measured: list[ShapeSizes] = []
    with jax.enable_x64(False):  # as `mupc train`
        dataset = load_data(learning)
        found = diagnostics.measure_shapes(dataset, settings)
        used = _as_used(learning, dataset, eqx.filter_eval_shape(network_maker(learning, dataset)))
        folder = RunFolder(flags.output.out, "check", format=flags.output.format)
        compared = {"widths": settings.compared.widths, "depths": settings.compared.depths}
        groups = dataclasses.asdict(compare) | pick(used, NetworkFlags) | compared | _shown(used)
        folder.write_config(groups | {"inference_steps": learning.inference_steps})  # None: depends on the depth
        session.say(f"coordinate check: {_title(used, compare.seeds)}")
        begin = time.perf_counter()
        with folder.recording(), ProgressDisplay(session.console, "size") as progress:
            for shape, sizes in found:
                measured.append((shape, sizes))
                folder.append({**shape._asdict(), "sizes": [size._asdict() for size in sizes]})
                line = f"{size_in_words(shape.width, shape.hidden_layers, settings.depth_name)}: measured"
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
        figure = folder.figure(f"coordinates-{axis}")
        plots.draw_coordinate_scaling(rows, axis, figure, expected, depth=settings.depth_name or "")
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
    if trained is not None and trained.method != "pc" and flags.learn.solver is None:
        wrong = f"--checkpoint {flags.compare.checkpoint} was trained with --method {trained.method}"
        raise ValueError(f"{wrong}, and a check measures predictive coding: add --solver {SOLVER} for that.")
    learning, hidden_layers = _learning(flags, trained), network.layer_count - 1
    if isinstance(network, Network):
        learning = dataclasses.replace(learning, hidden_layers=hidden_layers)
    begin = time.perf_counter()
    with jax.enable_x64(any(leaf.dtype == np.float64 for leaf in jax.tree.leaves(network))):
        dataset = load_data(learning)
        used = _as_used(learning, dataset, network)
        assert used.weight_lr is not None
        sizes = diagnostics.coordinate_sizes(
            network,
            dataset,
            solver=make_solver(used, network),
            weight_lr=used.weight_lr,
            optimiser=used.optimiser,
            base=train_config(used, dataset).base(network),
            energy=Energy(used.loss, used.output_precision, used.activity_decay),
        )
    rows = [
        {"quantity": quantity, "layer": int(layer), "name": network.layer_names[layer - 1], "size": float(size)}
        for quantity, values in sizes.items()
        for layer, size in zip(diagnostics.layer_numbers(quantity, values, hidden_layers), values, strict=True)
    ]
    folder = RunFolder(flags.output.out, "check", format=flags.output.format)
    folder.write_config({"checkpoint": flags.compare.checkpoint} | _shown(used))
    finite = all(bool(np.all(np.isfinite(values))) for values in sizes.values())
    verdict = {"verdict": "pass" if finite else "fail", "passed": finite}
    ended = "sizes of one network: nothing to compare"
    summary = folder.write_summary({"sizes": rows, **verdict}, begin, ended)
    plots.draw_layer_sizes(rows, folder.figure("sizes"))
    session.say(f"mean absolute entries of {flags.compare.checkpoint}, layer by layer")
    table = plain_table("layer", *(name.replace(" ", "\n") for name in sizes))
    cells = {(row["layer"], row["quantity"]): f"{row['size']:.2g}" for row in rows}
    for layer, name in enumerate(network.layer_names, start=1):
        first = str(layer) if isinstance(network, Network) else name
        table.add_row(first, *(cells.get((layer, quantity), "") for quantity in sizes))
    session.console.print(table)
    session.say(f"run folder {folder.path}")
    return summary


def _settings(flags: CheckFlags) -> tuple[CoordinateSettings, TrainFlags]:
    """Return the settings of the check, and those of learning for its smallest network."""
    compare, (blocks, *others) = dataclasses.asdict(flags.compare), flags.network.blocks or (None,)
    if others:
        raise ValueError("--blocks has several numbers: a check takes one, for every stage.")
    del compare["checkpoint"]
    before = dataclasses.replace(_learning(flags, None), **vars(flags.network))
    assert before.weight_lr is not None
    settings = CoordinateSettings(
        **compare,
        model=before.model,
        blocks=blocks,
        weight_lr=before.weight_lr,
        optimiser=before.optimiser,
        rate_scaling=before.rate_scaling,
        solver=lambda latents: make_solver(dataclasses.replace(before, hidden_layers=latents)),
        network=form_options(before),
    )
    chosen = settings.compared
    used: Row = {"width": chosen.width, "loss": flags.learn.loss or chosen.loss}
    if settings.depth_name is not None:
        used[settings.depth_name] = chosen.depth if before.model == models.MLP else (chosen.depth,)
    energy = Energy(used["loss"], before.output_precision)
    return dataclasses.replace(settings, energy=energy), dataclasses.replace(before, **used)


def _learning(flags: CheckFlags, trained: TrainFlags | None) -> TrainFlags:
    """Return the settings of learning: the given flags over those of a run, or over the defaults of `mupc train`, but
    with the rate of this check."""
    given = {name: value for name, value in vars(flags.learn).items() if value is not None}
    before = TrainFlags() if trained is None else trained
    now: Row = {"method": "pc"} | given
    freed = before.freed_for(dataclasses.replace(before, **now))
    rate: Row = {"weight_lr": WEIGHT_LR} if freed.weight_lr is None else {}
    return dataclasses.replace(freed, **rate | now)


def _as_used(learning: TrainFlags, dataset: Dataset, network: AbstractNetwork) -> TrainFlags:
    """Return the settings with what was left to a default."""
    return as_used(learning, dataset, network, make_algorithm(learning, network))


def _shown(used: TrainFlags) -> Row:
    return {name: value for name, value in vars(used).items() if name in (*SHOWN, *SOLVERS[str(used.solver)].flags)}


def _title(used: TrainFlags, seeds: int) -> str:
    kind = f"skip {used.skip}" if used.model == models.MLP else f"{used.loss}"
    form = f"{used.model}, {used.activation}, {used.parameterisation}, {kind}, solver {used.solver}"
    rates = f"λ = {used.output_precision:g}, {used.optimiser} at {used.weight_lr:g}, rate scaling {used.rate_scaling}"
    return f"{form}, {rates}, {seeds} seeds"


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
