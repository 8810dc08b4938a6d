"""One writer for a folder."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

LOCK = ".lock"


class BusyError(ValueError):
    """Another process writes in a folder."""


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Nobody else may write in the folder meanwhile. The lock ends with the process, however that ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows, where nothing is locked
        yield
        return
    try:
        file = (folder / LOCK).open("a")
    except FileNotFoundError:
        raise BusyError(f"another process has just taken {folder} away: try again.") from None
    except OSError as error:
        raise OSError(f"{folder} cannot be written ({error.strerror}): choose another folder.") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BusyError(f"another process is training in {folder}: let it end, or choose another folder.") from None
        yield
