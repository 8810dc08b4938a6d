"""Zero-divergence inference learning: predictive coding that takes backpropagation's step."""

import dataclasses

import jax.numpy as jnp

from ..inference import Batch, Energy, LayerErrors, Point, pose
from ..io import checks
from ..network import AbstractNetwork, Network, Precision, PRNGKeyArray
from ._algorithm import (
    AbstractForward,
    AbstractUntuned,
    AlgorithmState,
    Defaults,
    LearningContext,
    StepReport,
    refuse_unsupervised,
)
from ._gradients import check_backprop, error_gradients, with_penalties


class ZIL(AbstractForward, AbstractUntuned):
    """Z-IL: activities take steps of size 1 from the forward pass, and each layer learns at one step alone, the ℓ-th
    from the top at step ℓ.

    At that step the layer's error has just arrived from above, and nothing below has moved. So its weight gradient is
    backpropagation's, by predictive coding's local rule. Other steps do not change its weights, so they are skipped:
    the work is one pass up and one pass down. All weights then take their step together, so that every optimiser works.

    **Example:**

    ```python
    import jax.random as jr, mupc

    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=32, hidden_layers=8, key=jr.key(0))
    result = mupc.fit(network, digits, mupc.ZIL())
    ```
    """

    @property
    def defaults(self) -> Defaults:
        return Defaults(weight_lr=0.05, unscaled_weight_lr=0.02, output_precision=1.0, rounds=True)

    def check(self, network: AbstractNetwork, energy: Energy, unsupervised: bool) -> None:
        check_backprop(energy)
        refuse_unsupervised("Z-IL", unsupervised)
        if isinstance(network, Network) and network.skip > 1:
            wrong = f"= {network.skip} lets errors reach a layer at several steps, and Z-IL learns at one."
            raise checks.ArgumentError("skip", wrong, "Use {skip} 0 or 1, or {BP}.")

    def update(
        self, state: AlgorithmState, batch: Batch, key: PRNGKeyArray, context: LearningContext
    ) -> tuple[AlgorithmState, StepReport]:
        network = context.policy.cast(state.network)
        problem = pose(network, dataclasses.replace(batch, rounds_start=True), context.energy, context.policy)
        start = problem.start()
        arriving = problem.linearise(start).downhill().hidden
        found = problem.unpack(Point(start.delta, LayerErrors(arriving, start.errors.output)))
        gradients = error_gradients(network, found, batch.x, context.energy, context.policy)
        gradients = with_penalties(gradients, network, context.learned_energy)
        loss = jnp.mean(context.energy.output_loss(found.prediction, batch.y))
        return state.descended(gradients, context), StepReport(loss, loss, context.gradient_sizes(gradients))

    def why_no_kernels(
        self, network: AbstractNetwork, energy: Energy, policy: Precision, unsupervised: bool
    ) -> str | None:
        return "only inference by gradient descent has them"
