"""`mupc export`: one file, from which everything comes back; and what is refused."""

import json
import os

import jax
import jax.random as jr
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import mupc as library
from mupc import data
from mupc.cli.config import TrainFlags
from mupc.cli.trained_model import KEY, open_model
from mupc.data import NAMED_DATASETS


def make(in_size=64, out_size=10, dtype="float32"):
    network = library.Network(in_size, out_size, width=4, hidden_layers=3, use_bias=True, key=jr.key(2))
    return jax.tree.map(lambda leaf: (leaf + 1 / 3).astype(dtype), network)


@pytest.fixture
def run_folder(tmp_path):
    """Makes a run folder as `mupc train` leaves it, as far as export looks at it."""

    def build(network=None, **config):
        folder = tmp_path / "run"
        library.save(folder / "checkpoints" / "network.safetensors", make() if network is None else network)
        content = {"config": vars(TrainFlags(**config))}
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
    loaded = library.load(target)
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
    assert about["version"] == 1 and about["mupc"] == library.__version__
    assert (about["data"], about["classes"], about["image_shape"]) == ("cifar10", 10, [3, 32, 32])
    assert about["normalisation"] == {"scale": 1 / 255, "mean": 0.5, "std": 0.5}
    assert about["class_names"][3] == "cat" and about["loss"] == "cross-entropy"
    summary = json.loads(run.out)
    weights = 4 * (3072 + 1) + 2 * 4 * (4 + 1) + 10 * (4 + 1)
    assert summary["weights"] == weights and summary["bytes"] == target.stat().st_size and summary["warnings"] == []


def test_normalisation_of_the_users_own_data_comes_back_exactly(mupc, run_folder, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(3, 7, (20, 5))
    np.savez(tmp_path / "toy.npz", x_train=x, y_train=np.arange(20) % 3, x_test=x, y_test=np.arange(20) % 3)
    folder, target = run_folder(make(5, 3), data=str(tmp_path / "toy.npz")), tmp_path / "model.safetensors"
    assert mupc("export", folder, target).code == 0
    dataset = data.load(tmp_path / "toy.npz")
    (tmp_path / "toy.npz").unlink()
    _, notes = open_model(str(target))
    np.testing.assert_array_equal(notes.normalisation(dataset.train.raw), dataset.x_train)
    assert (notes.data, notes.classes, notes.image_shape, notes.class_names) == ("toy", 3, None, None)
    refused(mupc("export", folder, tmp_path / "b.safetensors"), "comes from its training data", "no such file")


def test_a_file_of_save_says_nothing_of_its_data(mupc, tmp_path):
    library.save(tmp_path / "plain", make())
    run = mupc("export", tmp_path / "plain", tmp_path / "model.safetensors")
    assert run.code == 0 and "warning: " in run.out and "as they are" in run.out
    assert notes_of(tmp_path / "model.safetensors")["normalisation"] is None


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
    assert library.load(target).in_size == 64


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
    refused(mupc("export", run_folder(make(63)), target), "63 inputs", "does not fit digits", "Train again")
    refused(mupc("export", run_folder(make(64, 9)), target), "9 outputs", "does not fit digits")
    (run_folder() / "config.json").write_text("{")
    refused(mupc("export", tmp_path / "run", target), "is not JSON")
    folder = tmp_path / "folder.safetensors"
    folder.mkdir()
    refused(mupc("export", tmp_path / "run", folder, "--force"), "already exists")
    assert not target.exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "newer mupc"),
        ({"version": None}, "damaged notes"),
        ({"normalisation": {"scale": 1, "mean": 0}}, "damaged notes"),
        ({"normalisation": {"scale": 1, "mean": 0, "std": 0}}, "damaged notes"),
        ({"normalisation": {"scale": 1, "mean": "a", "std": 1}}, "damaged notes"),
        ({"normalisation": {"scale": 1, "mean": 1e60, "std": 1}}, "damaged notes"),
        ({"normalisation": {"scale": 1, "mean": [0.0] * 63, "std": 1}}, "does not fit digits"),
        ({"image_shape": [8, 8, 1]}, "damaged notes"),
        ({"image_shape": [8, -8]}, "damaged notes"),
        ({"image_shape": [8, 9]}, "does not fit digits"),
        ({"image_shape": 8}, "damaged notes"),
        ({"classes": 10.0}, "damaged notes"),
        ({"class_names": ["a"]}, "damaged notes"),
        ({"loss": "mae"}, "damaged notes"),
        ({"loss": []}, "damaged notes"),
        ({"colour": "red"}, "damaged notes"),
    ],
)
def test_damaged_notes(mupc, run_folder, tmp_path, change, said):
    target = tmp_path / "model.safetensors"
    mupc("export", run_folder(), target)
    with safe_open(target, framework="numpy") as file:
        metadata = file.metadata()
    metadata[KEY] = json.dumps(json.loads(metadata[KEY]) | change)
    save_file(load_file(target), target, metadata)
    refused(mupc("export", target, tmp_path / "other.safetensors"), said)
    assert library.load(target).in_size == 64  # the network itself is whole


def test_named_classes_are_as_many_as_there_are():
    for entry in NAMED_DATASETS.values():
        assert len(set(entry.class_names)) == entry.classes
