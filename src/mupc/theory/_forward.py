"""The size of the forward pass, layer by layer: §3.2 and Desideratum 1 of the paper."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from ..network import Network, Rows, forward
from ._hessian import check_weights


def forward_sizes(network: Network, x: Rows, *, precision: str | None = None) -> Float64[np.ndarray, " layers"]:
    """Return the mean of |z_ℓ| over units and samples, for the hidden layers ℓ = 1 … H of the forward pass, (H,).

    A forward pass is stable if these neither vanish nor explode with depth.

    **Arguments:** a network with any activation, inputs (B, D), and a precision policy as for `mupc.forward`. Sizes
    beyond that precision come out as zero or infinity.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=64, key=jr.key(0))
    sizes = mupc.theory.forward_sizes(network, jnp.ones((5, 8)))
    sizes.shape, sizes.max() / sizes.min() < 10      # (64,), True: Depth-μP keeps them near one
    ```
    """
    check_weights(network)
    activities, _ = forward(network, x, precision=precision)
    return np.asarray(jnp.mean(jnp.abs(activities), axis=(1, 2)), np.float64)
