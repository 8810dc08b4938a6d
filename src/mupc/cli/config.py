"""The settings of a training run, as flags and in the `config.json` that repeats the run. Nothing here imports JAX."""

import dataclasses
import difflib
import json
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import tyro

from ..io import checks
from .flags import ACTIVITY_LR, WEIGHT_LR, WEIGHT_LR_ALL, DataFlags, InferenceFlags, LearningFlags, NetworkFlags
from .parsing import SYNONYMS

FORMAT = 1
"""Of `config.json`. A version of mupc that reads it in another way has a higher number."""
Flags = TypeVar("Flags")


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


def pick(values: object, fields_of: Any) -> dict[str, Any]:
    """Return the attributes of an object that are also fields of a dataclass, by name."""
    names = [field.name for field in dataclasses.fields(fields_of)]
    return {name: getattr(values, name) for name in names if hasattr(values, name)}


def load(path: str | Path, where: str = "--config ") -> TrainFlags:
    """Return the flags in a `config.json`, or in the run folder that holds one. Messages name it after `where`."""
    return from_dict(read(path, where)[0], f"{where}{path}")


def read(path: str | Path, where: str = "--config ") -> tuple[dict[str, object], dict[str, object]]:
    """Return what a `config.json` holds: the flags of training, and those about safety."""
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
    if (version := content.get("format", FORMAT)) != FORMAT:
        raise ValueError(f"{where}{path} is of format {version!r}, and only {FORMAT} is known here: update mupc.")
    return flags, safety


def from_dict(values: Mapping[str, object], where: str = "the configuration") -> TrainFlags:
    """Return flags from plain values. Unknown keys and values of a wrong type are refused."""
    return typed(TrainFlags, values, where)


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


_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}


def _alternatives(kind: Any) -> list[Any]:
    """Return the types and words that a type stands for."""
    if typing.get_origin(kind) is Literal:
        return list(typing.get_args(kind))
    return [one for option in typing.get_args(kind) for one in _alternatives(option)] or [kind]
