"""Folders of cells that are being trained, one for each group, so that another worker can go on with those of a dead
one."""

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..io import BusyError, only_writer, write_whole
from ._sweep import ClaimedCell

CELLS = "cells.json"


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
            yield UnfinishedGroup(_read(folder / CELLS), folder)
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


def _read(path: Path) -> dict[int, int]:
    """Return the trials of a group, or nothing if the file is damaged."""
    try:
        return {int(index): int(number) for index, number in json.loads(path.read_text(encoding="utf-8"))}
    except (OSError, ValueError, TypeError):
        return {}
