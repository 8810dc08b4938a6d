"""Networks in files: what is written is what comes back, and everything else is refused in one line."""

import itertools
import json
import os
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import mupc
from mupc.network._activation import ACTIVATIONS
from mupc.network._parameterisation import PARAMETERISATIONS

SIZES = {"in_size": 5, "out_size": 3, "width": 4, "hidden_layers": 3}


def make(**options):
    return mupc.Network(**SIZES | {"key": jr.key(1)} | options)


def cast(network, dtype):
    """In a format, with values that it alone can hold."""
    return jax.tree.map(lambda leaf: (leaf + 1 / 3).astype(dtype), network)


def same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "network.safetensors"
    mupc.save(path, make(use_bias=True))
    return path


@pytest.fixture
def rewrite(file):
    """Writes the file again with other metadata or other arrays."""

    def write(change=None, arrays=None, metadata=None):
        with safe_open(file, framework="numpy") as opened:
            about = json.loads(opened.metadata()["mupc"])
        metadata = {"mupc": json.dumps(about | (change or {}))} if metadata is None else metadata
        save_file(load_file(file) | (arrays or {}), file, metadata)
        return file

    return write


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("use_bias", [False, True])
def test_round_trip(tmp_path, dtype, use_bias):
    for number, (parameterisation, skip) in enumerate(itertools.product(PARAMETERISATIONS, (0, 1, 2))):
        network = cast(make(parameterisation=parameterisation, skip=skip, use_bias=use_bias), dtype)
        mupc.save(tmp_path / str(number), network)
        same(mupc.load(tmp_path / str(number)).network, network)


@pytest.mark.parametrize("options", [{"hidden_layers": 1, "use_bias": True}, {"multipliers": (0.1, 1 / 3, 7e-20)}])
def test_round_trip_of_special_networks(tmp_path, options):
    network = make(**options)
    mupc.save(str(tmp_path / "new" / "network"), network)
    same(mupc.load(str(tmp_path / "new" / "network")).network, network)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_named_activation_comes_back(tmp_path, activation):
    mupc.save(tmp_path / "n", make(activation=activation))
    assert mupc.load(tmp_path / "n").network.activation is ACTIVATIONS[activation]


def test_weights_that_are_not_finite_are_kept(tmp_path):
    network = eqx.tree_at(lambda n: n.input.weight, make(), jnp.full((4, 5), jnp.nan))
    mupc.save(tmp_path / "n", network)
    same(mupc.load(tmp_path / "n").network, network)


def test_others_can_read_the_file(file):
    network = make(use_bias=True)
    arrays = load_file(file)
    names = {f"{layer}.{leaf}" for layer in ("input", "hidden", "readout") for leaf in ("weight", "bias")}
    assert set(arrays) == names
    np.testing.assert_array_equal(arrays["hidden.weight"], network.hidden.weight)
    with safe_open(file, framework="numpy") as opened:
        about = json.loads(opened.metadata()["mupc"])
    expected = SIZES | {"activation": "relu", "parameterisation": "mupc", "skip": 1, "use_bias": True, "version": 1}
    assert about == expected | {"multipliers": [5**-0.5, 16**-0.5, 0.25]}


def test_writing_is_whole_or_not_at_all(file, monkeypatch):
    before = file.read_bytes()

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        mupc.save(file, make())
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    ("network", "error", "message"),
    [
        (eqx.tree_at(lambda n: n.input.bias, make(use_bias=True), None), ValueError, "changed by hand"),
        (eqx.tree_at(lambda n: n.input.weight, make(), jnp.ones((4, 6))), ValueError, "changed by hand"),
        (cast(make(), "bfloat16"), ValueError, "input.weight is bfloat16: convert it to float32 or float64"),
        ("network", TypeError, "needs a mupc.Model or a network"),
    ],
)
def test_what_cannot_be_saved(tmp_path, network, error, message):
    with pytest.raises(error, match=message) as caught:
        mupc.save(tmp_path / "n", network)
    assert "\n" not in str(caught.value)
    assert not any(tmp_path.iterdir())


def test_folders_instead_of_files(tmp_path):
    with pytest.raises(ValueError, match="is a folder: name a file in it"):
        mupc.save(tmp_path, make())
    with pytest.raises(ValueError, match="has no checkpoints/network.safetensors: give a run folder"):
        mupc.load(tmp_path)
    with pytest.raises(ValueError, match="absent is not there: give a run folder .* or a file of mupc.save"):
        mupc.load(tmp_path / "absent")


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: content[:4],
        lambda content: b"",
        lambda content: content + b"more",
        lambda content: b"\xff" * 8 + content[8:],
        lambda content: content[:8] + b"?" + content[9:],
        lambda content: b"PK\x03\x04 a zip file, perhaps",
        lambda content: content.replace(b"F64", b"F6?"),
    ],
)
def test_corrupt_bytes(file, damage):
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match="cannot be read as a safetensors file.*Save it again") as caught:
        mupc.load(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 3}, "is of format 3, newer than the 2 known here: update mupc"),
        ({"version": "1"}, "damaged metadata"),
        ({"width": 4.0}, "damaged metadata"),
        ({"use_bias": 1}, "damaged metadata"),
        ({"colour": "red"}, "damaged metadata"),
        ({"multipliers": [1.0, float("nan"), 1.0]}, "damaged metadata"),
        ({"multipliers": [1.0, 1.0]}, "cannot be built: multipliers must be three numbers"),
        ({"multipliers": [1.0, 1.0, 10**400]}, "cannot be built"),
        ({"activation": "rleu"}, "cannot be built: activation 'rleu' is not known"),
        ({"parameterisation": "mup"}, "cannot be built: parameterisation 'mup' is not known"),
        ({"width": 0}, "cannot be built: width must be at least 1"),
        ({"skip": 3}, "cannot be built: skip=3 needs more than 3 hidden_layers"),
        ({"width": 6}, r"hidden.bias of shape \(2, 4\) and format F64, but the network has \(2, 6\)"),
        ({"hidden_layers": 10**9}, r"hidden.bias of shape \(2, 4\)"),
        ({"use_bias": False}, "holds hidden.bias, .* but the network has hidden.weight, input.weight"),
    ],
)
def test_wrong_metadata(rewrite, change, message):
    with pytest.raises(ValueError, match=message) as caught:
        mupc.load(rewrite(change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("metadata", [{}, {"format": "pt"}])
def test_other_safetensors_files(rewrite, metadata):
    with pytest.raises(ValueError, match="does not hold a mupc network"):
        mupc.load(rewrite(metadata=metadata))


@pytest.mark.parametrize("text", ["{", "[1]", "null", "{}", '"mupc"'])
def test_metadata_without_an_architecture(rewrite, text):
    with pytest.raises(ValueError, match="damaged metadata"):
        mupc.load(rewrite(metadata={"mupc": text}))


@pytest.mark.parametrize("dtype", [np.int32, np.float16])
def test_wrong_formats(rewrite, dtype):
    arrays = {"input.weight": np.zeros((4, 5), dtype)}
    with pytest.raises(ValueError, match="input.weight of shape .* in F32 or F64"):
        mupc.load(rewrite(arrays=arrays))


def test_float64_is_not_rounded_in_the_32_bit_mode(tmp_path):
    network = cast(make(), "float64")
    mupc.save(tmp_path / "n", network)
    with jax.enable_x64(False):
        found = mupc.load(tmp_path / "n").network
    same(found, network)


def cube(z):
    return z**3


@pytest.mark.parametrize("own", [cube, mupc.Activation("relu", jnp.sin)])
def test_an_activation_of_the_users_own_is_passed_to_load(tmp_path, own):
    network = make(activation=own)
    mupc.save(tmp_path / "n", network)
    same(mupc.load(tmp_path / "n", activation=own).network, network)
    name = network.activation.name
    with pytest.raises(ValueError, match=rf"has the activation '{name}', .* mupc.load\(path, activation={name}\)"):
        mupc.load(tmp_path / "n")
    with pytest.raises(ValueError, match="is not elementwise"):
        mupc.load(tmp_path / "n", activation=jax.nn.softmax)


def test_an_activation_that_the_file_names_is_not_replaced(file):
    with pytest.raises(ValueError, match="has the activation 'relu', which mupc knows: leave activation= out"):
        mupc.load(file, activation="tanh")


ALIASES = {"relu": jax.nn.relu, "tanh": jnp.tanh, "silu": jax.nn.swish, "gelu": jax.nn.gelu}


@pytest.mark.parametrize(("name", "function"), [*ALIASES.items(), ("tanh", jax.lax.tanh), ("selu", jax.nn.selu)])
def test_functions_of_jax_are_those_with_a_name(tmp_path, name, function):
    network = make(activation=function)
    assert network.activation is ACTIVATIONS[name]
    mupc.save(tmp_path / "n", network)
    same(mupc.load(tmp_path / "n").network, network)


@pytest.mark.parametrize("activation", ["relu", jax.nn.relu, jax.nn.softplus, cube, mupc.Activation("s", jnp.sin)])
def test_networks_pickle(activation):
    network = make(activation=activation, use_bias=True)
    same(pickle.loads(pickle.dumps(network)), network)
    cloudpickle = pytest.importorskip("cloudpickle")  # which joblib uses
    same(pickle.loads(cloudpickle.dumps(network)), network)


def resnet(**options):
    return mupc.models.resnet((1, 4, 4), 3, 2, (2, 1), **{"key": jr.key(0)} | options)


@pytest.mark.parametrize("options", [{}, {"use_bias": True, "activation": "tanh", "convolutions": 2}])
def test_models_come_back_from_their_recipe(tmp_path, options):
    path = tmp_path / "model.safetensors"
    mupc.save(path, resnet(**options))
    same(mupc.load(path).network, resnet(**options))
    with safe_open(path, framework="numpy") as opened:
        about = json.loads(opened.metadata()["mupc"])
    assert about["version"] == 2 and about["model"] == "resnet" and about["arguments"]["blocks"] == [2, 1]
    with pytest.raises(ValueError, match="leave network= out"):
        mupc.load(path, network=resnet(**options))


def test_a_model_with_an_activation_of_the_users_own(tmp_path):
    path = tmp_path / "model.safetensors"
    mupc.save(path, resnet(activation=jnp.sin))
    with pytest.raises(ValueError, match="pass it again"):
        mupc.load(path)
    same(mupc.load(path, activation=jnp.sin).network, resnet(activation=jnp.sin))


def test_a_chain_of_the_users_own_nodes(tmp_path):
    def chain(seed, width=4):
        keys = jr.split(jr.key(seed))
        parts = [eqx.nn.Linear(5, width, key=keys[0]), eqx.nn.Linear(width, 3, key=keys[1])]
        return mupc.Chain(parts, input_shape=(5,))

    path = tmp_path / "model.safetensors"
    mupc.save(path, chain(0))
    same(mupc.load(path, network=chain(1)).network, chain(0))
    with pytest.raises(ValueError, match="chain of your own nodes"):
        mupc.load(path)
    with pytest.raises(ValueError, match="pass one of the form that was saved"):
        mupc.load(path, network=chain(1, width=6))


def test_a_model_that_was_changed_by_hand(tmp_path):
    changed = eqx.tree_at(lambda chain: chain.parts[0].node.weight, resnet(), jnp.ones((3, 1, 3, 3)))
    with pytest.raises(ValueError, match="mupc.models.resnet"):
        mupc.save(tmp_path / "model.safetensors", changed)


@pytest.mark.parametrize(
    "about",
    [
        {"model": "unheard-of", "arguments": {}},
        {"model": "resnet", "arguments": []},
        {"model": "resnet", "arguments": {"width": "wide"}},
        {"model": "resnet", "arguments": {"blocks": 3}},
        {"model": "resnet", "arguments": {"height": 3}},
        {"model": ["resnet"], "arguments": {}},
    ],
)
def test_damaged_recipes(rewrite, about):
    file = rewrite(metadata={"mupc": json.dumps({"version": 2, **about})})
    with pytest.raises(ValueError, match=r"safetensors (is of the model|has damaged metadata|has an architecture)"):
        mupc.load(file)
