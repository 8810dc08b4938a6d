"""Scaled learning rates against steps written out by hand, where there is a rule and where there is none."""

import dataclasses

import jax
import jax.random as jr
import numpy as np
import optax
import pytest

import mupc
from mupc.cli.flags import LearningFlags
from mupc.data import Dataset, Schema, Split
from mupc.experiments import transfer_scaled
from mupc.experiments._methods import BASE_WIDTH
from mupc.network import BaseSize

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(8, 5)).astype(np.float32), RNG.normal(size=(8, 3)).astype(np.float32)
DATA = Dataset("noise", Split(X, Y), Split(X, Y), None, Schema(), False, "made here")
WIDE, DEEP = 4.0, 3.0
"""Times as wide and as deep as the base: 16 units and L = 6 against 4 units and L = 2."""
BASE = {"base_width": 4, "base_hidden_layers": 1}
ADAM = {"input": (1, 1), "hidden": ((WIDE * DEEP) ** -0.5, 1 / DEEP), "readout": (1, 1)}
SGD = {"input": (WIDE, WIDE), "hidden": (WIDE, WIDE / DEEP), "readout": (WIDE, 1)}
"""Factors on the rate of weights and biases: what the derivation in `docs/rate-scaling.md` comes to."""


def network(**options):
    return mupc.Network(5, 3, **{"width": 16, "hidden_layers": 5, "key": jr.key(0)} | options)


def step(net, **settings):
    """Return a network after one step of backpropagation on all samples."""
    base = {} if settings.get("rate_scaling") == "none" else BASE
    options = {"epochs": 1, "batch_size": 8, "weight_lr": 1e-3, **base}
    return mupc.fit(net, DATA, mupc.BP(), **options | settings).network


def moves(before, after, role):
    """Return how far the weights and the biases of a role moved."""
    old, new = getattr(before, role), getattr(after, role)
    return [np.asarray(new.weight) - old.weight, np.asarray(new.bias) - old.bias]


@pytest.mark.parametrize("optimiser", ["adam", pytest.param("lion", marks=pytest.mark.slow), "sgd"])
def test_one_step_by_hand(optimiser):
    net = network(use_bias=True)
    gradients = mupc.backprop_gradients(net, X, Y)
    after = step(net, optimiser=optimiser)
    for role, factors in (SGD if optimiser == "sgd" else ADAM).items():
        found = moves(net, after, role)
        for moved, factor, name in zip(found, factors, ("weight", "bias"), strict=True):
            gradient = np.asarray(getattr(getattr(gradients, role), name))
            one = gradient if optimiser == "sgd" else np.sign(gradient)  # the first step of Adam is the sign
            large = np.abs(gradient) > 1e-4  # than Adam's ε
            np.testing.assert_allclose(moved[large], -1e-3 * factor * one[large], rtol=2e-3, atol=2e-7)


@pytest.mark.slow
@pytest.mark.parametrize(("optimiser", "epsilon"), [("nadam", 1e-8), ("momentum", 0)])
def test_optimisers_of_a_kind_take_the_same_factors(optimiser, epsilon):
    """Compare with the plain step of the same optimiser: but for ε, only factors differ at the first step."""
    net = network(use_bias=True)
    gradients = mupc.backprop_gradients(net, X, Y)
    plain = step(net, optimiser=optimiser, rate_scaling="none")
    scaled = step(net, optimiser=optimiser)
    for role, factors in (SGD if optimiser == "momentum" else ADAM).items():
        layer = getattr(gradients, role)
        found = zip((layer.weight, layer.bias), moves(net, plain, role), moves(net, scaled, role), factors, strict=True)
        for gradient, one, other, factor in found:
            large = np.abs(gradient) > 500 * epsilon
            assert large.any()
            np.testing.assert_allclose(other[large], factor * one[large], rtol=4e-3, atol=2e-7)


def test_at_the_base_size_nothing_changes():
    net = network()
    plain = step(net, rate_scaling="none", epochs=3)
    scaled = step(net, rate_scaling="mup", base_width=16, base_hidden_layers=5, epochs=3)
    for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves(scaled), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("width", "depth", "skip", "factor"),
    [(64, 8, 1, 1), (256, 8, 1, 0.5), (64, 35, 1, 0.5), (16, 8, 1, 2), (64, 2, 1, 3**0.5), (256, 143, 1, 1 / 8),
     (256, 143, 0, 0.5), (256, 143, 2, 1 / 8)],
)  # fmt: skip
def test_factors_relative_to_the_base(width, depth, skip, factor):
    net = network(width=width, hidden_layers=depth, skip=skip)
    first, hidden, last = net.rate_scales(BaseSize()).updates
    assert hidden.weight == pytest.approx(factor)
    assert first.weight == first.bias == last.weight == last.bias == 1
    line = mupc.TrainConfig().describe_rates(net)
    assert line == f"learning rates scaled from 8 hidden layers of 64: updates of hidden weights × {factor:.3g}"


@pytest.mark.slow
def test_decoupled_decay_takes_the_same_share_at_every_size():
    """Without a gradient only the decay moves weights: by its rate times w of each."""
    net = network()
    silent = Dataset("silence", Split(0 * X, 0 * Y), Split(X, Y), None, Schema(), False, "made here")
    options = {"epochs": 1, "batch_size": 8, "weight_lr": 0.1, "optimiser": "adamw", **BASE}
    after = mupc.fit(net, silent, mupc.BP(), energy=mupc.Energy(weight_decay=0.5), **options).network
    for role in ADAM:
        np.testing.assert_allclose(getattr(after, role).weight, 0.95 * getattr(net, role).weight, rtol=1e-6)


@pytest.mark.slow
def test_runs_side_by_side_are_scaled_as_well():
    net = network()
    runs = [mupc.Run(net, mupc.BP(), rate) for rate in (1e-3, 1e-2)]
    results = mupc.fit_many(runs, DATA, epochs=2, batch_size=8, **BASE)
    for run, result in zip(runs, results, strict=True):
        alone = step(net, epochs=2, weight_lr=run.weight_lr)
        for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(result.network), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)


NO_RULE = {
    "the parameterisation sp": (network(parameterisation="sp"), "adam"),
    "the parameterisation ntp": (network(parameterisation="ntp"), "adam"),
    "the parameterisation orthogonal": (network(parameterisation="orthogonal"), "adam"),
    "multipliers of your own": (network(multipliers=(1.0, 0.1, 0.1)), "adam"),
    "an optax transformation of your own": (network(), optax.adam(1e-3)),
}


@pytest.mark.parametrize("missing", NO_RULE)
def test_without_a_rule(missing):
    net, optimiser = NO_RULE[missing]
    config = mupc.TrainConfig(optimiser=optimiser)
    assert config.base(net) is None
    assert config.chosen(net, mupc.BP()).rate_scaling == "none"
    assert config.describe_rates(net) == f"learning rates not scaled: no rule for {missing}"
    wrong = f'rate_scaling="mup" has no rule for {missing}. Use "none", or leave it out.'
    with pytest.raises(ValueError) as error:
        mupc.fit(net, DATA, mupc.BP(), optimiser=optimiser, rate_scaling="mup")
    assert str(error.value) == wrong
    with pytest.raises(ValueError, match="base_width has no effect, because learning rates are not scaled: there"):
        mupc.fit(net, DATA, mupc.BP(), optimiser=optimiser, base_width=32)
    with pytest.raises(ValueError, match=r"base_width has no effect, because learning rates are not scaled\. Leave"):
        mupc.fit(net, DATA, mupc.BP(), rate_scaling="none", base_width=32)


def test_the_multipliers_of_the_parameterisation_have_its_rule():
    own = network()
    given = network(multipliers=own.multipliers)
    assert given.why_no_rate_rule is None


def test_the_default_rate_follows_the_scaling():
    rates = {
        name: mupc.TrainConfig(rate_scaling=name).chosen(network(), mupc.BP()).weight_lr for name in (None, "none")
    }
    defaults = mupc.BP().defaults
    assert rates == {None: defaults.weight_lr, "none": defaults.unscaled_weight_lr}


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [({"rate_scaling": np.ones(2)}, "rate_scaling"),
     ({"rate_scaling": "mupp"}, "Did you mean 'mup'"), ({"base_width": 0}, "base_width must be at least 1, got 0"),
     ({"base_hidden_layers": -3}, "base_hidden_layers must be at least 1"), ({"base_width": 1.5}, "whole number")],
)  # fmt: skip
def test_bad_input(settings, wrong):
    with pytest.raises((ValueError, TypeError), match=wrong):
        mupc.fit(network(), DATA, mupc.BP(), **settings)


def test_a_run_goes_on_with_its_own_scaling_only(tmp_path):
    options = {"batch_size": 8, "checkpoints": tmp_path}
    net = network()
    mupc.fit(net, DATA, mupc.BP(), epochs=2, weight_lr=0.01, rate_scaling="none", **options)
    changed = "rate_scaling was none and is mup from 8 hidden layers of 64 now. Give the same data and settings"
    with pytest.raises(ValueError, match=changed):
        mupc.fit(net, DATA, mupc.BP(), epochs=4, weight_lr=0.01, **options)


def test_layers_learn_by_the_epsilon_at_their_size():
    """ε shrinks with the gradients of a large network, and so does the threshold."""
    net = network(activation="tanh")
    solution = mupc.infer(net, X, Y, mupc.ErrorSpace())
    base = BaseSize(4, 1)
    plain, scaled = (mupc.credit_reach(net, solution, X, Y, base=given) for given in (None, base))
    assert scaled.threshold == pytest.approx(1e-8 * WIDE**-1.5 * DEEP**-0.5)
    assert plain.threshold == 1e-8
    np.testing.assert_array_equal(plain.entry_sizes, scaled.entry_sizes)
    between = np.median(plain.entry_sizes[1:-1])
    counts = [
        mupc.credit_reach(net, solution, X, Y, epsilon=float(between), base=given).learning_layers
        for given in (None, base)
    ]
    assert counts[0] < counts[1] == plain.layers


def test_credit_reach_needs_a_rule_for_a_base():
    net = network(parameterisation="sp")
    solution = mupc.infer(net, X, Y, mupc.ErrorSpace())
    with pytest.raises(ValueError, match="base has no rule for the parameterisation sp. Leave it out"):
        mupc.credit_reach(net, solution, X, Y, base=BaseSize())


def test_the_base_size_is_the_same_everywhere():
    flags = LearningFlags()
    assert BaseSize(flags.base_width, flags.base_hidden_layers) == BaseSize() == transfer_scaled.BASE
    assert BaseSize().width == BASE_WIDTH


def test_what_is_recorded_is_what_the_optimiser_sees():
    net = network()
    context = mupc.TrainConfig(**BASE).job(net, DATA, mupc.BP()).context
    gradients = mupc.backprop_gradients(net, X, Y)
    seen = context.gradient_sizes(gradients)
    plain = dataclasses.replace(context, base=None).gradient_sizes(gradients)
    growth = np.array([1 / WIDE, *[WIDE**-1.5 * DEEP**-0.5] * 4, 1 / WIDE])
    np.testing.assert_allclose(seen, plain / growth, rtol=1e-5)


@pytest.mark.slow
def test_a_thousand_layers_learn_with_the_rate_of_eight():
    digits = mupc.data.load("digits")
    for hidden_layers in (8, 1024):
        net = mupc.Network(digits.in_size, digits.out_size, 64, hidden_layers, key=jr.key(0))
        assert mupc.fit(net, digits, epochs=6).last["test_accuracy"] > 0.96  # seeds 0 to 2: 97.2 % or more
