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
from ..io import checks, json_text
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
    file = _file(name)
    if not file.is_file():
        path = Path(name).expanduser()
        what = f"has no {CHECKPOINT}" if path.is_dir() else "is not there"
        raise ValueError(f"{flag}{path} {what}: give a run folder of `mupc train`, or a file of mupc.save.")
    with jax.enable_x64(True):
        network = load(file)
    folder = file.resolve().parent.parent
    of_run = file.resolve() == folder / CHECKPOINT and (folder / "config.json").is_file()
    return network, load_flags(folder, f"the configuration of {flag}") if of_run else None


def _file(name: str) -> Path:
    path = Path(name).expanduser()
    return path / CHECKPOINT if path.is_dir() else path


def refuse_other_flags(*groups: Any, keep: tuple[str, ...] = ()) -> None:
    """Refuse flags that differ from their defaults next to `--checkpoint`, all but those to `keep`."""
    fields = ((each, getattr(group, each.name)) for group in groups for each in dataclasses.fields(group))
    for field, value in fields:
        if field.name not in ("checkpoint", *keep) and value != field.default:
            flag = checks.flag_spelling(field.name)
            raise ValueError(f"{flag} has no effect with --checkpoint, which has a network of its own: leave it out.")


def open_model(name: str) -> tuple[Network, Notes]:
    """Return the network of a run folder or of a file, and what is known about its inputs and outputs."""
    network, flags = open_checkpoint(name, "")
    notes = _read_notes(_file(name)) if flags is None else _notes_of_run(name, flags)
    sizes = {math.prod(notes.image_shape)} if notes.image_shape else set()
    if notes.normalisation is not None:
        sizes |= {part.size for part in vars(notes.normalisation).values() if isinstance(part, np.ndarray)}
    if not sizes <= {network.in_size} or notes.classes not in (None, network.out_size):
        raise ValueError(
            f"{name} has a network of {network.in_size} inputs and {network.out_size} outputs, which does not fit "
            f"{notes.data}: did the data change? Train again."
        )
    return network, notes


def save_model(path: Path, network: Network, notes: Notes) -> None:
    """Write a network and its notes to one file, whole or not at all."""
    text = json_text({"version": VERSION, "mupc": __version__, **dataclasses.asdict(notes)})
    with jax.enable_x64(True):  # so that float64 weights stay what they are
        write_network(path, network, {KEY: text})


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


def _read_notes(path: Path) -> Notes:
    """Return the notes in a file, or those of a file without any."""
    text = network_notes(path).get(KEY)
    if text is None:
        return Notes()
    try:
        values = json.loads(text)
        version, writer = values.pop("version"), values.pop("mupc")
        notes = _checked_notes(values) if version == VERSION else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        version, notes = None, None
    if isinstance(version, int) and version > VERSION:
        raise ValueError(f"{path} is of a newer mupc ({writer}) than {__version__}: update mupc.")
    if notes is None:
        raise ValueError(f"{path} has damaged notes on prediction: export it again with `mupc export`.")
    return notes


def _checked_notes(values: dict[str, Any]) -> Notes | None:
    """Return the notes in plain values, or None if they mean nothing."""
    for name in ("image_shape", "class_names"):
        values[name] = values[name] and tuple(values[name])
    if values["normalisation"] is not None:
        parts = [np.asarray(values["normalisation"][name], np.float64) for name in ("scale", "mean", "std")]
        with np.errstate(over="ignore"):
            values["normalisation"] = Normalisation(*parts)
            narrow = [part.astype(np.float32) for part in parts]
        if not all(part.ndim <= 1 and np.isfinite(part).all() for part in narrow) or not narrow[-1].all():
            return None
    notes = Notes(**values)
    shape, names = notes.image_shape or (1, 1), notes.class_names or ()
    good = (
        isinstance(notes.data, str | None)
        and all(type(size) is int and size > 0 for size in shape)
        and (len(shape) == 2 or (len(shape) == 3 and shape[0] in (1, 3, 4)))
        and (notes.classes is None or (type(notes.classes) is int and notes.classes > 1))
        and all(isinstance(name, str) for name in names)
        and (not names or len(names) == notes.classes)
        and notes.loss in LOSSES
    )
    return notes if good else None
