"""The parts of a chain, single nodes and stacks of equal ones, and the checks that they can be joined."""

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PyTree

from ..io import checks, without_addresses
from ._backend import backend
from ._coerce import check_key
from ._mesh import LAYERS, axis_size
from ._recurrence import apply_to_each, carry_through
from ._types import PRNGKeyArray
from .nodes import AnyNode, Conv2d, as_node, call, weighted_layers

Latent = Float[Array, "batch ..."]
Shape = tuple[int, ...]


class Single(eqx.Module):
    """One node of a chain, as a stack of one."""

    node: eqx.Module

    @property
    def depth(self) -> int:
        """The number of nodes."""
        return 1

    @property
    def sample(self) -> eqx.Module:
        """One node."""
        return self.node

    def each(self, function: Callable[..., PyTree], *stacks: PyTree) -> PyTree:
        """Apply a function of a node and of one item from each stack to every node by itself."""
        return _stacked(function(self.node, *_first(stacks)))

    def carry(
        self, function: Callable[..., tuple[PyTree, PyTree]], value: PyTree, *stacks: PyTree, reverse: bool = False
    ) -> tuple[PyTree, PyTree]:
        """Carry a value from node to node; a function of node, value and items returns the next one and what to
        stack."""
        value, found = function(self.node, value, *_first(stacks))
        return value, _stacked(found)


class Stack(eqx.Module):
    """Equal nodes, one after the other, with their weights in stacked arrays: one compiled body serves any depth, and
    the axis `layers` of a mesh divides them over devices.

    **Arguments:** `make`: a function of a random key that returns a node, which keeps the shape of its signal; `depth`,
    the number of nodes; a random `key`.

    **Example:**

    ```python
    import jax.random as jr, mupc
    from mupc import nodes

    def block(key):
        return nodes.Residual(["relu", nodes.Conv2d(16, 16, role="branch", depth=8, key=key)])

    mupc.Stack(block, 6, key=jr.key(0)).node.branch.parts[1].weight.shape      # (6, 16, 16, 3, 3)
    ```
    """

    node: eqx.Module
    depth: int = eqx.field(static=True)

    def __init__(self, make: Callable[[PRNGKeyArray], AnyNode], depth: int, *, key: PRNGKeyArray) -> None:
        check_key(key)
        self.depth = checks.integer("depth", depth, 1)
        if isinstance(make, eqx.Module) or not callable(make):
            wrong = f"must be a function of a random key that returns a node, got {checks.literal(make)}."
            raise checks.ArgumentTypeError("make", wrong, "Write Stack(lambda key: …, depth, key=key).")
        _check_pure(make, key)
        self.node = eqx.filter_vmap(lambda k: as_node(make(k)))(jr.split(key, depth))

    @property
    def sample(self) -> eqx.Module:
        """One node."""
        found: eqx.Module = _first(self.node)
        return found

    def each(self, function: Callable[..., PyTree], *stacks: PyTree) -> PyTree:
        """Apply a function of a node and of one item from each stack to every node by itself."""
        if any(isinstance(layer, Conv2d) for layer in weighted_layers(self.node)):  # side by side they are slow
            return apply_to_each(lambda items: jax.lax.map(lambda item: function(*item), items), (self.node, *stacks))
        return apply_to_each(lambda items: jax.vmap(function)(*items), (self.node, *stacks))

    def carry(
        self, function: Callable[..., tuple[PyTree, PyTree]], value: PyTree, *stacks: PyTree, reverse: bool = False
    ) -> tuple[PyTree, PyTree]:
        """Carry a value from node to node; a function of node, value and items returns the next one and what to
        stack."""
        return carry_through(
            lambda v, items: function(items[0], v, *items[1:]), value, (self.node, *stacks), reverse=reverse
        )


Part = Single | Stack


def piece_count(part: Part) -> int:
    """Return into how many parts this one is taken for computations: its nodes, or 1 if it stays whole."""
    small = isinstance(part, Stack) and part.depth <= backend().largest_unrolled
    return part.depth if small and axis_size(LAYERS) == 1 else 1


def taken_apart(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts with the nodes of small stacks one by one."""
    found: list[Part] = []
    for part in parts:
        count = piece_count(part)
        found += [part] if count == 1 else [Single(_at(part.node, index)) for index in range(count)]
    return tuple(found)


def split(stacks: Sequence[PyTree], counts: Sequence[int]) -> tuple[PyTree, ...]:
    """Divide stacks into these numbers of pieces, each a stack itself."""
    found: list[PyTree] = []
    for stack, count in zip(stacks, counts, strict=True):
        found += [stack] if count == 1 else [_at(stack, slice(index, index + 1)) for index in range(count)]
    return tuple(found)


def join(pieces: Sequence[PyTree], counts: Sequence[int]) -> tuple[PyTree, ...]:
    """Put pieces together again: the inverse of `split`."""
    rest = iter(pieces)
    return tuple(_concatenated(*itertools.islice(rest, count)) for count in counts)


def apply(node: eqx.Module, z: Latent) -> Latent:
    """Return a node's predictions for a batch."""
    return jax.vmap(lambda sample: call(node, sample))(z)


def push(node: eqx.Module, z: Latent, change: Latent) -> Latent:
    """Return how a node's predictions follow a small change of what comes into it."""
    return jax.jvp(lambda u: apply(node, u), (z,), (change,))[1]


def pull(node: eqx.Module, z: Latent, force: Latent) -> Latent:
    """Return the force on what comes into a node from a force on its predictions."""
    found: Latent = jax.vjp(lambda u: apply(node, u), z)[1](force)[0]
    return found


def _concatenated(*pieces: PyTree) -> PyTree:
    return jax.tree.map(lambda *each: jnp.concatenate(each), *pieces) if len(pieces) > 1 else pieces[0]


def _at(tree: Any, index: int | slice) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _first(tree: Any) -> Any:
    return _at(tree, 0)


def _check_pure(make: Callable[[PRNGKeyArray], AnyNode], key: PRNGKeyArray) -> None:
    """Refuse a function that makes another node when it is called again: nodes of a stack are made all at once. Only
    its programs are compared, which takes a few milliseconds."""
    first, again = (
        eqx.filter_make_jaxpr(lambda k: eqx.filter(as_node(make(k)), eqx.is_array))(key)[0] for _ in range(2)
    )
    same = without_addresses(str(first)) == without_addresses(str(again)) and all(
        own is other or isinstance(own, jax.core.Tracer) or eqx.tree_equal(own, other)
        for own, other in zip(first.consts, again.consts, strict=True)
    )
    if not same:
        cure = "Draw the weights from the key. For nodes that exist or differ, give each to the Chain."
        raise checks.ArgumentError("make", "must return a node that depends on its key alone.", cure)


def _stacked(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[None], tree)


def checked_names(parts: Sequence[Part], names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        kinds = (type(getattr(part.node, "arrays", part.node)).__name__ for part in parts)
        return tuple(f"{index + 1} {kind}" for index, kind in enumerate(kinds))
    if len(names) != len(parts):
        wrong = f"has {len(names)} entries for {len(parts)} nodes."
        raise checks.ArgumentError("names", wrong, "Give one for each node or stack.")
    return tuple(map(str, names))


def checked_shapes(parts: Sequence[Part], names: Sequence[str], shape: Shape) -> list[Shape]:
    """Return the shape of every node's prediction, after a check that each node takes what comes before it."""
    before, found = "the input", []
    for part, name in zip(parts, names, strict=True):
        for module in jax.tree.leaves(part, is_leaf=_is_batch_norm):
            if _is_batch_norm(module):
                wrong = (
                    f"has batch norm in {name!r}: it ties the samples of a batch together, and each has its own energy."
                )
                raise checks.ArgumentError(
                    "nodes", wrong, "Use a normalisation over features, such as eqx.nn.LayerNorm."
                )
        for array in jax.tree.leaves(part):
            if not eqx.is_inexact_array(array):
                wrong = f"has {name!r} with an array of {array.dtype}; a node's arrays are its weights."
                cure = "Make it floats behind jax.lax.stop_gradient, or make it in the call."
                raise checks.ArgumentError("nodes", wrong, cure)
        try:
            out = jax.eval_shape(lambda z, node=part.sample: node(z), jax.ShapeDtypeStruct(shape, jnp.float32))
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            wrong = f"cannot be joined: {name!r} does not take the shape {shape} of {before}: {checks.braced(reason)}."
            cure = "Change one of them; a node is called with one sample's signal and nothing else."
            raise checks.ArgumentError("nodes", wrong, cure) from None
        if not isinstance(out, jax.ShapeDtypeStruct) or not jnp.issubdtype(out.dtype, jnp.floating):
            cure = "A node returns the prediction of the next signal."
            raise checks.ArgumentError("nodes", f"has {name!r}, which does not return one array of floats.", cure)
        if isinstance(part, Stack) and out.shape != shape:
            wrong = f"has the stack {name!r}, whose node turns the shape {shape} into {out.shape}."
            raise checks.ArgumentError("nodes", wrong, "Nodes of a stack must keep the shape.")
        if not jax.tree.leaves(part):
            warnings.warn(
                f"the node {name!r} has no weights, so that its latent learns nothing: put it inside its neighbour "
                "with mupc.nodes.Sequential.",
                stacklevel=5,
            )
        shape, before = out.shape, repr(name)
        if 0 in shape:
            cure = "Use smaller kernels or strides, or larger images."
            raise checks.ArgumentError("nodes", f"leaves nothing after {name!r}: its shape is {shape}.", cure)
        found.append(shape)
    return found


def _is_batch_norm(module: object) -> bool:
    return isinstance(module, eqx.nn.BatchNorm)
