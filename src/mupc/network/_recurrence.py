"""The loop over depth that forward, backward and error-space passes share."""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, Bool, Float, Int, PyTree

from ._backend import backend
from ._mesh import LAYERS, axis_size, pad_rows

LayerState = Float[Array, "_ _"]  # (batch, width), or (width, batch) inside inference
Stack = Float[Array, "layers _ _"]
Some = Float[Array, "_ _ _"]  # layers of one device, or one layer more or less
Delay = Float[Array, "n _ _"]  # the latest values, as many as a skip reaches back
Body = Callable[[Delay, PyTree], tuple[Delay, LayerState]]


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

    def body(delay: Delay, item: PyTree) -> tuple[Delay, LayerState]:
        following = step(item, delay[-1])
        if skip:
            following = following + delay[0]
        return jnp.concatenate([delay[1:], following[None]]), keep(following)

    count = len(jax.tree.leaves(items)[0])
    if axis_size(LAYERS) > 1:
        rest = _handed_on(body, delay, items, count, reverse)
    elif 0 < count < backend().loop_from:
        found = []
        for index in reversed(range(count)) if reverse else range(count):
            delay, following = body(delay, jax.tree.map(lambda leaf, at=index: leaf[at], items))
            found.append(following)
        rest = jnp.stack(found[::-1] if reverse else found)
    else:
        rest = jax.lax.scan(body, delay, items, reverse=reverse, unroll=backend().unroll)[1]
    end = keep(first)[None]
    return on_top(rest, end) if reverse else at_bottom(end, rest)


def _handed_on(body: Body, delay: Delay, items: PyTree, count: int, reverse: bool) -> Some:
    """Run the loop over layers that are divided over devices: each takes its own layers when it is its turn, and hands
    the latest values on to its neighbour. Weights do not move."""
    devices = axis_size(LAYERS)
    each = -(-count // devices)
    items = jax.tree.map(lambda leaf: pad_rows(leaf, devices * each), items)
    inside = pad_rows(jnp.ones(count, bool), devices * each)
    order = range(devices - 1, -1, -1) if reverse else range(devices)
    neighbours = list(itertools.pairwise(order))

    def own_layers(delay: Delay, items: PyTree, inside: Bool[Array, " _"]) -> tuple[Delay, Some]:
        def step(delay: Delay, item: tuple[PyTree, Bool[Array, ""]]) -> tuple[Delay, LayerState]:
            following, found = body(delay, item[0])
            return jnp.where(item[1], following, delay), found

        return jax.lax.scan(step, delay, (items, inside), reverse=reverse, unroll=backend().unroll)

    def device(delay: Delay, items: PyTree, inside: Bool[Array, " _"]) -> Some:
        place = jax.lax.axis_index(LAYERS)
        turn = devices - 1 - place if reverse else place
        blank = jax.tree.map(jnp.zeros_like, jax.eval_shape(own_layers, delay, items, inside)[1])

        def stage(now: Int[Array, ""], carry: tuple[Delay, Some]) -> tuple[Delay, Some]:
            delay, found = carry
            delay, found = jax.lax.cond(now == turn, lambda: own_layers(delay, items, inside), lambda: (delay, found))
            return jax.lax.ppermute(delay, LAYERS, neighbours), found

        return jax.lax.fori_loop(0, devices, stage, (delay, blank))[1]

    by_layer = PartitionSpec(LAYERS)
    call = jax.shard_map(
        device, in_specs=(PartitionSpec(), by_layer, by_layer), out_specs=by_layer, axis_names={LAYERS}, check_vma=False
    )
    return call(delay, items, inside)[:count]


def at_bottom(first: Some, rest: Some) -> Some:
    """Return a stack with one more layer under it."""
    if axis_size(LAYERS) == 1:
        return jnp.concatenate([first, rest])
    return _put_at(0, first, jnp.pad(rest, ((1, 0), (0, 0), (0, 0))))


def on_top(rest: Some, last: Some) -> Some:
    """Return a stack with one more layer on it."""
    if axis_size(LAYERS) == 1:
        return jnp.concatenate([rest, last])
    return _put_at(len(rest), last, jnp.pad(rest, ((0, 1), (0, 0), (0, 0))))


def _put_at(index: int, layer: Some, stack: Some) -> Some:
    """Set one layer of a stack that is divided over devices. To concatenate, all of them would move their layers."""
    return jnp.where(jnp.arange(len(stack))[:, None, None] == index, layer, stack)


def skipped(values: Stack, skip: int) -> Stack | float:
    """Return what the skip connections bring to every layer from the layers below it."""
    return jnp.pad(values[:-skip], ((skip, 0), (0, 0), (0, 0))) if 0 < skip < len(values) else 0.0


def returned(values: Stack, skip: int) -> Stack | float:
    """Return what the skip connections bring back to every layer from above: the transpose of `skipped`."""
    return jnp.pad(values[skip:], ((0, skip), (0, 0), (0, 0))) if 0 < skip < len(values) else 0.0
