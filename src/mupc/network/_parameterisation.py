"""The parameterisations of Table 1, each one row: how weights start, what multiplies them, and how fast they learn.

A layer computes a·W·φ(z) + b. A row gives the variance of Gaussian weights as a function of the fan-in, and for each
role of a layer (input, hidden, readout) its multiplier a as a function of the fan-in and of the depth factor, which is
L with skip connections and 1 without. Where rates can be made to transfer, the row also has a rule for them, derived in
`docs/rate-scaling.md`.
"""

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from ..io import checks
from ._rate_scales import LayerScale, RateScales
from ._types import Initialiser, PRNGKeyArray

Multipliers = tuple[float, float, float]
Multiplier = Callable[[int, int], float]
RateRule = Callable[[float, float], RateScales]
"""A function of a network's width and of its depth factor, each divided by the base's."""
ROLES = ("input", "hidden", "readout")


@dataclasses.dataclass(frozen=True)
class Parameterisation:
    """One row of the table."""

    name: str
    init: str
    variance: Callable[[int], float]
    input: Multiplier
    hidden: Multiplier
    readout: Multiplier
    rate_rule: RateRule | None = None

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


def _depth_mup(wider: float, deeper: float) -> RateScales:
    same, narrower, root = 1.0, 1 / wider, (wider * deeper) ** -0.5
    return RateScales(  # of input, hidden layers and readout: weights, then biases
        gradients=(LayerScale(narrower, narrower), LayerScale(narrower * root, narrower), LayerScale(narrower, same)),
        updates=(LayerScale(same, same), LayerScale(root, 1 / deeper), LayerScale(same, same)),
    )


PARAMETERISATIONS = {
    row.name: row
    for row in (
        # name, initial weights, their variance, the multipliers of input, hidden layers and readout, the rate rule
        Parameterisation("sp", "gaussian", _inverse, _one, _one, _one),
        Parameterisation("mupc", "gaussian", _one, _inverse_root, _inverse_root_with_depth, _inverse, _depth_mup),
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
