"""Signals that have travelled far below the output survive in every precision."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc import nodes
from mupc.network import resolve_precision
from mupc.network._activation import ACTIVATIONS, Activation

DEPTH, WIDTH = 24, 64


def gradients(network, x, y, precision):
    solver = mupc.GradientDescent(lr=0.5 / 64, steps=DEPTH)
    solution = mupc.infer(network, x, y, solver, precision=precision)
    assert solution.precision == precision
    return np.asarray(mupc.weight_gradients(network, solution, x).hidden.weight, np.float64)


@pytest.mark.parametrize(
    ("activation", "precision", "limit"),
    [
        ("tanh", "bf16", 2e-2),
        pytest.param("tanh", "float32", 1e-5, marks=pytest.mark.slow),
        pytest.param("relu", "bf16", 2e-2, marks=pytest.mark.slow),
        pytest.param("relu", "float32", 1e-5, marks=pytest.mark.slow),
    ],
)
def test_gradients_far_below_the_output_keep_their_relative_accuracy(activation, precision, limit):
    network = mupc.Network(20, 10, WIDTH, DEPTH, activation=activation, key=jr.key(0))
    network = jax.tree.map(lambda w: w.astype(jnp.float32), network)
    x, y = jr.normal(jr.key(1), (64, 20), jnp.float32), jnp.eye(10)[jnp.arange(64) % 10]
    exact, got = gradients(network, x, y, "float64"), gradients(network, x, y, precision)
    smallest = np.finfo(np.float32).tiny * 1e8
    checked = 0
    for layer in range(DEPTH - 1 - 6):  # hidden weight matrices six or more layers below the output
        norm = np.linalg.norm(exact[layer])
        if norm > smallest:
            assert np.linalg.norm(got[layer] - exact[layer]) < limit * norm, f"matrix {layer}"
            checked += 1
    assert checked >= 4
    assert np.linalg.norm(exact[DEPTH - 10]) < 1e-6 * np.linalg.norm(exact[-1]), "the signal is tiny there"


@pytest.mark.parametrize("activation", [*ACTIVATIONS.values(), Activation("sin", jnp.sin)], ids=lambda a: a.name)
@pytest.mark.parametrize("size", [1e-30, 1e-6, 1e-3, 0.1, 10.0])
def test_activation_differences_are_accurate_relative_to_themselves(activation, size):
    z = (2 * jr.normal(jr.key(0), (400,))).astype(jnp.float32)
    delta = (size * jr.normal(jr.key(1), z.shape)).astype(jnp.float32)
    got = activation.difference(z, delta)
    assert got.dtype == jnp.float32
    # the oracle: float64 subtraction where δ is large, δ times the derivative half-way where it is tiny
    wide, step = z.astype(jnp.float64), delta.astype(jnp.float64)
    if size <= 1e-6:
        want = step * activation.derivative(wide + step / 2)
        crossing = activation.derivative(wide) != activation.derivative(wide + step)
        kinked = activation.name in ("relu", "leaky_relu", "hard_tanh", "selu")
        keep = ~(crossing & kinked) if activation.name != "selu" else jnp.sign(wide) == jnp.sign(wide + step)
    else:
        want, keep = activation(wide + step) - activation(wide), jnp.ones_like(wide, bool)
    scale = jnp.abs(step) / 2 + jnp.abs(want)
    assert float(jnp.max(jnp.where(keep, jnp.abs(got - want) / scale, 0))) < 1e-5


def test_default_precision_is_that_of_the_weights():
    network = mupc.Network(4, 2, 3, 2, key=jr.key(0))
    x, y = jnp.ones((2, 4)), jnp.zeros((2, 2))
    narrow = jax.tree.map(lambda w: w.astype(jnp.float32), network)
    solver = mupc.GradientDescent(0.1, 1)
    assert mupc.infer(network, x, y, solver).precision == "float64"
    solution = mupc.infer(narrow, x, y, solver)
    assert solution.precision == "float32"
    assert solution.activities.dtype == jnp.float32


def test_tf32_is_reported_as_what_it_is_without_a_gpu():
    if jax.default_backend() == "gpu":
        pytest.skip("a GPU has TF32")
    network = mupc.Network(4, 2, 3, 2, key=jr.key(0))
    solution = mupc.infer(network, jnp.ones((2, 4)), jnp.zeros((2, 2)), mupc.GradientDescent(0.1, 1), precision="tf32")
    assert solution.precision == "float32"


def test_bf16_rounds_operands_and_sums_in_float32():
    network = mupc.Network(4, 2, 3, 2, activation="linear", parameterisation="sp", key=jr.key(0))
    x = jr.normal(jr.key(1), (5, 4))
    round_ = lambda a: np.asarray(a.astype(jnp.bfloat16).astype(jnp.float32))  # noqa: E731
    _, output = mupc.forward(network, x, precision="bf16")
    z = round_(x.astype(jnp.float32)) @ round_(network.input.weight.astype(jnp.float32)).T
    assert output.dtype == jnp.float32
    first = mupc.forward(network, x, precision="bf16")[0][0]
    np.testing.assert_allclose(first, z, rtol=1e-5, atol=1e-6)


class Scaled(eqx.Module):
    """A module of a user with one of the library's layers in it."""

    layer: nodes.Linear

    def __call__(self, z):
        return self.layer(2 * z)


def test_layers_in_a_module_of_ones_own_follow_the_policy():
    keys = jr.split(jr.key(0), 2)
    layers = [nodes.Linear(8, 8, role="hidden", key=key) for key in keys]
    bare, own = (
        mupc.Chain([first, nodes.Sequential(["relu", layers[1]])], input_shape=(8,))
        for first in (nodes.Sequential([layers[0]]), Scaled(layers[0]))
    )
    x = jr.normal(jr.key(1), (16, 8))
    for name in ("bf16", "float32"):
        policy = resolve_precision(name, bare)
        want, found = bare.forward_pass(2 * x, policy)[1], own.forward_pass(x, policy)[1]
        np.testing.assert_array_equal(found, want)
        rounded = jnp.abs(found - bare(2 * x)).max() > 1e-4
        assert bool(rounded) == (name == "bf16")
