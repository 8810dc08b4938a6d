"""Gauss–Newton with the errors as unknowns: every layer gets a signal of the same order, at any depth."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ...io import checks
from ...network import Real, Scalar
from .._problem import AbstractProblem, PerSample, Point, Unknowns
from .._solution import RESULTS
from ._base import AbstractSolver, LoopStatus, Stop, check_limits, converged_below, either

ENOUGH = 0.2
"""A step must lower the energy by this part of what the linearised problem promises."""


class _Energies(NamedTuple):
    values: PerSample  # of each sample
    first: Scalar  # the mean at the start
    before: Scalar  # the mean before the latest step


class _Attempt(NamedTuple):
    point: Point
    values: PerSample
    enough: Bool[Array, " batch"]


class ErrorSpace(AbstractSolver[_Energies]):
    """Minimise F over the errors e of the hidden layers, from which the activities follow, z_ℓ = f_ℓ(z_{ℓ-1}) + e_ℓ.

    In these unknowns the Hessian is the identity plus a matrix of the output's rank, so that a few conjugate-gradient
    steps, each one pass up and one pass down the network, solve the linearised problem at any depth. A linear
    network needs one outer step, others a few, with a line search for each sample. As the energy's `output_precision`
    λ goes to zero the weight gradients become backpropagation's.

    **Arguments:**

    - `steps`: outer steps, each of which linearises the network again. One is enough for training.
    - `cg_steps`: conjugate-gradient steps in each; None for as many as the number format can use.
    - `tol`: stop when the gradient norm has fallen to this fraction of its start, or earlier when a step lowers the
      energy by less than the fraction `energy_tol` (by default `tol`) of the decrease so far, as happens at minima
      on the kinks of ReLU networks, where the gradient does not vanish. `solution.result` says which.
    - `halvings`: how often the line search may halve its step; 0 for none.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=64, key=jr.key(0))
    x, y = jnp.ones((2, 8)), jnp.array([0, 2])
    energy = mupc.Energy(output_precision=0.1)
    solution = mupc.infer(network, x, y, mupc.ErrorSpace(), energy=energy)
    mupc.credit_reach(network, solution, x, y).learning_layers      # 65: all
    ```
    """

    steps: int = 1
    cg_steps: int | None = 2
    tol: Real | None = None
    energy_tol: Real | None = None
    halvings: int = 10

    def __check_init__(self) -> None:
        check_limits(self.steps, self.tol)
        checks.integer("halvings", self.halvings, 0)
        if self.cg_steps is not None:
            checks.integer("cg_steps", self.cg_steps, 1)
        if self.energy_tol is not None:
            checks.number("energy_tol", self.energy_tol, at_least=0)

    @property
    def local(self) -> bool:
        return False

    def init(self, problem: AbstractProblem, point: Point) -> _Energies:
        values = problem.values(point)
        return _Energies(values, jnp.mean(values), jnp.full((), jnp.inf, values.dtype))

    def step(
        self, problem: AbstractProblem[Unknowns], point: Point, gradient: Unknowns, state: _Energies
    ) -> tuple[Point, _Energies]:
        linear = problem.linearise(point).with_jacobian()
        slope = linear.error_gradient()
        eps = float(jnp.finfo(state.values.dtype).eps)
        change = linear.solve(jax.tree.map(jnp.negative, slope), self.cg_steps, tol=eps)
        promised = -problem.dot(slope, change) / 2
        start = problem.as_unknowns(point)

        def attempt(length: PerSample) -> _Attempt:
            moved = problem.follow(problem.move(start, length, change))
            values = problem.values(moved)
            enough = values <= state.values - ENOUGH * length * promised + 8 * eps * jnp.abs(state.values)
            return _Attempt(moved, values, enough)

        found = self._search(attempt, jnp.ones_like(state.values))
        return found.point, _Energies(found.values, state.first, jnp.mean(state.values))

    def _search(self, attempt: Callable[[PerSample], _Attempt], length: PerSample) -> _Attempt:
        """Halve each sample's step until it lowers the energy enough; if none does, do not move it."""

        def unfinished(carry: tuple) -> Bool[Array, ""]:
            return (carry[0] <= self.halvings) & ~jnp.all(carry[2].enough)

        def shorten(carry: tuple[Int[Array, ""], PerSample, _Attempt]) -> tuple[Int[Array, ""], PerSample, _Attempt]:
            count, length, found = carry
            length = jnp.where(found.enough, length, length / 2)
            length = jnp.where(count == self.halvings, jnp.where(found.enough, length, 0), length)
            return count + 1, length, attempt(length)

        found = attempt(length)
        if not self.halvings:
            return found
        ended: tuple[Any, Any, _Attempt] = jax.lax.while_loop(unfinished, shorten, (jnp.zeros((), int), length, found))
        return ended[2]

    def terminate(self, state: _Energies, progress: LoopStatus) -> Stop | None:
        converged = converged_below(self.tol, progress)
        limit = self.tol if self.energy_tol is None else self.energy_tol
        if limit is None:
            return converged
        now = jnp.mean(state.values)
        why: Any = RESULTS.settled
        settled = state.before - now <= limit * (state.first - now), why
        return settled if converged is None else either(converged, settled)
