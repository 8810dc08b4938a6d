"""Read run folders for a report. A folder with parts missing is read as far as it goes."""

import dataclasses
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from ..io import counted
from ..training import BACK_TO
from .building import foreign_flags
from .config import TrainFlags, from_dict, read
from .run_folder import METRICS
from .sweep import DATABASE, RESULTS

CONFIG = "config.json"
Record = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class RecordedRun:
    """A run folder as it was found.

    - `name`: of the folder, or its whole path where names of folders are the same.
    - `about`: the content of config.json. `settings`: those of the run, as written, without those of other models.
    - `flags`: the same settings as flags; None for a run that this version of mupc cannot repeat.
    - `records`: the lines of metrics.jsonl, without those from which training went back.
    - `summary`: the content of summary.json, empty for a run that goes on or was killed.
    - `missing`, `damaged`: sentences on what is not there, and on what is there but cannot be read.
    """

    path: Path
    name: str
    about: Record
    settings: Record
    flags: TrainFlags | None
    records: list[Record]
    summary: Record
    missing: tuple[str, ...]
    damaged: tuple[str, ...]

    @property
    def last(self) -> Record:
        """The last record of a network that was finite; empty if there is none."""
        return next((record for record in reversed(self.records) if not record.get("diverged")), {})

    def curve(self, key: str, over: str = "epoch", factor: float = 1.0) -> tuple[list[float], list[float]]:
        """Return the places and values of a number at all evaluations that have it."""
        found = [(record.get(over), record.get(key)) for record in self.records]
        points = [(x, factor * y) for x, y in found if is_number(x) and is_number(y)]
        return [x for x, _ in points], [y for _, y in points]


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value from a file is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_runs(names: Iterable[str]) -> tuple[list[RecordedRun], dict[str, Record]]:
    """Return the runs in these folders, each once, and the content of sweep.json of those that are sweeps. A folder may
    also hold the folders of runs and sweeps."""
    given = (Path(name).expanduser() for name in names)
    folders = list(dict.fromkeys(folder for outer in given for folder in _inside(outer) or [outer]))
    runs, sweeps = [], {}
    called = [folder.resolve().name for folder in folders]
    for folder in folders:
        name = folder.resolve().name
        name = str(folder) if called.count(name) > 1 else name
        if _is_sweep(folder):
            sweeps[name] = _read_sweep(folder)
        else:
            runs.append(_read_run(folder, name))
    return runs, sweeps


def _inside(folder: Path) -> list[Path]:
    """Return the folders of runs and sweeps in a folder that is neither itself, without those of other commands."""
    if not folder.is_dir() or (folder / CONFIG).is_file() or _is_sweep(folder):
        return []
    return sorted(inner for inner in folder.iterdir() if _is_sweep(inner) or _is_trained(_read_json(inner / CONFIG)[0]))


def _is_sweep(folder: Path) -> bool:
    return (folder / RESULTS).is_file() or (folder / DATABASE).is_file()


def _is_trained(about: Record) -> bool:
    """Whether this is the configuration of `mupc train`; other commands write one, too."""
    config = about.get("config", about)
    return isinstance(config, dict) and "evaluate_every" in config


def _read_sweep(folder: Path) -> Record:
    found, problem = _read_json(folder / RESULTS)
    listed = ("rows", "cells")
    if problem or not all(isinstance(found.get(name), list) for name in listed):
        wrong = f"{folder / RESULTS} {problem or 'does not list cells'}"
        raise ValueError(f"{wrong}: `mupc sweep work {folder}` writes it again.")
    return found


def _read_run(folder: Path, name: str) -> RecordedRun:
    if not (folder / CONFIG).is_file():
        wrong = "it has no config.json" if folder.is_dir() else "it is a file" if folder.exists() else "it is not there"
        raise ValueError(f"{folder} is not the folder of a run: {wrong}. Give one that `mupc train` wrote.")
    file = read(folder, "the configuration of ")
    about, _ = _read_json(folder / CONFIG)
    if not _is_trained(about):
        raise ValueError(f"{folder} is not the folder of a run that trains: give one of `mupc train` or `mupc sweep`.")
    missing = []
    flags = None
    try:
        flags = from_dict(file.settings, "its config.json", file.format)
    except ValueError as error:
        missing.append(f"The run cannot be repeated with this version of mupc: {error}")
    damaged: list[str] = []
    records, problem = _read_records(folder / METRICS)
    if problem:
        (missing if problem.startswith(_ABSENT) else damaged).append(f"{METRICS} {problem}.")
    summary, problem = _read_json(folder / "summary.json")
    cure = f"`mupc train --resume {folder}` finishes the run."
    if problem == _ABSENT:
        missing.append(f"summary.json {problem}: the run goes on, or it was killed. {cure}")
    elif problem:
        damaged.append(f"summary.json {problem}. {cure}")
    found = dict(file.settings)
    for other in [] if flags is None else foreign_flags(flags.model):
        found.pop(other, None)
    return RecordedRun(folder, name, about, found, flags, records, summary, tuple(missing), tuple(damaged))


_ABSENT = "is not there"


def _read_json(path: Path) -> tuple[Record, str]:
    """Return what a JSON file holds, and what is wrong with it if it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, _ABSENT
    except OSError as error:
        return {}, f"cannot be read ({error.strerror})"
    except (ValueError, RecursionError):
        return {}, "is not JSON"
    return (found, "") if isinstance(found, dict) else ({}, "does not hold an object")


def _read_records(path: Path) -> tuple[list[Record], str]:
    """Return the lines of a log, and what is wrong with it if some or all of them cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        reason = _ABSENT if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        return [], f"{reason}: there are no curves"
    found = [_parsed(line) for line in lines if line.strip()]
    good = [record for record in found if record is not None]
    damaged = len(found) - len(good)
    wrong = f"has {counted(damaged, 'damaged line')}: curves are drawn from the others" if damaged else ""
    return [record for record in good if BACK_TO not in record], wrong


def _parsed(line: str) -> Record | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and is_number(found.get("step")) else None


def differing(runs: Sequence[RecordedRun], name: str) -> bool:
    """Whether runs differ in a setting."""
    return len({json.dumps(run.settings.get(name), sort_keys=True) for run in runs}) > 1
