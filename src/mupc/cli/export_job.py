"""Trained networks with all that prediction needs, and the one file that holds both."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

from .. import __version__, data
from ..data import NAMED_DATASETS, Normalisation
from ..inference import LOSSES
from ..network import Network, write
from ..network import notes as read_notes
from .config import TrainConfig
from .display import say
from .hessian_cases import open_checkpoint
from .job import CHECKPOINT
from .run_folder import dumps

KEY, VERSION = "mupc.predict", 1
"""Where the metadata holds what prediction needs, and the version of what it holds."""


@dataclasses.dataclass(frozen=True)
class Notes:
    """What prediction needs besides the network. Without a normalisation inputs go into the network as they are."""

    data: str | None = None
    normalisation: Normalisation | None = None
    image_shape: tuple[int, ...] | None = None
    classes: int | None = None
    class_names: tuple[str, ...] | None = None
    loss: str = "mse"


def export(run: str, target: str, force: bool, console: Console) -> dict[str, Any]:
    """Writes the network of a run to one file, in whole or not at all, and returns a summary.

    **Arguments:** a run folder or a file of mupc.save, the file to write, whether to replace one that is there, and
    the console to show it on.
    """
    path = Path(target).expanduser()
    if path.suffix != ".safetensors":
        raise ValueError(f"{target} must end in .safetensors: name a file such as model.safetensors.")
    if path.exists() and not force:
        raise ValueError(f"{target} is there already: choose another name, or pass --force to replace it.")
    network, notes = find(run)
    with jax.enable_x64(True):  # so that float64 weights stay what they are
        write(path, network, {KEY: _encode(notes)})
    warnings = []
    if notes.normalisation is None:
        warnings.append(f"{run} says nothing of its data: inputs of `mupc predict` go into the network as they are")
    summary = {
        "out": str(path),
        "bytes": path.stat().st_size,
        "weights": sum(leaf.size for leaf in jax.tree.leaves(network)),
        **{name: getattr(notes, name) for name in ("data", "image_shape", "classes", "loss")},
        "warnings": warnings,
    }
    about = "" if notes.data is None else f" trained on {notes.data}"
    say(console, f"{path}: {summary['weights']:,} weights{about}, {summary['bytes']:,} bytes")
    for line in warnings:
        say(console, f"warning: {line}")
    return summary


def find(run: str) -> tuple[Network, Notes]:
    """The network of a run folder or of a file, and what is known about its inputs and outputs."""
    try:
        network, config = open_checkpoint(run)
    except ValueError as error:  # which names a flag of other commands
        raise ValueError(str(error).replace("--checkpoint ", "", 1)) from None
    path = Path(run).expanduser()
    file = path / CHECKPOINT if path.is_dir() else path
    notes = _of_file(file) if config is None else _of_run(run, config)
    _check_fit(run, network, notes)
    return network, notes


def _of_run(run: str, config: TrainConfig) -> Notes:
    """A named data set is known without its files; one of the user's own has to be there."""
    if config.data in NAMED_DATASETS:
        entry = NAMED_DATASETS[config.data]
        return Notes(entry.name, entry.normalisation, entry.image_shape, entry.classes, entry.class_names, config.loss)
    try:
        found = data.load(config.data, data_dir=config.data_dir, download=False)
    except ValueError as error:
        raise ValueError(f"the normalisation of {run} comes from its training data, and {error}") from None
    return Notes(found.name, found.normalisation, found.image_shape, found.classes, None, config.loss)


def _of_file(path: Path) -> Notes:
    text = read_notes(path).get(KEY)
    return Notes() if text is None else _decode(path, text)


def _encode(notes: Notes) -> str:
    plain = {field.name: getattr(notes, field.name) for field in dataclasses.fields(notes)}
    plain["normalisation"] = notes.normalisation and dataclasses.asdict(notes.normalisation)
    return dumps({"version": VERSION, "mupc": __version__, **plain})


def _decode(path: Path, text: str) -> Notes:
    try:
        values = json.loads(text)
        version, writer = values.pop("version"), values.pop("mupc")
        if isinstance(version, int) and version > VERSION:
            raise _Newer(f"{path} is of a newer mupc ({writer}) than {__version__}: update mupc.")
        if version != VERSION:
            raise ValueError("no version")
        values["normalisation"] = _normalisation(values["normalisation"])
        for name in ("image_shape", "class_names"):
            values[name] = values[name] and tuple(values[name])
        notes = Notes(**values)
        _check_types(notes)
    except _Newer:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        raise ValueError(f"{path} has damaged notes on prediction: export it again with `mupc export`.") from None
    return notes


class _Newer(ValueError):
    """A file from the future, not a damaged one."""


def _normalisation(values: Any) -> Normalisation | None:
    if values is None:
        return None
    parts = {name: np.asarray(values[name], np.float64) for name in ("scale", "mean", "std")}
    with np.errstate(over="ignore"):
        found = Normalisation(**{name: part if part.ndim else float(part) for name, part in parts.items()})
        narrow = {name: part.astype(np.float32) for name, part in parts.items()}
    if not all(part.ndim <= 1 and np.isfinite(part).all() for part in narrow.values()) or not narrow["std"].all():
        raise ValueError("numbers that nothing can be normalised with")
    return found


def _check_types(notes: Notes) -> None:
    shape, names = notes.image_shape or (1, 1), notes.class_names or ()
    good = (
        (notes.data is None or isinstance(notes.data, str))
        and all(type(size) is int and size > 0 for size in shape)
        and (len(shape) == 2 or (len(shape) == 3 and shape[0] in (1, 3, 4)))
        and (notes.classes is None or (type(notes.classes) is int and notes.classes > 1))
        and all(isinstance(name, str) for name in names)
        and (not names or len(names) == notes.classes)
        and notes.loss in LOSSES
    )
    if not good:
        raise ValueError("notes of wrong types")


def _check_fit(run: str, network: Network, notes: Notes) -> None:
    """Notes that belong to the network."""
    sizes = {math.prod(notes.image_shape)} if notes.image_shape else set()
    if notes.normalisation is not None:
        parts = (getattr(notes.normalisation, name) for name in ("scale", "mean", "std"))
        sizes |= {part.size for part in parts if isinstance(part, np.ndarray)}
    if not sizes <= {network.in_size} or notes.classes not in (None, network.out_size):
        raise ValueError(
            f"{run} has a network of {network.in_size} inputs and {network.out_size} outputs, which does not fit "
            f"{notes.data}: did the data change? Train again."
        )
