"""Characters as tokens: whole numbers that count the characters of a vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._columns import quoted
from ._errors import DataError, escaped

_SHOWN = 10


def vocabulary(text: str) -> tuple[str, ...]:
    """Return the different characters of a text, sorted."""
    return tuple(map(chr, np.unique(_codes(text))))


def as_tokens(text: str, characters: Sequence[str]) -> np.ndarray:
    """Return the place of every character of a text in a vocabulary, as whole numbers of the smallest type that holds
    them. The error names characters that it lacks."""
    place = {character: index for index, character in enumerate(characters)}
    codes, inverse = np.unique(_codes(text), return_inverse=True)
    known = np.array([place.get(chr(code), -1) for code in codes], np.int64)
    if -1 in known:
        missing = quoted([chr(code) for code in codes[known < 0]], _SHOWN)
        raise DataError(
            f"the text has {missing}, which the training text did not have",
            f"leave these out, or train on a text with them (that one had {escaped(quoted(characters, _SHOWN))})",
        )
    return known.astype(np.min_scalar_type(len(characters) - 1))[inverse]


def check_tokens(what: str, values: np.ndarray, length: int, size: int) -> np.ndarray:
    """Return rows of tokens `(n, length)`, int32, if they count the characters of a vocabulary of this size."""
    if values.dtype.kind not in "uif" or (values.dtype.kind == "f" and (values != np.round(values)).any()):
        raise DataError(f"{what} holds {values.dtype}", "pass text, or whole numbers that count its characters")
    if values.ndim != 2 or values.shape[1] != length:
        raise DataError(f"{what} has shape {values.shape}", f"pass rows of {length} characters, of shape (n, {length})")
    if values.size and not 0 <= values.min() <= values.max() < size:
        raise DataError(f"{what} runs from {values.min()} to {values.max()}", f"pass characters 0 to {size - 1}")
    return values.astype(np.int32)


def _codes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
