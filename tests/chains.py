"""The residual MLP written as a chain, which must behave like `mupc.Network` everywhere."""

import jax
import jax.random as jr

import mupc
from mupc import nodes


def chain_of(network: mupc.Network) -> mupc.Chain:
    """Return a chain with the weights of a network that has skips over one layer, or none, and at least two hidden
    layers."""
    depth, phi, bias = network.layer_count, network.activation, network.input.bias is not None
    options = {"parameterisation": network.parameterisation, "use_bias": bias, "depth": depth, "key": jr.key(0)}
    width = network.width
    kind, role = (nodes.Residual, "branch") if network.skip else (nodes.Sequential, "hidden")

    def block(key):
        return kind([phi, nodes.Linear(width, width, **options | {"role": role, "key": key})])

    first = nodes.Linear(network.in_size, width, role="input", **options)
    last = nodes.Sequential([phi, nodes.Linear(width, network.out_size, role="readout", **options)])
    parts = [first, mupc.Stack(block, network.hidden_layers - 1, key=jr.key(0)), last]
    chain = mupc.Chain(parts, input_shape=(network.in_size,), names=["input", "hidden", "readout"])
    return jax.tree.unflatten(jax.tree.structure(chain), jax.tree.leaves(network))
