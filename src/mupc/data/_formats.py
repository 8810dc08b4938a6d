"""Published file formats: from contents to splits. No memory is allocated because a file header says so.

IDX is MNIST's format: two zero bytes, a type byte (8 is uint8), the number of dimensions, the dimensions as
big-endian 32-bit integers, the values. CIFAR-10's binary format is a sequence of records, each a label byte
followed by the red, green and blue planes of one image. A text is in UTF-8. Files may be compressed with gzip.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ._dataset import Split
from ._schema import Schema
from ._text import text_splits

_GZIP_MAGIC = b"\x1f\x8b"
_UINT8 = 8


class DamagedFileError(Exception):
    """A file that does not hold what its name says. The code that knows the data set adds the cure."""


@dataclass(frozen=True)
class FileContents:
    """The uncompressed bytes of a file."""

    path: Path
    data: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def read_contents(path: Path, limit: int) -> FileContents:
    """Return the contents of a file, gzip or plain, without ever reading more than `limit + 1` bytes."""
    try:
        with path.open("rb") as file:
            compressed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC  # contents decide: names are often wrong
            file.seek(0)
            data = (gzip.GzipFile(fileobj=file) if compressed else file).read(limit + 1)
    except EOFError:
        raise DamagedFileError(f"{path} is truncated: its gzip stream ends too early") from None
    except (gzip.BadGzipFile, zlib.error):
        raise DamagedFileError(f"{path} is corrupt: its gzip stream cannot be decompressed") from None
    except OSError as error:
        raise DamagedFileError(f"{path} cannot be read ({error.strerror or type(error).__name__})") from None
    if len(data) > limit:
        raise DamagedFileError(f"{path} is too large: it holds more than the {limit:,} bytes of the published file")
    return FileContents(path, data)


def idx_array(contents: FileContents, item_shape: tuple[int, ...]) -> np.ndarray:
    """Return the uint8 array in an IDX file, `(n, *item_shape)`, as a view of the contents."""
    path, data = contents.path, contents.data
    dimensions = 1 + len(item_shape)
    magic = bytes([0, 0, _UINT8, dimensions])
    offset = len(magic) + 4 * dimensions
    if data[: len(magic)] != magic:
        begin = data[: len(magic)].hex()
        raise DamagedFileError(f"{path} is not the expected IDX file: it begins with {begin!r}, not {magic.hex()!r}")
    if len(data) < offset:
        raise DamagedFileError(f"{path} is truncated: it ends within its IDX header")
    shape = struct.unpack_from(f">{dimensions}I", data, len(magic))
    if shape[1:] != item_shape:
        raise DamagedFileError(f"{path} holds items of shape {shape[1:]}, not {item_shape}")
    if not shape[0]:
        raise DamagedFileError(f"{path} is empty: its IDX header says 0 items")
    expected, held = math.prod(shape), len(data) - offset
    if held != expected:
        state = "truncated" if held < expected else "followed by trailing bytes"
        raise DamagedFileError(f"{path} is {state}: its IDX header says {expected:,} bytes, it holds {held:,}")
    return np.frombuffer(data, np.uint8, offset=offset).reshape(shape)


def parse_idx(files: Sequence[FileContents], image_shape: tuple[int, ...], classes: int) -> tuple[Split, Split]:
    """Return train and test splits from training images, training labels, test images and test labels."""
    train, test = (_idx_split(images, labels, image_shape, classes) for images, labels in (files[:2], files[2:]))
    return train, test


def _idx_split(images: FileContents, labels: FileContents, image_shape: tuple[int, ...], classes: int) -> Split:
    raw, targets = idx_array(images, image_shape), idx_array(labels, ())
    if len(raw) != len(targets):
        raise DamagedFileError(
            f"{images.path} holds {len(raw):,} images and {labels.path.name} {len(targets):,} labels: "
            "they do not belong together"
        )
    _check_labels(targets, classes, labels.path)
    return Split(raw.reshape(len(raw), -1), targets.astype(np.int32))


def parse_cifar(files: Sequence[FileContents], image_shape: tuple[int, ...], classes: int) -> tuple[Split, Split]:
    """Return train and test splits from the training batches and, last, the test batch."""
    *train, test = (_cifar_records(contents, 1 + math.prod(image_shape), classes) for contents in files)
    return _cifar_split(train), _cifar_split([test])


def parse_text(files: Sequence[FileContents], schema: Schema, context: int) -> tuple[Split, Split]:
    """Return train and test splits of one text."""
    (contents,) = files
    try:
        return text_splits(contents.data.decode(), schema, context)
    except UnicodeDecodeError:
        raise DamagedFileError(f"{contents.path} is corrupt: it is not text in UTF-8") from None


def _cifar_records(contents: FileContents, size: int, classes: int) -> np.ndarray:
    path, held = contents.path, len(contents.data)
    if not held or held % size:
        raise DamagedFileError(f"{path} is truncated or not CIFAR-10: {held:,} bytes are not records of {size:,} bytes")
    records = np.frombuffer(contents.data, np.uint8).reshape(-1, size)
    _check_labels(records[:, 0], classes, path)
    return records


def _cifar_split(batches: Sequence[np.ndarray]) -> Split:
    raw = np.concatenate([records[:, 1:] for records in batches])
    return Split(raw, np.concatenate([records[:, 0] for records in batches]).astype(np.int32))


def _check_labels(labels: np.ndarray, classes: int, path: Path) -> None:
    if labels.max() >= classes:
        first = int(np.argmax(labels >= classes))
        raise DamagedFileError(f"{path} has label {labels[first]} at item {first}, out of range 0 to {classes - 1}")
