"""Write files whole or not at all, and find the cache folder."""

import os
from pathlib import Path


def write_whole(target: Path, content: str | bytes, own: str = "") -> None:
    """Write a file whole or not at all. Processes that may write the same file at once each pass an `own` text."""
    scratch = target.with_name(f".{target.name}{own}.part")
    try:
        scratch.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


def cache_folder() -> Path:
    """Return the folder for downloads and compiled programs: `MUPC_CACHE`, or `~/.cache/mupc`."""
    return Path(os.environ.get("MUPC_CACHE") or "~/.cache/mupc").expanduser()
