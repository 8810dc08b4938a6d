"""Predictive coding with an amortised start: a second network learns where inference ends."""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float

from ..inference import AbstractSolver, Batch, Energy, Increments, infer_batch, pose
from ..io import checks
from ..network import AbstractNetwork, Network, Outputs, Precision, PRNGKeyArray, Real
from ._algorithm import AlgorithmState, Defaults, LearningContext, StepReport, refuse_unsupervised
from ._gradients import solution_gradients
from ._pc import AbstractSolving

Errors = Float[Array, "layers batch width"]
EPSILON = 1e-12
"""Adam's ε for the second network, whose gradients are products of two small errors."""


class Amortiser(NamedTuple):
    """The second network, and the state of its optimiser."""

    network: Network
    optimiser: optax.OptState


class Amortised(AbstractSolving):
    """Predictive coding whose inference starts at a guess. A second network, linear and as deep as the first, takes the
    error of the output down from the readout and guesses the error of every layer. It learns from the errors that
    inference ends with, each of its layers from its own alone.

    Its input weights start at zero, so that the first guess is the forward pass. As it learns, inference
    starts near where it ended on earlier samples. A few steps then reach as low an energy as many steps from the
    forward pass, and layers that these steps alone would not reach.

    **Arguments:** `solver`: how to infer from the guess; `start_lr`: the learning rate of the second network; `seed` of
    its first weights. For `mupc.Network` alone.

    **Example:**

    ```python
    import jax.random as jr, mupc

    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=32, hidden_layers=8, key=jr.key(0))
    result = mupc.fit(network, digits, mupc.Amortised(mupc.GradientDescent(lr=0.1, steps=2)))
    ```
    """

    solver: AbstractSolver
    start_lr: Real = 0.003
    seed: int = 0

    def __check_init__(self) -> None:
        checks.number("start_lr", self.start_lr, above=0)
        checks.seed(self.seed)

    @property
    def defaults(self) -> Defaults:
        return Defaults(weight_lr=0.05, unscaled_weight_lr=0.02, output_precision=1.0)

    def check(self, network: AbstractNetwork, energy: Energy, unsupervised: bool) -> None:
        refuse_unsupervised("an amortised start", unsupervised)
        if not isinstance(network, Network):
            wrong = f"is a {type(network).__name__}, and an amortised start is for layers of equal width."
            raise checks.ArgumentError("the network", wrong, "Use {Network}, or {PC} with a solver.")

    def init(self, network: AbstractNetwork, context: LearningContext) -> AlgorithmState:
        assert isinstance(network, Network)
        sizes = network.out_size, 1, network.width, network.hidden_layers
        made = Network(*sizes, activation="linear", skip=min(network.skip, 1), key=jr.key(self.seed))
        second = context.policy.cast(eqx.tree_at(lambda at: at.input.weight, made, replace_fn=jnp.zeros_like))
        return AlgorithmState.start(network, context, Amortiser(second, self._rule.init(second)))

    @property
    def _rule(self) -> optax.GradientTransformation:
        return optax.adam(self.start_lr, eps=EPSILON)

    def update(
        self, state: AlgorithmState, batch: Batch, key: PRNGKeyArray, context: LearningContext
    ) -> tuple[AlgorithmState, StepReport]:
        network, solver = context.policy.cast((state.network, self.keyed_solver(key)))
        energy, policy, second = context.energy, context.policy, state.memory.network
        problem = pose(network, batch, energy, policy)
        start = problem.unpack(problem.start())
        guess = energy.output_weight * second.forward_pass(start.output_error, policy)[0][::-1]
        guessed = problem.unpack(problem.follow(Increments(guess.mT, None)))
        known = guessed.errors, guessed.output
        placed = dataclasses.replace(batch, activities=guessed.activities, known=known)
        solution = infer_batch(network, placed, solver, energy, policy)
        gradients = solution_gradients(network, solution, batch.x, context.learned_energy)
        loss = jnp.mean(energy.output_loss(start.prediction, batch.y))
        memory = self._taught(state.memory, start.output_error, solution.errors / energy.output_weight, policy)
        report = StepReport(loss, solution.energy, context.gradient_sizes(gradients))
        return dataclasses.replace(state.descended(gradients, context), memory=memory), report

    def _taught(self, memory: Amortiser, signal: Outputs, errors: Errors, policy: Precision) -> Amortiser:
        """Return the second network after it has learnt these errors, in units of λ."""
        network, targets = memory.network, errors[::-1]
        missed, output = network.prediction_errors(targets, signal, policy)
        gradients = network.local_gradients(signal, targets, missed, jnp.zeros_like(output), policy)
        updates, optimiser = self._rule.update(gradients, memory.optimiser, network)
        return Amortiser(optax.apply_updates(network, updates), optimiser)

    def why_no_kernels(
        self, network: AbstractNetwork, energy: Energy, policy: Precision, unsupervised: bool
    ) -> str | None:
        return "they start at the forward pass, not at a guess"
