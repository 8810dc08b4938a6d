"""Training with noise: every batch has its own, and it does not depend on how the run is cut up."""

import jax
import jax.random as jr
import numpy as np
import pytest

import mupc

SOLVER = mupc.MonteCarlo(lr=0.2, steps=4, temperature=0.1)
OPTIONS = {"epochs": 0.5, "weight_lr": 0.05, "evaluate_every": 5}


@pytest.fixture(scope="module")
def digits():
    return mupc.data.load("digits")


@pytest.fixture(scope="module")
def network():
    return mupc.Network(64, 10, width=6, hidden_layers=3, activation="tanh", key=jr.key(0))


@pytest.fixture(scope="module")
def whole(network, digits):
    return mupc.fit(network, digits, SOLVER, **OPTIONS)


def same(one, other):
    leaves = zip(jax.tree.leaves(one.network), jax.tree.leaves(other.network), strict=True)
    return all(np.array_equal(a, b) for a, b in leaves)


def test_the_seed_of_training_decides_the_noise(network, digits, whole):
    """The solver's own key does not, as it would be the same for every batch."""
    assert same(whole, mupc.fit(network, digits, SOLVER.with_key(jr.key(5)), **OPTIONS))
    assert not same(whole, mupc.fit(network, digits, SOLVER, seed=1, **OPTIONS))
    assert not same(whole, mupc.fit(network, digits, mupc.GradientDescent(0.2, 4), **OPTIONS))


def test_every_batch_has_its_own_noise(network, digits):
    """Batches of all samples and weights that stand still: energies differ by the noise, whose mean is known."""
    options = {"batch_size": len(digits.train), "weight_lr": 1e-30, "evaluate_every": 1, "epochs": 3}
    energies = [record["energy"] for record in mupc.fit(network, digits, SOLVER, **options).history[1:]]
    assert len({*energies}) == 3
    assert max(energies) - min(energies) < 0.1 * min(energies)


def test_a_run_goes_on_with_the_same_noise(network, digits, whole, tmp_path):
    folder = tmp_path / "checkpoints"
    part = mupc.fit(network, digits, SOLVER, checkpoints=folder, callbacks=[lambda s: s.record["step"] == 5], **OPTIONS)
    assert part.stopped and not same(part, whole)
    assert same(whole, mupc.fit(network, digits, SOLVER, checkpoints=folder, **OPTIONS))


def test_many_runs_have_the_noise_that_each_has_alone(network, digits, whole):
    hot = mupc.MonteCarlo(lr=0.2, steps=4, temperature=1.0)
    runs = [mupc.Run(network, solver, 0.05, seed) for solver, seed in ((SOLVER, 0), (hot, 0), (SOLVER, 1))]
    shared = {name: value for name, value in OPTIONS.items() if name != "weight_lr"}
    together = mupc.fit_many(runs, digits, **shared)
    alone = [whole, mupc.fit(network, digits, hot, **OPTIONS), mupc.fit(network, digits, SOLVER, seed=1, **OPTIONS)]
    for one, other in zip(together, alone, strict=True):
        for a, b in zip(jax.tree.leaves(one.network), jax.tree.leaves(other.network), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert not same(together[0], together[1])
