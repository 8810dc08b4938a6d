"""Describe the machine and the software that a result was computed with."""

from __future__ import annotations

import functools
import importlib.metadata
import platform


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
