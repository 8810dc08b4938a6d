"""Download data sets from their official sources into the cache, with checksums and a progress bar."""

from __future__ import annotations

import contextlib
import os
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..io import cache_folder
from ._catalogue import Download, NamedDataset, PublishedFile, find_named
from ._errors import DataError
from ._formats import DamagedFileError, read_contents
from ._locate import PathLike, find_file, searched_paths

if TYPE_CHECKING:
    from rich.progress import Progress

_MOST_MEMBERS = 32  # CIFAR-10's archive has 9


def fetch(name: str, *, data_dir: PathLike | None = None, progress: bool = True) -> Path:
    """Download a data set and return the folder its files are in.

    The files go to the cache folder, or to `data_dir`. Files already there with the right contents are kept, others are
    replaced. An interrupted download leaves no incomplete file behind.

    ```python
    import mupc

    folder = mupc.data.fetch("mnist")
    ```
    """
    entry = find_named(name)
    if not entry.downloads:
        raise DataError(f"{name} comes with its library, there is nothing to fetch", "load it directly")
    root = cache_folder() if data_dir is None else Path(data_dir).expanduser()
    folder = root / entry.folder
    due = [part for part in entry.downloads if not all(is_intact(folder, file) for file in part.files)]
    if not due:
        return folder

    try:
        import pooch  # noqa: F401
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError as error:
        missing = f"fetching {name} needs the package {error.name}, which is missing"
        raise DataError(missing, "pip install pooch rich") from None

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with Progress(*columns, console=console, disable=not (progress and console.is_terminal)) as bars:
            for download in due:
                path = _retrieve(entry, download, folder, bars)
                if download.name.endswith(".tar.gz"):
                    unpack(path, folder, download.files)
                    path.unlink()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(
            f"{name} cannot be stored in {folder} ({reason})",
            "free or unlock that folder, or set MUPC_CACHE to one you can write to",
        ) from None
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # only if it is empty: a download that failed leaves no folder behind
    return folder


def is_intact(folder: Path, file: PublishedFile) -> bool:
    """Return whether the folder holds the file with its published contents."""
    path = find_file(folder, file)
    try:
        return path is not None and read_contents(path, file.size).sha256 == file.sha256
    except DamagedFileError:
        return False


def unpack(archive: Path, folder: Path, files: Sequence[PublishedFile]) -> None:
    """Take the expected files, and nothing else, out of a tar archive.

    An archive in which one of them is missing, or is not a plain file of the published size, is refused whole.
    """
    expected = {f"{folder.name}/{file.name}": file for file in files}
    bad = DataError(f"{archive} is not the published archive", "delete it and fetch the data set again")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        try:
            with tarfile.open(archive) as tar:
                for count, member in enumerate(tar):
                    if count >= _MOST_MEMBERS or member.size > max(file.size for file in files):
                        raise bad
                    if member.name not in expected:
                        continue
                    if not member.isreg() or member.size != expected[member.name].size:
                        raise bad
                    tar.extract(member, scratch, filter="data")
        except (tarfile.TarError, EOFError):
            raise bad from None
        extracted = [(Path(scratch) / member, folder / file.name) for member, file in expected.items()]
        if not all(source.is_file() for source, _ in extracted):
            raise bad
        for source, target in extracted:
            os.replace(source, target)


def _retrieve(entry: NamedDataset, download: Download, folder: Path, bars: Progress) -> Path:
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")  # the progress bar shows the rest
    by_hand = (
        f"run `mupc data fetch {entry.name}` on a machine with network and copy its cache folder, "
        f"or put the files {entry.file_names} into a folder and pass it as {{data_dir}}"
    )
    try:
        path = pooch.retrieve(
            download.url,
            known_hash=f"sha256:{download.sha256}",
            fname=download.name,
            path=folder,
            downloader=pooch.HTTPDownloader(progressbar=_Bar(bars, download.name)),
        )
    except requests.exceptions.RequestException as error:
        raise DataError(
            f"{entry.name} is not in {searched_paths(entry)} and cannot be downloaded from {download.url} "
            f"({type(error).__name__}; is there a network?)",
            by_hand,
        ) from None
    except ValueError:
        wrong = f"{download.url} gave a file with the wrong checksum, which was discarded"
        raise DataError(wrong, f"try again later, or {by_hand}") from None
    return Path(path)


class _Bar:
    """A progress bar with the methods that pooch calls, drawn by rich."""

    def __init__(self, bars: Progress, label: str) -> None:
        self._bars, self._task = bars, bars.add_task(label, total=None)

    @property
    def total(self) -> float | None:
        return self._bars.tasks[self._task].total

    @total.setter
    def total(self, total: int) -> None:
        self._bars.update(self._task, total=total)

    def update(self, count: int) -> None:
        self._bars.advance(self._task, count)

    def reset(self) -> None:
        self._bars.reset(self._task)

    def close(self) -> None:
        """Do nothing: the context of the bars closes them."""
