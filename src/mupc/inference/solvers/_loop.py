"""The loop that every solver shares."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ...network import Scalar
from .._problem import AbstractProblem, Point
from .._solution import RESULTS, History
from ..kernels import descend
from ._base import AbstractSolver, AbstractTunableSolver, LoopStatus
from ._gradient_descent import GradientDescent


class _Carry(NamedTuple):
    point: Point
    state: Any
    taken: Int[Array, ""]
    stopped: Bool[Array, ""]
    history: History | None


class Solved(NamedTuple):
    """Where a solver arrived: the point and its energy, the solver's own state, the steps taken, why it stopped, the
    gradient norm there, and the history."""

    point: Point
    state: Any
    value: Scalar
    steps: Int[Array, ""]
    result: RESULTS
    gradient_norm: Scalar
    history: History | None


def solve(solver: AbstractSolver, problem: AbstractProblem, history: bool) -> Solved:
    """Run `solver` on `problem` from δ = 0."""
    if isinstance(solver, AbstractTunableSolver):
        solver = solver.tuned(problem)
    plan = problem.plan(solver.steps, solver.local)
    window = plan.windows[0].problem
    start = window.start()
    state = solver.init(window, start)
    first_norm = window.norm(window.gradient(start))
    blank = jnp.full(solver.steps + 1, jnp.nan, first_norm.dtype)
    trace = History(blank, blank) if history else None
    carry = _Carry(start, state, jnp.zeros((), int), jnp.zeros((), bool), trace)
    if trace is None and isinstance(solver, GradientDescent) and solver.plain_rate is not None:
        delta = descend(plan.windows, solver.plain_rate)
        if delta is not None:
            window = plan.windows[-1].problem
            carry = carry._replace(point=window.at(delta), taken=jnp.asarray(solver.steps))
            plan = plan._replace(windows=[])
    for wider, count in plan.windows:
        point, state = wider.adopt((carry.point, carry.state), window)
        window = wider
        carry = _run(solver, window, carry._replace(point=point, state=state), count, first_norm)
    # the final gradient needs one more reach of layers; if nobody uses it, XLA removes it
    point = plan.last.adopt(carry.point, window)
    value, norm = plan.last.value(point), plan.last.norm(plan.last.gradient(point))
    stop = solver.terminate(carry.state, LoopStatus(first_norm, norm, carry.taken))
    where: Any = RESULTS.where
    result: Any = RESULTS.steps_done if stop is None else where(*stop, RESULTS.not_converged)
    result = where(jnp.isfinite(value), result, RESULTS.nonfinite)
    trace = _record(carry.history, carry.taken, value, norm)
    state = problem.adopt(carry.state, window)
    return Solved(problem.adopt(point, plan.last), state, value, carry.taken, result, norm, trace)


def _record(history: History | None, index: Int[Array, ""], value: Scalar, norm: Scalar) -> History | None:
    if history is None:
        return None
    return History(history.energies.at[index].set(value), history.gradient_norms.at[index].set(norm))


def _run(solver: AbstractSolver, window: AbstractProblem, carry: _Carry, count: int, first_norm: Scalar) -> _Carry:
    """Take `count` steps on one window, fewer when the solver stops or the energy is no longer finite."""

    def advance(carry: _Carry) -> _Carry:
        gradient = window.gradient(carry.point)
        norm = window.norm(gradient)
        trace = carry.history
        if trace is not None:
            trace = _record(trace, carry.taken, window.value(carry.point), norm)
        point, state = solver.step(window, carry.point, gradient, carry.state)
        moved = carry._replace(point=point, state=state, taken=carry.taken + 1, history=trace)
        stop = solver.terminate(carry.state, LoopStatus(first_norm, norm, carry.taken))
        if stop is None:
            return moved
        ends = stop[0] | ~jnp.isfinite(norm)
        return jax.tree.map(lambda old, new: jnp.where(ends, old, new), carry._replace(stopped=ends), moved)

    if solver.terminate(carry.state, LoopStatus(first_norm, first_norm, carry.taken)) is None:
        return advance(carry) if count == 1 else jax.lax.fori_loop(0, count, lambda _, c: advance(c), carry)
    limit = carry.taken + count
    return jax.lax.while_loop(lambda c: (c.taken < limit) & ~c.stopped, advance, carry)
