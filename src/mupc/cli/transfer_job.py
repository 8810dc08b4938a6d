"""Tune small and train large: from flags to a run folder, a table and a figure. The same command goes on from finished
cells."""

import collections
import contextlib
import dataclasses
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx

from .. import plots
from ..data import Dataset
from ..inference import Energy
from ..io import checks, counted, json_ready
from ..io.progress import ProgressDisplay, clock, percent
from ..learning import ALM, AbstractSolving
from ..network import models
from ..sweep import ACTIVITY_LRS, AT_EDGE, NetworkSize, Transfer, TransferCell, TransferSolver, weight_lrs
from ..sweep import transfer as tune_and_train
from .building import (
    SOLVERS,
    as_used,
    form_options,
    load_source,
    make_algorithm,
    network_maker,
    number_format,
    train_config,
)
from .config import FORMAT, TrainFlags, pick, read, typed
from .display import plain_table
from .flags import ACTIVITY_LR, DEFAULT_SOLVERS, NetworkFlags, SourceFlags, UpdateFlags
from .parsing import flag
from .run_folder import METRICS, RunFolder
from .runner import FAILURE, CommandResult, Session
from .train_report import notes
from .transfer import TRANSFER_SIZES, TUNED_SOLVER, TransferFlags

CHOSEN = ("solver", "rate_scaling", "schedule", "task", "test", "init", "loss", "output_precision", "precision")
"""Settings whose defaults follow others."""
EARLIER = {
    "one_hot": False,
    "method": "pc",
    "solver": "gd",
    "model": "mlp",
    "split": False,
    "normalise_embedding": False,
}
EARLIER |= vars(UpdateFlags(rate_scaling="none", schedule="constant"))
"""What folders of earlier versions do not say."""
LOSSES = {"train_loss": "training loss", "validation_loss": "validation loss", "test_loss": "test loss"}


def transfer(flags: TransferFlags, session: Session) -> CommandResult:
    """Do what the flags say, write a run folder and return its summary.

    **Arguments:** the flags of `mupc transfer`, and the session.
    """
    dataset = load_source(flags.data)
    small, sizes = _small_network(flags)
    solver, config = _as_used(flags, small, dataset, session)
    config |= sizes
    folder = RunFolder(flags.output.out, "transfer", resumes=METRICS, format=flags.output.format)
    done = RecordedCells(folder, config)
    folder.write_config(config, format=FORMAT, precision=config["precision"], seed=flags.grid.seed)
    groups = (flags.grid, flags.learning, flags.updates)
    learning = {name: config[name] for group in groups for name in vars(group) if name not in ("method", "solver")}
    energy = Energy(loss=learning.pop("loss"), output_precision=learning.pop("output_precision"))
    if config["activity_lrs"] is None:
        del learning["inference_steps"]  # the solver has them already
    begin, found = time.perf_counter(), None
    with folder.recording(), number_format(config["precision"]), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # about numbers that are too large, which diverge
        done.restore()
        with _stages(session) as show_stage:
            found = tune_and_train(
                dataset,
                small=[size for name, size in sizes.items() if not name.startswith("large")],
                large=[size for name, size in sizes.items() if name.startswith("large")],
                model=small.model,
                solver=solver,
                energy=energy,
                validation=flags.data.validation,
                progress=show_stage,
                done=done,
                **learning,
                **form_options(small),
            )
    results, message = ({}, done.message) if found is None else (summarise_transfer(found), "")
    summary = folder.write_summary(results, begin, message, interrupted=found is None)
    if found is not None:
        draw_losses(found, folder.figure("transfer"), plots.LOSSES[config["loss"]])
        show_transfer(found, folder.path, session)
    if summary.get("diverged"):
        return CommandResult(summary, "the large network diverged with the rates of the small one.", FAILURE)
    return CommandResult(summary)


def _small_network(flags: TransferFlags) -> tuple[TrainFlags, dict[str, int]]:
    """Return the settings of training the small network, and the numbers of both sizes. Refuse those that the model
    does not have."""
    form, learning = flags.network, vars(flags.learning)
    sizes = dict(TRANSFER_SIZES[form.model])
    for name in dict.fromkeys(name for each in TRANSFER_SIZES.values() for name in each):
        value = getattr(form, name)
        if name not in sizes and value is not None:
            raise ValueError(f"{flag(name)} has no effect with --model {form.model}: leave it out.")
        if value is not None:
            sizes[name] = checks.integer(name, _one_number(value) if name == "blocks" else value, 1)
    if flags.learning.method in DEFAULT_SOLVERS and flags.learning.solver is None:
        solver = TUNED_SOLVER if form.model == "mlp" else DEFAULT_SOLVERS[flags.learning.method]
        learning = learning | {"solver": solver}
    own: dict[str, Any] = {name: value for name, value in sizes.items() if hasattr(TrainFlags, name)}
    if "blocks" in own:
        own["blocks"] = (own["blocks"],)
    network = pick(form, NetworkFlags) | {"hidden_layers": TrainFlags.hidden_layers} | own
    source, updates = pick(flags.data, SourceFlags), vars(flags.updates)
    return TrainFlags(**source, **network, **learning, **updates, seed=flags.grid.seed), sizes


def _one_number(blocks: tuple[int, ...]) -> int:
    if len(blocks) > 1:
        raise ValueError("--blocks has several numbers: transfer takes one, for every stage.")
    return blocks[0]


def _as_used(
    flags: TransferFlags, small: TrainFlags, dataset: Dataset, session: Session
) -> tuple[TransferSolver, dict[str, Any]]:
    """Return the solver, and all settings with what was left to a default. Both sizes have `inference_steps` of their
    own where it is None."""
    form, grid = flags.network, flags.grid
    with number_format(small.precision):
        network = eqx.filter_eval_shape(network_maker(small, dataset))
        algorithm = make_algorithm(small, network)
        used = as_used(small, dataset, network, algorithm)
    for line in notes(used):
        session.say(f"note: {line}")
    session.say(f"small network: {train_config(small, dataset).describe_rates(network)}")
    groups = (flags.data, form, grid, flags.learning, flags.updates)
    config = {key: value for group in groups for key, value in vars(group).items()}
    config |= {key: getattr(used, key) for key in CHOSEN}
    if grid.weight_lrs is None:
        assert used.weight_lr is not None
        config["weight_lrs"] = weight_lrs(used.weight_lr)
    if used.solver not in ACTIVITY_LR:
        if grid.activity_lrs is not None:
            users = f"--solver {' or '.join(ACTIVITY_LR)}"
            which, users = ("method", "--method pc") if used.solver is None else ("solver", users)
            wrong = f"--activity-lrs has no effect with {flag(which)} {getattr(used, which)}"
            raise ValueError(f"{wrong}: leave it out, or use {users}.")
        if isinstance(algorithm, ALM) and small.inference_steps is None:
            algorithm = dataclasses.replace(algorithm, steps=None)  # twice the layers of each network
        return algorithm, config
    if grid.activity_lrs is None:
        config["activity_lrs"] = ACTIVITY_LRS
    assert isinstance(algorithm, AbstractSolving)
    make = SOLVERS[used.solver].make
    return lambda lr, steps: dataclasses.replace(algorithm, solver=make(lr, steps)), config


@contextlib.contextmanager
def _stages(session: Session) -> Iterator[Callable[[str, float], None]]:
    """Return a function that shows how far a stage is. The display of one stage closes when the next begins."""
    displays: dict[str, ProgressDisplay] = {}
    with contextlib.ExitStack() as current:

        def show(stage: str, share: float) -> None:
            if stage not in displays:
                current.close()
                display = ProgressDisplay(session.console, f"{stage}: percent", f"{stage} …")
                displays[stage] = current.enter_context(display)
            displays[stage].update(round(100 * share), 100, plain="")

        yield show


class RecordedCells(collections.UserDict[tuple[NetworkSize, tuple[float, float | None]], TransferCell]):
    """Finished cells by size and rates, each written at once as a line of the folder's metrics.jsonl.

    **Arguments:** the folder, and the settings of this call. A folder with other settings is refused; only `verify` may
    differ, because it decides nothing but how many cells there are.
    """

    def __init__(self, folder: RunFolder, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.folder, self.depth_name = folder, models.depth_name(config["model"])
        if not (folder.path / METRICS).exists():
            return
        wanted, stored = json_ready(config), dict[str, object]()
        with contextlib.suppress(ValueError):
            found = read(folder.path)
            new = {} if found.format == FORMAT else {name: wanted[name] for name in ("init", "task")}
            stored = EARLIER | found.settings | new
        for name in {"rate_scaling": "", **wanted, **stored}:  # first, because default rates follow it
            if name != "verify" and wanted.get(name) != stored.get(name):
                raise ValueError(
                    f"--out {folder.path} holds another run (its {name} is {stored.get(name)}): choose another "
                    "folder, or give all flags of that run to go on with it."
                )

    def restore(self) -> None:
        """Read the cells of an earlier call, and write them down again."""
        path = self.folder.path / METRICS
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for size, cell in filter(None, (read_cell(line, self.depth_name) for line in lines)):
            self[size, cell.rates] = cell

    def __setitem__(self, key: tuple[NetworkSize, tuple[float, float | None]], cell: TransferCell) -> None:
        super().__setitem__(key, cell)
        self.folder.append({**key[0].named, **dataclasses.asdict(cell)})

    @property
    def message(self) -> str:
        """What an interruption left."""
        counts = collections.Counter(size for size, _ in self)
        kept = ", ".join(f"{_pairs(count)} with {size}" for size, count in counts.items())
        return f"interrupted; finished and kept: {kept}. Go on with the same flags and --out {self.folder.path}"


def _pairs(count: int) -> str:
    return counted(count, "pair of rates", "pairs of rates")


def read_cell(line: str, depth_name: str | None = "hidden_layers") -> tuple[NetworkSize, TransferCell] | None:
    """Read a line of metrics.jsonl. Return None if it is damaged, as by a process that was killed."""
    try:
        record = json.loads(line)
        depth = None if depth_name is None else record.pop(depth_name)
        numbers = {"width": record.pop("width"), "hidden_layers": depth, "depth_name": depth_name}
        size = typed(NetworkSize, numbers, METRICS)
        return size, typed(TransferCell, record | {name: math.inf for name in LOSSES if record[name] is None}, METRICS)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def summarise_transfer(found: Transfer) -> dict[str, Any]:
    """Return the result as plain values."""
    sizes = {"small": found.small, "large": found.large}
    tunings = {
        name: dataclasses.asdict(tuning) | {"size": tuning.size.named, "seconds": tuning.seconds}
        for name, tuning in sizes.items()
    }
    return dataclasses.asdict(found) | {
        "regret": found.regret,
        "regret_is_lower_bound": found.own is not None and found.at_edge(found.own),
        "saved": found.saved,
        "diverged": bool(found.used.diverged),
        "test_accuracy": found.used.test_accuracy,
        "train_loss": found.used.train_loss,
        **tunings,
    }


def draw_losses(found: Transfer, path: Path, kind: str) -> None:
    """Draw the loss that chose the rates, at the small size, and the loss that regret compares, at the large one. Name
    the kind of loss."""
    marks = [("used here", found.used.rates)]
    if found.own is not None and math.isfinite(found.own.train_loss):
        marks.append(("its own best", found.own.rates))
    chosen = [("chosen here", found.chosen.rates)]
    panels = []
    for tuning, loss, marked in ((found.small, "validation_loss", chosen), (found.large, "train_loss", marks)):
        cells = [json_ready(dataclasses.asdict(cell) | {"loss": getattr(cell, loss)}) for cell in tuning.cells]
        panels.append({"title": f"{tuning.size}: {LOSSES[loss]}\n({kind})", "cells": cells, "marks": marked})
    plots.draw_transfer(panels, path)


def show_transfer(found: Transfer, folder: Path, session: Session) -> None:
    """Show a table of the rates, what transfer cost, and where everything is."""
    table = plain_table("", "η", "activity\nrate", "training\nloss", "validation\nloss", "test\naccuracy", left=("",))
    rows = {f"optimum, {found.small.size}": found.chosen, f"used, {found.large.size}": found.used}
    if found.own is not None:
        rows[f"best of {len(found.large.cells)} tried there"] = found.own
    for title, cell in rows.items():
        results = [f"{cell.train_loss:.4f}", f"{cell.validation_loss:.4f}", percent(cell.test_accuracy)]
        results = ["diverged", "–", "–"] if cell.diverged else results
        activity_lr = "–" if cell.activity_lr is None else f"{cell.activity_lr:g}"
        table.add_row(title, f"{cell.weight_lr:g}", activity_lr, *results)
    session.console.print(table)
    for line in (*_conclusions(found), f"run folder {folder}"):
        session.say(line)


def _conclusions(found: Transfer) -> list[str]:
    lines = [AT_EDGE] if found.at_edge(found.chosen) else []
    if found.regret is not None and math.isnan(found.regret):
        lines.append("regret: unknown, the large network diverged with every rate that was tried")
    elif found.own is not None and found.regret is not None:
        loss = "the large network diverged" if math.isinf(found.regret) else f"{100 * found.regret:.3g} %"
        bound = ", or more: its own best rates lie at the edge of the grid" if found.at_edge(found.own) else ""
        lines.append(f"regret: {loss}{bound}")
    small, large = (f"{clock(size.seconds)} for {_pairs(len(size.cells))}" for size in (found.small, found.large))
    lines.append(
        f"saved: tuning took {100 * (1 - found.saved):.3g} % of the operations that it takes on the large network "
        f"({small} here, {large} there, compiling included)"
    )
    return lines
