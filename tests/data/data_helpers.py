"""Files of data sets, written byte by byte from the formats' definitions: the oracles of these tests."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mupc.data import DataError, NamedDataset

IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
CIFAR_NAMES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")


def idx_bytes(values: np.ndarray) -> bytes:
    header = struct.pack(">BBBB", 0, 0, 0x08, values.ndim)
    return header + b"".join(struct.pack(">I", size) for size in values.shape) + values.tobytes()


def small_mnist(train: int = 30, test: int = 20) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    arrays = (
        rng.integers(0, 256, (train, 28, 28)),
        np.arange(train) % 10,
        rng.integers(0, 256, (test, 28, 28)),
        np.arange(test) % 10,
    )
    return {name: array.astype(np.uint8) for name, array in zip(IDX_NAMES, arrays, strict=True)}


def write_idx(folder: Path, arrays: dict[str, np.ndarray], suffix: str = ".gz") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        data = idx_bytes(array)
        (folder / f"{name}{suffix}").write_bytes(gzip.compress(data) if suffix == ".gz" else data)


def small_cifar(records: int = 7) -> dict[str, bytes]:
    """Record r of file f has label (f + r) % 10, and planes filled with r, r + 50 and r + 100."""
    return {
        name: b"".join(
            bytes([(f + r) % 10]) + bytes([r]) * 1024 + bytes([r + 50]) * 1024 + bytes([r + 100]) * 1024
            for r in range(records)
        )
        for f, name in enumerate(CIFAR_NAMES)
    }


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def publish(entry: NamedDataset, contents: dict[str, bytes]) -> NamedDataset:
    """The entry as if these contents were the published ones."""

    def sized(file):
        data = contents[file.name]
        return dataclasses.replace(file, size=len(data), sha256=hashlib.sha256(data).hexdigest())

    downloads = [
        dataclasses.replace(download, files=tuple(sized(file) for file in download.files))
        for download in entry.downloads
    ]
    return dataclasses.replace(entry, downloads=tuple(downloads))


class Frame:
    """A data frame as pandas has it, as far as it is used."""

    def __init__(self, **columns: Any) -> None:
        self.held = columns

    @property
    def columns(self) -> list[str]:
        return list(self.held)

    def __getitem__(self, name: str) -> np.ndarray:
        return np.array(self.held[name], object)

    def to_numpy(self) -> np.ndarray:
        return np.array([self[name] for name in self.held], object).T

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.to_numpy()


class Series(np.ndarray):
    """A series as pandas has it, as far as it is used: an array with a name."""

    name: str


def series(name: str, values: Any) -> Series:
    made = np.asarray(values).view(Series)
    made.name = name
    return made


class raises_line:
    """Expect a DataError of one line that holds every one of these strings."""

    def __init__(self, *parts: str) -> None:
        self.parts = parts
        self.context = pytest.raises(DataError)

    def __enter__(self) -> None:
        self.caught = self.context.__enter__()

    def __exit__(self, *details: object) -> bool:
        suppressed = self.context.__exit__(*details)
        message = str(self.caught.value)
        assert "\n" not in message
        for part in self.parts:
            assert part in message, f"{part!r} is not in {message!r}"
        return suppressed
