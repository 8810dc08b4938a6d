"""An independent predictive coding network: Eq. 1 written out layer by layer, everything else by autodiff.

Nothing here uses the library beyond reading a network's weights, so that the two can disagree.
"""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import mupc

PHI = {
    "linear": lambda z: z,
    "tanh": jnp.tanh,
    "relu": lambda z: jnp.where(z > 0, z, 0.0),
    "leaky_relu": lambda z: jnp.where(z > 0, z, 0.01 * z),
    "hard_tanh": lambda z: jnp.clip(z, -1, 1),
    "gelu": lambda z: 0.5 * z * (1 + jnp.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
    "silu": lambda z: z / (1 + jnp.exp(-z)),
    "elu": lambda z: jnp.where(z > 0, z, jnp.exp(z) - 1),
    "selu": lambda z: 1.0507009873554805 * jnp.where(z > 0, z, 1.6732632423543772 * (jnp.exp(z) - 1)),
}


def multipliers(parameterisation, in_size, width, hidden_layers, skip):
    """Table 1."""
    depth = hidden_layers + 1 if skip else 1
    return {
        "sp": (1.0, 1.0, 1.0),
        "orthogonal": (1.0, 1.0, 1.0),
        "mupc": (1 / np.sqrt(in_size), 1 / np.sqrt(width * depth), 1 / width),
        "ntp": (1 / np.sqrt(in_size), 1 / np.sqrt(width * depth), 1 / np.sqrt(width)),
    }[parameterisation]


def parameters(network):
    """[(W₁, b₁), …, (W_L, b_L)] with zero biases where there are none."""
    hidden = network.hidden
    weights = [network.input.weight, *hidden.weight, network.readout.weight]
    if network.input.bias is None:
        return [(w, jnp.zeros(w.shape[0])) for w in weights]
    return list(zip(weights, [network.input.bias, *hidden.bias, network.readout.bias], strict=True))


def layer_terms(params, z0, zs, y, a, phi, skip, loss, lam):
    """The energy of each layer and sample, one sum per layer, without decay."""
    terms, states = [], [z0, *zs]
    for layer in range(1, len(zs) + 1):
        w, b = params[layer - 1]
        source = z0 if layer == 1 else phi(states[layer - 1])
        predicted = (a[0] if layer == 1 else a[1]) * source @ w.T + b
        if skip and layer > skip:
            predicted = predicted + states[layer - skip]
        terms.append(jnp.sum((states[layer] - predicted) ** 2) / 2)
    w, b = params[-1]
    out = a[2] * phi(states[-1]) @ w.T + b
    if loss == "mse":
        terms.append(lam * jnp.sum((y - out) ** 2) / 2)
    elif callable(loss):
        terms.append(lam * sum(loss(row, target) for row, target in zip(out, y, strict=True)))
    else:
        shifted = out - jnp.max(out, axis=1, keepdims=True)
        log_p = shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis=1, keepdims=True))
        terms.append(-lam * jnp.sum(y * log_p))
    return terms


def total_energy(params, z0, zs, y, a, lam, decay, *, activation, skip, loss, free):
    """The energy summed over layers and batch, with activity decay on every free layer."""
    phi = PHI[activation] if isinstance(activation, str) else activation
    squares = jnp.sum(zs**2) + (jnp.sum(z0**2) if free else 0.0)
    return sum(layer_terms(params, z0, zs, y, a, phi, skip, loss, lam)) + decay * squares / 2


@functools.partial(jax.jit, static_argnames=("activation", "skip", "loss", "free"))
def energy_and_gradient(params, z0, zs, y, a, lam, decay, **static):
    """∂F/∂z₀, ∂F/∂z and F, summed over the batch."""
    value, gradients = jax.value_and_grad(total_energy, argnums=(1, 2))(params, z0, zs, y, a, lam, decay, **static)
    return *gradients, value


@functools.partial(jax.jit, static_argnames=("activation", "skip", "loss", "free", "steps"))
def descend(params, z0, zs, y, a, lam, decay, lr, *, steps, free, **static):
    """`steps` of plain gradient descent on full activities; also the energy and weight gradients there."""

    def body(_, z):
        g0, g, _ = energy_and_gradient(params, *z, y, a, lam, decay, free=free, **static)
        return (z[0] - lr * g0 if free else z[0]), z[1] - lr * g

    z0, zs = jax.lax.fori_loop(0, steps, body, (z0, zs))
    value, slopes = jax.value_and_grad(total_energy)(params, z0, zs, y, a, lam, decay, free=free, **static)
    return z0, zs, value / len(y), jax.tree.map(lambda g: g / (len(y) * lam), slopes)


def feedforward(params, x, a, phi, skip):
    """Activities at which every hidden error is zero, and the output."""
    zs = [a[0] * x @ params[0][0].T + params[0][1]]
    for layer in range(2, len(params)):
        w, b = params[layer - 1]
        z = a[1] * phi(zs[-1]) @ w.T + b
        zs.append(z + zs[layer - 1 - skip] if skip and layer > skip else z)
    return jnp.stack(zs), a[2] * phi(zs[-1]) @ params[-1][0].T + params[-1][1]


def make(
    *,
    in_size=5,
    out_size=3,
    width=6,
    hidden_layers=4,
    batch=3,
    seed=0,
    loss="mse",
    **options,
):
    """A small random network with non-zero biases, and a batch for it."""
    k = jr.split(jr.key(seed), 5)
    network = mupc.Network(in_size, out_size, width, hidden_layers, key=k[0], **options)
    if network.input.bias is not None:
        network = jax.tree.map(
            lambda p: 0.3 * jr.normal(jr.fold_in(k[1], p.size), p.shape) if not p.any() else p, network
        )
    x = jr.normal(k[2], (batch, in_size))
    y = jr.normal(k[3], (batch, out_size)) if loss == "mse" else jnp.eye(out_size)[jnp.arange(batch) % out_size]
    return network, x, y


def relative(got, want):
    """Largest difference on the scale of the largest wanted value."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, (got.shape, want.shape)
    if not want.size:
        return 0.0
    scale = np.max(np.abs(want))
    return float(np.max(np.abs(got - want)) / (scale if scale else 1.0))
