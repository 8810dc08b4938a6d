"""Gauss–Newton with the errors as unknowns: every layer gets a signal of the same order, at any depth."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ...io import checks
from ...network import Real, Scalar
from .._problem import AbstractLinearised, AbstractProblem, PerSample, Point, Tree, Unknowns, zeros
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

    A small λ needs even less. With a single outer step, the solver first tries steepest descent, at the price of one
    pass down and one pass up. From the output there it bounds what conjugate gradients could still gain, and does
    without them if that is little.

    **Arguments:**

    - `steps`: outer steps, each of which linearises the network again. One is enough for training.
    - `cg_steps`: conjugate-gradient steps in each; None for as many as the number format can use.
    - `tol`: stop when the gradient norm has fallen to this fraction of its start, or earlier when a step lowers the
      energy by less than the fraction `energy_tol` (by default `tol`) of the decrease so far, as happens at minima
      on the kinks of ReLU networks, where the gradient does not vanish. `solution.result` says which.
    - `halvings`: how often the line search may halve its step; 0 for none.
    - `cg_tol`: do without conjugate gradients if steepest descent leaves them at most this share of its own decrease
      of the energy, summed over the batch. None never does, and neither do several outer steps or `cg_steps=None`.

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
    cg_tol: Real | None = 0.005

    def __check_init__(self) -> None:
        check_limits(self.steps, self.tol)
        checks.integer("halvings", self.halvings, 0)
        if self.cg_steps is not None:
            checks.integer("cg_steps", self.cg_steps, 1)
        for name in ("energy_tol", "cg_tol"):
            if getattr(self, name) is not None:
                checks.number(name, getattr(self, name), at_least=0)

    @property
    def local(self) -> bool:
        return False

    @property
    def rounds_start(self) -> bool:
        return True

    def init(self, problem: AbstractProblem, point: Point) -> _Energies:
        values = problem.values(point)
        return _Energies(values, jnp.mean(values), jnp.full((), jnp.inf, values.dtype))

    def step(
        self, problem: AbstractProblem[Unknowns], point: Point, gradient: Unknowns, state: _Energies
    ) -> tuple[Point, _Energies]:
        linear, values, cg_tol = problem.linearise(point), state.values, self.cg_tol
        downhill, whole = linear.downhill(), jnp.ones_like(values)
        if self.steps > 1 or self.cg_steps is None or cg_tol is None or not linear.bounds_descent:
            change = self._solved(linear, downhill)
            attempt = _attempts(problem, point, values, downhill, change)
            found = self._search(attempt, attempt(whole), 1)
        else:
            first = _attempts(problem, point, values, downhill, downhill)(whole)
            descent = linear.descent(downhill, first.point.errors.output - point.errors.output)

            def better(first: _Attempt) -> _Attempt:
                """Search further, in the folded problem: this seldom runs, and most of the program would be here."""
                folded, start = problem.folded(), problem.fold(point)
                # from the point, which the loop has anyway: to hand the direction on would take a copy
                downhill = jax.tree.map(jnp.subtract, *map(folded.as_unknowns, (problem.fold(first.point), start)))
                shorter = folded.move(zeros(downhill), descent.best, downhill)
                change = _if_needed(
                    ~(descent.left_at_best <= cg_tol),
                    lambda _: self._solved(folded.linearise(start), downhill),
                    shorter,
                )
                none = _Attempt(start, values, jnp.zeros_like(first.enough))
                found = self._search(_attempts(folded, start, values, downhill, change), none, 0)
                return found._replace(point=problem.unfold(found.point))

            done = (descent.left_at_one <= cg_tol) & jnp.all(first.enough)
            found = _if_needed(~done, better, first)
        return found.point, _Energies(found.values, state.first, jnp.mean(values))

    def _solved(self, linear: AbstractLinearised[Unknowns], downhill: Unknowns) -> Unknowns:
        """Return the change of the errors that conjugate gradients find."""
        eps = float(jnp.finfo(jax.tree.leaves(downhill)[0].dtype).eps)
        return linear.with_jacobian().solve(downhill, self.cg_steps, tol=eps)

    def _search(self, attempt: Callable[[PerSample], _Attempt], found: _Attempt, count: int) -> _Attempt:
        """Halve each sample's step until it lowers the energy enough; if none does, do not move it. A `count` of 0 says
        that `found` comes from another direction: then the first attempt takes the whole step."""
        last = self.halvings + 1 if self.halvings else 0

        def unfinished(carry: tuple) -> Bool[Array, ""]:
            return (carry[0] <= last) & ~jnp.all(carry[2].enough)

        def shorten(carry: tuple[Int[Array, ""], PerSample, _Attempt]) -> tuple[Int[Array, ""], PerSample, _Attempt]:
            count, length, found = carry
            shorter = jnp.where(count == last, 0, length / 2)
            length = jnp.where(found.enough | (count == 0), length, shorter)
            return count + 1, length, attempt(length)

        carry = jnp.full((), count), jnp.ones_like(found.values), found
        ended: tuple[Any, Any, _Attempt] = jax.lax.while_loop(unfinished, shorten, carry)
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


def _attempts(
    problem: AbstractProblem[Unknowns], start: Point, before: PerSample, downhill: Unknowns, change: Unknowns
) -> Callable[[PerSample], _Attempt]:
    """Return a function that goes from the start, with its energies, along a change of the errors by some length."""
    promised, output = problem.dot(downhill, change) / 2, start.errors.output
    # What rounding may change in an energy: next to large outputs, a small loss has few digits. A loss is taken to
    # change by at most about 1 when an output changes by 1.
    size = jnp.abs(problem.energy.output_weight) * jnp.sqrt(problem.output_dot(output, output))
    rounding = 8 * float(jnp.finfo(before.dtype).eps) * (jnp.abs(before) + size)

    def attempt(length: PerSample) -> _Attempt:
        moved = problem.follow(problem.move(problem.as_unknowns(start), length, change))
        values = problem.values(moved)
        enough = values <= before - ENOUGH * length * promised + rounding
        return _Attempt(moved, values, enough)

    return attempt


def _if_needed(needed: Bool[Array, ""], compute: Callable[[Tree], Tree], found: Tree) -> Tree:
    """Return what has been found, or, if needed, what `compute` makes of it. A loop of at most one turn takes the place
    of a conditional, which would always compute both branches when many networks train at once."""

    def turn(carry: tuple[Bool[Array, ""], Tree]) -> tuple[Bool[Array, ""], Tree]:
        return jnp.zeros_like(carry[0]), compute(carry[1])

    ended: tuple[Any, Tree] = jax.lax.while_loop(lambda carry: carry[0], turn, (needed, found))
    return ended[1]
