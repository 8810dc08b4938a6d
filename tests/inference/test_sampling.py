"""Langevin dynamics and ancestral sampling, against the closed form of linear networks."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from chains import chain_of
from oracle import Oracle

import mupc

DRAWS, DEPTH, WIDTH = 20_000, 2, 3
LR, TEMPERATURE, PRECISION = 0.15, 0.5, 2.0
SIGMAS = 4.5
"""Of some 60 independent numbers, none is this many standard errors off in one of 1000 runs; the draws are fixed."""
ENERGY = mupc.Energy(output_precision=PRECISION)


@pytest.fixture(scope="module")
def linear():
    network = mupc.Network(2, 2, WIDTH, DEPTH, activation="linear", parameterisation="sp", key=jr.key(0))
    return network, jnp.array([[0.5, -1.0]]), jnp.array([[1.0, 0.3]])


def repeated(row):
    return jnp.repeat(row, DRAWS, axis=0)


def agree(draws, mean, covariance):
    """Whether rows have this mean and covariance, up to sampling errors of a Gaussian."""
    spread = np.diag(covariance)
    standard = np.sqrt((np.outer(spread, spread) + covariance**2) / len(draws))
    off = np.abs(np.cov(draws.T) - covariance) / standard
    return max(off.max(), (np.abs(draws.mean(0) - mean) / np.sqrt(spread / len(draws))).max()) < SIGMAS


def by_row(activities):
    """Activities (H, B, N) as a row per sample, layer-major."""
    return np.moveaxis(np.asarray(activities), 1, 0).reshape(DRAWS, -1)


@pytest.mark.parametrize("form", ["dense", pytest.param("chain", marks=pytest.mark.slow)])
def test_langevin_dynamics_draws_from_the_posterior(linear, form):
    """Its covariance is T·H⁻¹(I − lr·H/2)⁻¹, which differs from T·H⁻¹ by more than sampling can explain."""
    network, x, y = linear
    oracle = Oracle.of(network, x, y, precision=PRECISION)
    hessian, mean = oracle.hessian(), oracle.equilibrium().ravel()
    np.testing.assert_allclose(mupc.theory.activity_hessian(network, energy=ENERGY), hessian, atol=1e-12)
    assert 200 * LR * np.linalg.eigvalsh(hessian)[0] > 9  # so that the start is forgotten
    solver = mupc.MonteCarlo(LR, 200, TEMPERATURE, jr.key(1))
    posed = network if form == "dense" else chain_of(network)
    solution = mupc.infer(posed, repeated(x), repeated(y), solver, energy=ENERGY)
    draws = by_row(jnp.concatenate(jax.tree.leaves(solution.activities)))
    exact = TEMPERATURE * np.linalg.inv(hessian)
    assert agree(draws, mean, exact @ np.linalg.inv(np.eye(len(hessian)) - LR * hessian / 2))
    assert not agree(draws, mean, exact)


@pytest.mark.slow
def test_a_free_input_is_drawn_too(linear):
    network, _, y = linear
    energy = mupc.Energy(activity_decay=0.4)

    def value(flat):
        z0, z = flat[:2].reshape(1, 2), flat[2:].reshape(DEPTH, 1, WIDTH)
        return mupc.energy(network, z, z0, y, energy=energy, free_input=True)

    start = jnp.zeros(2 + DEPTH * WIDTH)
    slope, hessian = np.asarray(jax.grad(value)(start)), np.asarray(jax.hessian(value)(start))
    solution = mupc.infer(network, None, repeated(y), mupc.MonteCarlo(LR, 100, TEMPERATURE), energy=energy)
    draws = np.concatenate([solution.input, by_row(solution.activities)], axis=1)
    bias = np.linalg.inv(np.eye(len(hessian)) - LR * hessian / 2)
    assert agree(draws, -np.linalg.solve(hessian, slope), TEMPERATURE * np.linalg.inv(hessian) @ bias)


@pytest.mark.parametrize("form", ["dense", "chain"])
@pytest.mark.parametrize("noisy", [True, False])
def test_ancestral_sampling_of_a_linear_network(linear, form, noisy):
    """The output is Gaussian around the prediction; each layer adds T·J Jᵀ with the map J from it to the output."""
    network, x, _ = linear
    first, inner, last = network.multipliers
    layer = np.eye(WIDTH) + inner * np.asarray(network.hidden.weight[0])
    top = last * np.asarray(network.readout.weight)
    maps = [top @ layer, top]
    covariance = TEMPERATURE * (sum(j @ j.T for j in maps) + noisy * np.eye(2) / PRECISION)
    posed = network if form == "dense" else chain_of(network)
    activities, output = mupc.sample(posed, repeated(x), jr.key(2), TEMPERATURE, ENERGY, output_noise=noisy)
    assert agree(np.asarray(output), (x @ (top @ layer @ (first * network.input.weight)).T)[0], covariance)
    z1, z2 = jnp.concatenate(jax.tree.leaves(activities))
    for e in (z1 - first * x @ network.input.weight.T, z2 - z1 @ layer.T):
        assert agree(np.asarray(e), np.zeros(WIDTH), TEMPERATURE * np.eye(WIDTH))


def test_samples_follow_the_nonlinear_layers():
    network = mupc.Network(5, 3, 6, 4, activation="tanh", key=jr.key(0))
    x = jr.normal(jr.key(1), (3, 5))
    z, y = (np.asarray(part) for part in mupc.sample(network, x, jr.key(2), output_noise=False))
    errors, rest = Oracle.of(network, x, np.zeros((3, 3))).errors(z)
    np.testing.assert_allclose(-rest, y, atol=1e-12)
    assert 0.7 < errors.std() < 1.3
    still = mupc.sample(network, x, jr.key(2), 0.0, output_noise=True)
    for found, wanted in zip(still, mupc.forward(network, x), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-14)


def test_temperature_zero_is_gradient_descent():
    network = mupc.Network(5, 3, 6, 8, activation="tanh", key=jr.key(0))
    x, y = jr.normal(jr.key(1), (3, 5)), jr.normal(jr.key(3), (3, 3))
    found, wanted = (
        mupc.infer(network, x, y, solver) for solver in (mupc.MonteCarlo(0.1, 6, 0.0), mupc.GradientDescent(0.1, 6))
    )
    np.testing.assert_allclose(found.activities, wanted.activities, rtol=1e-14)
    np.testing.assert_allclose(found.energy, wanted.energy, rtol=1e-14)


def test_keys():
    network = mupc.Network(5, 3, 6, 8, activation="tanh", key=jr.key(0))
    x, y = jr.normal(jr.key(1), (3, 5)), jr.normal(jr.key(3), (3, 3))

    def drawn(key):
        return np.asarray(mupc.infer(network, x, y, mupc.MonteCarlo(0.1, 6, key=key)).activities)

    np.testing.assert_array_equal(drawn(None), drawn(jr.key(0)))
    assert not np.any(drawn(jr.key(1)) == drawn(jr.key(0)))
    np.testing.assert_array_equal(drawn(jr.PRNGKey(1)), drawn(jr.key(1)))
    steps = [mupc.infer(network, x, y, mupc.MonteCarlo(0.1, n)).activities for n in (1, 2, 3)]
    assert not np.any(steps[1] - steps[0] == steps[2] - steps[1])
    assert not np.any(mupc.sample(network, x, jr.key(0))[1] == mupc.sample(network, x, jr.key(1))[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n: mupc.MonteCarlo(0.0, 4), "lr must be greater than 0, got 0."),
        (lambda n: mupc.MonteCarlo(0.1, 4, -1.0), "temperature must be at least 0, got -1."),
        (lambda n: mupc.MonteCarlo(0.1, -4), "steps must be at least 0, got -4"),
        (lambda n: mupc.MonteCarlo(0.1, 4, key=7), "key must be a JAX random key"),
        (lambda n: mupc.sample(n, jnp.ones((2, 5)), jr.key(0), -1.0), "temperature must be at least 0, got -1."),
        (lambda n: mupc.sample(n, jnp.ones((2, 5)), 0), "key must be a JAX random key"),
        (lambda n: mupc.sample(n, jnp.ones((2, 4)), jr.key(0)), "x must have shape (batch, 5), got (2, 4)."),
        (
            lambda n: mupc.sample(n, jnp.ones((2, 5)), jr.key(0), energy=mupc.Energy(activity_decay=0.1)),
            "activity_decay=0.1 does not have a model that can be drawn from layer by layer. Set it to 0.",
        ),
        (
            lambda n: mupc.sample(n, jnp.ones((2, 5)), jr.key(0), energy=mupc.Energy(loss="cross-entropy")),
            "only the squared error has Gaussian noise at the output. Pass output_noise=False.",
        ),
    ],
)
def test_mistakes(call, message, as_users_see_it):
    network = mupc.Network(5, 3, 6, 2, key=jr.key(0))
    with pytest.raises((ValueError, TypeError)) as caught:
        call(network)
    assert message in str(caught.value) and len(str(caught.value).splitlines()) == 1
