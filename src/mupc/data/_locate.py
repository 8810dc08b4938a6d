"""Where the files of a data set lie: the user's folder, the system's, the cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..io import cache_folder
from ._catalogue import File, NamedDataset
from ._dataset import DataError

PathLike = str | os.PathLike[str]

# Where distributions put data sets, and what to call that place.
SYSTEM_FOLDERS: dict[str, tuple[Path, str]] = {
    "fashion-mnist": (Path("/usr/share/datasets/fashion-mnist"), "Debian's package dataset-fashion-mnist"),
}


@dataclass(frozen=True)
class Place:
    """A folder that may hold a data set, and how to call it without naming the machine's own paths."""

    folder: Path
    label: str


@dataclass(frozen=True)
class Holding:
    """The files of a data set that a place holds, in the order of the catalogue; None for a missing one."""

    place: Place
    files: tuple[Path | None, ...]


@dataclass(frozen=True)
class Location:
    """A place that holds every file of a data set, in the order of the catalogue."""

    place: Place
    files: tuple[Path, ...]


def find_file(folder: Path, file: File) -> Path | None:
    """The published file in this folder, under any of the names it goes by."""
    return next((folder / name for name in file.names if (folder / name).is_file()), None)


def user_places(entry: NamedDataset, data_dir: PathLike | None) -> list[Place]:
    """The folders to search in `data_dir`, which must be there."""
    if data_dir is None:
        return []
    root = Path(data_dir).expanduser()
    if not root.is_dir():
        raise DataError(
            f"--data-dir {data_dir} is not a folder: give a folder with the files of {entry.name} "
            f"({wanted(entry)}), or run `mupc data fetch {entry.name}` and drop --data-dir"
        )
    folders = dict.fromkeys([root / entry.name, root / entry.folder, root])
    return [Place(folder, str(Path(data_dir) / folder.relative_to(root))) for folder in folders]


def shared_places(entry: NamedDataset) -> list[Place]:
    """The folders to search after the user's: the system's and the cache."""
    system = SYSTEM_FOLDERS.get(entry.name)
    cache = Place(cache_folder() / entry.folder, "the cache folder")
    return [Place(*system), cache] if system else [cache]


def survey(entry: NamedDataset, data_dir: PathLike | None = None) -> list[Holding]:
    """What each place holds, in the order they are searched."""
    places = user_places(entry, data_dir) + shared_places(entry)
    return [Holding(p, tuple(find_file(p.folder, file) for file in entry.files)) for p in places]


def locate(entry: NamedDataset, data_dir: PathLike | None = None) -> Location | None:
    """The first place that holds every file; a user's folder that holds only some of them is an error."""
    own = user_places(entry, data_dir)
    for holding in survey(entry, data_dir):
        paths = tuple(path for path in holding.files if path)
        if len(paths) == len(entry.files):
            return Location(holding.place, paths)
        if paths and holding.place in own:
            files = zip(entry.files, holding.files, strict=True)
            missing = ", ".join(file.names[0] for file, path in files if path is None)
            folder = holding.place.folder
            raise DataError(f"{folder} holds only a part of {entry.name}: add {missing}, or drop --data-dir")
    return None


def wanted(entry: NamedDataset) -> str:
    """The files a data set needs, for an error message."""
    return ", ".join(file.names[0] for file in entry.files)


def searched(entry: NamedDataset, data_dir: PathLike | None = None) -> str:
    """The folders a data set was looked for in, for an error message."""
    return ", ".join(str(place.folder) for place in user_places(entry, data_dir) + shared_places(entry))
