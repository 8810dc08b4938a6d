from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_helpers import raises_line

from mupc import data
from mupc.io.checks import ArgumentError

RNG = np.random.default_rng(0)


def save(folder: Path, **changes: Any) -> str:
    """A good file of 12 and 6 samples, 5 features and 3 classes, but for the changes; None drops a key."""
    arrays = {
        "x_train": RNG.normal(3.0, 2.0, (12, 5)),
        "y_train": np.arange(12) % 3,
        "x_test": RNG.normal(size=(6, 5)),
        "y_test": np.arange(6) % 3,
    } | changes
    path = folder / "toy.npz"
    np.savez_compressed(path, **{key: value for key, value in arrays.items() if value is not None})
    return str(path)


def test_floats_are_standardised_by_the_training_split(tmp_path):
    x = RNG.normal(5.0, 3.0, (12, 5))
    x[:, 2] = 0.1  # constant
    x[:, 4] = 1e-45 * (np.arange(12) == 0)  # so nearly constant that its std is 0 in float32
    toy = data.load(save(tmp_path, x_train=x))
    assert (toy.name, toy.classes, toy.sample_shape, toy.image_shape) == ("toy", 3, (5,), None)
    assert toy.train.raw.dtype == np.float32 and toy.train.targets.dtype == np.int32
    expected = [0, 0, 0, 0, 0], [1, 1, 0, 1, 0]
    np.testing.assert_allclose(toy.x_train.mean(axis=0), expected[0], atol=1e-6)
    np.testing.assert_allclose(toy.x_train.std(axis=0), expected[1], atol=1e-6)
    assert toy.x_train.dtype == np.float32 and (toy.x_train[:, 2] == 0).all()
    assert not toy.official and toy.source.endswith("toy.npz") and toy.validation is None


@pytest.mark.parametrize(
    "shape, image", [((4, 3), (4, 3)), ((3, 4, 4), (3, 4, 4)), ((5, 5, 3), None), ((12,), None), ((), None)]
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_images_are_flattened_and_keep_their_shape(tmp_path, shape, image, dtype):
    x = RNG.integers(0, 256, (12, *shape)).astype(dtype)
    toy = data.load(save(tmp_path, x_train=x, x_test=x[:6]))
    assert toy.image_shape == image
    np.testing.assert_array_equal(toy.train.raw, x.reshape(12, -1))
    if dtype == np.uint8:
        assert toy.train.raw.dtype == np.uint8
        np.testing.assert_allclose(toy.x_train, x.reshape(12, -1) / 127.5 - 1, atol=1e-6)


def test_regression_in_one_and_more_dimensions(tmp_path):
    y = RNG.normal(size=12)
    toy = data.load(save(tmp_path, y_train=y, y_test=y[:6]))
    assert toy.classes is None and toy.out_size == 1
    np.testing.assert_allclose(toy.y_train, y[:, None], rtol=1e-6)
    both = np.stack([y, -y], axis=1)
    assert data.load(save(tmp_path, y_train=both, y_test=both[:6])).out_size == 2
    counts = np.array([[3, 0], [1, 1]] * 6)
    assert data.load(save(tmp_path, y_train=counts, y_test=counts[:6])).classes is None


def test_one_hot_rows_of_integers_are_labels(tmp_path):
    y = np.eye(4, dtype=np.int64)[np.arange(12) % 3]
    toy = data.load(save(tmp_path, y_train=y, y_test=y[:6]))
    assert toy.classes == 4 and toy.train.targets.tolist() == [0, 1, 2] * 4
    np.testing.assert_array_equal(toy.y_train, y)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, ">i4"])
def test_labels_of_any_integer_type(tmp_path, dtype):
    labels = (np.arange(12) % 3).astype(dtype)
    assert data.load(save(tmp_path, y_train=labels)).train.targets.tolist() == [0, 1, 2] * 4


def test_classes_can_be_given_and_are_counted_in_both_splits(tmp_path):
    assert data.load(save(tmp_path), classes=7).out_size == 7
    assert data.load(save(tmp_path, y_test=np.full(6, 4))).out_size == 5
    assert data.load(save(tmp_path, y_train=np.arange(12) % 2 == 1, y_test=np.ones(6, bool))).out_size == 2


NAN = np.zeros((12, 5))
NAN[2, 3] = np.nan
BAD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "missing keys": ({"x_test": None, "y_test": None}, ["lacks x_test, y_test", "x_train, y_train, x_test"]),
    "objects": ({"y_train": np.array([{}] * 12, object)}, ["y_train holds Python objects", "save numbers"]),
    "strings": ({"y_train": np.array(["cat"] * 12)}, ["y_train holds <U3", "labels as integers"]),
    "complex": ({"x_train": np.zeros((12, 5), complex)}, ["x_train holds complex128"]),
    "records": ({"x_train": np.zeros(12, [("a", float)])}, ["x_train holds"]),
    "lengths in train": ({"y_train": np.arange(11) % 3}, ["x_train has 12 samples and y_train 11"]),
    "lengths in test": ({"x_test": np.zeros((5, 5))}, ["x_test has 5 samples and y_test 6"]),
    "features": ({"x_test": np.zeros((6, 4))}, ["x_train have shape (5,), of x_test (4,)", "same features"]),
    "types": ({"x_test": np.zeros((6, 5), np.uint8)}, ["x_train is float64 and x_test uint8", "same type"]),
    "no samples": ({"x_test": np.zeros((0, 5)), "y_test": np.zeros(0, int)}, ["x_test has shape (0, 5)"]),
    "no features": ({"x_train": np.zeros((12, 0))}, ["x_train has shape (12, 0)"]),
    "scalar": ({"y_test": np.array(3)}, ["y_test has shape ()", "one row per sample"]),
    "nan": ({"x_train": NAN}, ["x_train has 1 values that are not finite", "nan at (2, 3)", "fill in"]),
    "overflow": ({"x_test": np.full((6, 5), 1e300)}, ["x_test has 30 values", "inf at (0, 0)"]),
    "nan target": ({"y_train": NAN[:, 3], "y_test": np.zeros(6)}, ["y_train has 1 values", "nan at (2, 0)"]),
    "negative": ({"y_train": np.arange(12) % 3 - 1}, ["y_train has label -1 at sample 0", "relabel"]),
    "huge label": ({"y_test": np.full(6, 10**9)}, ["labels go up to 1000000000", "relabel the classes"]),
    "one class": ({"y_train": np.full(12, 1)}, ["single class, 1", "at least two classes"]),
    "many values": (
        {"y_train": np.arange(12), "y_test": np.arange(6)},
        ["y_train holds 12 different whole numbers in 12 samples", 'set task to "regression" or "classification"'],
    ),
    "many values as floats": ({"y_train": np.arange(12.0)}, ["12 different whole numbers"]),
    "multi-hot": ({"y_train": np.eye(12)[:, :3]}, ["y_train has 0 ones in row 3", 'set task to "regression"']),
    "mixed": ({"y_test": np.full(6, 0.5)}, ["y_test has 0.5, which is not a label", "whole numbers from 0"]),
    "labels and rows": ({"y_test": np.ones((6, 3))}, ["y_test has shape (6, 3) and is not one-hot"]),
    "huge float": ({"y_train": np.array([0, 1] * 5 + [0, 1e30])}, ["y_train has 1e+30, which is not a label"]),
    "columns": (
        {"y_train": np.full((12, 2), 0.5), "y_test": np.zeros((6, 3))},
        ["y_train has 2 columns, y_test 3"],
    ),
    "cube": ({"y_train": np.zeros((12, 2, 2))}, ["y_train has shape (12, 2, 2)", "(n, outputs)"]),
    "column": ({"y_train": np.zeros((12, 1), int)}, ["y_train is a column of integers", "y_train.ravel()", "set task"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_contents_are_named_with_the_cure(tmp_path, case):
    changes, said = BAD[case]
    with raises_line("toy.npz", *said):
        data.load(save(tmp_path, **changes))


def test_bad_numbers_of_classes(tmp_path):
    with raises_line("toy.npz", "y_train has label 2 at sample 2, out of range 0 to 1"):
        data.load(save(tmp_path), classes=2)
    with pytest.raises(ArgumentError, match="classes must be at least 2, got 1"):
        data.load(save(tmp_path), classes=1)
    with raises_line("toy.npz", "y_train has 0.5, which is not a label"):
        data.load(save(tmp_path, y_train=np.full(12, 0.5), y_test=np.zeros(6)), classes=3)


def test_the_task_can_be_given(tmp_path):
    ages = np.arange(12) * 7 % 80
    toy = data.load(save(tmp_path, y_train=ages, y_test=ages[:6]), task="regression")
    assert toy.classes is None and toy.train.targets[:, 0].tolist() == ages.tolist()
    assert toy.schema.decode(toy.y_test).tolist() == ages[:6].tolist()
    assert "not scaled" in data.targets_warning(toy.schema, toy.train.targets)
    labels = np.arange(12)
    assert data.load(save(tmp_path, y_train=labels), task="classification").classes == 12
    column = (np.arange(12) % 3)[:, None]
    assert data.load(save(tmp_path, y_train=column, y_test=column[:6]), task="classification").classes == 3
    assert data.load(save(tmp_path, y_train=column, y_test=column[:6]), task="regression").classes is None
    rows = np.eye(12)[:, :3]
    assert data.load(save(tmp_path, y_train=rows, y_test=rows[:6]), task="regression").out_size == 3


def test_whole_numbers_as_floats_are_labels_if_they_are_few(tmp_path):
    toy = data.load(save(tmp_path, y_train=np.arange(12) % 3.0, y_test=np.zeros(6)))
    assert toy.schema.labels == (0, 1, 2) and toy.train.targets.tolist() == [0, 1, 2] * 4


def test_options_that_have_no_meaning_are_refused(tmp_path):
    for options in ({"target": "a"}, {"test": 0.5}, {"one_hot": False}):
        with pytest.raises(ArgumentError, match=f"{next(iter(options))} has no effect on '.*toy.npz'. Leave it out."):
            data.load(save(tmp_path), **options)
    with pytest.raises(ArgumentError, match="task of 'digits' is classification"):
        data.load("digits", task="regression")
    with pytest.raises(ArgumentError, match="task 'values' is not known"):
        data.load("digits", task="values")


def test_new_samples(tmp_path):
    toy = data.load(save(tmp_path))
    path = tmp_path / "new.npz"
    x = RNG.normal(size=(4, 5))
    for y in (np.array([0, 2, 1, 0]), np.eye(3)[[0, 2, 1, 0]]):
        np.savez(path, x=x, y=y)
        raw, targets = data.read_samples(path, toy.schema)
        np.testing.assert_array_equal(raw, x.astype(np.float32))
        assert toy.schema.indices(targets).tolist() == [0, 2, 1, 0]
    np.savez(path, x=x[:, :4])
    with raises_line("new.npz: x has samples of 4 values, and training had 5"):
        data.read_samples(path, toy.schema)
    with raises_line("new.txt is neither a .npz file nor a table"):
        data.read_samples("new.txt", toy.schema)


class Exploit:
    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("unpickled",))


def npy(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, values, allow_pickle=True)
    return buffer.getvalue()


def members(**changes: bytes) -> bytes:
    buffer = io.BytesIO()
    good = {key: npy(np.arange(12.0)) for key in ("x_train", "y_train", "x_test", "y_test")}
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, body in (good | changes).items():
            archive.writestr(f"{key}.npy", body)
    return buffer.getvalue()


def flipped(body: bytes) -> bytes:
    """The file with a wrong byte in the compressed values of its first member."""
    at = body.index(b"x_train.npy") + 60
    return body[:at] + bytes([body[at] ^ 0xFF]) + body[at + 1 :]


HUGE = npy(np.arange(12.0)).replace(b"(12,), }          ", b"(99999999999,), } ")
BAD_FILES = {
    "pickle": (pickle.dumps(Exploit()), "not a .npz file"),
    "pickled member": (members(x_train=pickle.dumps(Exploit())), "x_train is not a plain numpy array"),
    "object member": (members(x_train=npy(np.array([Exploit()], object))), "x_train holds Python objects"),
    "a .npy file": (npy(np.arange(3)), "not a .npz file"),
    "empty": (b"", "not a .npz file"),
    "truncated": (members()[:-30], "truncated"),
    "flipped": (flipped(members()), "corrupt"),
    "header that lies": (members(x_train=HUGE), "x_train is corrupt, its header says 799,999,999,992 bytes"),
    "header of nonsense": (
        members(y_test=b"\x93NUMPY\x01\x00\x04\x00((((" + bytes(9)),
        "y_test is not a plain",
    ),
    "short member": (members(y_test=npy(np.arange(12.0))[:-8]), "y_test is corrupt"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_refused(tmp_path, case):
    body, said = BAD_FILES[case]
    path = tmp_path / "toy.npz"
    path.write_bytes(body)
    with raises_line("toy.npz", said, "savez" if "holds" not in said else "save numbers"):
        data.load(path)
    (result,) = data.check(path)
    assert not result.ok and said in result.message


def test_missing_file():
    with raises_line("nowhere.npz", "no such file", "check the path"):
        data.load("nowhere.npz")


def test_check_of_a_good_file(tmp_path):
    (result,) = data.check(save(tmp_path))
    assert result.ok and "toy.npz" in result.message
