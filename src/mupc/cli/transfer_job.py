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
from ..io import counted, json_ready
from ..io.progress import ProgressDisplay, clock, percent
from ..sweep import ACTIVITY_LRS, AT_EDGE, NetworkSize, Transfer, TransferCell, TransferSolver, weight_lrs
from ..sweep import transfer as tune_and_train
from .building import (
    SOLVERS,
    as_used,
    load_source,
    make_algorithm,
    network_maker,
    network_options,
    number_format,
    train_config,
)
from .config import FORMAT, TrainFlags, pick, read, typed
from .display import plain_table
from .flags import ACTIVITY_LR, NetworkFlags, SourceFlags, UpdateFlags
from .run_folder import METRICS, RunFolder
from .runner import FAILURE, CommandResult, Session
from .train_report import notes
from .transfer import TUNED_SOLVER, TransferFlags

CHOSEN = ("solver", "rate_scaling", "schedule", "task", "test", "init", "output_precision", "precision")
"""Settings whose defaults follow others."""
EARLIER = {"one_hot": False, "method": "pc", "solver": "gd"}
EARLIER |= vars(UpdateFlags(rate_scaling="none", schedule="constant"))
"""What folders of earlier versions do not say."""
LOSSES = {"train_loss": "training loss", "validation_loss": "validation loss", "test_loss": "test loss"}


def transfer(flags: TransferFlags, session: Session) -> CommandResult:
    """Do what the flags say, write a run folder and return its summary.

    **Arguments:** the flags of `mupc transfer`, and the session.
    """
    dataset = load_source(flags.data)
    solver, config = _as_used(flags, dataset, session)
    folder = RunFolder(flags.output.out, "transfer", resumes=METRICS, format=flags.output.format)
    done = RecordedCells(folder, config)
    folder.write_config(config, format=FORMAT, precision=config["precision"], seed=flags.grid.seed)
    network, groups = flags.network, (flags.grid, flags.learning, flags.updates)
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
                small=(network.width, network.hidden_layers),
                large=(network.large_width, network.large_hidden_layers),
                solver=solver,
                energy=energy,
                validation=flags.data.validation,
                progress=show_stage,
                done=done,
                **learning,
                **network_options(network),
            )
    results, message = ({}, done.message) if found is None else (summarise_transfer(found), "")
    summary = folder.write_summary(results, begin, message, interrupted=found is None)
    if found is not None:
        draw_losses(found, folder.figure("transfer"), plots.LOSSES[flags.learning.loss])
        show_transfer(found, folder.path, session)
    if summary.get("diverged"):
        return CommandResult(summary, "the large network diverged with the rates of the small one.", FAILURE)
    return CommandResult(summary)


def _as_used(flags: TransferFlags, dataset: Dataset, session: Session) -> tuple[TransferSolver, dict[str, Any]]:
    """Return the solver, and all settings with what was left to a default. Both sizes have `inference_steps` of their
    own where it is None."""
    form, grid, learning = flags.network, flags.grid, vars(flags.learning)
    if flags.learning.method == "pc":
        learning = learning | {"solver": flags.learning.solver or TUNED_SOLVER}
    small = TrainFlags(
        **pick(flags.data, SourceFlags), **pick(form, NetworkFlags), **learning, **vars(flags.updates), seed=grid.seed
    )
    algorithm = make_algorithm(small)
    with number_format(small.precision):
        network = eqx.filter_eval_shape(network_maker(small, dataset))
        used = as_used(small, dataset, network, algorithm)
    for line in notes(small, used):
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
            which = "--method bp" if used.solver is None else f"--solver {used.solver}"
            users = " or ".join(ACTIVITY_LR)
            raise ValueError(f"--activity-lrs has no effect with {which}: leave it out, or use --solver {users}.")
        return algorithm, config
    if grid.activity_lrs is None:
        config["activity_lrs"] = ACTIVITY_LRS
    return SOLVERS[used.solver].make, config


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

    def __init__(self, folder: RunFolder, config: Mapping[str, object]) -> None:
        super().__init__()
        self.folder = folder
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
        for size, cell in filter(None, map(read_cell, lines)):
            self[size, cell.rates] = cell

    def __setitem__(self, key: tuple[NetworkSize, tuple[float, float | None]], cell: TransferCell) -> None:
        super().__setitem__(key, cell)
        self.folder.append({**key[0]._asdict(), **dataclasses.asdict(cell)})

    @property
    def message(self) -> str:
        """What an interruption left."""
        counts = collections.Counter(size for size, _ in self)
        kept = ", ".join(f"{_pairs(count)} with {size}" for size, count in counts.items())
        return f"interrupted; finished and kept: {kept}. Go on with the same flags and --out {self.folder.path}"


def _pairs(count: int) -> str:
    return counted(count, "pair of rates", "pairs of rates")


def read_cell(line: str) -> tuple[NetworkSize, TransferCell] | None:
    """Read a line of metrics.jsonl. Return None if it is damaged, as by a process that was killed."""
    try:
        record = json.loads(line)
        size = typed(NetworkSize, {name: record.pop(name) for name in NetworkSize._fields}, METRICS)
        return size, typed(TransferCell, record | {name: math.inf for name in LOSSES if record[name] is None}, METRICS)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def summarise_transfer(found: Transfer) -> dict[str, Any]:
    """Return the result as plain values."""
    sizes = {"small": found.small, "large": found.large}
    tunings = {
        name: dataclasses.asdict(tuning) | {"size": tuning.size._asdict(), "seconds": tuning.seconds}
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
