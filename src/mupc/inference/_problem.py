"""The inference problem as solvers see it: minimise each sample's energy over unknowns δ around a base point.

Unknowns are a pytree of any form. Solvers combine them with `jax.tree.map`, and use `dot` and `move` where
each sample has its own number.
"""

import abc
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PyTree

from ..network import AbstractNetwork, Inputs, Outputs, Precision, PRNGKeyArray, Scalar
from ._energy import Energy

Unknowns = TypeVar("Unknowns")
Tree = TypeVar("Tree")
PerSample = Float[Array, " batch"]


class Batch(eqx.Module):
    """One batch for inference: inputs (B, D) and targets (B, C), checked and cast.

    With `free_input`, x is only where the free z₀ starts. With `activities`, inference starts there instead of at the
    forward pass. Where their errors and output are `known`, they are not computed again. With `rounds_start`, products
    of the forward pass are rounded like all others.
    """

    x: Inputs
    y: Outputs
    activities: PyTree | None = None
    known: tuple[PyTree, Outputs] | None = None
    free_input: bool = eqx.field(static=True, default=False)
    rounds_start: bool = eqx.field(static=True, default=False)


class Increments(eqx.Module):
    """δ of the hidden layers, and of z₀ where it is free: the unknowns, and their gradients."""

    hidden: PyTree[Array]
    input: Array | None


class LayerErrors(eqx.Module):
    """The errors of the hidden layers, and the output that the last activities predict."""

    hidden: PyTree[Array]
    output: Array


class Point(NamedTuple):
    """A place in the space of unknowns, and the errors there."""

    delta: Any
    errors: Any


class Window(NamedTuple):
    """Take `steps` steps on this problem."""

    problem: "AbstractProblem"
    steps: int


class WindowPlan(NamedTuple):
    """The windows in turn, each with all layers that its steps can reach, and the problem on which the final gradient
    is computed."""

    windows: list[Window]
    last: "AbstractProblem"


class Arrays(NamedTuple):
    """A point in the form of `mupc.Solution`, with the batch first."""

    activities: PyTree
    errors: PyTree
    output_error: Outputs
    input: Inputs | None
    prediction: Outputs
    output: Outputs


class Descent(NamedTuple):
    """What a step of steepest descent in the errors achieves: its best length for each sample, and bounds on the
    decrease of the energy that it leaves to further steps, as shares of its own: at length 1, and at the best."""

    best: PerSample
    left_at_one: Scalar
    left_at_best: Scalar


class AbstractLinearised(eqx.Module, Generic[Unknowns]):
    """A problem linearised at a point."""

    @abc.abstractmethod
    def with_jacobian(self) -> "AbstractLinearised[Unknowns]":
        """Return the same, ready for several solves: with the derivative of the output kept, where that saves time."""

    @abc.abstractmethod
    def downhill(self) -> Unknowns:
        """Return −∂F/∂e, in which every layer has a part of the same order."""

    @property
    @abc.abstractmethod
    def bounds_descent(self) -> bool:
        """Whether `descent` is defined."""

    @abc.abstractmethod
    def descent(self, rhs: Unknowns, along: Array) -> Descent:
        """Describe a step along the steepest descent `rhs`, from the change of the output that a whole step makes."""

    @abc.abstractmethod
    def solve(self, rhs: Unknowns, steps: int | None, tol: float = 0.0) -> Unknowns:
        """Solve the Gauss–Newton equations in the errors for each sample, by conjugate gradients."""

    @abc.abstractmethod
    def hessian(self, d: Unknowns) -> Unknowns:
        """Return the Gauss–Newton Hessian in the activities times d, without activity decay."""

    @abc.abstractmethod
    def inverse_hessian(self, d: Unknowns) -> Unknowns:
        """Return the inverse of that Hessian times d."""


class AbstractProblem(eqx.Module, Generic[Unknowns]):
    """Minimise the energy of every sample over δ."""

    energy: eqx.AbstractVar[Energy]

    @property
    @abc.abstractmethod
    def depth(self) -> int:
        """The number of layers of unknowns."""

    @property
    @abc.abstractmethod
    def unknowns(self) -> int:
        """The number of unknowns of one sample."""

    @property
    @abc.abstractmethod
    def outputs(self) -> int:
        """The number of outputs of one sample."""

    @property
    @abc.abstractmethod
    def singular(self) -> bool:
        """Whether some changes of the unknowns change no error and no output, as with a free z₀."""

    @abc.abstractmethod
    def start(self) -> Point:
        """Return the point δ = 0, at no cost."""

    @abc.abstractmethod
    def errors(self, delta: Unknowns) -> Any:
        """Return the errors of all layers and the output at δ."""

    @abc.abstractmethod
    def gradient(self, point: Point) -> Unknowns:
        """Return ∂F/∂z of each sample."""

    @abc.abstractmethod
    def follow(self, errors: Unknowns) -> Point:
        """Return the point that has these errors: the inverse of `errors`."""

    @abc.abstractmethod
    def as_unknowns(self, point: Point) -> Unknowns:
        """Return the errors of a point in the form of unknowns, as `follow` takes them."""

    @abc.abstractmethod
    def values(self, point: Point) -> PerSample:
        """Return the energy of each sample, without the weight penalties, which inference cannot change."""

    @abc.abstractmethod
    def activities(self, delta: Unknowns) -> Unknowns:
        """Return the activities z⁰ + δ."""

    @abc.abstractmethod
    def linearise(self, point: Point) -> AbstractLinearised[Unknowns]:
        """Linearise the problem at a point."""

    @abc.abstractmethod
    def dot(self, a: Unknowns, b: Unknowns) -> PerSample:
        """Return the inner product of each sample."""

    @abc.abstractmethod
    def output_dot(self, a: Array, b: Array) -> PerSample:
        """Return the inner product of two outputs of each sample."""

    @abc.abstractmethod
    def move(self, x: Unknowns, length: PerSample, p: Unknowns) -> Unknowns:
        """Return x + length·p, with a length for each sample."""

    @abc.abstractmethod
    def plan(self, steps: int, local: bool) -> WindowPlan:
        """Divide steps into windows. With a `local` solver, which moves information by one layer a step, layers that no
        step has reached yet may be left out."""

    @abc.abstractmethod
    def adopt(self, tree: Tree, window: "AbstractProblem") -> Tree:
        """Return a tree of a smaller window, padded with zeros for the layers that this one adds."""

    @abc.abstractmethod
    def unpack(self, point: Point) -> Arrays:
        """Return a point as users see it."""

    def noise(self, key: PRNGKeyArray) -> Unknowns:
        """Return independent standard normal values in the form of unknowns, the same on every device."""
        drawn: Unknowns = standard_normal(key, self.start().delta)
        return drawn

    def folded(self) -> "AbstractProblem[Any]":
        """Return the problem in the form that compiles fastest, for code that seldom runs."""
        return self

    def fold(self, tree: Tree) -> Tree:
        """Return a point, unknowns or errors of this problem as those of `folded`."""
        return tree

    def unfold(self, tree: Tree) -> Tree:
        """Return a point, unknowns or errors of `folded` as those of this problem."""
        return tree

    def at(self, delta: Unknowns) -> Point:
        """Return the point with these unknowns."""
        return Point(delta, self.errors(delta))

    def value(self, point: Point) -> Scalar:
        """Return the batch mean of `values`."""
        return jnp.mean(self.values(point))

    def norm(self, gradient: Unknowns) -> Scalar:
        """Return the root mean square over samples of each sample's gradient norm."""
        return jnp.sqrt(jnp.mean(self.dot(gradient, gradient)))


def add(a: Unknowns, b: Unknowns) -> Unknowns:
    """Return a + b."""
    return jax.tree.map(jnp.add, a, b)


def zeros(like: Unknowns) -> Unknowns:
    """Return zeros of the same form."""
    return jax.tree.map(jnp.zeros_like, like)


def base_point(network: AbstractNetwork, batch: Batch, precision: Precision) -> tuple[PyTree, PyTree | None, Outputs]:
    """Return where inference starts: the activities, their errors (None: zero, at the forward pass) and the output.

    They are found in full precision, unless the batch says otherwise: rounding puts some ReLU units on the wrong side
    of their kink, which accurate increments cannot repair."""
    if batch.activities is None:
        activities, output = network.forward_pass(batch.x, precision if batch.rounds_start else precision.full)
        return activities, None, output
    known = batch.known
    if known is None:
        known = network.prediction_errors(batch.activities, batch.x, precision.full)
    return batch.activities, *known


def standard_normal(key: PRNGKeyArray, like: Unknowns) -> Unknowns:
    """Return independent standard normal values of the same form."""
    leaves, structure = jax.tree.flatten(like)
    keys = jr.split(key, len(leaves))
    drawn = [jr.normal(own, leaf.shape, leaf.dtype) for own, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, drawn)


def unposed(network: AbstractNetwork) -> TypeError:
    """Return the error for a network without a registered problem."""
    kind = type(network).__name__
    return TypeError(
        f"{kind} does not have an inference problem: register one with mupc.inference.pose.register({kind})."
    )
