"""`mupc export`: one file, from which everything comes back; and what is refused."""

import json
import os

import jax
import jax.random as jr
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

import mupc as library
from mupc import data
from mupc.cli.config import TrainFlags
from mupc.data import NAMED_DATASETS

KEY = "mupc.predict"


def make(in_size=64, out_size=10, dtype="float32"):
    network = library.Network(in_size, out_size, width=4, hidden_layers=3, use_bias=True, key=jr.key(2))
    return jax.tree.map(lambda leaf: (leaf + 1 / 3).astype(dtype), network)


@pytest.fixture
def run_folder(tmp_path):
    """Makes a run folder as `mupc train` leaves it, as far as export looks at it."""

    def build(network=None, **config):
        folder = tmp_path / "run"
        library.save(folder / "checkpoints" / "network.safetensors", make() if network is None else network)
        content = {"config": vars(TrainFlags(**{"loss": "mse"} | config))}
        (folder / "config.json").write_text(json.dumps(content))
        return folder

    return build


def notes_of(path):
    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()[KEY], parse_constant=pytest.fail)


def refused(run, *said):
    assert run.code == 2 and run.out == "" and len(run.err.splitlines()) == 1, run.err
    assert run.err.startswith("mupc export: ") and "--checkpoint" not in run.err
    for part in said:
        assert part in run.err


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_come_back_bit_for_bit(mupc, run_folder, tmp_path, dtype):
    network, target = make(dtype=dtype), tmp_path / "new" / "model.safetensors"
    run = mupc("export", run_folder(network), target)
    assert run.code == 0 and run.err == "" and "trained on digits" in run.out
    loaded = library.load(target).network
    assert jax.tree.structure(loaded) == jax.tree.structure(network)
    for ours, theirs in zip(jax.tree.leaves(loaded), jax.tree.leaves(network), strict=True):
        assert ours.dtype == theirs.dtype == dtype
        assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()
    assert [path.name for path in target.parent.iterdir()] == ["model.safetensors"]


def test_notes_of_a_named_data_set_need_no_files(mupc, run_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MUPC_CACHE", str(tmp_path / "empty"))
    target = tmp_path / "model.safetensors"
    run = mupc("export", run_folder(make(3072), data="cifar10", loss="cross-entropy"), target, "--json")
    assert run.code == 0, run.err
    about = notes_of(target)
    assert about["version"] == 2 and about["mupc"] == library.__version__
    schema = about["schema"]
    assert (about["data"], schema["labels"], schema["image_shape"]) == ("cifar10", list(range(10)), [3, 32, 32])
    assert schema["normalisation"] == {"scale": 1 / 255, "mean": 0.5, "std": 0.5}
    assert schema["class_names"][3] == "cat" and about["loss"] == "cross-entropy"
    summary = json.loads(run.out)
    assert (summary["data"], summary["classes"], summary["image_shape"]) == ("cifar10", 10, [3, 32, 32])
    weights = 4 * (3072 + 1) + 2 * 4 * (4 + 1) + 10 * (4 + 1)
    assert summary["weights"] == weights and summary["bytes"] == target.stat().st_size and summary["warnings"] == []


@pytest.mark.slow
def test_a_run_keeps_what_it_learnt_from_the_users_own_data(mupc, tmp_path, monkeypatch):
    """Whatever lies at the path of the training data later."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(3, 7, (40, 5)), np.arange(40) % 3
    monkeypatch.chdir(tmp_path)
    np.savez("mine.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    np.savez("new.npz", x=x, y=y)
    small = ["--width", "4", "--hidden-layers", "3", "--batch-size", "20", "--no-tensorboard", "--quiet"]
    assert mupc("train", "--data", "mine.npz", "--out", "run", *small).code == 0
    dataset = data.load("mine.npz")
    before = mupc("predict", "run", "new.npz", "--json").out
    np.savez("mine.npz", x_train=100 * x, y_train=y, x_test=x, y_test=y)
    for _ in ("other data", "no data"):
        assert mupc("predict", "run", "new.npz", "--json").out == before
        assert mupc("export", "run", "model.safetensors", "--force").code == 0
        model = library.load("model.safetensors")
        np.testing.assert_array_equal(model.schema.inputs(x), dataset.x_train)
        assert (model.data, model.schema.labels, model.schema.image_shape) == ("mine", (0, 1, 2), None)
        (tmp_path / "mine.npz").unlink(missing_ok=True)


def test_a_file_of_save_says_nothing_of_its_data(mupc, tmp_path):
    library.save(tmp_path / "plain", make())
    run = mupc("export", tmp_path / "plain", tmp_path / "model.safetensors")
    assert run.code == 0 and "warning: " in run.out and "as they are" in run.out
    assert not library.load(tmp_path / "model.safetensors").describes_samples


def test_an_exported_file_can_be_exported_again(mupc, run_folder, tmp_path):
    first, second = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    assert mupc("export", run_folder(), first, "--quiet").out == ""
    assert mupc("export", first, second).code == 0
    assert notes_of(first) == notes_of(second)
    before, after = load_file(first), load_file(second)
    assert {name: array.tobytes() for name, array in before.items()} == {n: a.tobytes() for n, a in after.items()}


def test_nothing_is_overwritten_unasked(mupc, run_folder, tmp_path):
    target = tmp_path / "model.safetensors"
    target.write_text("precious")
    refused(mupc("export", run_folder(), target), "already exists", "--force")
    assert target.read_text() == "precious"
    assert mupc("export", run_folder(), target, "--force").code == 0
    assert library.load(target).network.in_size == 64


def test_a_full_disk_leaves_what_was_there(mupc, run_folder, tmp_path, monkeypatch):
    folder, target = run_folder(), tmp_path / "model.safetensors"
    target.write_text("precious")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    refused(mupc("export", folder, target, "--force"), "No space left")
    assert target.read_text() == "precious"
    assert {path.name for path in tmp_path.iterdir()} == {"run", "model.safetensors"}


def test_mistakes(mupc, run_folder, tmp_path):
    target = tmp_path / "model.safetensors"
    refused(mupc("export", tmp_path / "absent", target), "is not there: give a run folder of `mupc train`")
    refused(mupc("export", tmp_path, target), "has no checkpoints/network.safetensors")
    refused(mupc("export", run_folder(), tmp_path / "model.pt"), "must end in .safetensors")
    refused(mupc("export", run_folder(make(63)), target), "does not fit", "64 inputs", "the network has 63")
    refused(mupc("export", run_folder(make(64, 9)), target), "does not fit", "10 outputs", "the network has 9")
    (run_folder() / "config.json").write_text("{")
    refused(mupc("export", tmp_path / "run", target), "cannot be read as the settings of a run")
    folder = tmp_path / "folder.safetensors"
    folder.mkdir()
    refused(mupc("export", tmp_path / "run", folder, "--force"), "already exists")
    assert not target.exists()


def test_named_classes_are_as_many_as_there_are():
    for entry in NAMED_DATASETS.values():
        assert len(set(entry.class_names)) == entry.classes
