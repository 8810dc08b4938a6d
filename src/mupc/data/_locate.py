"""Find the files of a data set: in the user's folder, the system's, or the cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..io import cache_folder
from ._catalogue import NamedDataset, PublishedFile
from ._dataset import DataError

PathLike = str | os.PathLike[str]

SYSTEM_FOLDERS: dict[str, tuple[Path, str]] = {
    "fashion-mnist": (Path("/usr/share/datasets/fashion-mnist"), "Debian's package dataset-fashion-mnist"),
}
"""Where distributions put data sets, and the name of that place."""


@dataclass(frozen=True)
class DataFolder:
    """A folder that may hold a data set, and a label for it that does not name paths of this machine."""

    path: Path
    label: str


@dataclass(frozen=True)
class FolderSearch:
    """The files of a data set in one folder, in the order of the catalogue; None for a missing one."""

    folder: DataFolder
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


def user_folders(entry: NamedDataset, data_dir: PathLike | None) -> list[DataFolder]:
    """Return the folders to search in `data_dir`, which must exist."""
    if data_dir is None:
        return []
    root = Path(data_dir).expanduser()
    if not root.is_dir():
        raise DataError(
            f"{data_dir} is not a folder",
            f"give a {{data_dir}} with the files of {entry.name} ({entry.file_names}), "
            f"or run `mupc data fetch {entry.name}` and drop {{data_dir}}",
        )
    folders = dict.fromkeys([root / entry.name, root / entry.folder, root])
    return [DataFolder(folder, str(Path(data_dir) / folder.relative_to(root))) for folder in folders]


def shared_folders(entry: NamedDataset) -> list[DataFolder]:
    """Return the folders to search after the user's: the system's and the cache."""
    system = SYSTEM_FOLDERS.get(entry.name)
    cache = DataFolder(cache_folder() / entry.folder, "the cache folder")
    return [DataFolder(*system), cache] if system else [cache]


def search_folders(entry: NamedDataset, data_dir: PathLike | None = None) -> list[FolderSearch]:
    """Return what each folder holds, in the order in which they are searched."""
    folders = user_folders(entry, data_dir) + shared_folders(entry)
    return [FolderSearch(folder, tuple(find_file(folder.path, file) for file in entry.files)) for folder in folders]


def locate(entry: NamedDataset, data_dir: PathLike | None = None) -> FolderSearch | None:
    """Return the first folder that holds every file. A user's folder that holds only some of them is an error."""
    own = user_folders(entry, data_dir)
    for search in search_folders(entry, data_dir):
        if search.complete:
            return search
        if search.found and search.folder in own:
            files = zip(entry.files, search.files, strict=True)
            missing = ", ".join(file.names[0] for file, path in files if path is None)
            raise DataError(
                f"{search.folder.path} holds only a part of {entry.name}", f"add {missing}, or drop {{data_dir}}"
            )
    return None


def searched_paths(entry: NamedDataset, data_dir: PathLike | None = None) -> str:
    """Return the folders in which a data set is searched, for a message."""
    return ", ".join(str(folder.path) for folder in user_folders(entry, data_dir) + shared_folders(entry))
