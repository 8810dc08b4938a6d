from __future__ import annotations

import numpy as np
import pytest
from data_helpers import Frame, raises_line, series
from hypothesis import given
from hypothesis import strategies as st

from mupc import data
from mupc.data import Column, Normalisation, Schema, from_arrays, targets_warning
from mupc.io.checks import ArgumentError

RNG = np.random.default_rng(0)
X = RNG.normal(3.0, 2.0, (100, 4))
Y = np.repeat(["b", "a", "c"], [50, 40, 10])


def test_classes_are_split_in_equal_shares_and_every_sample_is_used_once():
    x = np.arange(100.0)[:, None]
    dataset = from_arrays(x, Y, test=0.2, validation=0.25)
    parts = [dataset.train, dataset.test, dataset.validation]
    assert [len(part) for part in parts] == [60, 20, 20]
    assert [np.bincount(part.targets).tolist() for part in parts] == [[24, 30, 6], [8, 10, 2], [8, 10, 2]]
    assert dataset.schema.labels == ("a", "b", "c")
    assert sorted(np.concatenate([part.raw[:, 0] for part in parts])) == list(range(100))
    for part in parts:
        labels = Y[part.raw[:, 0].astype(int)]  # samples and labels stay together, in their order
        np.testing.assert_array_equal(dataset.schema.indices(labels), part.targets)
        assert (np.diff(part.raw[:, 0]) > 0).all()


@given(
    counts=st.lists(st.integers(1, 9), min_size=2, max_size=6), test=st.floats(0.05, 0.6), seed=st.integers(0, 2**40)
)
def test_every_class_stays_in_training(counts, test, seed):
    y = np.repeat(np.arange(len(counts)), counts)
    x = np.arange(float(len(y)))
    try:
        once, again = (from_arrays(x, y, test=test, task="classification", seed=seed) for _ in range(2))
    except data.DataError as error:
        assert "split" in str(error)  # too few samples for this share
        return
    assert set(once.train.targets) == set(range(len(counts)))
    np.testing.assert_array_equal(once.test.raw, again.test.raw)
    assert len(once.test) == round(test * len(y))


def test_the_seed_chooses_the_split():
    first, second = (from_arrays(X, Y, seed=seed).test.raw for seed in (0, 1))
    assert not np.array_equal(first, second)


def test_nothing_is_held_out_on_demand():
    dataset = from_arrays(X, Y, test=0.0)
    assert len(dataset.train) == 100 and len(dataset.test) == 0 and dataset.validation is None
    assert dataset.x_test.shape == (0, 4) and dataset.y_test.shape == (0, 3)


def test_features_are_standardised_by_the_training_part_only():
    x = np.concatenate([X, np.full((100, 1), 0.1)], axis=1)
    dataset = from_arrays(x, Y)
    np.testing.assert_allclose(dataset.x_train[:, :4].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(dataset.x_train[:, :4].std(axis=0), 1, atol=1e-5)
    assert (dataset.x_train[:, 4] == 0).all()  # constant
    train = dataset.train.raw.astype(float)
    np.testing.assert_allclose(
        dataset.x_test[:, :4], ((dataset.test.raw - train.mean(axis=0)) / (train.std(axis=0) + 1e-30))[:, :4], atol=1e-5
    )


def test_pixels_go_to_plus_and_minus_one():
    images = RNG.integers(0, 256, (100, 3, 4, 4)).astype(np.uint8)
    dataset = from_arrays(images, Y)
    assert dataset.sample_shape == (3, 4, 4) and dataset.train.raw.dtype == np.uint8 and dataset.in_size == 48
    np.testing.assert_allclose(dataset.x_train, dataset.train.raw / 127.5 - 1, atol=1e-6)


def test_values_are_standardised_and_come_back():
    y = RNG.normal(250_000, 80_000, 100)
    dataset = from_arrays(X, y)
    assert dataset.classes is None and dataset.out_size == 1 and dataset.train.targets.shape == (80, 1)
    np.testing.assert_allclose([dataset.y_train.mean(), dataset.y_train.std()], [0, 1], atol=1e-5)
    assert set(dataset.test.targets[:, 0]) <= set(y.astype(np.float32))  # in the user's units
    np.testing.assert_allclose(dataset.schema.decode(dataset.y_test), dataset.test.targets[:, 0], rtol=1e-6)
    several = from_arrays(X, np.stack([y, -2 * y], axis=1))
    np.testing.assert_allclose(several.y_train.std(axis=0), [1, 1], atol=1e-5)
    np.testing.assert_allclose(several.schema.decode(several.y_test), several.test.targets, rtol=1e-6)
    assert from_arrays(X, y[:, None]).schema.decode(np.zeros((3, 1))).shape == (3, 1)


AGES = np.arange(100) % 60 + 18


@pytest.mark.parametrize(
    "y, labels",
    [
        (Y, ("a", "b", "c")),
        (Y.astype(object), ("a", "b", "c")),
        (Y.tolist(), ("a", "b", "c")),
        (Y == "a", (False, True)),
        (np.where(Y == "a", 7, -100), (-100, 7)),
        (np.where(Y == "a", 10**12, 3), (3, 10**12)),
        (np.where(Y == "a", 1.0, 2.0), (1.0, 2.0)),
        (np.arange(100) % 20, tuple(range(20))),
        (np.eye(4)[np.arange(100) % 3], (0, 1, 2, 3)),  # one-hot rows, a class of which does not occur
        ((Y == "a")[:, None], (False, True)),
        (np.arange(100) / 3, None),
        (np.arange(200).reshape(100, 2), None),
    ],
)
def test_the_task_follows_from_the_targets(y, labels):
    schema = from_arrays(X, y).schema
    assert schema.labels == labels
    assert [type(label) for label in schema.labels or ()] == [type(label) for label in labels or ()]


@pytest.mark.parametrize("y", [AGES, AGES.astype(float), np.arange(100) % 21, np.arange(100)])
def test_many_whole_numbers_ask(y):
    with raises_line("different whole numbers in 100 samples", 'set task to "regression" or "classification"'):
        from_arrays(X, y)
    assert from_arrays(X, y, task="regression").classes is None
    if len(np.unique(y)) < 100:
        assert from_arrays(X, y, task="classification").schema.labels == tuple(np.unique(y))


def test_few_samples_with_few_repeats_ask():
    with raises_line("3 different whole numbers in 5 samples"):
        from_arrays(X[:5], [1, 2, 3, 1, 2])
    assert from_arrays(X[:4], [0, 1, 1, 0], test=1).classes == 2  # two are always few


def test_named_columns_are_kept_and_text_is_encoded_when_asked():
    frame = Frame(age=[20, 30.5, 40, 50] * 5, colour=["red", "blue", "red", "green"] * 5)
    dataset = from_arrays(frame, [0, 1, 0, 1] * 5, one_hot=True)
    assert dataset.schema.columns == (Column("age"), Column("colour", ("blue", "green", "red")))
    assert dataset.in_size == 4 and (dataset.train.raw[:, 1:].sum(axis=1) == 1).all()
    again = dataset.schema.inputs({"colour": ["red"], "other": [1], "age": [20]})
    row = dataset.x_train[(dataset.train.raw == [20, 0, 0, 1]).all(axis=1)][0]
    np.testing.assert_array_equal(again[0], row)
    with raises_line("column 'colour' holds text ('blue', 'green', 'red')", "set one_hot to encode it, or take"):
        from_arrays(frame, [0, 1, 0, 1] * 5)


def test_names_of_targets_are_kept():
    assert from_arrays(X, series("price", X[:, 0])).schema.targets == ("price",)
    assert from_arrays(X, series("kind", Y)).schema.targets == ("kind",)
    price = from_arrays(X, {"price": X[:, 0]}).schema
    assert price.targets == ("price",) and price.decode(np.zeros((3, 1))).shape == (3,)
    assert from_arrays(X, {"a": X[:, 0], "b": X[:, 1]}).out_size == 2
    with raises_line("target 'age' holds 60 different whole numbers in 100 samples"):
        from_arrays(X, series("age", AGES))
    assert from_arrays(X, Frame(a=X[:, 0], b=X[:, 1])).schema.targets == ("a", "b")
    rows = np.eye(2)[np.arange(100) % 2]
    encoded = from_arrays(X, Frame(cat=rows[:, 0], dog=rows[:, 1])).schema
    assert encoded.labels == (0, 1) and encoded.class_names == ("cat", "dog") and encoded.targets == ()


NAN = float("nan")
BINARY = [0, 1] * 50
BAD = {
    "no sample": (np.zeros((0, 2)), [], {}, ["x has 0 samples", "two or more"]),
    "one sample": ([[1, 2]], [1], {}, ["x has 1 sample:", "two or more"]),
    "one class": (X, ["a"] * 100, {}, ["y has one class, 'a'"]),
    "one class, one-hot": (X, [[0, 1]] * 100, {}, ["y has one class, 1"]),
    "lengths": (X, BINARY[:99], {}, ["x has 100 samples and y 99"]),
    "nan": (np.where(X > 2, NAN, X), BINARY, {}, ["x has", "not finite", "nan at"]),
    "nan label": (X, [NAN, *BINARY[1:]], {}, ["y has 1 values that are not finite", "nan at (0,)"]),
    "missing label": (X, np.array(["a", "b"] * 49 + ["a", None], object), {}, ["y has no value at sample 99"]),
    "empty label": (X, ["a", ""] * 50, {}, ["y has no value at sample 1"]),
    "mixed labels": (X, ["a", 1] * 50, {}, ["y mixes text and numbers ('a' and 1)"]),
    "huge label": (X, np.array([0, 2**63] * 50, np.uint64), {}, ["not 64-bit numbers", "below 2**63"]),
    "huger label": (X, [0, 2**70] * 50, {}, ["not 64-bit numbers", "below 2**63"]),
    "multi-hot": (X, [[1, 1], [0, 1]] * 50, {}, ["y has 2 ones in row 0", 'set task to "regression"']),
    "no class": (X, [[1, 0], [0, 0]] * 50, {}, ["y has 0 ones in row 1"]),
    "rows as classes": (X, np.arange(200).reshape(100, 2), {"task": "classification"}, ["(100, 2) and is not one-hot"]),
    "cube": (X, np.zeros((100, 2, 2)), {}, ["y has shape (100, 2, 2)"]),
    "text as values": (X, ["a", "b"] * 50, {"task": "regression"}, ["y holds text ('a' first)"]),
    "rows of text": (X, [["a", "b"]] * 100, {}, ["y holds text"]),
    "dates": (X, np.zeros(100, "M8[s]"), {}, ["y holds datetime64[s]"]),
    "counts": (np.ones((100, 2), np.uint8), BINARY, {}, ["x is uint8, as pixels are, and only goes up to 1"]),
    "masked": (np.ma.masked_less(X, 1), BINARY, {}, ["x has masked values"]),
    "scalar": (3, BINARY, {}, ["x has shape ()"]),
    "no features": (np.zeros((100, 0)), BINARY, {}, ["x has shape (100, 0)"]),
    "ragged": ([[1], [1, 2]], [0, 1], {}, ["x has rows of different lengths"]),
    "text": ([["a"]] * 100, BINARY, {}, ["x holds text"]),
    "no target columns": (X, {}, {}, ["y has no columns"]),
    "no columns": ({}, BINARY, {}, ["no columns of inputs"]),
    "times": (1.6e9 + np.arange(100), BINARY, {}, ["x has values from 1600000000.0", "too close together for float32"]),
    "column of times": ({"t": 1.6e9 + np.arange(100)}, BINARY, {}, ["column 't' has values from 16", "subtract"]),
    "close values": (X, 1e9 + X[:, 0], {}, ["y has values from", "subtract the smallest"]),
    "many texts": ({"id": [f"n{i}" for i in range(200)]}, BINARY * 2, {"one_hot": True}, ["200 different texts"]),
    "decimal commas": ({"a": ["1,5", "2,5"] * 50}, BINARY, {}, ["text ('1,5', '2,5')", "write a decimal point"]),
    "mixed cells": ({"a": ["1", "x"] * 50}, BINARY, {"one_hot": True}, ["'x' in row 2, and numbers in others"]),
    "empty column": ({"a": np.full(100, None)}, BINARY, {}, ["'a' has no value in row 1 (and in 99 more)"]),
    "all test": (X, BINARY, {"test": 1.0}, ["a test split of 1.0 is not possible with 100 samples"]),
    "negative test": (X, BINARY, {"test": -0.1}, ["a test split of -0.1"]),
    "nan test": (X, BINARY, {"test": NAN}, ["a test split of nan"]),
    "most test": (X, BINARY, {"test": 99}, ["with 2 different labels only 98 can be spared", "set test to less"]),
    "validation": (X, BINARY, {"test": 90, "validation": 9}, ["a validation split of 9 takes 9 of 10 samples"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_named_with_the_cure(case):
    x, y, options, said = BAD[case]
    with raises_line(*said):
        from_arrays(x, y, **options)


class Sparse:
    """A matrix of scipy, as far as it is looked at."""

    def toarray(self) -> None:
        raise AssertionError


def test_sparse_matrices_are_refused():
    with raises_line("x is sparse", "toarray()"):
        from_arrays(Sparse(), BINARY)


def test_bad_options():
    with pytest.raises(ArgumentError, match="task 'classify' is not known. Did you mean 'classification'?"):
        from_arrays(X, BINARY, task="classify")
    with pytest.raises(ArgumentError, match="seed must be at least 0, got -1"):
        from_arrays(X, BINARY, seed=-1)
    with pytest.raises(ArgumentError, match="one_hot must be True or False"):
        from_arrays(X, BINARY, one_hot="no")


def test_targets_that_were_not_scaled_get_a_warning():
    values = np.full((10, 1), 300, np.float32)
    assert "of size 300 (root mean square)" in targets_warning(Schema(), values)
    assert "of size 0.003" in targets_warning(Schema(), values / 1e5)
    assert targets_warning(Schema(target_scale=Normalisation(mean=299.0)), values) is None
    assert targets_warning(Schema(), values / 100) is None
    assert targets_warning(Schema(labels=(0, 1)), np.array([0, 1])) is None
    assert targets_warning(Schema(), values[:0]) is None


def test_real_data_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"width": [1.0, 2.0, 3.0, 4.0] * 5, "colour": ["red", "blue"] * 10}).convert_dtypes()
    kinds = pandas.Series(["cat", "cat", "dog", "dog"] * 5, name="kind", dtype="category")
    found = from_arrays(frame.assign(group=frame["colour"].astype("category")), kinds, one_hot=True)
    assert (found.in_size, found.schema.labels, found.schema.targets) == (5, ("cat", "dog"), ("kind",))
    assert found.schema.read(frame.assign(group="red"))[:2].tolist() == [[1, 0, 1, 0, 1], [2, 1, 0, 0, 1]]
    for wrong, cure in (
        (frame.assign(width=frame["width"].mask(frame["width"] == 3)), "no value in row 3"),
        (frame.assign(when=pandas.date_range("2020-01-01", periods=20)), "give numbers or text"),
    ):
        with pytest.raises(data.DataError, match=cure):
            from_arrays(wrong, kinds, one_hot=True)
    with pytest.raises(data.DataError, match="no value at sample 2"):
        from_arrays(frame[["width"]], kinds.mask(kinds.index == 2))
