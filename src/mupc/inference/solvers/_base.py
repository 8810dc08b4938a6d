"""The interface of every inference solver."""

import abc
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ...io import checks
from ...network import Network, Real, Scalar
from .._problem import Errors, Increments, Problem, gradient_norm
from .._solution import RESULTS

State = TypeVar("State")


class Progress(NamedTuple):
    """What the loop knows: the gradient norm at the start, and the steps taken."""

    first_norm: Scalar
    taken: Int[Array, ""]


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

    @property
    @abc.abstractmethod
    def local(self) -> bool:
        """See above."""

    @abc.abstractmethod
    def init(self, problem: Problem, delta: Increments) -> State:
        """The state before the first step, at δ = 0. Arrays in it that belong to layers have the shape of
        `delta.hidden`, and are zero where a local solver has not been."""

    @abc.abstractmethod
    def step(self, problem: Problem, delta: Increments, gradient: Increments, state: State) -> tuple[Increments, State]:
        """The next δ and state, given the gradient at δ."""

    def all_steps(self, problem: Problem, plan: Sequence[tuple[int, int]]) -> Increments | None:
        """δ after all steps, by a program made for this case and this device; None where there is none. The plan tells
        on how many of the uppermost layers (at last all of the problem's) how many steps are to be taken."""
        return None

    def errors(self, problem: Problem, delta: Increments, state: State) -> Errors:
        """The errors at δ; a solver that knows them better than by their definition says so here."""
        return problem.errors(delta)

    @property
    def stops_early(self) -> bool:
        """Whether `terminate` can end inference before the step limit."""
        return self.tol is not None

    def terminate(self, gradient: Increments, state: State, progress: Progress) -> tuple[Bool[Array, ""], RESULTS]:
        """Whether to stop before another step, and why: the gradient norm against the tolerance."""
        tol = 0.0 if self.tol is None else self.tol
        result: Any = RESULTS.converged
        return gradient_norm(gradient) <= tol * progress.first_norm, result

    def check(self, network: Network, problem: Problem) -> None:
        """Raises a ValueError for a network or an energy that this solver cannot do."""
        return

    @property
    def retunes_every(self) -> int | None:
        """After how many weight updates training should call `tuned` anew; None for a solver that never needs it."""
        return None

    def tuned(self, problem: Problem) -> "AbstractSolver":
        """The solver with what it finds out about the problem by itself; most have nothing to find out."""
        return self


def check_solver(solver: Any, cure: str = "") -> None:
    """What inference is done with."""
    if not isinstance(solver, AbstractSolver):
        raise TypeError(
            f"solver must be a solver such as mupc.GradientDescent(lr=0.01, steps=8), got {solver!r}.{cure}"
        )


def check_limits(steps: int, tol: Real | None) -> None:
    """What every solver asks of its step limit and tolerance."""
    checks.integer("steps", steps, 0)
    if tol is not None:
        checks.number("tol", tol, above=0, below=1)


def traced(solver: AbstractSolver | None) -> AbstractSolver | None:
    """The solver with its numbers as arrays, so that a new step size does not compile anew. Zero means that something
    is off, and stays a plain number, so that it costs nothing."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, float) and leaf else leaf, solver)
