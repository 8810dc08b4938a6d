"""scikit-learn's digits: 1,797 images of 8 × 8 pixels that come with the library, so they work offline."""

from __future__ import annotations

import numpy as np

from ._catalogue import NamedDataset
from ._dataset import Dataset, Split
from ._errors import DataError

_TEST_EVERY = 5


def load_digits(entry: NamedDataset) -> Dataset:
    """Return the digits with a fixed split: of each class, in the order of the file, every fifth is a test image.

    The split is stratified and needs no random numbers, so it is the same on every machine and version.
    """
    try:
        from sklearn.datasets import load_digits as load
    except ImportError:
        raise DataError("digits comes with scikit-learn, which is missing", "pip install scikit-learn") from None

    images, labels = load(return_X_y=True)
    raw, targets = images.astype(np.uint8), labels.astype(np.int32)
    test = np.zeros(len(targets), bool)
    for label in range(entry.classes):
        test[np.flatnonzero(targets == label)[_TEST_EVERY - 1 :: _TEST_EVERY]] = True
    train, held_out = (Split(raw[chosen], targets[chosen]) for chosen in (~test, test))
    return entry.with_splits(train, held_out, official=True, source="scikit-learn's embedded digits")
