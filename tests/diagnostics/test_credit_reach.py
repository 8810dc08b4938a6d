"""Credit reach: its numbers against independent ones, and its regimes."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
import reference
from chains import chain_of

import mupc
from mupc.diagnostics import LEARNING_LIMITS, layers_that_learn
from mupc.learning._optimiser import OPTIMISERS


def small(activation="tanh", **options):
    return mupc.Network(4, 3, 8, 3, activation=activation, key=jr.key(0), **options)


X, Y = jr.normal(jr.key(1), (5, 4)), jr.normal(jr.key(2), (5, 3))
DEEP_X, LABELS = jr.normal(jr.key(1), (4, 8)), jnp.array([0, 1, 2, 0])


def norms(gradients):
    return np.array([np.linalg.norm(w) for w, _ in reference.parameters(gradients)])


def sizes(gradients):
    return np.sqrt([np.mean(np.asarray(w) ** 2) for w, _ in reference.parameters(gradients)])


@pytest.mark.slow
def test_gradient_descent_at_the_step_size_of_the_paper_is_shallow():
    net = mupc.Network(8, 3, 32, 64, key=jr.key(0))
    solution = mupc.infer(net, DEEP_X, LABELS, mupc.GradientDescent(lr=0.5 / 64, steps=64))
    report = mupc.credit_reach(net, solution, DEEP_X, LABELS)
    pc = mupc.weight_gradients(net, solution, DEEP_X)
    bp = mupc.backprop_gradients(net, DEEP_X, LABELS)
    np.testing.assert_allclose(report.gradient_norms, norms(pc))
    np.testing.assert_allclose(report.backprop_norms, norms(bp))
    np.testing.assert_allclose(report.entry_sizes, sizes(pc))
    np.testing.assert_allclose(report.backprop_sizes, sizes(bp))
    pairs = zip(reference.parameters(pc), reference.parameters(bp), strict=True)
    cosines = [np.vdot(a, b) / np.linalg.norm(a) / np.linalg.norm(b) for (a, _), (b, _) in pairs]
    np.testing.assert_allclose(report.backprop_cosines, cosines)
    np.testing.assert_allclose(report.ratio, min(norms(pc)[:-1]) / max(norms(pc)[:-1]))
    assert report.layers == 65
    assert report.learning_layers == report.reach == np.sum(sizes(pc) >= 1e-8) < 16
    assert report.regime == "shallow"
    assert "layers learn" in str(report)
    assert mupc.credit_reach(net, solution, DEEP_X, LABELS, epsilon=1e-30).learning_layers > report.learning_layers
    assert mupc.credit_reach(net, solution, DEEP_X, LABELS, optimiser="lion").learning_layers > 32


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("loss", ["mse", "cross-entropy"])
def test_energy_shares(free, loss):
    net = small()
    options = mupc.Energy(loss=loss, output_precision=2.0, activity_decay=0.1, weight_decay=0.3)
    targets = jax.nn.softmax(Y)
    solution = mupc.infer(net, None if free else X, targets, mupc.GradientDescent(0.1, 5), energy=options)
    report = mupc.credit_reach(net, solution, None if free else X, targets)
    bare = mupc.Energy(loss=loss, output_precision=2.0, activity_decay=0.1)
    inputs = solution.input if free else X
    energies = mupc.layer_energies(net, solution.activities, inputs, targets, energy=bare, free_input=free)
    np.testing.assert_allclose(report.energy_shares, energies / jnp.sum(energies), rtol=1e-9)
    np.testing.assert_allclose(np.sum(report.energy_shares), 1)
    assert np.all(np.isnan(report.backprop_cosines)) == free
    assert report.regime == "unconverged"


def test_weight_penalties_carry_no_credit():
    net = small()
    decay = mupc.Energy(weight_decay=0.3)
    with_decay, without = (
        mupc.credit_reach(net, mupc.infer(net, X, Y, mupc.GradientDescent(0.1, 5), energy=energy), X, Y)
        for energy in (decay, None)
    )
    np.testing.assert_array_equal(with_decay.entry_sizes, without.entry_sizes)


def step_size(name, entry, steps=60):
    """How far the optimiser moves a weight at the last of many steps with the same gradient."""
    rule = OPTIMISERS[name](1.0)
    weight, gradient = jnp.zeros(()), jnp.asarray(entry)
    state = rule.init(weight)
    for _ in range(steps):
        updates, state = rule.update(gradient, state, weight)
    return abs(float(updates))


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_limits_are_those_of_the_optimisers(name):
    """Normalised: at ε the step is half of that of large gradients or more, and proportional to the entry far below.
    Not normalised: proportional over the whole range of the limit."""
    epsilon, share = LEARNING_LIMITS[name]
    full = step_size(name, 0.01)
    if share:
        np.testing.assert_allclose(step_size(name, 0.01 * share) / full, share, rtol=0.05)
    elif epsilon:
        assert 0.49 < step_size(name, epsilon) / full < 0.75
        assert step_size(name, epsilon / 100) / full < 0.02
    else:
        assert step_size(name, 1e-30) == full


def test_learning_layers():
    assert set(LEARNING_LIMITS) == set(OPTIMISERS)
    entries = np.array([0.0, 1e-30, 2e-8, 2e-5, 2e-4, 0.1])
    counts = {"adam": 4, "rmsprop": 2, "lion": 5, "sgd": 2, "adagrad": 2}
    assert {name: int(layers_that_learn(entries, name).sum()) for name in counts} == counts
    assert layers_that_learn(entries, optax.adam(0.1)).sum() == counts["adam"]
    assert not layers_that_learn(np.full(3, np.nan)).any()
    solution = mupc.infer(small(), X, Y, mupc.GradientDescent(0.1, 5))
    with pytest.raises(ValueError, match="optimiser 'adma' is not known. Did you mean 'adam'"):
        mupc.credit_reach(small(), solution, X, Y, optimiser="adma")


@pytest.mark.parametrize(
    ("net", "solver", "precision", "regime"),
    [
        (small(), mupc.ErrorSpace(), 1e-3, "backprop-like"),
        (small("linear"), mupc.ErrorSpace(steps=1, cg_steps=None), 3.0, "equilibrium"),
        (small(parameterisation="sp", skip=0), mupc.GradientDescent(0.1, 5), 3.0, "unconverged"),
    ],
)
def test_regimes(net, solver, precision, regime):
    options = mupc.Energy(output_precision=precision)
    solution = mupc.infer(net, X, Y, solver, energy=options)
    report = mupc.credit_reach(net, solution, X, Y)
    assert report.regime == regime, report
    assert report.learning_layers == report.reach == 4
    fraction, cosine, gradient = report.evidence
    assert fraction == 1
    assert (cosine > 0.99) == (regime == "backprop-like")
    assert np.isclose(cosine, np.min(report.backprop_cosines))
    left = np.sqrt(np.sum(np.asarray(solution.errors) ** 2) / len(X))
    assert np.isclose(gradient, float(solution.gradient_norm) / left)


def test_nothing_to_learn():
    net = small()
    _, y = mupc.forward(net, X)
    solution = mupc.infer(net, X, y, mupc.GradientDescent(0.1, 5))
    report = mupc.credit_reach(net, solution, X, y)
    assert (report.learning_layers, report.reach, report.ratio, report.regime) == (0, 0, 0.0, "shallow")
    assert np.all(np.isnan(report.energy_shares)) and np.all(np.isnan(report.backprop_cosines))


def test_the_same_network_as_a_chain():
    net = small(use_bias=True)
    chain, found = chain_of(net), []
    for each in (net, chain):
        solution = mupc.infer(each, X, Y, mupc.GradientDescent(0.1, 5), energy=mupc.Energy(activity_decay=0.1))
        base = mupc.TrainConfig().base(each)
        found.append((mupc.credit_reach(each, solution, X, Y), mupc.credit_reach(each, solution, X, Y, base=base)))
    for one, two in zip(*found, strict=True):
        assert one.names == two.names == ("input", "hidden.1", "hidden.2", "readout")
        for name in ("entry_sizes", "backprop_norms", "backprop_cosines", "energy_shares", "threshold", "evidence"):
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-5)
        assert (one.learning_layers, one.regime) == (two.learning_layers, two.regime)
