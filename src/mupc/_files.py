"""Files that are whole or not there."""

import os
from pathlib import Path


def write_whole(target: Path, content: str | bytes, own: str = "") -> None:
    """Writes a file, whole or not at all. `own` tells processes apart that may write the same file at once."""
    scratch = target.with_name(f".{target.name}{own}.part")
    try:
        scratch.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)
