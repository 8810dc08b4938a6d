"""The coordinate check: sizes against plain numpy, slopes against scipy and known laws, and what it must catch."""

import functools
import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from chains import chain_of

import mupc
from mupc.diagnostics import CoordinateSettings
from mupc.diagnostics import _exponents as rules
from mupc.diagnostics._exponents import (
    CoordinateCheck,
    CoordinateSize,
    fit_line,
    group_sizes,
    judge_slopes,
    layer_group,
)
from mupc.network._parameterisation import PARAMETERISATIONS

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((16, 12)), np.eye(4)[RNG.integers(0, 4, 16)]
SMALL = {"widths": (16, 64), "depths": (4, 24), "width": 64, "hidden_layers": 4, "seeds": 8, "steps": 0}
BALANCED = {"solver": mupc.ErrorSpace(), "energy": mupc.Energy(output_precision=0.01)}
FAST = {"solver": mupc.GradientDescent(0.1, 0), **SMALL}  # no inference: only the forward pass is looked at


def failed(check, stage):
    return {(slope.axis, slope.quantity) for slope in check.slopes if slope.stage == stage and slope.verdict == "fail"}


def test_sizes_of_a_network():
    """Against the forward pass in numpy, the public solution, and optax's first step."""
    network = mupc.Network(12, 4, 6, 5, activation="tanh", key=jr.key(3))
    solver = mupc.GradientDescent(0.3, 7)
    found = mupc.coordinate_sizes(network, (X, Y), solver=solver, weight_lr=0.02)

    first, hidden, last = network.multipliers
    z = [first * X @ np.asarray(network.input.weight).T]
    branches = []
    for weight in np.asarray(network.hidden.weight):
        branches.append(hidden * np.tanh(z[-1]) @ weight.T)
        z.append(branches[-1] + z[-1])
    output = last * np.tanh(z[-1]) @ np.asarray(network.readout.weight).T
    solution = mupc.infer(network, X, Y, solver)
    gradients = mupc.weight_gradients(network, solution, X)
    rule = optax.adam(0.02)
    updates, _ = rule.update(gradients, rule.init(network))
    layers = [updates.input.weight, *updates.hidden.weight, updates.readout.weight]
    expected = {
        "activities": np.mean(np.abs(z), axis=(1, 2)),
        "branches": np.mean(np.abs(branches), axis=(1, 2)),
        "output": [np.mean(np.abs(output))],
        "output error": [np.mean(np.abs(Y - output))],
        "errors": np.mean(np.abs(solution.errors), axis=(1, 2)),
        "activity updates": np.mean(np.abs(solution.activities - np.array(z)), axis=(1, 2)),
        "weight updates": [np.mean(np.abs(layer)) for layer in layers],
    }
    assert set(found) == set(expected)
    for quantity, values in expected.items():
        np.testing.assert_allclose(found[quantity], values, rtol=1e-6, err_msg=quantity)


def test_movements_that_activities_round_away():
    """Five layers below the output inference moves float32 activities by far less than their last digit."""
    with jax.enable_x64(False):
        network = mupc.Network(12, 4, 6, 5, activation="linear", key=jr.key(0))
        moved = mupc.coordinate_sizes(network, (X, Y), solver=mupc.GradientDescent(1e-4, 5))["activity updates"]
    assert 0 < moved[0] < 1e-17
    ratios = moved[:-1] / moved[1:]  # step t reaches t layers down, times lr each: binomial(5, k)·lr^k for k layers
    np.testing.assert_allclose(ratios, [1e-4 / 5, 1e-4 / 2, 1e-4, 2e-4], rtol=0.6)


def test_a_network_of_one_hidden_layer():
    network = mupc.Network(12, 4, 6, 1, use_bias=True, key=jr.key(0))
    found = mupc.coordinate_sizes(network, (X, np.argmax(Y, axis=1)), solver=mupc.GradientDescent(0.3, 2))
    assert {name: len(values) for name, values in found.items()} == {
        "activities": 1, "branches": 0, "output": 1, "output error": 1, "errors": 1, "activity updates": 1,
        "weight updates": 2,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("scaling", "factor"), [("none", 1), (None, (64 * 9 / (6 * 5)) ** 0.5)])
def test_training_is_that_of_fit(scaling, factor):
    """Each step of the check is one of Adam on the same batch, hidden weights times √(64·9/(N·L)) where rates are
    scaled: sizes of the trained network, and how far it came."""
    solver, energy = BALANCED["solver"], BALANCED["energy"]  # most gradients are far above ε, which scales as well
    training = {"weight_lr": 0.1, "rate_scaling": scaling}
    check = mupc.coordinate_check((X, Y), widths=(4, 6), depths=(), hidden_layers=4, steps=2, seeds=2, **training)
    network = start = mupc.Network(12, 4, 6, 4, key=jr.key(1))
    rule = optax.adam(0.1)
    state = rule.init(network)
    for _ in range(2):
        solution = mupc.infer(network, X, Y, solver, energy=energy)
        updates, state = rule.update(mupc.weight_gradients(network, solution, X), state)
        updates = eqx.tree_at(lambda n: n.hidden.weight, updates, replace_fn=lambda weight: factor * weight)
        network = jax.tree.map(jnp.add, network, updates)
    z, z0 = (mupc.forward(one, X)[0] for one in (network, start))
    sizes = {(s.quantity, s.group): s.size for s in check.sizes if (s.width, s.seed, s.step) == (6, 1, 2)}
    assert sizes["activities", "last"] == pytest.approx(float(jnp.mean(jnp.abs(z[3]))), rel=1e-3)
    assert sizes["drift", "middle"] == pytest.approx(float(jnp.mean(jnp.abs(z[2] - z0[2]))), rel=1e-3)
    assert sizes["drift", "readout"] == pytest.approx(float(jnp.mean(jnp.abs(network(X) - start(X)))), rel=1e-3)
    assert {size.step for size in check.sizes} == {0, 1, 2}
    assert list(check.verdicts) == ["at init", "first step", "after 2 steps"]


def test_groups():
    assert [layer_group(layer, 7) for layer in range(1, 9)] == [
        "input", "first", "first", "middle", "middle", "last", "last", "readout",
    ]  # fmt: skip
    values = np.arange(1.0, 9.0)
    assert list(group_sizes("weight updates", values, 7))[1] == ("first", 2.5, 2.5)
    assert list(group_sizes("activities", values[:7], 7))[-1] == ("last", 6.5, 6.5)
    assert next(group_sizes("branches", values[1:7], 7)) == ("first", 2.5, 2.5)
    assert list(group_sizes("output", np.array([9.0]), 7)) == [("readout", 8.0, 9.0)]


def test_the_line_is_least_squares_with_students_interval():
    x, y = np.repeat([1.0, 2.0, 4.0], 4), RNG.standard_normal(12)
    slope, interval = fit_line(x, y)
    design = np.stack([x, np.ones(12)], axis=1)
    coefficients, residual, *_ = np.linalg.lstsq(design, y, rcond=None)
    error = math.sqrt(residual[0] / 10 * np.linalg.inv(design.T @ design)[0, 0])
    assert (slope, interval) == pytest.approx((coefficients[0], 2.2281388520 * error))  # t of 0.975 with 10 degrees
    assert math.isnan(fit_line(x, np.full(12, -np.inf))[0])


def table(exponent, quantity="activities", noise=0.0, step=0, name="last"):
    """Sizes that follow a power of the width."""
    draw = np.random.default_rng(1).standard_normal
    return [
        CoordinateSize(width, 8, seed, step, quantity, name, 7.0, float(width**exponent * math.exp(noise * draw())))
        for width in (64, 128, 256, 512)
        for seed in range(3)
    ]


@pytest.mark.parametrize(
    ("rows", "parameterisation", "verdict", "meaning"),
    [
        (table(0.02), "mupc", "pass", ""),
        (table(0.5), "mupc", "fail", "signals grow as networks get wider"),
        (table(-0.5), "mupc", "fail", "signals fade as networks get wider"),
        (table(-0.5, "output", name="readout"), "mupc", "pass", ""),
        (table(0.0, "output", name="readout"), "mupc", "fail", "check the readout multiplier"),
        (table(0.0, "output", name="readout"), "sp", "pass", ""),
        (table(-1.0, "errors"), "mupc", "pass", ""),
        (table(-0.5, "errors"), "mupc", "fail", "errors are too large"),
        (table(-0.5, "errors"), "ntp", "pass", ""),
        (table(0.0, noise=2.0), "mupc", "unclear", "too wide to tell"),
        (table(0.08, "drift", step=1), "mupc", "pass", ""),
        (table(0.33, "drift", step=1), "mupc", "fail", "without rate scaling expect up to +0.5"),
        (table(0.33, "drift", step=1, noise=1.0), "mupc", "unclear", "too wide to tell"),
        ([*table(0.0)[:-1], table(0.0)[-1]._replace(size=0.0)], "mupc", "fail", "zero or not finite"),
        ([*table(0.0)[:-1], table(0.0)[-1]._replace(size=math.nan)], "mupc", "fail", "zero or not finite"),
    ],
)
def test_verdicts(rows, parameterisation, verdict, meaning):
    (slope,) = judge_slopes(rows, "width", parameterisation, {})
    assert slope.verdict == verdict and meaning in slope.meaning
    assert bool(slope.meaning) == (verdict != "pass")


@pytest.mark.parametrize(("quantity", "slope"), [("drift", 0.33), ("weight updates", 0.5)])
def test_scaled_rates_are_not_said_to_be_missing(quantity, slope):
    promised = {(width, 8): factors(1.0, 1.0, 1.0) for width in (64, 128, 256, 512)}
    rows = table(slope, quantity, step=1)
    plain, scaled = (next(judge_slopes(rows, "width", "mupc", promised, given)) for given in (False, True))
    assert plain.verdict == scaled.verdict == "fail"
    assert "without rate scaling" in plain.meaning or "rates are not scaled" in plain.meaning
    assert "compare larger" in scaled.meaning or "too small for the promise" in scaled.meaning


def factors(first, hidden, last):
    """How large updates must be, by group of layers."""
    return {"input": first, "first": hidden, "middle": hidden, "last": hidden, "readout": last}


SCALED = {(width, 8): factors(1.0, (64 / width) ** 0.5, 1.0) for width in (64, 128, 256, 512)}


@pytest.mark.parametrize(
    ("exponent", "group", "updates", "expected", "verdict"),
    [
        (-0.5, "middle", SCALED, -0.5, "pass"),
        (0.0, "middle", SCALED, -0.5, "fail"),
        (-1.5, "middle", SCALED, -0.5, "fail"),
        (0.0, "input", SCALED, 0.0, "pass"),
        (-1.0, "readout", SCALED, 0.0, "fail"),
        (0.0, "last", dict.fromkeys(SCALED, factors(1.0, 1.0, 1.0)), 0.0, "pass"),
    ],
)
def test_weight_updates_follow_the_rate_factors(exponent, group, updates, expected, verdict):
    rows = table(exponent, "weight updates", name=group)
    (slope,) = judge_slopes(rows, "width", "mupc", updates)
    assert slope.expected == pytest.approx(expected) and slope.verdict == verdict
    assert ("scale" in slope.meaning) == (verdict == "fail")
    assert list(judge_slopes(rows, "width", "mupc", dict.fromkeys(SCALED))) == []


@pytest.mark.parametrize(
    ("options", "optimiser", "expected"),
    [
        ({}, "adam", (1, (64 * 9 / (16 * 36)) ** 0.5, 1)),
        ({"skip": 0}, "sgd", (1, 2, 1)),
        ({"parameterisation": "ntp"}, "adam", (1, 1, 1)),
        ({"parameterisation": "sp"}, "sgd", None),
        ({"multipliers": (1, 1, 1)}, "adam", (1, 1, 1)),
    ],
)
def test_promised_updates(options, optimiser, expected):
    network = mupc.Network(3, 2, 16, 35, key=jr.key(0), **options)
    wanted = None if expected is None else pytest.approx(factors(*expected))
    assert CoordinateSettings(optimiser=optimiser).promised_updates(network) == wanted


def test_promised_updates_of_a_resnet():
    """Blocks have the factor √(64·9/(9C·L)), changes of stage √(64/(9C)), and a group of both the mean over nodes."""
    make = functools.partial(mupc.models.resnet, (1, 8, 8), width=4, blocks=(2, 2, 2))
    network = eqx.filter_eval_shape(make, key=jr.key(0))
    found, depth = CoordinateSettings(model="resnet").promised_updates(network), 10
    block = [(64 * 9 / (9 * channels * depth)) ** 0.5 for channels in (4, 8, 16)]
    down = [(64 / (9 * channels)) ** 0.5 for channels in (4, 8)]
    thirds = (2 * block[0] + down[0]) / 3, (2 * block[1] + down[1]) / 3, block[2]
    assert found == pytest.approx(dict(zip(rules.GROUPS, (1, *thirds, 1), strict=True)), rel=1e-6)


@pytest.mark.slow
def test_a_model_of_your_own_is_measured_as_the_mlp_is():
    """The residual MLP as a chain: the same sizes, promises and slopes, all but those of branches."""
    options = {"widths": (6, 12), "depths": (), "steps": 1, "seeds": 2, **BALANCED}
    expected = mupc.coordinate_check((X, Y), hidden_layers=5, **options)
    found = mupc.coordinate_check(
        (X, Y), model=lambda *size: chain_of(mupc.Network(12, 4, *size[:2], key=size[2])), blocks=5, **options
    )
    sizes = [size for size in expected.sizes if size.quantity != "branches"]
    for one, two in zip(sizes, sorted(found.sizes, key=sizes_order(sizes)), strict=True):
        assert one[:7] == two[:7]
        assert one.size == pytest.approx(two.size, rel=2e-3)
    promised = {(s.stage, s.step, s.quantity, s.group): s.expected for s in expected.slopes}
    for slope in found.slopes:
        assert slope.expected == pytest.approx(promised[slope.stage, slope.step, slope.quantity, slope.group], abs=1e-6)


def sizes_order(sizes):
    """The place of a row among those of another check."""
    places = {size[:6]: place for place, size in enumerate(sizes)}
    return lambda size: places[size[:6]]


@pytest.mark.parametrize(
    ("settings", "help"),
    [
        ({"model": "resnett"}, "Did you mean 'resnet'?"),
        (
            {"model": "resnet"},
            "model=resnet needs a data set, for the sizes of its inputs and outputs. Pass",
        ),
        ({"model": "resnet", "hidden_layers": 8}, "hidden_layers has no effect with model resnet"),
        ({"model": "vgg", "blocks": 8}, "blocks has no effect with model vgg"),
        ({"model": "vgg", "depths": (2, 4)}, "depths has no effect with model vgg, which has only one depth"),
        ({"blocks": 8}, "blocks has no effect with model mlp"),
        ({"model": "resnet", "multipliers": (1, 1, 1)}, "multipliers are for the mlp"),
        ({"model": "resnet", "blocks": 0}, "blocks must be at least 1"),
        ({"model": lambda *size: 3, "widths": (8, 16)}, "model must be a function (width, depth, key) that returns"),
        ({"model": lambda *size: 3}, "widths and depths leave nothing to compare"),
        (
            {"model": lambda *size: mupc.Network(12, 4, *size[:2], key=size[2]), "depths": (3, 5)},
            "depths=3 makes 3 latents, and thirds need 4",
        ),
    ],
)
def test_models_that_cannot_be_compared(settings, help):
    with pytest.raises(ValueError) as error:
        mupc.coordinate_check((X, Y), **settings)
    assert help in str(error.value)


def check_drift(data, axis, **options):
    """With scaled rates no network drifts further than another, by an exponent of 0.1; with plain ones they do."""
    scaled, plain = (mupc.coordinate_check(data, **options, steps=1, rate_scaling=name) for name in ("mup", "none"))
    drifts = [
        {slope.group: slope.slope for slope in check.slopes if slope.quantity == "drift"} for check in (scaled, plain)
    ]
    assert not scaled.failures and max(map(abs, drifts[0].values())) <= 0.1, scaled.failures
    assert drifts[1]["last"] > 0.2 and drifts[1]["readout"] > 0.2
    assert failed(plain, "after 1 step") >= {(axis, "weight updates"), (axis, "drift")}


@pytest.mark.slow
def test_scaled_rates_move_every_transformer_alike_and_plain_ones_do_not(tmp_path):
    """A text of few letters, some more frequent than others: where nothing can be learnt, weights move by chance."""
    frequencies = 0.6 ** np.arange(8)
    letters = np.random.default_rng(0).choice(list("abcdefgh"), 4000, p=frequencies / frequencies.sum())
    (tmp_path / "text.txt").write_text("".join(letters))
    data = mupc.data.load(tmp_path / "text.txt", context=8)
    check_drift(data, "width", model="transformer", widths=(32, 128), depths=())


@pytest.mark.slow
def test_scaled_rates_move_every_resnet_alike_and_plain_ones_do_not():
    check_drift(mupc.data.load("digits"), "depth", model="resnet", widths=(), depths=(4, 16))


def hand_made(slope, interval, quantity="activities"):
    """Sizes with exactly this slope and interval: the residuals of each width add up to zero."""
    rows = table(slope, quantity)
    scale = np.log([row.width for row in rows])
    left = np.sum((scale - scale.mean()) ** 2) * (interval / 2.2281388520) ** 2 * 10  # t of 0.975 with 10 degrees
    moves = math.sqrt(left / 8) * np.tile([1.0, 0.0, -1.0], 4)
    return [row._replace(size=row.size * math.exp(move)) for row, move in zip(rows, moves, strict=True)]


@pytest.mark.parametrize(
    ("slope", "interval", "verdict"),
    [
        (0.05, 0.20, "pass"),  # inside ± 0.1
        (0.05, 0.30, "unclear"),  # inside, but another exponent is as likely
        (0.20, 0.24, "unclear"),  # outside, and zero is in the interval
        (-0.50, 0.55, "unclear"),
        (0.15, 0.14, "fail"),  # zero is not in the interval
        (-0.50, 0.45, "fail"),
    ],
)
def test_three_verdicts(slope, interval, verdict):
    (found,) = judge_slopes(hand_made(slope, interval), "width", "mupc", {})
    assert (found.slope, found.interval) == pytest.approx((slope, interval))
    assert found.verdict == verdict
    assert ("take more seeds, or more sizes" in found.meaning) == (verdict == "unclear")


def test_the_verdict_of_a_check_is_the_worst_of_its_slopes():
    failed = [*judge_slopes(hand_made(0.5, 0.1), "width", "mupc", {})]
    wide = [*judge_slopes(hand_made(0.0, 0.5), "width", "mupc", {})]
    good = [*judge_slopes(hand_made(-1.0, 0.1, "errors"), "width", "mupc", {})]

    def check(*slopes):
        return CoordinateCheck((), tuple(itertools.chain(*slopes)))

    assert (check(good).verdict, check(good).passed, str(check(good))) == ("pass", True, "first step: pass over width")
    unclear = check(wide, good)
    assert unclear.verdict == "unclear" and not unclear.passed and not unclear.failures
    assert unclear.verdicts == {"at init": {"width": "unclear"}, "first step": {"width": "pass"}}
    (line,) = unclear.unclear
    assert line == str(unclear).splitlines()[-1] and line.endswith("to tell: take more seeds, or more sizes.")
    both = check(wide, failed, good)
    assert both.verdict == both.verdicts["at init"]["width"] == "fail"
    assert len(both.failures) == 1 and not both.unclear and both.worst[0] is failed[0]
    assert check().verdict == "unclear"


def test_every_parameterisation_and_quantity_has_its_words():
    assert set(rules.READOUT) == set(PARAMETERISATIONS)
    assert set(rules.MEANINGS) == set(rules.FORWARD) | set(rules.TRAINED)


@pytest.mark.slow
@pytest.mark.parametrize("activation", [pytest.param("tanh", marks=pytest.mark.zoo), "relu"])
def test_mupc_passes_at_init(activation):
    check = mupc.coordinate_check((X, Y), activation=activation, **FAST)
    assert check.verdicts["at init"] == {"width": "pass", "depth": "pass"}, check


@pytest.mark.slow
def test_everything_passes_in_the_first_step_of_a_solver_that_reaches_all_layers():
    check = mupc.coordinate_check((X, Y), activation="linear", **SMALL, **BALANCED)
    assert check.verdicts == {s: {"width": "pass", "depth": "pass"} for s in ("at init", "first step")}, check
    assert check.passed and not check.failures


@pytest.mark.slow
def test_wrong_multipliers_are_caught():
    """A readout of 1/√N instead of 1/N; hidden layers of N^(-3/4) instead of N^(-1/2)."""

    def wrong(width, hidden_layers):
        return 12**-0.5, width**-0.75 * (hidden_layers + 1) ** -0.5, width**-0.5

    check = mupc.coordinate_check((X, Y), multipliers=wrong, **FAST | {"depths": ()})
    assert failed(check, "at init") == {("width", "output"), ("width", "branches")}
    assert check.verdicts["at init"] == {"width": "fail"} and not check.passed
    slope = next(slope.slope for slope in check.slopes if slope.quantity == "output")
    assert slope == pytest.approx(0, abs=0.15)
    assert "check the hidden multiplier" in check.failures[0] and "check the readout multiplier" in check.failures[1]


@pytest.mark.slow
def test_the_standard_parameterisation_fails_over_depth():
    check = mupc.coordinate_check((X, Y), parameterisation="sp", **FAST | {"widths": (), "depths": (4, 12)})
    assert check.verdicts["at init"] == {"depth": "fail"}
    assert {("depth", "activities"), ("depth", "branches"), ("depth", "output")} == failed(check, "at init")
    (grows,) = (line for line in check.failures if "activities (" in line)
    assert "over depth" in grows and "signals grow as networks get deeper" in grows
    assert str(check).startswith("at init: fail over depth")


LADDERS = {"widths": (64, 256), "depths": (16, 128), "width": 64, "hidden_layers": 16, "seeds": 8, "steps": 1}


@pytest.mark.slow
def test_scaled_rates_move_every_network_alike_and_plain_ones_do_not():
    """In error space. Δz adds up N moves of one size in each of L layers: with one rate for all sizes drift grows."""
    check = mupc.coordinate_check((X, Y), **LADDERS)
    passed = {"width": "pass", "depth": "pass"}
    assert check.verdicts == {"at init": passed, "first step": passed, "after 1 step": passed}, check
    plain = mupc.coordinate_check((X, Y), **LADDERS, rate_scaling="none")
    axes = ("width", "depth")
    assert failed(plain, "at init") == set()
    assert failed(plain, "first step") == {(axis, "weight updates") for axis in axes}
    assert failed(plain, "after 1 step") == {
        (axis, quantity) for axis in axes for quantity in ("weight updates", "drift")
    }
    for axis in axes:
        (drift,) = (s.slope for s in plain.slopes if (s.axis, s.quantity, s.group) == (axis, "drift", "last"))
        assert 0.2 < drift < 0.55
    assert any("The moves of more weights add up" in line for line in plain.failures)


@pytest.mark.slow
def test_scaled_rates_of_gradient_descent_move_every_network_alike():
    """SGD, with biases: weights × N, hidden biases × N/L."""
    options = LADDERS | {"widths": (128, 512), "width": 128, "optimiser": "sgd", "weight_lr": 0.5, "use_bias": True}
    check = mupc.coordinate_check((X, Y), **options)
    assert check.verdicts["after 1 step"] == {"width": "pass", "depth": "pass"}, check
    plain = mupc.coordinate_check((X, Y), **options, rate_scaling="none")
    assert {("width", "drift"), ("depth", "drift")} <= failed(plain, "after 1 step")


@pytest.mark.zoo
def test_gradient_descent_does_not_reach_deep_layers():
    options = {"widths": (), "depths": (4, 8), "width": 16, "steps": 0}
    check = mupc.coordinate_check((X, Y), solver=lambda depth: mupc.GradientDescent(0.4, depth), **options)
    assert check.verdicts["first step"] == {"depth": "fail"}
    assert ("depth", "errors") in failed(check, "first step")
    assert any("errors fade as networks get deeper" in line and "mupc.ErrorSpace" in line for line in check.failures)


@pytest.mark.zoo
@pytest.mark.parametrize(
    "solver",
    [mupc.ExactLinear(), lambda depth: mupc.GradientDescent(0.2, depth)],
)
def test_solvers(solver):
    network = mupc.Network(12, 4, 8, 3, activation="linear", key=jr.key(0))
    found = mupc.coordinate_sizes(network, (X, Y), solver=solver)
    solution = mupc.infer(network, X, Y, solver(3) if callable(solver) else solver)
    np.testing.assert_allclose(found["errors"], jnp.mean(jnp.abs(solution.errors), axis=(1, 2)), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"widths": (8,)}, ValueError, "widths needs two values and three networks .* got 8 with seeds 3"),
        ({"widths": (8, 8)}, ValueError, "widths needs two values"),
        ({"widths": (8, 16), "seeds": 1}, ValueError, "widths needs two values and three networks"),
        ({"widths": (8, 0)}, ValueError, "widths must be at least 1, got 0"),
        ({"depths": (8, 3)}, ValueError, "depths must be at least 4, got 3"),
        ({"widths": (), "depths": ()}, ValueError, "widths and depths leave nothing to compare"),
        ({"widths": (8, True)}, TypeError, "widths must be a whole number"),
        ({"hidden_layers": 2}, ValueError, "hidden_layers must be at least 4"),
        ({"width": 0}, ValueError, "width must be at least 1"),
        ({"steps": -1}, ValueError, "steps must be at least 0"),
        ({"seeds": 0}, ValueError, "seeds must be at least 1"),
        ({"weight_lr": 0.0}, ValueError, "weight_lr must be greater than 0"),
        ({"activation": "rleu"}, ValueError, "Did you mean 'relu'"),
        ({"parameterisation": "mup"}, ValueError, "Did you mean 'mupc'"),
        ({"multipliers": (1.0, 1.0)}, ValueError, "three numbers"),
        ({"solver": "gd"}, TypeError, "solver must be a solver"),
        ({"optimiser": "adma"}, ValueError, "Did you mean 'adam'"),
        ({"rate_scaling": "mpu"}, ValueError, "Did you mean 'mup'"),
        ({"rate_scaling": "mup", "parameterisation": "sp"}, ValueError, "has no rule for the parameterisation sp"),
        ({"skip": 9}, ValueError, "Use a shorter skip"),
    ],
)
@pytest.mark.usefixtures("as_users_see_it")
def test_mistakes(options, error, message):
    with pytest.raises(error, match=message):
        mupc.coordinate_check((X, Y), **options)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (X, TypeError, "data must be a data set"),
        ((X[0], Y[0]), ValueError, "x must have shape"),
        ((X, Y[:3]), ValueError, "y "),
    ],
)
@pytest.mark.usefixtures("as_users_see_it")
def test_wrong_data(data, error, message):
    with pytest.raises(error, match=message):
        mupc.coordinate_check(data, widths=(4, 8), depths=())
    with pytest.raises(TypeError, match="the first argument must be a network"):
        mupc.coordinate_sizes(None, data)
