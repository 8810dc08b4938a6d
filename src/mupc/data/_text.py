"""Texts as data sets: windows of characters, and for each of their characters the next one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..io import checks
from ._characters import vocabulary
from ._dataset import Dataset, Split
from ._errors import DataError, prefixed
from ._schema import Schema

CONTEXT = 64
"""Characters of a window, where none are given."""


def is_text_file(name: str) -> bool:
    """Whether a file is a text, by its name."""
    return name.lower().endswith(".txt")


def load_text(name: str, context: int | None) -> Dataset:
    """Return a text of the user's own as a data set. Its vocabulary is that of all of it."""
    context = CONTEXT if context is None else checks.integer("context", context, 1)
    with prefixed(name):
        text = read_text(name)
        schema = Schema(labels=vocabulary(text), context=context)
        train, test = text_splits(text, schema, context)
    return Dataset(Path(name).stem, train, test, None, schema, False, name)


def text_splits(text: str, schema: Schema, context: int) -> tuple[Split, Split]:
    """Return training and test windows. The test part is the last tenth of the text, rounded up to whole windows: each
    of its characters is the target of one prediction. Windows follow each other and do not overlap."""
    train, test = (windows(schema.tokens(part), context) for part in _parts(text, context))
    return train, test


def windows(tokens: np.ndarray, context: int) -> Split:
    """Return the whole windows of a text, each with the characters that are one further on."""
    count = (len(tokens) - 1) // context * context
    if not count:
        raise DataError(f"it has {len(tokens)} characters", f"give a text of at least {context + 1}, a window and one")
    return Split(tokens[:count].reshape(-1, context), tokens[1 : count + 1].reshape(-1, context).astype(np.int32))


def read_text(name: str) -> str:
    """Return the text of a file."""
    path = Path(name).expanduser()
    if not path.is_file():
        raise DataError("there is no such file", "check the path")
    try:
        text = path.read_bytes().decode("utf-8-sig")  # without the mark that some programs put first
    except UnicodeDecodeError:
        text = "\0"
    except OSError as error:
        problem = f"it cannot be read ({error.strerror or type(error).__name__})"
        raise DataError(problem, "check its permissions") from None
    if "\0" in text:
        raise DataError("it is not text in UTF-8", "save it as such")
    if not text.strip():
        raise DataError("it is empty", "give a file with text")
    return text


def _parts(text: str, context: int) -> tuple[str, str]:
    """Return the text to train on, and that to test on with the character before it."""
    tested = -(-len(text) // (10 * context)) * context
    if len(text) <= tested + context:
        raise DataError(
            f"it has {len(text)} characters, too few for one window of {context} to train on and one to test on",
            f"give a text of at least {2 * context + 1}, or set {{context}} to less",
        )
    start = len(text) - tested
    return text[:start], text[start - 1 :]
