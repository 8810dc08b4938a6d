"""Early stopping against a run without it, its checkpoints, and Ctrl-C."""

import dataclasses
import signal
import threading

import jax
import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc.data import Dataset, Schema, Split
from mupc.training import _checkpoint_policy
from mupc.training._result import describe_end
from mupc.training._state import best_record

SOLVER = mupc.GradientDescent(lr=0.2, steps=3)
NETWORK = mupc.Network(5, 3, 6, 3, activation="tanh", key=jr.key(0))
OPTIONS = {"epochs": 10, "batch_size": 8, "weight_lr": 0.3, "evaluate_every": 4}  # six steps an epoch, too large steps


@pytest.fixture(autouse=True)
def at_every_evaluation(monkeypatch):
    """Write a checkpoint at every evaluation, although the networks are small."""
    monkeypatch.setattr(_checkpoint_policy, "PAUSE", 0)


def dataset(regression=False):
    """Three clusters with so much noise that the accuracy goes up and down."""
    rng = np.random.default_rng(3)

    def split(count):
        labels = rng.integers(0, 3, count).astype(np.int32)
        raw = (np.eye(3, 5)[labels] + rng.normal(size=(count, 5))).astype(np.float32)
        return Split(raw, raw[:, :3] ** 2 if regression else labels)

    schema = Schema() if regression else Schema(labels=(0, 1, 2))
    return Dataset("clusters", split(48), split(12), split(20), schema, False, "made here")


DATA = dataset()


def fit(data=DATA, **options):
    return mupc.fit(NETWORK, data, SOLVER, **OPTIONS | options)


def follow(data=DATA, **options):
    """Train without early stopping, and return the result and the network of every evaluation."""
    networks = []
    return fit(data, callbacks=[lambda status: networks.append(status.network)], **options), networks


def assert_equal(one, two):
    for got, want in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_array_equal(got, want, strict=True)


def first_best(history):
    """Count places by hand: a later evaluation must be strictly better."""
    best = 0
    for place, record in enumerate(history):
        now, was = ((r.get("validation_accuracy", 0), -r["validation_loss"]) for r in (record, history[best]))
        best = place if now > was else best
    return best


@pytest.fixture(scope="module")
def whole():
    return follow()


@pytest.mark.parametrize("patience", [1, 3])
def test_it_stops_after_evaluations_without_a_better_score(whole, patience):
    full, networks = whole
    end = next(k for k in range(len(networks)) if k - first_best(full.history[: k + 1]) == patience)
    best = first_best(full.history[: end + 1])
    assert 0 < best < end < len(networks) - 1
    result = fit(patience=patience)
    assert result.steps == full.history[end]["step"] and len(result.history) == end + 1
    assert_equal(result.network, networks[best])
    assert result.best is result.history[best] and result.restored and not result.stopped and not result.diverged
    word = "evaluation" if patience == 1 else "evaluations"
    assert result.message == (
        f"stopped after {patience} {word} without a better validation accuracy; the best, "
        f"{100 * full.history[best]['validation_accuracy']:.1f} % at step {full.history[best]['step']}, was kept"
    )
    last = fit(patience=patience, restore_best=False)
    assert_equal(last.network, networks[end])
    assert not last.restored and "was kept" not in last.message


def test_the_best_of_a_whole_run_is_returned(whole):
    full, networks = whole
    best = first_best(full.history)
    result = fit(restore_best=True)
    assert result.steps == full.steps and best < len(networks) - 1
    assert_equal(result.network, networks[best])
    assert result.message.startswith("all steps were taken; the best on the validation split, ")


def test_regression_goes_by_the_loss():
    full, networks = follow(dataset(regression=True))
    losses = [record["validation_loss"] for record in full.history]
    result = fit(dataset(regression=True), restore_best=True)
    assert_equal(result.network, networks[int(np.argmin(losses))])
    assert result.best["validation_loss"] == min(losses)
    assert f"{min(losses):.4g} at step" in result.message


def test_equal_accuracies_go_by_the_loss():
    scores = [(0.5, 1.0), (0.7, 0.9), (0.7, 0.8), (0.7, 0.8), (0.6, 0.1)]
    history = [
        {"step": step, "validation_accuracy": accuracy, "validation_loss": loss, "diverged": False}
        for step, (accuracy, loss) in enumerate(scores)
    ]
    assert best_record(history)["step"] == 2
    assert describe_end(history, 4, 9, 2, True).startswith("stopped after 2 evaluations without a better validation")
    history[2]["diverged"] = True
    assert best_record(history)["step"] == 3
    assert best_record([{"step": 0, "diverged": False, "test_loss": 1.0}]) is None


class Crash(Exception):
    """What takes a process down."""


@pytest.mark.parametrize("options", [{}, {"checkpoint_every": 3}])
def test_the_best_survives_a_crash(tmp_path, options):
    want = fit(patience=3)
    steps = [record["step"] for record in want.history]
    for step in (steps[len(steps) // 2], steps[-1]):

        def crash(status, step=step):
            if status.record["step"] == step:
                raise Crash

        folder = tmp_path / str(step)
        with pytest.raises(Crash):
            fit(patience=3, checkpoints=folder, callbacks=[crash], **options)
        for _ in range(2):  # the second call finds a run that has ended
            result = fit(patience=3, checkpoints=folder, **options)
            assert_equal(result.network, want.network)
            assert (result.message, result.steps, result.best["step"]) == (want.message, want.steps, want.best["step"])


def test_more_patience_trains_further(tmp_path):
    fit(patience=1, checkpoints=tmp_path)
    result, want = fit(patience=3, checkpoints=tmp_path), fit(patience=3)
    assert result.steps == want.steps
    assert_equal(result.network, want.network)


def test_checkpoints_without_the_best_network_are_refused(tmp_path, whole):
    past_best = whole[0].history[1 + first_best(whole[0].history)]["step"]

    fit(checkpoints=tmp_path, callbacks=[lambda status: status.record["step"] == past_best])
    with pytest.raises(ValueError, match="was written without restore_best: leave that out, or train from the start"):
        fit(checkpoints=tmp_path, restore_best=True)


def test_after_a_divergence_the_best_is_returned():
    wild = {"epochs": 3, "weight_lr": 1e200, "optimiser": "sgd"}
    with pytest.warns(RuntimeWarning, match="diverged .*; the best on the validation split, .* at step 0, was kept"):
        result = fit(restore_best=True, **wild)
    assert result.diverged and not result.stopped
    assert_equal(result.network, NETWORK)


@pytest.mark.parametrize("name, value", [("patience", 2), ("restore_best", True)])
def test_it_needs_a_validation_split(name, value):
    empty = DATA.validation.take(np.arange(0))
    for data in (dataclasses.replace(DATA, validation=None), dataclasses.replace(DATA, validation=empty)):
        with pytest.raises(
            ValueError, match=f"{name} needs a validation split, and clusters .* Hold one out with validation"
        ):
            fit(data, **{name: value})
    with pytest.raises(ValueError, match=f"{name} is for one run: leave it out"):
        mupc.fit_many([mupc.Run(NETWORK, SOLVER)], DATA, **{name: value})


@pytest.fixture
def terminal():
    """Take Ctrl-C as on a terminal: a shell that starts the tests in the background has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_at(step, times=1):
    def callback(status):
        if status.record["step"] == step:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)

    return callback


def test_ctrl_c_returns_what_was_learnt(tmp_path, whole, capfd, terminal):
    full, networks = whole
    result = fit(callbacks=[interrupt_at(8)], checkpoints=tmp_path)
    assert result.stopped and result.steps == 8
    assert result.message == "training was stopped after 8 of 60 steps"
    assert "once more to stop at once" in capfd.readouterr().err
    assert_equal(result.network, networks[2])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    again = fit(checkpoints=tmp_path)
    assert_equal(again.network, full.network)
    assert not again.stopped


def test_a_second_ctrl_c_ends_it_at_once(terminal):
    with pytest.raises(KeyboardInterrupt):
        fit(callbacks=[interrupt_at(8, times=2)])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_those_who_handle_ctrl_c_themselves_still_do(terminal):
    with pytest.raises(KeyboardInterrupt):
        fit(callbacks=[interrupt_at(8)], stop=lambda: False)
    with pytest.raises(KeyboardInterrupt):
        mupc.fit_many([mupc.Run(NETWORK, SOLVER)], DATA, batch_size=8, callbacks=[interrupt_at(6)])
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        result = fit(epochs=2, callbacks=[interrupt_at(8)])
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT] and not result.stopped


def test_training_in_another_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(fit(epochs=1)))
    thread.start()
    thread.join()
    assert results[0].steps == 6
