"""What a result has to say about the machine and the software that made it."""

from __future__ import annotations

import functools
import importlib.metadata
import platform


def device() -> str:
    """The kind of device that JAX computes on."""
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
    """The versions that a number may depend on."""
    return dict(_versions())
