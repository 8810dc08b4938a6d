"""The loop that every solver shares.

From the forward pass only the last layer has a gradient, and a local step passes it down by one layer (n with an
n-skip). Layers not reached yet are exactly zero. The loop therefore runs in a few segments of fixed shape, each on
just the layers that it can reach: the same result for about 56 % of the work when there are as many steps as layers.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from ...network import Scalar
from .._problem import Errors, Increments, Problem, gradient_norm, pad_below
from .._solution import RESULTS, History
from ._base import AbstractSolver, Progress

SEGMENTS = 8
"""At most this many compiled loop bodies: more save little work and cost compile time."""


WORTHWHILE = 16
"""Windows are used up to so many steps for each that it takes to reach all layers."""


class Segment(NamedTuple):
    """Take `steps` steps on the uppermost `layers`."""

    layers: int
    steps: int


class _Carry(NamedTuple):
    delta: Increments
    state: Any
    taken: Int[Array, ""]
    stopped: Bool[Array, ""]
    first_norm: Scalar
    history: History | None


class Solved(NamedTuple):
    """What the loop hands to `infer`: δ with its errors and energy, steps taken, why it stopped, the gradient norm at
    the end, the history."""

    delta: Increments
    errors: Errors
    value: Scalar
    steps: Int[Array, ""]
    result: RESULTS
    gradient_norm: Scalar
    history: History | None


def segments(depth: int, reach: int, steps: int, windowed: bool) -> list[Segment]:
    """Splits `steps` so that each part works on no more layers than it needs. One step reaches `reach` layers."""
    if not windowed or steps == 0:
        return [Segment(depth, steps)]
    until_full = -(-depth // reach)
    growing = min(steps, until_full)
    parts = min(SEGMENTS, growing)
    ends = [growing * (i + 1) // parts for i in range(parts)]
    starts = [0, *ends[:-1]]
    ends[-1] = steps
    return [Segment(min(depth, reach * end), end - start) for start, end in zip(starts, ends, strict=True)]


def solve(solver: AbstractSolver, problem: Problem, history: bool) -> Solved:
    """Runs `solver` on `problem` from δ = 0."""
    depth, reach = problem.depth, max(1, problem.skip)
    # where most steps work on all layers anyway, the windows would cost more compile time than they save
    windowed = solver.local and problem.spreads_from_the_top and solver.steps * reach <= WORTHWHILE * depth
    plan = segments(depth, reach, solver.steps, windowed)
    problem = problem.prepared([segment.layers for segment in plan])

    def resize(tree: PyTree, layers: int) -> PyTree:
        if not windowed:
            return tree
        # arrays that belong to layers are recognised by their shape; counters and the like stay as they are
        sample = problem.base.shape[1:]
        fits = lambda leaf: eqx.is_array(leaf) and leaf.ndim == 3 and leaf.shape[1:] == sample  # noqa: E731
        return jax.tree.map(lambda leaf: pad_below(leaf, layers) if fits(leaf) else leaf, tree)

    window = problem.top(plan[0].layers)
    delta = window.start()
    first_norm = gradient_norm(window.gradient(delta, window.errors_at_start()))
    length = solver.steps + 1
    blank = jnp.full(length, jnp.nan, problem.base.dtype)
    carry = _Carry(
        delta=delta,
        state=solver.init(window, delta),
        taken=jnp.zeros((), int),
        stopped=jnp.zeros((), bool),
        first_norm=first_norm,
        history=History(blank, blank) if history else None,
    )
    arrived = None if history else solver.all_steps(problem.top(plan[-1].layers), plan)
    if arrived is not None:
        carry = carry._replace(delta=arrived, taken=jnp.asarray(solver.steps))
        plan = []
    for layers, count in plan:
        window = problem.top(layers)
        carry = carry._replace(delta=resize(carry.delta, layers), state=resize(carry.state, layers))
        carry = _run(solver, window, carry, count)

    # one more gradient, one reach further down, tells where the solver arrived; unused, it is compiled away
    window = problem.top(min(depth, carry.delta.hidden.shape[0] + reach) if windowed else depth)
    delta, state = resize(carry.delta, window.depth), resize(carry.state, window.depth)
    e = solver.errors(window, delta, state)
    gradient = window.gradient(delta, e)
    value, norm = window.value(delta, e), gradient_norm(gradient)
    where: Any = RESULTS.where
    result: Any = RESULTS.steps_done
    if solver.stops_early:
        done, why = solver.terminate(gradient, state, Progress(carry.first_norm, carry.taken))
        result = where(done, why, RESULTS.not_converged)
    result = where(jnp.isfinite(value), result, RESULTS.nonfinite)
    trace = _record(carry.history, carry.taken, value, norm)
    whole = Errors(resize(e.hidden, depth), e.output)
    return Solved(resize(delta, depth), whole, value, carry.taken, result, norm, trace)


def _record(history: History | None, index: Int[Array, ""], value: Scalar, norm: Scalar) -> History | None:
    if history is None:
        return None
    return History(history.energies.at[index].set(value), history.gradient_norms.at[index].set(norm))


def _run(solver: AbstractSolver, window: Problem, carry: _Carry, count: int) -> _Carry:
    """`count` steps on one window, fewer when the tolerance is met or the energy is no longer finite."""

    def advance(carry: _Carry) -> _Carry:
        e = solver.errors(window, carry.delta, carry.state)
        gradient = window.gradient(carry.delta, e)
        trace = carry.history
        if trace is not None:
            trace = _record(trace, carry.taken, window.value(carry.delta, e), gradient_norm(gradient))
        delta, state = solver.step(window, carry.delta, gradient, carry.state)
        moved = carry._replace(delta=delta, state=state, taken=carry.taken + 1, history=trace)
        if not solver.stops_early:
            return moved
        done, _ = solver.terminate(gradient, carry.state, Progress(carry.first_norm, carry.taken))
        stop = done | ~jnp.isfinite(gradient_norm(gradient))
        return jax.tree.map(lambda old, new: jnp.where(stop, old, new), carry._replace(stopped=stop), moved)

    if not solver.stops_early:
        return advance(carry) if count == 1 else jax.lax.fori_loop(0, count, lambda _, c: advance(c), carry)
    limit = carry.taken + count
    return jax.lax.while_loop(lambda c: (c.taken < limit) & ~c.stopped, advance, carry)
