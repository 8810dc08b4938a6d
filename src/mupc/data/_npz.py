"""The user's own data: `.npz` files with x_train, y_train, x_test and y_test, never unpickled."""

from __future__ import annotations

import math
import tokenize
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import NoReturn

import numpy as np

from ._arrays import as_samples, finite
from ._dataset import Dataset, Split
from ._errors import DataError, prefixed
from ._normalisation import PIXELS, Normalisation, standardisation
from ._schema import Schema, is_one_hot
from ._schema_json import image_shape
from ._targets import choose_task

_KEYS = ("x_train", "y_train", "x_test", "y_test")
_MOST_BYTES = 64 * 2**30  # of one array, uncompressed: more than any machine with this library has
_MOST_COMPRESSED = 1032  # the best that deflate can do: a file that claims to hold more is corrupt
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def load_npz(name: str, classes: int | None = None, task: str = "auto") -> Dataset:
    """Return the data set in a `.npz` file.

    `choose_task` says which targets are labels. Values of a regression are not scaled. uint8 inputs are pixels and go
    to [-1, 1]; others are standardised, feature by feature, with the mean and standard deviation of the training split.
    """
    arrays = _read_arrays(name, _KEYS)
    shape = _check_inputs(name, arrays)
    inputs = {key: as_samples(f"{name}: {key}", arrays[key]) for key in ("x_train", "x_test")}
    targets, found = _as_targets(name, arrays, classes, task)
    return Dataset(
        name=Path(name).stem,
        train=Split(inputs["x_train"], targets["y_train"]),
        test=Split(inputs["x_test"], targets["y_test"]),
        validation=None,
        schema=Schema(
            normalisation=PIXELS if inputs["x_train"].dtype == np.uint8 else standardisation(inputs["x_train"]),
            labels=None if found is None else tuple(range(found)),
            target_scale=Normalisation() if found is None and arrays["y_train"].ndim == 1 else None,
            image_shape=image_shape(shape),
        ),
        official=False,
        source=name,
    )


def read_npz_samples(name: str, schema: Schema) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the samples `x` of a `.npz` file as stored, and the targets `y` if it has them; one-hot rows as labels."""
    arrays = _read_arrays(name, ("x",), optional=("y",))
    _check_rows(name, arrays)
    with prefixed(name):
        raw, y = schema.read(arrays["x"]), arrays.get("y")
    return raw, y.argmax(axis=1) if y is not None and is_one_hot(y) else y


def _fail(name: str, problem: str, cure: str) -> NoReturn:
    raise DataError(f"{name}: {problem}", cure)


def _read_arrays(name: str, keys: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    path = Path(name).expanduser()
    if not path.is_file():
        _fail(name, "there is no such file", "check the path, or make it with numpy.savez")
    try:
        with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path) as archive:  # old headers
            held = archive.namelist()
            missing = [key for key in keys if f"{key}.npy" not in held]
            if missing:
                _fail(name, f"it lacks {', '.join(missing)}", f"save it with the keys {', '.join(keys)}")
            keys += tuple(key for key in optional if f"{key}.npy" in held)
            for key in keys:
                _check_header(name, key, archive, path.stat().st_size)
        with warnings.catch_warnings(action="ignore"), np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in keys}
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        _fail(name, "it is truncated, corrupt or not a .npz file", "write it again with numpy.savez")
    except OSError as error:
        _fail(name, f"it cannot be read ({error.strerror or type(error).__name__})", "check its permissions")
    except MemoryError:
        _fail(name, "it does not fit into memory", "save fewer samples, or images as uint8")


def _check_header(name: str, key: str, archive: zipfile.ZipFile, total: int) -> None:
    """Refuse anything but a plain array of the size that its header says, before numpy allocates memory."""
    held = archive.getinfo(f"{key}.npy").file_size
    with archive.open(f"{key}.npy") as stream:
        try:
            shape, _, dtype = _HEADERS[np.lib.format.read_magic(stream)](stream)
        except (ValueError, KeyError, SyntaxError, tokenize.TokenError):
            _fail(name, f"{key} is not a plain numpy array", "write it again with numpy.savez")
        if dtype.hasobject or dtype.kind not in "buif":
            _fail(
                name,
                f"{key} holds {'Python objects' if dtype.hasobject else dtype}, which are not loaded",
                "save numbers, with labels as integers from 0",
            )
        size = math.prod(shape) * dtype.itemsize
        if size != held - stream.tell() or held > _MOST_COMPRESSED * total:
            _fail(name, f"{key} is corrupt, its header says {size:,} bytes", "write it again with numpy.savez")
        if size > _MOST_BYTES:
            _fail(name, f"{key} has {size:,} bytes, over {_MOST_BYTES:,}", "save fewer samples")


def _check_rows(name: str, arrays: dict[str, np.ndarray]) -> None:
    """Check that every array has rows, and that those of inputs x and targets y belong together."""
    for key, array in arrays.items():
        if not array.ndim or not array.size:
            _fail(name, f"{key} has shape {array.shape}", "save one row per sample, and at least one")
    for key, array in arrays.items():
        inputs = key.replace("y", "x")
        if len(array) != len(arrays[inputs]):
            what = f"{inputs} has {len(arrays[inputs])} samples and {key} {len(array)}"
            _fail(name, what, "save one target per sample")


def _check_inputs(name: str, arrays: dict[str, np.ndarray]) -> tuple[int, ...]:
    """Check that the arrays agree with each other, and return the shape of one sample."""
    _check_rows(name, arrays)
    train, test = arrays["x_train"], arrays["x_test"]
    if train.shape[1:] != test.shape[1:]:
        cure = "save the same features in both"
        _fail(name, f"samples of x_train have shape {train.shape[1:]}, of x_test {test.shape[1:]}", cure)
    if (train.dtype == np.uint8) != (test.dtype == np.uint8):
        _fail(name, f"x_train is {train.dtype} and x_test {test.dtype}", "save both with the same type")
    return train.shape[1:]


def _as_targets(
    name: str, arrays: dict[str, np.ndarray], classes: int | None, task: str
) -> tuple[dict[str, np.ndarray], int | None]:
    """Return the targets, and the number of classes (None: regression)."""
    targets = {key: arrays[key] for key in ("y_train", "y_test")}
    train = targets["y_train"]
    if train.dtype.kind in "bui" and train.shape[1:] == (1,) and task == "auto" and classes is None:
        # Labels stored as a column are common; nobody would notice if they were regressed.
        cure = 'set {task} to "classification" or "regression", or save y_train.ravel()'
        _fail(name, "y_train is a column of integers, which may be labels or values", cure)
    if choose_task(f"{name}: y_train", train, "classification" if classes else task) == "regression":
        values = {key: finite(f"{name}: {key}", y.reshape(len(y), -1)) for key, y in targets.items()}
        columns = {key: y.shape[1] for key, y in values.items()}
        if columns["y_train"] != columns["y_test"]:
            _fail(
                name, f"y_train has {columns['y_train']} columns, y_test {columns['y_test']}", "save the same in both"
            )
        return values, None
    labels = {key: _as_labels(name, key, y) for key, y in targets.items()}
    found = classes or (train.shape[1] if is_one_hot(train) else 1 + max(int(each.max()) for each in labels.values()))
    if len(np.unique(labels["y_train"])) < 2:
        _fail(name, f"y_train has a single class, {labels['y_train'][0]}", "save samples of at least two classes")
    if classes is None and not is_one_hot(train) and found > len(train):
        cure = f"relabel the classes from 0, or pass classes={found} in Python"
        _fail(name, f"labels go up to {found - 1} with only {len(train)} training samples", cure)
    for key, each in labels.items():
        wrong = (each < 0) | (each >= found)
        if wrong.any():
            first = int(np.argmax(wrong))
            what = f"{key} has label {each[first]} at sample {first}, out of range 0 to {found - 1}"
            _fail(name, what, "relabel the classes from 0, or give the right number of classes")
    return {key: each.astype(np.int32) for key, each in labels.items()}, found


def _as_labels(name: str, key: str, y: np.ndarray) -> np.ndarray:
    """Return labels as integers of shape (n,)."""
    if is_one_hot(y):
        return y.argmax(axis=1)
    if y.shape[1:] not in ((), (1,)):
        _fail(name, f"{key} has shape {y.shape} and is not one-hot", "save one label per sample, of shape (n,)")
    y = y.ravel()
    if y.dtype.kind == "f":
        finite(f"{name}: {key}", y)
        if (y != np.round(y)).any() or np.abs(y).max() >= 2**31:
            first = float(y[(y != np.round(y)) | (np.abs(y) >= 2**31)][0])
            _fail(name, f"{key} has {first}, which is not a label", "save labels as whole numbers from 0")
    return y.astype(np.int64) if y.dtype.kind in "bf" else y
