"""The settings of a training run, as flags and in the `config.json` that repeats the run. Nothing here imports JAX."""

import dataclasses
import difflib
import json
import typing
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import tyro

from ..io import checks
from . import format_1
from .flags import DataFlags, InferenceFlags, LearningFlags, NetworkFlags
from .parsing import SYNONYMS

FORMAT = 2
"""Of `config.json`: every value as used. Format 1 has nulls for what was chosen by default."""
Flags = TypeVar("Flags")
SOLVER_FLAGS = ("activity_lr", "momentum", "temperature", "inference_steps", "inference_tol", "cg_steps", "end_time")
"""Settings that not every solver has."""
METHOD_FLAGS = ("nudge", "final_nudge", "nudge_sign", "nudge_steps", "penalty", "dual_lr", "start_lr")
"""Settings that not every method has."""
FOLLOWERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("method", "solver"), ("solver", *SOLVER_FLAGS, *METHOD_FLAGS, "weight_lr", "output_precision")),
    "parameterisation": ("init", "rate_scaling", "base_width", "base_hidden_layers"),
    "rate_scaling": ("base_width", "base_hidden_layers"),
}
"""Settings whose defaults follow another one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingGroups:
    """Flags of a command that trains, in the sections of its help."""

    data: tyro.conf.OmitArgPrefixes[DataFlags]
    network: tyro.conf.OmitArgPrefixes[NetworkFlags]
    inference: tyro.conf.OmitArgPrefixes[InferenceFlags]
    learning: tyro.conf.OmitArgPrefixes[LearningFlags]


_GROUPS = typing.get_type_hints(TrainingGroups)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainFlags(LearningFlags, InferenceFlags, NetworkFlags, DataFlags):  # the last base comes first in config.json
    """Every flag that decides the numbers of a training run."""

    @classmethod
    def gather(cls, flags: TrainingGroups) -> "TrainFlags":
        """Return the flags of all groups as one object."""
        return cls(**{key: value for name in _GROUPS for key, value in vars(getattr(flags, name)).items()})

    def groups(self) -> dict[str, Any]:
        """Return the groups by name: the inverse of `gather`."""
        return {name: group(**pick(self, group)) for name, group in _GROUPS.items()}

    def freed_for(self, other: "TrainFlags", varied: Collection[str] = ()) -> "TrainFlags":
        """Return these flags without the settings that follow one that is `varied`, or in which another run differs."""
        changed = [name for name in FOLLOWERS if name in varied or getattr(self, name) != getattr(other, name)]
        freed = {follower: getattr(TrainFlags, follower) for name in changed for follower in FOLLOWERS[name]}
        return dataclasses.replace(self, **freed)


def pick(values: object, fields_of: Any) -> dict[str, Any]:
    """Return the attributes of an object that are also fields of a dataclass, by name."""
    names = [field.name for field in dataclasses.fields(fields_of)]
    return {name: getattr(values, name) for name in names if hasattr(values, name)}


class ConfigFile(NamedTuple):
    """What a `config.json` holds: the settings of training, those about safety, and the format of both."""

    settings: dict[str, object]
    safety: dict[str, object]
    format: int


def load(path: str | Path, where: str = "--config ") -> TrainFlags:
    """Return the flags in a `config.json`, or in the run folder that holds one. Messages name it after `where`."""
    found = read(path, where)
    return from_dict(found.settings, f"{where}{path}", found.format)


def read(path: str | Path, where: str = "--config ") -> ConfigFile:
    """Return what a `config.json` holds. A file that does not say its format is of format 1."""
    file = Path(path).expanduser()
    file = file / "config.json" if file.is_dir() else file
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        flags, safety = (content.get("config", content), content.get("safety", {}))
        wrong = "" if isinstance(flags, dict) and isinstance(safety, dict) else "holds no configuration"
    except AttributeError:
        wrong = "holds no configuration"
    except OSError as error:
        wrong = f"cannot be read ({error.strerror})"
    except (ValueError, RecursionError):
        wrong = "is not JSON"
    if wrong:
        raise ValueError(f"{where}{path} {wrong}: give the config.json that a run wrote.")
    if type(version := content.get("format", 1)) is not int or version not in (1, FORMAT):
        raise ValueError(
            f"{where}{path} is of format {version!r}, and only 1 and {FORMAT} are known here: update mupc."
        )
    return ConfigFile(flags, safety, version)


def from_dict(values: Mapping[str, object], where: str = "the configuration", version: int = FORMAT) -> TrainFlags:
    """Return flags from plain values of a format. Unknown keys and values of a wrong type are refused."""
    earlier = {"loss": "mse", "rate_scaling": "none", "schedule": "constant"}  # before there was a choice
    values = {**earlier, **values}
    if version == FORMAT:
        return typed(TrainFlags, values, where)
    return TrainFlags(**format_1.resolved(vars(typed(TrainFlags, {**format_1.DEFAULTS, **values}, where))))


def typed(kind: type[Flags], values: Mapping[str, object], where: str) -> Flags:
    """Return an object of a dataclass from plain values. Unknown keys and values of a wrong type are refused."""
    kinds = typing.get_type_hints(kind)
    found: dict[str, object] = {}
    for key, value in values.items():
        if key not in kinds:
            near = SYNONYMS.get(key) or difflib.get_close_matches(key, kinds, n=1)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "`mupc train --help` lists them all."
            raise ValueError(f"{where} has an unknown key {key!r}: {hint}")
        options = _alternatives(kinds[key])
        if tuple in options:  # a list in JSON, one number in a sweep
            numbers = value if isinstance(value, list | tuple) else [value]
            value = tuple(numbers) if all(type(number) is int for number in numbers) else value
        if type(value) is int and float in options and int not in options:  # JSON may write 1.0 as 1
            value = float(value)
        words = [option for option in options if isinstance(option, str)]
        if type(value) not in options and value not in words:
            wanted = [f"one of {', '.join(words)}"] if words else []
            wanted += [_NAMES[option] for option in options if not isinstance(option, str)]
            hint = checks.suggestion(value, words)
            raise ValueError(f"{where} has {key} = {value!r}: it must be {' or '.join(wanted)}.{hint}")
        found[key] = value
    return kind(**found)


_NAMES = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    type(None): "null",
    tuple: "whole numbers",
}


def _alternatives(kind: Any) -> list[Any]:
    """Return the types and words that a type stands for."""
    if typing.get_origin(kind) is Literal:
        return list(typing.get_args(kind))
    if typing.get_origin(kind) is tuple:
        return [tuple]
    return [one for option in typing.get_args(kind) for one in _alternatives(option)] or [kind]
