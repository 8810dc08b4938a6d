"""The interface of every inference solver."""

import abc
from typing import Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ...io import checks
from ...network import PRNGKeyArray, Real, Scalar
from .._problem import AbstractProblem, Point, Unknowns
from .._solution import RESULTS

State = TypeVar("State")
Tree = TypeVar("Tree")
Stop = tuple[Bool[Array, ""], RESULTS]
"""Whether to stop, and why."""


class LoopStatus(NamedTuple):
    """The state of the loop: the gradient norm at the start, the norm now, and the steps taken."""

    first_norm: Scalar
    norm: Scalar
    taken: Int[Array, ""]

    def below(self, tol: Real) -> Bool[Array, ""]:
        """Return whether the gradient norm has fallen to the fraction `tol` of its start."""
        return self.norm <= tol * self.first_norm


class AbstractSolver(eqx.Module, Generic[State]):
    """A rule that moves activities one step. One loop serves all solvers: it owns iteration, the step limit, the check
    for non-finite values, the history and the active window.

    - `steps`: the most steps to take.
    - `local`: a step moves information by one layer only and does not move activities without a gradient. The loop then
      leaves out the layers that no step has reached yet. Momentum qualifies; weight decay of the iterate, noise, and
      anything that solves globally do not.
    """

    steps: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def local(self) -> bool:
        """Whether layers that no step has reached may be left out."""

    @property
    def rounds_start(self) -> bool:
        """Whether products of the forward pass may be rounded, since no signal is so small that it would be lost."""
        return False

    @abc.abstractmethod
    def init(self, problem: AbstractProblem[Unknowns], point: Point) -> State:
        """Return the state before the first step, or raise a `ValueError` for a problem that this solver cannot solve.
        Per-layer arrays in the state have the shape of the unknowns. In a local solver they are zero for layers it has
        not reached."""

    @abc.abstractmethod
    def step(
        self, problem: AbstractProblem[Unknowns], point: Point, gradient: Unknowns, state: State
    ) -> tuple[Point, State]:
        """Return the next point and state, given the gradient at this point."""

    @abc.abstractmethod
    def terminate(self, state: State, progress: LoopStatus) -> Stop | None:
        """Return whether to stop before another step, and why. None: this solver always takes all steps."""


class AbstractTunableSolver(AbstractSolver[State]):
    """A solver that can find its own settings from a problem. The loop calls `tuned` at the start of every inference;
    `fit` calls it once every `tunes_every` weight updates and keeps what it returns."""

    @property
    @abc.abstractmethod
    def tunes_every(self) -> int | None:
        """After how many weight updates to tune again; None: there is nothing to tune."""

    @abc.abstractmethod
    def tuned(self, problem: AbstractProblem) -> "AbstractTunableSolver[State]":
        """Return the solver with settings for this problem; a solver that has them already returns itself."""


class AbstractStochasticSolver(AbstractSolver[State]):
    """A solver that draws random numbers. `infer` takes those of its own key; `fit` hands it another key for every
    batch."""

    @abc.abstractmethod
    def with_key(self, key: PRNGKeyArray) -> "AbstractStochasticSolver[State]":
        """Return the solver with another random key."""


def check_solver(solver: object) -> None:
    """Accept a solver."""
    if not isinstance(solver, AbstractSolver):
        raise checks.ArgumentTypeError(
            "solver",
            f"must be a solver such as mupc.GradientDescent(lr=0.01, steps=8), got {checks.literal(solver)}.",
        )


def check_limits(steps: int, tol: Real | None) -> None:
    """Check the step limit and the tolerance of a solver."""
    checks.integer("steps", steps, 0)
    if tol is not None:
        checks.number("tol", tol, above=0, below=1)


def converged_below(tol: Real | None, progress: LoopStatus) -> Stop | None:
    """Stop when the gradient norm has fallen to the fraction `tol` of its start; None without a tolerance."""
    if tol is None:
        return None
    result: RESULTS = RESULTS.converged  # type: ignore[assignment]
    return progress.below(tol), result


def is_zero(number: Real) -> bool:
    """Return whether a number is known to be zero. A traced value might be anything."""
    return isinstance(number, int | float) and number == 0


def either(first: Stop, second: Stop) -> Stop:
    """Stop when one of two rules says so, for the first one's reason if both do."""
    return first[0] | second[0], RESULTS.where(first[0], first[1], second[1])


def traced(tree: Tree) -> Tree:
    """Return a solver or algorithm with its numbers as arrays, so that a new step size needs no new program.
    A zero stays a plain number: a term without weight then costs nothing."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, float) and leaf else leaf, tree)
