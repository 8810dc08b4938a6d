"""Predictive coding with a nudge: the loss acts on the output with β times its force, in either direction."""

import equinox as eqx
import jax
import jax.numpy as jnp

from ..inference import AbstractSolver, Batch, Energy, infer_problem, pose_for, why_no_kernels
from ..io import checks
from ..network import AbstractNetwork, Precision, PRNGKeyArray, Real, Scalar
from ._algorithm import AlgorithmState, Defaults, LearningContext, StepReport, refuse_unsupervised
from ._gradients import error_gradients, with_penalties
from ._pc import PC, AbstractSolving

SIGNS = {"positive": (1.0,), "negative": (-1.0,), "centred": (1.0, -1.0)}
"""The directions of the nudges, by name."""


class Nudged(AbstractSolving):
    """Predictive coding with nudging: the loss acts on the output with weight βλ, and the weight gradient is divided
    by β.

    As β → 0 the gradient becomes backpropagation's. That of a single nudge is off by O(β), the mean over both signs by
    O(β²). A positive nudge is `mupc.PC` with βλ in place of λ. A negative one pushes the output away from its target,
    and its gradient counts with the opposite sign. With the squared error and an unbounded φ its energy has a minimum
    only while βλs < 1, where s is the largest eigenvalue of Σ_ℓ J_ℓJ_ℓᵀ with J_ℓ = ∂output/∂z_ℓ. The weights decide s,
    so no β is too strong for every network; cross-entropy and a bounded φ have a minimum for all.

    **Arguments:**

    - `solver`: how to infer.
    - `beta`: β. `final_beta`: where it ends; it then moves in a straight line over the run.
    - `sign`: `"positive"`, `"negative"` or `"centred"`: both, at twice the cost.

    **Example:**

    ```python
    import jax.random as jr, mupc

    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=32, hidden_layers=4, key=jr.key(0))
    algorithm = mupc.Nudged(mupc.GradientDescent(lr=0.1, steps=8), beta=0.3, sign="centred")
    result = mupc.fit(network, digits, algorithm)
    ```
    """

    solver: AbstractSolver
    beta: Real
    sign: str = "centred"
    final_beta: Real | None = None

    def __check_init__(self) -> None:
        cure = "Nudge away from the target with {sign} negative."
        checks.number("beta", self.beta, above=0, cure=cure)
        if self.final_beta is not None:
            checks.number("final_beta", self.final_beta, above=0, cure=cure)
        checks.lookup("sign", self.sign, SIGNS)

    @property
    def defaults(self) -> Defaults:
        return PC(self.solver).defaults._replace(output_precision=1.0)

    def check(self, network: AbstractNetwork, energy: Energy, unsupervised: bool) -> None:
        refuse_unsupervised("nudging", unsupervised)

    def init(self, network: AbstractNetwork, context: LearningContext) -> AlgorithmState:
        return AlgorithmState.start(network, context)

    def beta_at(self, share: Scalar) -> Real:
        """Return β after a share of the run."""
        return self.beta if self.final_beta is None else self.beta + share * (self.final_beta - self.beta)

    def update(
        self, state: AlgorithmState, batch: Batch, key: PRNGKeyArray, context: LearningContext
    ) -> tuple[AlgorithmState, StepReport]:
        network, solver = context.policy.cast((state.network, self.keyed_solver(key)))
        problem = pose_for(solver, network, batch, context.energy, context.policy)
        beta = self.beta_at(context.share(state.step))
        solutions, gradients = [], []
        for sign in SIGNS[self.sign]:
            precision = sign * beta * context.energy.output_weight
            nudged = eqx.tree_at(lambda at: at.energy.output_precision, problem, precision)
            solutions.append(infer_problem(network, nudged, solver, context.policy))
            gradients.append(error_gradients(network, solutions[-1], batch.x, nudged.energy, context.policy))
        mean = jax.tree.map(lambda *each: sum(each[1:], start=each[0]) / len(each), *gradients)
        mean = with_penalties(mean, network, context.learned_energy)
        loss = jnp.mean(context.energy.output_loss(solutions[0].prediction, batch.y))
        report = StepReport(loss, solutions[0].energy, context.gradient_sizes(mean))
        return state.descended(mean, context), report

    def why_no_kernels(
        self, network: AbstractNetwork, energy: Energy, policy: Precision, unsupervised: bool
    ) -> str | None:
        return why_no_kernels(network, self.solver, energy, policy, unsupervised)
