"""Training on batches from a function of the user's, against the same samples in memory, and what may go wrong."""

import dataclasses

import jax.random as jr
import numpy as np
import pytest
from compiled import compilations

import mupc
from mupc.data import from_batches
from mupc.training import _stream

SOLVER = mupc.GradientDescent(lr=0.2, steps=4)
AUTO = mupc.GradientDescent(lr="auto", steps=4)
CENTRES = np.random.default_rng(0).normal(size=(3, 5))
PER_EPOCH, ROWS = 5, 16


def make(seed, rows=ROWS):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, rows)
    return (CENTRES[labels] + 0.3 * rng.normal(size=(rows, 5))).astype(np.float32), labels


def batches(epoch):
    for index in range(PER_EPOCH):
        yield make((epoch, index))


def stream(function=batches, **options):
    return from_batches(function, PER_EPOCH, 3, test=make(9, 40), name="toy", **options)


def network():
    return mupc.Network(5, 3, 6, 2, activation="tanh", key=jr.key(0))


def test_a_stream_trains_as_the_same_batches_in_memory_do():
    """Epochs of one batch in memory have the samples in another order, which does not matter to a mean over them."""
    data, net = stream(), network()
    options = {"weight_lr": 0.01, "optimiser": "sgd", "schedule": "constant"}
    result = mupc.fit(net, data, SOLVER, epochs=2, **options)
    assert result.steps == 2 * PER_EPOCH and len(result.history) == 3
    for step in range(result.steps):
        split = list(data.epoch(step // PER_EPOCH))[step % PER_EPOCH]
        memory = mupc.data.Dataset("batch", split, data.test, None, data.schema, False, "")
        one = mupc.fit(net, memory, SOLVER, batch_size=ROWS, **options)
        np.testing.assert_allclose(result.losses[step], one.losses[0], rtol=1e-9)
        net = one.network
    np.testing.assert_allclose(result.network.hidden.weight, net.hidden.weight, rtol=1e-9)
    assert result.last["test_accuracy"] == one.last["test_accuracy"]


@pytest.mark.parametrize("settings", [{}, {"evaluate_every": 3}, {"checkpoint_every": 2}])
def test_dispatches_of_any_size_are_the_same_run(settings, tmp_path, monkeypatch):
    want = mupc.fit(network(), stream(), SOLVER, epochs=3)
    monkeypatch.setattr(_stream, "STREAM_BYTES", 3 * ROWS * (5 * 4 + 4))  # three batches at a time
    if "checkpoint_every" in settings:
        settings = settings | {"checkpoints": tmp_path}
    result = mupc.fit(network(), stream(), SOLVER, epochs=3, **settings)
    np.testing.assert_array_equal(result.losses, want.losses)
    np.testing.assert_array_equal(result.network.hidden.weight, want.network.hidden.weight)


def test_one_program_serves_all_dispatches(monkeypatch):
    monkeypatch.setattr(_stream, "STREAM_BYTES", 2 * ROWS * (5 * 4 + 4))
    net = mupc.Network(5, 3, 11, 2, key=jr.key(0))  # a shape that no other test has
    with compilations("advance") as compiled:
        mupc.fit(net, stream(), SOLVER, epochs=2, evaluate_every=3)
    assert len(compiled) == 1


class Stopped(Exception):
    pass


@pytest.mark.parametrize("solver", [SOLVER, AUTO], ids=["fixed", "tuned"])
@pytest.mark.parametrize("broken", [(0, 3), (1, 0), (1, 4)])
def test_a_run_goes_on_at_the_right_batch_of_the_right_epoch(solver, broken, tmp_path, monkeypatch):
    monkeypatch.setattr(_stream, "STREAM_BYTES", 2 * ROWS * (5 * 4 + 4))

    def until_it_breaks(epoch):
        for index, batch in enumerate(batches(epoch)):
            if (epoch, index) == broken:
                raise OSError("the disk is gone")
            yield batch

    settings = {"epochs": 3, "evaluate_every": 4, "weight_lr": 0.05}
    want = mupc.fit(network(), stream(), solver, **settings)
    where = rf"batch {broken[1]} of epoch {broken[0]} of toy could not be made \(OSError: the disk is gone\): mend the"
    with pytest.raises(ValueError, match=where) as caught:
        mupc.fit(network(), stream(until_it_breaks), solver, checkpoints=tmp_path, **settings)
    (so_far,) = caught.value.results
    assert 0 < so_far.steps <= PER_EPOCH * broken[0] + broken[1] and so_far.stopped
    np.testing.assert_array_equal(so_far.losses, want.losses[: so_far.steps])
    result = mupc.fit(network(), stream(), solver, checkpoints=tmp_path, **settings)
    np.testing.assert_array_equal(result.losses, want.losses)
    np.testing.assert_array_equal(result.network.hidden.weight, want.network.hidden.weight)


def test_a_run_stops_between_two_parts_of_a_stream(tmp_path, monkeypatch):
    monkeypatch.setattr(_stream, "STREAM_BYTES", 2 * ROWS * (5 * 4 + 4))
    made = []

    def noted(epoch):
        for batch in batches(epoch):
            made.append(epoch)
            yield batch

    stopped = mupc.fit(network(), stream(noted), SOLVER, epochs=2, checkpoints=tmp_path, stop=lambda: len(made) > 3)
    assert stopped.stopped and stopped.steps == 4 and len(stopped.history) == 1
    result = mupc.fit(network(), stream(), SOLVER, epochs=2, checkpoints=tmp_path)
    want = mupc.fit(network(), stream(), SOLVER, epochs=2)
    np.testing.assert_array_equal(result.losses, want.losses)


def spoilt(change):
    """Return batches of which number 2 of epoch 1 is changed."""

    def function(epoch):
        made = list(batches(epoch))
        if epoch == 1:
            made[2:3] = change(*made[2])
        yield from made

    return function


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: [(x[:9], y[:9])], "batch 2 of epoch 1 of toy: it has 9 samples, not 16: make all"),
        (lambda x, y: [(x[:, :4], y)], "batch 2 of epoch 1 of toy: x .*4"),
        (lambda x, y: [(x * np.nan, y)], "batch 2 of epoch 1 of toy: .*"),
        (lambda x, y: [(x, y + 7)], "batch 2 of epoch 1 of toy: .*label"),
        (lambda x, y: [x], "batch 2 of epoch 1 of toy: .*"),
        (lambda x, y: [], "epoch 1 of toy ended after 4 of 5 batches: make as many in every epoch"),
    ],
)  # fmt: skip
def test_wrong_batches_say_where_they_are(change, message):
    with pytest.raises(ValueError, match=message) as caught:
        mupc.fit(network(), stream(spoilt(change)), SOLVER, epochs=2)
    assert "\n" not in str(caught.value)
    (so_far,) = caught.value.results
    assert so_far.steps == PER_EPOCH and len(so_far.history) == 2


def test_a_stream_has_its_own_batch_size():
    with pytest.raises(ValueError, match="batch_size=8 has no effect, because toy makes batches of 16. Leave it out."):
        mupc.fit(network(), stream(), SOLVER, batch_size=8)


def test_runs_side_by_side_learn_from_the_same_batches():
    runs = [mupc.Run(network(), SOLVER, weight_lr) for weight_lr in (0.1, 0.01)]
    for run, result in zip(runs, mupc.fit_many(runs, stream(), epochs=2), strict=True):
        want = mupc.fit(network(), stream(), SOLVER, epochs=2, weight_lr=run.weight_lr)
        np.testing.assert_allclose(result.losses, want.losses, rtol=1e-9)


def test_images_are_augmented_and_a_regression_is_scaled():
    def images(epoch):
        rng = np.random.default_rng(epoch)
        for _ in range(2):
            yield rng.integers(0, 256, (8, 4, 4), np.uint8), 100 + 5 * rng.normal(size=8)

    scale = mupc.data.Normalisation(mean=100.0, std=5.0)
    data = from_batches(images, 2, target_scale=scale, test=next(images(5)))
    net = mupc.Network(16, 1, 6, 2, key=jr.key(0))
    plain, augmented = (mupc.fit(net, data, SOLVER, weight_lr=0.01, augment=how) for how in (False, True))
    assert plain.losses[0] != augmented.losses[0] and plain.losses[0] < 10
    assert {"test_r2", "test_mae", "test_rmse"} <= set(augmented.last)


def test_another_stream_does_not_go_on(tmp_path):
    mupc.fit(network(), stream(), SOLVER, checkpoints=tmp_path)
    other = dataclasses.replace(stream(), name="other")
    with pytest.raises(ValueError, match="the training data was the stream toy and is the stream other now"):
        mupc.fit(network(), other, SOLVER, epochs=2, checkpoints=tmp_path)
