"""Tuning small and training large, from flags to a run folder."""

import dataclasses
import math
import time
from typing import Any

import jax
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from .. import data
from .._energy import Energy
from ..experiments._machine import device, versions
from ..plots import transfer as plots
from ..sweep.transfer import Cell, Transfer, Tuning
from ..sweep.transfer import transfer as tune_and_train
from .display import clock, percent, say
from .run_folder import RunFolder, strict
from .transfer import TransferFlags

Summary = dict[str, Any]


def transfer(flags: TransferFlags, console: Console) -> Summary:
    """Does what the flags say, writes a run folder and returns its summary.

    **Arguments:** the flags of `mupc transfer`, and the console to show it on.
    """
    source, network, learning = flags.data, flags.network, flags.learning
    dataset = data.load(source.data, data_dir=source.data_dir, verify=source.verify_data)
    energy = Energy(loss=learning.loss, output_precision=learning.output_precision)
    folder = RunFolder(flags.output.out, "transfer")
    about = {
        "config": {
            key: value
            for group in (source, network, flags.grid, learning)
            for key, value in dataclasses.asdict(group).items()
        },
        "versions": versions(),
        "device": device(),
        "precision": learning.precision,
        "seed": flags.grid.seed,
    }
    folder.write("config.json", about)
    console.quiet = flags.output.quiet or flags.output.json
    begin = time.perf_counter()
    try:
        with _Stages(console) as stages, jax.enable_x64(learning.precision == "float64"):
            found = tune_and_train(
                dataset,
                small=(network.width, network.hidden_layers),
                large=(network.large_width, network.large_hidden_layers),
                weight_lrs=flags.grid.weight_lrs,
                activity_lrs=flags.grid.activity_lrs,
                epochs=learning.epochs,
                seeds=flags.grid.seeds,
                seed=flags.grid.seed,
                verify=flags.grid.verify,
                energy=energy,
                inference_steps=learning.inference_steps,
                batch_size=learning.batch_size,
                optimiser=learning.optimiser,
                schedule=learning.schedule,
                precision=learning.precision,
                validation=source.validation,
                progress=stages.update,
                activation=network.activation,
                parameterisation=network.parameterisation,
                skip=network.skip,
                init=network.init,
                use_bias=network.bias,
            )
    except BaseException:
        folder.discard()
        raise
    summary = {
        **summarise(found),
        "seconds": time.perf_counter() - begin,
        "device": about["device"],
        "out": str(folder.path),
    }
    folder.write("summary.json", summary)
    plots.plot(_panels(found), folder.path / "figures" / "transfer.png")
    _conclude(found, summary, console)
    return summary


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
    return dataclasses.asdict(tuning) | {"size": tuning.size._asdict()}


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
        lines.append("the optimum lies at the edge of the grid: better rates may lie beyond it")
    if found.regret is not None:
        if math.isnan(found.regret):
            lines.append("regret: unknown, the large network diverged with every rate that was tried")
        else:
            bound = ", or more: its own best rates lie at the edge of the grid"
            loss = "the large network diverged" if math.isinf(found.regret) else f"{100 * found.regret:.3g} %"
            lines.append(f"regret: {loss}{bound if summary['regret_is_lower_bound'] else ''}")
    runs = len(found.small.cells), len(found.large.cells)
    share = 100 * (1 - found.saved)
    estimate = found.large.seconds * runs[0] / runs[1]
    lines.append(
        f"saved: tuning took {share:.3g} % of the operations that it takes on the large network "
        f"({clock(found.small.seconds)} here, about {clock(estimate)} there)"
    )
    return [*lines, f"run folder {summary['out']}"]
