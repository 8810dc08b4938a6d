"""Allow one writer in a folder at a time."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

LOCK = ".lock"


class BusyError(ValueError):
    """Another process is writing in the folder."""


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Keep other processes from writing in the folder. The lock ends with the process, even if that is killed."""
    try:
        import fcntl
    except ImportError:  # Windows, where nothing is locked
        yield
        return
    try:
        file = (folder / LOCK).open("a")
    except FileNotFoundError:
        raise BusyError(f"another process has just removed {folder}: try again.") from None
    except OSError as error:
        raise OSError(f"{folder} cannot be written ({error.strerror}): choose another folder.") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BusyError(
                f"another process is writing in {folder}: wait for it to end, or choose another folder."
            ) from None
        yield
