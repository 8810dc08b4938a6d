"""Whether a network can be trained at all in the memory there is, before its weights are made."""

from collections.abc import Callable

import equinox as eqx
import jax

from .._network import Network
from .._train_many import free_memory

COPIES = 4
"""Weights, their gradients and Adam's two moments, at least."""


def check_room(make: Callable[[], Network]) -> None:
    """Raises if the network that `make` would return is too large. Making it to find out might end the process."""
    shapes = jax.tree.leaves(eqx.filter_eval_shape(make))
    need, free = COPIES * sum(leaf.size * leaf.dtype.itemsize for leaf in shapes), free_memory()
    if need > free:
        raise ValueError(
            f"a network of this size needs {need / 2**30:.1f} GiB or more, and there is room for {free / 2**30:.1f} "
            "GiB: use a smaller one."
        )
