"""Report a transfer: its summary, a table, sentences and a figure."""

import dataclasses
import math
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from .. import plots
from ..io import json_ready
from ..sweep import AT_EDGE, Transfer, TransferCell, Tuning
from .display import clock, percent
from .runner import Session
from .transfer_cells import count_pairs

Summary = dict[str, Any]


def summarise_transfer(found: Transfer) -> Summary:
    """Return the result as plain values."""
    return {
        "chosen": dataclasses.asdict(found.chosen),
        "used": dataclasses.asdict(found.used),
        "own": None if found.own is None else dataclasses.asdict(found.own),
        "regret": found.regret,
        "regret_is_lower_bound": found.own is not None and found.at_edge(found.own),
        "saved": found.saved,
        "diverged": bool(found.used.diverged),
        "test_accuracy": found.used.test_accuracy,
        "train_loss": found.used.train_loss,
        "small": _as_record(found.small),
        "large": _as_record(found.large),
    }


def _as_record(tuning: Tuning) -> Summary:
    return dataclasses.asdict(tuning) | {"size": tuning.size._asdict(), "seconds": tuning.seconds}


def draw_losses(found: Transfer, path: Path) -> None:
    """Draw the loss that chose the rates, at the small size, and the loss that regret compares, at the large one."""
    marks = [("used here", found.used.rates)]
    if found.own is not None and math.isfinite(found.own.train_loss):
        marks.append(("its own best", found.own.rates))
    small = _panel(found.small, "validation_loss") | {"marks": [("chosen here", found.chosen.rates)]}
    plots.draw_transfer([small, _panel(found.large, "train_loss") | {"marks": marks}], path)


def _panel(tuning: Tuning, loss: Literal["validation_loss", "train_loss"]) -> Summary:
    name = "validation loss" if loss == "validation_loss" else "training loss"
    cells = [json_ready(dataclasses.asdict(cell) | {"loss": getattr(cell, loss)}) for cell in tuning.cells]
    return {"title": f"{tuning.size}: {name}", "cells": cells}


def show_transfer(found: Transfer, folder: Path, session: Session) -> None:
    """Show a table of the rates, what transfer cost, and where everything is."""
    table = Table("", box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    for name in ("η", "activity\nrate", "training\nloss", "validation\nloss", "test\naccuracy"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = [(f"optimum, {found.small.size}", found.chosen), (f"used, {found.large.size}", found.used)]
    if found.own is not None:
        rows.append((f"best of {len(found.large.cells)} tried there", found.own))
    for title, cell in rows:
        table.add_row(title, f"{cell.weight_lr:g}", f"{cell.activity_lr:g}", *_results(cell))
    session.console.print(table)
    for line in (*_conclusions(found), f"run folder {folder}"):
        session.say(line)


def _results(cell: TransferCell) -> tuple[str, ...]:
    if cell.diverged:
        return "diverged", "–", "–"
    return f"{cell.train_loss:.4f}", f"{cell.validation_loss:.4f}", percent(cell.test_accuracy)


def _conclusions(found: Transfer) -> list[str]:
    lines = [AT_EDGE] if found.at_edge(found.chosen) else []
    if found.regret is not None and math.isnan(found.regret):
        lines.append("regret: unknown, the large network diverged with every rate that was tried")
    elif found.own is not None and found.regret is not None:
        loss = "the large network diverged" if math.isinf(found.regret) else f"{100 * found.regret:.3g} %"
        bound = ", or more: its own best rates lie at the edge of the grid" if found.at_edge(found.own) else ""
        lines.append(f"regret: {loss}{bound}")
    sizes = (found.small, found.large)
    small, large = (f"{clock(size.seconds)} for {count_pairs(len(size.cells))}" for size in sizes)
    lines.append(
        f"saved: tuning took {100 * (1 - found.saved):.3g} % of the operations that it takes on the large network "
        f"({small} here, {large} there, compiling included)"
    )
    return lines
