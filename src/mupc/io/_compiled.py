"""Keep compiled programs on disk."""

import os
import sys
from pathlib import Path

from . import checks
from ._files import cache_folder

FOLDER, SECONDS = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
"""JAX's settings for where to keep programs, and how long one must take to compile to be worth keeping."""
WORTH = 0.0
"""Keep all: a start compiles dozens of small ones, and reading a file is quicker than compiling any of them."""
JAX_WORTH = 1.0
"""JAX's own default."""


def keep_compiled(folder: str | os.PathLike[str] | None = None) -> Path:
    """Keep compiled programs on disk, so that the next run of a script starts at once, as `mupc train` does.

    This may be called before or after JAX is imported, and holds for the processes that the script starts, too. A
    folder that you gave to JAX yourself stays in use.

    **Arguments:** the `folder`; by default that of the command line, next to the data sets.

    **Returns:** the folder in use.

    **Example:**

    ```python
    import mupc

    mupc.keep_compiled()
    ```
    """
    jax = sys.modules.get("jax")
    if folder is not None:
        os.environ[FOLDER.upper()] = str(_create(folder))
    os.environ.setdefault(FOLDER.upper(), str(cache_folder() / "compiled"))
    os.environ.setdefault(SECONDS.upper(), str(WORTH))
    if jax is None:  # it reads the environment when it is imported
        return Path(os.environ[FOLDER.upper()])
    if folder is not None or getattr(jax.config, FOLDER) is None:
        from jax.experimental.compilation_cache import compilation_cache

        compilation_cache.reset_cache()
        jax.config.update(FOLDER, os.environ[FOLDER.upper()])
    if getattr(jax.config, SECONDS) == JAX_WORTH:
        jax.config.update(SECONDS, float(os.environ[SECONDS.upper()]))
    return Path(getattr(jax.config, FOLDER))


def _create(folder: str | os.PathLike[str]) -> Path:
    if not isinstance(folder, str | os.PathLike):
        raise checks.ArgumentTypeError("folder", f"must be a path, got {checks.literal(folder)}.")
    path = Path(folder).expanduser().absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise checks.ArgumentError(
            "folder", f"= {checks.literal(str(folder))} cannot be created ({error.strerror}).", "Choose another."
        ) from None
    return path
