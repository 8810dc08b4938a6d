"""Folders of cells that are being trained, one for each group, so that another worker can go on with those of a dead
one."""

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..io import BusyError, only_writer, write_whole
from ._axes import CellSettings
from ._sweep import ClaimedCell

CELLS, RESULTS = "cells.json", "results.json"


@dataclasses.dataclass(frozen=True)
class UnfinishedGroup:
    """Cells that train together: their trials' numbers by their indices, and a folder that belongs to one worker at a
    time (None: nothing is kept)."""

    trials: Mapping[int, int]
    folder: Path | None

    def write(self) -> None:
        """Write down which cells these are."""
        if self.folder is not None:
            write_whole(self.folder / CELLS, json.dumps(list(self.trials.items())))

    def keep(self, results: Sequence[CellSettings]) -> None:
        """Write down the results of all cells, before the first of them is recorded in the database. A worker that is
        killed in between leaves a part of the group, which trained alone would end with other rounding."""
        if self.folder is not None:
            write_whole(self.folder / RESULTS, json.dumps(list(zip(self.trials, results, strict=True))))

    def kept(self) -> dict[int, CellSettings]:
        """Return the results that were written down, by the cells' indices."""
        return {} if self.folder is None else dict(_pairs(self.folder / RESULTS))

    def remove(self) -> None:
        """Delete the folder."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def left_group(root: Path | None) -> Iterator[UnfinishedGroup]:
    """Return a group in this folder whose worker was killed or interrupted, which is ours within the context. Without
    one, return a group without cells."""
    with contextlib.ExitStack() as ours:
        for folder in [] if root is None else sorted(root.glob("[!.]*")):
            try:
                ours.enter_context(only_writer(folder))
            except (BusyError, OSError):  # its worker is alive, or has just finished it
                continue
            yield UnfinishedGroup(dict(_pairs(folder / CELLS)), folder)
            return
        yield UnfinishedGroup({}, None)


@contextlib.contextmanager
def new_group(root: Path | None, cells: Sequence[ClaimedCell]) -> Iterator[UnfinishedGroup]:
    """Return a new group in this folder (None: nothing is kept), which is ours within the context."""
    if root is None:
        yield UnfinishedGroup(trial_numbers(cells), None)
        return
    name = f"trial-{cells[0].number}"  # no other group has this trial
    scratch = UnfinishedGroup(trial_numbers(cells), hidden := root / f".{name}")
    scratch.remove()
    hidden.mkdir(parents=True)
    with only_writer(hidden):
        scratch.write()
        os.replace(hidden, root / name)  # others see it only when it is ours
        yield dataclasses.replace(scratch, folder=root / name)


def trial_numbers(cells: Sequence[ClaimedCell]) -> dict[int, int]:
    """Return the number of each cell's trial by the cell's index."""
    return {cell.index: cell.number for cell in cells}


def _pairs(path: Path) -> list[tuple[int, Any]]:
    """Return what was written down for each cell's index, or nothing if the file is damaged or missing."""
    try:
        return [(int(index), value) for index, value in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []
