"""The columns of a table: numbers, or categories that are one-hot encoded."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from ..io import checks
from ._arrays import as_array, refuse_coarse
from ._errors import DataError, escaped

Table = dict[str, np.ndarray]
"""Columns by name, each of shape (rows,). Messages count rows from 1, without the header."""


@runtime_checkable
class DataFrameLike(Protocol):
    """A pandas data frame, or whatever has named columns as one."""

    @property
    def columns(self) -> Iterable[Hashable]: ...

    def __getitem__(self, name: Any, /) -> ArrayLike: ...

    def to_numpy(self) -> np.ndarray: ...


RawSamples = ArrayLike | Mapping[str, ArrayLike] | DataFrameLike
"""Samples as users have them: an array, rows as lists, or named columns."""

_MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "<na>", "?"))
_NUMBERS = "write numbers in every row, or take the column out of the table"
_MOST_CATEGORIES = 100  # a column with more different texts names its rows, it does not sort them


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, and the categories of one that is one-hot encoded; None for numbers.

    >>> Column("colour", ("blue", "red")).encode(np.array(["red", "blue"]))
    array([[0., 1.],
           [1., 0.]], dtype=float32)
    """

    name: str
    categories: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        """The number of inputs that the column becomes."""
        return 1 if self.categories is None else len(self.categories)

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Return the column as inputs, `(rows, width)` float32."""
        if self.categories is None:
            return numbers(self.name, values).astype(np.float32)[:, None]
        cells = texts(self.name, values)
        place = {category: index for index, category in enumerate(self.categories)}
        encoded = np.zeros((len(cells), self.width), np.float32)
        for row, text in enumerate(cells):
            if text not in place:
                known = escaped(quoted(self.categories))
                raise DataError(
                    f"column {self.name!r} has {text!r} in row {row + 1}, which the training data did not have",
                    f"use one of {known}, or train again with such rows",
                )
            encoded[row, place[text]] = 1
        return encoded


def as_table(x: RawSamples) -> Table | None:
    """Return the columns of a data frame or of a mapping from names to values; None for anything else."""
    if isinstance(x, Mapping):
        names: list[Any] = list(x)
    elif isinstance(x, DataFrameLike):
        names = list(x.columns)
    else:
        return None
    refuse_duplicates(map(str, names))
    table = {str(name): as_array(f"column {str(name)!r}", x[name]) for name in names}
    for name, values in table.items():
        if values.ndim != 1:
            raise DataError(f"column {name!r} has shape {values.shape}", "give it one value per row")
    if len({len(values) for values in table.values()}) > 1:
        raise DataError("the columns of the table have different lengths", "give every column one value per row")
    return table


def refuse_duplicates(names: Iterable[str]) -> None:
    """Refuse two columns of one name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"the table has two columns named {name!r}", "rename one of them")
        seen.add(name)


def pick(table: Table, name: str) -> np.ndarray:
    """Return a column; the error suggests the nearest name."""
    if name not in table:
        near = checks.suggestion(name, table).strip().replace("Did", "did", 1)
        raise DataError(f"the table has no column {name!r} (it has {quoted(list(table))})", escaped(near) or "add it")
    return table[name]


def encode_table(table: Table, columns: Sequence[Column]) -> np.ndarray:
    """Return these columns as inputs, `(rows, features)` float32. Other columns are left out."""
    return np.concatenate([column.encode(pick(table, column.name)) for column in columns], axis=1)


def quoted(names: Sequence[object], most: int = 5) -> str:
    """Return the first names or labels for a message."""
    return ", ".join(map(repr, names[:most])) + (" …" if len(names) > most else "")


def numbers(name: str, values: np.ndarray, cure: str = _NUMBERS) -> np.ndarray:
    """Return a column of numbers that are finite in float32, or say which cell is not one."""
    if values.dtype.kind not in "buifOUT":
        raise DataError(f"column {name!r} holds {values.dtype}", "give numbers or text")
    with np.errstate(over="ignore"):
        try:
            found = values.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            raise _no_numbers(name, values, cure) from None
        bad = np.flatnonzero(~np.isfinite(found.astype(np.float32)))
    if len(bad):
        raise _bad_cells(name, values, bad)
    return found


def texts(name: str, values: np.ndarray) -> list[str]:
    """Return a column as text, or say which cell is empty."""
    found = ["" if is_missing(cell) else str(cell) for cell in values.tolist()]
    bad = np.flatnonzero([not text for text in found])
    if len(bad):
        raise _bad_cells(name, values, bad)
    return found


def is_missing(cell: object) -> bool:
    """Whether a cell is empty: no text, None, NaN, or what pandas puts in their place."""
    if isinstance(cell, str):
        return not cell
    return (
        cell is None or (isinstance(cell, float) and math.isnan(cell)) or type(cell).__name__ in ("NAType", "NaTType")
    )


def cell_kind(cell: object) -> str:
    """Return "missing", "number" or "text"."""
    if is_missing(cell) or (isinstance(cell, str) and cell.lower() in _MISSING):
        return "missing"
    try:
        float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "text"
    return "number"


def is_text(values: np.ndarray) -> bool:
    """Whether a column holds text: no cell is a number, and some are not empty."""
    if values.dtype.kind not in "OUT":
        return False
    kinds = {cell_kind(cell) for cell in values.tolist()}
    return "text" in kinds and "number" not in kinds


def parse_cells(name: str, values: np.ndarray, task: str) -> np.ndarray:
    """Return the cells of a target column as integers, numbers or text, whichever fits all of them. Numbers among text
    are an error, unless the task is a classification."""
    kinds = {cell_kind(cell) for cell in values.tolist()}
    if "text" in kinds and (task == "classification" or "number" not in kinds):
        return np.array(texts(name, values))
    found = numbers(name, values, 'write numbers in every row, or set {task} to "classification"')
    try:
        return np.array([int(cell) for cell in values.tolist()], np.int64)
    except ValueError:
        return found
    except OverflowError:
        raise DataError(f"column {name!r} holds whole numbers of over 64 bits", "give smaller ones, or text") from None


def make_column(name: str, values: np.ndarray, one_hot: bool) -> Column:
    """Return how a column of the training table becomes inputs."""
    if not is_text(values):
        refuse_coarse(f"column {name!r}", numbers(name, values)[:, None])
        return Column(name)
    categories = sorted(set(texts(name, values)))
    if not one_hot:
        cure = "set {one_hot} to encode it, or take the column out of the table"
        if all(cell_kind(text.replace(",", ".")) == "number" for text in categories):
            cure = "write a decimal point"
        raise DataError(f"column {name!r} holds text ({quoted(categories, 3)})", cure)
    if len(categories) > _MOST_CATEGORIES:
        found = f"column {name!r} has {len(categories)} different texts, over {_MOST_CATEGORIES}"
        raise DataError(found, "take it out of the table, or group them")
    return Column(name, tuple(categories))


def _no_numbers(name: str, values: np.ndarray, cure: str) -> DataError:
    """Return the error for a column with cells that are not numbers."""
    cells = values.tolist()
    kinds = np.array([cell_kind(cell) for cell in cells])
    rows = np.flatnonzero(kinds == "text")
    if not len(rows):
        return _bad_cells(name, values, np.flatnonzero(kinds == "missing"))
    found = f"column {name!r} has {cells[rows[0]]!r} in row {rows[0] + 1}"
    others = ", and numbers in others" if (kinds == "number").any() else ", not a number"
    return DataError(f"{found}{others}", cure)


def _bad_cells(name: str, values: np.ndarray, rows: np.ndarray) -> DataError:
    cell = values[rows[0]]
    wrong = "no value" if cell_kind(cell) == "missing" or cell != cell else f"{cell}, which is not finite in float32,"
    more = f" (and in {len(rows) - 1} more)" if len(rows) > 1 else ""
    return DataError(f"column {name!r} has {wrong} in row {rows[0] + 1}{more}", "fill it in, or take those rows out")
