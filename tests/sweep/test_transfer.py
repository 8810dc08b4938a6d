"""`transfer` compared with `fit`, what it chooses and verifies, and mistakes."""

import itertools
import math
import re

import jax.random as jr
import numpy as np
import optax
import pytest

import mupc
from mupc.network import BaseSize
from mupc.sweep import NetworkSize, TransferCell
from mupc.sweep._transfer import TransferStudy, _size
from mupc.training import as_algorithm

DIGITS = mupc.data.load("digits")
GRID = {"weight_lrs": (0.05, 0.2), "activity_lrs": (0.4, 0.2)}
SIZES = {"small": (8, 2), "large": (12, 3)}


@pytest.fixture(scope="module")
def found():
    """Return a small transfer, and the stages that it went through."""
    stages = {}
    result = mupc.transfer(
        DIGITS, **SIZES, **GRID, epochs=0.5, seeds=2, seed=3, verify=True, activation="tanh", inference_steps=1,
        progress=lambda stage, share: stages.setdefault(stage, []).append(share),
    )  # fmt: skip
    return result, stages


@pytest.mark.slow
def test_cells_are_means_of_fits(found):
    result, _ = found
    data = DIGITS.with_validation(0.1, seed=0)
    cell = result.used
    width, depth = SIZES["large"]
    fits = [
        mupc.fit(
            mupc.Network(64, 10, width, depth, activation="tanh", key=jr.key(seed)), data,
            mupc.GradientDescent(cell.activity_lr, 1), epochs=0.5, weight_lr=cell.weight_lr, seed=seed,
        )
        for seed in (3, 4)
    ]  # fmt: skip
    for name in ("train_loss", "validation_loss", "test_loss", "test_accuracy"):
        assert getattr(cell, name) == pytest.approx(np.mean([fit.last[name] for fit in fits]), rel=1e-9), name
    assert cell.diverged == 0


def test_what_is_chosen_and_what_it_cost(found):
    result, stages = found
    pairs = set(itertools.product(GRID["weight_lrs"], GRID["activity_lrs"]))
    assert {cell.rates for cell in result.small.cells} == {cell.rates for cell in result.large.cells} == pairs
    assert result.chosen.validation_loss == min(cell.validation_loss for cell in result.small.cells)
    assert result.used.rates == result.chosen.rates and result.used in result.large.cells
    lowest = min(cell.train_loss for cell in result.large.cells)
    assert result.own.train_loss == lowest
    assert result.regret == pytest.approx((result.used.train_loss - lowest) / lowest, abs=1e-12)
    weights = {name: 64 * w + (h - 1) * w * w + 10 * w for name, (w, h) in SIZES.items()}
    assert result.saved == pytest.approx(1 - weights["small"] / weights["large"])
    assert list(stages) == ["tuning 2 hidden layers of 8", "training 3 hidden layers of 12"]
    for shares in stages.values():
        assert shares[-1] == 1.0 and shares == sorted(shares)


def cell(rates, loss):
    return TransferCell(*rates, train_loss=loss, validation_loss=loss, test_loss=loss, test_accuracy=None, diverged=0)


def study(monkeypatch, loss):
    """Replace training by a function of the size and the rates. Return what was asked for."""
    asked = []

    def train(self, size, rates, report):
        asked.append((size, rates))
        return [cell(pair, loss(size, *pair)) for pair in rates]

    monkeypatch.setattr(TransferStudy, "train", train)
    return asked


def test_any_solver(monkeypatch):
    """One with a rate is a function of it and of the steps; another has the weights' rate tuned alone."""
    made = []

    def train(self, size, rates, report):
        made.append([self.algorithm(size, activity_lr) for _, activity_lr in rates])
        return [cell(pair, pair[0]) for pair in rates]

    monkeypatch.setattr(TransferStudy, "train", train)
    both = mupc.transfer(DIGITS, **SIZES, weight_lrs=[0.1], activity_lrs=[0.3], solver=mupc.Optax.adam)
    assert both.chosen.rates == (0.1, 0.3)
    assert [algorithm.solver.steps for algorithms in made for algorithm in algorithms] == [2, 3]
    for solver in (mupc.ErrorSpace(cg_steps=3), mupc.BP(), mupc.ExactLinear()):
        lowest = pytest.approx(as_algorithm(solver).defaults.weight_lr / 10)
        made.clear()
        found = mupc.transfer(DIGITS, **SIZES, solver=solver, activation="linear", verify=True)
        assert found.chosen.weight_lr == lowest and found.at_edge(found.chosen)
        assert {getattr(algorithm, "solver", algorithm) for each in made for algorithm in each} == {solver}
        assert [len(algorithms) for algorithms in made] == [6, 2]
    assert mupc.transfer(DIGITS, **SIZES, solver=mupc.BP(), rate_scaling="none").chosen.weight_lr == 0.002


@pytest.mark.parametrize(
    ("model", "sizes", "names", "latents"),
    [
        ("resnet", ((4, 1), (4, 2)), ["1 block of 4", "2 blocks of 4"], [6, 9]),
        (lambda *size: mupc.Network(64, 10, *size[:2], key=size[2]), ((4, 2), (4, 3)), ["2 blocks of 4"], [2, 3]),
    ],
)
def test_models(monkeypatch, model, sizes, names, latents):
    """In error space by default; gradient descent takes as many steps as there are latents."""
    made, stages = [], []

    def train(self, size, rates, report):
        report(1.0)
        made.extend(self.algorithm(size, activity_lr).solver for _, activity_lr in rates)
        return [cell(pair, pair[0]) for pair in rates]

    monkeypatch.setattr(TransferStudy, "train", train)
    options = {"small": sizes[0], "large": sizes[1], "model": model, "weight_lrs": [0.1]}
    found = mupc.transfer(DIGITS, **options, progress=lambda stage, share: stages.append(stage))
    assert made == [mupc.ErrorSpace()] * 2 and 0 < found.saved < 1
    assert str(found.small.size) == names[0] and stages[0] == f"tuning {names[0]}"
    made.clear()
    mupc.transfer(DIGITS, **options, activity_lrs=[0.1], solver=mupc.GradientDescent)
    assert [solver.steps for solver in made] == latents


@pytest.mark.slow
def test_cells_of_a_resnet_are_fits():
    options = {"model": "resnet", "activation": "tanh", "weight_lrs": [0.05], "epochs": 0.2, "seeds": 1}
    found = mupc.transfer(DIGITS, small=(4, 1), large=(8, 1), **options)
    network = mupc.models.resnet((1, 8, 8), width=8, blocks=(1, 1, 1), activation="tanh", key=jr.key(0))
    data = DIGITS.with_validation(0.1, seed=0)
    fit = mupc.fit(network, data, mupc.ErrorSpace(), weight_lr=0.05, epochs=0.2)
    assert found.used.train_loss == pytest.approx(fit.last["train_loss"], rel=1e-5)


@pytest.mark.parametrize(
    ("options", "help"),
    [
        ({"model": "resnett"}, "Did you mean 'resnet'?"),
        ({"model": "resnet", "skip": 2}, "argument 'skip' is not known"),
        ({"model": "transformer"}, "model=transformer learns texts, and digits is not one. Use another model."),
        ({"model": "vgg"}, "small must be one whole number of at least 1, the width, got (8, 2)"),
        ({"model": lambda *size: 3}, "model must be a function (width, depth, key) that returns a network"),
    ],
)
def test_models_that_cannot_be_tuned(options, help):
    with pytest.raises((ValueError, TypeError), match=re.escape(help)):
        mupc.transfer(DIGITS, **SIZES, **options)


def test_any_base_size_transfers_alike():
    """From the small network to the large one, updates and gradients shrink by the same factors whatever the base."""
    small, large = (mupc.Network(64, 10, *SIZES[name], key=jr.key(0)) for name in SIZES)

    def shrink(base):
        both = zip(small.rate_scales(base), large.rate_scales(base), strict=True)
        return [np.asarray(of_large) / np.asarray(of_small) for of_small, of_large in both]

    np.testing.assert_allclose(shrink(BaseSize()), shrink(BaseSize(8, 2)), rtol=1e-12)
    assert shrink(BaseSize())[1][1, 0] == pytest.approx((8 * 3 / (12 * 4)) ** 0.5)


@pytest.mark.parametrize(
    ("settings", "help"),
    [
        ({"activity_lrs": [0.1]}, "activity_lrs has no effect, because ErrorSpace brings its own settings. Leave it"),
        ({"inference_steps": 3}, "inference_steps has no effect, because ErrorSpace brings its own"),
        ({"solver": "gd"}, "solver must be a function, got 'gd'"),
        ({"solver": mupc.ErrorSpace}, "steps must be a whole number"),
    ],
)
def test_solvers_that_cannot_be_tuned_so(settings, help):
    with pytest.raises(ValueError, match=re.escape(help)):
        mupc.transfer(DIGITS, **SIZES, **{"solver": mupc.ErrorSpace()} | settings)


WIDE = {"weight_lrs": [10.0**-i for i in range(6)], "activity_lrs": [10.0**-i for i in range(6)]}


def bowl(eta, lr):
    """Least at η = 0.01 and lr = 0.001, in steps of the grid."""
    return 1 + (math.log10(eta) + 2) ** 2 + (math.log10(lr) + 3) ** 2


def test_verification_walks_until_the_best_is_surrounded(monkeypatch):
    """The small network's best is at (1e-2, 1e-3), the large one's at (1e-4, 1e-3)."""
    asked = study(monkeypatch, lambda size, eta, lr: bowl(eta if size.width == 8 else 100 * eta, lr))
    result = mupc.transfer(DIGITS, **SIZES, **WIDE, verify=True)
    assert result.chosen.rates == (0.01, 0.001) and result.own.rates == (1e-4, 1e-3)
    assert result.regret == pytest.approx(4.0)
    assert not result.at_edge(result.own)
    assert [len(rates) for _, rates in asked] == [36, 9, 3, 3]  # two steps to the best, and one beyond it
    assert asked[1][0] == NetworkSize(12, 3)


def test_without_verification_the_large_network_is_trained_once(monkeypatch):
    asked = study(monkeypatch, lambda size, eta, lr: bowl(eta, lr))
    result = mupc.transfer(DIGITS, **SIZES, **WIDE)
    weights = {name: 64 * w + (h - 1) * w * w + 10 * w for name, (w, h) in SIZES.items()}
    work = {name: weights[name] * (4 + 2 * depth) for name, (_, depth) in SIZES.items()}
    assert result.saved == pytest.approx(1 - work["small"] / work["large"])  # as many steps as hidden layers
    assert [len(rates) for _, rates in asked] == [36, 1]
    assert result.own is None and result.regret is None


@pytest.mark.parametrize(
    ("loss", "regret", "edge"),
    [
        (lambda eta, lr: math.inf if eta > 0.001 else bowl(eta, lr), math.inf, False),
        (lambda eta, lr: math.inf, math.nan, False),
        (lambda eta, lr: eta * lr, 1e5 - 1, True),
    ],
)
def test_large_networks_that_diverge_or_want_other_rates(monkeypatch, loss, regret, edge):
    study(monkeypatch, lambda size, eta, lr: bowl(eta, lr) if size.width == 8 else loss(eta, lr))
    result = mupc.transfer(DIGITS, **SIZES, **WIDE, verify=True)
    assert result.regret == pytest.approx(regret, rel=1e-3, nan_ok=True)
    assert result.at_edge(result.own) is edge


def test_finished_cells_are_not_trained_again(monkeypatch):
    """An interruption of the large network keeps the small one's cells."""
    done = {}

    def loss(size, eta, lr):
        if size.width == 12 and not resumed:
            raise KeyboardInterrupt
        return bowl(eta, lr)

    resumed = False
    asked = study(monkeypatch, loss)
    with pytest.raises(KeyboardInterrupt):
        mupc.transfer(DIGITS, **SIZES, **WIDE, done=done)
    assert {size for size, _ in done} == {NetworkSize(8, 2)} and len(done) == 36
    resumed = True
    result = mupc.transfer(DIGITS, **SIZES, **WIDE, verify=True, done=done)
    assert [(size.width, len(rates)) for size, rates in asked] == [(8, 36), (12, 1), (12, 9)]
    assert len(done) == 45 and result.regret == 0 and result.small.cells == [done[key] for key in list(done)[:36]]
    assert result.large.seconds == pytest.approx(sum(one.seconds for one in result.large.cells))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight_lrs": ()}, "weight_lrs is empty. Give at least one"),
        ({"activity_lrs": (0.1, -1.0)}, "activity_lrs must be greater than 0, got -1"),
        ({"small": (0, 2)}, "small must be two whole numbers of at least 1, width and depth, got .0, 2."),
        ({"large": (8, 0)}, "large must be two whole numbers of at least 1, width and depth, got .8, 0."),
        ({"large": (8,)}, "large must be two whole numbers"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"activation": "rleu"}, "activation 'rleu' is not known. Did you mean 'relu'"),
        ({"validation": 2.0}, "a fraction between 0 and 1"),
        ({"epochs": 0}, "epochs must be greater than 0"),
        ({"base_hidden_layers": 0}, "base_hidden_layers must be at least 1, got 0"),
        ({"rate_scaling": "mup", "parameterisation": "ntp"}, "has no rule for the parameterisation ntp"),
        ({"rate_scaling": "mpu"}, "rate_scaling 'mpu' is not known. Did you mean 'mup'"),
        ({"optimiser": optax.adam(0.1)}, "optimiser brings a rate of its own, and none is left to tune"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        mupc.transfer(DIGITS, **SIZES | GRID | options)


def test_arguments_of_wrong_kinds():
    with pytest.raises(
        TypeError, match=r"^argument 'etas' is not known. .*: small, large, weight_lrs, .*, multipliers\.$"
    ):
        mupc.transfer(DIGITS, **SIZES, etas=[])
    for given in (8, "ab", None):
        with pytest.raises(ValueError, match=f"^small must be two whole numbers .* and depth, got {given!r}"):
            _size("small", given)


def test_a_small_network_that_always_diverges(monkeypatch):
    study(monkeypatch, lambda size, eta, lr: math.inf)
    with pytest.raises(
        ValueError, match="weight_lrs and activity_lrs are too large: every run of the small .*diverged"
    ):
        mupc.transfer(DIGITS, **SIZES, **GRID)
