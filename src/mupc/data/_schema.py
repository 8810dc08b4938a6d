"""How a user's samples become a network's inputs and targets, and its outputs the user's predictions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import as_array, as_samples, finite
from ._characters import as_tokens, check_tokens
from ._columns import Column, RawSamples, as_table, encode_table, quoted
from ._errors import DataError, escaped
from ._normalisation import Normalisation
from ._schema_json import Label, plain, read_fields

Task = Literal["classification", "regression", "text"]


@dataclass(frozen=True, eq=False)
class Schema:
    """How a user's samples become a network's inputs and targets, and its outputs the user's predictions.

    **Arguments:**

    - `normalisation`: from stored values to inputs.
    - `labels`: of a classification, the user's own label values, in the order of the outputs; of a text its characters;
      None for regression.
    - `class_names`: names to show, where they differ from the labels.
    - `target_scale`: of a regression, from the user's values to what the network learns; None for values as they are.
      Its numbers are arrays for values of shape `(n, outputs)`, and scalars for values of shape `(n,)`.
    - `image_shape`: `(height, width)`, or `(channels, height, width)`; inputs are flattened in that order.
    - `columns`: of a table, those that are inputs; None for arrays.
    - `targets`: the names of a table's target columns.
    - `context`: of a text, the number of characters in a sample. They are tokens, whole numbers that count `labels`;
      targets are the tokens one character further on, of shape `(n, context)`.

    >>> schema = Schema(Normalisation(mean=2.0, std=4.0), labels=("cat", "dog"))
    >>> schema.inputs([[2, 6]]), schema.encode(["dog"]), schema.decode([[0.1, 0.9]])
    (array([[0., 1.]], dtype=float32), array([[0., 1.]], dtype=float32), array(['dog'], dtype='<U3'))
    """

    normalisation: Normalisation = field(default_factory=Normalisation)
    labels: tuple[Label, ...] | None = None
    class_names: tuple[str, ...] | None = None
    target_scale: Normalisation | None = None
    image_shape: tuple[int, ...] | None = None
    columns: tuple[Column, ...] | None = None
    targets: tuple[str, ...] = ()
    context: int | None = None

    def __post_init__(self) -> None:
        count = 0 if self.labels is None else len(self.labels)
        if self.labels is not None and (count < 2 or len(np.unique(np.array(self.labels))) < count):
            raise DataError(f"the labels {quoted(self.labels)} do not differ", "give two or more")
        if self.class_names is not None and len(self.class_names) != count:
            raise DataError(f"there are {len(self.class_names)} class names for {count} labels", "give one each")
        if self.labels is not None and self.target_scale is not None:
            raise DataError("classes have a scale of targets", "give labels or a scale, not both")
        if self.context is not None and not all(
            isinstance(each, str) and len(each) == 1 for each in self.labels or (0,)
        ):
            raise DataError("the labels of a text are not characters", "give its characters as labels")
        known = (self._columns_size, self.normalisation.size, self._pixels, self.context)
        sizes = {size for size in known if size is not None}
        if len(sizes) > 1:
            raise DataError(f"samples have {' and '.join(map(str, sorted(sizes)))} values", "give the same everywhere")

    @property
    def task(self) -> Task:
        """Whether the network learns classes, values, or the next characters of a text."""
        if self.context is not None:
            return "text"
        return "regression" if self.labels is None else "classification"

    @property
    def in_size(self) -> int | None:
        """The number of inputs, or None if it is not known."""
        return self._columns_size or self.normalisation.size or self._pixels or self.context

    @property
    def out_size(self) -> int | None:
        """The number of outputs, or None if it is not known."""
        if self.labels is not None:
            return len(self.labels) * (self.context or 1)
        return None if self.target_scale is None else self.target_scale.size

    @property
    def sample_shape(self) -> tuple[int, ...] | None:
        """The shape of a sample, an image with its channels first; None if it is not known.

        >>> Schema(image_shape=(28, 28)).sample_shape, Schema(image_shape=(3, 32, 32)).sample_shape
        ((1, 28, 28), (3, 32, 32))
        """
        if self.image_shape is not None:
            return self.image_shape if len(self.image_shape) == 3 else (1, *self.image_shape)
        return None if self.in_size is None else (self.in_size,)

    @property
    def _columns_size(self) -> int | None:
        return None if self.columns is None else sum(column.width for column in self.columns)

    @property
    def _pixels(self) -> int | None:
        return None if self.image_shape is None else math.prod(self.image_shape)

    def read(self, x: RawSamples) -> np.ndarray:
        """Return samples as a data set stores them, `(n, features)` uint8 or finite float32.

        **Arguments:** samples as in training: an array, lists, or a data frame, whose columns are found by name. Of a
        text, its tokens, or a text or several: the last characters of each, filled up at the end.
        """
        if self.context is not None:
            return self._read_texts(x, self.context)
        if self.columns is not None:
            return self._read_columns(x, self.columns)
        if isinstance(x, Mapping):
            raise DataError("x is a table, and the training data were an array", "pass an array of shape (n, features)")
        array = as_array("x", x)
        if self.image_shape and array.ndim > 2 and _without_ones(array.shape[1:]) != _without_ones(self.image_shape):
            found = f"x has samples of shape {array.shape[1:]}, and training had {self.image_shape}"
            raise DataError(found, "turn the axes, channels first")
        raw = as_samples("x", array)
        if self.in_size not in (None, raw.shape[1]):
            shape = "" if self.image_shape is None else f" ({' × '.join(map(str, self.image_shape))})"
            raise DataError(
                f"x has samples of {raw.shape[1]} values, and training had {self.in_size}{shape}",
                f"pass an array of shape (n, {self.in_size})",
            )
        return raw

    def _read_columns(self, x: RawSamples, columns: tuple[Column, ...]) -> np.ndarray:
        table = as_table(x)
        if table is None:
            array = as_array("x", x)
            if array.dtype.kind in "buif" and array.ndim == 2 and array.shape[1] == self.in_size:
                return as_samples("x", array)  # encoded already, or nothing to encode
            if array.ndim != 2 or array.shape[1] != len(columns):
                names = escaped(quoted([column.name for column in columns]))
                shape = f"(n, {len(columns)})"
                raise DataError(
                    f"x has shape {array.shape}", f"pass a table, or rows of shape {shape} with the columns {names}"
                )
            table = {column.name: array[:, i] for i, column in enumerate(columns)}
        return encode_table(table, columns)

    def _read_texts(self, x: RawSamples, length: int) -> np.ndarray:
        texts = [x] if isinstance(x, str) else x
        if isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts):
            if not all(texts):
                raise DataError("a text is empty", "give at least one character")
            rows = [np.pad(self.tokens(text[-length:]), (0, max(0, length - len(text)))) for text in texts]
            return np.array(rows, np.int32).reshape(len(rows), length)
        return check_tokens("x", as_array("x", x), length, len(self.labels or ()))

    def tokens(self, text: str) -> np.ndarray:
        """Return the tokens of a text, of shape `(characters,)`. Characters without one are an error.

        >>> schema = Schema(labels=("a", "b", "c"), context=2)
        >>> schema.tokens("cab").tolist(), schema.text([2, 0, 1])
        ([2, 0, 1], 'cab')
        """
        return as_tokens(text, tuple(map(str, self.labels or ())))

    def text(self, tokens: ArrayLike) -> str:
        """Return the text of tokens: the inverse of `tokens`."""
        return "".join(np.array(self.labels)[np.asarray(tokens, int)])

    def inputs(self, x: RawSamples) -> np.ndarray:
        """Return what the network takes: samples read and normalised, `(n, features)` float32."""
        return np.asarray(self.normalisation(self.read(x)))

    def indices(self, y: ArrayLike) -> np.ndarray:
        """Return the position of every label among the outputs, int32 of shape `(n,)`; of a text `(n, context)`."""
        if self.labels is None:
            raise DataError("a regression has no labels", "pass its values to encode")
        array = as_array("y", y)
        if self.context is not None:
            return check_tokens("y", array, self.context, len(self.labels))
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if is_one_hot(array) and self.labels == tuple(range(array.shape[1])):
            return array.argmax(axis=1).astype(np.int32)
        if array.ndim != 1:
            raise DataError(f"labels have shape {array.shape}", "pass one per sample, of shape (n,)")
        cells = array.tolist()
        place: dict[Hashable, int] = {label: index for index, label in enumerate(self.labels)}
        found = [place.get(cell, -1) if isinstance(cell, Hashable) else -1 for cell in cells]
        if -1 in found:
            first = found.index(-1)
            raise DataError(
                f"label {cells[first]!r} of sample {first} is unknown", f"use {escaped(quoted(self.labels))}"
            )
        return np.array(found, np.int32)

    def encode(self, y: ArrayLike) -> np.ndarray:
        """Return targets as the network learns them, `(n, outputs)` float32: labels one-hot, values scaled. Those of a
        text are `(n, context, characters)`."""
        stored = self.stored(y)
        return self.scale(stored) if self.labels is None else one_hot(stored, len(self.labels))

    def stored(self, y: ArrayLike) -> np.ndarray:
        """Return targets as a data set stores them: `indices` of labels, or values `(n, outputs)` float32."""
        if self.labels is not None:
            return self.indices(y)
        values = finite("y", as_array("y", y))
        return values[:, None] if values.ndim == 1 else values

    def scale(self, values: np.ndarray) -> np.ndarray:
        """Return values of a regression as the network learns them."""
        size = None if self.target_scale is None else self.target_scale.size or 1
        if values.ndim != 2 or size not in (None, values.shape[1]):
            raise DataError(f"targets have shape {values.shape}", f"pass values of shape (n, {size or 'outputs'})")
        return values.astype(np.float32) if self.target_scale is None else self.target_scale(values)

    def decode(self, outputs: ArrayLike) -> np.ndarray:
        """Return predictions: the label of the largest output along the last axis, or values in the user's units."""
        outputs = np.asarray(outputs)
        if self.labels is not None:
            return np.array(self.labels)[outputs.argmax(axis=-1)]
        if self.target_scale is None:
            return outputs
        values = np.asarray(self.target_scale.undo(outputs))
        return values[:, 0] if self.target_scale.size is None else values

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values that `from_json` turns back into the same schema."""
        return {each.name: plain(getattr(self, each.name)) for each in dataclasses.fields(self)}

    @classmethod
    def from_json(cls, values: object) -> Schema:
        """Return the schema that `as_json` wrote. Anything else is an error."""
        return cls(**read_fields(values))


def _without_ones(shape: tuple[int, ...]) -> list[int]:
    return [size for size in shape if size != 1]


def is_one_hot(rows: np.ndarray) -> bool:
    """Whether every row has a single 1 among zeros, in two columns or more."""
    if rows.ndim != 2 or rows.shape[1] < 2 or rows.dtype.kind not in "buif":
        return False
    return bool(((rows == 0) | (rows == 1)).all() and (rows.sum(axis=1) == 1).all())


def one_hot(indices: np.ndarray, classes: int) -> np.ndarray:
    """Return a row per index with a 1 at its place, `(*shape, classes)` float32."""
    encoded = np.zeros((*indices.shape, classes), np.float32)
    np.put_along_axis(encoded, indices[..., None], 1, axis=-1)
    return encoded
