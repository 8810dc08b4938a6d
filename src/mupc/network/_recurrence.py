"""Loops over depth, and stacks of layers that may be divided over devices."""

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
Signals = Float[Array, "_ ..."]  # of some layers, in any shape
Body = Callable[[PyTree, PyTree], tuple[PyTree, PyTree]]


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

    count = _count(items)
    if axis_size(LAYERS) == 1 and 0 < count < backend().loop_from:
        found = []
        for index in reversed(range(count)) if reverse else range(count):
            delay, following = body(delay, jax.tree.map(lambda leaf, at=index: leaf[at], items))
            found.append(following)
        rest = jnp.stack(found[::-1] if reverse else found)
    else:
        rest = carry_through(body, delay, items, reverse, backend().unroll)[1]
    end = keep(first)[None]
    return on_top(rest, end) if reverse else at_bottom(end, rest)


def carry_through(
    body: Body, value: PyTree, items: PyTree, reverse: bool = False, unroll: int = 1
) -> tuple[PyTree, PyTree]:
    """Carry a value through a stack of layers, as `jax.lax.scan` does: return the last value and the stacked results.

    If layers are divided over devices, each takes its own layers when it is its turn, and hands the value on to its
    neighbour. Weights do not move."""
    if (devices := axis_size(LAYERS)) == 1:
        return jax.lax.scan(body, value, items, reverse=reverse, unroll=unroll)
    inside = jnp.ones(_count(items), bool)  # False for the layers that fill up the stack
    order = range(devices)[:: -1 if reverse else 1]
    neighbours = [*itertools.pairwise(order), (order[-1], order[0])]

    def step(value: PyTree, item: tuple[PyTree, Bool[Array, ""]]) -> tuple[PyTree, PyTree]:
        following, found = body(value, item[0])
        return jax.tree.map(lambda new, old: jnp.where(item[1], new, old), following, value), found

    def device(own: PyTree, value: PyTree) -> tuple[PyTree, PyTree]:
        place = jax.lax.axis_index(LAYERS)
        turn = devices - 1 - place if reverse else place

        def take_turn(value: PyTree) -> tuple[PyTree, PyTree]:
            return jax.lax.scan(step, value, own, reverse=reverse, unroll=unroll)

        def stage(now: Int[Array, ""], carry: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
            value, found = jax.lax.cond(now == turn, lambda: take_turn(carry[0]), lambda: carry)
            return jax.lax.ppermute(value, LAYERS, neighbours), found

        blank = jax.tree.map(jnp.zeros_like, jax.eval_shape(take_turn, value)[1])
        value, found = jax.lax.fori_loop(0, devices, stage, (value, blank))
        last = jax.tree.map(lambda leaf: jnp.where(turn == 0, leaf, 0), value)  # the first device has it in the end
        return found, jax.lax.psum(last, LAYERS)

    found, value = _on_layers(device, (items, inside), value)
    return value, found


def apply_to_each(function: Callable[[PyTree], PyTree], items: PyTree) -> PyTree:
    """Apply a function that treats every layer of stacks by itself. If layers are divided over devices, each calls it
    with its own layers."""
    if axis_size(LAYERS) == 1:
        return function(items)
    return _on_layers(lambda items, _: (function(items), None), items, None)[0]


def _on_layers(
    function: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]], stacks: PyTree, shared: PyTree
) -> tuple[PyTree, PyTree]:
    """Call a function on every device, with its own layers of the stacks and with what all share; return stacks and
    what all share. Stacks are filled up where they do not divide evenly."""
    count, devices = _count(stacks), axis_size(LAYERS)
    specs = PartitionSpec(LAYERS), PartitionSpec()
    call = jax.shard_map(function, in_specs=specs, out_specs=specs, axis_names={LAYERS}, check_vma=False)
    found, shared = call(jax.tree.map(lambda leaf: pad_rows(leaf, devices), stacks), shared)
    return jax.tree.map(lambda leaf: leaf[:count], found), shared


def _count(stacks: PyTree) -> int:
    return len(jax.tree.leaves(stacks)[0])


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


def shifted_up(first: Signals, stack: Signals) -> Signals:
    """Return what comes into every layer of a stack: `first`, and all its signals but the last."""
    if len(stack) == 1:
        return first
    if axis_size(LAYERS) == 1:
        return jnp.concatenate([first, stack[:-1]])
    return _put_at(0, first, _shift(stack, 1))


def shifted_down(stack: Signals, last: Signals) -> Signals:
    """Return what comes back to every layer of a stack: all its signals but the first, and `last`."""
    if len(stack) == 1:
        return last
    if axis_size(LAYERS) == 1:
        return jnp.concatenate([stack[1:], last])
    return _put_at(len(stack) - 1, last, _shift(stack, -1))


def _shift(stack: Signals, by: int) -> Signals:
    """Move layers up. As one operation of the same length, it moves a single layer between devices."""
    return jax.lax.pad(stack, jnp.zeros((), stack.dtype), [(by, -by, 0)] + [(0, 0, 0)] * (stack.ndim - 1))


def layer_at(stack: Signals, index: int | slice) -> Signals:
    """Return `stack[index]`, which is one layer. From a divided stack, this layer alone goes to all devices."""
    if axis_size(LAYERS) == 1 or len(stack) == 1:
        return stack[index]
    return jnp.sum(jnp.where(_is_at(index, stack), stack, 0), axis=0, keepdims=isinstance(index, slice))


def _put_at(index: int, layer: Signals, stack: Signals) -> Signals:
    """Set one layer of a stack that is divided over devices. To concatenate, all of them would move their layers."""
    return jnp.where(_is_at(index, stack), layer, stack)


def _is_at(index: int | slice, stack: Signals) -> Bool[Array, "layers ..."]:
    """Return a mask that is True for one layer of a stack."""
    places = jnp.arange(len(stack))
    return (places == places[index]).reshape(-1, *[1] * (stack.ndim - 1))


def skipped(values: Stack, skip: int) -> Stack | float:
    """Return what the skip connections bring to every layer from the layers below it."""
    return jnp.pad(values[:-skip], ((skip, 0), (0, 0), (0, 0))) if 0 < skip < len(values) else 0.0


def returned(values: Stack, skip: int) -> Stack | float:
    """Return what the skip connections bring back to every layer from above: the transpose of `skipped`."""
    return jnp.pad(values[skip:], ((0, skip), (0, 0), (0, 0))) if 0 < skip < len(values) else 0.0
