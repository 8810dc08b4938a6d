"""The parameterisations of Table 1, each one row: how weights start, and what multiplies them.

A layer computes a·W·φ(z) + b. A row gives the three multipliers (input, hidden, readout) as functions of the sizes
and the variance of Gaussian weights as a function of the fan-in.
"""

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from ..io.checks import lookup
from ._types import Initialiser, PRNGKeyArray

Multipliers = tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What multipliers may depend on: input size D, width N, and the depth factor (L with skips, else 1)."""

    in_size: int
    width: int
    depth_factor: int


@dataclasses.dataclass(frozen=True)
class Parameterisation:
    """One row of the table."""

    name: str
    init: str
    variance: Callable[[int], float]
    multipliers: Callable[[Sizes], Multipliers]


def _unit(sizes: Sizes) -> Multipliers:
    return 1.0, 1.0, 1.0


def _mupc(sizes: Sizes) -> Multipliers:
    return sizes.in_size**-0.5, (sizes.width * sizes.depth_factor) ** -0.5, 1 / sizes.width


def _ntp(sizes: Sizes) -> Multipliers:
    return sizes.in_size**-0.5, (sizes.width * sizes.depth_factor) ** -0.5, sizes.width**-0.5


def _one(fan_in: int) -> float:
    return 1.0


def _inverse(fan_in: int) -> float:
    return 1 / fan_in


PARAMETERISATIONS = {
    row.name: row
    for row in (
        Parameterisation("sp", "gaussian", _inverse, _unit),
        Parameterisation("mupc", "gaussian", _one, _mupc),
        Parameterisation("ntp", "gaussian", _one, _ntp),
        Parameterisation("orthogonal", "orthogonal", _inverse, _unit),
    )
}

ORTHOGONAL_GAIN = {"tanh": 1.05}
"""Gain of orthogonal weights by activation, 1 where not listed (paper, Fig. orthog-init)."""

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
    """One weight matrix (out, in). `init` overrides the row's own: a name, or `init(key, shape)`."""
    if init is None or isinstance(init, str):
        return lookup("init", init or row.init, INITS)(key, shape, row, activation)
    if not callable(init):
        raise TypeError(f"init must be a name or a function init(key, shape), got {init!r}.")
    weight = jnp.asarray(init(key, shape))
    if weight.shape != shape:
        raise ValueError(f"init returned a weight of shape {weight.shape}, expected (out, in) = {shape}.")
    return weight
