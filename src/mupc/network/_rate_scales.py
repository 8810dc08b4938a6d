"""Factors that let a learning rate mean the same at every size, relative to a base size."""

from typing import NamedTuple


class BaseSize(NamedTuple):
    """The size of network at which rates are as given."""

    width: int = 64
    hidden_layers: int = 8

    def __str__(self) -> str:
        return f"{self.hidden_layers} hidden layers of {self.width}"


class LayerScale(NamedTuple):
    """A factor for the weights of a layer, and one for its biases."""

    weight: float
    bias: float

    @property
    def inverse(self) -> "LayerScale":
        """One over each."""
        return LayerScale(1 / self.weight, 1 / self.bias)


class RateScales(NamedTuple):
    """For every kind of weight, from the input to the readout: how large its gradients and its updates are, relative to
    those at the base size."""

    gradients: tuple[LayerScale, ...]
    updates: tuple[LayerScale, ...]
