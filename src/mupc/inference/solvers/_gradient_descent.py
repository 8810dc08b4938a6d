"""Gradient descent on the activities, the paper's inference, with momentum and with automatic settings."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ...io import checks
from ...network import Network, Real
from .._problem import Increments, Problem
from .._solution import RESULTS
from ..kernels import _blocked, _fused
from ._base import AbstractSolver, Progress, check_limits
from ._spectrum import extremes

AUTO = "auto"
AUTO_TOL, AUTO_STEPS, AUTO_REFRESH = 1e-3, 10_000, 100
MARGIN = 1.05
"""The largest eigenvalue is found a little too small, and differs a little between batches."""


PATIENCE = 4
"""Times the number of steps that a quadratic energy would need: curvature changes on the way to the equilibrium."""


class GradientDescent(AbstractSolver[Increments | None]):
    """z ← z − lr·∂F/∂z for every sample and layer at once, with momentum if asked for.

    **Arguments:**

    - `lr`: the step size, acting on *one sample's* energy, so that it means the same at any batch size. The paper's
      β multiplies the gradient of the batch mean instead: lr = β / 64 at its batch size.
    - `steps`: how many. The paper takes as many as there are hidden layers; `steps=1` is one-step inference, and
      `steps=0` gives the forward pass.
    - `momentum`, `nesterov`: v ← momentum·v + ∂F/∂z, then z ← z − lr·v, or z ← z − lr·(∂F/∂z + momentum·v).
    - `tol`: stop earlier when the gradient norm has fallen to this fraction of its start.

    With `lr="auto"` the step size, Nesterov's momentum and the number of steps come from the largest and smallest
    eigenvalue λ₁, λ₀ of the activity Hessian, estimated at the start: lr = 1/λ₁, momentum (√κ−1)/(√κ+1) with
    κ = λ₁/λ₀, and up to 4·√κ·log(1/tol) steps. `tol` is then 1e-3 by default, `steps` an upper limit (10,000 by
    default), and `mupc.fit` estimates anew every `refresh` weight updates.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    x, y = jnp.ones((5, 8)), jnp.eye(3)[jnp.array([0, 1, 2, 0, 1])]
    solution = mupc.infer(network, x, y, mupc.GradientDescent(lr=0.1, steps=4))
    solution = mupc.infer(network, x, y, mupc.GradientDescent(lr="auto"))
    mupc.RESULTS[solution.result]      # 'the relative gradient norm fell below the tolerance'
    ```
    """

    lr: Real | str
    steps: int
    momentum: Real
    nesterov: bool
    tol: Real | None
    refresh: int
    limit: Int[Array, ""] | None  # the number of steps that automatic settings allow

    def __init__(
        self,
        lr: Any,
        steps: int | None = None,
        *,
        momentum: Any = 0.0,
        nesterov: bool = False,
        tol: Any = None,
        refresh: int = AUTO_REFRESH,
        limit: Int[Array, ""] | None = None,
    ) -> None:
        auto = isinstance(lr, str)
        if auto and lr != AUTO:
            raise ValueError(f'lr must be a number or "auto", got {lr!r}.')
        if not auto and steps is None:
            raise ValueError('steps is missing: say how many, such as steps=16, or use lr="auto".')
        if auto and not (isinstance(momentum, int | float) and momentum == 0):
            raise ValueError(f'lr="auto" chooses the momentum itself, got momentum={momentum!r}. Leave it out.')
        if not auto:
            checks.number("lr", lr, above=0)
        checks.number("momentum", momentum, at_least=0, below=1)
        checks.boolean("nesterov", nesterov)
        self.lr = lr
        self.steps = AUTO_STEPS if steps is None else steps
        self.momentum = momentum
        self.nesterov = nesterov or auto
        self.tol = AUTO_TOL if auto and tol is None else tol
        self.refresh = checks.integer("refresh", refresh, 1)
        self.limit = limit
        check_limits(self.steps, self.tol)

    @property
    def local(self) -> bool:
        return True

    @property
    def _plain(self) -> bool:
        return isinstance(self.momentum, int | float) and self.momentum == 0

    def all_steps(self, problem: Problem, plan: Sequence[tuple[int, int]]) -> Increments | None:
        if not self._plain or self.stops_early or isinstance(self.lr, str):
            return None
        if _fused.available(problem):
            return _fused.descend(problem, self.lr, self.steps)
        return _blocked.descend(problem, self.lr, plan) if _blocked.available(problem) else None

    def init(self, problem: Problem, delta: Increments) -> Increments | None:
        return None if self._plain else jax.tree.map(jnp.zeros_like, delta)

    def step(
        self, problem: Problem, delta: Increments, gradient: Increments, state: Increments | None
    ) -> tuple[Increments, Increments | None]:
        if state is None:
            return jax.tree.map(lambda d, g: d - self.lr * g, delta, gradient), None
        velocity = jax.tree.map(lambda v, g: self.momentum * v + g, state, gradient)
        ahead = jax.tree.map(lambda v, g: self.momentum * v + g, velocity, gradient) if self.nesterov else velocity
        return jax.tree.map(lambda d, a: d - self.lr * a, delta, ahead), velocity

    def terminate(
        self, gradient: Increments, state: Increments | None, progress: Progress
    ) -> tuple[Bool[Array, ""], RESULTS]:
        done, result = super().terminate(gradient, state, progress)
        if self.limit is None:
            return done, result
        where: Any = RESULTS.where
        return done | (progress.taken >= self.limit), where(done, result, RESULTS.not_converged)

    def check(self, network: Network, problem: Problem) -> None:
        if isinstance(self.lr, str) and problem.base_input is not None and not problem.energy.decays_activities:
            raise ValueError(
                'lr="auto" needs a positive definite Hessian, and with a free z₀ it is only semidefinite. '
                "Give lr a number, add activity decay, or use mupc.ErrorSpace."
            )

    @property
    def retunes_every(self) -> int | None:
        return self.refresh if isinstance(self.lr, str) else None

    def tuned(self, problem: Problem) -> "GradientDescent":
        if not isinstance(self.lr, str):
            return self
        largest, smallest = extremes(problem)
        top = MARGIN * jnp.max(largest)
        root = jnp.sqrt(top / jnp.maximum(jnp.min(smallest), jnp.finfo(top.dtype).tiny))
        tol = AUTO_TOL if self.tol is None else self.tol
        count = PATIENCE * root * jnp.log(1 / jnp.asarray(tol)) + 2 * problem.depth
        limit = jnp.minimum(jnp.nan_to_num(count, nan=0, posinf=self.steps), self.steps).astype(int)
        return dataclasses.replace(self, lr=1 / top, momentum=(root - 1) / (root + 1), limit=limit)
