"""The loop over depth that forward, backward and error-space passes share."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ._backend import backend

LayerState = Float[Array, "_ _"]  # (batch, width), or (width, batch) inside inference
Stack = Float[Array, "layers _ _"]


def recurrence(
    step: Callable[[PyTree, LayerState], LayerState],
    first: LayerState,
    items: PyTree,
    skip: int,
    reverse: bool = False,
    keep: Callable[[LayerState], LayerState] = lambda v: v,
) -> Float[Array, "layers _ _"]:
    """Compute v₁ = first, v_{k+1} = step(item_k, v_k) + v_{k+1-skip}, and return `keep` of all of them as a stack.

    With `reverse`, items are taken from the top down. One compiled body serves every depth. Values before v₁
    count as zero, so that an n-skip starts at layer n + 1.
    """
    delay = jnp.zeros((max(skip, 1), *first.shape), first.dtype).at[-1].set(first)

    def body(delay: Float[Array, "n _ _"], item: PyTree) -> tuple[Array, LayerState]:
        following = step(item, delay[-1])
        if skip:
            following = following + delay[0]
        return jnp.concatenate([delay[1:], following[None]]), keep(following)

    count = len(jax.tree.leaves(items)[0])
    if 0 < count < backend().loop_from:
        found = []
        for index in reversed(range(count)) if reverse else range(count):
            delay, following = body(delay, jax.tree.map(lambda leaf, at=index: leaf[at], items))
            found.append(following)
        rest = jnp.stack(found[::-1] if reverse else found)
    else:
        rest = jax.lax.scan(body, delay, items, reverse=reverse, unroll=backend().unroll)[1]
    end = keep(first)[None]
    return jnp.concatenate([rest, end] if reverse else [end, rest])


def skipped(values: Stack, skip: int) -> Stack | float:
    """Return what the skip connections bring to every layer from the layers below it."""
    return jnp.pad(values[:-skip], ((skip, 0), (0, 0), (0, 0))) if 0 < skip < len(values) else 0.0


def returned(values: Stack, skip: int) -> Stack | float:
    """Return what the skip connections bring back to every layer from above: the transpose of `skipped`."""
    return jnp.pad(values[skip:], ((0, skip), (0, 0), (0, 0))) if 0 < skip < len(values) else 0.0
