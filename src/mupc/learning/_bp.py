"""Backpropagation, the baseline on the same network."""

import jax.numpy as jnp

from ..inference import Batch, Energy
from ..network import AbstractNetwork, Precision, PRNGKeyArray
from ._algorithm import (
    AbstractForward,
    AbstractUntuned,
    AlgorithmState,
    Defaults,
    LearningContext,
    StepReport,
    refuse_unsupervised,
)
from ._gradients import backprop_step, check_backprop


class BP(AbstractForward, AbstractUntuned):
    """Backpropagation with the same network, multipliers, loss and optimiser: what predictive coding is compared with.

    **Example:**

    ```python
    import jax.random as jr, mupc

    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=32, hidden_layers=8, key=jr.key(0))
    result = mupc.fit(network, digits, mupc.BP())
    ```
    """

    @property
    def defaults(self) -> Defaults:
        return Defaults(weight_lr=0.05, unscaled_weight_lr=0.02, output_precision=1.0, rounds=True)

    def check(self, network: AbstractNetwork, energy: Energy, unsupervised: bool) -> None:
        check_backprop(energy)
        refuse_unsupervised("backpropagation", unsupervised)

    def update(
        self, state: AlgorithmState, batch: Batch, key: PRNGKeyArray, context: LearningContext
    ) -> tuple[AlgorithmState, StepReport]:
        network = context.policy.cast(state.network)
        gradients, prediction = backprop_step(network, batch, context.learned_energy, context.policy)
        loss = jnp.mean(context.energy.output_loss(prediction, batch.y))
        return state.descended(gradients, context), StepReport(loss, loss, context.gradient_sizes(gradients))

    def why_no_kernels(
        self, network: AbstractNetwork, energy: Energy, policy: Precision, unsupervised: bool
    ) -> str | None:
        return "only inference has them"
