"""`mupc train --resume`: killed, interrupted, diverged, short of disk, with two writers, every run goes on."""

import errno
import os
import signal
import subprocess
import tarfile
from pathlib import Path

import faults
import numpy as np
import pytest
from safetensors.numpy import load_file

import mupc as library
from mupc.cli import USAGE_ERROR
from mupc.cli.train_job import Recorder
from mupc.training import _checkpoints
from mupc.training._checkpoints import only_writer

BP = ("--method", "bp", "--quiet")


@pytest.fixture
def resume(mupc, tmp_path):
    """Goes on with the run in a folder."""
    return lambda *argv, name="run": mupc("train", "--resume", tmp_path / name, *argv, folder=tmp_path / name)


def at(monkeypatch, step, action):
    """Does something when the evaluation of a step has been recorded, before its checkpoint is written."""
    show = Recorder.__call__

    def call(self, status):
        show(self, status)
        if status.record["step"] == step:
            action()

    monkeypatch.setattr(Recorder, "__call__", call)


def stop(number):
    return lambda: os.kill(os.getpid(), number)


def weights(run):
    return {
        name: array.tobytes() for name, array in load_file(run.folder / "checkpoints" / "network.safetensors").items()
    }


def assert_same(run, whole):
    assert weights(run) == weights(whole)
    assert faults.outcome(run.folder) == faults.outcome(whole.folder)
    reach, other = (one.json("summary.json")["credit_reach"] for one in (run, whole))
    assert reach == other


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_how_to_go_on(train, resume, monkeypatch, number, code):
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        at(patch, 11, stop(number))
        run = train("--quiet")
    assert run.code == code
    assert run.err == (f"mupc train: interrupted at step 11 of 22; go on with `mupc train --resume {run.folder}`.\n")
    summary = run.json("summary.json")
    assert (summary["interrupted"], summary["diverged"], summary["steps"]) == (True, False, 11)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    again = resume("--quiet")
    assert (again.code, again.err) == (0, "")
    assert_same(again, train("--quiet", name="whole"))


def test_a_second_signal_stops_at_once(train, resume, monkeypatch):
    with monkeypatch.context() as patch:
        at(patch, 11, lambda: (stop(signal.SIGTERM)(), stop(signal.SIGTERM)()))
        run = train(*BP)
    assert run.code == 143
    assert "go on with `mupc train --resume" in run.err
    assert not _checkpoints.checkpoint_folders(run.folder / "checkpoints")
    assert resume("--quiet").code == 0
    assert_same(run, train(*BP, name="whole"))


@pytest.mark.slow
def test_the_end_of_a_run(train, resume):
    """Nothing to do, then more epochs, then an end that was killed before the summary."""
    constant = (*BP, "--schedule", "constant")
    run = train(*constant)
    content = (run.folder / "metrics.jsonl").read_text()
    done = resume()
    assert (done.code, done.err) == (0, "")
    assert done.out == f"the run in {run.folder} is finished; more --epochs train it further.\n"
    assert (run.folder / "metrics.jsonl").read_text() == content

    more = resume("--epochs", "2")
    assert more.code == 0
    assert f"going on with {run.folder} from step 22" in more.out and "schedule" not in more.out
    assert more.json("config.json")["config"]["epochs"] == 2
    assert [record["step"] for record in more.metrics] == [0, 11, 22, 33, 44]
    assert weights(more) == weights(train(*constant, "--epochs", "2", name="long"))

    (run.folder / "summary.json").unlink()
    assert resume("--quiet").code == 0
    assert more.json("summary.json")["steps"] == 44


def test_more_epochs_say_what_becomes_of_a_rate_that_falls(train, resume):
    train(*BP)
    more = resume("--epochs", "2")
    assert "the cosine schedule now spans 2 epochs: the learning rate goes on at 50 % of --weight-lr\n" in more.out


def test_what_was_recorded_after_the_checkpoint_is_cut(train, resume, monkeypatch):
    """Killed between the record of step 11 and its checkpoint, in the middle of a line."""
    with monkeypatch.context() as patch:
        at(patch, 11, lambda: (_ for _ in ()).throw(KeyboardInterrupt))
        run = train(*BP)
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 22, "epo')
    assert resume("--quiet").code == 0
    assert [record["step"] for record in run.metrics] == [0, 11, 22]


@pytest.mark.slow
def test_a_data_set_that_is_gone(train, resume, monkeypatch, tmp_path):
    """Stops with one line and leaves the checkpoint; the run goes on when the data is back, and not with other data."""
    file, away = tmp_path / "mine.npz", tmp_path / "away.npz"
    key = np.random.default_rng(0)
    x, y = key.normal(size=(1500, 5)).astype("f4"), key.integers(0, 3, 1500)
    np.savez(file, x_train=x[:1400], y_train=y[:1400], x_test=x[1400:], y_test=y[1400:])
    with monkeypatch.context() as patch:
        at(patch, 11, stop(signal.SIGTERM))
        run = train(*BP, "--data", file)
    assert run.code == 143
    file.rename(away)
    gone = resume("--quiet")
    assert gone.code == USAGE_ERROR and str(file) in gone.err and gone.err.count("\n") == 1
    assert list(_checkpoints.checkpoint_folders(run.folder / "checkpoints")) == [11]

    np.savez(file, x_train=x[:1400] + 1, y_train=y[:1400], x_test=x[1400:], y_test=y[1400:])
    before = {path.name: path.read_bytes() for path in run.folder.iterdir() if path.is_file()}
    other = resume("--quiet", "--epochs", "3")
    assert other.code == USAGE_ERROR and "another" in other.err and other.err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in run.folder.iterdir() if path.is_file()} == before
    away.rename(file)
    assert resume("--quiet").code == 0
    assert_same(run, train(*BP, "--data", file, name="whole"))


@pytest.mark.slow
def test_checkpoints_that_are_kept(train, resume):
    run = train(*BP, "--keep", "3", "--checkpoint-every", "4")
    assert list(_checkpoints.checkpoint_folders(run.folder / "checkpoints")) == [16, 20, 22]
    stops = {"on_divergence": "stop", "patience": None, "restore_best": False}
    assert run.json("config.json")["safety"] == {"keep": 3, "checkpoint_every": 4, **stops}
    assert resume("--epochs", "2", "--quiet").code == 0
    assert list(_checkpoints.checkpoint_folders(run.folder / "checkpoints")) == [36, 40, 44]
    none = train(*BP, "--keep", "0", name="none")
    assert [path.name for path in (none.folder / "checkpoints").iterdir()] == ["network.safetensors"]
    more = resume("--epochs", "2", name="none")
    assert more.code == USAGE_ERROR
    assert f"{none.folder} has no checkpoint from which to train on: start a new run with --config" in more.err
    assert len(none.metrics) == 3


def test_a_damaged_checkpoint_is_told_and_the_one_before_is_used(train, resume):
    run = train(*BP)
    (run.folder / "summary.json").unlink()
    (run.folder / "checkpoints" / "step-00000022" / "manifest.json").write_bytes(b"")
    again = resume()
    assert again.code == 0
    assert "step-00000022 is damaged" in again.out
    assert "from step 11" in again.out
    assert_same(again, train(*BP, name="whole"))


def test_a_second_process_is_refused(train, resume):
    run = train(*BP)
    with only_writer(run.folder):
        other = resume("--epochs", "2")
    assert other.code == USAGE_ERROR
    assert other.err.splitlines() == [
        f"mupc train: another process is writing in {run.folder}: wait for it to end, or choose another folder."
    ]
    assert run.json("config.json")["config"]["epochs"] == 1


IMPOSSIBLE = {
    ("--width", "9"): "its --width is 8, not 9: leave it out",
    ("--epochs", "0.5"): "--epochs 0.5 is less than the 1 of the run",
    ("--out", "other"): "leave --out out",
    ("--config", "other"): "leave --config out",
    ("--keep", "-1"): "--keep must be at least 0, got -1",
    ("--keep", "0", "--checkpoint-every", "2"): "--checkpoint-every has no effect with --keep 0",
    ("--epochs", "2", "--checkpoint-every", "0"): "--checkpoint-every must be at least 1, got 0",
}


def test_what_cannot_be_asked(train, resume):
    run = train(*BP)
    before = {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")}
    for argv, help in IMPOSSIBLE.items():
        other = resume(*argv)
        assert other.code == USAGE_ERROR
        assert len(other.err.splitlines()) == 1
        assert help in other.err
    assert {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")} == before


def test_the_rates_that_a_run_had_by_default_may_be_said(train, resume):
    """Backpropagation's is 0.05."""
    train(*BP)
    assert resume("--weight-lr", "0.05").code == 0
    assert "its --weight-lr is 0.05, not 0.02" in resume("--weight-lr", "0.02").err


def test_folders_that_are_no_runs(mupc, tmp_path):
    for folder in (tmp_path / "absent", tmp_path):
        run = mupc("train", "--resume", folder)
        assert run.code == USAGE_ERROR
        assert run.err == f"mupc train: --resume {folder} is not the folder of a run: it has no config.json.\n"
    (tmp_path / "config.json").write_text('{"config": {}, "safety": {"keep": "all"}}')
    run = mupc("train", "--resume", tmp_path)
    assert run.code == USAGE_ERROR
    assert "'safety'" in run.err and "keep = 'all': it must be a whole number" in run.err


@pytest.mark.slow
def test_divergence_and_a_smaller_rate(train, resume):
    """A rate beyond float32 even when halved, then one that is not; the second is given when the run is taken up."""
    flags = ("--optimiser", "sgd", "--activation", "linear", "--evaluate-every", "22", "--rate-scaling", "none")
    lost = train(*BP, *flags, "--weight-lr", "1e9", "--on-divergence", "halve-lr", name="lost")
    assert lost.code == 1
    assert len(lost.json("summary.json")["divergences"]) == 5
    run = train(*BP, *flags, "--weight-lr", "40")
    assert run.code == 1
    assert "diverged" in run.err
    again = resume("--on-divergence", "halve-lr")
    assert again.code == 0, again.err
    summary = again.json("summary.json")
    first = summary["divergences"][0]
    assert (first["step"], first["back_to_step"], first["weight_lr"]) == (22, 0, 20.0)
    assert summary["diverged"] is False
    assert "went back to step 0 with half the --weight-lr, 20" in summary["warnings"][0]
    assert again.metrics[1]["diverged"] is True
    assert again.metrics[1]["weight_lr"] == 20.0
    assert again.metrics[-1]["step"] == 22


def test_a_full_disk_is_one_line_and_no_end(train, resume, monkeypatch):
    write = _checkpoints.write_checkpoint

    def full(scratch, arrays, about):
        if "00000022" in scratch.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(scratch, arrays, about)

    with monkeypatch.context() as patch:
        patch.setattr(_checkpoints, "write_checkpoint", full)
        run = train(*BP)
    assert run.code == USAGE_ERROR
    assert len(run.err.splitlines()) == 1
    assert "No space left on device" in run.err
    assert "that of step 11 is still there" in run.err
    assert f"go on with `mupc train --resume {run.folder}`" in run.err
    assert resume("--quiet").code == 0
    assert_same(run, train(*BP, name="whole"))


@pytest.mark.slow
def test_a_disk_that_is_really_full(mupc, disk):
    """Room for one checkpoint of 200 KiB, not for two. Then with more room, and then read-only."""
    place = disk("size=400k")
    flags = ("--width", "64", "--hidden-layers", "4", "--epochs", "1", "--evaluate-every", "1", "--no-tensorboard", *BP)
    run = mupc("train", *flags, "--out", place / "run", folder=place / "run")
    assert run.code == USAGE_ERROR
    assert len(run.err.splitlines()) == 1
    assert "No space left on device" in run.err
    found, damaged = _checkpoints.find_checkpoint(place / "run" / "checkpoints")
    assert (found.step, damaged) == (1, [])
    subprocess.run(["mount", "-o", "remount,size=20m", str(place)], check=True)
    again = mupc("train", "--resume", place / "run", "--quiet", folder=place / "run")
    assert again.code == 0, again.err
    assert again.metrics[-1]["step"] == 22
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    refused = mupc("train", "--resume", place / "run", "--epochs", "2", folder=place / "run")
    assert refused.code == USAGE_ERROR
    assert len(refused.err.splitlines()) == 1
    assert "Read-only file system" in refused.err
    assert library.load(place / "run" / "checkpoints" / "network.safetensors").network.width == 64


@pytest.mark.slow
def test_killed_at_random_moments(mupc, tmp_path):
    """The short form of `python tests/faults.py 50`; only what is killed gets a process of its own."""

    def finish(*flags):
        assert mupc("train", "--quiet", *flags).code == 0

    flags = [*faults.TINY, "--epochs", "2"]
    found = list(faults.trials(tmp_path, 2, flags, finish=finish))
    assert [same for _, same in found] == [True, True], found


@pytest.mark.slow
def test_a_run_of_an_earlier_version_goes_on(mupc, resume, tmp_path):
    """A run that version 0.1.0 wrote and was interrupted at step 2 of 4. Its whole run came to these numbers."""
    with tarfile.open(Path(__file__).with_name("interrupted-run-format-1.tar.gz")) as tar:
        tar.extractall(tmp_path / "run", filter="data")
    assert mupc("export", tmp_path / "run", tmp_path / "model.safetensors", "--quiet").code == 0
    checked = mupc("check", "--checkpoint", tmp_path / "run", "--out", tmp_path / "check", folder=tmp_path / "check")
    used = {"solver": "gd", "activity_lr": 0.05, "inference_steps": 2, "weight_lr": 0.1, "output_precision": 1.0}
    assert checked.json("config.json")["config"].items() >= used.items()
    run = resume("--quiet")
    assert (run.code, run.err) == (0, "")
    assert [record["step"] for record in run.metrics] == [0, 2, 4]
    summary = run.json("summary.json")
    assert summary["train_loss"] == pytest.approx(0.5338714122772217, rel=1e-5)
    assert summary["test_loss"] == pytest.approx(0.5000916719436646, rel=1e-5)
