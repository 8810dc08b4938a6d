"""The error about data that cannot be used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..io import checks


def escaped(text: str) -> str:
    """Return text as it may stand in a cure, where braces mark arguments."""
    return text.replace("{", "{{").replace("}", "}}")


class DataError(checks.ArgumentError):
    """Data that cannot be used as asked. The message is one line that says what is wrong and what to do.

    **Arguments:** the `problem`, and the `cure`, which may name arguments in braces as in an `ArgumentError`.
    """

    def __init__(self, problem: str, cure: str = "") -> None:
        self.problem = " ".join(problem.split())  # one line, whatever a file name or a library put in it
        literal = escaped(self.problem)
        super().__init__("", f"{literal}:" if cure else literal, cure)

    def __reduce__(self) -> tuple[type[DataError], tuple[str, str]]:
        return type(self), (self.problem, self.cure)


@contextlib.contextmanager
def prefixed(name: str) -> Iterator[None]:
    """Put the name of a file in front of errors about its contents."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{name}: {error.problem}", error.cure) from None
