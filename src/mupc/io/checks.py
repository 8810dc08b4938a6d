"""Checks of what users pass in. Each raises one line that says what was wrong, with its value, and the cure."""

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
Real = int | float | None


def unknown(what: str, given: object, known: Iterable[str]) -> str:
    """The text for a name that is not in a table, with the nearest name that is."""
    names = list(known)
    near = difflib.get_close_matches(str(given), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{what} {given!r} is not known.{hint} Choose one of: {', '.join(names)}."


def lookup(what: str, name: object, table: Mapping[str, T]) -> T:
    """`table[name]`, or a `ValueError` that names the nearest entry."""
    if not isinstance(name, str) or name not in table:
        raise ValueError(unknown(what, name, table))
    return table[name]


def integer(what: str, value: object, at_least: int) -> int:
    """A whole number no smaller than `at_least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{what} must be a whole number, got {value!r} of type {type(value).__name__}.")
    if value < at_least:
        raise ValueError(f"{what} must be at least {at_least}, got {value}.")
    return int(value)


def seed(value: object) -> int:
    """A whole number that random keys can be made of."""
    whole = integer("seed", value, -(2**63))
    if whole >= 2**63:
        raise ValueError(f"seed must be below 2**63, got {whole}.")
    return whole


def boolean(what: str, value: object) -> bool:
    """True or False; texts such as "no" would count as True."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{what} must be True or False, got {value!r}.")
    return bool(value)


def function(what: str, value: object) -> None:
    """Something that can be called."""
    if not callable(value):
        raise TypeError(f"{what} must be a function, got {value!r} of type {type(value).__name__}.")


def number(what: str, value: Any, *, at_least: Real = None, above: Real = None, below: Real = None) -> None:
    """A finite number inside its bounds. Arrays (a swept or traced value) are taken on trust."""
    if hasattr(value, "aval"):
        return
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{what} must be a number, got {value!r} of type {type(value).__name__}.")
    if not math.isfinite(value):
        raise ValueError(f"{what} must be finite, got {value}.")
    if at_least is not None and value < at_least:
        raise ValueError(f"{what} must be at least {at_least:g}, got {value:g}.")
    if above is not None and value <= above:
        raise ValueError(f"{what} must be greater than {above:g}, got {value:g}.")
    if below is not None and value >= below:
        raise ValueError(f"{what} must be below {below:g}, got {value:g}.")


def shape(what: str, array: Any, expected: tuple[int | str, ...], cure: str) -> None:
    """An array of the expected shape; strings in `expected` stand for any size."""
    got = tuple(np.shape(array))
    fits = len(got) == len(expected) and all(
        isinstance(want, str) or have == want for have, want in zip(got, expected, strict=True)
    )
    if not fits:
        wanted = "(" + ", ".join(map(str, expected)) + ("," if len(expected) == 1 else "") + ")"
        raise ValueError(f"{what} must have shape {wanted}, got {got}. {cure}")
