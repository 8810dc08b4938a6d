"""Turn what users pass as a network, a random key or a batch of inputs into what the library computes with."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..io import checks
from ._abstract import AbstractNetwork
from ._types import Inputs, Rows


def check_network(network: object) -> None:
    """Accept a network as the first argument of a function."""
    if not isinstance(network, AbstractNetwork):
        inside = " Pass its .network." if isinstance(getattr(network, "network", None), AbstractNetwork) else ""
        kind = type(network).__name__
        raise TypeError(f"the first argument must be a network such as mupc.Network, got {kind}.{inside}")


def check_key(key: object) -> None:
    """Accept a JAX random key, of either kind."""
    dtype = getattr(key, "dtype", None)
    raw = dtype == jnp.uint32 and getattr(key, "shape", None) == (2,)  # as jax.random.PRNGKey makes them
    if not (raw or (dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key))):
        raise checks.ArgumentTypeError(
            "key", f"must be a JAX random key such as jax.random.key(0), got {checks.literal(key)}."
        )


def as_inputs(network: AbstractNetwork, x: Rows) -> Inputs:
    """Return `x` as a floating array (B, D). Samples may have the network's own shape instead of being rows."""
    check_network(network)
    if len(network.input_shape) > 1 and np.ndim(x) != 2:
        channels, *rest = network.input_shape
        cures = {
            tuple(rest): "Add the axis of channels: x[:, None].",
            (*rest, channels): "Channels come first: jnp.moveaxis(x, -1, 1).",
        }
        cure = cures.get(np.shape(x)[1:], "Pass samples of the network's input_shape.")
        checks.shape("x", x, ("batch", *network.input_shape), cure)
        return as_floating("x", x).reshape(-1, network.in_size)
    checks.shape("x", x, ("batch", network.in_size), "Pass one row per sample, in_size columns.")
    return as_floating("x", x)


def as_floating(name: str, values: Rows) -> Float[Array, "..."]:
    """Return numbers as a floating array. Complex ones are refused, because they would lose a part."""
    array = jnp.asarray(values)
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise checks.ArgumentTypeError(
            name, f"must hold real numbers, got {array.dtype}.", f"Pass {name}.real, or the parts as columns."
        )
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(jnp.float32)
