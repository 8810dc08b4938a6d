"""Predictive coding: infer, then learn from every layer's own error."""

import dataclasses
from typing import TypeVar

import equinox as eqx
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

SomeSolving = TypeVar("SomeSolving", bound="AbstractSolving")
NOISE = 2**31 - 1
"""Where inference has its random numbers, apart from those with which the rows of a free z₀ start."""


class AbstractSolving(AbstractAlgorithm):
    """An algorithm that infers with a solver. It predicts by the forward pass; with a free input, by inference."""

    solver: eqx.AbstractVar[AbstractSolver]

    def __check_init__(self) -> None:
        check_solver(self.solver)

    def keyed_solver(self, key: PRNGKeyArray) -> AbstractSolver:
        """Return the solver for one batch, with random numbers of its own if it needs any."""
        if isinstance(self.solver, AbstractStochasticSolver):
            return self.solver.with_key(jr.fold_in(key, NOISE))
        return self.solver

    def predict(self, network: AbstractNetwork, batch: Batch, context: LearningContext) -> Outputs:
        policy = context.policy.full
        if not batch.free_input:
            return network.forward_pass(batch.x, policy)[1]
        return infer_batch(network, batch, policy.cast(self.solver), context.energy, policy).output

    @property
    def tunes_every(self) -> int | None:
        return self.solver.tunes_every if isinstance(self.solver, AbstractTunableSolver) else None

    def tuned(self: SomeSolving, network: AbstractNetwork, batch: Batch, context: LearningContext) -> SomeSolving:
        if not isinstance(self.solver, AbstractTunableSolver):
            return self
        network, solver = context.policy.cast((network, self.solver))
        problem = pose(network, batch, context.energy, context.policy)
        return dataclasses.replace(self, solver=solver.tuned(problem))


class PC(AbstractSolving):
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

    @property
    def defaults(self) -> Defaults:
        if isinstance(self.solver, ErrorSpace):
            return Defaults(weight_lr=0.05, unscaled_weight_lr=0.02, output_precision=0.01, rounds=True)
        return Defaults(weight_lr=0.2, unscaled_weight_lr=0.1, output_precision=1.0)

    def check(self, network: AbstractNetwork, energy: Energy, unsupervised: bool) -> None:
        """Accept everything: solvers check the problem themselves."""

    def init(self, network: AbstractNetwork, context: LearningContext) -> AlgorithmState:
        return AlgorithmState.start(network, context)

    def update(
        self, state: AlgorithmState, batch: Batch, key: PRNGKeyArray, context: LearningContext
    ) -> tuple[AlgorithmState, StepReport]:
        network, solver = context.policy.cast((state.network, self.keyed_solver(key)))
        solution = infer_batch(network, batch, solver, context.energy, context.policy)
        gradients = solution_gradients(network, solution, batch.x, context.learned_energy)
        reached = solution.output if batch.free_input else solution.prediction
        loss = jnp.mean(context.energy.output_loss(reached, batch.y))
        report = StepReport(loss, solution.energy, context.gradient_sizes(gradients))
        return state.descended(gradients, context), report

    def why_no_kernels(
        self, network: AbstractNetwork, energy: Energy, policy: Precision, unsupervised: bool
    ) -> str | None:
        return why_no_kernels(network, self.solver, energy, policy, unsupervised)
