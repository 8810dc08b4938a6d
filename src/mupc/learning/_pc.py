"""Predictive coding: infer, then learn from every layer's own error."""

import jax.numpy as jnp
import jax.random as jr

from ..inference import (
    AbstractSolver,
    AbstractStochasticSolver,
    AbstractTunableSolver,
    Batch,
    Energy,
    ErrorSpace,
    check_solver,
    infer_batch,
    pose,
    why_no_kernels,
)
from ..network import AbstractNetwork, Outputs, Precision, PRNGKeyArray
from ._algorithm import AbstractAlgorithm, AlgorithmState, Defaults, LearningContext, StepReport
from ._gradients import solution_gradients

NOISE = 2**31 - 1
"""Where inference has its random numbers, apart from those with which the rows of a free z₀ start."""


class PC(AbstractAlgorithm):
    """Predictive coding: a solver minimises the energy over the activities, then each weight takes one step down its
    own layer's energy.

    **Arguments:** `solver`: how to infer, such as `mupc.GradientDescent(lr=0.01, steps=128)`.

    **Example:**

    ```python
    import jax.random as jr, mupc

    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=32, hidden_layers=8, key=jr.key(0))
    result = mupc.fit(network, digits, mupc.PC(mupc.ErrorSpace()))
    ```
    """

    solver: AbstractSolver

    def __check_init__(self) -> None:
        check_solver(self.solver)

    @property
    def defaults(self) -> Defaults:
        if isinstance(self.solver, ErrorSpace):
            return Defaults(weight_lr=0.05, unscaled_weight_lr=0.02, output_precision=0.01, rounds=True)
        return Defaults(weight_lr=0.2, unscaled_weight_lr=0.1, output_precision=1.0)

    def check(self, energy: Energy, unsupervised: bool) -> None:
        """Accept everything: solvers check the problem themselves."""

    def init(self, network: AbstractNetwork, context: LearningContext) -> AlgorithmState:
        return AlgorithmState.start(network, context)

    def update(
        self, state: AlgorithmState, batch: Batch, key: PRNGKeyArray, context: LearningContext
    ) -> tuple[AlgorithmState, StepReport]:
        network, solver = context.policy.cast((state.network, self.solver))
        if isinstance(solver, AbstractStochasticSolver):
            solver = solver.with_key(jr.fold_in(key, NOISE))
        solution = infer_batch(network, batch, solver, context.energy, context.policy)
        inputs = batch.x if solution.input is None else solution.input
        gradients = solution_gradients(network, solution, inputs, context.learned_energy)
        reached = solution.output if batch.free_input else solution.prediction
        loss = jnp.mean(context.energy.output_loss(reached, batch.y))
        report = StepReport(loss, solution.energy, context.gradient_sizes(gradients))
        return state.descended(gradients, context), report

    def predict(self, network: AbstractNetwork, batch: Batch, context: LearningContext) -> Outputs:
        """Predict by the forward pass; with a free input, by inference."""
        policy = context.policy.full
        if not batch.free_input:
            return network.forward_pass(batch.x, policy)[1]
        return infer_batch(network, batch, policy.cast(self.solver), context.energy, policy).output

    def why_no_kernels(
        self, network: AbstractNetwork, energy: Energy, policy: Precision, unsupervised: bool
    ) -> str | None:
        return why_no_kernels(network, self.solver, energy, policy, unsupervised)

    @property
    def tunes_every(self) -> int | None:
        return self.solver.tunes_every if isinstance(self.solver, AbstractTunableSolver) else None

    def tuned(self, network: AbstractNetwork, batch: Batch, context: LearningContext) -> "PC":
        if not isinstance(self.solver, AbstractTunableSolver):
            return self
        network, solver = context.policy.cast((network, self.solver))
        problem = pose(network, batch, context.energy, context.policy)
        return PC(solver.tuned(problem))
