"""Inference as a gradient flow, integrated by diffrax."""

from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ...io import checks
from ...network import Real, Scalar
from .._problem import AbstractProblem, Point, Unknowns
from .._solution import RESULTS
from ._base import AbstractSolver, LoopStatus, Stop, check_limits, converged_below, either

if TYPE_CHECKING:
    import diffrax


class _FlowState(NamedTuple):
    start: Scalar  # of the next step
    end: Scalar
    scale: Scalar  # the size of activities that atol is relative to
    solver: Any
    controller: Any
    jump: Any


class ODE(AbstractSolver[_FlowState]):
    """dz/dt = −∂F/∂z from t = 0 to `t1`, or until it has come to rest.

    **Arguments:**

    - `solver`: a diffrax solver with an error estimate; `diffrax.Tsit5()` by default. Implicit ones, such as
      `diffrax.Kvaerno5()`, factorise a matrix of all activities of the batch: they are for small networks.
    - `t1`: the end time. `dt0`: the first step, chosen by itself by default.
    - `rtol`, `atol`: of the step size control, `atol` relative to the size of the first gradient. By default a
      hundredth of `tol` (1e-5 without one): near rest an explicit solver fluctuates at about ten times its tolerance,
      so coarser settings would never come to rest.
    - `steps`: the most steps, rejected ones included.
    - `tol`: it has come to rest when the velocity has fallen to this fraction of its start; None to go on to `t1`. With
      ReLU and its like the velocity jumps where an activity crosses zero, and activities stick there: every jump costs
      several steps. 0.01 then takes a sixth of the steps.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    solution = mupc.infer(network, jnp.ones((2, 8)), jnp.array([0, 2]), mupc.ODE(t1=1000.0))
    mupc.RESULTS[solution.result]      # 'the relative gradient norm fell below the tolerance'
    ```
    """

    solver: "diffrax.AbstractSolver"
    t1: Real
    dt0: Real | None
    rtol: Real
    atol: Real
    steps: int
    tol: Real | None

    def __init__(
        self,
        solver: "diffrax.AbstractSolver | None" = None,
        t1: Real = 1000.0,
        *,
        dt0: Real | None = None,
        rtol: Real | None = None,
        atol: Real | None = None,
        steps: int = 4096,
        tol: Real | None = 1e-3,
    ) -> None:
        diffrax = _diffrax()
        self.solver = diffrax.Tsit5() if solver is None else solver
        if not isinstance(self.solver, diffrax.AbstractAdaptiveSolver):
            wanted = "must be a diffrax solver with an error estimate such as Tsit5()"
            raise checks.ArgumentTypeError("solver", f"{wanted}, got {checks.literal(solver)}.")
        if self.solver.term_structure is not diffrax.AbstractTerm:
            wanted = "must be for equations of one term, such as Tsit5() or Kvaerno5()"
            raise checks.ArgumentTypeError("solver", f"{wanted}, got {checks.literal(solver)}.")
        check_limits(steps, tol)
        fine = 1e-5 if tol is None else 1e-2 * tol
        self.rtol, self.atol = (fine if value is None else value for value in (rtol, atol))
        for name, value in {"t1": t1, "rtol": self.rtol, "atol": self.atol, "dt0": dt0}.items():
            if value is not None:
                checks.number(name, value, above=0)
        self.t1, self.dt0, self.steps, self.tol = t1, dt0, steps, tol

    @property
    def local(self) -> bool:
        return False

    def init(self, problem: AbstractProblem, point: Point) -> _FlowState:
        term, delta = _flow(problem), point.delta
        norm = problem.norm(problem.gradient(point))
        end = jnp.asarray(self.t1, norm.dtype)
        start = jnp.zeros_like(end)
        scale = jnp.maximum(norm, jnp.finfo(end.dtype).tiny)
        controller = self._controller(scale)
        first, kept = controller.init(term, start, end, delta, self.dt0, None, self.solver.func, self._order(term))
        first = jnp.minimum(first, end)
        # flags may come as Python's, which the loop could not carry
        solver = jax.tree.map(jnp.asarray, self.solver.init(term, start, first, delta, None))
        kept = jax.tree.map(jnp.asarray, kept)
        return _FlowState(start, first, scale, solver, kept, jnp.zeros((), bool))

    def step(
        self, problem: AbstractProblem[Unknowns], point: Point, gradient: Unknowns, state: _FlowState
    ) -> tuple[Point, _FlowState]:
        term, delta = _flow(problem), point.delta
        start, end, scale, solver, kept, jump = state
        controller = self._controller(scale)
        moved, error, _, following, _ = self._within(controller).step(term, start, end, delta, None, solver, jump)
        accept, first, last, jump, kept, _ = controller.adapt_step_size(
            start, end, delta, moved, None, error, self._order(term), kept
        )
        choose = lambda new, old: jnp.where(accept, new, old)  # noqa: E731
        first = jnp.asarray(first, scale.dtype)
        last = jnp.minimum(jnp.asarray(last, scale.dtype), jnp.asarray(self.t1, scale.dtype))
        solver = jax.tree.map(choose, following, solver)
        return problem.at(jax.tree.map(choose, moved, delta)), _FlowState(first, last, scale, solver, kept, jump)

    def terminate(self, state: _FlowState, progress: LoopStatus) -> Stop | None:
        why: Any = RESULTS.time_over
        over = state.start >= jnp.asarray(self.t1, state.start.dtype), why
        at_rest = converged_below(self.tol, progress)
        return over if at_rest is None else either(at_rest, over)

    def _controller(self, scale: Scalar) -> "diffrax.PIDController":
        return _diffrax().PIDController(rtol=self.rtol, atol=self.atol * scale)

    def _within(self, controller: "diffrax.PIDController") -> "diffrax.AbstractSolver":
        """Return the solver. An implicit one gets the controller's tolerances for its equations, as diffrax sets
        them."""
        solver = self.solver
        if not isinstance(solver, _diffrax().AbstractImplicitSolver):
            return solver
        chosen = lambda value: eqx.is_array_like(value) or callable(value)  # noqa: E731 (diffrax has a placeholder else)
        names = [name for name in ("rtol", "atol", "norm") if not chosen(getattr(solver.root_finder, name))]
        pick = lambda tree: [getattr(tree, name) for name in names]  # noqa: E731
        return eqx.tree_at(lambda s: pick(s.root_finder), solver, pick(controller))

    def _order(self, term: Any) -> Any:
        return self.solver.error_order(term)


def _flow(problem: AbstractProblem[Unknowns]) -> "diffrax.ODETerm":
    def velocity(t: Scalar, delta: Unknowns, args: None) -> Unknowns:
        return jax.tree.map(jnp.negative, problem.gradient(problem.at(delta)))

    return _diffrax().ODETerm(velocity)


def _diffrax() -> Any:
    """Import diffrax when it is used: that takes a while, and most runs do not need it."""
    import diffrax

    return diffrax
