"""Tuning small and training large, from flags to a run folder."""

import collections
import dataclasses
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from .. import data, plots
from ..data import Dataset
from ..inference import Energy
from ..io import counted, device, versions
from ..sweep._cells import AT_EDGE, Cell, Rates, Size, Transfer, Tuning
from ..sweep.transfer import transfer as tune_and_train
from .display import clock, percent, say
from .job import network_options
from .run_folder import RunFolder, strict
from .transfer import TransferFlags

Summary = dict[str, Any]
METRICS = "metrics.jsonl"
LOSSES = ("train_loss", "validation_loss", "test_loss")


def transfer(flags: TransferFlags, console: Console) -> Summary:
    """Does what the flags say, writes a run folder and returns its summary.

    **Arguments:** the flags of `mupc transfer`, and the console to show it on.
    """
    dataset = data.load(flags.data.data, data_dir=flags.data.data_dir, verify=flags.data.verify_data)
    groups = (flags.data, flags.network, flags.grid, flags.learning)
    config = {key: value for group in groups for key, value in dataclasses.asdict(group).items()}
    folder = RunFolder(flags.output.out, "transfer", resumes=METRICS)
    done = _Done(folder, config)
    about = {
        "config": config,
        "versions": versions(),
        "device": device(),
        "precision": flags.learning.precision,
        "seed": flags.grid.seed,
    }
    folder.write("config.json", about)
    console.quiet = flags.output.quiet or flags.output.json
    begin, found = time.perf_counter(), None
    try:
        done.restore()
        with _Stages(console) as stages:
            found = _run(flags, dataset, stages, done)
    except KeyboardInterrupt:
        if not done:
            folder.discard()
            raise
    except BaseException:
        folder.discard()
        raise
    finally:
        folder.close()
    summary = {
        **({} if found is None else summarise(found)),
        "seconds": time.perf_counter() - begin,
        "interrupted": found is None,
        "message": done.message if found is None else "",
        "device": about["device"],
        "out": str(folder.path),
    }
    folder.write("summary.json", summary)
    if found is not None:
        plots.draw_transfer(_panels(found), folder.path / "figures" / "transfer.png")
        _conclude(found, summary, console)
    return summary


def _run(flags: TransferFlags, dataset: Dataset, stages: "_Stages", done: "_Done") -> Transfer:
    network, learning = flags.network, flags.learning
    with jax.enable_x64(learning.precision == "float64"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of numbers too large, which diverge
        return tune_and_train(
            dataset,
            small=(network.width, network.hidden_layers),
            large=(network.large_width, network.large_hidden_layers),
            weight_lrs=flags.grid.weight_lrs,
            activity_lrs=flags.grid.activity_lrs,
            epochs=learning.epochs,
            seeds=flags.grid.seeds,
            seed=flags.grid.seed,
            verify=flags.grid.verify,
            energy=Energy(loss=learning.loss, output_precision=learning.output_precision),
            inference_steps=learning.inference_steps,
            batch_size=learning.batch_size,
            optimiser=learning.optimiser,
            schedule=learning.schedule,
            precision=learning.precision,
            validation=flags.data.validation,
            progress=stages.update,
            done=done,
            **network_options(network),
        )


class _Done(dict[tuple[Size, Rates], Cell]):
    """Finished cells, each at once a line of the folder's metrics.jsonl. `restore` takes those of an earlier call with
    the same settings; `--verify` may differ, which only decides how many there are."""

    def __init__(self, folder: RunFolder, config: dict[str, Any]) -> None:
        super().__init__()
        self.folder = folder
        if (folder.path / METRICS).exists():
            stored, wanted = _stored(folder.path), strict(config)
            for name in {**wanted, **stored}:
                if name != "verify" and wanted.get(name) != stored.get(name):
                    raise ValueError(
                        f"--out {folder.path} holds another run (its {name} is {stored.get(name)}): choose another "
                        "folder, or give all flags of that run to go on with it."
                    )

    def restore(self) -> None:
        """Takes the cells of an earlier call."""
        path = self.folder.path / METRICS
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for size, cell in filter(None, map(_cell, lines)):
            self[size, cell.rates] = cell

    def __setitem__(self, key: tuple[Size, Rates], cell: Cell) -> None:
        super().__setitem__(key, cell)
        self.folder.append({**key[0]._asdict(), **dataclasses.asdict(cell)})

    @property
    def message(self) -> str:
        """What an interruption left."""
        counts = collections.Counter(size for size, _ in self)
        there = ", ".join(f"{_pairs(count)} with {size}" for size, count in counts.items())
        return f"interrupted; finished and kept: {there}. Go on with the same flags and --out {self.folder.path}"


def _cell(line: str) -> tuple[Size, Cell] | None:
    """A line of metrics.jsonl; None if it is damaged, as by a writer that was killed."""
    try:
        record = json.loads(line)
        size = Size(record.pop("width"), record.pop("hidden_layers"))
        cell = Cell(**record | {name: math.inf for name in LOSSES if record[name] is None})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    numbers = dataclasses.asdict(cell) | {"test_accuracy": cell.test_accuracy or 0.0}
    return (size, cell) if all(isinstance(number, int | float) for number in (*size, *numbers.values())) else None


def _stored(path: Path) -> dict[str, Any]:
    """The settings in a run folder; none if there is nothing to read."""
    try:
        return dict(json.loads((path / "config.json").read_text(encoding="utf-8"))["config"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


class _Stages:
    """A bar for each stage on a terminal, a line elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console, self.bar = console, Progress(console=console, disable=not console.is_terminal)
        self.tasks: dict[str, Any] = {}

    def __enter__(self) -> "_Stages":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def update(self, stage: str, share: float) -> None:
        if stage not in self.tasks:
            self.tasks[stage] = self.bar.add_task(stage, total=1.0)
            if not self.console.is_terminal:
                self.console.print(f"{stage} …", highlight=False, soft_wrap=True)
        self.bar.update(self.tasks[stage], completed=share)


def summarise(found: Transfer) -> Summary:
    """The result as plain values."""
    own = found.own
    return {
        "chosen": dataclasses.asdict(found.chosen),
        "used": dataclasses.asdict(found.used),
        "own": None if own is None else dataclasses.asdict(own),
        "regret": found.regret,
        "regret_is_lower_bound": own is not None and found.at_edge(own),
        "saved": found.saved,
        "diverged": bool(found.used.diverged),
        "test_accuracy": found.used.test_accuracy,
        "train_loss": found.used.train_loss,
        **{name: _plain(tuning) for name, tuning in (("small", found.small), ("large", found.large))},
    }


def _plain(tuning: Tuning) -> Summary:
    return dataclasses.asdict(tuning) | {"size": tuning.size._asdict(), "seconds": tuning.seconds}


def _panels(found: Transfer) -> list[dict[str, Any]]:
    """The small network's validation loss, which chose, and the large one's training loss, which regret is of."""
    small = {"title": f"{found.small.size}: validation loss", "marks": [("chosen here", found.chosen.rates)]}
    large = {"title": f"{found.large.size}: training loss", "marks": [("used here", found.used.rates)]}
    if found.own is not None and math.isfinite(found.own.train_loss):
        large["marks"].append(("its own best", found.own.rates))  # type: ignore[attr-defined]
    return [
        panel | {"cells": [strict(dataclasses.asdict(cell) | {"loss": getattr(cell, loss)}) for cell in tuning.cells]}
        for panel, tuning, loss in ((small, found.small, "validation_loss"), (large, found.large, "train_loss"))
    ]


def _conclude(found: Transfer, summary: Summary, console: Console) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    table.add_column("")
    for name in ("η", "activity\nrate", "training\nloss", "validation\nloss", "test\naccuracy"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = [(f"optimum, {found.small.size}", found.chosen), (f"used, {found.large.size}", found.used)]
    if found.own is not None:
        rows.append((f"best of {len(found.large.cells)} tried there", found.own))
    for title, cell in rows:
        table.add_row(title, f"{cell.weight_lr:g}", f"{cell.activity_lr:g}", *_results(cell))
    console.print(table)
    for line in _sentences(found, summary):
        say(console, line)


def _results(cell: Cell) -> tuple[str, ...]:
    if cell.diverged:
        return "diverged", "–", "–"
    return f"{cell.train_loss:.4f}", f"{cell.validation_loss:.4f}", percent(cell.test_accuracy)


def _sentences(found: Transfer, summary: Summary) -> list[str]:
    lines = []
    if found.at_edge(found.chosen):
        lines.append(AT_EDGE)
    if found.regret is not None:
        if math.isnan(found.regret):
            lines.append("regret: unknown, the large network diverged with every rate that was tried")
        else:
            bound = ", or more: its own best rates lie at the edge of the grid"
            loss = "the large network diverged" if math.isinf(found.regret) else f"{100 * found.regret:.3g} %"
            lines.append(f"regret: {loss}{bound if summary['regret_is_lower_bound'] else ''}")
    times = (f"{clock(tuning.seconds)} for {_pairs(len(tuning.cells))}" for tuning in (found.small, found.large))
    lines.append(
        f"saved: tuning took {100 * (1 - found.saved):.3g} % of the operations that it takes on the large network "
        f"({' here, '.join(times)} there, compiling included)"
    )
    return [*lines, f"run folder {summary['out']}"]


def _pairs(count: int) -> str:
    return counted(count, "pair of rates", "pairs of rates")
