"""What a worker is at: a folder for every group of cells that is being trained, so that one that was killed goes on."""

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..io import BusyError, only_writer, write_whole
from ._study import Cell

CELLS = "cells.json"


@dataclasses.dataclass(frozen=True)
class Group:
    """Cells that train together: the numbers of their trials by their indices, and their folder (None: they have
    none), which belongs to one worker at a time."""

    folder: Path | None
    trials: Mapping[int, int]

    def again(self, cells: Sequence[Cell]) -> "Group":
        """The same folder for new trials of the same cells."""
        group = dataclasses.replace(self, trials=_trials(cells))
        group.write()
        return group

    def write(self) -> None:
        """Writes down which cells there are."""
        if self.folder is not None:
            write_whole(self.folder / CELLS, json.dumps(list(self.trials.items())))

    def remove(self) -> None:
        """Takes the folder away."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


@dataclasses.dataclass(frozen=True)
class Unfinished:
    """The groups in a folder; without one, nothing is kept of what is half done."""

    root: Path | None = None

    @contextlib.contextmanager
    def left(self) -> Iterator[Group | None]:
        """A group whose worker was killed or interrupted, if there is one. In the context it belongs to us."""
        with contextlib.ExitStack() as ours:
            for folder in [] if self.root is None else sorted(self.root.glob("[!.]*")):
                try:
                    ours.enter_context(only_writer(folder))
                except (BusyError, OSError):  # its worker is alive, or was just done with it
                    continue
                yield Group(folder, _read(folder / CELLS))
                return
            yield None

    @contextlib.contextmanager
    def begin(self, cells: Sequence[Cell]) -> Iterator[Group]:
        """A new group, ours within the context."""
        group = Group(None, _trials(cells))
        if self.root is None:
            yield group
            return
        name = f"trial-{cells[0].number}"  # no other group has it
        scratch = self.root / f".{name}"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        with only_writer(scratch):
            dataclasses.replace(group, folder=scratch).write()
            os.replace(scratch, self.root / name)  # others see it when it is ours
            yield dataclasses.replace(group, folder=self.root / name)

    def clear(self) -> None:
        """Takes everything away, once a sweep has ended."""
        if self.root is not None:
            shutil.rmtree(self.root, ignore_errors=True)


def _trials(cells: Sequence[Cell]) -> dict[int, int]:
    return {cell.index: cell.number for cell in cells}


def _read(path: Path) -> dict[int, int]:
    """The trials of a group; none if the file is damaged."""
    try:
        return {int(index): int(number) for index, number in json.loads(path.read_text(encoding="utf-8"))}
    except (OSError, ValueError, TypeError):
        return {}
