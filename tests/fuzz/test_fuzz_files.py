"""Files of every format, random and mutated from valid ones: one line, never a traceback, no hang, little memory."""

import dataclasses
import gzip
import io
import json
import shutil

import jax
import jax.random as jr
import numpy as np
import pytest
from fuzz_client import fuzz
from fuzz_inputs import CELL, JSON, RESULT, damage, mutated, npz
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import save as to_safetensors

import mupc
from mupc.cli.config import TrainFlags
from mupc.cli.transfer import GridFlags, TransferDataFlags, TransferLearningFlags, TransferNetworkFlags
from mupc.data import Normalisation, Schema
from mupc.io import json_text

pytestmark = pytest.mark.slow

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CIFAR = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
ARRAYS = {
    "x_train": np.arange(24.0).reshape(6, 4),
    "y_train": np.arange(6) % 3,
    "x_test": np.arange(8.0).reshape(2, 4),
    "y_test": np.array([0, 2]),
}


def idx(shape):
    header = bytes([0, 0, 8, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape)
    return header + bytes(index % 10 for index in range(int(np.prod(shape))))


@pytest.fixture(scope="module")
def model(fuzzer):
    """A small exported network of 4 × 4 pixels and 3 classes."""
    path = fuzzer.inputs / "model.safetensors"
    pixels = Normalisation(scale=1 / 255, mean=0.5, std=0.5)
    schema = Schema(pixels, labels=(0, 1, 2), class_names=("a", "b", "c"), image_shape=(4, 4))
    with jax.enable_x64(False):
        mupc.save(path, mupc.Model(mupc.Network(16, 3, width=3, hidden_layers=2, key=jr.key(0)), schema))
    return path


@fuzz(quick=60, full=3000)
@given(content=npz(ARRAYS))
def test_npz(fuzzer, content):
    path = fuzzer.inputs / "toy.npz"
    path.write_bytes(content)
    fuzzer.check("data", str(path), None)


@fuzz(quick=50, full=2500)
@given(place=st.integers(0, 3), packed=st.sampled_from(("no", "inside", "outside")), data=st.data())
def test_idx(fuzzer, place, packed, data):
    files = [idx((3, 28, 28)), idx((3,)), idx((2, 28, 28)), idx((2,))]
    if packed == "outside":
        content = data.draw(mutated(gzip.compress(files[place])) | st.binary(max_size=100))
    else:
        content = data.draw(mutated(files[place]))
        content = gzip.compress(content) if packed == "inside" else content
    files[place] = content
    folder = fuzzer.inputs / "idx"
    folder.mkdir(exist_ok=True)
    for name, file in zip(IDX, files, strict=True):
        (folder / name).write_bytes(file)
    fuzzer.check("data", "mnist", str(folder))


@fuzz(quick=30, full=1500)
@given(place=st.integers(0, 5), data=st.data())
def test_cifar(fuzzer, place, data):
    files = [bytes(index % 7 for index in range(2 * 3073))] * 6
    files[place] = data.draw(mutated(files[place]) | mutated(gzip.compress(files[place])) | st.binary(max_size=100))
    folder = fuzzer.inputs / "cifar"
    folder.mkdir(exist_ok=True)
    for name, file in zip(CIFAR, files, strict=True):
        (folder / name).write_bytes(file)
    fuzzer.check("data", "cifar10", str(folder))


CONFIG = vars(TrainFlags())


@st.composite
def configurations(draw):
    kind = draw(st.sampled_from(("values", "values", "bytes", "json", "random")))
    if kind == "random":
        return draw(st.binary(max_size=60))
    if kind == "json":
        return json.dumps(draw(JSON)).encode()
    values = dict(CONFIG)
    if kind == "values":
        for key in draw(st.lists(st.sampled_from(sorted(CONFIG)) | st.text(max_size=6), max_size=3)):
            values[key] = draw(JSON)
    content = json.dumps({"config": values} if draw(st.booleans()) else values).encode()
    return draw(mutated(content)) if kind == "bytes" else content


@fuzz(quick=50, full=2500)
@given(content=configurations() | st.just(b'{"width": ' + b"9" * 5000 + b"}"))
def test_config(fuzzer, content):
    path = fuzzer.inputs / "config.json"
    path.write_bytes(content)
    fuzzer.check("config", str(path))


@st.composite
def networks(draw, valid):
    """The bytes of a file broken anywhere, or its metadata replaced by other JSON."""
    kind = draw(st.sampled_from(("bytes", "bytes", "architecture", "notes", "random")))
    if kind == "random":
        return draw(st.binary(max_size=100))
    if kind == "bytes":
        return draw(mutated(valid))
    length = int.from_bytes(valid[:8], "little")
    metadata = json.loads(valid[8 : 8 + length])["__metadata__"]
    key = "mupc" if kind == "architecture" else "mupc.predict"
    about = json.loads(metadata[key])
    for name in draw(st.lists(st.sampled_from(sorted(about)), min_size=1, max_size=2)):
        small = st.integers(-2, 5) | st.sampled_from((2**31, 2**63, 10**30))
        about[name] = draw(JSON | small | st.lists(small, max_size=4))
    arrays = {"input.weight": (3, 16), "hidden.weight": (1, 3, 3), "readout.weight": (3, 3)}
    arrays = {name: np.ones(shape, np.float32) for name, shape in arrays.items()}
    return to_safetensors(arrays, metadata | {key: json.dumps(about)})


@fuzz(quick=20, full=1200)
@given(data=st.data())
def test_networks(fuzzer, model, data):
    path = fuzzer.inputs / "network.safetensors"
    path.write_bytes(data.draw(networks(model.read_bytes())))
    fuzzer.check("network", str(path))


@fuzz(quick=15, full=800)
@given(data=st.data())
def test_predict_with_broken_models(fuzzer, model, data):
    path, samples = fuzzer.inputs / "broken.safetensors", fuzzer.inputs / "samples.npz"
    path.write_bytes(data.draw(networks(model.read_bytes())))
    np.savez(samples, x=np.zeros((2, 4, 4), np.uint8), y=np.array([0, 2]))
    fuzzer.check("command", ["predict", str(path), str(samples), "--out", "p.csv"])
    fuzzer.check("command", ["export", str(path), "copy.safetensors"])
    fuzzer.check("command", [data.draw(st.sampled_from(("check", "hessian"))), "--checkpoint", str(path)])


@fuzz(quick=15, full=600)
@given(content=npz({"x": np.zeros((2, 16), np.uint8), "y": np.array([0, 2])}))
def test_predict_of_broken_samples(fuzzer, model, content):
    path = fuzzer.inputs / "new.npz"
    path.write_bytes(content)
    fuzzer.check("command", ["predict", str(model), str(path), "--out", "p.json"])


def picture(kind, mode="L"):
    buffer = io.BytesIO()
    Image.new(mode, (4, 4), 3 if mode == "L" else (1, 2, 3)).save(buffer, kind)
    return buffer.getvalue()


PICTURES = [picture("PNG"), picture("JPEG"), picture("PNG", "RGB"), picture("GIF")]


@fuzz(quick=15, full=600)
@given(content=mutated(PICTURES) | st.binary(max_size=60))
def test_predict_of_broken_images(fuzzer, model, content):
    folder = fuzzer.inputs / "images"
    folder.mkdir(exist_ok=True)
    (folder / "a.png").write_bytes(content)
    fuzzer.check("command", ["predict", str(model), str(folder), "--resize", "--json"])


@fuzz(quick=6, full=250)
@given(data=st.data())
def test_damaged_checkpoints(fuzzer, ended, data):
    """Killed before its end was recorded, a run goes on from what is whole, to the same end, or says why not."""
    run = fuzzer.folder("run", ended)
    (run / "summary.json").unlink()
    damage(data.draw, run / "checkpoints")
    fuzzer.check("resume", str(run), str(ended))


@fuzz(quick=10, full=400)
@given(data=st.data())
def test_damaged_run_folders(fuzzer, ended, data):
    run = fuzzer.folder("run", ended)
    path = data.draw(st.sampled_from(sorted(path for path in run.iterdir() if path.is_file())))
    path.write_bytes(data.draw(mutated(path.read_bytes()) | JSON.map(json.dumps).map(str.encode)))
    words = data.draw(
        st.sampled_from((["train", "--resume"], ["train", "--config"], ["export"], ["hessian", "--checkpoint"]))
    )
    fuzzer.check("command", [*words, "run", *(["copy.safetensors"] if words == ["export"] else [])])


@st.composite
def results(draw):
    """A result as `mupc reproduce` saves it, with a few values or bytes changed."""
    values = dict(RESULT)
    for key in draw(st.lists(st.sampled_from(sorted(RESULT)), max_size=2)):
        values[key] = draw(JSON | st.lists(JSON, max_size=2))
    content = json.dumps(values).encode()
    return draw(mutated(content)) if draw(st.booleans()) else content


@fuzz(quick=4, full=200)
@given(content=results() | st.binary(max_size=60) | st.just(b"[" * 5000))
def test_results(fuzzer, content):
    for words in (["report"], ["reproduce", "--list"]):
        (fuzzer.folder("results") / "toy.json").write_bytes(content)
        fuzzer.check("command", words)


def transfer_folder(fuzzer):
    """The folder of an interrupted `mupc transfer`, and its flags."""
    network = TransferNetworkFlags(width=3, hidden_layers=2, large_width=4, large_hidden_layers=3)
    config = {}
    for group in (TransferDataFlags(), network, GridFlags(), TransferLearningFlags()):
        config |= dataclasses.asdict(group)
    folder = fuzzer.folder("transfer")
    (folder / "config.json").write_text(json_text({"config": config}))
    flags = ["--width", "3", "--hidden-layers", "2", "--large-width", "4", "--large-hidden-layers", "3"]
    return folder, ["transfer", *flags, "--out", "transfer"]


@fuzz(quick=12, full=400)
@given(data=st.data())
def test_transfer_goes_on(fuzzer, data):
    folder, words = transfer_folder(fuzzer)
    line = json.dumps(CELL | data.draw(st.dictionaries(st.sampled_from(sorted(CELL)), JSON, max_size=2))).encode()
    broken = data.draw(mutated(line) | JSON.map(json.dumps).map(str.encode) | st.just(line))
    (folder / "metrics.jsonl").write_bytes(broken + b"\n")
    if data.draw(st.booleans()):
        (folder / "config.json").write_bytes(data.draw(mutated((folder / "config.json").read_bytes())))
    fuzzer.check("command", words)


@pytest.fixture(scope="module")
def database(fuzzer):
    """The database of a small sweep that has been begun."""
    fuzzer.ask(["command", ["sweep", "--width", "3", "--hidden-layers", "2", "--grid", "seed=0,1", "--out", "sweep"]])
    content = (fuzzer.work / "sweep" / "sweep.db").read_bytes()
    shutil.rmtree(fuzzer.work / "sweep")
    return content


@fuzz(quick=8, full=300)
@given(data=st.data())
def test_sweep_databases(fuzzer, database, data):
    folder = fuzzer.folder("sweep")
    (folder / "sweep.db").write_bytes(data.draw(mutated(database)))
    fuzzer.check("command", ["sweep", "work", "sweep"])
