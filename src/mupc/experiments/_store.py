"""Keep finished cells on disk: one strict JSON file each, written whole or not at all, named by what was computed.

The name is a hash of the cell, so figures that share a run share its file, and folders that come back from other
machines are merged by copying them over one another.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..io import json_ready, json_text, only_writer, write_whole
from ._figure import FigureCell, Row

_DIGITS = 7
UNFINISHED, _RESULTS, _FOUND = "unfinished", "results.json", "found.json"


def strict(value: object) -> Any:
    """Return the value as strict JSON with floats of seven digits."""
    return json_ready(value, _DIGITS)


def dumps(value: object) -> str:
    """Return the strict JSON text of a value, with floats of seven digits."""
    return json_text(value, digits=_DIGITS)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, and its folder if need be. Other processes may write the same one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text, own=f".{os.getpid()}")


def as_json(cell: FigureCell) -> Row:
    """Return what identifies the cell, as it is written."""
    fields: Row = json.loads(json.dumps(dataclasses.asdict(cell), allow_nan=False))
    return {"family": cell.family, "version": cell.version, **fields}


def key(cell: FigureCell) -> str:
    """Return a name for the cell that depends on its content only."""
    return hashlib.sha256(json.dumps(as_json(cell), sort_keys=True).encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class CellStore:
    """The cells under a folder: finished ones, and checkpoints of those that are being computed."""

    root: Path

    def path(self, cell: FigureCell) -> Path:
        return self.root / cell.family / f"{key(cell)}.json"

    def save(self, cell: FigureCell, result: Row) -> None:
        write_text(self.path(cell), _text(cell, result))

    def save_all(self, results: Mapping[FigureCell, Row], folder: Path) -> None:
        """Save the results of cells that were computed together, in their scratch folder first: a process that is
        killed in between would leave a part of the group, and a part computed alone ends with other rounding.
        """
        texts = {self._place(cell): _text(cell, result) for cell, result in results.items()}
        write_text(folder / _FOUND, json.dumps(texts))
        for place, text in texts.items():
            write_text(self.root / place, text)

    def _place(self, cell: FigureCell) -> str:
        return self.path(cell).relative_to(self.root).as_posix()

    @contextlib.contextmanager
    def scratch(self, cells: Sequence[FigureCell], fresh: bool) -> Iterator[Path]:
        """Yield a folder for the checkpoints of cells that are computed together, emptied first if `fresh`.

        No other process may use it meanwhile (`BusyError`). If something goes wrong, its checkpoints stay."""
        name = hashlib.sha256(" ".join(map(key, cells)).encode()).hexdigest()[:16] if len(cells) > 1 else key(cells[0])
        folder = self.root / UNFINISHED / name
        folder.mkdir(parents=True, exist_ok=True)
        with only_writer(folder):
            if fresh:
                for path in folder.iterdir():
                    shutil.rmtree(path, ignore_errors=True)
            write_text(folder / _RESULTS, json.dumps([self._place(cell) for cell in cells]))
            done = False
            try:
                yield folder
                done = True
            finally:
                if done or not any(path.is_dir() for path in folder.iterdir()):
                    _remove(folder)

    def tidy(self) -> None:
        """End what a killed process could not: save the results that it had written down, and delete the checkpoints of
        finished cells."""
        for folder in (self.root / UNFINISHED).glob("*"):
            with contextlib.suppress(OSError, ValueError):
                places = _read(folder / _RESULTS)
                found = _read(folder / _FOUND) if (folder / _FOUND).exists() else {}
                missing = [place for place in places if not (self.root / str(place)).exists()]
                if all(place in found for place in missing):
                    with only_writer(folder):
                        for place in missing:
                            write_text(self.root / place, found[place])
                        _remove(folder)

    def load(self, cell: FigureCell) -> Row | None:
        """Return the result of a finished cell; None if there is none, or if its file is damaged or of another cell."""
        try:
            saved = _read(self.path(cell))
        except (OSError, ValueError):
            return None
        if not isinstance(saved, dict) or saved.get("cell") != as_json(cell):
            return None
        result = saved.get("result")
        return result if isinstance(result, dict) else None


def _text(cell: FigureCell, result: Row) -> str:
    return dumps({"cell": as_json(cell), "result": result}) + "\n"


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _remove(folder: Path) -> None:
    """Delete a scratch folder, its checkpoints first: `tidy` knows whose they are if the process is killed."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
