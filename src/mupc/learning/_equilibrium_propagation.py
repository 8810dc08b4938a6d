"""Equilibrium propagation: settle freely, settle again with a nudge to the target, learn from the difference."""

import equinox as eqx
import jax
import jax.numpy as jnp

from ..inference import Batch, Energy
from ..io import checks
from ..network import AbstractNetwork, Network, Outputs, Precision, PRNGKeyArray, Real, nodes
from ._algorithm import (
    AbstractRelaxingAlgorithm,
    AbstractUntuned,
    AlgorithmState,
    Defaults,
    LearningContext,
    StepReport,
    refuse_unsupervised,
)
from ._gradients import with_penalties
from ._relaxation import LayerStates, Relaxation, descend, free_energy

SIGNS = {"centred": (1, -1), "positive": (1, 0), "negative": (0, -1)}
"""The two nudges, as multiples of β, whose weight gradients are compared."""


class EquilibriumPropagation(AbstractRelaxingAlgorithm, AbstractUntuned):
    """Equilibrium propagation (Scellier and Bengio, 2017) on an energy of its own, with a free output:

        E = ½ Σ_ℓ ‖z_ℓ‖² − Σ_ℓ ⟨z_ℓ, f_ℓ(z_{ℓ-1})⟩ + β·loss(z_L, y),      ℓ = 1 … L,

    with the layers' own predictions f_ℓ, such as a_ℓW_ℓφ(z_{ℓ-1}) + b_ℓ. The states descend E with β = 0 (the free
    phase, from the forward pass), and from there with a nudge. The weight gradient is the difference of ∂E/∂W_ℓ =
    −a_ℓ z_ℓφ(z_{ℓ-1})ᵀ between two nudges, divided by the difference of the nudges. It needs the states on both sides
    of a weight only, and tends to the gradient of the loss at the free fixed point as β goes to zero.

    Prediction is the output of the free phase, not the forward pass: `result.model` predicts in this way, but
    `result.network(x)` and `mupc.forward` do not.

    With a bounded φ (`tanh`, `hard_tanh`) E grows like ½‖z‖² and has a minimum whatever the weights are. With others
    (`linear`, `relu`) it has one only while the matrices a_ℓW_ℓ are small; beyond that, states grow without limit and
    little is learnt. Skip connections, which couple every two layers with weight one, are refused.

    **Arguments:**

    - `lr`: the step size of both phases, on one sample's energy.
    - `steps`, `nudge_steps`: the steps of the free phase and of each nudged one.
    - `beta`: the nudge β. The gradient's error is of order β with one nudge, and of order β² with two.
    - `sign`: `"centred"` compares the nudges β and −β, `"positive"` β and none, `"negative"` none and −β. The last two
      need more `steps`, because what is left of the free phase's motion counts as an effect of the nudge. A negative
      nudge has a fixed point for β < 1 only.

    **Example:**

    ```python
    import jax.random as jr, mupc

    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=64, hidden_layers=1, activation="tanh", key=jr.key(0))
    result = mupc.fit(network, digits, mupc.EquilibriumPropagation(), epochs=2)
    result.model.predict(digits.test.raw)
    ```
    """

    lr: Real = 0.2
    steps: int = 30
    nudge_steps: int = 10
    beta: Real = 0.3
    sign: str = eqx.field(static=True, default="centred")

    def __check_init__(self) -> None:
        Relaxation(self.lr, self.steps)
        checks.integer("nudge_steps", self.nudge_steps, 1)
        checks.lookup("sign", self.sign, SIGNS)
        checks.number("beta", self.beta, above=0, below=None if self.sign == "positive" else 1)

    @property
    def relaxation(self) -> Relaxation:
        return Relaxation(self.lr, self.steps)

    @property
    def defaults(self) -> Defaults:
        return Defaults(weight_lr=0.1, unscaled_weight_lr=0.02, output_precision=1.0)

    def check(self, network: AbstractNetwork, energy: Energy, unsupervised: bool) -> None:
        what = "equilibrium propagation has an energy of its own"
        check_no_skips(network)
        refuse_unsupervised("equilibrium propagation", unsupervised)
        if energy.decays_activities:
            raise checks.ArgumentError("activity_decay", f"= {energy.activity_decay}, but {what}.", "Set it to 0.")
        if energy.output_precision not in (None, 1):
            wrong = f"= {energy.output_precision}, but {what}, where {{beta}} weighs the loss."
            raise checks.ArgumentError("output_precision", wrong, "Leave it out.")

    def init(self, network: AbstractNetwork, context: LearningContext) -> AlgorithmState:
        return AlgorithmState.start(network, context)

    def nudged(
        self, network: AbstractNetwork, batch: Batch, free: LayerStates, nudge: Real, context: LearningContext
    ) -> LayerStates:
        """Return the states after a nudged phase that starts from those of the free one."""

        def energy(states: LayerStates) -> jax.Array:
            loss = jnp.sum(context.energy.output_loss(states.output, batch.y))
            return free_energy(network, states, batch.x, context.policy) + nudge * loss

        return descend(energy, free, self.lr, self.nudge_steps)

    def gradients(
        self, network: AbstractNetwork, batch: Batch, free: LayerStates, context: LearningContext
    ) -> AbstractNetwork:
        """Return the weight gradients, from the states of the free phase."""
        high, low = SIGNS[self.sign]

        def slopes(side: int) -> AbstractNetwork:
            states = self.nudged(network, batch, free, side * self.beta, context) if side else free
            return network.local_gradients(batch.x, *2 * (states.hidden,), states.output, context.policy)

        span = (high - low) * self.beta
        return jax.tree.map(lambda above, below: (above - below) / span, slopes(high), slopes(low))

    def update(
        self, state: AlgorithmState, batch: Batch, key: PRNGKeyArray, context: LearningContext
    ) -> tuple[AlgorithmState, StepReport]:
        network = context.policy.cast(state.network)
        free = self.relaxation.settle(network, batch.x, context.policy)
        found = self.gradients(network, batch, free, context)
        gradients = with_penalties(found, network, context.learned_energy)
        loss = jnp.mean(context.energy.output_loss(free.output, batch.y))
        energy = free_energy(network, free, batch.x, context.policy) / len(batch.x)
        return state.descended(gradients, context), StepReport(loss, energy, context.gradient_sizes(gradients))

    def predict(self, network: AbstractNetwork, batch: Batch, context: LearningContext) -> Outputs:
        """Predict by the free phase."""
        return self.relaxation.settle(network, batch.x, context.policy.full).output

    def why_no_kernels(
        self, network: AbstractNetwork, energy: Energy, policy: Precision, unsupervised: bool
    ) -> str | None:
        return "only predictive coding has them"


def check_no_skips(network: AbstractNetwork) -> None:
    """Refuse a network with skip connections: they would let the energy fall without limit."""
    what = "and with skip connections the energy of equilibrium propagation has no minimum."
    if isinstance(network, Network) and 0 < network.skip < network.hidden_layers:
        raise checks.ArgumentError("skip", f"= {network.skip}, {what}", "Use 0.")
    parts = jax.tree.leaves(network, is_leaf=lambda part: isinstance(part, nodes.Residual))
    if any(isinstance(part, nodes.Residual) for part in parts):
        raise checks.ArgumentError("the network", f"has residual nodes, {what}", "Use a chain without them.")
