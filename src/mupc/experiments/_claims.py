"""Judge claims, on rows that must be there and on straight-line fits. Their ids, texts and expectations are in
`claims.md`, which is next to this file."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from ._tables import read_page, table_rows

T = TypeVar("T")
Real = float | int
Finding = tuple[bool, str]
"""Whether a claim is true, and the numbers it was judged by."""
HOLDS, FAILS, NOT_RUN, REPORTED = VERDICTS = "holds", "fails", "not run", "reported"


class MissingCellsError(Exception):
    """A claim needs cells that have not been computed."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim of `claims.md` with the numbers it was judged by."""

    id: str
    claim: str
    measured: str
    expected: str
    verdict: str


CLAIMS = {name: (claim, expected) for name, claim, expected in table_rows(*read_page("claims.md"))}
"""Claims and what is expected of them, by id; all with names in braces."""


def judge(name: str, measure: Callable[..., Finding | str], *arguments: object, **values: object) -> Claim:
    """Return the claim with this id and its verdict.

    `measure(*arguments)` returns whether it is true and the numbers, or raises `MissingCellsError`. It returns only the
    numbers if nothing is asked of them, so that they can neither hold nor fail. `values` are what the names in braces
    stand for.
    """
    claim, expected = CLAIMS[name]
    try:
        found = measure(*arguments)
        true, measured = (None, found) if isinstance(found, str) else found
        verdict = REPORTED if true is None else HOLDS if true else FAILS
    except MissingCellsError as missing:
        verdict, measured = NOT_RUN, f"not run: {missing}"
    return Claim(name.format(**values), claim.format(**values), measured, expected.format(**values), verdict)


def require(rows: Sequence[T], count: int, what: str) -> Sequence[T]:
    """Return the rows; raise `MissingCellsError(what)` if there are fewer than `count`, or none."""
    if not rows or len(rows) < count:
        raise MissingCellsError(what)
    return rows


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
