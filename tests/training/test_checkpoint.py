"""Going on from a checkpoint: to the bit as without an interruption, never from half of one or another run's."""

import dataclasses
import errno
import json
import os
import shutil

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import mupc
from mupc import nodes
from mupc.data import Dataset, Schema, Split
from mupc.io._checkpoints import file_checksums
from mupc.training import _checkpoint_policy, _checkpoints, _fit
from mupc.training._checkpoints import Checkpoints, only_writer

SOLVER = mupc.GradientDescent(lr=0.2, steps=3)
TIMES = ("seconds", "steps_per_second")


@pytest.fixture(autouse=True)
def at_every_evaluation(monkeypatch):
    """Networks are so small that writing takes longer than training."""
    monkeypatch.setattr(_checkpoint_policy, "PAUSE", 0)


class Crash(Exception):
    """What takes a process down."""


def clusters(seed=0, name="clusters"):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 60).astype(np.int32)
    raw = (3 * np.eye(3, 5)[labels] + rng.normal(size=(60, 5))).astype(np.float32)
    return Dataset(name, Split(raw[:48], labels[:48]), Split(raw[48:], labels[48:]), None, Schema(labels=(0, 1, 2)),
                   False, "made here")  # fmt: skip


def network(**options):
    return mupc.Network(5, 3, **{"width": 6, "hidden_layers": 3, "activation": "tanh"} | options, key=jr.key(0))


def own_chain(activation=jnp.tanh):
    """One of equinox's modules, a function of one's own, and a stack."""
    keys = jr.split(jr.key(0), 3)
    stack = mupc.Stack(
        lambda key: nodes.Residual([activation, nodes.Linear(6, 6, role="branch", key=key)]), 2, key=keys[0]
    )
    parts = [eqx.nn.Linear(5, 6, key=keys[1]), stack, eqx.nn.MLP(6, 3, 4, 1, activation=activation, key=keys[2])]
    return mupc.Chain(parts, input_shape=(5,))


def fit(folder=None, *, data=None, net=None, solver=SOLVER, **options):
    """Six steps an epoch, an evaluation after every four, two epochs: at 0, 4, 8 and 12."""
    options = {"epochs": 2, "batch_size": 8, "evaluate_every": 4, "checkpoints": folder} | options
    if isinstance(options.get("optimiser", ""), str):
        options = {"weight_lr": 0.03} | options
    return mupc.fit(net or network(), data or clusters(), solver, **options)


def crash_at(step):
    def callback(status):
        if status.record["step"] == step:
            raise Crash

    return [callback]


def assert_same(result, other):
    for one, two in zip(jax.tree.leaves(result.network), jax.tree.leaves(other.network), strict=True):
        np.testing.assert_array_equal(one, two, strict=True)
    np.testing.assert_array_equal(result.losses, other.losses, strict=True)
    timeless = [
        [{key: value for key, value in record.items() if key not in TIMES} for record in run.history]
        for run in (result, other)
    ]
    np.testing.assert_equal(*timeless)
    assert (result.steps, result.diverged, result.message) == (other.steps, other.diverged, other.message)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimiser": "momentum", "schedule": "cosine", "checkpoint_every": 3},
        {"solver": mupc.BP(), "optimiser": "sgd", "checkpoint_every": 5},
        pytest.param(
            {"solver": mupc.GradientDescent(lr="auto", steps=3), "checkpoint_every": 2}, marks=pytest.mark.slow
        ),
        pytest.param(
            {"net": network(hidden_layers=1, use_bias=True), "optimiser": optax.adamw(0.01)}, marks=pytest.mark.slow
        ),
        {"net": own_chain()},
    ],
    ids=["adam", "between evaluations", "no optimiser state", "tuned step size", "own optimiser", "chain"],
)
def test_resuming_changes_nothing(tmp_path, options):
    """A crash at every evaluation; each process is a new call, which knows only what is on disk."""
    want = fit(tmp_path / "whole", **options)
    for step in (4, 8, 12):
        with pytest.raises(Crash):
            fit(tmp_path / "parts", callbacks=crash_at(step), **options)
    assert_same(fit(tmp_path / "parts", **options), want)
    if "checkpoint_every" not in options:
        assert_same(fit(**options), want)


def test_checkpoints_between_evaluations_change_no_number(tmp_path):
    assert_same(fit(tmp_path, checkpoint_every=1), fit())


def test_only_new_records_are_reported(tmp_path):
    with pytest.raises(Crash):
        fit(tmp_path, callbacks=crash_at(8))
    seen = []
    result = fit(tmp_path, callbacks=[seen.append])
    assert [status.record["step"] for status in seen] == [8, 12]
    assert [record["step"] for record in result.history] == [0, 4, 8, 12]
    seconds = [record["seconds"] for record in result.history]
    assert seconds == sorted(seconds)


def test_a_finished_run_takes_no_step_and_trains_on_with_more_epochs(tmp_path):
    options = {"schedule": "constant"}
    done = fit(tmp_path, **options)
    seen = []
    assert_same(fit(tmp_path, callbacks=[seen.append], **options), done)
    assert seen == []
    longer = fit(tmp_path, epochs=4, callbacks=[seen.append], **options)
    assert [status.record["step"] for status in seen] == [16, 20, 24]
    want = fit(epochs=4, **options)
    np.testing.assert_array_equal(longer.losses, want.losses)
    np.testing.assert_array_equal(longer.network.hidden.weight, want.network.hidden.weight)


def test_with_more_epochs_the_rate_goes_on_as_in_a_run_of_that_length(tmp_path):
    fit(tmp_path, optimiser="sgd", rate_scaling="none")
    longer = fit(tmp_path, epochs=4, optimiser="sgd", rate_scaling="none")

    def rate(step):
        return 0.015 * (1 + jnp.cos(jnp.pi * step / jnp.where(step < 12, 12, 24)))

    want = fit(epochs=4, optimiser=optax.sgd(rate))
    np.testing.assert_allclose(longer.losses, want.losses, rtol=1e-9)


@pytest.mark.parametrize("every", [None, pytest.param(3, marks=pytest.mark.slow)])
def test_stopping_keeps_everything(tmp_path, every):
    """`stop` is asked before each dispatch: at 0, then at each evaluation, checkpoint and end of an epoch."""
    for asked, steps in ((0, 0), (1, 4 if every is None else 3), (1, 6 if every is None else 4)):
        calls = iter([False] * asked + [True])
        part = fit(tmp_path, stop=lambda calls=calls: next(calls), checkpoint_every=every)
        assert part.steps == steps
        assert part.message == f"training was stopped after {part.steps} of 12 steps"
        assert len(part.losses) == part.steps
        assert not part.diverged
    assert_same(fit(tmp_path, checkpoint_every=every), fit())


def test_a_checkpoint_from_before_rotation_and_cutout_were_settings_goes_on(tmp_path, monkeypatch):
    def described(*about):
        found = _checkpoints.describe_run(*about)
        return {name: value for name, value in found.items() if name not in ("rotation", "cutout")}

    with monkeypatch.context() as earlier:
        earlier.setattr(_fit, "describe_run", described)
        calls = iter((False, True))
        assert fit(tmp_path, stop=lambda: next(calls)).steps == 4
    assert_same(fit(tmp_path), fit())
    with pytest.raises(ValueError, match="rotation was 10.0 and is 5.0 now"):
        fit(tmp_path, rotation=5)


@pytest.mark.parametrize("keep", [1, 3])
def test_the_last_few_are_kept(tmp_path, keep):
    fit(tmp_path, checkpoint_every=2, keep=keep)
    assert names(tmp_path) == [f"step-{step:08d}" for step in (2, 4, 6, 8, 10, 12)[-keep:]]


def test_writing_takes_a_small_part_of_the_time(tmp_path, monkeypatch):
    """With a pause without end, the first evaluation after a start and the end are left."""
    monkeypatch.setattr(_checkpoint_policy, "PAUSE", 1e9)
    with pytest.raises(Crash):
        fit(tmp_path, callbacks=crash_at(12), keep=9)
    assert names(tmp_path) == ["step-00000004"]
    assert_same(fit(tmp_path, keep=9), fit())
    assert names(tmp_path) == ["step-00000004", "step-00000008", "step-00000012"]


def damaged(path):
    """Every way in which one file of a checkpoint can be wrong."""
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        content = file.read_bytes()
        half = content[: len(content) // 2]
        flipped = half + bytes([content[len(half)] ^ 1]) + content[len(half) + 1 :] if content else b"x"
        for change in (half, flipped, None):
            if change == content:
                continue
            file.unlink() if change is None else file.write_bytes(change)
            yield file
            file.write_bytes(content)


def test_a_damaged_checkpoint_is_never_taken_for_a_whole_one(tmp_path):
    fit(tmp_path)
    last = tmp_path / "step-00000012"
    count = 0
    for file in damaged(last):
        found, wrong = _checkpoints.find_checkpoint(tmp_path)
        assert found.step == 8, file
        assert len(wrong) == 1
        assert str(last) in wrong[0]
        count += 1
    assert count > 20
    assert _checkpoints.find_checkpoint(tmp_path)[0].step == 12


def test_training_goes_on_from_the_one_before_a_damaged_one(tmp_path):
    want = fit(tmp_path)
    (tmp_path / "step-00000012" / "about.json").write_text("{")
    with pytest.warns(RuntimeWarning, match="step-00000012 is damaged .*; training goes on from step 8"):
        assert_same(fit(tmp_path), want)
    assert _checkpoints.find_checkpoint(tmp_path)[0].step == 12
    for name in names(tmp_path):
        shutil.rmtree(tmp_path / name / "arrays")
    with pytest.raises(ValueError, match=r"step-00000012 is damaged .* no other before it: delete .* and train again"):
        fit(tmp_path)


def test_what_a_killed_process_was_writing_is_swept_away(tmp_path):
    for name in (".unfinished-step-00000004", ".unfinished-old-step-00000002"):
        (tmp_path / name / "arrays").mkdir(parents=True)
    assert fit(tmp_path).steps == 12
    assert names(tmp_path) == ["step-00000008", "step-00000012"]


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"net": network(width=7)}, "network.width was 6 and is 7"),
        ({"net": network(hidden_layers=4)}, "network.hidden_layers was 3 and is 4"),
        ({"net": network(activation="relu")}, "network.activation was tanh and is relu"),
        ({"net": network(use_bias=True)}, "network.input.bias was None and is float64"),
        ({"solver": mupc.GradientDescent(lr=0.3, steps=3)}, "algorithm.solver.lr was 0.2 and is 0.3"),
        ({"solver": mupc.ErrorSpace()}, "algorithm.solver was GradientDescent and is ErrorSpace"),
        ({"energy": mupc.Energy(output_precision=0.5)}, "energy.output_precision was 1.0 and is 0.5"),
        ({"weight_lr": 0.04}, "weight_lr was 0.03 and is 0.04"),
        ({"seed": 1}, r"key was \[0, 0\] and is \[0, 1\]"),
        ({"optimiser": "sgd"}, "optimiser was adam and is sgd"),
        ({"batch_size": 12}, "batch_size was 8 and is 12"),
        ({"precision": "float32"}, "precision was float64 and is float32"),
        ({"data": clusters(seed=1)}, r"the training data \(raw\) was float32\[48, 5\] with checksum"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path_factory, changes, difference):
    folder = tmp_path_factory.getbasetemp() / "of-one-run"
    if not folder.exists():
        fit(folder, epochs=0.5)
    with pytest.raises(ValueError, match=f"are of another run: {difference}.* Give the same data and settings") as e:
        fit(folder, **changes)
    assert "\n" not in str(e.value)


def test_an_optimiser_of_ones_own_with_another_state_is_refused(tmp_path):
    fit(tmp_path, epochs=0.5, optimiser=optax.sgd(0.1))
    with pytest.raises(ValueError, match="it has nothing for state.optimiser"):
        fit(tmp_path, epochs=0.5, optimiser=optax.adam(0.1))


def test_the_unused_rate_of_an_optax_run_does_not_count(tmp_path):
    """Checkpoints once held the learning rate that an optax transformation does not use."""
    own = {"optimiser": optax.sgd(0.1)}
    fit(tmp_path, callbacks=[lambda status: status.record["step"] == 4], keep=1, **own)
    (path,) = tmp_path.glob("step-*")
    about = json.loads((path / "about.json").read_text())
    assert about["settings"]["weight_lr"] == "None"
    about["settings"]["weight_lr"] = "0.10000000149011612"
    (path / "about.json").write_text(json.dumps(about))
    (path / "manifest.json").write_text(json.dumps(file_checksums(path)))
    assert_same(fit(tmp_path, **own), fit(**own))


def test_a_newer_format_is_refused(tmp_path, monkeypatch):
    fit(tmp_path, epochs=0.5)
    monkeypatch.setattr("mupc.io._checkpoints.FORMAT", 1)
    with pytest.raises(ValueError, match="is of format 2, newer than the 1 known here: update mupc"):
        fit(tmp_path)


def test_nothing_is_pickled(tmp_path):
    fit(tmp_path, epochs=0.5, metrics={"norms": lambda n: np.asarray([1.0, 2.0])})
    (path,) = _checkpoints.checkpoint_folders(tmp_path).values()
    about = json.loads((path / "about.json").read_text())
    assert about["history"][0]["norms"] == [1.0, 2.0]
    files = [file for file in path.rglob("*") if file.is_file()]
    assert not [file for file in files if file.read_bytes().startswith(b"\x80")]  # how a pickle begins
    with pytest.raises(ValueError, match="a metric returned .* return numbers, text or lists"):
        fit(tmp_path / "other", metrics={"itself": lambda n: n})


def test_a_second_writer_is_refused(tmp_path):
    with only_writer(tmp_path), pytest.raises(ValueError, match="another process is writing in .*: wait for it to end"):
        fit(tmp_path)
    assert fit(tmp_path).steps == 12


LINEAR = {"solver": mupc.BP(), "optimiser": "sgd", "evaluate_every": 12, "epochs": 4}


@pytest.mark.slow
def test_halving_the_rate_leads_out_of_a_divergence(tmp_path):
    """A linear network that bears a rate of 2, but neither 4 nor more."""
    options = LINEAR | {"net": network(activation="linear"), "weight_lr": 16.0, "rate_scaling": "none"}
    with pytest.warns(RuntimeWarning, match="diverged between step 0 and step 12"):
        fit(**options)
    result = fit(**options, on_divergence="halve-lr")
    assert [record["step"] for record in result.history] == [0, 12, 12, 12, 12, 24]
    assert [record["diverged"] for record in result.history] == [False, True, True, True, False, False]
    marks = [(record.get("back_to_step"), record.get("weight_lr")) for record in result.history]
    assert marks == [(None, None), (0, 8.0), (0, 4.0), (0, 2.0), (None, None), (None, None)]
    want = fit(**options | {"weight_lr": 2.0})
    np.testing.assert_array_equal(result.losses, want.losses)
    np.testing.assert_array_equal(result.network.hidden.weight, want.network.hidden.weight)
    with pytest.raises(Crash):
        fit(tmp_path, **options, on_divergence="halve-lr", callbacks=crash_at(24), checkpoint_every=1)
    resumed = fit(tmp_path, **options, on_divergence="halve-lr", checkpoint_every=1)
    assert_same(resumed, result)


def test_halving_ends_after_five_times():
    with pytest.warns(RuntimeWarning, match="diverged between step 0 and step 12"):
        result = fit(**LINEAR, net=network(activation="linear"), weight_lr=1e9, on_divergence="halve-lr")
    assert result.diverged
    assert sum("back_to_step" in record for record in result.history) == 5
    assert len(result.history) == 7


def test_a_full_disk_leaves_the_last_checkpoint_whole(tmp_path, monkeypatch):
    write = _checkpoints.write_checkpoint

    def full(scratch, arrays, about):
        if "00000008" in scratch.name:
            scratch.mkdir()
            (scratch / "half").touch()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(scratch, arrays, about)

    with monkeypatch.context() as patch:
        patch.setattr(_checkpoints, "write_checkpoint", full)
        with pytest.raises(OSError, match="step 8 cannot .*No space left on device.*; that of step 4 is still there"):
            fit(tmp_path)
    assert names(tmp_path) == ["step-00000004"]
    assert_same(fit(tmp_path), fit())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint_every": 2}, "checkpoint_every needs a folder: give checkpoints"),
        ({"checkpoints": "x", "checkpoint_every": 0}, "checkpoint_every must be at least 1, got 0"),
        ({"checkpoints": "x", "keep": 0}, "keep must be at least 1, got 0"),
        ({"on_divergence": "halve"}, "on_divergence 'halve' is not known. Did you mean 'halve-lr'"),
        ({"on_divergence": "halve-lr", "optimiser": optax.sgd(0.1)}, "does not have a rate to halve"),
    ],
)
def test_bad_arguments(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        fit(**options)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="the folder for checkpoints .* cannot be created"):
        fit(tmp_path / "file")


def test_checkpoints_of_anything_that_has_names(tmp_path):
    """The files by themselves: arrays of all kinds come back as they went, to the bit."""
    arrays = {"a.b[0]": np.linspace(0, 1, 7, dtype=np.float32), "n": np.asarray(3), "k": np.arange(4, dtype=np.uint32)}
    with Checkpoints(tmp_path, {"x": "1"}, keep=2) as checkpoints:
        checkpoints.save(5, arrays, {"history": [{"loss": 0.1}]})
        found = checkpoints.newest()
        assert (found.step, found.about["history"]) == (5, [{"loss": 0.1}])
        for name, array in found.arrays().items():
            np.testing.assert_array_equal(array, arrays[name], strict=True)
        assert found.arrays().keys() == arrays.keys()
    with pytest.raises(ValueError, match="x was 1 and is 2 now"), Checkpoints(tmp_path, {"x": "2"}, keep=2) as other:
        other.newest()


HUGE = 1e300
RUNS = [mupc.Run(network(), SOLVER, rate, seed) for rate, seed in ((0.03, 0), (HUGE, 1), (0.01, 2))]


def fit_many(folder=None, runs=RUNS, **options):
    """As `fit`, three runs in chunks of two; one run diverges."""
    options = {"epochs": 2, "batch_size": 8, "evaluate_every": 4, "chunk": 2, "checkpoints": folder} | options
    return mupc.fit_many(runs, clusters(), **options)


def many_crash_at(step, run):
    def callback(status):
        if (status.run, status.record["step"]) == (run, step):
            raise Crash

    return [callback]


@pytest.mark.slow
def test_many_runs_go_on_together(tmp_path):
    """A crash at evaluations of both chunks. A run that had diverged by then keeps its last good network."""
    want = fit_many()
    assert [result.diverged for result in want] == [False, True, False]
    for step, run in ((8, 0), (12, 0), (8, 2)):
        with pytest.raises(Crash):
            fit_many(tmp_path, callbacks=many_crash_at(step, run))
    seen = []
    for result, other in zip(fit_many(tmp_path, callbacks=[seen.append]), want, strict=True):
        assert_same(result, other)
        assert not result.stopped
    assert [(status.run, status.record["step"]) for status in seen] == [(2, 8), (2, 12)]


@pytest.mark.slow
def test_many_runs_stop_together(tmp_path):
    calls = iter([False, True, True])
    results = fit_many(tmp_path, stop=lambda: next(calls))
    assert [(result.steps, result.diverged, result.stopped) for result in results] == [
        (4, False, True),
        (4, True, False),
        (0, False, True),
    ]
    for result, other in zip(fit_many(tmp_path), fit_many(), strict=True):
        assert_same(result, other)


def test_checkpoints_of_other_runs_are_refused(tmp_path):
    fit_many(tmp_path, epochs=0.5)
    for change, difference in (
        ({"weight_lr": 0.02}, r"weight_lr was \[0.03, 1e\+300\] and is \[0.02,"),
        ({"seed": 5}, "key"),
    ):
        with pytest.raises(ValueError, match=f"are of another run: {difference}"):
            fit_many(tmp_path, runs=[dataclasses.replace(RUNS[0], **change), *RUNS[1:]], epochs=0.5)


def test_useless_scratch_checkpoints_are_discarded(tmp_path, monkeypatch):
    want = fit()
    scratch = _checkpoints.Scratch(tmp_path)
    fit(tmp_path, weight_lr=0.5)  # another run's
    monkeypatch.setattr(_checkpoint_policy, "WAIT", float("inf"))
    assert_same(fit(scratch), want)
    assert names(tmp_path) == []  # it was over before checkpoints begin
    monkeypatch.setattr(_checkpoint_policy, "WAIT", 0)
    with pytest.raises(Crash):
        fit(scratch, callbacks=crash_at(12))
    assert names(tmp_path) == ["step-00000004", "step-00000008"]
    for name in names(tmp_path):
        (tmp_path / name / "about.json").unlink()
    assert_same(fit(scratch), want)
    with only_writer(tmp_path), pytest.raises(ValueError, match="another process is writing"):
        fit(scratch)


def test_another_network_does_not_go_on_from_a_checkpoint(tmp_path):
    digits = mupc.data.load("digits")
    first, second = (mupc.Network(64, 10, width=4, hidden_layers=2, key=jr.key(seed)) for seed in (0, 1))
    settings = {"checkpoints": tmp_path, "batch_size": 64}
    begun = mupc.fit(first, digits, epochs=0.2, **settings)
    with pytest.raises(ValueError, match="are of another run: network.start was .* Give the same data and settings"):
        mupc.fit(second, digits, epochs=0.4, **settings)
    assert mupc.fit(first, digits, epochs=0.4, **settings).last["step"] > begun.last["step"]
