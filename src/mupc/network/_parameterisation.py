"""The parameterisations of Table 1, each one row: how weights start, what multiplies them, and how fast they learn.

A layer computes a·W·φ(z) + b. A row gives the variance of Gaussian weights as a function of the fan-in, and for each
role of a layer (input, hidden, readout) its multiplier a as a function of the fan-in and of the depth factor, which is
L with skip connections and 1 without. Where rates can be made to transfer, the row also gives how gradients and
updates of each role grow with the network (`docs/rate-scaling.md` derives it).
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from ..io import checks
from ._types import Initialiser, PRNGKeyArray

Multipliers = tuple[float, float, float]
Multiplier = Callable[[int, int], float]
ROLES = ("input", "hidden", "readout")


class Growth(NamedTuple):
    """A power of the width N times a power of the depth factor L."""

    width: float = 0.0
    depth: float = 0.0

    def over(self, width: float, depth: float) -> float:
        """Return by how much it grows with a network that is so many times as wide and as deep."""
        return float(width**self.width * depth**self.depth)


class LearningGrowth(NamedTuple):
    """How the gradient of a weight grows with the network, and how its updates have to, so that every layer and the
    output move as much in one step at any size."""

    gradient: Growth
    update: Growth


class RoleGrowth(NamedTuple):
    """The same for the weights and for the biases of a role."""

    weight: LearningGrowth
    bias: LearningGrowth


@dataclasses.dataclass(frozen=True)
class Parameterisation:
    """One row of the table."""

    name: str
    init: str
    variance: Callable[[int], float]
    input: Multiplier
    hidden: Multiplier
    readout: Multiplier
    learning: Mapping[str, RoleGrowth] | None = None

    def multiplier(self, role: str, fan_in: int, depth_factor: int) -> float:
        """Return the multiplier of a layer with this role."""
        rule: Multiplier = getattr(self, role)
        return rule(fan_in, depth_factor)


def _one(fan_in: int, depth_factor: int = 1) -> float:
    return 1.0


def _inverse(fan_in: int, depth_factor: int = 1) -> float:
    return 1 / fan_in


def _inverse_root(fan_in: int, depth_factor: int) -> float:
    return fan_in**-0.5


def _inverse_root_with_depth(fan_in: int, depth_factor: int) -> float:
    return (fan_in * depth_factor) ** -0.5


_SAME = Growth()
_DEPTH_MUP = {
    # how the gradient and the update of weights grow, then those of biases, as powers of N and L
    "input": RoleGrowth(
        LearningGrowth(Growth(width=-1), _SAME),
        LearningGrowth(Growth(width=-1), _SAME),
    ),
    "hidden": RoleGrowth(
        LearningGrowth(Growth(width=-1.5, depth=-0.5), Growth(width=-0.5, depth=-0.5)),
        LearningGrowth(Growth(width=-1), Growth(depth=-1)),
    ),
    "readout": RoleGrowth(
        LearningGrowth(Growth(width=-1), _SAME),
        LearningGrowth(_SAME, _SAME),
    ),
}

PARAMETERISATIONS = {
    row.name: row
    for row in (
        # name, initial weights, their variance, then the multipliers of input, hidden layers and readout
        Parameterisation("sp", "gaussian", _inverse, _one, _one, _one),
        Parameterisation("mupc", "gaussian", _one, _inverse_root, _inverse_root_with_depth, _inverse, _DEPTH_MUP),
        Parameterisation("ntp", "gaussian", _one, _inverse_root, _inverse_root_with_depth, _inverse_root),
        Parameterisation("orthogonal", "orthogonal", _inverse, _one, _one, _one),
    )
}

ORTHOGONAL_GAIN = {"tanh": 1.05}
"""Gain of orthogonal weights by activation; 1 where not listed (paper, Fig. orthog-init)."""

Shape = tuple[int, int]
Init = Callable[[PRNGKeyArray, Shape, Parameterisation, str], Float[Array, "out in"]]


def _gaussian(key: PRNGKeyArray, shape: Shape, row: Parameterisation, activation: str) -> jax.Array:
    return jr.normal(key, shape) * math.sqrt(row.variance(shape[1]))


def _kaiming_uniform(key: PRNGKeyArray, shape: Shape, row: Parameterisation, activation: str) -> jax.Array:
    bound = shape[1] ** -0.5
    return jr.uniform(key, shape, minval=-bound, maxval=bound)


def _orthogonal(key: PRNGKeyArray, shape: Shape, row: Parameterisation, activation: str) -> jax.Array:
    rows, columns = shape
    return ORTHOGONAL_GAIN.get(activation, 1.0) * jr.orthogonal(key, rows, m=columns)


INITS: dict[str, Init] = {
    "gaussian": _gaussian,
    "kaiming-uniform": _kaiming_uniform,
    "orthogonal": _orthogonal,
}


def initialise(
    key: PRNGKeyArray, shape: Shape, row: Parameterisation, activation: str, init: str | Initialiser | None
) -> Float[Array, "out in"]:
    """Draw one weight matrix (out, in). `init` overrides the row's own: a name, or a function `init(key, shape)`."""
    if init is None or isinstance(init, str):
        return checks.lookup("init", init or row.init, INITS)(key, shape, row, activation)
    if not callable(init):
        raise checks.ArgumentTypeError(
            "init", f"must be a name or a function init(key, shape), got {checks.literal(init)}."
        )
    weight = jnp.asarray(init(key, shape))
    if weight.shape != shape:
        raise checks.ArgumentError(
            "init", f"returned a weight of shape {weight.shape}, expected (out, in) = {shape}.", ""
        )
    return weight
