"""scikit-learn's digits: 1,797 images of 8 × 8 pixels that come with the library, so they work offline."""

from __future__ import annotations

import numpy as np

from ._catalogue import NamedDataset
from ._dataset import DataError, Dataset, Split

_TEST_EVERY = 5


def load_digits(entry: NamedDataset) -> Dataset:
    """The digits with a fixed split: of each class, in the order of the file, every fifth is a test image.

    The split is stratified, needs no random numbers, and so is the same on every machine and version.
    """
    try:
        from sklearn.datasets import load_digits as load
    except ImportError:
        raise DataError("digits comes with scikit-learn, which is missing: pip install scikit-learn") from None

    images, labels = load(return_X_y=True)
    raw, targets = images.astype(np.uint8), labels.astype(np.int32)
    test = np.zeros(len(targets), bool)
    for label in range(entry.classes):
        test[np.flatnonzero(targets == label)[_TEST_EVERY - 1 :: _TEST_EVERY]] = True
    return Dataset(
        name=entry.name,
        train=Split(raw[~test], targets[~test]),
        test=Split(raw[test], targets[test]),
        validation=None,
        classes=entry.classes,
        image_shape=entry.image_shape,
        normalisation=entry.normalisation,
        official=True,
        source="scikit-learn's embedded digits",
    )
