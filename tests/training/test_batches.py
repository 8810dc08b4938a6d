"""Which batches training draws, and that another data set of the same form needs no new program."""

import contextlib
import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
import sklearn.metrics
from compiled import compilations

import mupc
from mupc.data import Dataset, Normalisation, Schema, Split
from mupc.learning._optimiser import SCHEDULES
from mupc.training._batches import bucket, epoch_order, shuffles
from mupc.training._evaluation import RECORDED

SOLVER = mupc.GradientDescent(lr=0.2, steps=4)


def clusters(samples, test=40, seed=0):
    """Three clusters of five features, in units of the seed's own."""
    rng = np.random.default_rng(seed)
    centres, units = 2 * rng.normal(size=(3, 5)), rng.uniform(1, 9, 5)

    def split(count):
        labels = rng.integers(0, 3, count).astype(np.int32)
        return Split(((centres[labels] + rng.normal(size=(count, 5))) * units).astype(np.float32), labels)

    train = split(samples)
    normalisation = Normalisation(mean=train.raw.mean(0), std=train.raw.std(0) + 0.1)
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
    steps = jnp.arange(total + 3, dtype=jnp.float32)
    for name, want in wanted.items():
        got = jax.vmap(SCHEDULES[name], in_axes=(0, None))(steps, jnp.asarray(total, jnp.float32))
        np.testing.assert_allclose(got, jax.vmap(want)(steps.astype(int)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("many", [False, True])
def test_another_data_set_does_not_compile_again(many):
    def train(data, epochs, weight_lr, precision, seed):
        energy = mupc.Energy(output_precision=precision)
        if many:
            runs = [mupc.Run(network(), SOLVER, weight_lr, s, energy) for s in (seed, seed + 1)]
            return mupc.fit_many(runs, data, epochs=epochs, schedule="cosine")
        settings = {"epochs": epochs, "weight_lr": weight_lr, "seed": seed, "schedule": "cosine"}
        result = mupc.fit(network(), data, SOLVER, energy=energy, **settings)
        result.model.predict(data.test.raw)
        return [result]

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


def drawn(samples, steps, **settings):
    """Return the training inputs of each batch, and the data set."""
    data, net = clusters(samples), mupc.Network(5, 3, 9, 1, key=jr.key(0))
    config = mupc.TrainConfig(batch_size=16, **settings)
    source = config.job(net, data, mupc.BP()).source
    for dispatch in config.plan(data).batches.dispatches(source, range(steps), None):
        for index in range(dispatch.first, dispatch.first + dispatch.length):
            batch, _ = dispatch.source.draw(dispatch.order, jnp.asarray(index), jnp.asarray(0), 5)
            yield data, batch.x


def test_a_last_batch_is_filled_from_the_start_of_the_epoch():
    batches = list(drawn(40, 6, last_batch="fill", seed=3))
    assert len(batches) == 6
    for epoch in range(2):
        order = jr.permutation(jr.fold_in(jr.key(3), epoch), 40)
        rows = np.concatenate([x for _, x in batches[3 * epoch : 3 * epoch + 3]])
        np.testing.assert_allclose(rows, batches[0][0].x_train[np.asarray([*order, *order[:8]])], rtol=1e-6)


@pytest.mark.parametrize("samples", [1, 7])
def test_fewer_samples_than_a_batch_fill_it(samples):
    for epoch, (data, x) in enumerate(drawn(samples, 3, last_batch="fill")):
        order = np.asarray(jr.permutation(jr.fold_in(jr.key(0), epoch), samples))
        np.testing.assert_allclose(x, np.tile(data.x_train[order], (16, 1))[:16], rtol=1e-6)
    result = mupc.fit(network(), data, SOLVER, batch_size=16, last_batch="fill", epochs=3)
    assert result.steps == 3 and np.isfinite(result.losses).all()


def test_fewer_samples_than_a_batch_are_an_error_otherwise():
    with pytest.raises(ValueError, match="batch_size=64 is more than the 40 training samples of clusters. Use a sm"):
        mupc.fit(network(), clusters(40), SOLVER, batch_size=64)
    assert mupc.fit(network(), clusters(40), SOLVER, epochs=3).steps == 3  # by default, all of them are a batch


def test_a_run_goes_on_only_with_the_same_last_batch(tmp_path):
    settings = {"batch_size": 16, "checkpoints": tmp_path}
    mupc.fit(network(), clusters(40), SOLVER, last_batch="fill", **settings)
    with pytest.raises(ValueError, match="are of another run: last_batch was fill and is not there now"):
        mupc.fit(network(), clusters(40), SOLVER, epochs=3, **settings)


def plane(scale, test=60):
    """Return values that depend on three of five features, with some noise, in large units."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5)).astype(np.float32)
    y = 1000 + 50 * (x[:, :3] - x[:, 2:]) * [1, 10, 0.1] + rng.normal(size=(300, 3))
    y = y.astype(np.float32)
    cut = len(x) - test
    schema = Schema(target_scale=Normalisation(mean=y[:cut].mean(0), std=y[:cut].std(0)) if scale else None)
    return Dataset("plane", Split(x[:cut], y[:cut]), Split(x[cut:], y[cut:]), None, schema, False, "made here")


@pytest.mark.parametrize("scale", [True, False])
def test_a_regression_is_scored_in_the_users_units(scale):
    data = plane(scale).with_validation(30)
    net = mupc.Network(5, 3, 9, 1, activation="linear", key=jr.key(0))
    with contextlib.nullcontext() if scale else pytest.warns(RuntimeWarning, match="targets are not scaled"):
        result = mupc.fit(net, data, mupc.BP(), epochs=20, weight_lr=0.05)
    for name, split in (("test", data.test), ("validation", data.validation)):
        values, truth = data.schema.decode(result.network(split.raw)), split.targets
        wanted = {
            "r2": sklearn.metrics.r2_score(truth, values),
            "mae": sklearn.metrics.mean_absolute_error(truth, values),
            "rmse": np.sqrt(sklearn.metrics.mean_squared_error(truth, values)),
        }
        found = {key: result.last[f"{name}_{key}"] for key in wanted}
        assert found == pytest.approx(wanted, rel=1e-4)
    assert (result.last["test_r2"] > 0.9) == scale  # values around 1000 are out of reach without a scale
    assert "test_accuracy" not in result.last and set(result.last) <= set(RECORDED)


def test_values_that_are_all_the_same_have_no_r2_and_do_not_count_as_divergence():
    data = plane(True)
    data = dataclasses.replace(data, test=Split(data.test.raw, np.full_like(data.test.targets, 1000)))
    result = mupc.fit(mupc.Network(5, 3, 9, 1, key=jr.key(0)), data, mupc.BP())
    assert np.isnan(result.last["test_r2"]) and np.isfinite(result.last["test_rmse"]) and not result.diverged


def test_an_empty_test_split_is_left_out_of_evaluation():
    data = clusters(70, test=0)
    result = mupc.fit(network(), data, SOLVER)
    assert np.isfinite(result.last["train_loss"]) and not [name for name in result.last if name.startswith("test")]
    result = mupc.fit(network(), dataclasses.replace(data, validation=data.train), SOLVER)
    assert {"validation_loss", "validation_accuracy"} <= set(result.last)


def test_a_pair_of_arrays_is_a_data_set():
    data = clusters(60, test=0).train
    want = mupc.fit(network(), mupc.data.from_arrays(data.raw, data.targets, seed=3), SOLVER, batch_size=16, seed=3)
    pair = (data.raw, data.targets)
    one = mupc.fit(network(), pair, SOLVER, batch_size=16, seed=3)
    (many,) = mupc.fit_many([mupc.Run(network(), SOLVER, seed=3)], pair, batch_size=16)
    for result in (one, many):
        np.testing.assert_allclose(result.losses, want.losses, rtol=1e-12)
        assert result.last["test_accuracy"] == want.last["test_accuracy"]


def test_the_task_of_a_pair_follows_from_the_outputs_or_is_asked_for():
    x, y = clusters(60, test=0).train.raw, np.arange(60)
    result = mupc.fit(mupc.Network(5, 1, 9, 1, key=jr.key(0)), (x, y), mupc.BP(), batch_size=16)
    assert result.model.schema.task == "regression" and "test_rmse" in result.last
    with pytest.raises(ValueError, match=r"y holds 60 different whole .*: pass mupc.data.from_arrays\(x, y, task="):
        mupc.fit(network(), (x, y), SOLVER, batch_size=16)
    with pytest.raises(ValueError, match="x has 60 samples and y 59"):
        mupc.fit(network(), (x, y[1:] % 3), SOLVER, batch_size=16)


@pytest.mark.parametrize("wrong", [3, (1, 2, 3), None, "digits"])
def test_something_else_is_not_a_data_set(wrong, as_users_see_it):
    with pytest.raises(TypeError, match=r"dataset must be a mupc.data.Dataset such as .*, or a pair \(x, y\), got "):
        mupc.fit(network(), wrong, SOLVER)
