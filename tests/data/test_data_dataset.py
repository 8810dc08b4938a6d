from __future__ import annotations

import doctest
import importlib
import pickle
import pkgutil

import numpy as np
import pytest
from data_helpers import raises_line
from hypothesis import given
from hypothesis import strategies as st

from mupc import data
from mupc.data import Dataset, Normalisation, Schema, Split


def make(n: int = 10, classes: int | None = 3) -> Dataset:
    raw = np.arange(n * 4, dtype=np.uint8).reshape(n, 4)
    targets = np.arange(n, dtype=np.int32) % 3 if classes else np.arange(2.0 * n).reshape(n, 2)
    split = Split(raw, targets if classes else targets.astype(np.float32))
    return Dataset("toy", split, split, None, Schema(labels=classes and tuple(range(classes))), False, "here")


def test_normalisation_is_float32_whatever_it_is_given():
    raw = np.array([[0, 51, 255]], np.uint8)
    for std in (0.5, np.float64(0.5), np.full(3, 0.5)):
        x = Normalisation(scale=1 / 255, mean=0.5, std=std)(raw)
        assert x.dtype == np.float32
        np.testing.assert_allclose(x, [[-1, -0.6, 1]], atol=1e-6)


def test_normalisation_works_on_jax_arrays():
    jnp = pytest.importorskip("jax.numpy")
    normalise = Normalisation(scale=1 / 255, mean=np.array([0.1, 0.2]), std=0.3)
    raw = np.array([[3, 200], [7, 9]], np.uint8)
    x = normalise(jnp.asarray(raw))
    assert x.dtype == jnp.float32
    np.testing.assert_allclose(x, normalise(raw), rtol=1e-6, atol=1e-6)


def test_a_data_set_prints_sizes_not_values():
    assert "train=Split(raw=uint8(10, 4), targets=int32(10,))" in repr(make())
    table = data.from_arrays(np.arange(900.0).reshape(30, 30), np.arange(30.0), task="regression")
    assert "mean=float32(30,), std=float32(30,)" in repr(table) and "\n" not in repr(table)


def test_split_needs_matching_lengths():
    with raises_line("(3, 2)", "(4,)", "reshape"):
        Split(np.zeros((3, 2), np.uint8), np.zeros(4, np.int32))


def test_encoding_of_labels_and_of_regression():
    assert make().encode(np.array([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert make().y_train.dtype == make().x_train.dtype == np.float32
    assert make(classes=None).out_size == 2
    np.testing.assert_array_equal(make(classes=None).y_test, make(classes=None).test.targets)


@pytest.mark.parametrize("labels", [[3], [-1]])
def test_encoding_refuses_labels_out_of_range(labels):
    with raises_line(str(labels[0]), "pass whole numbers 0 to 2"):
        make().encode(np.array(labels))


def test_encoding_refuses_wrong_shapes():
    with raises_line("pass integers of shape (n,)"):
        make().encode(np.array([0.5]))
    with raises_line("shape (n, 2)"):
        make(classes=None).encode(np.zeros((4, 3)))


@given(count=st.integers(1, 7), seed=st.integers(0, 2**32))
def test_validation_is_disjoint_complete_and_deterministic(count, seed):
    whole = make()
    once, again = (whole.with_validation(count, seed) for _ in range(2))
    assert len(once.validation) == count
    first = [row[0] for part in (once.train, once.validation) for row in part.raw.tolist()]
    assert sorted(first) == whole.train.raw[:, 0].tolist()  # every sample once, so no overlap
    np.testing.assert_array_equal(once.validation.raw, again.validation.raw)
    np.testing.assert_array_equal(once.train.targets, (once.train.raw[:, 0] // 4) % 3)  # pairs stay together
    assert once.test is whole.test
    assert set(once.train.targets) == {0, 1, 2}
    with raises_line("a validation split takes 8 of 10 samples, and only 7 can be spared", "make it smaller"):
        whole.with_validation(8, seed)


def test_validation_by_fraction_depends_on_the_seed():
    digits = data.load("digits")
    parts = [digits.with_validation(0.1, seed) for seed in (0, 1)]
    np.testing.assert_array_equal(digits.with_validation(0.1).validation.raw, parts[0].validation.raw)
    assert [len(part.validation) for part in parts] == [144, 144]
    assert not np.array_equal(parts[0].validation.raw, parts[1].validation.raw)


@pytest.mark.parametrize("size", [0, 10, 11, -1, 0.0, 1.0, 1.5, -0.1, 0.01, 0.99, True, float("nan")])
def test_validation_refuses_silly_sizes(size):
    with raises_line(repr(size), "fraction between 0 and 1", "1 to 9"):
        make().with_validation(size, 0)


def test_validation_is_made_once():
    with raises_line("already has a validation split"):
        make().with_validation(2, 0).with_validation(2, 0)


def test_cached_inputs_follow_the_split():
    whole = make()
    assert len(whole.x_train) == 10  # fills the cache
    assert len(whole.with_validation(4, 0).x_train) == 6


def test_an_error_about_data_spells_arguments_and_leaves_file_names_alone():
    error = data.DataError("{odd}.npz\nis empty", "drop {data_dir}")
    assert str(error) == "{odd}.npz is empty: drop data_dir"
    assert error.spelled(lambda name: f"--{name}") == "{odd}.npz is empty: drop --data_dir"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_examples_in_docstrings():
    names = [f"mupc.data.{module.name}" for module in pkgutil.iter_modules(data.__path__)]
    results = {name: doctest.testmod(importlib.import_module(name)) for name in ["mupc.data", *names]}
    assert not [name for name, result in results.items() if result.failed]
    assert sum(result.attempted for result in results.values()) > 30
