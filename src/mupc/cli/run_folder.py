"""The folder that a run writes, and the strict JSON in it."""

import contextlib
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..io import LOCK, device, json_text, versions, write_whole
from .flags import FigureFormat

METRICS = "metrics.jsonl"


class RunFolder:
    """A new folder `path`, or `runs/NAME-N` with the first free N. A folder with files in it is refused, unless one of
    them is called `resumes`: then there is a run to go on with. Figures are saved in `format`."""

    def __init__(
        self, path: str | Path | None, name: str, resumes: str | None = None, *, format: FigureFormat = "png"
    ) -> None:
        self.path = _numbered(Path("runs"), name) if path is None else _fresh(Path(path).expanduser(), resumes)
        self.recorded, self.format = False, format

    def figure(self, name: str) -> Path:
        """Return the file of a figure."""
        return self.path / "figures" / f"{name}.{self.format}"

    def write(self, name: str, content: object) -> None:
        """Write one JSON file, whole or not at all."""
        write_whole(self.path / name, json_text(content, indent=2) + "\n")

    def read(self, name: str) -> dict[str, Any]:
        """Return what a JSON file holds, or nothing if it is absent or damaged."""
        try:
            found = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def write_config(self, config: Mapping[str, object], **more: object) -> None:
        """Write `config.json`: the settings, what else decides the numbers, the versions and the device."""
        self.write("config.json", {"config": config, "versions": versions(), "device": device(), **more})

    def write_summary(
        self, results: Mapping[str, object], begin: float, message: str, interrupted: bool = False
    ) -> dict[str, Any]:
        """Write `summary.json` and return it: the results, the seconds since `begin` (of `time.perf_counter`), how the
        command ended, the device and the folder."""
        ended = {"seconds": time.perf_counter() - begin, "interrupted": interrupted, "message": message}
        summary = {**results, **ended, "device": device(), "out": str(self.path)}
        self.write("summary.json", summary)
        return summary

    def go_on(self, records: Sequence[Mapping[str, object]]) -> None:
        """Cut the log back to these records, before more are added."""
        write_whole(self.path / METRICS, "".join(json_text(record) + "\n" for record in records))
        self.recorded = True

    def append(self, record: Mapping[str, object]) -> None:
        """Add a line to `metrics.jsonl`, on disk at once. The first one replaces what an earlier call left."""
        with (self.path / METRICS).open("a" if self.recorded else "w", encoding="utf-8") as file:
            self.recorded = True
            file.write(json_text(record) + "\n")

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Enter a context for work that appends records. Once there is one, an interruption ends it quietly and keeps
        what is finished. A folder without records is deleted."""
        try:
            yield
        except BaseException as error:
            self.discard()
            if not (self.recorded and isinstance(error, KeyboardInterrupt)):
                raise

    def contents(self) -> dict[str, bytes]:
        """Return the files that say how far a run is, for `put_back`."""
        paths = (self.path / name for name in ("config.json", "summary.json", METRICS))
        return {path.name: path.read_bytes() for path in paths if path.exists()}

    def put_back(self, contents: Mapping[str, bytes]) -> None:
        """Write these files again, after an attempt to go on that failed before its first record."""
        for name, content in contents.items():
            write_whole(self.path / name, content)

    def discard(self) -> None:
        """Delete a folder in which nothing is recorded yet."""
        if not (self.path / METRICS).exists():
            with contextlib.suppress(OSError):
                for name in ("config.json", "schema.json", LOCK, f"checkpoints/{LOCK}"):
                    (self.path / name).unlink(missing_ok=True)
                for folder in (*self.path.glob("checkpoints"), self.path):
                    folder.rmdir()


def new_file(name: str, endings: Collection[str], force: bool, where: str = "") -> Path:
    """Return the path of a file to write, with one of these endings. A file that exists is refused, unless `force`."""
    path = Path(name).expanduser()
    if path.suffix not in endings:
        raise ValueError(f"{where}{name} must end in {' or '.join(endings)}.")
    if path.is_dir() or (path.exists() and not force):
        raise ValueError(f"{where}{name} already exists: choose another file, or pass --force to replace one.")
    return path


_LEFT = (LOCK, ".writable", ".config.json.part")
"""Files of a process that was killed before it wrote anything of value."""


def _fresh(path: Path, resumes: str | None) -> Path:
    names = {file.name for file in path.iterdir()} - set(_LEFT) if path.is_dir() else set()
    known = resumes is not None and any(name.startswith(resumes) for name in names)  # or a lock, while it is created
    if names and not known:
        raise ValueError(f"--out {path} is not empty: choose another folder, runs are never overwritten.")
    return _make(path, exist_ok=True)


def _numbered(root: Path, name: str) -> Path:
    number = 1
    while True:
        with contextlib.suppress(FileExistsError):
            return _make(root / f"{name}-{number}", exist_ok=False)
        number += 1


def _make(path: Path, exist_ok: bool) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=exist_ok)
        (path / ".writable").touch()  # mkdir says nothing about a folder that was there before
        (path / ".writable").unlink()
    except FileExistsError:
        if exist_ok:
            raise ValueError(f"--out {path} is a file: choose a folder.") from None
        raise
    except OSError as error:
        wrong = f"the run folder {path} cannot be written ({error.strerror})"
        raise ValueError(f"{wrong}: choose another with --out DIR.") from None
    return path
