"""Data sets as numpy arrays: `digits`, `mnist`, `fashion-mnist`, `cifar10`, `tinyshakespeare`, and your own.

>>> from mupc import data
>>> digits = data.load("digits")
>>> digits.x_train.shape, digits.y_train.shape
((1442, 64), (1442, 10))

Importing this package imports numpy and nothing heavier.
"""

from ..io import cache_folder
from ._catalogue import NAMED_DATASETS, NamedDataset
from ._columns import Column, RawSamples
from ._dataset import Dataset, SampleSource, Split, as_split
from ._errors import DataError
from ._fetch import fetch
from ._from_arrays import from_arrays
from ._images import ImageFolder, find_images
from ._load import Available, FileCheck, available, check, is_split_at_random, load, read_samples
from ._normalisation import Normalisation, standardisation
from ._schema import Schema, Task
from ._schema_json import Label
from ._stream import BatchStream, from_batches
from ._table import read_table
from ._targets import targets_warning

__all__ = [
    "Available",
    "BatchStream",
    "Column",
    "DataError",
    "Dataset",
    "FileCheck",
    "Normalisation",
    "Schema",
    "Split",
    "available",
    "check",
    "fetch",
    "from_arrays",
    "from_batches",
    "load",
    "read_samples",
    "standardisation",
]
