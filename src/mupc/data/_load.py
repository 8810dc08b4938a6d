"""Load, list and check data sets by name."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import numpy as np

from ..io import checks
from ._catalogue import NAMED_DATASETS, NamedDataset, PublishedFile, find_named
from ._dataset import Dataset
from ._digits import load_digits
from ._errors import DataError, prefixed
from ._fetch import fetch
from ._formats import DamagedFileError, FileContents, read_contents
from ._image_folder import (
    ImageSize,
    describe_image_folder,
    holds_classes,
    is_divided,
    is_folder,
    load_image_folder,
)
from ._locate import FolderSearch, PathLike, locate, search_folders, searched_paths
from ._npz import load_npz, read_npz_samples
from ._schema import Schema, Task
from ._table import SplitOptions, describe_table, is_table, load_table, read_table
from ._targets import check_task
from ._text import is_text_file, load_text, read_text, windows


@dataclass(frozen=True)
class Available:
    """A data set with a name, and where it was found; None if it has to be fetched. A text has no `image_shape`."""

    name: str
    image_shape: tuple[int, ...] | None
    train: int
    test: int
    classes: int
    where: str | None

    @property
    def present(self) -> bool:
        """Whether it was found."""
        return self.where is not None


@dataclass(frozen=True)
class FileCheck:
    """The verdict on one file of a data set. If it is not ok, the message says why and the cure what to do."""

    file: str
    ok: bool
    message: str
    present: bool = True
    cure: str = ""


def load(
    name: PathLike,
    *,
    data_dir: PathLike | None = None,
    verify: bool = True,
    download: bool = True,
    classes: int | None = None,
    task: str = "auto",
    target: str | Sequence[str] | None = None,
    context: int | None = None,
    image_size: ImageSize | None = None,
    **options: Unpack[SplitOptions],
) -> Dataset:
    """Load a data set: `"digits"`, `"mnist"`, `"fashion-mnist"`, `"cifar10"`, `"tinyshakespeare"`, or the path of a
    `.npz`, `.csv` or `.txt` file, or of a folder of images.

    Files are searched in `data_dir` if given, then where the system's packages put them, then in the cache folder
    (`~/.cache/mupc`, or the environment variable `MUPC_CACHE`). If they are nowhere, they are downloaded, unless
    `download` is False or `data_dir` was given.

    `verify` refuses files that are whole but differ from the published ones; without it they load with `official`
    False. `classes` is for `.npz` files whose splits do not show every class.

    `task` says whether the targets of your own files are classes or values; see `from_arrays`. A table, a `.csv` file
    with a row of column names, needs the name of its `target` column, or names of several for a regression. It takes
    the options `test`, `validation`, `seed` and `one_hot` of `from_arrays` as well.

    A folder has a subfolder of PNG and JPEG images for each class, and is split like a table; or it has folders `train`
    and `test` with such subfolders. `image_size`, a number or height and width, is the size to bring images to.

    A text is cut into windows of `context` characters (by default 64) that do not overlap, and the network learns to
    predict the next character at each place. The last tenth of it is the test split, and `with_validation` holds out
    the end of the rest.

    >>> from mupc import data
    >>> data.load("digits").image_shape
    (8, 8)
    """
    if not isinstance(name, str | os.PathLike):
        raise checks.ArgumentTypeError(
            "name",
            f"must be that of a data set or the path of a file, got {type(name).__name__}.",
            "Give data in memory to mupc.data.from_arrays.",
        )
    name = os.fspath(name)
    if classes is not None:
        checks.integer("classes", classes, at_least=2)
    if task != "text":
        check_task(task)
    if is_table(name):
        _refuse(name, classes=classes, context=context, image_size=image_size)
        return load_table(name, target, task, **options)
    if _is_own_folder(name):
        _refuse(name, classes=classes, context=context, target=target, one_hot=options.pop("one_hot", None))
        _check_task(name, task, "classification")
        if is_divided(name):
            _refuse(name, **options)
        return load_image_folder(name, image_size, **options)
    _refuse(name, image_size=image_size)
    entry = None if _is_own(name) else find_named(name)
    if entry is not None and holds_classes(name):
        raise DataError(f"{name} is a data set and a folder of images", f"write ./{name} for the folder, or rename it")
    _refuse(name, target=target, **options)
    if is_text_file(name):
        _refuse(name, classes=classes)
        _check_task(name, task, "text")
        return load_text(name, context)
    if entry is None or entry.image_shape is not None:
        _refuse(name, context=context)
    if entry is None:
        return load_npz(name, classes, task)
    if context is not None:
        entry = dataclasses.replace(entry, context=checks.integer("context", context, 1))
    if classes not in (None, entry.classes):
        raise checks.ArgumentError("classes", f"must be {entry.classes} for {name}, got {classes}.", "Leave it out.")
    _check_task(name, task, entry.schema.task)
    if not entry.downloads:
        return load_digits(entry)
    return _read_dataset(entry, _obtain(entry, data_dir, download), verify)


def read_samples(name: PathLike, schema: Schema) -> tuple[np.ndarray, np.ndarray | None]:
    """Read samples to predict, and their targets if the file has them.

    **Arguments:** a `.npz` file with `x` and perhaps `y`, a table, or a text, and the `schema` of the training data.
    Columns of a table are found by name, in any order; others are ignored.

    Returns samples as stored, `(n, features)`, and targets as they are in the file, or None.
    """
    name = os.fspath(name)
    if is_table(name):
        return read_table(name, schema)
    if is_text_file(name) and schema.context is not None:
        with prefixed(name):
            split = windows(schema.tokens(read_text(name)), schema.context)
        return split.raw, split.targets
    if not name.lower().endswith(".npz"):
        raise DataError(f"{name} is neither a .npz file nor a table", "give a folder of images, or a .npz or .csv file")
    return read_npz_samples(name, schema)


def is_split_at_random(name: PathLike) -> bool:
    """Whether `load` takes a random part of a data set to test on."""
    name = os.fspath(name)
    return is_table(name) or (_is_own_folder(name) and not is_divided(name))


def _is_own_folder(name: str) -> bool:
    return name not in NAMED_DATASETS and is_folder(name)


def _is_own(name: str) -> bool:
    """Whether a name is that of a file of arrays or a text."""
    return name.lower().endswith(".npz") or is_text_file(name)


def _refuse(name: str, **options: object) -> None:
    for option, value in options.items():
        if value is not None:
            raise checks.ArgumentError(option, f"has no effect on {checks.literal(name)}.", "Leave it out.")


def _check_task(name: str, task: str, known: Task) -> None:
    if task not in ("auto", known):
        raise checks.ArgumentError("task", f"of {checks.literal(name)} is {known}, got {task}.", "Leave it out.")


def available(data_dir: PathLike | None = None) -> list[Available]:
    """Return the data sets with a name, and where each was found.

    >>> from mupc import data
    >>> [record.name for record in data.available()]
    ['digits', 'mnist', 'fashion-mnist', 'cifar10', 'tinyshakespeare']
    """
    found = []
    for entry in NAMED_DATASETS.values():
        where = None if entry.downloads else "scikit-learn"
        searches = search_folders(entry, data_dir) if entry.downloads else []
        where = next((search.label for search in searches if search.complete), where)
        found.append(Available(entry.name, entry.image_shape, entry.train, entry.test, entry.classes, where))
    return found


def check(name: PathLike, data_dir: PathLike | None = None) -> list[FileCheck]:
    """Compare every file of a data set with its published contents, without downloading anything.

    >>> from mupc import data
    >>> [result.ok for result in data.check("digits")]
    [True]
    """
    name = os.fspath(name)
    describe = describe_table if is_table(name) else describe_image_folder if _is_own_folder(name) else None
    if describe is not None or _is_own(name) or not find_named(name).downloads:
        try:
            found = f"read from {load(name).source}" if describe is None else describe(name)
            return [FileCheck(name, True, found)]
        except DataError as error:
            return [FileCheck(name, False, str(error))]
    entry = find_named(name)
    # The folder that `load` would read, or else the one with the most files.
    best = max(search_folders(entry, data_dir), key=lambda search: len(search.found))
    absent = f"not in {best.path if best.found else searched_paths(entry, data_dir)}"
    return [
        _check_file(entry, file, path)
        if path
        else FileCheck(file.names[0], False, absent, present=False, cure=f"run `mupc data fetch {entry.name}`")
        for file, path in zip(entry.files, best.files, strict=True)
    ]


def _obtain(entry: NamedDataset, data_dir: PathLike | None, download: bool) -> FolderSearch:
    """Return where the files of a data set are, after a download if necessary and allowed."""
    search = locate(entry, data_dir)
    if search is None and download and data_dir is None:
        fetch(entry.name)
        search = locate(entry)
    if search is None:
        cure = f"run `mupc data fetch {entry.name}`"
        if data_dir is not None:
            cure = f"put there {entry.file_names}, or {cure} and drop {{data_dir}}"
        raise DataError(f"{entry.name} is not in {searched_paths(entry, data_dir)}", cure)
    return search


def _read_dataset(entry: NamedDataset, search: FolderSearch, verify: bool) -> Dataset:
    try:
        contents = [read_contents(path, file.size) for file, path in zip(entry.files, search.found, strict=True)]
        train, test = entry.parse(contents)
    except DamagedFileError as error:
        raise DataError(str(error), _replace(entry, "{data_dir}")) from None
    pairs = zip(entry.files, contents, strict=True)
    others = [(file, content) for file, content in pairs if content.sha256 != file.sha256]
    if others and verify:
        file, content = others[0]
        raise DataError(
            f"{content.path} does not match the published checksum of {entry.name} ({_checksums(file, content)})",
            f"{_replace(entry, '{data_dir}')}, or pass --no-verify-data (in Python verify=False) to use it as it is",
        )
    return entry.with_splits(train, test, official=not others, source=search.label)


def _check_file(entry: NamedDataset, file: PublishedFile, path: Path) -> FileCheck:
    try:
        content = read_contents(path, file.size)
    except DamagedFileError as error:
        return FileCheck(path.name, False, str(error), cure=_replace(entry))
    if content.sha256 != file.sha256:
        cure = f"{_replace(entry)}, or use it as it is with `mupc train --no-verify-data`"
        return FileCheck(path.name, False, _checksums(file, content), cure=cure)
    return FileCheck(path.name, True, "matches the published checksum")


def _replace(entry: NamedDataset, data_dir: str = "--data-dir") -> str:
    return f"delete the file and run `mupc data fetch {entry.name}` (then leave {data_dir} out)"


def _checksums(file: PublishedFile, content: FileContents) -> str:
    return f"sha256 {content.sha256[:12]}…, expected {file.sha256[:12]}…"
