"""The settings of a training run, as flags and in the `config.json` that repeats the run. Nothing here imports JAX."""

import dataclasses
import difflib
import json
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import tyro

from ..io import checks
from .flags import ACTIVITY_LR, WEIGHT_LR, WEIGHT_LR_ALL, DataFlags, InferenceFlags, LearningFlags, NetworkFlags
from .parsing import SYNONYMS

FORMAT = 1
"""Of `config.json`; a version of mupc that reads it otherwise counts on."""
_GROUPS = {"data": DataFlags, "network": NetworkFlags, "inference": InferenceFlags, "learning": LearningFlags}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingGroups:
    """Flags of a command that trains, in the sections of its help."""

    data: tyro.conf.OmitArgPrefixes[DataFlags]
    network: tyro.conf.OmitArgPrefixes[NetworkFlags]
    inference: tyro.conf.OmitArgPrefixes[InferenceFlags]
    learning: tyro.conf.OmitArgPrefixes[LearningFlags]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainFlags(LearningFlags, InferenceFlags, NetworkFlags, DataFlags):
    """Every flag that decides the numbers of a training run."""

    @classmethod
    def gather(cls, flags: TrainingGroups) -> "TrainFlags":
        """Return the flags of all groups as one object."""
        groups = (getattr(flags, name) for name in _GROUPS)
        return cls(**{key: value for group in groups for key, value in dataclasses.asdict(group).items()})

    def groups(self) -> dict[str, Any]:
        """Return the groups by name: the inverse of `gather`."""
        values = dataclasses.asdict(self)
        return {name: group(**_pick(values, group)) for name, group in _GROUPS.items()}

    @property
    def chosen_weight_lr(self) -> float:
        """The learning rate of the weights."""
        if self.weight_lr is not None:
            return self.weight_lr
        return WEIGHT_LR_ALL if self.method == "bp" or self.solver == "error-space" else WEIGHT_LR

    @property
    def chosen_activity_lr(self) -> float | str | None:
        """The step size of inference, for solvers that have one."""
        return ACTIVITY_LR.get(self.solver) if self.activity_lr is None else self.activity_lr


def as_dict(config: TrainFlags) -> dict[str, Any]:
    """Return the flags by name, in the order of the help."""
    values = dataclasses.asdict(config)
    return {key: values[key] for group in _GROUPS.values() for key in _pick(values, group)}


def load(path: str | Path, where: str = "--config ") -> TrainFlags:
    """Return the flags in a `config.json`, or in the run folder that holds one. Messages name it after `where`."""
    content = read(path, where)
    values = content.get("config", content)
    if not isinstance(values, dict):
        raise ValueError(f"{where}{path} holds no configuration: give the config.json that a run wrote.")
    return from_dict(values, f"{where}{path}")


def read(path: str | Path, where: str = "--config ") -> dict[str, object]:
    """Return everything that a `config.json` holds."""
    file = Path(path).expanduser()
    file = file / "config.json" if file.is_dir() else file
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{where}{path} cannot be read ({error.strerror}): give a run's config.json.") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{where}{path} is not JSON: give the config.json that a run wrote.") from None
    if not isinstance(content, dict):
        raise ValueError(f"{where}{path} holds no configuration: give the config.json that a run wrote.")
    version = content.get("format", FORMAT)
    if version != FORMAT:
        raise ValueError(f"{where}{path} is of format {version!r}, and only {FORMAT} is known here: update mupc.")
    return content


def from_dict(values: Mapping[str, object], where: str = "the configuration") -> TrainFlags:
    """Return flags from plain values. Unknown keys and values of a wrong type are refused."""
    kinds = {name: _alternatives(kind) for name, kind in typing.get_type_hints(TrainFlags).items()}
    found: dict[str, Any] = {}
    for key, value in values.items():
        if key not in kinds:
            near = SYNONYMS.get(key) or difflib.get_close_matches(key, kinds, n=1)
            meant = " or ".join(map(repr, near))
            hint = f"did you mean {meant}?" if near else "`mupc train --help` lists them all."
            raise ValueError(f"{where} has an unknown key {key!r}: {hint}")
        if not any(_fits(value, kind) for kind in kinds[key]):
            words = [kind for kind in kinds[key] if isinstance(kind, str)]
            wanted = [f"one of {', '.join(words)}"] if words else []
            wanted += [_NAMES[kind] for kind in kinds[key] if not isinstance(kind, str)]
            hint = checks.suggestion(value, words)
            raise ValueError(f"{where} has {key} = {value!r}: it must be {' or '.join(wanted)}.{hint}")
        number = float in kinds[key] and int not in kinds[key]
        found[key] = float(value) if number and isinstance(value, int) else value  # JSON may write 1.0 as 1
    return TrainFlags(**found)


_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}


def _alternatives(kind: Any) -> tuple[type | str, ...]:
    """Return the types and words that a type stands for."""
    if typing.get_origin(kind) is Literal:
        return typing.get_args(kind)
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return tuple(one for option in typing.get_args(kind) for one in _alternatives(option))
    return (kind,)


def _fits(value: object, kind: type | str) -> bool:
    if isinstance(kind, str):
        return isinstance(value, str) and value == kind
    wanted = int | float if kind is float else kind
    return isinstance(value, wanted) and isinstance(value, bool) == (kind is bool)


def _pick(values: Mapping[str, Any], group: Any) -> dict[str, Any]:
    return {field.name: values[field.name] for field in dataclasses.fields(group)}
