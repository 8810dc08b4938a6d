"""Keep the finished cells of `mupc transfer` in its run folder, so that the same command goes on from them."""

import collections
import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..io import counted, json_ready
from ..sweep import NetworkSize, TransferCell
from .run_folder import RunFolder

METRICS = "metrics.jsonl"
LOSSES = ("train_loss", "validation_loss", "test_loss")


class RecordedCells(collections.UserDict[tuple[NetworkSize, tuple[float, float]], TransferCell]):
    """Finished cells by size and rates, each at once a line of the folder's metrics.jsonl.

    **Arguments:** the folder, and the settings of this call. A folder with other settings is refused; only `verify` may
    differ, because it decides nothing but how many cells there are.
    """

    def __init__(self, folder: RunFolder, config: Mapping[str, object]) -> None:
        super().__init__()
        self.folder = folder
        if (folder.path / METRICS).exists():
            stored, wanted = _stored_config(folder.path), json_ready(config)
            for name in {**wanted, **stored}:
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

    def __setitem__(self, key: tuple[NetworkSize, tuple[float, float]], cell: TransferCell) -> None:
        super().__setitem__(key, cell)
        self.folder.append({**key[0]._asdict(), **dataclasses.asdict(cell)})

    @property
    def message(self) -> str:
        """What an interruption left."""
        counts = collections.Counter(size for size, _ in self)
        kept = ", ".join(f"{count_pairs(count)} with {size}" for size, count in counts.items())
        return f"interrupted; finished and kept: {kept}. Go on with the same flags and --out {self.folder.path}"


def count_pairs(count: int) -> str:
    """Return a number of pairs of rates in words."""
    return counted(count, "pair of rates", "pairs of rates")


def read_cell(line: str) -> tuple[NetworkSize, TransferCell] | None:
    """Read a line of metrics.jsonl. Return None if it is damaged, as by a process that was killed."""
    try:
        record = json.loads(line)
        size = NetworkSize(record.pop("width"), record.pop("hidden_layers"))
        cell = TransferCell(**record | {name: math.inf for name in LOSSES if record[name] is None})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    numbers = dataclasses.asdict(cell) | {"test_accuracy": cell.test_accuracy or 0.0}
    return (size, cell) if all(isinstance(number, int | float) for number in (*size, *numbers.values())) else None


def _stored_config(path: Path) -> dict[str, Any]:
    """Return the settings in a run folder, or nothing if they cannot be read."""
    try:
        return dict(json.loads((path / "config.json").read_text(encoding="utf-8"))["config"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
