"""Which batches training draws, and that another data set of the same form needs no new program."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from compiled import compilations

import mupc
from mupc.data import Dataset, Normalisation, Schema, Split
from mupc.learning._optimiser import SCHEDULES
from mupc.training._batches import bucket, epoch_order, shuffles

SOLVER = mupc.GradientDescent(lr=0.2, steps=4)


def clusters(samples, test=40, seed=0):
    """Three clusters of five features, in units of the seed's own."""
    rng = np.random.default_rng(seed)
    centres, units = 2 * rng.normal(size=(3, 5)), rng.uniform(1, 9, 5)

    def split(count):
        labels = rng.integers(0, 3, count).astype(np.int32)
        return Split(((centres[labels] + rng.normal(size=(count, 5))) * units).astype(np.float32), labels)

    train = split(samples)
    normalisation = Normalisation(mean=train.raw.mean(0), std=train.raw.std(0))
    return Dataset("clusters", train, split(test), None, Schema(normalisation, labels=(0, 1, 2)), False, "made here")


def network():
    return mupc.Network(5, 3, 9, 2, key=jr.key(0))  # a shape that no other test has


@pytest.mark.parametrize("samples", [1, 2, 17, 379, 1625, 1626, 4000])
@pytest.mark.parametrize("epoch", [0, 3])
def test_the_order_is_that_of_a_permutation(samples, epoch):
    want = jr.permutation(jr.fold_in(jr.key(7), epoch), samples)
    length = bucket(samples) + 16
    order = epoch_order(jr.key(7), jnp.asarray(epoch), jnp.asarray(samples), length, shuffles(samples))
    np.testing.assert_array_equal(order, np.tile(want, length)[:length])


def test_buckets_waste_a_sixteenth_at_most():
    counts = np.arange(1, 70_000)
    sizes = np.asarray([bucket(int(count)) for count in counts])
    assert np.all(sizes >= counts) and np.all((sizes - counts < 16) | (sizes - counts <= counts / 16))
    assert len(set(sizes)) < 200
    assert [bucket(count, finest=1) for count in (1, 10, 16, 60)] == [1, 10, 16, 60]


@pytest.mark.parametrize("total", [1, 2, 9, 30, 50, 1000])
def test_schedules_are_those_of_optax(total):
    warmup = max(1, round(0.05 * total))
    wanted = {
        "constant": optax.constant_schedule(1.0),
        "cosine": optax.cosine_decay_schedule(1.0, total),
        "linear": optax.linear_schedule(1.0, 0.0, total),
        "warmup-cosine": optax.warmup_cosine_decay_schedule(0.0, 1.0, warmup, max(total, warmup + 1)),
    }
    assert wanted.keys() == SCHEDULES.keys()
    for step in range(total + 3):
        for name, want in wanted.items():
            got = SCHEDULES[name](jnp.asarray(step, jnp.float32), jnp.asarray(total, jnp.float32))
            np.testing.assert_allclose(got, want(jnp.asarray(step, jnp.int32)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("many", [False, True])
def test_another_data_set_does_not_compile_again(many):
    def train(data, epochs, weight_lr, precision, seed):
        energy = mupc.Energy(output_precision=precision)
        if many:
            runs = [mupc.Run(network(), SOLVER, weight_lr, s, energy) for s in (seed, seed + 1)]
            return mupc.fit_many(runs, data, epochs=epochs, schedule="cosine")
        settings = {"epochs": epochs, "weight_lr": weight_lr, "seed": seed, "schedule": "cosine"}
        return [mupc.fit(network(), data, SOLVER, energy=energy, **settings)]

    with compilations("") as first:
        train(clusters(379, test=190, seed=1), 1, 0.01, 0.5, 0)
    with compilations("") as second:
        data = clusters(380, test=189, seed=2)
        results = train(data, 2, 0.02, 0.5 if many else 0.3, 4)
    assert len(first) > 2 and second == []
    for result in results:
        assert result.steps == 10
        loss = np.mean(np.sum((data.y_test - result.network(data.x_test)) ** 2, axis=1)) / 2
        np.testing.assert_allclose(result.last["test_loss"], loss, rtol=1e-5)
