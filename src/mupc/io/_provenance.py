"""Describe the machine and the software that a result was computed with."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def array_checksum(array: np.ndarray) -> str:
    """Return the form of an array and a checksum of its content, to tell whether it is still the same."""
    return f"{array.dtype}{list(array.shape)} with checksum {zlib.crc32(array.tobytes()):08x}"


def device() -> str:
    """Return the kind of device that JAX computes on."""
    import jax

    first = jax.devices()[0]
    return f"{first.device_kind} ({first.platform})" if first.platform != "cpu" else f"CPU ({platform.machine()})"


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    found = [("python", platform.python_version())]
    for package in ("mupc", "jax", "equinox", "optax", "numpy"):
        try:
            found.append((package, importlib.metadata.version(package)))
        except importlib.metadata.PackageNotFoundError:  # run from a source tree
            found.append((package, "source tree"))
    return tuple(found)


def versions() -> dict[str, str]:
    """Return the versions that a result may depend on."""
    return dict(_versions())
