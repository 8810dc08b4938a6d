"""Incremental predictive coding: a weight step after every activity step."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from ..inference import (
    ODE,
    AbstractProblem,
    AbstractSolver,
    AbstractTunableSolver,
    Arrays,
    Batch,
    Energy,
    ExactLinear,
    add,
    pose,
    pose_for,
)
from ..io import checks
from ..network import AbstractNetwork, Precision, PRNGKeyArray
from ._algorithm import AlgorithmState, Defaults, LearningContext, StepReport
from ._gradients import error_gradients, with_penalties
from ._pc import AbstractSolving


class _Progress(NamedTuple):
    """Where a batch stands: weights, the batch at its present activities, the solver's state, and the last report."""

    state: AlgorithmState
    batch: Batch
    solver: Any
    report: StepReport


class IPC(AbstractSolving):
    """Incremental predictive coding: every step of inference is followed by a step of the weights. Activities are kept
    from step to step within a batch.

    A batch takes as many optimiser steps as the solver has steps, so use smaller learning rates than with `mupc.PC`.
    With one step both are the same.

    **Arguments:** `solver`: how to move activities, such as `mupc.GradientDescent(lr=0.1, steps=8)`. It takes all its
    steps, so it may not have a tolerance.

    **Example:**

    ```python
    import jax.random as jr, mupc

    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=32, hidden_layers=4, key=jr.key(0))
    result = mupc.fit(network, digits, mupc.IPC(mupc.GradientDescent(lr=0.1, steps=8)))
    ```
    """

    solver: AbstractSolver

    def __check_init__(self) -> None:
        if isinstance(self.solver, ODE | ExactLinear):
            wrong = f"is {type(self.solver).__name__}, which does not take steps that weights could follow."
            raise checks.ArgumentError("solver", wrong, "Use {GradientDescent}, {Optax} or {ErrorSpace}.")
        if getattr(self.solver, "steps", None) == 0:
            cure = "Give {steps} of at least 1."
            raise checks.ArgumentError("the solver", "takes no steps, and iPC learns at its steps.", cure)
        if getattr(self.solver, "tol", None) is not None:
            wrong = 'stops at a tolerance, as with {lr} "auto", and iPC takes every step.'
            raise checks.ArgumentError("the solver", wrong, "Leave out {tol}, and give {lr} and {steps} as numbers.")

    @property
    def defaults(self) -> Defaults:
        return Defaults(weight_lr=0.05, unscaled_weight_lr=0.02, output_precision=1.0)

    def check(self, network: AbstractNetwork, energy: Energy, unsupervised: bool) -> None:
        """Accept everything: solvers check the problem themselves."""

    def init(self, network: AbstractNetwork, context: LearningContext) -> AlgorithmState:
        return AlgorithmState.start(network, context)

    def update(
        self, state: AlgorithmState, batch: Batch, key: PRNGKeyArray, context: LearningContext
    ) -> tuple[AlgorithmState, StepReport]:
        solver, policy = context.policy.cast(self.keyed_solver(key)), context.policy
        network = policy.cast(state.network)
        problem = pose_for(solver, network, batch, context.energy, policy)
        if isinstance(solver, AbstractTunableSolver):
            solver = solver.tuned(problem)
        start = problem.start()
        found = problem.unpack(start)
        loss = jnp.mean(context.energy.output_loss(found.prediction, batch.y))
        nothing = jnp.zeros_like(context.gradient_sizes(network))
        report = StepReport(loss, problem.value(start), nothing)
        progress = _Progress(state, _batch_at(batch, found), solver.init(problem, start), report)
        progress = jax.lax.fori_loop(0, solver.steps, lambda i, at: _advance(solver, at, context, i), progress)
        return dataclasses.replace(progress.state, step=state.step + 1), progress.report._replace(loss=loss)

    def why_no_kernels(
        self, network: AbstractNetwork, energy: Energy, policy: Precision, unsupervised: bool
    ) -> str | None:
        return "weights change with every step"


def _batch_at(batch: Batch, found: Arrays) -> Batch:
    """Return the batch at the activities of a point, whose errors and output are known."""
    x = batch.x if found.input is None else found.input
    return dataclasses.replace(batch, x=x, activities=found.activities, known=(found.errors, found.output))


def _advance(solver: AbstractSolver, progress: _Progress, context: LearningContext, index: Int[Array, ""]) -> _Progress:
    """Move the activities, then the weights. The last step reports the sizes of its gradients."""
    state, batch, solver_state, report = progress
    network = context.policy.cast(state.network)
    problem: AbstractProblem = pose(network, batch, context.energy, context.policy)
    start = problem.start()
    point, solver_state = solver.step(problem, start, problem.gradient(start), solver_state)
    found = problem.unpack(point)
    gradients = error_gradients(network, found, batch.x, context.energy, context.policy)
    gradients = with_penalties(gradients, network, context.learned_energy)
    learnt = dataclasses.replace(state.descended(gradients, context), step=state.step)
    moved = _batch_at(batch, found)
    new, full = context.policy.cast(learnt.network), context.policy.full
    # added to what is known, so that errors of layers that did not learn stay as exact as they were
    known = add(moved.known, network.error_change(new, moved.activities, moved.x, full))
    is_last = index == solver.steps - 1
    sizes = jax.lax.cond(is_last, lambda: context.gradient_sizes(gradients), lambda: report.gradient_sizes)
    report = report._replace(energy=problem.value(point), gradient_sizes=sizes)
    return _Progress(learnt, dataclasses.replace(moved, known=known), solver_state, report)
