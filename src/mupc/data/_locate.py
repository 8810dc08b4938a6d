"""Find the files of a data set: in the user's folder, the system's, or the cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..io import cache_folder
from ._catalogue import NamedDataset, PublishedFile
from ._errors import DataError

PathLike = str | os.PathLike[str]

SYSTEM_FOLDERS: dict[str, tuple[Path, str]] = {
    "fashion-mnist": (Path("/usr/share/datasets/fashion-mnist"), "Debian's package dataset-fashion-mnist"),
}
"""Where distributions put data sets, and the name of that place."""


@dataclass(frozen=True)
class FolderSearch:
    """The files of a data set in one folder, in the order of the catalogue; None for a missing one. The label does not
    name paths of this machine, unless the user gave the folder."""

    path: Path
    label: str
    by_user: bool
    files: tuple[Path | None, ...]

    @property
    def found(self) -> tuple[Path, ...]:
        return tuple(path for path in self.files if path is not None)

    @property
    def complete(self) -> bool:
        return None not in self.files


def find_file(folder: Path, file: PublishedFile) -> Path | None:
    """Return the published file in a folder, under any of its names."""
    return next((folder / name for name in file.names if (folder / name).is_file()), None)


def search_folders(entry: NamedDataset, data_dir: PathLike | None = None) -> list[FolderSearch]:
    """Return what each folder holds, in the order in which they are searched: in `data_dir`, which must exist, then
    the system's and the cache."""
    folders: dict[Path, tuple[str, bool]] = {}
    if data_dir is not None:
        root = Path(data_dir).expanduser()
        if not root.is_dir():
            raise DataError(
                f"{data_dir} is not a folder",
                f"give a {{data_dir}} with the files of {entry.name} ({entry.file_names}), "
                f"or run `mupc data fetch {entry.name}` and drop {{data_dir}}",
            )
        names = (entry.name, entry.folder, "")
        folders = {root / name: (str(Path(data_dir) / name), True) for name in names}
    if entry.name in SYSTEM_FOLDERS:
        system, label = SYSTEM_FOLDERS[entry.name]
        folders.setdefault(system, (label, False))
    folders.setdefault(cache_folder() / entry.folder, ("the cache folder", False))
    return [
        FolderSearch(path, *about, tuple(find_file(path, file) for file in entry.files))
        for path, about in folders.items()
    ]


def locate(entry: NamedDataset, data_dir: PathLike | None = None) -> FolderSearch | None:
    """Return the first folder that holds every file. A user's folder that holds only some of them is an error."""
    for search in search_folders(entry, data_dir):
        if search.complete:
            return search
        if search.found and search.by_user:
            files = zip(entry.files, search.files, strict=True)
            missing = ", ".join(file.names[0] for file, path in files if path is None)
            raise DataError(f"{search.path} holds only a part of {entry.name}", f"add {missing}, or drop {{data_dir}}")
    return None


def searched_paths(entry: NamedDataset, data_dir: PathLike | None = None) -> str:
    """Return the folders in which a data set is searched, for a message."""
    return ", ".join(str(search.path) for search in search_folders(entry, data_dir))
