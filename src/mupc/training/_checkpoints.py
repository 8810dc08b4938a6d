"""The checkpoints of a training run. Each is written whole or not at all."""

import contextlib
import dataclasses
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
import numpy as np
import optax

from ..data import Schema
from ..io import (
    CHECKPOINT_FORMAT,
    Checkpoint,
    array_checksum,
    checkpoint_folders,
    find_checkpoint,
    gather_texts,
    is_first_process,
    only_writer,
    reason_of,
    without_addresses,
    write_checkpoint,
)
from ..network import AbstractNetwork
from ._augment import DEGREES
from ._step import TrainJob

STEP = "step-{:08d}"
UNFINISHED = ".unfinished-"
"""Prefix of folders that are being written or deleted."""

OPTAX_RULE = "an optax transformation"
"""How a checkpoint names an optimiser that is not one of the known names."""

START = "network.start"
"""Under this name a checkpoint has a few of the weights with which its run began."""

Arrays = dict[str, np.ndarray]
RunDescription = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Scratch(os.PathLike[str]):
    """A folder for checkpoints that nobody needs once the run has ended, such as those of a cell of a sweep. The run
    writes none in its first seconds or at its end. If it cannot use those it finds, it starts from scratch."""

    folder: Path

    def __fspath__(self) -> str:
        return str(self.folder)


class Checkpoints:
    """The last few checkpoints of one run, in a folder of their own. Within this context, nobody else writes there."""

    def __init__(self, folder: str | os.PathLike[str], settings: RunDescription, keep: int, part: str = "") -> None:
        self.folder, self.settings, self.keep = Path(folder).expanduser() / part, settings, keep
        self.scratch = isinstance(folder, Scratch)
        self._lock = contextlib.ExitStack()

    def __enter__(self) -> "Checkpoints":
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(
                f"the folder for checkpoints {self.folder} cannot be created ({error.strerror}): choose another."
            ) from None
        if not is_first_process():
            return self
        self._lock.enter_context(only_writer(self.folder))
        for left in self.folder.glob(f"{UNFINISHED}*"):  # left by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.close()

    def newest(self) -> Checkpoint | None:
        """Return the newest whole checkpoint, after a check that its run had the same settings."""
        found, damaged = find_checkpoint(self.folder)
        steps = gather_texts(str(None if found is None else found.step))
        if len(set(steps)) > 1:
            seen = f"the processes find checkpoints of different steps in {self.folder} ({', '.join(steps)})"
            raise ValueError(f"{seen}: use a folder that all machines share.")
        if found is not None:
            for line in damaged:
                warnings.warn(f"{line}; training goes on from step {found.step}.", RuntimeWarning, stacklevel=2)
            _check_settings(self.folder, _upgraded(found.about)["settings"], self.settings)
        return found

    def save(self, step: int, arrays: Arrays, about: Mapping[str, Any]) -> None:
        """Write a checkpoint, then delete those beyond the number to keep. Of several processes, the first does."""
        if not is_first_process():
            return
        scratch = self.folder / f"{UNFINISHED}{STEP.format(step)}"
        text = json.dumps(
            {"format": CHECKPOINT_FORMAT, "step": step, "settings": self.settings, **about}, default=_plain
        )
        try:
            write_checkpoint(scratch, arrays, text)
            self._remove(self.folder / STEP.format(step))
            os.replace(scratch, self.folder / STEP.format(step))
        except (OSError, ValueError) as error:
            shutil.rmtree(scratch, ignore_errors=True)
            kept = max(checkpoint_folders(self.folder), default=None)
            rest = "there is none before it" if kept is None else f"that of step {kept} is still there"
            raise OSError(
                f"the checkpoint of step {step} cannot be written to {self.folder} ({reason_of(error)}); {rest}. "
                "Make room or change the permissions."
            ) from error
        for path in [path for at, path in checkpoint_folders(self.folder).items() if at > step]:
            self._remove(path)  # damaged, or training would have begun there
        for path in list(checkpoint_folders(self.folder).values())[: -self.keep]:
            self._remove(path)

    def clear(self) -> None:
        """Delete all checkpoints."""
        for path in checkpoint_folders(self.folder).values():
            self._remove(path)

    def _remove(self, path: Path) -> None:
        """Delete a checkpoint; if the process is killed, it is either whole or gone."""
        if path.exists():
            scratch = path.with_name(f"{UNFINISHED}old-{path.name}")
            os.replace(path, scratch)
            shutil.rmtree(scratch, ignore_errors=True)


def _plain(value: Any) -> Any:
    """Return numpy's numbers as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    kind = type(value).__name__
    raise ValueError(f"a metric returned a {kind}, which a checkpoint cannot hold: return numbers, text or lists.")


def describe_run(
    job: TrainJob, network: AbstractNetwork, schema: Schema, content: Mapping[str, object]
) -> RunDescription:
    """Return everything that a run must have in common with one whose checkpoint it goes on from, by name. The length
    of training and the times of evaluations are not part of it. For many runs the job has the numbers of all of them,
    and the network is one. `content` says which batches the run learns from."""
    context, source = job.context, job.source
    parts = {
        "precision": context.precision,
        "network": jax.eval_shape(lambda n: n, network),  # weights change
        START: _first_weights(network),
        "algorithm": job.algorithm,
        "energy": context.energy,
        "classes": source.format.classes,
        "image_shape": source.format.image_shape,
        "unsupervised": source.format.unsupervised,
        "rate_scaling": "none" if context.base is None else f"mup from {context.base}",
        "weight_lr": context.weight_lr if isinstance(context.optimiser, str) else None,
        "optimiser": context.optimiser,
        "schedule": context.schedule,
        "batch_size": source.batch_size,
        "augment": source.augments,
        "rotation": source.rotation,
        "cutout": source.cutout,
        "key": jr.key_data(source.key).tolist(),
    }
    sizes = ("width", "hidden_layers")  # named first, ahead of the shapes that follow from them
    first = {f"network.{name}": getattr(network, name) for name in sizes if hasattr(network, name)}
    scales: dict[str, object] = {"normalisation": schema.normalisation}  # named last: they follow from the data
    if schema.target_scale is not None:
        scales["target_scale"] = schema.target_scale
    pairs = (pair for name, part in (first | parts | {**content} | scales).items() for pair in _flat(name, part))
    return {name: str(value) for name, value in pairs}


def _first_weights(network: AbstractNetwork) -> str:
    """Return a few weights in so few digits that they are the same on every device."""
    first = np.asarray(jax.tree.leaves(network)[0]).reshape(-1)[:4]
    return " ".join(f"{float(weight):.3g}" for weight in first)


def _upgraded(about: dict[str, Any]) -> dict[str, Any]:
    """Return what a checkpoint says in today's words: rates were not scaled, images were turned by the
    default, an optax transformation has no other rate, and since format 2 the solver is part of an algorithm."""
    if not isinstance(about.get("settings"), dict):
        return about
    settings = dict(about["settings"])
    if "augment" in settings:
        settings.setdefault("rotation", str(DEGREES))
        settings.setdefault("cutout", "0")
    if "optimiser" in settings:
        settings.setdefault("rate_scaling", "none")
    if settings.get("optimiser") == OPTAX_RULE:
        settings["weight_lr"] = str(None)
    if about["format"] > 1:
        return about | {"settings": settings}
    solver = {name: settings.pop(name) for name in list(settings) if name.split(".")[0] == "solver"}
    solver.pop("solver.limit", None)
    if solver.get("solver") == "GradientDescent":
        solver["solver.settings"] = "None"
    renamed = {"solver.keeps_rest": "solver.leaves_rest"}
    if solver.get("solver") == "None":
        return about | {"settings": settings | {"algorithm": "BP"}}
    named = {f"algorithm.{renamed.get(name, name)}": value for name, value in solver.items()}
    return about | {"settings": settings | {"algorithm": "PC"} | named}


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, optax.GradientTransformation):
        yield name, OPTAX_RULE
    elif isinstance(getattr(value, "name", None), str):  # an activation
        yield name, value.name
    elif dataclasses.is_dataclass(value):
        yield name, type(value).__name__
        for field in dataclasses.fields(value):
            yield from _flat(f"{name}.{field.name}", getattr(value, field.name))
    elif isinstance(value, tuple) and any(dataclasses.is_dataclass(item) for item in value):
        for index, item in enumerate(value):
            yield from _flat(f"{name}[{index}]", item)
    elif isinstance(value, np.ndarray):
        yield name, array_checksum(value)
    elif isinstance(value, jax.ShapeDtypeStruct):
        yield name, f"{value.dtype}{list(value.shape)}"
    elif isinstance(value, jax.Array):
        is_key = jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
        yield name, (jr.key_data(value) if is_key else value).tolist()
    else:
        yield name, without_addresses(str(getattr(value, "__qualname__", value)))


def _check_settings(folder: Path, saved: RunDescription, now: RunDescription) -> None:
    if START not in saved:  # a checkpoint of an earlier version
        now = {name: value for name, value in now.items() if name != START}
    for name in now | saved:
        if saved.get(name) != now.get(name):
            raise ValueError(
                f"the checkpoints in {folder} are of another run: {name} was {saved.get(name, 'not there')} and is "
                f"{now.get(name, 'not there')} now. Give the same data and settings, or another folder."
            )
