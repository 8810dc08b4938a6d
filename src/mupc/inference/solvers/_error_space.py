"""Gauss–Newton with the errors as unknowns: every layer gets a signal of the same order, at any depth."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ...io import checks
from ...network import Real, Scalar
from .._linearised import linearise
from .._problem import Errors, Increments, PerSample, Problem, dot
from .._solution import RESULTS
from ._base import AbstractSolver, Progress, check_limits

ENOUGH = 0.2
"""A step must lower the energy by this part of what the linearised problem promises."""


class _State(NamedTuple):
    errors: Errors
    values: PerSample  # the energy of each sample
    first: Scalar  # the mean energy at the start, and before the latest step
    before: Scalar


class ErrorSpace(AbstractSolver[_State]):
    """Minimises F over the errors e of the hidden layers, from which the activities follow, z_ℓ = f_ℓ(z_{ℓ-1}) + e_ℓ.

    In these unknowns the Hessian is the identity plus a matrix of the output's rank, so that a few conjugate-gradient
    steps, each one pass up and one pass down the network, solve the linearised problem at any depth: one outer step
    for a linear network, a few with a line search of each sample for others. As the energy's `output_precision` λ
    goes to zero the weight gradients become backpropagation's.

    **Arguments:**

    - `steps`: outer steps, at each of which the network is linearised anew. One is enough for training.
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
    mupc.credit_reach(network, solution, x, y, energy=energy).learning_layers      # 65: all
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

    @property
    def stops_early(self) -> bool:
        return self.tol is not None or self.energy_tol is not None

    def init(self, problem: Problem, delta: Increments) -> _State:
        e = problem.errors_at_start()
        values = problem.values(delta, e)
        return _State(e, values, jnp.mean(values), jnp.full((), jnp.inf, values.dtype))

    def errors(self, problem: Problem, delta: Increments, state: _State) -> Errors:
        return state.errors

    def step(
        self, problem: Problem, delta: Increments, gradient: Increments, state: _State
    ) -> tuple[Increments, _State]:
        linear = linearise(problem, delta, state.errors).with_response()
        slope = linear.error_gradient()
        eps = float(jnp.finfo(problem.base.dtype).eps)
        change = linear.solve(jax.tree.map(jnp.negative, slope), self.cg_steps, tol=eps)
        promised = -dot(slope, change) / 2
        start = Increments(state.errors.hidden, delta.input)

        def attempt(length: PerSample) -> tuple[Increments, Errors, PerSample, Bool[Array, " batch"]]:
            moved, e = problem.follow(jax.tree.map(lambda a, b: a + length * b, start, change))
            values = problem.values(moved, e)
            enough = values <= state.values - ENOUGH * length * promised + 8 * eps * jnp.abs(state.values)
            return moved, e, values, enough

        def unfinished(carry: tuple) -> Bool[Array, ""]:
            return (carry[0] <= self.halvings) & ~jnp.all(carry[2][3])

        def shorten(carry: tuple[Int[Array, ""], PerSample, Any]) -> tuple[Int[Array, ""], PerSample, Any]:
            count, length, found = carry
            length = jnp.where(found[3], length, length / 2)
            length = jnp.where(count == self.halvings, jnp.where(found[3], length, 0), length)
            return count + 1, length, attempt(length)

        length = jnp.ones_like(state.values)
        found = attempt(length)
        if self.halvings:
            found = jax.lax.while_loop(unfinished, shorten, (jnp.zeros((), int), length, found))[2]
        moved, e, values, _ = found
        return moved, _State(e, values, state.first, jnp.mean(state.values))

    def terminate(self, gradient: Increments, state: _State, progress: Progress) -> tuple[Bool[Array, ""], RESULTS]:
        converged, result = super().terminate(gradient, state, progress)
        limit = self.tol if self.energy_tol is None else self.energy_tol
        now = jnp.mean(state.values)
        settled = state.before - now <= (0.0 if limit is None else limit) * (state.first - now)
        where: Any = RESULTS.where
        return converged | settled, where(converged, result, RESULTS.settled)
