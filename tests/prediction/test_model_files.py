"""Models in files and run folders: everything comes back, also from older versions, and nothing is guessed."""

import json
import pickle
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import jax.random as jr
import joblib
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import mupc
from mupc.cli import main
from mupc.data import Normalisation, Schema

KEY = "mupc.predict"
RNG = np.random.default_rng(0)
X = RNG.normal(3, 7, (60, 5)).astype(np.float32)


def make(out_size=3):
    network = mupc.Network(5, out_size, width=4, hidden_layers=3, key=jr.key(1))
    return jax.tree.map(lambda leaf: leaf.astype("float32"), network)


def own_loss(output, target):
    return jnp.sum(jnp.abs(output - target))


def rewrite(path, notes):
    """Put other notes on prediction into a file."""
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    save_file(load_file(path), path, metadata | {KEY: notes if isinstance(notes, str) else json.dumps(notes)})


def notes_of(path):
    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()[KEY], parse_constant=pytest.fail)


@pytest.fixture
def saved(tmp_path):
    def write(model):
        mupc.save(tmp_path / "model.safetensors", model)
        return tmp_path / "model.safetensors"

    return write


def same(one, other):
    assert one.schema.as_json() == other.schema.as_json()
    assert (one.loss, one.data) == (other.loss, other.data)
    for a, b in zip(jax.tree.leaves(one.network), jax.tree.leaves(other.network), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize(
    ("schema", "loss"),
    [
        (Schema(Normalisation(mean=RNG.normal(size=5), std=RNG.uniform(1, 2, 5)), labels=("a", "b", "c")), "mse"),
        (Schema(labels=(3, 5, 8), class_names=("x", "y", "z")), "cross-entropy"),
        (Schema(target_scale=Normalisation(mean=RNG.normal(size=3), std=RNG.uniform(1, 2, 3))), "mse"),
    ],
)
def test_round_trip(saved, schema, loss):
    model = mupc.Model(make(), schema, loss, data="toy")
    same(mupc.load(saved(model)), model)
    np.testing.assert_array_equal(mupc.load(saved(model)).predict(X), model.predict(X))


def test_the_same_model_is_the_same_file(saved):
    model = mupc.Model(make(), Schema(labels=("ä", '"b"', "c")), data="toy")
    assert len({saved(model).read_bytes() for _ in range(8)}) == 1
    same(mupc.load(saved(model)), model)


def test_a_bare_network_takes_numbers_as_they_are(saved):
    model = mupc.load(saved(make()))
    np.testing.assert_array_equal(model.predict(X), model.network(X))
    assert not model.describes_samples


def test_a_loss_of_the_users_own_is_passed_to_load(saved):
    model = mupc.Model(make(), Schema(labels=("a", "b", "c")), own_loss)
    path = saved(model)
    assert b"lambda" not in path.read_bytes() and notes_of(path)["loss"] == "own:own_loss"
    same(mupc.load(path, loss=own_loss), model)
    with pytest.raises(ValueError, match=r"has the loss 'own_loss', .* mupc.load\(path, loss=own_loss\)"):
        mupc.load(path)
    known = saved(mupc.Model(make()))
    with pytest.raises(ValueError, match="has the loss 'mse', which mupc knows: leave loss= out"):
        mupc.load(known, loss=own_loss)


VERSION_1 = {
    "version": 1,
    "mupc": "0.1.0",
    "data": "toy",
    "normalisation": {"scale": 1.0, "mean": [1.0, 2.0, 3.0, 4.0, 5.0], "std": [2.0] * 5},
    "image_shape": None,
    "classes": 3,
    "class_names": ["a", "b", "c"],
    "loss": "cross-entropy",
}


def test_files_of_version_1_still_load(saved):
    path = saved(make())
    rewrite(path, VERSION_1)
    model = mupc.load(path)
    outputs = np.asarray(model.network((X - np.arange(1, 6)) / 2))
    assert model.predict(X).tolist() == outputs.argmax(axis=1).tolist()
    assert (model.schema.class_names, model.loss, model.data) == (("a", "b", "c"), "cross-entropy", "toy")
    rewrite(path, VERSION_1 | {"normalisation": None, "classes": None, "class_names": None, "loss": "mse"})
    assert not mupc.load(path).describes_samples


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 3}, "newer mupc"),
        ({"version": None}, "damaged notes"),
        ({"version": "2"}, "damaged notes"),
        ({"data": 3}, "damaged notes"),
        ({"loss": "mae"}, "damaged notes"),
        ({"loss": []}, "damaged notes"),
        ({"schema": [], "normalisation": []}, "damaged notes"),
        ({"schema": {"labels": ["a"]}, "classes": 1}, "damaged notes"),
        ({"schema": {"labels": ["a", "b"]}, "classes": 2, "class_names": None}, "does not fit"),
        ({"colour": "red"}, "damaged notes"),
    ],
)
def test_damaged_notes(saved, version, change, said):
    path = saved(mupc.Model(make(), Schema(labels=("a", "b", "c"))))
    notes = notes_of(path) if version == 2 else VERSION_1
    known = {name: value for name, value in change.items() if name in notes or name == "colour"}
    rewrite(path, notes | known)
    with pytest.raises(ValueError, match=said) as caught:
        mupc.load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", "[" * 9000])
def test_notes_that_are_no_notes(saved, text):
    path = saved(make())
    rewrite(path, text)
    with pytest.raises(ValueError, match="damaged notes"):
        mupc.load(path)


def npz(path, x, seed=0):
    y = np.random.default_rng(seed).integers(0, 3, len(x))
    np.savez(path, x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on the user's own data, which lay at a relative path."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        npz("mine.npz", X)
        flags = ["--width", "4", "--hidden-layers", "3", "--epochs", "1", "--batch-size", "30", "--no-tensorboard"]
        assert main(["train", "--data", "mine.npz", "--out", "run", "--quiet", *flags]) == 0
    return folder / "run"


@pytest.fixture
def old_run(trained, tmp_path, monkeypatch):
    """The same run as an older version left it: without schema, notes or format; and the data, where it looks."""
    folder = shutil.copytree(trained, tmp_path / "old")
    (folder / "schema.json").unlink()
    network = mupc.load(trained).network
    mupc.save(folder / "checkpoints" / "network.safetensors", network)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"format": 1}))
    monkeypatch.chdir(tmp_path)
    npz("mine.npz", X)
    return folder


def test_other_data_at_the_same_place_change_nothing(trained, tmp_path, monkeypatch):
    model = mupc.load(trained)
    before = model.outputs(X)
    np.testing.assert_allclose(before, model.network((X - X.mean(axis=0)) / X.std(axis=0)), rtol=1e-4, atol=1e-6)
    monkeypatch.chdir(tmp_path)
    npz("mine.npz", 100 * X + 5)
    np.testing.assert_array_equal(mupc.load(trained).outputs(X), before)
    (tmp_path / "mine.npz").unlink()
    np.testing.assert_array_equal(mupc.load(trained).outputs(X), before)
    assert mupc.load(trained).data == "mine"


def test_a_run_that_was_killed_has_the_model_of_its_last_checkpoint(trained, tmp_path, monkeypatch):
    folder, ended = shutil.copytree(trained, tmp_path / "killed"), mupc.load(trained)
    (folder / "checkpoints" / "network.safetensors").unlink()
    monkeypatch.chdir(tmp_path)
    npz("mine.npz", 100 * X + 5)
    same(mupc.load(folder), ended)  # which was written at the same step
    schema = json.loads((folder / "schema.json").read_text())
    for damaged in ("{", "[]", json.dumps(schema | {"network": 3}), json.dumps(schema | {"schema": []})):
        (folder / "schema.json").write_text(damaged)
        with pytest.raises(ValueError, match="damaged") as caught:
            mupc.load(folder)
        assert "\n" not in str(caught.value)
    (folder / "schema.json").write_text(json.dumps(schema | {"network": schema["network"] | {"width": 6}}))
    with pytest.raises(ValueError, match=r"has hidden.weight of shape \(2, 4, 4\) .* the network has \(2, 6, 6\)"):
        mupc.load(folder)
    (folder / "schema.json").write_text(json.dumps(schema))
    for step in (folder / "checkpoints").glob("step-*"):
        shutil.rmtree(step)
    with pytest.raises(ValueError, match="has no checkpoint yet: .* `mupc train --resume"):
        mupc.load(folder)
    (folder / "schema.json").unlink()  # as in older versions
    with pytest.raises(ValueError, match="its run has not ended; go on with `mupc train --resume"):
        mupc.load(folder)


def test_going_on_with_other_data_changes_nothing(trained, tmp_path, monkeypatch, capsys):
    folder = shutil.copytree(trained, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    npz("mine.npz", 100 * X + 5)
    assert main(["train", "--resume", "run", "--epochs", "2", "--quiet"]) == 2
    assert "are of another run" in capsys.readouterr().err
    same(mupc.load(folder), mupc.load(trained))
    assert (folder / "schema.json").read_text() == (trained / "schema.json").read_text()


def test_an_old_run_needs_the_data_it_was_trained_on(trained, old_run, tmp_path):
    np.testing.assert_array_equal(mupc.load(old_run).outputs(X), mupc.load(trained).outputs(X))
    file = old_run / "checkpoints" / "network.safetensors"
    np.testing.assert_array_equal(mupc.load(file).outputs(X), mupc.load(trained).outputs(X))
    npz(tmp_path / "mine.npz", 100 * X + 5)
    with pytest.raises(
        ValueError, match=r"mine.npz is not what it was trained on .*: put its training data at mine.npz"
    ):
        mupc.load(old_run)
    npz(tmp_path / "mine.npz", X, seed=1)
    with pytest.raises(ValueError, match="is not what it was trained on"):
        mupc.load(old_run)
    (tmp_path / "mine.npz").unlink()
    with pytest.raises(ValueError, match=r"did not keep the normalisation .*no such file: put its training data at"):
        mupc.load(old_run)


def test_an_old_run_without_checkpoints_cannot_be_checked(old_run):
    for folder in (old_run / "checkpoints").glob("step-*"):
        shutil.rmtree(folder)
    with pytest.raises(ValueError, match="no checkpoint tells whether mine.npz is the same: train again"):
        mupc.load(old_run)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"config": {"data": 3}}', '{"config": []}'])
def test_an_old_run_with_a_damaged_configuration(old_run, content):
    (old_run / "config.json").write_text(content)
    with pytest.raises(ValueError, match="config.json cannot be read as the settings of a run"):
        mupc.load(old_run)


def test_a_run_on_a_named_data_set_of_an_older_version(old_run):
    mupc.save(old_run / "checkpoints" / "network.safetensors", mupc.Network(64, 10, 4, 3, key=jr.key(0)))
    config = json.loads((old_run / "config.json").read_text())
    config["config"] |= {"data": "digits", "loss": "cross-entropy"}
    (old_run / "config.json").write_text(json.dumps(config))
    digits = mupc.data.load("digits")
    model = mupc.load(old_run)
    np.testing.assert_allclose(model.outputs(digits.test.raw), model.network(digits.x_test), rtol=1e-4)
    assert model.loss == "cross-entropy" and model.schema.task == "classification"


@pytest.mark.slow
def test_models_travel_between_processes(tmp_path):
    """Also a network and a solution, to a process that has not imported mupc."""
    model = mupc.Model(make(), Schema(Normalisation(mean=np.ones(5), std=np.full(5, 2.0)), labels=("a", "b", "c")))
    y = np.zeros((60, 3), np.float32)
    solution = mupc.infer(model.network, X, y, mupc.ErrorSpace())
    (tmp_path / "all.pickle").write_bytes(pickle.dumps((model, model.network, solution, X)))
    code = (
        "import pickle, sys, json\n"
        "model, network, solution, x = pickle.load(open(sys.argv[1], 'rb'))\n"
        "import mupc\n"
        "print(json.dumps([model.predict(x).tolist(), network(x).tolist(), mupc.RESULTS[solution.result]]))\n"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "all.pickle")]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    labels, outputs, result = json.loads(done.stdout)
    assert labels == model.predict(X).tolist() and result == mupc.RESULTS[solution.result]
    np.testing.assert_allclose(outputs, model.network(X), rtol=1e-5, atol=1e-6)
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(model.predict)(X) for _ in range(2))
    assert [each.tolist() for each in found] == [labels, labels]
