"""Check what users pass in. Each check raises an `ArgumentError`: one line with the value and the cure."""

import difflib
import importlib.util
import math
import string
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

T = TypeVar("T")
Bound = int | float | None
Spelling = Callable[[str], str]


def library_spelling(name: str) -> str:
    """Spell a name in Python: arguments as they are, classes with their package (`ErrorSpace` → `mupc.ErrorSpace`)."""
    return f"mupc.{name}" if name[:1].isupper() else name


def flag_spelling(name: str) -> str:
    """Spell a name on the command line: arguments as flags (`data_dir` → `--data-dir`), classes with their package."""
    return library_spelling(name) if name[:1].isupper() else f"--{name.replace('_', '-')}"


class ArgumentError(ValueError):
    """An argument that cannot be used.

    **Arguments:** the argument's `name`, what is `wrong` with it (with its value), and the `cure`. Both texts may name
    other arguments and classes in braces, such as `"needs more than 3 {hidden_layers}"`. `str(error)` spells all names
    in Python. The command line calls `spelled` to get flags in their place.
    """

    def __init__(self, name: str, wrong: str, cure: str = "") -> None:
        self.name, self.wrong, self.cure = name, wrong, cure
        super().__init__(self.spelled(library_spelling))

    def __reduce__(self) -> tuple[type["ArgumentError"], tuple[str, ...]]:
        return type(self), (self.name, self.wrong, self.cure)

    def spelled(self, spelling: Spelling) -> str:
        """Return the message with every name spelled by `spelling`. A text that starts with `= ` gives the value: it
        becomes `skip=3` in Python, and `--skip 3` for a flag."""
        subject = spelling(self.name) if self.name.isidentifier() else self.name
        wrong = _spelled(self.wrong, spelling)
        if wrong.startswith("= "):
            subject, _, wrong = f"{subject}{' ' if subject.startswith('-') else '='}{wrong[2:]}".partition(" ")
        return " ".join(filter(None, (subject, wrong, _spelled(self.cure, spelling))))


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of a type that cannot be used."""


class _Names(dict[str, str]):
    def __init__(self, spelling: Spelling) -> None:
        self.spelling = spelling

    def __missing__(self, name: str) -> str:
        return self.spelling(name)


def _spelled(text: str, spelling: Spelling) -> str:
    return string.Formatter().vformat(text, (), _Names(spelling)) if "{" in text else text


LONGEST = 200
"""Characters of a value that an error shows."""


def braced(text: str) -> str:
    """Return text as it may stand in an `ArgumentError`, where braces mark names."""
    return text.replace("{", "{{").replace("}", "}}")


def literal(value: object) -> str:
    """Return a value as it may stand in the text of an `ArgumentError`: on one line, and cut if it is long."""
    text = " ".join(repr(value).split())
    return braced(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")


def suggestion(given: object, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the nearest known name, or nothing."""
    near = difflib.get_close_matches(str(given), list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def unknown(name: str, given: object, known: Iterable[str]) -> ArgumentError:
    """Return the error for a value that is not one of the known names, with the nearest of them."""
    names = list(known)
    return ArgumentError(
        name, f"{literal(given)} is not known.{suggestion(given, names)}", f"Choose one of: {', '.join(names)}."
    )


def lookup(name: str, given: object, table: Mapping[str, T]) -> T:
    """Return `table[given]`."""
    if not isinstance(given, str) or given not in table:
        raise unknown(name, given, table)
    return table[given]


def wrong_type(name: str, wanted: str, value: object) -> ArgumentTypeError:
    """Return the error for a value that is not `wanted`."""
    return ArgumentTypeError(name, f"must be {wanted}, got {literal(value)} of type {type(value).__name__}.")


def integer(name: str, value: object, at_least: int) -> int:
    """Return a whole number that is at least `at_least`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise wrong_type(name, "a whole number", value)
    if value < at_least:
        raise ArgumentError(name, f"must be at least {at_least}, got {value}.")
    return int(value)


def seed(value: object) -> int:
    """Return a whole number that a random key can be made of."""
    whole = integer("seed", value, -(2**63))
    if whole >= 2**63:
        raise ArgumentError("seed", f"must be below 2**63, got {whole}.")
    return whole


def boolean(name: str, value: object) -> bool:
    """Return True or False; texts such as "no" are refused, because they would count as True."""
    if not isinstance(value, bool) and type(value).__name__ != "bool":  # numpy's is not Python's
        raise ArgumentTypeError(name, f"must be True or False, got {literal(value)}.")
    return bool(value)


def function(name: str, value: object) -> None:
    """Accept what can be called."""
    if not callable(value):
        raise wrong_type(name, "a function", value)


def number(
    name: str, value: object, *, at_least: Bound = None, above: Bound = None, below: Bound = None, cure: str = ""
) -> None:
    """Accept a finite number inside its bounds. Arrays (a swept or traced value) are taken on trust."""
    if hasattr(value, "aval"):
        return
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong_type(name, "a number", value)
    real = float(value)
    if not math.isfinite(real):
        raise ArgumentError(name, f"must be finite, got {value}.")
    for wanted, bound, fits in (
        ("at least", at_least, at_least is None or real >= at_least),
        ("greater than", above, above is None or real > above),
        ("below", below, below is None or real < below),
    ):
        if not fits:
            raise ArgumentError(name, f"must be {wanted} {bound:g}, got {real:g}.", cure)


def shape(name: str, array: Any, expected: tuple[int | str, ...], cure: str) -> None:
    """Accept an array of the expected shape; strings in `expected` stand for any size."""
    import numpy as np

    got = tuple(np.shape(array))
    fits = len(got) == len(expected) and all(
        isinstance(want, str) or have == want for have, want in zip(got, expected, strict=True)
    )
    if not fits:
        wanted = "(" + ", ".join(map(str, expected)) + ("," if len(expected) == 1 else "") + ")"
        raise ArgumentError(name, f"must have shape {wanted}, got {got}.", cure)


def need(module: str, extra: str) -> None:
    """Refuse to go on without a package that comes with an extra of this library."""
    if importlib.util.find_spec(module) is None:
        raise ValueError(f"this needs {module}, which is not installed: pip install 'mupc[{extra}]'.")
