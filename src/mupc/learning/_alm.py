"""Predictive coding by an augmented Lagrangian (PC-ALM): errors as constraints, with multipliers that enforce them."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..inference import (
    MARGIN,
    AbstractProblem,
    AbstractTunableSolver,
    Batch,
    Energy,
    LayerErrors,
    Point,
    extremes,
    pose,
    solve,
    zeros,
)
from ..io import checks
from ..network import AbstractNetwork, Precision, PRNGKeyArray, Real
from ._algorithm import AbstractForward, AlgorithmState, Defaults, LearningContext, StepReport, refuse_unsupervised
from ._gradients import error_gradients, with_penalties

AUTO = "auto"
REFRESH = 100
"""Weight updates after which `lr="auto"` looks at the spectrum again."""
PUBLISHED_LR = 0.25
"""The published step size; there it acts on the mean over a batch of B as 0.25·B."""


class AugmentedDescent(AbstractTunableSolver[Any]):
    """Gradient descent on the augmented Lagrangian, each step followed by one of the multipliers, which are its
    state."""

    steps: int
    lr: Real | str
    penalty: Real
    dual_lr: Real

    @property
    def local(self) -> bool:
        return True

    @property
    def tunes_every(self) -> int | None:
        return REFRESH if isinstance(self.lr, str) else None

    def tuned(self, problem: AbstractProblem) -> "AugmentedDescent":
        """Return the solver with half the step size at which the largest eigenvalue s of the Hessian becomes unstable.

        With k = lr·s, a step takes an error u and its multiplier μ to u' = (1 − kρ)u − kμ and μ + αu', which contracts
        for k(2ρ + α) < 4."""
        if not isinstance(self.lr, str):
            return self
        top = MARGIN * jnp.max(extremes(problem)[0])
        return dataclasses.replace(self, lr=2 / ((2 * self.penalty + self.dual_lr) * top))

    def init(self, problem: AbstractProblem, point: Point) -> Any:
        return zeros(point.errors.hidden)

    def pushed(self, point: Point, multipliers: Any) -> Point:
        """Return a point with ρe + μ, which takes the place of the errors."""
        errors = jax.tree.map(lambda e, m: self.penalty * e + m, point.errors.hidden, multipliers)
        return Point(point.delta, LayerErrors(errors, point.errors.output))

    def step(self, problem: AbstractProblem, point: Point, gradient: Any, state: Any) -> tuple[Point, Any]:
        slope = problem.gradient(self.pushed(point, state))
        moved = problem.at(jax.tree.map(lambda d, g: d - self.lr * g, point.delta, slope))
        return moved, jax.tree.map(lambda m, e: m + self.dual_lr * e, state, moved.errors.hidden)

    def terminate(self, state: Any, progress: Any) -> None:
        return None


class ALM(AbstractForward):
    """PC-ALM: predictive coding with multipliers on the errors e_ℓ = z_ℓ − f_ℓ(z_{ℓ-1}). It minimises

        λ·loss + Σ_ℓ (μ_ℓᵀe_ℓ + ρ/2 ‖e_ℓ‖²)

    over the activities, with μ ← μ + αe after every step. Weights learn from ρe + μ in place of the error. When it has
    converged the errors are zero and the multipliers are backpropagation's signals.

    **Arguments:**

    - `lr`: the step size of activities; `"auto"`: a stable one, from the spectrum of the problem, estimated again
      every 100 updates. The published 0.25 can be unstable once weights have grown.
    - `steps`: how many; by default twice the number of layers, as published.
    - `penalty`, `dual_lr`: ρ and α, both 1 as published.

    **Example:**

    ```python
    import jax.random as jr, mupc

    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=32, hidden_layers=4, key=jr.key(0))
    result = mupc.fit(network, digits, mupc.ALM(lr="auto"))
    ```
    """

    lr: Real | str = PUBLISHED_LR
    steps: int | None = eqx.field(static=True, default=None)
    penalty: Real = 1.0
    dual_lr: Real = 1.0

    def __check_init__(self) -> None:
        if isinstance(self.lr, str) and self.lr != AUTO:
            raise checks.ArgumentError("lr", f'must be a number or "auto", got {self.lr!r}.')
        if not isinstance(self.lr, str):
            checks.number("lr", self.lr, above=0)
        if self.steps is not None:
            checks.integer("steps", self.steps, 1)
        for name in ("penalty", "dual_lr"):
            checks.number(name, getattr(self, name), above=0)

    @property
    def defaults(self) -> Defaults:
        return Defaults(weight_lr=0.05, unscaled_weight_lr=0.02, output_precision=1.0)

    def check(self, network: AbstractNetwork, energy: Energy, unsupervised: bool) -> None:
        refuse_unsupervised("PC-ALM", unsupervised)

    def solver(self, network: AbstractNetwork) -> AugmentedDescent:
        """Return how to infer with this network."""
        steps = 2 * network.layer_count if self.steps is None else self.steps
        return AugmentedDescent(steps, self.lr, self.penalty, self.dual_lr)

    def update(
        self, state: AlgorithmState, batch: Batch, key: PRNGKeyArray, context: LearningContext
    ) -> tuple[AlgorithmState, StepReport]:
        network, solver = context.policy.cast((state.network, self.solver(state.network)))
        problem = pose(network, batch, context.energy, context.policy)
        solved = solve(solver, problem, history=False)
        found = problem.unpack(solver.pushed(solved.point, solved.state))
        gradients = error_gradients(network, found, batch.x, context.energy, context.policy)
        gradients = with_penalties(gradients, network, context.learned_energy)
        loss = jnp.mean(context.energy.output_loss(found.prediction, batch.y))
        return state.descended(gradients, context), StepReport(loss, solved.value, context.gradient_sizes(gradients))

    def why_no_kernels(
        self, network: AbstractNetwork, energy: Energy, policy: Precision, unsupervised: bool
    ) -> str | None:
        return "multipliers move with every step"

    @property
    def tunes_every(self) -> int | None:
        return REFRESH if isinstance(self.lr, str) else None

    def tuned(self, network: AbstractNetwork, batch: Batch, context: LearningContext) -> "ALM":
        network, solver = context.policy.cast((network, self.solver(network)))
        problem = pose(network, batch, context.energy, context.policy)
        return dataclasses.replace(self, lr=solver.tuned(problem).lr)
