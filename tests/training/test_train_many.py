"""`fit_many` against `fit`, run by run; runs that diverge, chunks, and what may not differ."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from chains import chain_of
from compiled import compilations

import mupc
from mupc.data import Dataset, Schema, Split
from mupc.inference import AbstractTunableSolver
from mupc.network._types import Real
from mupc.training import _fit_many, check_room

TIMES = ("seconds", "steps_per_second")


def dataset(seed=0):
    """Three noisy clusters, with a validation split."""
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(3, 5))

    def split(count):
        labels = rng.integers(0, 3, count).astype(np.int32)
        return Split((centres[labels] + 0.5 * rng.normal(size=(count, 5))).astype(np.float32), labels)

    return Dataset("clusters", split(50), split(23), split(9), Schema(labels=(0, 1, 2)), False, "made here")


def network(seed=0, width=6, hidden_layers=4, activation="tanh", **options):
    return mupc.Network(5, 3, width, hidden_layers, activation=activation, key=jr.key(seed), **options)


DATA = dataset()
SHARED = {"batch_size": 8, "epochs": 1.5, "evaluate_every": 4}  # six batches an epoch, which ends within an interval
TANH = [network(seed) for seed in range(3)]
GD = [
    mupc.Run(TANH[0], mupc.GradientDescent(0.2, 4), 0.05, 0),
    mupc.Run(TANH[1], mupc.GradientDescent(0.1, 4), 0.02, 7, mupc.Energy(output_precision=0.5)),
    mupc.Run(TANH[2], mupc.GradientDescent(0.3, 4, momentum=0.5), 0.03, 3, mupc.Energy(output_precision=0.5)),
]


class Retuned(AbstractTunableSolver):
    """One step of gradient descent, its size from the activities of every second batch."""

    lr: Real
    steps: int = 1
    known: bool = False

    @property
    def local(self):
        return True

    @property
    def tunes_every(self):
        return 2

    def tuned(self, problem):
        if self.known:
            return self
        return dataclasses.replace(self, lr=self.lr / (1 + jnp.mean(problem.base**2)), known=True)

    def init(self, problem, point):
        return None

    def step(self, problem, point, gradient, state):
        return problem.at(jax.tree.map(lambda d, g: d - self.lr * g, point.delta, gradient)), None

    def terminate(self, state, progress):
        return None


def runs_of(solvers, rates=(0.05, 0.01), **options):
    return [
        mupc.Run(network(seed, hidden_layers=2, **options), solver, rate, seed)
        for seed, (solver, rate) in enumerate(zip(solvers, rates, strict=True))
    ]


CASES = {
    "tuned on the way": (runs_of([Retuned(0.1), Retuned(0.2)]), {}),
    "error space": (runs_of([mupc.ErrorSpace(steps=2)] * 2), {"schedule": "cosine"}),
    "exact": (runs_of([mupc.ExactLinear()] * 2, activation="linear"), {"optimiser": "momentum"}),
    "backprop": (runs_of([mupc.BP(), mupc.BP()]), {}),
    "decoupled decay": (
        [mupc.Run(TANH[0], mupc.BP(), energy=mupc.Energy(weight_decay=decay)) for decay in (0.5, 0.1)],
        {"optimiser": "adamw"},
    ),
}


def alone(run, **options):
    """What `fit` makes of the same run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of divergence
        return mupc.fit(
            run.network, DATA, run.algorithm, weight_lr=run.weight_lr, seed=run.seed, energy=run.energy, **options
        )


def assert_same(got, want):
    assert (got.steps, got.diverged, got.message, got.precision) == (want.steps, want.diverged, want.message, "float64")
    np.testing.assert_allclose(got.losses, want.losses, rtol=1e-9)
    assert len(got.history) == len(want.history)
    for mine, other in zip(got.history, want.history, strict=True):
        assert set(mine) == set(other)
        for name in set(mine) - set(TIMES):
            np.testing.assert_allclose(mine[name], other[name], rtol=1e-9, err_msg=name)
    mine, other = jax.tree.leaves(got.network), jax.tree.leaves(want.network)
    assert jax.tree.structure(got.network) == jax.tree.structure(want.network)
    for a, b in zip(mine, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)


@pytest.fixture(scope="session")  # not of the module: a worker may come back to it, with the programs compiled
def descended():
    """The first program that this file compiles, with all that it reported."""
    seen = {index: [] for index in range(len(GD))}
    with compilations("mapped") as messages:
        follow = lambda status: seen[status.run].append(status.record)  # noqa: E731
        results = mupc.fit_many(GD, DATA, chunk=2, callbacks=[follow], **SHARED)
    return results, list(seen.values()), messages


def test_results_are_those_of_fit(descended):
    results, seen, _ = descended
    assert [result.history for result in results] == seen
    for run, result in zip(GD, results, strict=True):
        assert_same(result, alone(run, **SHARED))


@pytest.mark.parametrize(
    "case", [name if name == "error space" else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_every_method_maps(case):
    runs, options = CASES[case]
    results = mupc.fit_many(runs, DATA, **SHARED | options)
    for run, result in zip(runs, results, strict=True):
        assert_same(result, alone(run, **SHARED | options))


def test_a_run_that_diverges_does_not_disturb_the_others():
    huge = dataclasses.replace(GD[1], weight_lr=1e300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is expected of a sweep, and told by the result
        first, bad, last = mupc.fit_many([GD[0], huge, GD[2]], DATA, chunk=2, **SHARED)
    assert_same(first, alone(GD[0], **SHARED))
    assert_same(last, alone(GD[2], **SHARED))
    assert bad.diverged and not first.diverged
    want = alone(huge, **SHARED)
    assert bad.message == want.message and "diverged between step 0 and step 4" in bad.message
    assert bad.steps == 4 and bad.last["step"] == 0 and len(bad.losses) == 4
    assert [record["step"] for record in bad.history] == [record["step"] for record in want.history] == [0, 4]
    np.testing.assert_array_equal(bad.network.hidden.weight, TANH[1].hidden.weight)


def test_when_all_runs_of_a_chunk_diverge_it_ends():
    results = mupc.fit_many([dataclasses.replace(run, weight_lr=1e300) for run in GD], DATA, chunk=2, **SHARED)
    assert [(result.steps, result.diverged) for result in results] == [(4, True)] * 3


def test_chunks_and_other_numbers_do_not_compile_again(descended):
    assert len(descended[2]) <= 3  # a start, an interval and a measurement, each at most once for both chunks
    solvers = [  # momentum stays on in the last: without it the program would be another
        mupc.GradientDescent(lr, 4, momentum=run.algorithm.momentum / 2)
        for run, lr in zip(GD, (0.15, 0.25, 0.35), strict=True)
    ]
    others = [
        dataclasses.replace(run, weight_lr=0.01, seed=9, algorithm=solver)
        for run, solver in zip(GD, solvers, strict=True)
    ]
    with compilations("mapped") as messages:
        mupc.fit_many(others, DATA, chunk=2, **SHARED)
    assert messages == []


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ({"network": network(width=7)}, r"network.width \(6 and 7\)"),
        ({"network": network(hidden_layers=3)}, r"network.hidden_layers \(4 and 3\)"),
        ({"network": network(activation="relu")}, r"network.activation \(tanh and relu\)"),
        ({"network": network(activation=lambda z: z)}, "network.activation"),
        ({"network": network(parameterisation="sp")}, r"network.parameterisation \(mupc and sp\)"),
        ({"network": network(skip=0)}, r"network.skip \(1 and 0\)"),
        ({"network": network(multipliers=(1.0, 1.0, 1.0))}, "network.multipliers"),
        ({"network": network(use_bias=True)}, r"network.input.bias"),
        ({"algorithm": mupc.GradientDescent(0.2, 5)}, r"solver.steps \(4 and 5\)"),
        ({"algorithm": mupc.ErrorSpace()}, r"solver \(GradientDescent and ErrorSpace\)"),
        ({"algorithm": mupc.GradientDescent("auto", 4)}, r"solver.lr \(a number and auto\)"),
        ({"algorithm": mupc.GradientDescent(0.2, 4, tol=0.1)}, r"solver.tol \(None and a number\)"),
        ({"energy": mupc.Energy("cross-entropy")}, r"energy.loss \(mse and cross-entropy\)"),
    ],
)
def test_what_may_not_differ_is_named(other, name):
    with pytest.raises(ValueError, match=f"runs 0 and 1 differ in {name}") as caught:
        mupc.fit_many([GD[0], dataclasses.replace(GD[0], **other)], DATA, **SHARED)
    assert "\n" not in str(caught.value)


def test_different_optax_rules_may_not_differ():
    runs = [mupc.Run(TANH[0], mupc.Optax(optax.sgd(rate), 4)) for rate in (0.1, 0.2)]
    with pytest.raises(ValueError, match="runs 0 and 1 differ in solver"):
        mupc.fit_many(runs, DATA, **SHARED)


@pytest.mark.slow
def test_rates_of_adam_are_numbers():
    rates = (0.03, 0.01)
    together = mupc.fit_many([mupc.Run(TANH[0], mupc.Optax.adam(rate, 4)) for rate in rates], DATA, **SHARED)
    for rate, found in zip(rates, together, strict=True):
        alone = mupc.fit(TANH[0], DATA, mupc.Optax(optax.adam(rate), 4), weight_lr=0.2, seed=0, **SHARED)
        np.testing.assert_allclose(found.losses, alone.losses, rtol=1e-6)


@pytest.mark.parametrize(
    ("runs", "options", "error", "message"),
    [
        ([], {}, ValueError, "nothing to train: pass at least one mupc.Run"),
        ([TANH[0]], {}, TypeError, "runs must be mupc.Run objects"),
        ([mupc.Run(TANH[0], "gd")], {}, TypeError, "algorithm must be an algorithm such as"),
        ([GD[0], dataclasses.replace(GD[0], weight_lr=-1.0)], {}, ValueError, "weight_lr must be greater than 0"),
        (
            [mupc.Run(TANH[0], mupc.BP()), mupc.Run(TANH[0], mupc.BP(), energy=mupc.Energy(activity_decay=0.5))],
            {},
            ValueError,
            "backpropagation does not have free activities to decay",
        ),
        (
            GD,
            {"metrics": {"energy": len}},
            ValueError,
            "metrics has 'energy', which is the name of what fit",
        ),
        (GD, {"chunk": 0}, ValueError, "chunk must be at least 1"),
        (GD, {"epochs": 0}, ValueError, "epochs must be greater than 0"),
        (GD, {"batch_size": 51}, ValueError, "batch_size=51 is more than the 50 training samples"),
    ],
)
def test_bad_arguments(runs, options, error, message):
    with pytest.raises(error, match=message):
        mupc.fit_many(runs, DATA, **SHARED | options)


def test_chunks_follow_from_memory(monkeypatch):
    sizes = []

    def run(loop, learner, compute_path):
        assert loop.job.context.weight_lr.shape == loop.job.source.key.shape == learner.step.shape
        sizes.extend(learner.step.shape)
        return [None] * len(learner.step)

    monkeypatch.setattr(_fit_many.TrainLoop, "run", run)
    need = check_room(mupc.TrainConfig(batch_size=8), TANH[0], DATA, mupc.PC(GD[0].algorithm))
    monkeypatch.setattr(_fit_many, "free_memory", lambda: 3.9 * need / _fit_many.MEMORY_SHARE)
    runs = [dataclasses.replace(GD[0], seed=seed) for seed in range(7)]
    assert len(mupc.fit_many(runs, DATA, **SHARED)) == 7
    assert sizes == [3, 3, 3]  # at most three at once; the last chunk is filled up with what is dropped again


def test_the_same_networks_as_chains():
    runs = [[dataclasses.replace(run, network=make(run.network)) for run in GD[:2]] for make in (lambda n: n, chain_of)]
    for one, two in zip(*(mupc.fit_many(each, DATA, **SHARED) for each in runs), strict=True):
        np.testing.assert_allclose(one.losses, two.losses, rtol=1e-4)
        assert one.last["learning_layers"] == two.last["learning_layers"]
        assert two.last["layers"] == 5
    with pytest.raises(ValueError, match=r"differ in network \(Network and Chain\)"):
        mupc.fit_many([GD[0], runs[1][0]], DATA, **SHARED)


@pytest.mark.parametrize(
    ("other", "name"),
    [({"width": 4}, r"width \(2 and 4\)"), ({"blocks": (2,)}, r"blocks \(\(1,\) and \(2,\)\)")],
)
def test_what_may_not_differ_between_models_is_named(other, name):
    models = [
        mupc.models.resnet((1, 8, 8), **{"width": 2, "blocks": (1,)} | options, key=jr.key(0))
        for options in ({}, other)
    ]
    with pytest.raises(ValueError, match=f"runs 0 and 1 differ in network.{name}. Only weights"):
        mupc.fit_many([mupc.Run(model, mupc.BP()) for model in models], mupc.data.load("digits"))
