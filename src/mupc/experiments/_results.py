"""Write and read `results/SLUG.json`: the table of a figure, its verdicts, and how it was made."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from ._catalogue import BEYOND, CATALOGUE
from ._claims import FAILS, Claim
from ._declaration import CHECKED
from ._figure import Figure, FigureCell, FigureConfig, Row, Table
from ._runner import FigureProgress, gather
from ._store import CellStore, dumps, strict, write_text

_LIMIT = 1_000_000
DEVICES = ", "
"""What separates the names of devices in a result."""
_PROVENANCE = ("device", "versions")  # the same for most rows, so written once


def figure_record(figure: Figure, preset: str, config: FigureConfig, progress: FigureProgress) -> Row:
    """Return what `results/SLUG.json` holds, from the finished cells. `seconds` is computing time over all of them."""
    table = [strict(row) for row in figure.table(config, progress.finished)]
    versions = [row["versions"] for row in table if row.get("versions")]
    devices = {name for row in table if row.get("device") for name in row["device"].split(DEVICES)}
    return {
        "slug": figure.slug,
        "title": figure.title,
        "caption": figure.caption,
        "preset": preset,
        "complete": progress.complete,
        "cells": {"finished": len(table), "known": len(progress.known)},
        "cell_versions": {cell.family: cell.version for cell in progress.finished},
        "config": strict(dataclasses.asdict(config)),
        "claims": [_judged(figure, preset, config, table, claim) for claim in figure.claims(config, table)],
        "device": DEVICES.join(sorted(devices)),
        "seconds": sum(row.get("seconds") or 0.0 for row in table),
        "precision": config.precision,
        "versions": versions[-1] if versions else {},
        "data": [{name: value for name, value in row.items() if name not in _PROVENANCE} for row in table],
    }


def _judged(figure: Figure, preset: str, config: FigureConfig, table: Table, claim: Claim) -> Row:
    """Return a claim, with what was checked if it fails at the paper preset."""
    if preset != "paper" or claim.verdict != FAILS:
        return dataclasses.asdict(claim)
    found = [figure.checked(config, table, claim)] if figure.checked else []
    checked = " ".join([*found, *CHECKED.get(f"{figure.slug}/{claim.id}", ())])
    return dataclasses.asdict(claim) | ({"checked": checked} if checked else {})


def _destination(out: Path, result: Row) -> Path:
    """Return where to save a result, without ending: not over a better one (paper over quick, whole over partial)."""
    path = out / result["slug"]
    existing = read_record(path.with_suffix(".json"))
    if existing is None or _rank(result) >= _rank(existing):
        return path
    return out / f"{result['slug']}-{'quick' if result['preset'] == 'quick' else 'partial'}"


def save_record(figure: Figure, result: Row, out: Path) -> Path:
    """Write the JSON and draw the figure next to it; return the path of the JSON."""
    stem = _destination(out, result)
    text = dumps(result)
    if len(text.encode()) > _LIMIT:
        raise ValueError(f"the table of {figure.slug} is over {_LIMIT} bytes: evaluate less often.")
    path = stem.with_name(stem.name + ".json")
    write_text(path, text + "\n")
    figure.plot(json.loads(text), stem.with_name(stem.name + ".png"))
    return path


def read_record(path: Path) -> Row | None:
    """Return a saved result, or None if it cannot be read."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return result if _matches(result, _SCHEMA) and 0 <= result["seconds"] < 1e12 else None


_SCHEMA: Row = {
    **dict.fromkeys(("slug", "preset", "device"), str),
    "complete": bool,
    "seconds": (int, float),
    "cells": {"finished": int, "known": int},
    "config": {"protocol": [str]},
    "versions": dict,
    "claims": [dict.fromkeys(("claim", "expected", "measured", "verdict"), str)],
    "data": [dict],
}
"""The types of everything that a report reads, as `figure_record` writes it."""


def _matches(value: Any, schema: Any) -> bool:
    if isinstance(schema, dict):
        return isinstance(value, dict) and all(_matches(value.get(name), part) for name, part in schema.items())
    if isinstance(schema, list):
        return isinstance(value, list) and all(_matches(item, schema[0]) for item in value)
    return isinstance(value, schema)


def recall(figure: Figure, config: FigureConfig, store: CellStore, out: Path) -> int:
    """Put the cells that `SLUG.json` holds into the store, where they are missing, and return how many. So a new clone,
    whose store is empty, can go on with a figure that is not complete."""
    record = read_record(out / f"{figure.slug}.json")
    if record is None:
        return 0
    versions = record.get("cell_versions", {})
    shared = {name: record[name] for name in _PROVENANCE}

    def load(cell: FigureCell) -> Row | None:
        fields = strict(dataclasses.asdict(cell)).items()
        row = next((row for row in record["data"] if fields <= row.items()), None)
        if row is None or versions.get(cell.family, 1) != cell.version:
            return None
        return {name: value for name, value in row.items() if name not in dict(fields)} | shared

    finished = gather(figure, config, lambda cell: store.load(cell) or load(cell)).finished
    missing = [cell for cell in finished if store.load(cell) is None]
    for cell in missing:
        store.save(cell, finished[cell])
    return len(missing)


def read_records(out: Path) -> list[Row]:
    """Return every saved result in a folder, in the order of the catalogue; `file` is its name without ending."""
    found = [(path, read_record(path)) for path in sorted(out.glob("*.json"))]
    order = {slug: place for place, slug in enumerate(CATALOGUE | BEYOND)}
    results = [{**result, "file": path.stem} for path, result in found if result is not None]
    return sorted(results, key=lambda result: order.get(result["slug"], len(order)))


def figure_states(out: Path) -> dict[str, str]:
    """Return how far each figure of the paper and each study beyond it is, by slug."""
    results = read_records(out)
    return {slug: _state([result for result in results if result["slug"] == slug]) for slug in CATALOGUE | BEYOND}


def _state(results: list[Row]) -> str:
    if not results:
        return "ready"
    best = max(results, key=_rank)
    return f"done at the {best['preset']} preset" + ("" if best["complete"] else f", {part_finished(best)}")


def part_finished(result: Row) -> str:
    """Return how many cells of a result that is not complete are finished."""
    return "{finished} of at least {known} cells".format(**result["cells"])


def _rank(result: Row) -> tuple[bool, bool, int]:
    whole = result["complete"]
    return result["preset"] == "paper", whole, 0 if whole else result["cells"]["finished"]
