"""Trained networks in run folders and files, with everything else that prediction needs."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import __version__, data
from ..data import NAMED_DATASETS, Normalisation
from ..inference import LOSSES
from ..io import json_text
from ..network import Network, load, network_notes, write_network
from .config import TrainFlags
from .config import load as load_flags

CHECKPOINT = Path("checkpoints", "network.safetensors")
"""The last good network of a run, within its folder. Next to it are the checkpoints to go on from."""
KEY, VERSION = "mupc.predict", 1
"""Where the metadata holds what prediction needs, and the version of that."""


@dataclasses.dataclass(frozen=True)
class Notes:
    """What prediction needs besides the network. Without a normalisation inputs go into the network as they are."""

    data: str | None = None
    normalisation: Normalisation | None = None
    image_shape: tuple[int, ...] | None = None
    classes: int | None = None
    class_names: tuple[str, ...] | None = None
    loss: str = "mse"


def open_checkpoint(name: str, flag: str = "--checkpoint ") -> tuple[Network, TrainFlags | None]:
    """Return the network of a run folder or a file, and the flags of the run that it belongs to, if any.

    **Arguments:** the folder or file, and the `flag` that gave it, for messages ("" for none).
    """
    path = Path(name).expanduser()
    file = path / CHECKPOINT if path.is_dir() else path
    if not file.is_file():
        what = f"has no {CHECKPOINT}" if path.is_dir() else "is not there"
        raise ValueError(f"{flag}{path} {what}: give a run folder of `mupc train`, or a file of mupc.save.")
    with jax.enable_x64(True):
        network = load(file)
    folder = file.resolve().parent.parent
    of_run = file.resolve() == folder / CHECKPOINT and (folder / "config.json").is_file()
    return network, load_flags(folder, f"the configuration of {flag}") if of_run else None


def refuse_other_flags(*groups: Any, keep: tuple[str, ...] = ()) -> None:
    """Refuse flags that differ from their defaults next to `--checkpoint`, all but those to `keep`."""
    for group in groups:
        for field in dataclasses.fields(group):
            if field.name not in ("checkpoint", *keep) and getattr(group, field.name) != field.default:
                flag = f"--{field.name.replace('_', '-')}"
                raise ValueError(
                    f"{flag} has no effect with --checkpoint, which has a network of its own: leave it out."
                )


def open_model(name: str) -> tuple[Network, Notes]:
    """Return the network of a run folder or of a file, and what is known about its inputs and outputs."""
    network, flags = open_checkpoint(name, "")
    path = Path(name).expanduser()
    notes = (
        _notes_of_file(path / CHECKPOINT if path.is_dir() else path) if flags is None else _notes_of_run(name, flags)
    )
    _check_fit(name, network, notes)
    return network, notes


def save_model(path: Path, network: Network, notes: Notes) -> None:
    """Write a network and its notes to one file, whole or not at all."""
    with jax.enable_x64(True):  # so that float64 weights stay what they are
        write_network(path, network, {KEY: _encode(notes)})


def _notes_of_run(run: str, flags: TrainFlags) -> Notes:
    """Return the notes of a run. A named data set is known without its files; the user's own has to be there."""
    if flags.data in NAMED_DATASETS:
        entry = NAMED_DATASETS[flags.data]
        return Notes(entry.name, entry.normalisation, entry.image_shape, entry.classes, entry.class_names, flags.loss)
    try:
        found = data.load(flags.data, data_dir=flags.data_dir, download=False)
    except ValueError as error:
        raise ValueError(f"the normalisation of {run} comes from its training data, and {error}") from None
    return Notes(found.name, found.normalisation, found.image_shape, found.classes, None, flags.loss)


def _notes_of_file(path: Path) -> Notes:
    text = network_notes(path).get(KEY)
    return Notes() if text is None else _decode(path, text)


def _encode(notes: Notes) -> str:
    plain = {field.name: getattr(notes, field.name) for field in dataclasses.fields(notes)}
    plain["normalisation"] = notes.normalisation and dataclasses.asdict(notes.normalisation)
    return json_text({"version": VERSION, "mupc": __version__, **plain})


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
        raise ValueError("numbers that cannot normalise anything")
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
    """Refuse notes that do not belong to the network."""
    sizes = {math.prod(notes.image_shape)} if notes.image_shape else set()
    if notes.normalisation is not None:
        parts = (getattr(notes.normalisation, name) for name in ("scale", "mean", "std"))
        sizes |= {part.size for part in parts if isinstance(part, np.ndarray)}
    if not sizes <= {network.in_size} or notes.classes not in (None, network.out_size):
        raise ValueError(
            f"{run} has a network of {network.in_size} inputs and {network.out_size} outputs, which does not fit "
            f"{notes.data}: did the data change? Train again."
        )
