"""How much memory a device has free, and whether a network fits into it."""

import os
from collections.abc import Callable

import equinox as eqx
import jax

from ..io import checks
from ..network import AbstractNetwork

MEMORY_SHARE = 0.5
"""The share of a device's free memory (on a CPU: of all memory) that an estimate may use."""

COPIES = 4
"""The fewest copies of each weight that training keeps: the weight, its gradient and Adam's two moments."""


def free_memory() -> float:
    """Return the bytes that training may plan with."""
    device = jax.local_devices()[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return MEMORY_SHARE * (stats["bytes_limit"] - stats["bytes_in_use"])
    return MEMORY_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_room(make: Callable[[], AbstractNetwork], seeds: int = 1) -> None:
    """Raise if memory cannot hold the network that `make` would return, one for each seed. Only shapes are computed:
    making a network that is too large might end the process."""
    shapes = jax.tree.leaves(eqx.filter_eval_shape(make))
    weights = sum(leaf.size * leaf.dtype.itemsize for leaf in shapes)
    need, free = (seeds - 1 + COPIES) * weights, free_memory()  # all are made, one or more are trained at a time
    if need > free:
        room = f"{need / 2**30:.1f} GiB or more, and there is room for {free / 2**30:.1f} GiB."
        if seeds > 1:
            wanted = "Use fewer {seeds}, or smaller networks."
            raise checks.ArgumentError(f"{seeds} networks of this size", f"need {room}", wanted)
        raise checks.ArgumentError("a network of this size", f"needs {room}", "Use a smaller one.")
