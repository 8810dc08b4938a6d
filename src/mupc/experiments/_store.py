"""Finished cells on disk: one strict JSON file each, written whole or not at all, named by what was computed.

The name is a hash of the cell, so figures that share a run share its file, and folders that come back from other
machines are merged by copying them over one another.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

from ._figure import Cell, Row

_DIGITS = 7


def strict(value: Any) -> Any:
    """The value as strict JSON: numbers that are not finite become null, floats keep seven digits."""
    if isinstance(value, dict):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


def dumps(value: Any, indent: int | None = None) -> str:
    """Strict JSON text."""
    return json.dumps(strict(value), indent=indent, allow_nan=False, ensure_ascii=False)


def write_text(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def as_json(cell: Cell) -> Row:
    """What the cell is, as it is written."""
    fields: Row = json.loads(json.dumps(dataclasses.asdict(cell), allow_nan=False))
    return {"family": cell.family, "version": cell.version, **fields}


def key(cell: Cell) -> str:
    """A name for the cell that depends on its content only."""
    return hashlib.sha256(json.dumps(as_json(cell), sort_keys=True).encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class Store:
    """The cells under a folder."""

    root: Path

    def path(self, cell: Cell) -> Path:
        return self.root / cell.family / f"{key(cell)}.json"

    def save(self, cell: Cell, result: Row) -> None:
        write_text(self.path(cell), dumps({"cell": as_json(cell), "result": result}) + "\n")

    def load(self, cell: Cell) -> Row | None:
        """The result of a finished cell; None if there is none, or if its file is damaged or of another cell."""
        try:
            saved = json.loads(self.path(cell).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if not isinstance(saved, dict) or saved.get("cell") != as_json(cell):
            return None
        result = saved.get("result")
        return result if isinstance(result, dict) else None
