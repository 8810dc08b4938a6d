"""A schema as plain JSON values, and back. A file may hold anything: what makes no sense is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ._columns import Column
from ._errors import DataError
from ._normalisation import Normalisation

Label = str | int | float | bool
_CHANNELS = (1, 3, 4)


def image_shape(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape of a sample if it is an image: `(height, width)`, or with one, three or four channels first."""
    return shape if len(shape) == 2 or (len(shape) == 3 and shape[0] in _CHANNELS) else None


def plain(value: object) -> Any:
    """Return a field of a schema as JSON values. Every float32 is a Python float exactly, so that nothing is lost."""
    if isinstance(value, Normalisation):
        return {name: np.asarray(part).tolist() for name, part in vars(value).items()}
    if isinstance(value, Column):
        return [value.name, plain(value.categories)]
    return [plain(each) for each in value] if isinstance(value, tuple) else value


def read_fields(values: object) -> dict[str, Any]:
    """Return the fields of a schema from JSON values."""
    if not isinstance(values, dict) or not values.keys() <= _READERS.keys():
        raise _nonsense("something")
    return {name: _READERS[name](name, value) for name, value in values.items()}


def _nonsense(name: str) -> DataError:
    return DataError(f"{name} in a schema cannot be read", "write it again with Schema.as_json")


def _read_list(name: str, value: object, *kinds: type) -> tuple[Any, ...] | None:
    """Return a list of values of one of these types, or None for None."""
    if value is None:
        return None
    if not isinstance(value, list) or not value:
        raise _nonsense(name)
    if type(value[0]) not in kinds or any(type(each) is not type(value[0]) for each in value):
        raise _nonsense(name)
    return tuple(value)


def _read_labels(name: str, value: object) -> tuple[Label, ...] | None:
    labels = _read_list(name, value, str, int, float, bool)
    if any(
        (type(each) is int and not -(2**63) <= each < 2**63) or (type(each) is float and not math.isfinite(each))
        for each in labels or ()
    ):
        raise _nonsense(name)
    return labels


def _read_names(name: str, value: object) -> tuple[str, ...] | None:
    return _read_list(name, value, str)


def _read_targets(name: str, value: object) -> tuple[str, ...]:
    return _read_names(name, value or None) or ()


def _read_image_shape(name: str, value: object) -> tuple[int, ...] | None:
    shape = _read_list(name, value, int)
    if shape is None:
        return None
    if image_shape(shape) is None or not all(0 < size < 2**31 for size in shape):
        raise _nonsense(name)
    return shape


def _read_context(name: str, value: object) -> int | None:
    if value is not None and not (type(value) is int and 0 < value < 2**31):
        raise _nonsense(name)
    return value


def _read_columns(name: str, value: object) -> tuple[Column, ...] | None:
    columns = []
    for pair in _read_list(name, value, list) or ():
        if len(pair) != 2 or type(pair[0]) is not str:
            raise _nonsense(name)
        categories = _read_names(name, pair[1])
        if len(set(categories or ())) != len(categories or ()):
            raise _nonsense(name)
        columns.append(Column(pair[0], categories))
    if len({column.name for column in columns}) != len(columns):
        raise _nonsense(name)
    return tuple(columns) or None


def _read_normalisation(name: str, value: object) -> Normalisation | None:
    if value is None and name == "target_scale":
        return None
    if not isinstance(value, dict) or value.keys() != {"scale", "mean", "std"}:
        raise _nonsense(name)
    parts = {}
    for part, given in value.items():
        given = given if isinstance(given, list) else [given]
        if not given or any(type(each) not in (int, float) for each in given):
            raise _nonsense(name)
        with np.errstate(over="ignore", under="ignore"):
            try:
                narrow = np.array(given, np.float64).astype(np.float32)
            except OverflowError:
                raise _nonsense(name) from None
        if not np.isfinite(narrow).all() or (part != "mean" and not narrow.all()):
            raise _nonsense(name)
        parts[part] = narrow if isinstance(value[part], list) else float(value[part])
    if len({each.size for each in parts.values() if isinstance(each, np.ndarray)}) > 1:
        raise _nonsense(name)
    return Normalisation(**parts)


_READERS: dict[str, Callable[[str, object], Any]] = {
    "normalisation": _read_normalisation,
    "labels": _read_labels,
    "class_names": _read_names,
    "target_scale": _read_normalisation,
    "image_shape": _read_image_shape,
    "columns": _read_columns,
    "targets": _read_targets,
    "context": _read_context,
}
