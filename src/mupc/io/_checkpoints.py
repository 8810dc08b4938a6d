"""One checkpoint on disk: a folder with arrays by orbax, the rest as JSON, and the checksums of all files. Nothing in
it is code."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import logging
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

FORMAT = 2
ARRAYS, ABOUT, MANIFEST = "arrays", "about.json", "manifest.json"
SPARE = 2**16
"""Bytes that a checkpoint may take beyond its arrays."""


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint: its folder, the steps taken, and everything that is not an array."""

    path: Path
    step: int
    about: dict[str, Any]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return its arrays by name."""
        import numpy as np

        with _quietly(), _checkpointer() as reader:
            return {name: np.asarray(array) for name, array in reader.restore((self.path / ARRAYS).absolute()).items()}


def find_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest whole checkpoint in a folder, if there is one, and what is wrong with those after it."""
    damaged = []
    for step, path in reversed(checkpoint_folders(folder).items()):
        try:
            if json.loads((path / MANIFEST).read_text(encoding="utf-8")) != file_checksums(path):
                raise ValueError("its files are not those that were written")
            about = json.loads((path / ABOUT).read_text(encoding="utf-8"))
            if not isinstance(about, dict) or not isinstance(about.get("format"), int):
                raise ValueError("it is not a checkpoint")
            if about.get("step", step) != step:
                raise ValueError(f"it is that of step {about['step']}")
        except (OSError, ValueError, RecursionError) as error:
            damaged.append(f"the checkpoint {path} is damaged ({reason_of(error)})")
            continue
        if about["format"] > FORMAT:
            raise ValueError(f"{path} is of format {about['format']}, newer than the {FORMAT} known here: update mupc.")
        return Checkpoint(path, step, about), damaged
    if damaged:
        raise ValueError(
            f"{damaged[0]}, and there is no other before it: delete the step-* folders in {folder} and "
            "train again from the start."
        )
    return None, []


def checkpoint_folders(folder: Path) -> dict[int, Path]:
    """Return the checkpoints in a folder by the steps taken, whole or damaged, in this order."""
    found = {path: re.fullmatch(r"step-(\d+)", path.name) for path in folder.glob("step-*") if path.is_dir()}
    return dict(sorted((int(match[1]), path) for path, match in found.items() if match))


def write_checkpoint(scratch: Path, arrays: dict[str, np.ndarray], about: str) -> None:
    """Write all files of a checkpoint, the list of their checksums last."""
    import orbax.checkpoint as ocp

    shutil.rmtree(scratch, ignore_errors=True)
    if shutil.disk_usage(scratch.parent).free < SPARE + sum(array.nbytes for array in arrays.values()):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # orbax would print a traceback
    scratch.mkdir()
    with _quietly(), _checkpointer() as writer:
        writer.save((scratch / ARRAYS).absolute(), args=ocp.args.StandardSave(arrays))
    (scratch / ABOUT).write_text(about, encoding="utf-8")
    (scratch / MANIFEST).write_text(json.dumps(file_checksums(scratch)), encoding="utf-8")


def _checkpointer() -> Any:
    """Return orbax's reader and writer. Of several processes, each works by itself: none waits for the others."""
    import jax
    import orbax.checkpoint as ocp

    own, options = jax.process_index(), ocp.options.MultiprocessingOptions()
    if jax.process_count() > 1:
        options = ocp.options.MultiprocessingOptions(own, {own}, f"process-{own}")
    handler = ocp.StandardCheckpointHandler(multiprocessing_options=options)
    return ocp.Checkpointer(handler, multiprocessing_options=options)


def file_checksums(folder: Path) -> dict[str, int]:
    """Return a checksum of every file, by its path. Orbax itself does not notice a changed bit in an array."""
    files = (path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    return {path.relative_to(folder).as_posix(): zlib.crc32(path.read_bytes()) for path in sorted(files)}


def reason_of(error: Exception) -> str:
    """Return what went wrong, in a few words."""
    code = re.search(r"os_error_code='(\d+)'", str(error))  # how orbax reports errors of the disk
    if code:
        return os.strerror(int(code[1]))
    return (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())[:200]


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Silence the tracebacks that orbax prints in addition to raising."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
