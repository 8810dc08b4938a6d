"""Chains: networks of any nodes, one latent for each, with derivatives by autodiff."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..io import checks
from ._abstract import AbstractNetwork, PerLayer, WeightRole
from ._coerce import as_inputs
from ._layer import Dense
from ._mesh import LAYERS, axis_size
from ._parameterisation import PARAMETERISATIONS
from ._parts import (
    Latent,
    Part,
    Shape,
    Single,
    Stack,
    apply,
    checked_names,
    checked_shapes,
    join,
    piece_count,
    pull,
    split,
    taken_apart,
)
from ._precision import Precision, resolve_precision
from ._rate_scales import BaseSize, LayerScale, RateScales
from ._recurrence import layer_at, shifted_up
from ._types import Inputs, Outputs, Real, Rows
from .nodes import (
    AbstractWeighted,
    AnyNode,
    as_node,
    is_exact,
    map_layers,
    weighted_layers,
    with_products,
)

Latents = tuple[Float[Array, "_ batch ..."], ...]
RecipeValue: TypeAlias = bool | int | float | str | tuple["RecipeValue", ...] | None


class Recipe(NamedTuple):
    """The name of a model in `mupc.models` and all its arguments but the key, as values that JSON has: from them the
    same chain is built again."""

    model: str
    arguments: tuple[tuple[str, RecipeValue], ...]


class Chain(AbstractNetwork):
    """A predictive coding network of any nodes, one after the other: z_ℓ = f_ℓ(z_{ℓ-1}) + e_ℓ.

    A node is an `eqx.Module` that maps one sample's signal to the prediction of the next, channels first in images:
    one of `mupc.nodes`, one of `equinox.nn`, or your own. There is one latent for each node but the last, which
    predicts the output. Pools, normalisation over features and residual connections belong inside a node.

    **Arguments:**

    - `nodes`: nodes and `mupc.Stack`s of them, from the input to the readout.
    - `input_shape`: the shape of one sample, such as `(3, 32, 32)`.
    - `names`: what messages and tables call the nodes.
    - `recipe`: how a model of `mupc.models` was made; leave it out for nodes of your own.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc
    from mupc import nodes

    stem, readout = jr.split(jr.key(0))
    chain = mupc.Chain(
        [
            nodes.Conv2d(1, 8, role="input", key=stem),
            nodes.Sequential(["relu", nodes.GlobalMean(), nodes.Linear(8, 10, role="readout", key=readout)]),
        ],
        input_shape=(1, 8, 8),
    )
    chain(jnp.ones((5, 1, 8, 8))).shape    # (5, 10)
    ```
    """

    parts: tuple[Part, ...]
    input_shape: Shape = eqx.field(static=True)
    output_shape: Shape = eqx.field(static=True)
    latent_shapes: tuple[Shape, ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    recipe: Recipe | None = eqx.field(static=True)
    in_size: int = eqx.field(static=True)
    out_size: int = eqx.field(static=True)

    def __init__(
        self,
        nodes: Sequence[AnyNode | Stack],
        *,
        input_shape: Sequence[int],
        names: Sequence[str] | None = None,
        recipe: Recipe | None = None,
    ) -> None:
        for name, given in (("nodes", nodes), ("input_shape", input_shape)):
            if not isinstance(given, Sequence):
                raise checks.wrong_type(name, "a list or a tuple", given)
        if len(nodes) < 2:
            raise checks.ArgumentError(
                "nodes", f"has {len(nodes)}, so that there is no latent.", "Give a first node and a readout at least."
            )
        self.parts = tuple(node if isinstance(node, Stack) else Single(as_node(node)) for node in nodes)
        self.input_shape = tuple(checks.integer("input_shape", size, 1) for size in input_shape)
        self.names, self.recipe = checked_names(self.parts, names), recipe
        if isinstance(self.parts[-1], Stack):
            cure = "Give a single node after it."
            raise checks.ArgumentError("nodes", "ends with a Stack, and the readout is one node.", cure)
        *self_latents, self.output_shape = checked_shapes(self.parts, self.names, self.input_shape)
        self.latent_shapes = tuple(self_latents)
        self.in_size, self.out_size = math.prod(self.input_shape), math.prod(self.output_shape)

    @property
    def layer_count(self) -> int:
        """L, the number of nodes."""
        return sum(part.depth for part in self.parts)

    @property
    def layer_names(self) -> tuple[str, ...]:
        """The name of every node; those of a stack are numbered."""
        named = (
            [name] if isinstance(part, Single) else [f"{name}.{index + 1}" for index in range(part.depth)]
            for name, part in zip(self.names, self.parts, strict=True)
        )
        return tuple(itertools.chain(*named))

    @property
    def weight_stacks(self) -> tuple[tuple[eqx.Module, int], ...]:
        """The nodes and stacks, with their numbers of nodes."""
        return tuple((part.node, part.depth) for part in self.parts)

    @property
    def exact(self) -> bool:
        """Whether every node has an accurate difference."""
        return all(is_exact(part.node) for part in self.parts)

    @property
    def readout(self) -> eqx.Module:
        """The last node."""
        return self.parts[-1].node

    @property
    def hidden(self) -> tuple[Part, ...]:
        """All parts that have latents."""
        return self.parts[:-1]

    def activity_shapes(self, batch: int) -> tuple[Shape, ...]:
        return tuple((part.depth, batch, *s) for part, s in zip(self.hidden, self.latent_shapes, strict=True))

    def __call__(self, x: Rows) -> Outputs:
        """Return the prediction for a batch of inputs (B, …)."""
        policy = resolve_precision(None, self)
        network, inputs = policy.cast((self, as_inputs(self, x)))
        return network.forward_pass(inputs, policy)[1]

    def with_precision(self, precision: Precision) -> "Chain":
        """Return the chain with products of this precision."""
        changed: Chain = with_products(self, precision)
        return changed

    @property
    def piece_counts(self) -> tuple[int, ...]:
        """Into how many parts each of those with latents is taken."""
        return tuple(map(piece_count, self.hidden))

    def for_computing(self, precision: Precision) -> "Chain":
        """Return the chain with products of this precision and with small stacks taken apart. Its names and shapes stay
        those of the whole."""
        chain = self.with_precision(precision)
        return eqx.tree_at(lambda at: at.parts, chain, taken_apart(chain.parts))

    def shaped(self, x: Latent) -> Latent:
        """Return rows in the shape of samples."""
        return x.reshape(-1, *self.input_shape)

    def inputs_of_nodes(self, x: Latent, activities: Latents) -> Latents:
        """Return what comes into every node, part by part."""
        below, found = self.shaped(x)[None], []
        for own in activities:
            found.append(shifted_up(below, own))
            below = layer_at(own, slice(-1, None))
        return (*found, below)

    def up(self, step: Callable[..., Latent], value: Latent, *items: Sequence[PyTree]) -> Latents:
        """Compute v_ℓ = step(node, v_{ℓ-1}, items) from the input to the last latent; return all of them."""
        found = []
        for part, *own in zip(self.hidden, *items, strict=True):
            value, stack = part.carry(lambda node, v, *rest: (new := step(node, v, *rest), new), value, *own)
            found.append(stack)
        return tuple(found)

    def down(self, value: Latent, inputs: Latents, own: Sequence[PyTree] | None = None) -> tuple[Latents, Latent]:
        """Carry a force on the last latent back through the nodes' derivatives at these inputs, and add the latents'
        own forces on the way; return the force on every latent and on the input."""

        def step(node: eqx.Module, v: Latent, u: Latent, extra: Latent | None) -> tuple[Latent, Latent]:
            v = v if extra is None else v + extra
            return pull(node, u, v), v

        found = []
        extras = [None] * len(self.hidden) if own is None else own
        for part, u, extra in reversed(list(zip(self.hidden, inputs, extras, strict=True))):
            value, stack = part.carry(step, value, u, extra, reverse=True)
            found.append(stack)
        return tuple(reversed(found)), value

    @eqx.filter_jit
    def forward_pass(self, x: Inputs, precision: Precision) -> tuple[Latents, Outputs]:
        """Return the activities at which every error is zero, and the output."""
        chain = self.for_computing(precision)
        activities = chain.up(apply, self.shaped(x))
        return join(activities, self.piece_counts), apply(chain.readout, layer_at(activities[-1], -1))

    def prediction_errors(self, activities: Latents, x: Inputs, precision: Precision) -> tuple[Latents, Outputs]:
        chain, own = self.for_computing(precision), split(activities, self.piece_counts)
        *inputs, top = chain.inputs_of_nodes(x, own)
        predicted = (part.each(apply, u) for part, u in zip(chain.hidden, inputs, strict=True))
        errors = tuple(map(jnp.subtract, own, predicted))
        return join(errors, self.piece_counts), apply(chain.readout, top[0])

    def error_change(
        self, new: AbstractNetwork, activities: Latents, x: Inputs, precision: Precision
    ) -> tuple[Latents, Outputs]:
        before, after = (chain.prediction_errors(activities, x, precision) for chain in (self, new))
        return jax.tree.map(jnp.subtract, after, before)

    def local_gradients(
        self,
        x: Inputs,
        activities: Latents,
        errors: Latents,
        output_error: Outputs,
        precision: Precision,
        factor: Real = 1.0,
    ) -> "Chain":
        chain, counts = self.for_computing(precision), self.piece_counts

        def gradient(node: eqx.Module, u: Latent, e: Latent, share: Real) -> eqx.Module:
            found: eqx.Module = jax.vjp(lambda n: apply(n, u), node)[1](-share * e)[0]
            return found

        *inputs, top = chain.inputs_of_nodes(x, split(activities, counts))
        hidden, own = functools.partial(gradient, share=factor / len(x)), split(errors, counts)
        pieces = [part.each(hidden, u, e) for part, u, e in zip(chain.hidden, inputs, own, strict=True)]
        found = *join(pieces, counts), gradient(chain.readout, top[0], output_error, 1 / len(x))
        weights, structure = jax.tree.flatten(self)
        gradients = map(jnp.reshape, jax.tree.leaves(found), (weight.shape for weight in weights))
        return jax.tree.unflatten(structure, gradients)

    def backpropagate(
        self, x: Inputs, output_error: Callable[[Outputs], Outputs], precision: Precision
    ) -> tuple["Chain", Outputs]:
        if axis_size(LAYERS) == 1:
            output, pulled = jax.vjp(lambda chain: chain.forward_pass(x, precision)[1], self)
            found: Chain = pulled(-output_error(output) / len(x))[0]
            return found, output
        # the derivative of a pass that devices hand on would keep what nodes compute once for every turn
        activities, output = self.forward_pass(x, precision)
        chain, error = self.with_precision(precision), output_error(output)
        inputs = chain.inputs_of_nodes(x, activities)
        errors, _ = chain.down(pull(chain.readout, inputs[-1][0], error), inputs[:-1])
        return self.local_gradients(x, activities, errors, error, precision), output

    def per_layer(self, function: Callable[[Dense], Array]) -> PerLayer:
        """Apply a function to all weights of every node, as one row."""
        return jnp.concatenate([function(_row(part)) for part in self.parts])

    @property
    def weight_roles(self) -> tuple[WeightRole, ...]:
        return tuple(WeightRole(layer.role, layer.fan_in) for layer in weighted_layers(self))

    @property
    def why_no_rate_rule(self) -> str | None:
        for name, part in zip(self.names, self.parts, strict=True):
            layers = weighted_layers(part)
            if sum(len(jax.tree.leaves(layer)) for layer in layers) < len(jax.tree.leaves(part)):
                return f"the node {name!r}, some of whose weights have no role"
            for layer in layers:
                if PARAMETERISATIONS[layer.parameterisation].rate_rule is None:
                    return f"the parameterisation {layer.parameterisation}"
        return None

    def rate_scales(self, base: BaseSize) -> RateScales:
        found = [layer.rate_scales(base) for layer in weighted_layers(self)]
        return RateScales(*(tuple(itertools.chain(*kind)) for kind in zip(*found, strict=True)))

    def scaled(self, scales: Sequence[LayerScale]) -> "Chain":
        factors = iter(scales)

        def scale(layer: AbstractWeighted) -> AbstractWeighted:
            weight, bias = next(factors)
            new = None if layer.bias is None else bias * layer.bias
            return eqx.tree_at(lambda at: (at.weight, at.bias), layer, (weight * layer.weight, new), is_leaf=_none)

        changed: Chain = map_layers(scale, self)
        return changed


def _none(leaf: object) -> bool:
    return leaf is None


def _row(part: Part) -> Dense:
    """Return all weights of each node, biases left out, as one row; a zero for a node without weights."""
    layers = weighted_layers(part)
    biases = {id(layer.bias) for layer in layers if layer.bias is not None}
    weights = [leaf for leaf in jax.tree.leaves(part) if id(leaf) not in biases]
    rows = [leaf.reshape(part.depth, 1, -1) for leaf in weights]
    return Dense(jnp.concatenate(rows, axis=-1) if rows else jnp.zeros((part.depth, 1, 1)), None)
