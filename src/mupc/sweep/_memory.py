"""Whether a network can be trained at all in the memory there is, before its weights are made."""

from collections.abc import Callable

import equinox as eqx
import jax

from ..network import Network
from ..training import free_memory

COPIES = 4
"""Weights, their gradients and Adam's two moments, at least."""


def check_room(make: Callable[[], Network], seeds: int = 1) -> None:
    """Raises if the network that `make` would return is too large, or one for each of so many seeds. Making them to
    find out might end the process."""
    shapes = jax.tree.leaves(eqx.filter_eval_shape(make))
    weights = sum(leaf.size * leaf.dtype.itemsize for leaf in shapes)
    need, free = (seeds - 1 + COPIES) * weights, free_memory()  # all are made, and one or more are trained at a time
    if need > free:
        room = f"{need / 2**30:.1f} GiB or more, and there is room for {free / 2**30:.1f} GiB: use"
        if seeds > 1:
            raise ValueError(f"{seeds} networks of this size need {room} fewer seeds, or smaller ones.")
        raise ValueError(f"a network of this size needs {room} a smaller one.")
