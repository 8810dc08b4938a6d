"""Where mupc keeps what it can get again: downloads and compiled programs."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder downloads go to: the environment variable `MUPC_CACHE`, else `~/.cache/mupc`."""
    return Path(os.environ.get("MUPC_CACHE") or "~/.cache/mupc").expanduser()
