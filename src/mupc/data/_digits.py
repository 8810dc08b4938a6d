"""scikit-learn's digits: 1,797 images of 8 × 8 pixels that come with the library, so they work offline."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path

import numpy as np

from ._catalogue import NamedDataset
from ._dataset import Dataset, Split
from ._errors import DataError

_TEST_EVERY = 5


def _file() -> Path:
    """Find scikit-learn's own file. Importing the library would take a second."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise DataError("digits comes with scikit-learn, which is missing", "pip install scikit-learn")
    return Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"


def load_digits(entry: NamedDataset) -> Dataset:
    """Return the digits with a fixed split: of each class, in the order of the file, every fifth is a test image.

    The split is stratified and needs no random numbers, so it is the same on every machine and version.
    """
    lines = gzip.decompress(_file().read_bytes()).decode("ascii").splitlines()
    table = np.array([line.split(",") for line in lines], float).astype(np.uint8)
    raw, targets = table[:, :-1], table[:, -1].astype(np.int32)
    test = np.zeros(len(targets), bool)
    for label in range(entry.classes):
        test[np.flatnonzero(targets == label)[_TEST_EVERY - 1 :: _TEST_EVERY]] = True
    train, held_out = (Split(raw[chosen], targets[chosen]) for chosen in (~test, test))
    return entry.with_splits(train, held_out, official=True, source="scikit-learn's embedded digits")
