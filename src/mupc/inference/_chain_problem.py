"""The inference problem of a chain of nodes, with derivatives by autodiff.

Activities are written z = z⁰ + δ, as in the problem of the MLP, so that nodes with an accurate difference lose nothing
to cancellation:

    e_ℓ = e⁰_ℓ + δ_ℓ − (f_ℓ(z⁰_{ℓ-1} + δ_{ℓ-1}) − f_ℓ(z⁰_{ℓ-1})).

For other nodes f_ℓ(z⁰_{ℓ-1}), which is known, is subtracted. Arrays have layers first and the batch second.
"""

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..io import checks, counted
from ..network import (
    AbstractNetwork,
    Chain,
    Latent,
    Latents,
    Outputs,
    Precision,
    PRNGKeyArray,
    apply,
    join,
    layer_at,
    models,
    nodes,
    pull,
    push,
    shifted_down,
    split,
)
from ._dense_problem import pose
from ._energy import Energy, half_squares
from ._gauss_newton import AbstractGaussNewton, Force
from ._problem import (
    AbstractProblem,
    Arrays,
    Batch,
    Increments,
    LayerErrors,
    PerSample,
    Point,
    Tree,
    Window,
    WindowPlan,
    add,
    base_point,
    standard_normal,
    zeros,
)
from ._solution import Solution

LEAST_ROUNDINGS = 100
"""A move of fewer rounding errors than this is not known to two digits."""


class ChainProblem(AbstractProblem[Increments]):
    """The problem of a chain around the activities `base`, the last of which predicts `base_output`."""

    network: Chain
    chain: Chain  # the network with small stacks taken apart, as activities and errors are
    pieces: tuple[int, ...] = eqx.field(static=True)  # into how many parts each stack is taken
    energy: Energy
    x: Float[Array, "batch ..."]
    base: Latents
    base_errors: Latents | None  # None: zero, as at the forward pass
    base_output: Outputs
    rounded: tuple[Latents, Outputs] | None  # predictions at the base in the precision of products, if it is another
    y: Outputs
    free_input: bool = eqx.field(static=True)

    @property
    def depth(self) -> int:
        return self.chain.layer_count - 1

    @property
    def unknowns(self) -> int:
        return sum(leaf[:, 0].size for leaf in jax.tree.leaves(self.start().delta))

    @property
    def outputs(self) -> int:
        return self.y[0].size

    @property
    def singular(self) -> bool:
        return self.free_input

    def start(self) -> Point:
        e = zeros(self.base) if self.base_errors is None else self.base_errors
        delta = Increments(zeros(self.base), jnp.zeros_like(self.x)[None] if self.free_input else None)
        return Point(delta, LayerErrors(e, self.base_output))

    def errors(self, delta: Increments) -> LayerErrors:
        *changes, top = self.changes_into_nodes(delta)
        *inputs, _ = self._into_nodes(Increments(self.base, None))
        parts = zip(self.chain.hidden, inputs, changes, self._predicted(), strict=True)
        change = tuple(part.each(moved, z, d, known) for part, z, d, known in parts)
        e = jax.tree.map(jnp.subtract, delta.hidden, change)
        return LayerErrors(e if self.base_errors is None else add(self.base_errors, e), self._output(top[0]))

    def _into_nodes(self, z: Increments) -> Latents:
        """Return what comes into every node at these activities."""
        return self.chain.inputs_of_nodes(self.x if z.input is None else z.input[0], z.hidden)

    def changes_into_nodes(self, delta: Increments) -> Latents:
        """Return the change of what comes into every node."""
        return self.chain.inputs_of_nodes(self.bottom(delta), delta.hidden)

    def bottom(self, delta: Increments) -> Latent:
        """Return the change of the input."""
        return jnp.zeros_like(self.x) if delta.input is None else delta.input[0]

    def _predicted(self) -> Latents:
        """Return what the nodes predict at the base point."""
        if self.rounded is not None:
            return self.rounded[0]
        return self.base if self.base_errors is None else tuple(map(jnp.subtract, self.base, self.base_errors))

    def _output(self, delta: Latent) -> Outputs:
        """Return the output after a change of the last latent."""
        known = self.base_output if self.rounded is None else self.rounded[1]
        return self.base_output + moved(self.chain.readout, layer_at(self.base[-1], -1), delta, known)

    def follow(self, errors: Increments) -> Point:
        own = errors.hidden
        change = own if self.base_errors is None else jax.tree.map(jnp.subtract, own, self.base_errors)
        *inputs, _ = self._into_nodes(Increments(self.base, None))

        def step(node: eqx.Module, d: Latent, z: Latent, known: Latent, e: Latent) -> Latent:
            return e + moved(node, z, d, known)

        delta = self.chain.up(step, self.bottom(errors), inputs, self._predicted(), change)
        return Point(Increments(delta, errors.input), LayerErrors(own, self._output(layer_at(delta[-1], -1))))

    def as_unknowns(self, point: Point) -> Increments:
        return Increments(point.errors.hidden, point.delta.input)

    def gradient(self, point: Point) -> Increments:
        delta, e = point
        z = self.activities(delta)
        force = -self.energy.output_weight * self.output_error(e)
        gradient = self.carried_back(self._into_nodes(z), e.hidden, force)
        if self.energy.decays_activities:
            gradient = jax.tree.map(lambda g, a: g + self.energy.activity_decay * a, gradient, z)
        return gradient

    def carried_back(self, inputs: Latents, e: Latents, force: Outputs) -> Increments:
        """Return the force of these errors, and of one on the output, on every latent and on a free z₀: Aᵀ times the
        errors, and the output's part. `inputs` come into the nodes."""
        *below, top = inputs
        pulled = [part.each(pull, u, own) for part, u, own in zip(self.chain.hidden, below, e, strict=True)]
        above = [layer_at(stack, slice(1)) for stack in pulled[1:]] + [-pull(self.chain.readout, top[0], force)[None]]
        found = tuple(map(jnp.subtract, e, map(shifted_down, pulled, above)))
        return Increments(found, -layer_at(pulled[0], slice(1)) if self.free_input else None)

    def output_error(self, e: LayerErrors) -> Outputs:
        """Return the negative gradient of the loss in the output."""
        return self.energy.output_error(e.output, self.y)

    def values(self, point: Point) -> PerSample:
        delta, e = point
        squares = self._squares(e.hidden)
        if self.energy.decays_activities:
            squares = squares + self.energy.activity_decay * self._squares(self.activities(delta))
        return squares / 2 + self.energy.output_weight * self.energy.output_loss(e.output, self.y)

    def _squares(self, tree: Tree) -> PerSample:
        return sum(_per_sample(leaf**2) for leaf in jax.tree.leaves(tree))  # type: ignore[return-value]

    def activities(self, delta: Increments) -> Increments:
        return add(Increments(self.base, self.x[None] if self.free_input else None), delta)

    def linearise(self, point: Point) -> "ChainLinearised":
        return ChainLinearised(self, point, self._into_nodes(self.activities(point.delta)))

    def dot(self, a: Increments, b: Increments) -> PerSample:
        products = jax.tree.map(lambda p, q: _per_sample(p * q), a, b)
        return sum(jax.tree.leaves(products), start=jnp.zeros((), self.base_output.dtype))

    def output_dot(self, a: Outputs, b: Outputs) -> PerSample:
        return _per_sample((a * b)[None])

    def move(self, x: Increments, length: PerSample, p: Increments) -> Increments:
        return jax.tree.map(lambda a, b: a + length.reshape(1, -1, *[1] * (b.ndim - 2)) * b, x, p)

    def plan(self, steps: int, local: bool) -> WindowPlan:
        return WindowPlan([Window(self, steps)], self)

    def adopt(self, tree: Tree, window: AbstractProblem) -> Tree:
        return tree

    def noise(self, key: PRNGKeyArray) -> Increments:
        return self.unfold(standard_normal(key, self.folded().start().delta))

    def folded(self) -> "ChainProblem":
        whole = functools.partial(join, counts=self.pieces)
        return dataclasses.replace(
            self,
            chain=self.network,
            pieces=(1,) * len(self.pieces),
            base=whole(self.base),
            base_errors=None if self.base_errors is None else whole(self.base_errors),
            rounded=None if self.rounded is None else (whole(self.rounded[0]), self.rounded[1]),
        )

    def fold(self, tree: Tree) -> Tree:
        return _changed(tree, functools.partial(join, counts=self.pieces))

    def unfold(self, tree: Tree) -> Tree:
        return _changed(tree, functools.partial(split, counts=self.pieces))

    def unpack(self, point: Point) -> Arrays:
        z = self.activities(point.delta)
        return Arrays(
            activities=join(z.hidden, self.pieces),
            errors=join(point.errors.hidden, self.pieces),
            output_error=self.output_error(point.errors),
            input=None if z.input is None else z.input[0].reshape(len(self.x), -1),
            prediction=self.base_output,
            output=point.errors.output,
        )


class ChainLinearised(AbstractGaussNewton):
    """A chain's problem linearised at a point, where `inputs` come into the nodes."""

    problem: ChainProblem
    point: Point
    inputs: Latents

    def with_jacobian(self) -> "ChainLinearised":
        return self

    def apply_inverse(self, e: Increments) -> Increments:
        def step(node: eqx.Module, d: Latent, u: Latent, own: Latent) -> Latent:
            return own + push(node, u, d)

        return Increments(self.problem.chain.up(step, self.problem.bottom(e), self.inputs[:-1], e.hidden), e.input)

    def apply_inverse_transpose(self, force: Force) -> Increments:
        chain, rest = self.problem.chain, force.rest
        top = pull(chain.readout, self.inputs[-1][0], self.problem.energy.output_weight * force.output)
        hidden, bottom = chain.down(top, self.inputs[:-1], None if rest is None else rest.hidden)
        if not self.problem.free_input:
            return Increments(hidden, None)
        own = bottom[None]
        return Increments(hidden, own if rest is None or rest.input is None else own + rest.input)

    def output_change(self, d: Increments) -> Outputs:
        return push(self.problem.chain.readout, self.inputs[-1][0], layer_at(d.hidden[-1], -1))

    def output_pull(self) -> Outputs:
        return self.problem.output_error(self.point.errors)

    def loss_curvature(self, change: Outputs) -> Outputs:
        return self.problem.energy.output_curvature(self.point.errors.output, self.problem.y, change)

    def hessian(self, d: Increments) -> Increments:
        """Return AᵀA d and the curvature of the loss, for all layers at once."""
        problem = self.problem
        *below, _ = self.inputs
        *changes, _ = problem.changes_into_nodes(d)
        parts = zip(problem.chain.hidden, below, changes, d.hidden, strict=True)
        e = tuple(own - part.each(push, u, change) for part, u, change, own in parts)
        force = problem.energy.output_weight * self.loss_curvature(self.output_change(d))
        return problem.carried_back(self.inputs, e, force)


def _changed(tree: Tree, change: Callable[[Latents], Latents]) -> Tree:
    """Return a point, unknowns or errors after a change of the form of what belongs to latents."""
    changed: Tree = jax.tree.map(
        lambda part: dataclasses.replace(part, hidden=change(part.hidden)),
        tree,
        is_leaf=lambda node: isinstance(node, Increments | LayerErrors),
    )
    return changed


def moved(node: eqx.Module, z: Latent, delta: Latent, known: Latent) -> Latent:
    """Return f(z + δ) − f(z): by the node's own formula, or by subtraction of the value f(z), which is known. Another
    program may have rounded it otherwise: samples whose δ is zero do not change."""
    if nodes.is_exact(node):
        return jax.vmap(lambda u, d: nodes.difference(node, u, d))(z, delta)
    change = apply(node, z + delta) - known
    at_rest = jnp.all(delta == 0, axis=tuple(range(1, delta.ndim)))
    return jnp.where(at_rest.reshape(-1, *[1] * (change.ndim - 1)), 0, change)


def _per_sample(values: Float[Array, "layers batch ..."]) -> PerSample:
    return jnp.sum(values, axis=(0, *range(2, values.ndim)))


@pose.register(Chain)
def _pose_chain(network: Chain, batch: Batch, energy: Energy, precision: Precision) -> ChainProblem:
    if batch.free_input and any(isinstance(layer, models.Embedding) for layer in nodes.weighted_layers(network)):
        wrong = "is missing, and tokens cannot be inferred: they are whole numbers."
        raise checks.ArgumentError("x", wrong, "Pass them.")
    activities, base_errors, output = base_point(network, batch, precision)
    pieces, rounded = network.piece_counts, None
    starts_rounded = batch.rounds_start and batch.activities is None
    if precision != precision.full and not (network.exact or starts_rounded):
        off, predicted = network.prediction_errors(activities, batch.x, precision)
        rounded = split(jax.tree.map(jnp.subtract, activities, off), pieces), predicted
    return ChainProblem(
        network=network.with_precision(precision),
        chain=network.for_computing(precision),
        pieces=pieces,
        energy=energy,
        x=network.shaped(batch.x),
        base=split(activities, pieces),
        base_errors=None if base_errors is None else split(base_errors, pieces),
        base_output=output,
        rounded=rounded,
        y=batch.y,
        free_input=batch.free_input,
    )


def rounding_warning(network: AbstractNetwork, batch: Batch, solution: Solution, policy: Precision) -> str | None:
    """Return a warning if nodes without an accurate difference moved by so little that rounding decided how far. What a
    traced function does is not known."""
    traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((network, solution)))
    if not isinstance(network, Chain) or network.exact or batch.activities is not None or traced:
        return None
    start = network.forward_pass(batch.x, policy.full)[0]
    moved, sizes = (jnp.sqrt(half_squares(a)) for a in (jax.tree.map(jnp.subtract, solution.activities, start), start))
    reached = len(moved) - jnp.arange(len(moved)) <= solution.steps  # a step moves the signal down by one node
    lost = reached & (moved < LEAST_ROUNDINGS * jnp.finfo(moved.dtype).eps * sizes)
    names = [name for name, is_lost in zip(network.layer_names, lost, strict=False) if is_lost]
    if not names:
        return None
    others = f" and {counted(len(names) - 1, 'more node')}" if len(names) > 1 else ""
    return (
        f"the activities of {names[0]!r}{others} moved by less than rounding can tell: "
        "write the nodes with mupc.nodes, whose differences are exact, or use mupc.ErrorSpace."
    )
