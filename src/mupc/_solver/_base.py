"""The interface of every inference solver."""

import abc
from typing import Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from .._problem import Increments, Problem, gradient_norm
from .._types import Real, Scalar

State = TypeVar("State")


class AbstractSolver(eqx.Module, Generic[State]):
    """A rule that moves activities one step. The shared loop owns iteration, the step limit, the tolerance, the check
    for non-finite values, the history and the active window.

    - `steps`: the most steps to take. `tol`: stop when the gradient norm is below this fraction of its start; None
      for a fixed number of steps.
    - `local`: a step moves information by one layer only and leaves what has no gradient where it is. The loop then
      skips the layers that no step has reached yet. Momentum qualifies, weight decay of the iterate, noise or
      anything that solves globally does not.
    """

    steps: eqx.AbstractVar[int]
    tol: eqx.AbstractVar[Real | None]
    local: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def init(self, problem: Problem, delta: Increments) -> State:
        """The state before the first step. Arrays in it that belong to layers have the shape of `delta.hidden`."""

    @abc.abstractmethod
    def step(self, problem: Problem, delta: Increments, gradient: Increments, state: State) -> tuple[Increments, State]:
        """The next δ and state, given the gradient at δ."""

    def terminate(self, gradient: Increments, first_norm: Scalar) -> Bool[Array, ""]:
        """Whether to stop before another step: the gradient norm against the tolerance."""
        return gradient_norm(gradient) <= (0.0 if self.tol is None else self.tol) * first_norm


def traced(solver: AbstractSolver | None) -> AbstractSolver | None:
    """The solver with its numbers as arrays, so that a new step size does not compile anew."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, float) else leaf, solver)
