"""What claims of several figures need: rows that must be there, groups of rows, and straight-line fits."""

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from ._claims import MissingCellsError
from ._figure import Row, Table

T = TypeVar("T")
Real = float | int
Finding = tuple[bool, str]
"""Whether a claim is true, and the numbers it was judged by."""


def require(rows: Sequence[T], count: int, what: str) -> Sequence[T]:
    """Return the rows; raise `MissingCellsError(what)` if there are fewer than `count`, or none."""
    if not rows or len(rows) < count:
        raise MissingCellsError(what)
    return rows


def grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Hashable, ...], Table]:
    """Return the rows by their values of these fields, in the order in which they come."""
    groups: dict[tuple[Hashable, ...], Table] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def number(value: Real | None) -> float:
    """Return a saved number, in which None stands for one that was not finite."""
    return math.inf if value is None else float(value)


def fit_line(points: Iterable[tuple[Real, Real]]) -> tuple[float, float]:
    """Return the slope of y over x by least squares, and R²."""
    x, y = np.array(list(points), float).T
    slope, start = np.polyfit(x, y, 1)
    variance = np.var(y)
    return float(slope), 1 - float(np.var(y - slope * x - start) / variance) if variance else 0.0


def fit_power(points: Iterable[tuple[Real, Real]]) -> tuple[float, float]:
    """Return the power of x in y by least squares on log–log axes, and R²."""
    return fit_line((math.log(x), math.log(y)) for x, y in points)
