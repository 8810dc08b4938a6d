"""Scaled rates against what they stand for: plain optimisers with a rate of their own for every weight, and a network
whose weights are drawn on another scale. N is three times the base width, L twice the base's."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
import reference

import mupc
from mupc.data import Dataset, Schema, Split

RATE, DECAY, STEPS, EPSILON = 0.03, 0.5, 5, 1e-8
SIZES = {"in_size": 5, "out_size": 3, "width": 12, "hidden_layers": 3, "activation": "tanh", "key": jr.key(0)}
BASE = {"base_width": 4, "base_hidden_layers": 1}
SAMPLES = Split(np.random.default_rng(0).normal(size=(16, 5)).astype(np.float32), np.arange(16, dtype=np.int32) % 3)
DATA = Dataset("points", SAMPLES, SAMPLES, None, Schema(labels=(0, 1, 2)), False, "made here")


def trained(network, **settings):
    """The weights after five steps, each on all samples."""
    settings = {"epochs": STEPS, "batch_size": len(DATA.train), "schedule": "constant", **settings}
    result = mupc.fit(network, DATA, mupc.BP(), **settings)
    return reference.parameters(result.network)


def assert_same(got, want):
    for (w, b), (wanted_w, wanted_b) in zip(got, want, strict=True):
        np.testing.assert_allclose(w, wanted_w, rtol=0, atol=1e-12)
        np.testing.assert_allclose(b, wanted_b, rtol=0, atol=1e-12)


def hidden_and_others(hidden, others):
    """One rule for the hidden weights, another for input and readout."""

    def labels(network):
        return eqx.tree_at(lambda n: jax.tree.leaves(n), network, ["others", "hidden", "others"])

    return optax.multi_transform({"hidden": hidden, "others": others}, labels)


# Divided by f, hidden weights have f times the gradient. The rule works with gradients of the base size, which are
# 3^1.5·2^0.5 times those of hidden weights and three times the others: its ε is that much smaller here.
PLAIN = {
    "lion": optax.lion(RATE, weight_decay=DECAY),
    "adamw": hidden_and_others(
        optax.adamw(RATE, eps=EPSILON / (3**2 * 2), weight_decay=DECAY),
        optax.adamw(RATE, eps=EPSILON / 3, weight_decay=DECAY),
    ),
}


@pytest.mark.parametrize("optimiser", PLAIN)
def test_scaled_rates_are_plain_rates_for_weights_on_another_scale(optimiser):
    """W = f·U: a rate of f·η for W is a rate of η for U, with f times the multiplier. Decay is the same for both."""
    network, factor = mupc.Network(**SIZES), (3 * 2) ** -0.5
    first, hidden, last = network.multipliers
    other = mupc.Network(**SIZES, multipliers=(first, factor * hidden, last))
    other = eqx.tree_at(lambda n: n.hidden.weight, other, other.hidden.weight / factor)
    energy = mupc.Energy(weight_decay=DECAY)

    got = trained(network, optimiser=optimiser, weight_lr=RATE, energy=energy, rate_scaling="mup", **BASE)
    plain = trained(other, optimiser=PLAIN[optimiser])
    want = [(w * (factor if w.shape == (12, 12) else 1), b) for w, b in plain]
    assert_same(got, want)


# weights, then biases, of the input layer, two hidden layers and the readout
N, L = 3, 2
ADAM_FACTORS = [1, 1, *2 * [(N * L) ** -0.5, 1 / L], 1, 1]
SGD_FACTORS = [N, N, *2 * [N, N / L], N, 1]
GRADIENT_SIZES = [1 / N, 1 / N, *2 * [1 / N / (N * L) ** 0.5, 1 / N], 1 / N, 1]


class Adam:
    """Adam for one array, in numpy."""

    def __init__(self, rate, epsilon):
        self.rate, self.epsilon, self.first, self.second, self.count = rate, epsilon, 0.0, 0.0, 0

    def __call__(self, g):
        self.count += 1
        self.first = 0.9 * self.first + 0.1 * g
        self.second = 0.999 * self.second + 0.001 * g**2
        size = np.sqrt(self.second / (1 - 0.999**self.count))
        return -self.rate * self.first / (1 - 0.9**self.count) / (size + self.epsilon)


class SGD:
    """Gradient descent with momentum for one array."""

    def __init__(self, rate, momentum):
        self.rate, self.momentum, self.sum = rate, momentum, 0.0

    def __call__(self, g):
        self.sum = self.momentum * self.sum + g
        return -self.rate * self.sum


def rules(optimiser):
    """A rule for every array."""
    if optimiser == "adam":
        return [Adam(RATE * factor, EPSILON * size) for factor, size in zip(ADAM_FACTORS, GRADIENT_SIZES, strict=True)]
    return [SGD(RATE * factor, 0.9 if optimiser == "momentum" else 0) for factor in SGD_FACTORS]


@pytest.mark.parametrize("optimiser", ["adam", "momentum", "sgd"])
def test_scaled_rates_are_a_rate_for_every_weight(optimiser):
    network = mupc.Network(**SIZES, use_bias=True)
    x, y, a = SAMPLES.raw.astype(float), jnp.asarray(DATA.y_train, float), reference.multipliers("mupc", 5, 12, 3, 1)

    @jax.jit
    @jax.grad
    def gradient(params):
        return jnp.sum((y - reference.feedforward(params, x, a, jnp.tanh, 1)[1]) ** 2) / (2 * len(x))

    arrays, form = jax.tree.flatten(reference.parameters(network))
    each = rules(optimiser)
    for _ in range(STEPS):
        gradients = map(np.asarray, jax.tree.leaves(gradient(jax.tree.unflatten(form, arrays))))
        arrays = [array + rule(g) for array, rule, g in zip(arrays, each, gradients, strict=True)]
    got = trained(network, optimiser=optimiser, weight_lr=RATE, rate_scaling="mup", **BASE)
    assert_same(got, jax.tree.unflatten(form, arrays))
    assert all(np.abs(bias).min() > 0 for _, bias in got)
