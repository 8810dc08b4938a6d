"""The error about data that cannot be used."""

from __future__ import annotations

from ..io import checks


class DataError(checks.ArgumentError):
    """Data that cannot be used as asked. The message is one line that says what is wrong and what to do.

    **Arguments:** the `problem`, and the `cure`, which may name arguments in braces as in an `ArgumentError`.
    """

    def __init__(self, problem: str, cure: str = "") -> None:
        self.problem = " ".join(problem.split())  # one line, whatever a file name or a library put in it
        literal = self.problem.replace("{", "{{").replace("}", "}}")
        super().__init__("", f"{literal}:" if cure else literal, cure)

    def __reduce__(self) -> tuple[type[DataError], tuple[str, str]]:
        return type(self), (self.problem, self.cure)
