"""Models in files, and in the run folders of `mupc train`. Nothing in them is code."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

from ..data import Schema
from ..inference import LOSSES, LossFunction
from ..io import find_checkpoint, json_text, versions
from ..learning import Relaxation
from ..network import (
    OWN,
    AbstractNetwork,
    AnyActivation,
    check_own_function,
    describe_network,
    network_notes,
    network_of_arrays,
    read_network,
    write_network,
)
from ._model import Model
from ._old_runs import describe_old_run, read_version_1

KEY, VERSION = "mupc.predict", 2
"""Where the metadata of a file holds what prediction needs, and the version of that."""
RUN_MODEL = Path("checkpoints", "network.safetensors")
"""The trained model within a run folder, once training ends. Next to it are the checkpoints to go on from."""
RUN_SCHEMA = "schema.json"
"""Everything about the model of a run but its weights, from the start of the run."""
NETWORK = "state.network."
"""What names of the network's arrays begin with in a checkpoint."""

StrPath = str | os.PathLike[str]


def save(path: StrPath, model: Model | AbstractNetwork) -> None:
    """Write a model, or a network alone, to one safetensors file, whole or not at all. Create its folder if need be.

    Nothing in the file is code: of an activation or a loss of your own it holds the name.

    **Arguments:** the file, and the model. Its weights must be float32 or float64.

    **Example:**

    ```python
    import jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    schema = mupc.data.Schema(labels=("ash", "oak", "yew"))
    mupc.save("model.safetensors", mupc.Model(network, schema))
    ```
    """
    if isinstance(model, Model):
        write_network(path, model.network, {KEY: json_text(_notes(model))})
    else:
        write_network(path, model, {})


def load(
    path: StrPath,
    *,
    activation: AnyActivation | None = None,
    loss: LossFunction | None = None,
    network: AbstractNetwork | None = None,
) -> Model:
    """Return the model in a file that `mupc.save` or `mupc export` wrote, or in a run folder of `mupc train`.

    Weights come back bit for bit. A file of a network alone says nothing about samples: `predict` then takes inputs
    and returns outputs as they are.

    **Arguments:** the file or folder; the `activation` and `loss` if they were functions of your own; and a `network`
    of the same form, with any weights, if it was a chain of your own nodes.

    **Example:**

    ```python
    import jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    mupc.save("model.safetensors", mupc.Model(network, mupc.data.Schema(labels=("ash", "oak", "yew"))))
    model = mupc.load("model.safetensors")
    model.predict([[0.5] * 8]), model.network.hidden.weight.shape       # array(['ash']), (3, 16, 16)
    ```
    """
    folder = Path(path).expanduser()
    values: dict[str, Any] = {}
    if (folder / RUN_SCHEMA).is_file() and not (folder / RUN_MODEL).is_file():
        found, values = _read_unfinished(folder, activation)
    else:
        file = find_model(path)
        found, text, run = read_network(file, activation, network), network_notes(file).get(KEY), run_of(file)
        if text is not None:
            values = _read_notes(path, text)
        elif run is not None:
            values = describe_old_run(run)
    name = values.pop("loss", "mse")
    check_own_function(path, "loss", name, loss)
    try:
        return Model(found, loss=name if loss is None else loss, **values)
    except ValueError as error:
        raise ValueError(f"{path} does not fit the data that it names: its {error}") from None


def _read_unfinished(folder: Path, activation: AnyActivation | None) -> tuple[AbstractNetwork, dict[str, Any]]:
    """Return the network in the newest checkpoint of a run that goes on or was killed, and the other arguments of its
    `Model`."""
    try:
        notes = json.loads((folder / RUN_SCHEMA).read_text(encoding="utf-8"))
        about = notes.pop("network")
    except (OSError, ValueError, RecursionError, AttributeError, KeyError, TypeError):
        raise ValueError(f"{folder / RUN_SCHEMA} is damaged: {how_to_go_on(folder)}.") from None
    found, _ = find_checkpoint(folder / RUN_MODEL.parent)
    if found is None:
        raise ValueError(f"{folder} has no checkpoint yet: wait for the first, or {how_to_go_on(folder)}.")
    arrays = {name.removeprefix(NETWORK): array for name, array in found.arrays().items() if name.startswith(NETWORK)}
    return network_of_arrays(found.path, about, arrays, activation), _read_notes(folder, json.dumps(notes))


def find_model(path: StrPath, where: str = "") -> Path:
    """Return the file of a model, in a run folder or by itself. A message names it after `where`."""
    given = Path(path).expanduser()
    file = given / RUN_MODEL if given.is_dir() else given
    if not file.is_file():
        what = f"has no {RUN_MODEL}" if given.is_dir() else "is not there"
        cure = "give a run folder of `mupc train`, or a file of mupc.save."
        if (given / "config.json").is_file():
            cure = f"its run has not ended; {how_to_go_on(given)}."
        raise ValueError(f"{where}{path} {what}: {cure}")
    return file


def how_to_go_on(folder: Path) -> str:
    """Return the command that goes on with a run."""
    return f"go on with `mupc train --resume {shlex.quote(str(folder))}`"


def run_of(file: Path) -> Path | None:
    """Return the run folder that a file of a model belongs to, if any."""
    folder = file.resolve().parent.parent
    return folder if file.resolve() == folder / RUN_MODEL and (folder / "config.json").is_file() else None


def run_schema(model: Model) -> dict[str, Any]:
    """Return the content of a run's `schema.json`."""
    return {**_notes(model), "network": describe_network(model.network)}


def _notes(model: Model) -> dict[str, Any]:
    """Return what prediction needs besides the network, as plain values."""
    known = isinstance(model.loss, str) and model.loss in LOSSES
    loss = model.loss if known else OWN + getattr(model.loss, "__name__", type(model.loss).__name__)
    about = {"version": VERSION, "mupc": versions()["mupc"], "data": model.data}
    settled = {} if model.relaxation is None else {"relaxation": vars(model.relaxation)}
    return {**about, "schema": model.schema.as_json(), "loss": loss, **settled}


def _read_notes(path: StrPath, text: str) -> dict[str, Any]:
    """Return the arguments of a `Model` from the notes in a file."""
    version, writer, notes = None, None, None
    try:
        values = json.loads(text)
        version, writer = values.pop("version"), values.pop("mupc")
        if version in _READERS:
            notes = _READERS[version](values)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        pass
    if isinstance(version, int) and version > VERSION:
        raise ValueError(f"{path} is of a newer mupc ({writer}) than {versions()['mupc']}: update mupc.")
    if notes is None or not isinstance(notes["data"], str | None) or not _is_loss(notes["loss"]):
        raise ValueError(f"{path} has damaged notes on prediction: export it again with `mupc export`.")
    return notes


def _read_version_2(values: dict[str, Any]) -> dict[str, Any]:
    schema, loss, data = values.pop("schema"), values.pop("loss"), values.pop("data")
    settled = {"relaxation": Relaxation(**values.pop("relaxation"))} if "relaxation" in values else {}
    if values:
        raise ValueError("unknown keys")
    return {"schema": Schema.from_json(schema), "loss": loss, "data": data, **settled}


def _is_loss(name: object) -> bool:
    return isinstance(name, str) and (name in LOSSES or name.startswith(OWN))


_READERS = {1: read_version_1, 2: _read_version_2}
