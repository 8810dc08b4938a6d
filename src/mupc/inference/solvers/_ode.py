"""Inference as a gradient flow, integrated by diffrax."""

from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ...io import checks
from ...network import Real, Scalar
from .._problem import Increments, Problem, gradient_norm
from .._solution import RESULTS
from ._base import AbstractSolver, Progress, check_limits

if TYPE_CHECKING:
    import diffrax


class _State(NamedTuple):
    start: Scalar  # of the next step
    end: Scalar
    scale: Scalar  # the size of activities that atol is relative to
    solver: Any
    controller: Any
    jump: Any


class ODE(AbstractSolver[_State]):
    """dz/dt = −∂F/∂z from t = 0 to `t1`, or until it has come to rest.

    **Arguments:**

    - `solver`: a diffrax solver with an error estimate; `diffrax.Tsit5()` by default. Implicit ones, such as
      `diffrax.Kvaerno5()`, factorise a matrix of all activities of the batch: they are for small networks.
    - `t1`: the end time. `dt0`: the first step, chosen by itself by default.
    - `rtol`, `atol`: of the step size control, `atol` relative to the size of the first gradient. By default a
      hundredth of `tol` (1e-5 without one): an explicit solver dithers around the point of rest at about ten times
      its tolerance, and coarser settings would keep it from ever coming to rest.
    - `steps`: the most steps, rejected ones included.
    - `tol`: it has come to rest when the velocity has fallen to this fraction of its start; None to go on to `t1`.

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
        solver: Any = None,
        t1: Any = 1000.0,
        *,
        dt0: Any = None,
        rtol: Any = None,
        atol: Any = None,
        steps: int = 4096,
        tol: Any = 1e-3,
    ) -> None:
        diffrax = _diffrax()
        self.solver = diffrax.Tsit5() if solver is None else solver
        if not isinstance(self.solver, diffrax.AbstractAdaptiveSolver):
            raise TypeError(f"solver must be a diffrax solver with an error estimate such as Tsit5(), got {solver!r}.")
        if self.solver.term_structure is not diffrax.AbstractTerm:
            raise TypeError(f"solver must be for equations of one term, such as Tsit5() or Kvaerno5(), got {solver!r}.")
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

    @property
    def stops_early(self) -> bool:
        return True

    def init(self, problem: Problem, delta: Increments) -> _State:
        term = _flow(problem)
        end = jnp.asarray(self.t1, problem.base.dtype)
        start = jnp.zeros_like(end)
        slope = problem.gradient(delta, problem.errors_at_start())
        scale = jnp.maximum(gradient_norm(slope), jnp.finfo(end.dtype).tiny)
        controller = self._controller(scale)
        first, kept = controller.init(term, start, end, delta, self.dt0, None, self.solver.func, self._order(term))
        first = jnp.minimum(first, end)
        # flags may come as Python's, which the loop could not carry
        solver = jax.tree.map(jnp.asarray, self.solver.init(term, start, first, delta, None))
        kept = jax.tree.map(jnp.asarray, kept)
        return _State(start, first, scale, solver, kept, jnp.zeros((), bool))

    def step(
        self, problem: Problem, delta: Increments, gradient: Increments, state: _State
    ) -> tuple[Increments, _State]:
        term = _flow(problem)
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
        return jax.tree.map(choose, moved, delta), _State(first, last, scale, solver, kept, jump)

    def terminate(self, gradient: Increments, state: _State, progress: Progress) -> tuple[Bool[Array, ""], RESULTS]:
        rests, result = super().terminate(gradient, state, progress)
        over = state.start >= jnp.asarray(self.t1, state.start.dtype)
        where: Any = RESULTS.where
        return rests | over, where(rests, result, RESULTS.time_over)

    def _controller(self, scale: Scalar) -> "diffrax.PIDController":
        return _diffrax().PIDController(rtol=self.rtol, atol=self.atol * scale)

    def _within(self, controller: "diffrax.PIDController") -> "diffrax.AbstractSolver":
        """The solver, if it is implicit with the controller's tolerances for its equations, as diffrax sets them."""
        solver = self.solver
        if not isinstance(solver, _diffrax().AbstractImplicitSolver):
            return solver
        chosen = lambda value: eqx.is_array_like(value) or callable(value)  # noqa: E731 (diffrax has a placeholder else)
        names = [name for name in ("rtol", "atol", "norm") if not chosen(getattr(solver.root_finder, name))]
        pick = lambda tree: [getattr(tree, name) for name in names]  # noqa: E731
        return eqx.tree_at(lambda s: pick(s.root_finder), solver, pick(controller))

    def _order(self, term: Any) -> Any:
        return self.solver.error_order(term)


def _flow(problem: Problem) -> "diffrax.ODETerm":
    def velocity(t: Scalar, delta: Increments, args: None) -> Increments:
        return jax.tree.map(jnp.negative, problem.gradient(delta, problem.errors(delta)))

    return _diffrax().ODETerm(velocity)


def _diffrax() -> Any:
    """Imported when used: it takes a while, and most runs have no need of it."""
    import diffrax

    return diffrax
