"""Checkpoints of a training run: arrays by orbax, the rest as JSON. Each is whole or not there, and nothing is code."""

import contextlib
import dataclasses
import errno
import json
import logging
import os
import re
import shutil
import warnings
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
import numpy as np
import optax

from ..data import Dataset
from ..io import only_writer
from ..network import Network
from ._step import Job

FORMAT = 1
ARRAYS, ABOUT, MANIFEST = "arrays", "about.json", "manifest.json"
STEP = "step-{:08d}"
UNFINISHED = ".unfinished-"
"""What the names of folders begin with that are being written, or taken away."""

SPARE = 2**16
"""Bytes that a checkpoint may take beyond its arrays."""

Arrays = dict[str, np.ndarray]
Settings = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint: its folder, the steps taken, and all that is no array."""

    path: Path
    step: int
    about: dict[str, Any]

    def arrays(self) -> Arrays:
        """Its arrays by name."""
        import orbax.checkpoint as ocp

        with _quietly(), ocp.Checkpointer(ocp.StandardCheckpointHandler()) as reader:
            return {name: np.asarray(array) for name, array in reader.restore((self.path / ARRAYS).absolute()).items()}


@dataclasses.dataclass(frozen=True)
class Scratch(os.PathLike[str]):
    """A folder for checkpoints that nobody needs once the run has ended, such as those of a cell of a sweep: none is
    written in the first seconds of a run, or for the sake of its end, and if those there are of no use, it begins
    anew."""

    folder: Path

    def __fspath__(self) -> str:
        return str(self.folder)


class Checkpoints:
    """The last few checkpoints of one run, in a folder of their own. A context: within it nobody else writes there."""

    def __init__(self, folder: str | os.PathLike[str], settings: Settings, keep: int, part: str = "") -> None:
        self.folder, self.settings, self.keep = Path(folder).expanduser() / part, settings, keep
        self.scratch = isinstance(folder, Scratch)
        self._lock = contextlib.ExitStack()

    def __enter__(self) -> "Checkpoints":
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(
                f"the folder for checkpoints {self.folder} cannot be made ({error.strerror}): choose another."
            ) from None
        self._lock.enter_context(only_writer(self.folder))
        for left in self.folder.glob(f"{UNFINISHED}*"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.close()

    def newest(self) -> Checkpoint | None:
        """The newest whole checkpoint, after a check that it is of a run with the same settings."""
        found, damaged = find(self.folder)
        if found is not None:
            for line in damaged:
                warnings.warn(f"{line}; training goes on from step {found.step}.", RuntimeWarning, stacklevel=2)
            _check_settings(self.folder, found.about["settings"], self.settings)
        return found

    def save(self, step: int, arrays: Arrays, about: Mapping[str, Any]) -> None:
        """Writes a checkpoint, then takes away those that are too many."""
        scratch = self.folder / f"{UNFINISHED}{STEP.format(step)}"
        text = json.dumps({"format": FORMAT, "step": step, "settings": self.settings, **about}, default=_plain)
        try:
            _write(scratch, arrays, text)
            self._remove(self.folder / STEP.format(step))
            os.replace(scratch, self.folder / STEP.format(step))
        except (OSError, ValueError) as error:
            shutil.rmtree(scratch, ignore_errors=True)
            kept = max(steps(self.folder), default=None)
            rest = "there is none before it" if kept is None else f"that of step {kept} is still there"
            raise OSError(
                f"the checkpoint of step {step} cannot be written to {self.folder} ({_reason(error)}); {rest}. "
                "Make room or change the permissions."
            ) from error
        for path in [path for at, path in steps(self.folder).items() if at > step]:
            self._remove(path)  # damaged, or training would have begun there
        for path in list(steps(self.folder).values())[: -self.keep]:
            self._remove(path)

    def clear(self) -> None:
        """Takes all checkpoints away."""
        for path in steps(self.folder).values():
            self._remove(path)

    def _remove(self, path: Path) -> None:
        """Takes a checkpoint away, at no moment leaving half of one."""
        if path.exists():
            scratch = path.with_name(f"{UNFINISHED}old-{path.name}")
            os.replace(path, scratch)
            shutil.rmtree(scratch, ignore_errors=True)


def find(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint in a folder, if there are any, and what is wrong with those after it."""
    damaged = []
    for step, path in reversed(steps(folder).items()):
        try:
            if json.loads((path / MANIFEST).read_text(encoding="utf-8")) != _sums(path):
                raise ValueError("its files are not those that were written")
            about = json.loads((path / ABOUT).read_text(encoding="utf-8"))
            if not isinstance(about, dict) or not isinstance(about.get("format"), int):
                raise ValueError("it is something else")
            if about.get("step", step) != step:
                raise ValueError(f"it is that of step {about['step']}")
        except (OSError, ValueError, RecursionError) as error:
            damaged.append(f"the checkpoint {path} is damaged ({_reason(error)})")
            continue
        if about["format"] > FORMAT:
            raise ValueError(f"{path} is of format {about['format']}, newer than the {FORMAT} known here: update mupc.")
        return Checkpoint(path, step, about), damaged
    if damaged:
        raise ValueError(
            f"{damaged[0]}, and there is no other before it: delete the step-* folders in {folder} and train anew."
        )
    return None, []


def steps(folder: Path) -> dict[int, Path]:
    """The checkpoints in a folder by the steps taken, whole or damaged, in this order."""
    found = {path: re.fullmatch(r"step-(\d+)", path.name) for path in folder.glob("step-*") if path.is_dir()}
    return dict(sorted((int(match[1]), path) for path, match in found.items() if match))


def _write(scratch: Path, arrays: Arrays, about: str) -> None:
    """All files of a checkpoint, the list of their checksums last."""
    import orbax.checkpoint as ocp

    shutil.rmtree(scratch, ignore_errors=True)
    if shutil.disk_usage(scratch.parent).free < SPARE + sum(array.nbytes for array in arrays.values()):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # orbax says it less quietly
    scratch.mkdir()
    with _quietly(), ocp.Checkpointer(ocp.StandardCheckpointHandler()) as writer:
        writer.save((scratch / ARRAYS).absolute(), args=ocp.args.StandardSave(arrays))
    (scratch / ABOUT).write_text(about, encoding="utf-8")
    (scratch / MANIFEST).write_text(json.dumps(_sums(scratch)), encoding="utf-8")


def _sums(folder: Path) -> dict[str, int]:
    """A checksum of every file, by its path. Orbax itself does not see a changed bit in an array."""
    files = (path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    return {path.relative_to(folder).as_posix(): _sum(path) for path in sorted(files)}


def _sum(path: Path) -> int:
    total = 0
    with path.open("rb") as file:
        while block := file.read(2**20):
            total = zlib.crc32(block, total)
    return total


def _plain(value: Any) -> Any:
    """Numpy's numbers as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    kind = type(value).__name__
    raise ValueError(f"a metric returned a {kind}, which a checkpoint cannot hold: return numbers, text or lists.")


def _reason(error: Exception) -> str:
    """What went wrong, in a few words."""
    code = re.search(r"os_error_code='(\d+)'", str(error))  # how orbax tells of the disk
    if code:
        return os.strerror(int(code[1]))
    return (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())[:200]


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without the tracebacks that orbax prints besides raising."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def describe(job: Job, network: Network, dataset: Dataset) -> Settings:
    """Everything that a run must have in common with one whose checkpoint it goes on from, by name. How long to train
    and when to evaluate are not among them. Of many runs the job has the numbers of all, and the network is one."""
    parts = {
        "precision": job.precision,
        "network": jax.eval_shape(lambda n: n, network),  # weights change
        "solver": job.solver,
        "energy": job.energy,
        "classes": job.format.classes,
        "image_shape": job.format.image_shape,
        "unsupervised": job.format.unsupervised,
        "normalisation": dataset.normalisation,
        "weight_lr": job.weight_lr,
        "optimiser": job.optimiser,
        "schedule": job.schedule,
        "batch_size": job.batch_size,
        "augment": job.augment,
        "key": jr.key_data(job.key).tolist(),
    }
    first = {f"network.{name}": getattr(network, name) for name in ("width", "hidden_layers")}  # ahead of shapes
    data = {f"the training data ({name})": getattr(dataset.train, name) for name in ("raw", "targets")}
    pairs = (pair for name, part in (first | parts | data).items() for pair in _flat(name, part))
    return {name: str(value) for name, value in pairs}


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, optax.GradientTransformation):
        yield name, "an optax transformation"
    elif isinstance(getattr(value, "name", None), str):  # an activation
        yield name, value.name
    elif dataclasses.is_dataclass(value):
        yield name, type(value).__name__
        for field in dataclasses.fields(value):
            yield from _flat(f"{name}.{field.name}", getattr(value, field.name))
    elif isinstance(value, jax.ShapeDtypeStruct | np.ndarray):
        yield name, _content(value)
    elif isinstance(value, jax.Array):
        yield name, value.tolist()
    else:
        yield name, getattr(value, "__qualname__", value)  # a function's text would tell where in memory it is


def _content(array: jax.ShapeDtypeStruct | np.ndarray) -> str:
    """The form of an array, and a checksum of one that is there."""
    form = f"{array.dtype}{list(array.shape)}"
    return f"{form} with checksum {zlib.crc32(array.tobytes()):08x}" if isinstance(array, np.ndarray) else form


def _check_settings(folder: Path, saved: Settings, now: Settings) -> None:
    for name in now | saved:
        if saved.get(name) != now.get(name):
            raise ValueError(
                f"the checkpoints in {folder} are of another run: {name} was {saved.get(name, 'not there')} and is "
                f"{now.get(name, 'not there')} now. Give the same settings, or another folder."
            )
