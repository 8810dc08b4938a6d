"""Data sets from arrays, lists, data frames and series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..io import checks
from ._arrays import as_array, as_samples, finite, refuse_coarse
from ._columns import Column, DataFrameLike, RawSamples, as_table, encode_table, make_column, numbers
from ._dataset import Dataset, Split, part_size
from ._errors import DataError
from ._normalisation import pixel_scale, standardisation
from ._schema import Schema
from ._schema_json import Label, image_shape
from ._targets import choose_task, plain_targets


def from_arrays(
    x: RawSamples,
    y: RawSamples,
    test: float | int = 0.2,
    validation: float | int = 0.0,
    task: str = "auto",
    seed: int = 0,
    one_hot: bool = False,
) -> Dataset:
    """Make a data set of samples `x` and targets `y`, which may be arrays, lists, pandas data frames or series.

    The samples are split at random, with the same share of every class in each part; a class with a single sample stays
    in training. Every feature is standardised with the mean and standard deviation of the training part; uint8 inputs
    are pixels and go to [-1, 1]. Labels may be text, truth values or any numbers. Values of a regression are
    standardised for training; predictions are in their units.

    **Arguments:**

    - `x`: samples of shape `(n, ...)`, or a table with named columns.
    - `y`: labels or values of shape `(n,)`, one-hot rows, or several values per sample, of shape `(n, outputs)`; or a
      table of them.
    - `test`, `validation`: a fraction, or a number of samples, to hold out; 0 for none. The validation part is taken
      from what the test part leaves.
    - `task`: `"classification"`, `"regression"` or `"auto"`. Whole numbers are classes if they take at most 20
      different values, and at most half as many as there are samples. With more, the task must be given.
    - `seed`: of the split.
    - `one_hot`: encode columns of text, with an input for every category.

    >>> from mupc import data
    >>> pets = data.from_arrays([[0.2], [0.3], [4.0], [4.1]] * 5, ["cat", "cat", "dog", "dog"] * 5)
    >>> len(pets.train), len(pets.test), pets.schema.labels
    (16, 4, ('cat', 'dog'))
    """
    raw, columns, shape = _read_inputs(x, checks.boolean("one_hot", one_hot))
    if len(raw) < 2:
        raise DataError(f"x has {len(raw)} sample{'' if len(raw) == 1 else 's'}", "give two or more")
    targets = _read_targets(y, task)
    if len(targets.stored) != len(raw):
        raise DataError(f"x has {len(raw)} samples and y {len(targets.stored)}", "give one target per sample")
    classes = targets.stored if targets.labels else np.zeros(len(raw), np.int32)
    rng = np.random.default_rng(checks.integer("seed", seed, 0))
    rest, held_out = _hold_out("test", test, np.arange(len(raw)), classes, rng)
    kept, validating = _hold_out("validation", validation, rest, classes, rng)
    whole = Split(raw, targets.stored)
    train = whole.take(kept)
    scale = None if targets.labels else standardisation(train.targets[:, 0] if targets.flat else train.targets)
    schema = Schema(
        normalisation=pixel_scale(raw) if raw.dtype == np.uint8 else standardisation(train.raw),
        labels=targets.labels,
        class_names=targets.class_names,
        target_scale=scale,
        image_shape=image_shape(shape),
        columns=columns,
        targets=targets.names,
    )
    validation_split = whole.take(validating) if len(validating) else None
    return Dataset("the data set", train, whole.take(held_out), validation_split, schema, False, "arrays in memory")


def _read_inputs(x: RawSamples, one_hot: bool) -> tuple[np.ndarray, tuple[Column, ...] | None, tuple[int, ...]]:
    """Return samples as stored, the columns of a table, and the shape of a sample."""
    table = as_table(x)
    if table is None:
        array = as_array("x", x)
        raw = as_samples("x", array)
        refuse_coarse("x", array.reshape(raw.shape))
        return raw, None, array.shape[1:]
    if not table:
        raise DataError("the table has no columns of inputs", "give at least one")
    columns = tuple(make_column(name, values, one_hot) for name, values in table.items())
    raw = encode_table(table, columns)
    return raw, columns, raw.shape[1:]


class _Targets(NamedTuple):
    """Targets as stored, the labels (None: regression) and names of classes, and the names of columns. Flat are those
    of shape (n,), with one value per sample."""

    stored: np.ndarray
    labels: tuple[Label, ...] | None
    class_names: tuple[str, ...] | None
    names: tuple[str, ...]
    flat: bool


def _read_targets(y: RawSamples, task: str) -> _Targets:
    names = _names(y)
    what = f"target {names[0]!r}" if len(names) == 1 else "y"
    if isinstance(y, Mapping):
        table = as_table(y)
        if not table:
            raise DataError("y has no columns", "give one or more")
        y = table[names[0]] if len(names) == 1 else np.stack([numbers(*column) for column in table.items()], axis=1)
    given = plain_targets(what, y)
    flat = given.ndim == 1
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]  # a column, as data frames have it
    if choose_task(what, given, task) == "regression":
        values = given.reshape(len(given), -1)
        refuse_coarse(what, values)
        return _Targets(finite(what, values), None, None, names, flat)
    class_names = None
    if given.ndim == 2:  # one-hot
        labels: tuple[Label, ...] = tuple(range(given.shape[1]))
        places, class_names, names = given.argmax(axis=1), names or None, ()
    else:
        found, places = np.unique(given, return_inverse=True)
        labels = tuple(found.tolist())
        names = () if given.dtype == bool else names  # text files have no truth values
    if (places == places[0]).all():
        raise DataError(f"{what} has one class, {labels[places[0]]!r}", "give samples of two classes or more")
    return _Targets(places.astype(np.int32), labels, class_names, names, flat)


def _names(y: RawSamples) -> tuple[str, ...]:
    """Return the names of target columns that tables and series have."""
    if isinstance(y, Mapping | DataFrameLike):
        return tuple(map(str, y if isinstance(y, Mapping) else y.columns))
    name = getattr(y, "name", None)
    return (name,) if isinstance(name, str) else ()


def _hold_out(
    name: str, size: float | int, samples: np.ndarray, classes: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples to keep and those to hold out, both in their order, with equal shares of every class."""
    if size == 0:
        return samples, samples[:0]
    count = part_size(name, size, len(samples))
    order = rng.permutation(samples)
    order = order[np.argsort(classes[order], kind="stable")]  # class after class, each in random order
    first = np.diff(classes[order], prepend=-1) != 0
    free = order[~first]  # one sample of each class stays in training
    if count > len(free):
        cure = "or give more samples" if len(free) > first.sum() else "or write numbers if the labels are values"
        raise DataError(
            f"a {name} split of {size} takes {count} of {len(samples)} samples, and with {first.sum()} "
            f"different labels only {len(free)} can be spared, since training keeps one of each",
            f"set {{{name}}} to less, {cure}",
        )
    held_out = np.sort(free[((np.arange(count) + 0.5) * len(free) / count).astype(int)])
    return np.setdiff1d(samples, held_out), held_out
