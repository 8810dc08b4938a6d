"""How many operations a network takes, counted in its program."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr

from ..network import AbstractNetwork, resolve_precision


def forward_products(network: AbstractNetwork) -> int:
    """Return the products of numbers in matrix products and convolutions of one sample's forward pass. The network may
    have shapes in place of arrays."""
    policy = resolve_precision(None, network)
    sample = jax.ShapeDtypeStruct((1, network.in_size), jnp.float32)
    return _products(jax.make_jaxpr(lambda n, x: n.forward_pass(x, policy))(network, sample).jaxpr)


def _products(jaxpr: Jaxpr) -> int:
    return sum(_of_equation(equation) for equation in jaxpr.eqns)


def _of_equation(equation: Any) -> int:
    parameters, name = equation.params, equation.primitive.name
    if name == "dot_general":
        (contracted, _), _ = parameters["dimension_numbers"]
        left = equation.invars[0].aval
        return int(equation.outvars[0].aval.size * math.prod(left.shape[axis] for axis in contracted))
    if name == "conv_general_dilated":
        filters = equation.invars[1].aval
        outputs = filters.shape[parameters["dimension_numbers"].rhs_spec[0]]
        return int(equation.outvars[0].aval.size * filters.size // outputs)
    inner = (each.jaxpr if isinstance(each, ClosedJaxpr) else each for each in parameters.values())
    return int(parameters.get("length", 1)) * sum(_products(each) for each in inner if isinstance(each, Jaxpr))
