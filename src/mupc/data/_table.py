"""Tables in text files: a row of names, then a row per sample."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np

from ..io import counted
from ._columns import Table, cell_kind, encode_table, parse_cells, pick, quoted, refuse_duplicates, texts
from ._dataset import Dataset
from ._errors import DataError, escaped, prefixed
from ._from_arrays import from_arrays
from ._schema import Schema
from ._text import read_text

_SUFFIXES = (".csv", ".tsv")
_DELIMITERS = (",", ";", "\t", "|")


class SplitOptions(TypedDict, total=False):
    """The options of `from_arrays` that `load` takes for tables."""

    test: float | int
    validation: float | int
    seed: int
    one_hot: bool


def is_table(name: str) -> bool:
    """Whether a file is a table, by its name."""
    return name.lower().endswith(_SUFFIXES)


def load_table(
    name: str, target: str | Sequence[str] | None, task: str = "auto", **options: Unpack[SplitOptions]
) -> Dataset:
    """Return the data set in a table: the target column, or several of a regression, and all others as inputs."""
    with prefixed(name):
        table = _read_csv(name)
        if not target:
            raise DataError("no column is the target", f"set {{target}} to one of {escaped(quoted(list(table)))}")
        targets = (target,) if isinstance(target, str) else tuple(target)
        y = _target_columns(table, targets, task)
        inputs = {column: _parsed(values) for column, values in table.items() if column not in targets}
        dataset = from_arrays(inputs, y, task=task, **options)
    return dataclasses.replace(dataset, name=Path(name).stem, source=name)


def describe_table(name: str) -> str:
    """Return what a table holds, in words."""
    with prefixed(name):
        table = _read_csv(name)
    rows = len(next(iter(table.values())))
    return f"read {counted(rows, 'row')} of {counted(len(table), 'column')}: {quoted(list(table))}"


def read_table(name: str, schema: Schema) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the rows of a new table as stored samples, and the targets if it has them. Columns are found by name, in
    any order; others are ignored."""
    with prefixed(name):
        if schema.columns is None:
            raise DataError("the model was not trained on a table", "give its samples as x in a .npz file")
        table = _read_csv(name)
        raw = encode_table(table, schema.columns)
        if not schema.targets or any(column not in table or (table[column] == "").all() for column in schema.targets):
            return raw, None
        if schema.labels is not None and isinstance(schema.labels[0], str):  # also if they look like numbers
            return raw, np.array(texts(schema.targets[0], table[schema.targets[0]]))
        columns = list(_target_columns(table, schema.targets, "auto").values())
        return raw, columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def _parsed(cells: np.ndarray) -> np.ndarray:
    """Return a column as numbers if all its cells are numbers: parsing them once saves time."""
    try:
        return cells.astype(np.float64)
    except ValueError:
        return cells


def _target_columns(table: Table, names: Sequence[str], task: str) -> Table:
    return {name: parse_cells(name, pick(table, name), task) for name in names}


def _read_csv(name: str) -> Table:
    """Return the columns of a file, every cell as text without blanks around it."""
    header, rows = _read_rows(name)
    if all(cell_kind(cell) == "number" for cell in header):
        raise DataError(f"its first row holds numbers ({quoted(header, 3)})", "add a first row with names of columns")
    if "" in header:
        what = f"column {header.index('') + 1} has no name"
        raise DataError(what, "name it, or take it out (pandas writes its index so, unless index=False)")
    refuse_duplicates(header)
    if not rows:
        raise DataError("it has names of columns and no rows", "add a row per sample")
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise DataError(f"row {number} has {len(row)} cells for {len(header)} columns", "mend the row")
    return {column: np.array(cells) for column, cells in zip(header, zip(*rows, strict=True), strict=True)}


def _read_rows(name: str) -> tuple[list[str], list[list[str]]]:
    text = read_text(name)
    try:
        first = next((line for line in text.splitlines() if line.strip()), "")
        delimiter = max(_DELIMITERS, key=lambda each: len(next(csv.reader([first], delimiter=each), ())))
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        rows = [[cell.strip() for cell in row] for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise DataError(f"it cannot be read as a table ({error})", "save it again as CSV") from None
    if not rows:
        raise DataError("it is empty", "give a row with names of columns, and a row per sample")
    return rows[0], rows[1:]
