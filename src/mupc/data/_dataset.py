"""A data set that has been read: two or three splits of numpy arrays, and what they mean."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from ._columns import RawSamples
from ._errors import DataError
from ._normalisation import Normalisation
from ._schema import Schema, one_hot


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """One part of a data set, as stored.

    `raw` has shape `(n, features)`: uint8 for images, whole numbers for texts, else float32. `targets` are int32 places
    of the labels, of shape `(n,)`, for classification, and `(n, features)` for texts; float32 in the user's units, of
    shape `(n, out)`, for regression.

    >>> len(Split(np.zeros((3, 4), np.uint8), np.array([0, 1, 2], np.int32)))
    3
    """

    raw: np.ndarray
    targets: np.ndarray

    def __post_init__(self) -> None:
        if self.raw.ndim != 2 or len(self.raw) != len(self.targets):
            raise DataError(
                f"a split needs raw (n, features) and n targets, got shapes {self.raw.shape} and {self.targets.shape}",
                "reshape the inputs or drop the unmatched samples",
            )

    def __repr__(self) -> str:
        return f"Split(raw={self.raw.dtype}{self.raw.shape}, targets={self.targets.dtype}{self.targets.shape})"

    def __len__(self) -> int:
        return len(self.raw)

    def take(self, indices: np.ndarray) -> Split:
        """Return the samples at `indices` as a new split."""
        return Split(self.raw[indices], self.targets[indices])


def as_split(schema: Schema, x: RawSamples, y: ArrayLike) -> Split:
    """Return samples and targets as a data set of this schema stores them."""
    return Split(schema.read(x), schema.stored(y))


class SampleSource:
    """What data sets and streams of batches have in common: training samples and a schema."""

    train: Split
    schema: Schema

    @property
    def classes(self) -> int | None:
        """The number of classes, or of characters; None for regression."""
        return None if self.schema.labels is None else len(self.schema.labels)

    @property
    def image_shape(self) -> tuple[int, ...] | None:
        """The shape of an image, channel first, or None for other samples."""
        return self.schema.image_shape

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of a sample, an image with its channels first; rows are flattened in that order."""
        return self.schema.sample_shape or (self.in_size,)

    @property
    def normalisation(self) -> Normalisation:
        """The map from stored values to network inputs."""
        return self.schema.normalisation

    @property
    def in_size(self) -> int:
        """The number of input features."""
        return int(self.train.raw.shape[1])

    @property
    def out_size(self) -> int:
        """The number of classes, or of regression targets; of a text, characters times positions."""
        return self.schema.out_size or int(self.train.targets.shape[1])

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of an output: `(out_size,)`, or of a text a row for every position, `(context, characters)`."""
        context = self.schema.context
        return (self.out_size,) if context is None else (context, self.out_size // context)

    def encode(self, targets: np.ndarray) -> np.ndarray:
        """Return targets of a split as the network learns them, `(n, *output_shape)` float32: labels one-hot, values of
        a regression scaled."""
        targets, size = np.asarray(targets), self.output_shape[-1]
        if self.classes is None:
            if targets.ndim != 2 or targets.shape[1] != size:
                raise DataError(f"targets have shape {targets.shape}", f"pass values of shape (n, {size})")
            return self.schema.scale(targets)
        self._check_labels("labels", targets)
        return one_hot(targets, size)

    def _check_labels(self, what: str, targets: np.ndarray) -> None:
        """Refuse labels, or for a text tokens, of a wrong shape, and those that are not there."""
        context, size = self.schema.context, self.output_shape[-1]
        if targets.shape[1:] != self.output_shape[:-1] or not np.issubdtype(targets.dtype, np.integer):
            shape = "(n,)" if context is None else f"(n, {context})"
            raise DataError(f"{what} are {targets.dtype} of shape {targets.shape}", f"pass integers of shape {shape}")
        if len(targets) and not 0 <= targets.min() <= targets.max() < size:
            raise DataError(
                f"{what} run from {targets.min()} to {targets.max()}", f"pass whole numbers 0 to {size - 1}"
            )


@dataclass(frozen=True, eq=False)
class Dataset(SampleSource):
    """A data set: splits as stored, how they become inputs and targets, and where they came from.

    `test` may be empty. `official` says whether the contents match the published checksums, `source` where the data
    were read from.

    >>> from mupc import data
    >>> digits = data.load("digits")
    >>> digits.in_size, digits.out_size, digits.image_shape
    (64, 10, (8, 8))
    >>> digits.x_train.shape == (len(digits.train), 64) and digits.y_train.shape == (len(digits.train), 10)
    True
    """

    name: str
    train: Split
    test: Split
    validation: Split | None
    schema: Schema
    official: bool
    source: str

    def __post_init__(self) -> None:
        for name in ("train", "test", "validation") if self.classes is not None else ():
            if (split := getattr(self, name)) is not None:
                self._check_labels(f"labels of {self.name} ({name})", split.targets)
                if self.schema.context is not None:
                    self._check_labels(f"characters of {self.name} ({name})", split.raw)

    @cached_property
    def x_train(self) -> np.ndarray:
        """Normalised training inputs, `(n, in_size)` float32."""
        return np.asarray(self.normalisation(self.train.raw))

    @cached_property
    def y_train(self) -> np.ndarray:
        """Training targets, `(n, out_size)` float32; one-hot for classification."""
        return self.encode(self.train.targets)

    @cached_property
    def x_test(self) -> np.ndarray:
        """Normalised test inputs, `(n, in_size)` float32."""
        return np.asarray(self.normalisation(self.test.raw))

    @cached_property
    def y_test(self) -> np.ndarray:
        """Test targets, `(n, out_size)` float32; one-hot for classification."""
        return self.encode(self.test.targets)

    def with_validation(self, fraction_or_count: float | int, seed: int = 0) -> Dataset:
        """Move a random part of the training split, or of a text its end, into a validation split.

        A float in (0, 1) is a fraction of the training split, an int a number of samples. The same seed always gives
        the same parts. The normalisation stays that of the whole data set.

        >>> from mupc import data
        >>> digits = data.load("digits").with_validation(100, seed=0)
        >>> len(digits.validation)
        100
        """
        if self.validation is not None:
            raise DataError(f"{self.name} already has a validation split", "start from the data set without one")
        count = part_size("validation", fraction_or_count, len(self.train))
        if self.schema.task == "text":  # windows next to each other are alike
            order = np.arange(len(self.train))[::-1]
        else:
            order = self._spared(np.random.default_rng(seed).permutation(len(self.train)), count)
        # Sorted, so that samples keep the order of the file within each part.
        held_out = np.sort(order[:count])
        kept = np.setdiff1d(np.arange(len(self.train)), held_out)
        return dataclasses.replace(self, train=self.train.take(kept), validation=self.train.take(held_out))

    def _spared(self, order: np.ndarray, count: int) -> np.ndarray:
        """Return what may be held out, in this order: training keeps the last sample of each class."""
        if self.classes is None:
            return order
        _, last = np.unique(self.train.targets[order][::-1], return_index=True)
        free = np.delete(order, len(order) - 1 - last)
        if count > len(free):
            raise DataError(
                f"a validation split takes {count} of {len(order)} samples, and only {len(free)} can be spared, since "
                "training keeps one of each class",
                "make it smaller, or give more samples",
            )
        return free


def part_size(name: str, size: float | int, available: int) -> int:
    """Return the number of samples in a part, given as that number or as a fraction of those available."""
    whole = isinstance(size, Integral) and not isinstance(size, bool)
    if whole and 0 < size < available:
        return int(size)
    fraction = isinstance(size, Real) and not isinstance(size, Integral)
    if fraction and 0 < size < 1 and 0 < round(size * available) < available:
        return round(size * available)
    cure = f"give a fraction between 0 and 1, or in Python a whole number of samples from 1 to {available - 1}"
    what = f"a {name} split of {size!r} is not possible with {available} samples"
    raise DataError(what, cure if available > 1 else "give more samples")
