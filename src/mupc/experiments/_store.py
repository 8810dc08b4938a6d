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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..io import json_ready, json_text, only_writer, write_whole
from ._figure import FigureCell, Row

_DIGITS = 7
UNFINISHED, _RESULTS = "unfinished", "results.json"


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
        write_text(self.path(cell), dumps({"cell": as_json(cell), "result": result}) + "\n")

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
            results = [self.path(cell).relative_to(self.root).as_posix() for cell in cells]
            write_text(folder / _RESULTS, json.dumps(results))
            done = False
            try:
                yield folder
                done = True
            finally:
                if done or not any(path.is_dir() for path in folder.iterdir()):
                    shutil.rmtree(folder, ignore_errors=True)

    def tidy(self) -> None:
        """Delete the checkpoints of finished cells whose process was killed before it could do so."""
        for folder in (self.root / UNFINISHED).glob("*"):
            with contextlib.suppress(OSError, ValueError):
                results = json.loads((folder / _RESULTS).read_text(encoding="utf-8"))
                if all((self.root / str(result)).exists() for result in results):
                    with only_writer(folder):
                        shutil.rmtree(folder, ignore_errors=True)

    def load(self, cell: FigureCell) -> Row | None:
        """Return the result of a finished cell; None if there is none, or if its file is damaged or of another cell."""
        try:
            saved = json.loads(self.path(cell).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if not isinstance(saved, dict) or saved.get("cell") != as_json(cell):
            return None
        result = saved.get("result")
        return result if isinstance(result, dict) else None
