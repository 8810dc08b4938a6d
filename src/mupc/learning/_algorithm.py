"""The interface of learning algorithms: everything between a batch and the next weights."""

import abc
import dataclasses
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from ..inference import Batch, Energy
from ..io import checks
from ..network import POLICIES, AbstractNetwork, BaseSize, Outputs, Precision, PRNGKeyArray, Scalar
from ._optimiser import SCHEDULES, Optimiser, as_at_base, is_decoupled, update_rule
from ._relaxation import Relaxation

SomeAlgorithm = TypeVar("SomeAlgorithm", bound="AbstractAlgorithm")


class LearningContext(eqx.Module):
    """The settings of learning: the energy, the optimiser with its rate and schedule, and the precision. `base` is the
    size from which rates are scaled; None: they are not."""

    energy: Energy
    weight_lr: Scalar
    optimiser: Optimiser = eqx.field(static=True)
    schedule: str = eqx.field(static=True)
    total_steps: Int[Array, ""]
    precision: str = eqx.field(static=True)
    base: BaseSize | None = eqx.field(static=True, default=None)

    @property
    def policy(self) -> Precision:
        """The precision policy."""
        return POLICIES[self.precision]

    @property
    def learned_energy(self) -> Energy:
        """The energy whose gradient the optimiser sees: without weight decay where the optimiser decouples it."""
        decoupled = is_decoupled(self.optimiser)
        return dataclasses.replace(self.energy, weight_decay=0.0) if decoupled else self.energy

    def rule(self, step: Int[Array, ""]) -> optax.GradientTransformation:
        """Return the update rule at this step."""
        penalty = Energy(weight_decay=self.energy.weight_decay if is_decoupled(self.optimiser) else 0.0)
        decay = penalty.penalty_gradient if penalty.penalises_weights else None
        floating = jnp.result_type(float)
        factor = SCHEDULES[self.schedule](step.astype(floating), self.total_steps.astype(floating))
        return update_rule(self.optimiser, self.weight_lr * factor.astype(self.weight_lr.dtype), self.base, decay)

    def share(self, step: Int[Array, ""]) -> Scalar:
        """Return the share of the run that is over at this step."""
        dtype = self.weight_lr.dtype
        return jnp.minimum(step, self.total_steps).astype(dtype) / self.total_steps.astype(dtype)

    def gradient_sizes(self, gradients: AbstractNetwork) -> Float[Array, " all_layers"]:
        """Return the root mean square entry of each layer's gradient, as the optimiser sees it."""
        return jnp.sqrt(as_at_base(gradients, self.base).per_layer(lambda layer: layer.mean_square()))


class AlgorithmState(eqx.Module):
    """Everything that changes from step to step: the network, the optimiser's state, the number of steps taken, and
    what the algorithm itself keeps from one batch to the next (`memory`)."""

    network: AbstractNetwork
    optimiser: optax.OptState
    step: Int[Array, ""]
    memory: Any = None

    @classmethod
    def start(cls, network: AbstractNetwork, context: LearningContext, memory: Any = None) -> "AlgorithmState":
        """Return the state before the first step."""
        step = jnp.zeros((), int)
        return cls(network, context.rule(step).init(eqx.filter(network, eqx.is_array)), step, memory)

    def descended(self, gradients: AbstractNetwork, context: LearningContext) -> "AlgorithmState":
        """Return the state after one step of the optimiser."""
        updates, optimiser = context.rule(self.step).update(gradients, self.optimiser, self.network)
        return AlgorithmState(eqx.apply_updates(self.network, updates), optimiser, self.step + 1, self.memory)


class StepReport(NamedTuple):
    """The report of a step: the loss of the prediction before learning, the energy that inference left, and the root
    mean square entry of each layer's gradient, as the optimiser sees it."""

    loss: Scalar
    energy: Scalar
    gradient_sizes: Float[Array, " all_layers"]


class Defaults(NamedTuple):
    """The settings that suit an algorithm: the learning rate of the weights where it is scaled with the network's size,
    and where it is not; λ; and whether products in bf16 suit it on a GPU that has no kernels for it."""

    weight_lr: float
    unscaled_weight_lr: float
    output_precision: float
    rounds: bool = False


class AbstractAlgorithm(eqx.Module):
    """A rule that takes a batch and makes the next state. It owns the optimiser's step, so that an algorithm may step
    weights several times a batch, or train a second network."""

    @property
    @abc.abstractmethod
    def defaults(self) -> Defaults:
        """The settings that `mupc.fit` takes where none are given."""

    @abc.abstractmethod
    def check(self, network: AbstractNetwork, energy: Energy, unsupervised: bool) -> None:
        """Raise an error for what this algorithm cannot learn."""

    @abc.abstractmethod
    def init(self, network: AbstractNetwork, context: LearningContext) -> AlgorithmState:
        """Return the state before the first batch."""

    @abc.abstractmethod
    def update(
        self, state: AlgorithmState, batch: Batch, key: PRNGKeyArray, context: LearningContext
    ) -> tuple[AlgorithmState, StepReport]:
        """Learn from one batch."""

    @abc.abstractmethod
    def predict(self, network: AbstractNetwork, batch: Batch, context: LearningContext) -> Outputs:
        """Return the prediction for a batch, for evaluation."""

    @abc.abstractmethod
    def why_no_kernels(
        self, network: AbstractNetwork, energy: Energy, policy: Precision, unsupervised: bool
    ) -> str | None:
        """Return why the device's kernels are not used, after "without kernels"; None if they are."""

    @property
    @abc.abstractmethod
    def tunes_every(self) -> int | None:
        """After how many steps to call `tuned` again; None: there is nothing to tune."""

    @abc.abstractmethod
    def tuned(self, network: AbstractNetwork, batch: Batch, context: LearningContext) -> "AbstractAlgorithm":
        """Return the algorithm with settings that suit the network now."""


class AbstractUntuned(AbstractAlgorithm):
    """An algorithm without settings that follow the network."""

    @property
    def tunes_every(self) -> int | None:
        return None

    def tuned(self: SomeAlgorithm, network: AbstractNetwork, batch: Batch, context: LearningContext) -> SomeAlgorithm:
        return self


class AbstractForward(AbstractAlgorithm):
    """An algorithm for inputs that are given. It predicts by the forward pass."""

    def init(self, network: AbstractNetwork, context: LearningContext) -> AlgorithmState:
        return AlgorithmState.start(network, context)

    def predict(self, network: AbstractNetwork, batch: Batch, context: LearningContext) -> Outputs:
        return network.forward_pass(batch.x, context.policy.full)[1]


def refuse_unsupervised(name: str, unsupervised: bool) -> None:
    """Refuse to learn without inputs."""
    if unsupervised:
        raise checks.ArgumentError(
            "unsupervised",
            f"training needs inference of inputs, which {name} does not do.",
            "Use {PC} with a solver.",
        )


class AbstractRelaxingAlgorithm(AbstractAlgorithm):
    """An algorithm whose networks predict by relaxation instead of the forward pass."""

    @property
    @abc.abstractmethod
    def relaxation(self) -> Relaxation:
        """How they predict."""
