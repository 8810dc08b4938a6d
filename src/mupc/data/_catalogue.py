"""The named data sets, which `catalogue.toml` lists with their sizes, normalisation, files, checksums and sources."""

from __future__ import annotations

import difflib
import functools
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ._dataset import Dataset, Split
from ._errors import DataError
from ._formats import FileContents, parse_cifar, parse_idx, parse_text
from ._normalisation import Normalisation
from ._schema import Schema
from ._text import CONTEXT


@dataclass(frozen=True)
class PublishedFile:
    """A published file: its name without `.gz`, its uncompressed size and its checksum."""

    name: str
    size: int
    sha256: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the file may have, the preferred one first. IDX files have a second spelling, with a dot."""
        if "-idx" not in self.name:
            return (self.name,)
        dotted = self.name.replace("-idx", ".idx")
        return (f"{self.name}.gz", self.name, f"{dotted}.gz", dotted)


@dataclass(frozen=True)
class Download:
    """A file of an official source, its checksum as downloaded, and the published files that it contains."""

    url: str
    sha256: str
    files: tuple[PublishedFile, ...]

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class NamedDataset:
    """A data set that `mupc.data.load` knows by name. One without downloads comes with a library. One without an
    `image_shape` is a text in windows of `context` characters, and `class_names` are its characters."""

    name: str
    image_shape: tuple[int, ...] | None
    train: int
    test: int
    class_names: tuple[str, ...]
    normalisation: Normalisation
    folder: str = ""
    downloads: tuple[Download, ...] = ()
    context: int = CONTEXT

    @property
    def classes(self) -> int:
        return len(self.class_names)

    @property
    def parse(self) -> Callable[[Sequence[FileContents]], tuple[Split, Split]]:
        """The function that turns the files' contents into splits."""
        if self.image_shape is None:
            return functools.partial(parse_text, schema=self.schema, context=self.context)
        parse = parse_idx if "-idx" in self.files[0].name else parse_cifar
        return functools.partial(parse, image_shape=self.image_shape, classes=self.classes)

    @property
    def files(self) -> tuple[PublishedFile, ...]:
        return tuple(file for download in self.downloads for file in download.files)

    @property
    def file_names(self) -> str:
        """The preferred names of all files, for a message."""
        return ", ".join(file.names[0] for file in self.files)

    def with_splits(self, train: Split, test: Split, *, official: bool, source: str) -> Dataset:
        """Return the data set once its splits have been read."""
        return Dataset(self.name, train, test, None, self.schema, official, source)

    @property
    def schema(self) -> Schema:
        """How the images become inputs, and the outputs classes; or what the characters of a text are."""
        if self.image_shape is None:
            return Schema(labels=self.class_names, context=self.context)
        labels = tuple(range(self.classes))
        return Schema(self.normalisation, labels, self.class_names, image_shape=self.image_shape)


def _read_catalogue() -> dict[str, NamedDataset]:
    """Return the data sets of `catalogue.toml`."""
    found = {}
    for name, row in tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text("utf-8")).items():
        normalisation = Normalisation(1 / row.pop("white", 1), row.pop("mean", 0), row.pop("std", 1))
        downloads = [
            Download(part["url"], part["sha256"], tuple(PublishedFile(*file) for file in part["files"]))
            for part in row.pop("downloads", ())
        ]
        shape = row.pop("image_shape", None)
        row |= {"image_shape": shape and tuple(shape), "class_names": tuple(row["class_names"])}
        found[name] = NamedDataset(name, **row, normalisation=normalisation, downloads=tuple(downloads))
    return found


NAMED_DATASETS = _read_catalogue()


def find_named(name: str) -> NamedDataset:
    """Return the data set called `name`; the error suggests the nearest name."""
    if name in NAMED_DATASETS:
        return NAMED_DATASETS[name]
    near = difflib.get_close_matches(name.lower(), NAMED_DATASETS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    names = ", ".join(NAMED_DATASETS)
    raise DataError(
        f"unknown data set {name!r}",
        f"{hint}choose one of {names}, or give a folder of images or a path ending in .npz, .csv or .txt",
    )
