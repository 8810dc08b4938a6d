"""The size for which a learning rate is given, and how gradients and updates differ at other sizes."""

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


class RateScales(NamedTuple):
    """How gradients compare in size with those at the base, and how updates must, so that a step moves features and
    outputs equally far. Both in the order of the network's `weight_roles`."""

    gradients: tuple[LayerScale, ...]
    updates: tuple[LayerScale, ...]
