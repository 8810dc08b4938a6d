from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from data_helpers import raises_line

from mupc import data
from mupc.data import from_batches, standardisation
from mupc.io.checks import ArgumentError


def clusters(epoch: int, batches: int = 5, rows: int = 8) -> Iterator[Any]:
    """Batches of 8 samples, other ones in every epoch."""
    rng = np.random.default_rng(epoch)
    for _ in range(batches):
        labels = rng.integers(0, 3, rows)
        yield rng.normal(size=(rows, 4)) + labels[:, None], np.array(["a", "b", "c"])[labels]


LABELS = ("a", "b", "c")


def test_batches_of_an_epoch_are_read_as_stored_and_from_any_place():
    stream = from_batches(clusters, 5, LABELS, test=next(clusters(9)), name="toy")
    assert (stream.in_size, stream.out_size, stream.classes, stream.batch_size) == (4, 3, 3, 8)
    want = list(clusters(2))
    got = list(stream.epoch(2))
    assert len(got) == 5
    for batch, (x, y) in zip(got, want, strict=True):
        assert batch.raw.dtype == np.float32 and batch.targets.dtype == np.int32
        np.testing.assert_array_equal(batch.raw, x.astype(np.float32))
        assert stream.schema.decode(stream.encode(batch.targets)).tolist() == y.tolist()
    later = list(stream.epoch(2, start=3))
    np.testing.assert_array_equal(later[0].raw, got[3].raw)
    assert len(later) == 2 and len(stream.test) == 8 and stream.validation is None
    assert len(from_batches(clusters, 5, LABELS).test) == 0


def test_what_is_left_of_an_epoch_is_not_made():
    made = []

    def batches(epoch):
        for batch in clusters(epoch, 10**6):
            made.append(epoch)
            yield batch

    assert len(list(from_batches(batches, 3, LABELS).epoch(1))) == 3
    assert made == [0, 1, 1, 1]


def test_labels_by_their_number():
    stream = from_batches(lambda epoch: [(np.zeros((2, 3)), [0, 4])], 1, 5)
    assert stream.schema.labels == (0, 1, 2, 3, 4) and stream.train.targets.tolist() == [0, 4]


def test_pixels_and_other_inputs():
    images = np.full((2, 3, 4, 4), 255, np.uint8)
    stream = from_batches(lambda epoch: [(images, [0, 1])], 1, 2)
    assert stream.sample_shape == (3, 4, 4) and (stream.normalisation(stream.train.raw) == 1).all()
    x = np.array([[100.0, 1.0], [300.0, 3.0]])
    stream = from_batches(lambda epoch: [(x, [0, 1])], 1, 2, standardisation(x))
    np.testing.assert_allclose(stream.normalisation(stream.train.raw), [[-1, -1], [1, 1]])


def test_values_are_in_the_users_units():
    x, y = np.ones((4, 2)), np.array([100.5, 200, 300, 400])
    scale = standardisation(y)
    stream = from_batches(lambda epoch: [(x, y)], 1, target_scale=scale, validation=(x, y))
    assert stream.out_size == 1 and stream.validation.targets[:, 0].tolist() == y.tolist()
    np.testing.assert_allclose(stream.encode(stream.train.targets).std(), 1, rtol=1e-6)
    np.testing.assert_allclose(stream.schema.decode(stream.encode(stream.train.targets)), y)
    both = from_batches(lambda epoch: [(x, np.stack([y, -y], axis=1) / 300)], 1)
    assert both.out_size == 2 and both.schema.target_scale is None


X, Y, OF_THREE = np.ones((4, 2)), [0, 1, 0, 1], standardisation(np.eye(3))
BAD = {
    "none": ([], {}, ["batch 0 of epoch 0 of the stream: there is none"]),
    "no pair": ([X], {}, ["batch 0", "it is ndarray, not a pair", "make pairs (x, y)"]),
    "a triple": ([(X, Y, Y)], {}, ["it is tuple, not a pair"]),
    "no samples": ([(X[:0], Y[:0])], {}, ["it has no samples"]),
    "lengths": ([(X, Y[:3])], {}, ["shapes (4, 2) and (3,)"]),
    "unknown label": ([(X, [0, 1, 2, 0])], {}, ["label 2 of sample 2 is unknown"]),
    "nan": ([(X * np.nan, Y)], {}, ["x has 8 values that are not finite"]),
    "large inputs": ([(100 * X, Y)], {}, ["inputs are of size 100", "normalisation to mupc.data.standardisation(x)"]),
    "labels not given": ([(X, Y)], {"labels": None}, ["may be labels", "set labels, or target_scale"]),
    "large values": ([(X, [300.5] * 4)], {"labels": None}, ["targets are of size", "set target_scale"]),
    "text": ([(X, ["a"] * 4)], {"labels": None}, ["may be labels"]),
    "one label": ([(X, Y)], {"labels": ["a"]}, ["two or more"]),
    "other normalisation": ([(X, Y)], {"normalisation": OF_THREE}, ["x has samples of 2 values, and training had 3"]),
    "other images": ([(X[:, None], Y)], {"normalisation": OF_THREE}, ["2 and 3 values"]),
    "test": ([(X, Y)], {"test": (X[:, :1], Y)}, ["test of the stream: x is float32 of shape (4, 1), and in the first"]),
    "no pair to validate": ([(X, Y)], {"validation": X}, ["validation of the stream: it is ndarray, not a pair"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_first_batches(case):
    batches, options, said = BAD[case]
    with raises_line(*said):
        from_batches(lambda epoch: batches, 1, **{"labels": 2} | options)


@pytest.mark.parametrize(
    "second, said",
    [
        ((X[:3], Y[:3]), "batch 1 of epoch 1 of the stream: it has 3 samples, not 4"),
        ((np.ones((4, 3)), Y), "x is float32 of shape (4, 3)"),
        ((X.astype(np.uint8), Y), "x is uint8 of shape (4, 2)"),
        ((X, [0, 1, 7, 0]), "batch 1 of epoch 1 of the stream: label 7 of sample 2 is unknown"),
        (None, "batch 1 of epoch 1 of the stream: there is none"),
    ],
)
def test_batches_that_differ_are_numbered(second, said):
    stream = from_batches(lambda epoch: [(X, Y), second if epoch else (X, Y)], 2, 2)
    assert len(list(stream.epoch(0))) == 2
    with raises_line(said):
        list(stream.epoch(1))


def test_epochs_that_are_too_short():
    held = clusters(0)
    stream = from_batches(lambda epoch: held, 4, LABELS)
    list(stream.epoch(0))
    with raises_line("epoch 1 of the stream ended after 0 of 4 batches", "batches_per_epoch"):
        list(stream.epoch(1))


def test_bad_arguments():
    with pytest.raises(ArgumentError, match="batches must be a function"):
        from_batches(clusters(0), 5, LABELS)
    with pytest.raises(ArgumentError, match="batches_per_epoch must be at least 1"):
        from_batches(clusters, 0, LABELS)
    with pytest.raises(ArgumentError, match="labels must be at least 2"):
        from_batches(clusters, 1, 1)
    with raises_line("batches(0) returned NoneType", "yield pairs (x, y)"):
        from_batches(lambda epoch: None, 1, 2)


def test_own_errors_pass_through():
    def batches(epoch):
        yield X, Y
        raise RuntimeError("disk")

    with pytest.raises(RuntimeError, match="disk"):
        list(from_batches(batches, 2, 2).epoch(0))


def test_a_stream_is_a_source_of_samples():
    assert isinstance(from_batches(clusters, 5, LABELS), data.SampleSource)
