"""Gradients of the equilibrated energy against local learning and finite differences, and the paper's theorems against
dense linear algebra."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import PHI, feedforward, make, parameters, relative

import mupc
from mupc import theory

WEIGHTS = [
    lambda n: n.input.weight,
    lambda n: n.hidden.weight,
    lambda n: n.readout.weight,
]


def scaled(network, factor):
    return jax.tree.map(lambda leaf: factor * leaf, network)


def flat(network):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(network)])


@pytest.mark.parametrize("skip", [0, 1, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_gradients_at_equilibrium_are_those_of_local_learning(skip, bias, request):
    if not (bias and skip == 2) and not request.config.getoption("--zoo"):
        pytest.skip("only with --zoo")
    network, x, y = make(activation="linear", skip=skip, use_bias=bias, seed=skip)
    for weight in (1.0, 0.3):
        energy = mupc.Energy(output_precision=jnp.array(weight))
        solution = mupc.infer(network, x, y, mupc.ExactLinear(), energy=energy)
        want = mupc.weight_gradients(network, solution, x)
        got = theory.equilibrium_gradients(network, x, y, energy=energy)
        assert jax.tree.structure(got) == jax.tree.structure(want)
        for mine, local in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            assert relative(mine, local) < 1e-9


def test_gradients_with_weight_penalties():
    network, x, y = make(activation="linear")
    energy = mupc.Energy(output_precision=0.3, weight_decay=0.2, orthogonality=0.1)
    solution = mupc.infer(network, x, y, mupc.ExactLinear(), energy=energy)
    want = mupc.weight_gradients(network, solution, x)
    assert relative(flat(theory.equilibrium_gradients(network, x, y, energy=energy)), flat(want)) < 1e-9


def test_gradients_at_equilibrium_are_finite_differences():
    network, x, y = make(activation="linear", skip=2, use_bias=True, seed=2)
    energy = mupc.Energy(output_precision=jnp.array(0.3))
    gradients = theory.equilibrium_gradients(network, x, y, energy=energy)
    entries = [(0, (1, 2)), (1, (0, 3, 4)), (1, (2, 0, 0)), (2, (2, 5))]
    places = [(WEIGHTS[layer], index) for layer, index in entries] + [(lambda n: n.hidden.bias, (1, 2))]
    for where, index in places:
        ends = [
            theory.equilibrium_energy(
                eqx.tree_at(where, network, where(network).at[index].add(step)), x, y, energy=energy
            )
            for step in (1e-5, -1e-5)
        ]
        assert where(gradients)[index] == pytest.approx((ends[0] - ends[1]) / 2e-5 / 0.3, rel=1e-6)


def test_gradients_are_in_float64_whatever_the_default():
    network, x, y = make(activation="linear")
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), network)
    want = theory.equilibrium_gradients(jax.tree.map(lambda leaf: leaf.astype(jnp.float64), single), x, y)
    x, y = np.asarray(x), np.asarray(y)
    with jax.enable_x64(False):
        got = theory.equilibrium_gradients(single, x, y)
        moved = jax.tree.map(lambda w, g: w - 0.1 * g, single, got)
        assert theory.equilibrium_energy(moved, x, y) < theory.equilibrium_energy(single, x, y)
    assert {leaf.dtype for leaf in jax.tree.leaves(got)} == {np.dtype(np.float64)}
    assert relative(flat(got), flat(want)) < 1e-12


@pytest.mark.parametrize("parameterisation, skip", [("sp", 0), ("mupc", 1), ("orthogonal", 2)])
def test_convexity(parameterisation, skip):
    network, _, _ = make(activation="linear", parameterisation=parameterisation, skip=skip)
    for weight in (1.0, 0.3):
        energy = mupc.Energy(output_precision=weight)
        found = theory.convexity(network, energy=energy)
        dense = theory.activity_hessian(network, energy=energy)
        sign, want = np.linalg.slogdet(dense)
        assert sign == 1
        assert found.log_determinant == pytest.approx(want, rel=1e-10)
        assert found.log_rescaling == pytest.approx(want, rel=1e-10)
        assert found.smallest == pytest.approx(np.linalg.eigvalsh(dense)[0], rel=1e-10)
        assert found.log_rescaling > 0
        assert (found.definite, found.evidence, found.holds) == ("positive definite", "determinants", True)
        assert found.tolerance < 1e-6


def test_convexity_of_a_large_network():
    network, _, _ = make(activation="linear", width=64, hidden_layers=20)
    found = theory.convexity(network)
    assert found.holds
    assert found.evidence == "determinants"
    want = np.linalg.slogdet(theory.activity_hessian(network))[1]
    assert (found.log_determinant, found.log_rescaling) == pytest.approx((want, want), rel=1e-8)


def test_convexity_with_a_free_input():
    for in_size, definite in ((5, "positive semidefinite"), (2, "positive definite")):
        network, _, _ = make(activation="linear", in_size=in_size)
        found = theory.convexity(network, free_input=True)
        assert (found.definite, found.evidence, found.holds) == (definite, "eigenvalues", True)
        sign, logdet = np.linalg.slogdet(theory.rescaling(network))
        assert (sign, found.log_rescaling) == (1, pytest.approx(logdet, rel=1e-9))
        if in_size == 2:
            want = np.linalg.slogdet(theory.activity_hessian(network, free_input=True))[1]
            assert found.log_determinant == pytest.approx(want, rel=1e-9)
        else:
            assert np.isnan(found.log_determinant)


def test_convexity_beyond_float64():
    """With κ near 1e24 only the rescaling decides. S is 3×3, so its own determinant is still exact enough."""
    network, _, _ = make(activation="linear", parameterisation="sp")
    huge = scaled(network, 1e6)
    found = theory.convexity(huge)
    assert (found.definite, found.evidence, found.holds) == ("positive semidefinite", "rescaling", True)
    assert np.isnan(found.log_determinant)
    assert found.log_rescaling == pytest.approx(np.linalg.slogdet(theory.rescaling(huge))[1], rel=1e-9)
    with pytest.raises(ValueError, match="overflow float64: its weights are too large"):
        theory.convexity(scaled(network, 1e100))


def test_convexity_can_fail():
    found = theory.convexity(make(activation="linear")[0])
    assert not dataclasses.replace(found, log_determinant=found.log_determinant + 1e-6).holds
    assert not dataclasses.replace(found, definite="indefinite", evidence="rescaling").holds
    assert not dataclasses.replace(found, definite="indefinite", evidence="eigenvalues").holds


@functools.cache
def limit(width, depth, parameterisation="mupc", weight=1.0, seed=0):
    sizes = {"in_size": 5, "out_size": 3, "width": width, "hidden_layers": depth, "batch": 8}
    network, x, y = make(activation="linear", parameterisation=parameterisation, seed=seed, **sizes)
    return theory.backprop_limit(network, x, y, energy=mupc.Energy(output_precision=jnp.array(weight)))


def test_backprop_limit_against_the_definitions():
    network, x, y = make(activation="linear", use_bias=True, skip=2)
    energy = mupc.Energy(output_precision=jnp.array(0.3), weight_decay=0.5)
    plain = mupc.Energy(output_precision=jnp.array(0.3))
    found = theory.backprop_limit(network, x, y, energy=energy)
    s = theory.rescaling(network, energy=plain)
    pc = flat(mupc.weight_gradients(network, mupc.infer(network, x, y, mupc.ExactLinear(), energy=plain), x))
    bp = flat(jax.grad(lambda n: jnp.mean(jnp.sum((y - n(x)) ** 2, axis=1)) / 2)(network))
    assert found.rescaling_distance == pytest.approx(np.max(np.abs(np.linalg.eigvalsh(0.3 * s - np.eye(3)))), rel=1e-9)
    assert found.gradient_distance == pytest.approx(np.linalg.norm(pc - bp) / np.linalg.norm(bp), rel=1e-8)
    assert found.cosine == pytest.approx(pc @ bp / np.linalg.norm(pc) / np.linalg.norm(bp), rel=1e-9)
    assert found.ratio == theory.loss_energy_ratio(network, x, y, energy=plain)
    assert found.aspect == 5 / 6


@pytest.mark.zoo
def test_mupc_becomes_backpropagation_with_width():
    """Theorem 1: like 1/N at a fixed depth."""
    widths = [32, 128, 512]
    for name in ("rescaling_distance", "gradient_distance"):
        means = [np.mean([getattr(limit(width, 4, seed=seed), name) for seed in range(3)]) for width in widths]
        assert -1.3 < np.polyfit(np.log(widths), np.log(means), 1)[0] < -0.7
    assert limit(512, 4).cosine > 0.999
    assert 1 < limit(512, 4).ratio < 1.02


@pytest.mark.slow
def test_depth_works_against_it():
    for name in ("rescaling_distance", "gradient_distance", "ratio", "aspect"):
        shallow, middle, deep = (getattr(limit(32, depth), name) for depth in (2, 4, 16))
        assert shallow < middle < deep


@pytest.mark.slow
def test_sp_does_not_become_backpropagation():
    narrow, wide = (limit(width, 4, "sp") for width in (32, 512))
    for name in ("rescaling_distance", "gradient_distance"):
        assert getattr(wide, name) > 0.5
        assert getattr(wide, name) > 0.3 * getattr(narrow, name)


def test_any_network_becomes_backpropagation_with_a_small_output_precision():
    coarse, fine = (limit(32, 4, "sp", weight) for weight in (1e-4, 1e-6))
    assert coarse.rescaling_distance == pytest.approx(100 * fine.rescaling_distance, rel=1e-9)
    assert coarse.gradient_distance == pytest.approx(100 * fine.gradient_distance, rel=0.05)
    assert fine.gradient_distance < fine.rescaling_distance * 2 < 1e-3
    assert fine.ratio == pytest.approx(1, abs=1e-3)


def test_no_gradient_no_direction():
    network, x, _ = make(activation="linear")
    found = theory.backprop_limit(network, x, network(x))
    assert np.isnan([found.gradient_distance, found.cosine, found.ratio]).all()


@pytest.mark.parametrize("skip", [0, 1])
@pytest.mark.parametrize("bias", [False, True])
def test_free_output_is_the_forward_pass(skip, bias):
    network, x, _ = make(activation="linear", skip=skip, use_bias=bias, hidden_layers=3)
    found = theory.free_output(network, x, steps=2000)
    assert found.solution_distance < 1e-10
    assert found.distances.shape == (2001,)
    assert found.distances[-1] < 1e-6
    assert np.all(np.diff(found.distances[found.distances > 1e-12]) < 0)
    hidden, output = feedforward(parameters(network), x, network.multipliers, PHI["linear"], skip)
    want = np.concatenate([*hidden.mT, output.T])
    values, vectors = np.linalg.eigh(theory.activity_hessian(network, free_output=True))
    assert found.lr == pytest.approx(1 / values[-1], rel=1e-9)
    start = vectors.T @ (np.random.default_rng(0).standard_normal(want.shape) - want)
    for step in (0, 1, 50):
        rest = np.linalg.norm((1 - found.lr * values)[:, None] ** step * start) / np.linalg.norm(want)
        assert found.distances[step] == pytest.approx(rest, rel=1e-9)


def test_free_output_from_given_activities():
    network, x, _ = make(activation="linear", hidden_layers=3)
    hidden, output = mupc.forward(network, x)
    at_rest = theory.free_output(network, x, activities=(hidden, output), lr=0.1, steps=3)
    assert at_rest.lr == 0.1
    assert np.all(at_rest.distances < 1e-14)
    moved = theory.free_output(network, x, activities=(hidden, output + 1), lr=0.1, steps=1)
    size = np.sqrt(np.sum(hidden**2) + np.sum(output**2))
    assert moved.distances[0] == pytest.approx(np.sqrt(output.size) / size, rel=1e-12)
    assert moved.distances[1] < moved.distances[0]


def test_forward_sizes():
    for activation, bias in (("relu", True), ("linear", False)):
        network, x, _ = make(activation=activation, use_bias=bias)
        hidden, _ = feedforward(parameters(network), x, network.multipliers, PHI[activation], 1)
        found = theory.forward_sizes(network, x)
        assert relative(found, np.mean(np.abs(hidden), axis=(1, 2))) < 1e-12
        single = theory.forward_sizes(network, x, precision="float32")
        assert 0 < relative(single, found) < 1e-5
        assert single.dtype == np.float64


@pytest.mark.usefixtures("as_users_see_it")
def test_bad_input():
    network, x, y = make(activation="linear")
    curved = make(activation="tanh")[0]
    broken = eqx.tree_at(WEIGHTS[1], network, network.hidden.weight.at[0, 0, 0].set(jnp.nan))
    linear_only = [
        functools.partial(theory.equilibrium_gradients, x=x, y=y),
        functools.partial(theory.backprop_limit, x=x, y=y),
        theory.convexity,
    ]
    for function in (*linear_only, functools.partial(theory.free_output, x=x)):
        with pytest.raises(ValueError, match="for linear networks only, got activation 'tanh'"):
            function(curved)
    for function in linear_only:
        with pytest.raises(ValueError, match="for the loss \"mse\" only, got 'cross-entropy'"):
            function(network, energy=mupc.Energy("cross-entropy"))
        with pytest.raises(ValueError, match="without activity decay, got activity_decay=0.1"):
            function(network, energy=mupc.Energy(activity_decay=0.1))
    with_x = [functools.partial(f, x=x) for f in (theory.free_output, theory.forward_sizes)]
    for function in (*linear_only, *with_x):
        with pytest.raises(ValueError, match="NaN or infinite weights"):
            function(broken)
        with pytest.raises(TypeError, match="must be a network such as mupc.Network"):
            function(network.hidden)
    for function in (theory.equilibrium_gradients, theory.backprop_limit):
        with pytest.raises(ValueError, match=r"x must have shape \(batch, 5\), got \(3, 4\)"):
            function(network, x[:, 1:], y)
        with pytest.raises(ValueError, match=r"y must have shape \(3, 3\), got \(2, 3\)"):
            function(network, x, y[1:])
    for function in (theory.free_output, theory.forward_sizes):
        with pytest.raises(ValueError, match=r"x must have shape \(batch, 5\), got \(3, 4\)"):
            function(network, x[:, 1:])
    hidden, output = mupc.forward(network, x)
    cases = [
        ({"steps": 0}, ValueError, "steps must be at least 1, got 0"),
        ({"lr": 0.0}, ValueError, "lr must be greater than 0, got 0"),
        ({"activities": hidden}, TypeError, r"activities must be a pair \(hidden, output\)"),
        ({"activities": (hidden[1:], output)}, ValueError, r"activities must have shape \(4, 3, 6\), got \(3, 3, 6\)"),
        ({"activities": (hidden, output[1:])}, ValueError, r"output in activities must have shape \(3, 3\)"),
    ]
    for options, kind, match in cases:
        with pytest.raises(kind, match=match):
            theory.free_output(network, x, **options)
