"""Load, list and check data sets by name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ._catalogue import NAMED_DATASETS, File, NamedDataset, find_entry
from ._dataset import DataError, Dataset
from ._digits import load_digits
from ._fetch import fetch
from ._formats import Contents, Damaged, read
from ._locate import Location, PathLike, locate, searched, survey, wanted
from ._npz import load_npz


@dataclass(frozen=True)
class Available:
    """A data set that can be asked for by name, and where it was found (None: it has to be fetched)."""

    name: str
    image_shape: tuple[int, ...]
    train: int
    test: int
    classes: int
    where: str | None

    @property
    def present(self) -> bool:
        return self.where is not None


@dataclass(frozen=True)
class FileCheck:
    """The verdict on one file of a data set; when it is not ok, the message says why and the cure what to do."""

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
) -> Dataset:
    """Load a data set: `"digits"`, `"mnist"`, `"fashion-mnist"`, `"cifar10"`, or the path of a `.npz` file.

    Files are looked for in `data_dir` if given, then where the system's packages put them, then in the cache
    folder (`~/.cache/mupc`, or the environment variable `MUPC_CACHE`). If they are nowhere they are
    downloaded, unless `download` is False or `data_dir` was given.

    `verify` refuses files that are whole but differ from the published ones; without it they load with
    `official` False. `classes` is for `.npz` files whose splits do not show every class.

    >>> from mupc import data
    >>> data.load("digits").image_shape
    (8, 8)
    """
    name = os.fspath(name)
    if name.lower().endswith(".npz"):
        return load_npz(name, classes)
    entry = find_entry(name)
    if classes not in (None, entry.classes):
        raise DataError(f"{name} has {entry.classes} classes, not {classes}: drop classes")
    if not entry.downloads:
        return load_digits(entry)
    return _read_dataset(entry, _obtain(entry, data_dir, download), verify)


def available(data_dir: PathLike | None = None) -> list[Available]:
    """The data sets with a name, and whether they are present.

    >>> from mupc import data
    >>> [record.name for record in data.available()]
    ['digits', 'mnist', 'fashion-mnist', 'cifar10']
    """
    return [_describe(entry, data_dir) for entry in NAMED_DATASETS.values()]


def check(name: PathLike, data_dir: PathLike | None = None) -> list[FileCheck]:
    """Verify every file of a data set against its published contents, without downloading anything.

    >>> from mupc import data
    >>> [result.ok for result in data.check("digits")]
    [True]
    """
    name = os.fspath(name)
    if name.lower().endswith(".npz") or not find_entry(name).downloads:
        try:
            return [FileCheck(name, True, f"read from {load(name).source}")]
        except DataError as error:
            return [FileCheck(name, False, str(error))]
    entry = find_entry(name)
    # The place that load would read, or else the one that comes nearest to it.
    best = max(survey(entry, data_dir), key=lambda holding: sum(path is not None for path in holding.files))
    absent = f"not in {best.place.folder}" if any(best.files) else f"not in {searched(entry, data_dir)}"
    return [
        _check_file(entry, file, path)
        if path
        else FileCheck(file.names[0], False, absent, present=False, cure=f"run `mupc data fetch {entry.name}`")
        for file, path in zip(entry.files, best.files, strict=True)
    ]


def _describe(entry: NamedDataset, data_dir: PathLike | None) -> Available:
    where: str | None = "scikit-learn"
    if entry.downloads:
        complete = (holding for holding in survey(entry, data_dir) if all(holding.files))
        where = next((holding.place.label for holding in complete), None)
    return Available(entry.name, entry.image_shape, entry.train, entry.test, entry.classes, where)


def _obtain(entry: NamedDataset, data_dir: PathLike | None, download: bool) -> Location:
    """The files of a data set, downloaded if need be and allowed."""
    location = locate(entry, data_dir)
    if location is None and download and data_dir is None:
        fetch(entry.name)
        location = locate(entry)
    if location is not None:
        return location
    cure = f"put there {wanted(entry)}, or " if data_dir is not None else ""
    drop = " and drop --data-dir" if data_dir is not None else ""
    raise DataError(
        f"{entry.name} is not in {searched(entry, data_dir)}: {cure}run `mupc data fetch {entry.name}`{drop}"
    )


def _read_dataset(entry: NamedDataset, location: Location, verify: bool) -> Dataset:
    official = True
    contents: list[Contents] = []
    try:
        for file, path in zip(entry.files, location.files, strict=True):
            contents.append(read(path, file.size))
        train, test = entry.parse(contents, entry.image_shape, entry.classes)
    except Damaged as error:
        raise DataError(f"{error}; {_replace(entry)}") from None
    for file, content in zip(entry.files, contents, strict=True):
        if content.sha256 != file.sha256:
            official = False
            if verify:
                raise DataError(_mismatch(entry, file, content))
    return Dataset(
        name=entry.name,
        train=train,
        test=test,
        validation=None,
        classes=entry.classes,
        image_shape=entry.image_shape,
        normalisation=entry.normalisation,
        official=official,
        source=location.place.label,
    )


def _check_file(entry: NamedDataset, file: File, path: Path) -> FileCheck:
    try:
        content = read(path, file.size)
    except Damaged as error:
        return FileCheck(path.name, False, str(error), cure=_replace(entry))
    if content.sha256 != file.sha256:
        cure = f"{_replace(entry)}, or use it as it is with `mupc train --no-verify-data`"
        return FileCheck(path.name, False, _checksums(file, content), cure=cure)
    return FileCheck(path.name, True, "matches the published checksum")


def _replace(entry: NamedDataset) -> str:
    return f"delete the file and run `mupc data fetch {entry.name}` (then leave --data-dir out)"


def _mismatch(entry: NamedDataset, file: File, content: Contents) -> str:
    return (
        f"{content.path} does not match the published checksum of {entry.name} ({_checksums(file, content)}); "
        f"{_replace(entry)}, or pass --no-verify-data to use it as it is"
    )


def _checksums(file: File, content: Contents) -> str:
    return f"sha256 {content.sha256[:12]}…, expected {file.sha256[:12]}…"
