from __future__ import annotations

import sys

import numpy as np
import pytest
from data_helpers import raises_line
from sklearn.datasets import load_digits

from mupc import data
from mupc.io.checks import ArgumentError


def test_digits_are_scikit_learns_split_by_class():
    digits = data.load("digits")
    images, labels = load_digits(return_X_y=True)
    assert digits.train.raw.dtype == np.uint8
    assert len(digits.train) + len(digits.test) == 1797
    together = np.column_stack(
        [
            np.concatenate([digits.train.raw, digits.test.raw]),
            np.r_[digits.train.targets, digits.test.targets],
        ]
    )
    expected = np.column_stack([images, labels])
    np.testing.assert_array_equal(together[np.lexsort(together.T)], expected[np.lexsort(expected.T)])
    for label in range(10):
        assert np.sum(digits.test.targets == label) == np.sum(labels == label) // 5
    np.testing.assert_array_equal(digits.test.raw[0], images[labels == digits.test.targets[0]][4])


def test_digits_are_reproducible_and_standardised():
    first, second = data.load("digits"), data.load("digits")
    np.testing.assert_array_equal(first.train.raw, second.train.raw)
    assert first.official and first.classes == 10 and first.sample_shape == (1, 8, 8)
    assert abs(first.x_train.mean()) < 1e-3 and abs(first.x_train.std() - 1) < 1e-3


def test_catalogue_states_the_sizes_of_digits():
    digits, record = data.load("digits"), data.available()[0]
    assert (record.train, record.test) == (len(digits.train), len(digits.test))
    assert record.present and record.where == "scikit-learn"


def test_digits_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with raises_line("digits", "pip install scikit-learn"):
        data.load("digits")


def test_digits_have_nothing_to_fetch_or_to_change():
    with raises_line("digits", "nothing to fetch"):
        data.fetch("digits")
    with pytest.raises(ArgumentError, match="classes must be 10 for digits, got 3. Leave it out."):
        data.load("digits", classes=3)
    assert [result.ok for result in data.check("digits")] == [True]
