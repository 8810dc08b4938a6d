"""Gradient descent on the activities, the paper's inference, with momentum and with automatic settings."""

import dataclasses
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from ...io import checks
from ...network import Real, Scalar
from .._problem import AbstractProblem, Point, Unknowns, zeros
from .._solution import RESULTS
from ._base import AbstractTunableSolver, LoopStatus, Stop, check_limits, converged_below, either, is_zero
from ._spectrum import extremes

AUTO = "auto"
AUTO_TOL, AUTO_STEPS, AUTO_REFRESH = 1e-3, 10_000, 100
MARGIN = 1.05
"""Safety factor: Lanczos underestimates the largest eigenvalue slightly, and it varies between batches."""

PATIENCE = 4
"""Allow this many times the steps of a quadratic energy, because the curvature changes on the way."""


class DescentSettings(eqx.Module):
    """Step size, momentum and step limit that suit the spectrum of a problem."""

    lr: Scalar
    momentum: Scalar
    limit: Int[Array, ""]

    @classmethod
    def of(cls, problem: AbstractProblem, tol: Real, steps: int) -> "DescentSettings":
        """Estimate the extreme eigenvalues of a problem, and choose settings for them."""
        largest, smallest = extremes(problem)
        top = MARGIN * jnp.max(largest)
        root = jnp.sqrt(top / jnp.maximum(jnp.min(smallest), jnp.finfo(top.dtype).tiny))
        count = PATIENCE * root * jnp.log(1 / jnp.asarray(tol)) + 2 * problem.depth
        limit = jnp.minimum(jnp.nan_to_num(count, nan=0, posinf=steps), steps).astype(int)
        return cls(1 / top, (root - 1) / (root + 1), limit)


class _Descent(NamedTuple):
    velocity: Any  # None without momentum
    settings: DescentSettings | None  # None with settings of the user's own


class GradientDescent(AbstractTunableSolver[_Descent]):
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
    default), and `mupc.fit` estimates again every `refresh` weight updates.

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
    settings: DescentSettings | None

    def __init__(
        self,
        lr: Real | Literal["auto"],
        steps: int | None = None,
        *,
        momentum: Real = 0.0,
        nesterov: bool = False,
        tol: Real | None = None,
        refresh: int = AUTO_REFRESH,
        settings: DescentSettings | None = None,
    ) -> None:
        auto = isinstance(lr, str)
        if auto and lr != AUTO:
            raise checks.ArgumentError("lr", f'must be a number or "auto", got {lr!r}.')
        if not auto and steps is None:
            raise checks.ArgumentError("steps", "is missing:", 'give a number, such as 16, or use {lr} "auto".')
        if auto and not is_zero(momentum):
            raise checks.ArgumentError(
                "momentum", f'is chosen by {{lr}} "auto" itself, got {momentum!r}.', "Leave it out."
            )
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
        self.settings = settings
        check_limits(self.steps, self.tol)

    @property
    def local(self) -> bool:
        return True

    @property
    def plain_rate(self) -> Real | None:
        """The step size of plain descent, with neither momentum nor a tolerance; None for other forms."""
        if isinstance(self.lr, str) or not is_zero(self.momentum) or self.tol is not None:
            return None
        return self.lr

    def init(self, problem: AbstractProblem, point: Point) -> _Descent:
        still = self.settings is None and is_zero(self.momentum)
        return _Descent(None if still else zeros(point.delta), self.settings)

    def step(
        self, problem: AbstractProblem[Unknowns], point: Point, gradient: Unknowns, state: _Descent
    ) -> tuple[Point, _Descent]:
        settings = state.settings
        lr, momentum = (self.lr, self.momentum) if settings is None else (settings.lr, settings.momentum)
        ahead, velocity = gradient, state.velocity
        if velocity is not None:
            velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, gradient)
            ahead = jax.tree.map(lambda v, g: momentum * v + g, velocity, gradient) if self.nesterov else velocity
        delta = jax.tree.map(lambda d, a: d - lr * a, point.delta, ahead)
        return problem.at(delta), _Descent(velocity, settings)

    def terminate(self, state: _Descent, progress: LoopStatus) -> Stop | None:
        converged = converged_below(self.tol, progress)
        if converged is None or state.settings is None:
            return converged
        out_of_steps: Any = RESULTS.not_converged
        return either(converged, (progress.taken >= state.settings.limit, out_of_steps))

    @property
    def tunes_every(self) -> int | None:
        return self.refresh if isinstance(self.lr, str) else None

    def tuned(self, problem: AbstractProblem) -> "GradientDescent":
        if not isinstance(self.lr, str) or self.settings is not None:
            return self
        tol = AUTO_TOL if self.tol is None else self.tol
        settings = DescentSettings.of(problem, tol, self.steps)
        return dataclasses.replace(self, settings=settings)
