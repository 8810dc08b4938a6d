"""What older versions of mupc left: files of version 1, and run folders that say nothing about normalisation."""

import json
from pathlib import Path
from typing import Any

from .. import data
from ..data import NAMED_DATASETS, DataError, Dataset, Schema
from ..io import array_checksum, find_checkpoint

Values = dict[str, Any]


def read_version_1(values: Values) -> Values:
    """Return the arguments of a `Model` from the notes that `mupc export` wrote into a file."""
    normalisation, classes, about = (values.pop(name) for name in ("normalisation", "classes", "data"))
    shape, names, loss = (values.pop(name) for name in ("image_shape", "class_names", "loss"))
    if values:
        raise ValueError("unknown keys")
    labels = None if classes is None else list(range(classes))
    known = {} if normalisation is None else {"normalisation": normalisation}
    schema = Schema.from_json({**known, "labels": labels, "class_names": names, "image_shape": shape})
    return {"schema": schema, "loss": loss, "data": about}


def describe_old_run(folder: Path) -> Values:
    """Return the arguments of a `Model` for a run folder without notes. A named data set is known without its files.
    Data of the user's own count if their checksums are those in a checkpoint of the run."""
    config = _read_config(folder)
    name = config["data"]
    if name in NAMED_DATASETS:
        schema = NAMED_DATASETS[name].schema
    else:
        found = _load_training_data(folder, config)
        schema, name = found.schema, found.name
    return {"schema": schema, "loss": config["loss"], "data": name}


def _read_config(folder: Path) -> Values:
    """Return the settings of a run that tell about its data."""
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config = content.get("config", content)
        kinds = {"data": str, "validation": int | float, "seed": int, "loss": str}
        if all(isinstance(config[name], kind) for name, kind in kinds.items()):
            return {name: config[name] for name in kinds}
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        pass
    raise ValueError(f"{folder / 'config.json'} cannot be read as the settings of a run: train again.")


def _load_training_data(folder: Path, config: Values) -> Dataset:
    """Return the data that a run was trained on, after a check that they are still the same."""
    name, problem = config["data"], f"{folder} is of an older mupc and did not keep the normalisation of its data"
    settings, cure = _settings(folder), f"put its training data at {name}, or train again."
    if settings is None:
        raise ValueError(f"{problem}, and no checkpoint tells whether {name} is the same: train again.")
    task = "regression" if settings.get("classes") == str(None) else "classification"
    try:
        found = data.load(name, download=False, task=task)
        if config["validation"]:
            found = found.with_validation(config["validation"], config["seed"])
    except DataError as error:
        raise ValueError(f"{problem}, and {error.problem}: {cure}") from None
    now = {f"the training data ({part})": array_checksum(getattr(found.train, part)) for part in ("raw", "targets")}
    if any(settings.get(part) != checksum for part, checksum in now.items()):
        raise ValueError(f"{problem}, and {name} is not what it was trained on (checksums differ): {cure}")
    return found


def _settings(folder: Path) -> Values | None:
    """Return what the newest checkpoint of a run says about its settings."""
    try:
        found, _ = find_checkpoint(folder / "checkpoints")
    except ValueError:  # none is whole
        return None
    return None if found is None else found.about["settings"]
