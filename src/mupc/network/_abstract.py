"""The interface of a network."""

import abc
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
from jaxtyping import Array, Float, PyTree

from ._layer import Dense
from ._precision import Precision
from ._rate_scales import BaseSize, LayerScale, RateScales
from ._types import Inputs, Outputs, Real, Rows

PerLayer = Float[Array, " all_layers"]


class WeightRole(NamedTuple):
    """The role of a weight (`input`, `hidden`, `branch` or `readout`) and its fan-in. A parameterisation needs nothing
    else to scale it."""

    role: str
    fan_in: int


class AbstractNetwork(eqx.Module):
    """A network that predicts, carries signals forward and back, and turns errors into local weight gradients.

    `mupc.inference.pose` states its inference problem. Gradients have the same form: a network with a
    gradient in place of each weight.
    """

    in_size: eqx.AbstractVar[int]
    out_size: eqx.AbstractVar[int]

    input_shape: eqx.AbstractVar[tuple[int, ...]]
    output_shape: eqx.AbstractVar[tuple[int, ...]]

    @property
    @abc.abstractmethod
    def weight_roles(self) -> tuple[WeightRole, ...]:
        """The role and fan-in of every kind of weight, from the input to the readout."""

    @property
    @abc.abstractmethod
    def layer_count(self) -> int:
        """L, the number of layers with weights."""

    @property
    @abc.abstractmethod
    def layer_names(self) -> tuple[str, ...]:
        """The name of every layer; those of a stack are numbered."""

    @property
    @abc.abstractmethod
    def weight_stacks(self) -> tuple[tuple[PyTree, int], ...]:
        """All weights and biases from the input to the readout, by stacks of equal layers, each with their number."""

    @abc.abstractmethod
    def __call__(self, x: Rows) -> Outputs:
        """Return the prediction for a batch of inputs."""

    @abc.abstractmethod
    def forward_pass(self, x: Inputs, precision: Precision) -> tuple[PyTree, Outputs]:
        """Return the activities at which every error is zero, and the output."""

    @abc.abstractmethod
    def activity_shapes(self, batch: int) -> PyTree:
        """Return the shapes of the activities, layers first and batch second, in place of the activities."""

    @abc.abstractmethod
    def prediction_errors(self, activities: PyTree, x: Inputs, precision: Precision) -> tuple[PyTree, Outputs]:
        """Return the prediction errors of these activities, and the output that the last of them predicts."""

    @abc.abstractmethod
    def error_change(
        self, new: "AbstractNetwork", activities: PyTree, x: Inputs, precision: Precision
    ) -> tuple[PyTree, Outputs]:
        """Return how the errors of these activities, and the output, change if weights become those of `new`: exactly
        zero where weights stay."""

    @abc.abstractmethod
    def local_gradients(
        self,
        x: Inputs,
        activities: PyTree,
        errors: PyTree,
        output_error: Outputs,
        precision: Precision,
        factor: Real = 1.0,
    ) -> "AbstractNetwork":
        """Return weight gradients, each from its own layer's error, times `factor` in hidden layers, and its input."""

    @abc.abstractmethod
    def backpropagate(
        self, x: Inputs, output_error: Callable[[Outputs], Outputs], precision: Precision
    ) -> tuple["AbstractNetwork", Outputs]:
        """Return the weight gradients of backpropagation for the negative gradient of a loss in the output, and the
        output."""

    @abc.abstractmethod
    def per_layer(self, function: Callable[[Dense], Array]) -> PerLayer:
        """Apply a function to the weights of every layer; return its values from the input to the readout."""

    @property
    @abc.abstractmethod
    def why_no_rate_rule(self) -> str | None:
        """The end of the sentence "no rule for …" if this network's learning rates cannot be scaled; otherwise None."""

    @abc.abstractmethod
    def rate_scales(self, base: BaseSize) -> RateScales:
        """Return how gradients and updates compare with those of the base size, if there is a rule."""

    @abc.abstractmethod
    def scaled(self, scales: Sequence[LayerScale]) -> "AbstractNetwork":
        """Return the network, or gradients or updates of it, with every kind of weight times its factor."""
