"""Batches from a function of the user's, for data that does not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike

from ..io import checks
from ._arrays import as_array, as_samples, finite
from ._dataset import SampleSource, Split, as_split
from ._errors import DataError, prefixed
from ._normalisation import Normalisation, far_from_unit, pixel_scale
from ._schema import Schema
from ._schema_json import Label, image_shape
from ._targets import plain_targets

Pair = tuple[ArrayLike, ArrayLike]
"""Samples `x` and targets `y`, as users have them."""

_SCALES = "mupc.data.standardisation({}), or to mupc.data.Normalisation()"


@dataclass(frozen=True, eq=False)
class BatchStream(SampleSource):
    """Training batches that are made one after the other; `from_batches` returns one.

    `batches(epoch)` makes the batches of an epoch, the same whenever it is called for that epoch. `train` is the first
    of them, `test` (which may be empty) and `validation` are held in memory.
    """

    name: str
    batches: Callable[[int], Iterable[Pair]]
    batches_per_epoch: int
    train: Split
    test: Split
    validation: Split | None
    schema: Schema

    @property
    def batch_size(self) -> int:
        """The number of samples in every batch."""
        return len(self.train)

    def epoch(self, number: int, start: int = 0) -> Iterator[Split]:
        """Yield the batches of an epoch as stored, from batch number `start` on, each checked."""
        found = start
        for index, batch in enumerate(islice(_iterator(self.batches, number), start, self.batches_per_epoch), start):
            with prefixed(f"batch {index} of epoch {number} of {self.name}"):
                split = _as_split(batch, self.schema, self.train)
                if len(split) != self.batch_size:
                    raise DataError(f"it has {len(split)} samples, not {self.batch_size}", "make all batches alike")
            found = index + 1
            yield split
        if found < self.batches_per_epoch:
            raise DataError(
                f"epoch {number} of {self.name} ended after {found} of {self.batches_per_epoch} batches",
                "make as many in every epoch, or set {batches_per_epoch} to less",
            )


def from_batches(
    batches: Callable[[int], Iterable[Pair]],
    batches_per_epoch: int,
    labels: int | Sequence[Label] | None = None,
    normalisation: Normalisation | None = None,
    target_scale: Normalisation | None = None,
    test: Pair | None = None,
    validation: Pair | None = None,
    name: str = "the stream",
) -> BatchStream:
    """Make a stream of batches from a function, for data that does not fit into memory.

    **Arguments:**

    - `batches`: a function of the number of the epoch (0, 1, …) that returns its batches `(x, y)`, such as a generator.
      It shuffles as it likes, but makes the same batches whenever it is called for the same epoch: a run that goes on
      from a checkpoint calls it again, and skips what it has learnt from. All batches have the same number of samples.
    - `batches_per_epoch`: how many batches are taken in an epoch.
    - `labels`: of a classification, all labels, or the number of classes if they are 0, 1, …
    - `normalisation`: from inputs to what the network takes, such as `mupc.data.standardisation(x)` of some samples. By
      default uint8 inputs are pixels and go to [-1, 1], and others, which must be of about unit size, stay as they are.
    - `target_scale`: the same for the values of a regression, such as `mupc.data.standardisation(y)`.
    - `test`, `validation`: samples and targets to evaluate on, `(x, y)`.
    - `name`: for messages.

    The first batch of epoch 0 is made at once, to check it.

    >>> import numpy as np
    >>> from mupc import data
    >>> def batches(epoch):
    ...     rng = np.random.default_rng(epoch)
    ...     for _ in range(10):
    ...         x = rng.normal(size=(32, 4))
    ...         yield x, x[:, 0] > 0
    >>> stream = data.from_batches(batches, 10, labels=(False, True))
    >>> stream.in_size, stream.out_size, stream.batch_size
    (4, 2, 32)
    """
    checks.function("batches", batches)
    checks.integer("batches_per_epoch", batches_per_epoch, 1)
    with prefixed(f"batch 0 of epoch 0 of {name}"):
        x, y = _as_pair(next(_iterator(batches, 0), None))
        sample = as_array("x", x)
        if not len(sample):
            raise DataError("it has no samples", "make batches of one or more")
        schema = Schema(
            normalisation=_input_scale(sample) if normalisation is None else normalisation,
            labels=_labels(labels),
            target_scale=_value_scale(as_array("y", y)) if labels is None and target_scale is None else target_scale,
            image_shape=image_shape(sample.shape[1:]),
        )
        train = as_split(schema, x, y)
    splits = []
    for part, pair in (("test", test), ("validation", validation)):
        with prefixed(f"{part} of {name}"):
            splits.append(None if pair is None else _as_split(pair, schema, train))
    empty = train.take(np.arange(0))
    return BatchStream(name, batches, batches_per_epoch, train, splits[0] or empty, splits[1], schema)


def _as_split(pair: object, schema: Schema, first: Split) -> Split:
    """Return samples and targets as stored, which must be like those of the first batch."""
    split = as_split(schema, *_as_pair(pair))
    for name, got, want in (("x", split.raw, first.raw), ("y", split.targets, first.targets)):
        if got.shape[1:] != want.shape[1:] or got.dtype != want.dtype:
            found = f"{name} is {got.dtype} of shape {got.shape}"
            raise DataError(f"{found}, and in the first batch {want.dtype} of shape {want.shape}", "make them alike")
    return split


def _iterator(batches: Callable[[int], Iterable[Pair]], epoch: int) -> Iterator[Pair]:
    made = batches(epoch)
    if not isinstance(made, Iterable):
        raise DataError(f"batches({epoch}) returned {type(made).__name__}", "yield pairs (x, y)")
    return iter(made)


def _as_pair(batch: object) -> Pair:
    if batch is None:
        raise DataError("there is none", "make at least one")
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise DataError(f"it is {type(batch).__name__}, not a pair", "make pairs (x, y)")
    return batch[0], batch[1]


def _labels(given: int | Sequence[Label] | None) -> tuple[Label, ...] | None:
    if given is None:
        return None
    if isinstance(given, int):
        return tuple(range(checks.integer("labels", given, 2)))
    return tuple(plain_targets("labels", given).tolist())


def _input_scale(x: np.ndarray) -> Normalisation:
    """Return how inputs are normalised by default; those far from unit size are refused."""
    if x.dtype == np.uint8:
        return pixel_scale(x)
    size = far_from_unit(as_samples("x", x))
    if size is not None:
        raise DataError(
            f"inputs are of size {size:.3g} (root mean square)",
            f"set {{normalisation}} to {_SCALES.format('x')} for inputs as they are",
        )
    return Normalisation()


def _value_scale(y: np.ndarray) -> Normalisation | None:
    """Return the scale of values of about unit size; those that are not, and what may be labels, are refused."""
    values = f"{{target_scale}} to {_SCALES.format('y')} for values as they are"
    if y.dtype.kind != "f" or (y == np.round(y)).all():
        raise DataError("targets are not numbers with fractions and may be labels", f"set {{labels}}, or {values}")
    size = far_from_unit(finite("y", y))
    if size is not None:
        raise DataError(f"targets are of size {size:.3g} (root mean square)", f"set {values}")
    return Normalisation() if y.ndim == 1 else None
