"""How the weights of a network lie on a mesh between two programs: copied to all devices, or divided over depth."""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
from jax.sharding import Mesh
from jaxtyping import Array, Float

from ..io import checks
from ._abstract import AbstractNetwork
from ._chain import Chain
from ._mesh import DATA, LAYERS, axis_size, constrain, is_array, pad_rows, put, size_of
from ._mlp import Network
from ._parts import Stack

Tree = TypeVar("Tree")


def check_layers(network: AbstractNetwork, mesh: Mesh | None) -> None:
    """Refuse a network that the axis `layers` cannot be divided over."""
    count = size_of(mesh, LAYERS)
    if count == 1:
        return
    if isinstance(network, Network):
        if network.hidden_layers - 1 < count:
            wrong = (
                f"= {network.hidden_layers} are {network.hidden_layers - 1} matrices, fewer than the {count} devices"
            )
            raise checks.ArgumentError("hidden_layers", f"{wrong} of the axis {LAYERS!r}.", "Use fewer {devices}.")
        return
    parts = zip(network.names, network.parts, strict=True) if isinstance(network, Chain) else ()
    stacks = {name: part.depth for name, part in parts if isinstance(part, Stack)}
    if not stacks:
        wrong = f"has the axis {LAYERS!r}, which divides every mupc.Stack of a network, and this one has none."
        raise checks.ArgumentError("mesh", wrong, f"Make a Stack of equal nodes, or use the axis {DATA!r}.")
    deepest = max(stacks, key=lambda name: stacks[name])
    if stacks[deepest] < count:
        wrong = f"has {count} devices on the axis {LAYERS!r}, and the deepest stack, {deepest!r}, has {stacks[deepest]}"
        raise checks.ArgumentError("mesh", f"{wrong} nodes.", "Use fewer {devices}.")


class PaddedStack(eqx.Module):
    """A stack of layers divided over devices. What a program takes and returns must divide evenly, so that the stack is
    filled up at its end; programs work on the first `length` layers."""

    array: Float[Array, "padded ..."]
    length: int = eqx.field(static=True)


def spread(tree: Tree) -> Tree:
    """Return a state of training, or a part of it, as a program returns it."""

    devices = axis_size(LAYERS)

    def lay(leaf: Array, *axes: str) -> Array:
        return constrain(pad_rows(leaf, devices) if axes else leaf, *axes)

    return _laid_out(tree, lay, devices)


def put_spread(tree: Tree, mesh: Mesh, *axes: str) -> Tree:
    """Put a state of training, or a part of it, onto a mesh, as programs take it. Leading `axes` are divided first."""
    return _laid_out(tree, lambda leaf, *more: put(leaf, mesh, *axes, *more), size_of(mesh, LAYERS))


def _laid_out(tree: Tree, lay: Callable[..., Any], devices: int) -> Tree:
    """Apply `lay(leaf)` to all arrays, and `lay(leaf, "layers")` to stacks of layers, if `devices` share them."""

    def stack(leaf: Any) -> PaddedStack:
        return PaddedStack(lay(leaf, LAYERS), len(leaf))

    def part(value: Any) -> Any:
        if isinstance(value, Stack):
            return jax.tree.map(stack, value)
        if not isinstance(value, Network):
            return lay(value) if is_array(value) else value
        others = [jax.tree.map(lay, layer) for layer in (value.input, value.readout)]
        return eqx.tree_at(
            lambda n: (n.input, n.readout, n.hidden), value, (*others, jax.tree.map(stack, value.hidden))
        )

    divided = (lambda value: isinstance(value, Network | Stack)) if devices > 1 else None
    return jax.tree.map(part, tree, is_leaf=divided)


def whole(tree: Tree) -> Tree:
    """Return the tree with every stack of layers in its own length, which is how all functions of networks see it."""

    def part(value: Any) -> Any:
        return value.array[: value.length] if isinstance(value, PaddedStack) else value

    return jax.tree.map(part, tree, is_leaf=lambda value: isinstance(value, PaddedStack))
