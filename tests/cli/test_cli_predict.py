"""`mupc predict`: its numbers against the network itself and against training, its files, images, and mistakes."""

import csv
import json
import struct
import zlib

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from PIL import Image
from sklearn import metrics

import mupc as library
from mupc import data
from mupc.data import Column, Normalisation, Schema

PIXELS = Normalisation(scale=1 / 255, mean=0.4, std=0.3)


def make(in_size=64, out_size=10, **options):
    network = library.Network(in_size, out_size, width=6, hidden_layers=2, key=jr.key(3), **options)
    return jax.tree.map(lambda leaf: leaf.astype("float32"), network)


@pytest.fixture
def model(tmp_path):
    """Writes a model of a schema with these values."""

    def build(network, loss="mse", **schema):
        path = tmp_path / "model.safetensors"
        library.save(path, library.Model(network, Schema(**schema), loss, data="toy"))
        return path

    return build


@pytest.fixture
def samples(tmp_path):
    def build(**arrays):
        np.savez(tmp_path / "new.npz", **arrays)
        return tmp_path / "new.npz"

    return build


def random_pixels(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def expected(network, raw, normalisation=PIXELS):
    """Layer by layer in float64 numpy: another path than the library's."""
    z = (raw.reshape(len(raw), -1).astype(np.float64) * normalisation.scale - normalisation.mean) / normalisation.std
    first, hidden, last = network.multipliers
    z = first * z @ np.asarray(network.input.weight, np.float64).T
    for weight in np.asarray(network.hidden.weight, np.float64):
        z = z + hidden * np.maximum(z, 0) @ weight.T
    return last * np.maximum(z, 0) @ np.asarray(network.readout.weight, np.float64).T


def refused(run, *said):
    assert run.code == 2 and run.out == "" and len(run.err.splitlines()) == 1, run.err
    assert run.err.startswith("mupc predict: ")
    for part in said:
        assert part in run.err, run.err


@pytest.mark.slow
def test_the_test_split_gives_what_training_measured(mupc, train, samples, tmp_path):
    digits = data.load("digits")
    new = samples(x=digits.test.raw.reshape(-1, 8, 8), y=digits.test.targets)
    run = train("--quiet")
    measured = run.json("summary.json")
    assert mupc("export", run.folder, tmp_path / "m.safetensors").code == 0
    found = [json.loads(mupc("predict", m, new, "--json").out) for m in (run.folder, tmp_path / "m.safetensors")]
    assert found[0]["accuracy"] == found[1]["accuracy"] == pytest.approx(measured["test_accuracy"], abs=1e-6)
    assert found[0]["loss"] == found[1]["loss"] == pytest.approx(measured["test_loss"], rel=1e-5)
    assert found[0]["samples"] == len(digits.test)


@pytest.mark.parametrize("batch", [1, 4, 7, 100])
def test_outputs_are_the_networks_in_any_batch(mupc, model, samples, tmp_path, batch):
    network, raw = make(12, 3), random_pixels(7, 3, 4)
    path = model(network, normalisation=PIXELS, labels=(0, 1, 2))
    run = mupc("predict", path, samples(x=raw), "--out", tmp_path / "p.npz", "--batch-size", batch)
    assert run.code == 0 and run.err == "", run.err
    with np.load(tmp_path / "p.npz") as file:
        assert set(file) == {"sample", "class", "outputs"} and file["outputs"].dtype == np.float32
        np.testing.assert_allclose(file["outputs"], expected(network, raw), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(file["class"], expected(network, raw).argmax(axis=1))


def test_all_formats_hold_the_same(mupc, model, samples, tmp_path):
    network, raw, labels = make(12, 3), random_pixels(5, 12), np.array([0, 1, 2, 0, 1])
    names = ("cat", "dog", '=cow, "big"')
    path = model(network, normalisation=PIXELS, labels=(0, 1, 2), class_names=names, loss="cross-entropy")
    for suffix in ("npz", "csv", "json"):
        assert mupc("predict", path, samples(x=raw, y=labels), "--out", tmp_path / f"p.{suffix}").code == 0
    arrays = np.load(tmp_path / "p.npz", allow_pickle=False)
    rows = json.loads((tmp_path / "p.json").read_text(), parse_constant=pytest.fail)
    with (tmp_path / "p.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    outputs = expected(network, raw)
    probability = np.exp(outputs).max(axis=1) / np.exp(outputs).sum(axis=1)
    for index, (row, line) in enumerate(zip(rows, lines, strict=True)):
        winner = int(outputs[index].argmax())
        assert row["class"] == int(line["class"]) == arrays["class"][index] == winner
        assert row["class_name"] == line["class_name"] == arrays["class_name"][index] == names[winner]
        assert row["label"] == int(line["label"]) == arrays["label"][index] == labels[index]
        assert row["probability"] == pytest.approx(probability[index], rel=1e-4)
        each = np.exp(outputs[index]) / np.exp(outputs[index]).sum()
        assert [float(line[f"probability_{name}"]) for name in names] == pytest.approx(each, rel=1e-4)
        assert row["probabilities"] == pytest.approx(arrays["probabilities"][index])
        assert row["outputs"] == [float(line[f"output_{name}"]) for name in names] == arrays["outputs"][index].tolist()
    loss = -np.log(np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True))[np.arange(5), labels].mean()
    summary = json.loads(mupc("predict", path, samples(x=raw, y=np.eye(3, dtype=int)[labels]), "--json").out)
    assert summary["loss"] == pytest.approx(loss, rel=1e-4)
    assert summary["accuracy"] == np.mean(outputs.argmax(axis=1) == labels)


def test_float64_weights_and_no_notes(mupc, samples, tmp_path):
    network = jax.tree.map(lambda leaf: leaf.astype("float64"), make(12, 3))
    library.save(tmp_path / "plain", network)
    x = np.random.default_rng(1).normal(size=(4, 12)).astype(np.float32)
    with jax.enable_x64(False):
        run = mupc("predict", tmp_path / "plain", samples(x=x), "--out", tmp_path / "p.npz")
    assert run.code == 0 and "taken as they are" in run.out
    outputs = np.load(tmp_path / "p.npz")["outputs"]
    assert outputs.dtype == np.float64
    np.testing.assert_allclose(outputs, expected(network, x, Normalisation()), rtol=1e-12)


def test_regression(mupc, model, samples):
    network, raw = make(12, 2), random_pixels(4, 12)
    path = model(network, normalisation=PIXELS)
    targets = np.random.default_rng(2).normal(size=(4, 2))
    run = mupc("predict", path, samples(x=raw, y=targets), "--json")
    summary = json.loads(run.out)
    assert summary["accuracy"] is None and "class" not in summary["first"][0]
    loss = np.sum((expected(network, raw) - targets) ** 2, axis=1).mean() / 2
    assert summary["loss"] == pytest.approx(loss, rel=1e-5)
    assert "mse loss" in mupc("predict", path, samples(x=raw, y=targets)).out
    for wrong in (np.arange(4), targets[:, :1]):
        run = mupc("predict", path, samples(x=raw, y=wrong))
        refused(run, "new.npz: y makes targets of shape (4, 1)", "outputs of shape (4, 2)", "one target per sample")


HOUSES = "size,rooms,price\n" + "".join(f"{s},{r},{3000 * s + 20000 * r}.5\n" for s in range(20, 60) for r in (1, 2, 4))
KINDS = "size,colour,kind\n" + "".join(
    f"{s},{'red' if s % 2 else 'blue'},{'big' if s > 40 else 'a b'}\n" for s in range(20, 60)
)


def fitted(path, text, target, loss):
    """The model of a small network that learnt a table."""
    path.write_text(text)
    table = data.load(path, target=target, **({"one_hot": True} if "colour" in text else {}))
    network = library.Network(table.in_size, table.out_size, width=6, hidden_layers=2, key=jr.key(3))
    energy = library.Energy(loss=loss)
    return library.fit(network, table, library.BP(), energy=energy, epochs=10, batch_size=10).model


def test_values_of_a_table_are_in_its_units(mupc, tmp_path):
    model = fitted(tmp_path / "houses.csv", HOUSES, "price", "mse")
    library.save(tmp_path / "m", model)
    (tmp_path / "new.csv").write_text("rooms,price,owner,size\n2,190000,Ann,50\n4,170000,Bob,30\n1,80001,Cy,20\n")
    run = mupc("predict", tmp_path / "m", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert run.code == 0, run.err
    with (tmp_path / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["sample", "target_price", "output_price"]
    truth = np.array([190000, 170000, 80001])
    found = np.array([float(row["output_price"]) for row in rows])
    np.testing.assert_allclose(found, model.predict(np.array([[50, 2], [30, 4], [20, 1]])), rtol=1e-6)
    summary = json.loads(mupc("predict", tmp_path / "m", tmp_path / "new.csv", "--json").out)
    assert summary["r2"] == pytest.approx(metrics.r2_score(truth, found), rel=1e-5)
    assert summary["mae"] == pytest.approx(np.abs(truth - found).mean(), rel=1e-5)
    assert summary["rmse"] == pytest.approx(np.sqrt(np.mean((truth - found) ** 2)), rel=1e-5)
    for part in (f"R² {summary['r2']:.4f}", "mean absolute error", "mse loss (½ squared error, summed over outputs)"):
        assert part in run.out
    (tmp_path / "new.csv").write_text("size,rooms\n50,2\n")
    assert json.loads(mupc("predict", tmp_path / "m", tmp_path / "new.csv", "--json").out)["r2"] is None


def test_classes_of_a_table_have_its_names(mupc, tmp_path):
    model = fitted(tmp_path / "kinds.csv", KINDS, "kind", "cross-entropy")
    library.save(tmp_path / "m", model)
    run = mupc("predict", tmp_path / "m", tmp_path / "kinds.csv", "--out", tmp_path / "p.csv")
    assert run.code == 0 and "accuracy" in run.out, run.err
    with (tmp_path / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "sample", "class", "label", "probability", "probability_a b", "probability_big", "output_a b", "output_big"
    ]  # fmt: skip
    for row in rows:
        best = max(("a b", "big"), key=lambda name: float(row[f"output_{name}"]))
        assert row["class"] == best
    assert [row["label"] for row in rows] == ["big" if s > 40 else "a b" for s in range(20, 60)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("size,colour\n", "no rows"),
        ("size,kind\n30,big\n", "'colour'"),
        ("size,colour\n30,green\n", "'green'"),
        ("size,colour\n,red\n", "'size'"),
        ("size,colour\ntall,red\n", "'tall'"),
        ("size,colour\n30\n", "row 1 has 1 cells"),
        ("size,colour,kind\n30,red,huge\n", "'huge'"),
    ],
)
def test_tables_that_cannot_be_used(mupc, tmp_path, text, said):
    schema = Schema(
        columns=(Column("size"), Column("colour", ("blue", "red"))), labels=("a b", "big"), targets=("kind",)
    )
    library.save(tmp_path / "m", library.Model(make(3, 2), schema))
    (tmp_path / "new.csv").write_text(text)
    refused(mupc("predict", tmp_path / "m", tmp_path / "new.csv"), "new.csv: ", said)


def test_the_table(mupc, model, samples, tmp_path):
    path = model(make(12, 3), normalisation=PIXELS, labels=(0, 1, 2))
    run = mupc("predict", path, samples(x=random_pixels(25, 12), y=np.arange(25) % 3))
    lines = run.out.splitlines()
    assert lines[0].split() == ["sample", "class", "label", "output", "of", "its", "class"]
    assert len(lines) == 1 + 10 + 2 and lines[11] == "… and 15 more; --out FILE writes them all"
    assert lines[12].startswith("accuracy ") and lines[12].endswith(" on 25 samples")
    assert "\x1b" not in run.out
    assert mupc("predict", path, samples(x=random_pixels(3, 12)), "--quiet").out == ""


def test_wrong_scales_and_broken_outputs_are_named(mupc, model, samples):
    path = model(make(12, 3), normalisation=PIXELS, labels=(0, 1, 2))
    run = mupc("predict", path, samples(x=random_pixels(3, 12) / 255))
    assert run.code == 0 and "warning: stored values run from" in run.out and "from 0 to 255" in run.out
    broken = jax.tree.map(lambda leaf: leaf * jnp.nan, make(12, 3))
    path = model(broken, normalisation=PIXELS, labels=(0, 1, 2), loss="cross-entropy")
    run = mupc("predict", path, samples(x=random_pixels(3, 12)), "--json")
    found = json.loads(run.out, parse_constant=pytest.fail)
    assert run.code == 0 and "3 samples have outputs that are not finite" in found["warnings"][0]


def save_images(folder, images, names):
    for image, name in zip(images, names, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / name)


def test_grey_images_with_labels_and_a_scale_of_their_own(mupc, model, tmp_path):
    """Images count to 255 where the digits that the network knows count to 16."""
    digits, network = data.load("digits"), make()
    path = model(
        network, normalisation=digits.normalisation, image_shape=(8, 8), labels=tuple(range(10)),
    )  # fmt: skip
    images = random_pixels(3, 8, 8)
    save_images(tmp_path / "new", images, ["0/a.png", "1/b.png", "9/c.png"])
    (tmp_path / "new" / "notes.txt").touch()
    found = json.loads(mupc("predict", path, tmp_path / "new", "--json").out)
    outputs = expected(network, images * (16 / 255), digits.normalisation)
    assert [row["sample"] for row in found["first"]] == ["0/a.png", "1/b.png", "9/c.png"]
    assert [row["label"] for row in found["first"]] == [0, 1, 9]
    np.testing.assert_allclose([row["outputs"] for row in found["first"]], outputs, rtol=1e-4, atol=1e-4)
    assert found["accuracy"] == np.mean(outputs.argmax(axis=1) == [0, 1, 9])


def test_colour_images_are_read_channel_first(mupc, model, tmp_path):
    network = make(3 * 4 * 5, 3)
    path = model(network, normalisation=PIXELS, image_shape=(3, 4, 5), labels=(0, 1, 2))
    images = random_pixels(2, 4, 5, 3)
    save_images(tmp_path / "new", images, ["b.png", "a.PNG"])
    found = json.loads(mupc("predict", path, tmp_path / "new", "--json").out)
    assert found["accuracy"] is None and [row["sample"] for row in found["first"]] == ["a.PNG", "b.png"]
    outputs = expected(network, images.transpose(0, 3, 1, 2))[::-1]
    np.testing.assert_allclose([row["outputs"] for row in found["first"]], outputs, rtol=1e-4, atol=1e-5)


def test_subfolders_are_named_after_classes(mupc, model, tmp_path):
    path = model(make(16, 2), normalisation=PIXELS, image_shape=(4, 4), labels=("cat", "dog"))
    save_images(tmp_path / "new", random_pixels(2, 4, 4), ["dog/a.png", "cat/b.png"])
    found = json.loads(mupc("predict", path, tmp_path / "new", "--json").out)
    assert [row["label"] for row in found["first"]] == ["cat", "dog"]
    path = model(make(16, 2), normalisation=PIXELS, image_shape=(4, 4))
    refused(mupc("predict", path, tmp_path / "new"), "subfolder 'cat'", "move them out")


def test_grey_and_colour_are_converted_and_sizes_only_when_asked(mupc, model, tmp_path):
    network = make(3 * 4 * 4, 3)
    path = model(network, normalisation=PIXELS, image_shape=(3, 4, 4), labels=(0, 1, 2))
    save_images(tmp_path / "new", [np.full((8, 8), 90, np.uint8)], ["flat.jpg"])
    refused(mupc("predict", path, tmp_path / "new"), "8 × 8 pixels", "4 × 4", "--resize")
    found = json.loads(mupc("predict", path, tmp_path / "new", "--resize", "--json").out)
    outputs = expected(network, np.full((1, 48), 90, np.uint8))
    np.testing.assert_allclose(found["first"][0]["outputs"], outputs[0], rtol=1e-4, atol=1e-5)


def test_image_folders_that_cannot_be_used(mupc, model, tmp_path):
    def build(name, **files):
        folder = tmp_path / name
        for file, content in files.items():
            file = folder / file.replace("__", "/").replace("_png", ".png")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        folder.mkdir(exist_ok=True)
        return folder

    grey = {"normalisation": PIXELS, "image_shape": (4, 4), "labels": (0, 1, 2)}
    path = model(make(16, 3), **grey)
    refused(mupc("predict", path, build("empty")), "holds no .png, .jpg, .jpeg files")
    refused(mupc("predict", path, build("mixed", a_png=b"", **{"0__a_png": b""})), "move them apart")
    refused(mupc("predict", path, build("named", cats__a_png=b"")), "subfolder 'cats'", "after classes: 0, 1, 2")
    refused(mupc("predict", path, build("broken", a_png=b"\x89PNG\r\n\x1a\nbroken")), "a.png cannot be read")
    refused(mupc("predict", path, build("gif", a_png=b"GIF89a" + bytes(40))), "neither PNG nor JPEG")
    save_images(tmp_path / "label", [random_pixels(4, 4)], ["7/a.png"])
    refused(mupc("predict", path, tmp_path / "label"), "subfolder '7'", "0, 1, 2")
    save_images(tmp_path / "deep", [random_pixels(4, 4).astype(np.uint16) * 256], ["a.png"])
    refused(mupc("predict", path, tmp_path / "deep"), "save it with 8 bits")
    path = model(make(16, 3), **grey | {"image_shape": None})
    refused(mupc("predict", path, tmp_path / "label"), "does not say what images")
    path = model(make(16, 3), **grey | {"normalisation": Normalisation(mean=np.zeros(16), std=np.ones(16))})
    refused(mupc("predict", path, tmp_path / "label"), "numbers other than pixels")


def test_a_small_file_that_claims_to_be_a_huge_image(mupc, model, tmp_path):
    path = model(make(16, 3), normalisation=PIXELS, image_shape=(4, 4), labels=(0, 1, 2))
    for side in (10_000, 100_000):
        folder = tmp_path / str(side)
        folder.mkdir()
        header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
        chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
        (folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk + bytes(4) + b"IDAT" + bytes(4))
        refused(mupc("predict", path, folder, "--resize"), "a.png has", "pixels", "at most 50,000,000")


def test_mistakes(mupc, model, samples, tmp_path):
    path = model(make(12, 3), normalisation=PIXELS, labels=(0, 1, 2), image_shape=(3, 4))
    x = random_pixels(3, 12)
    refused(mupc("predict", tmp_path / "absent", samples(x=x)), "is not there")
    refused(mupc("predict", path, tmp_path / "absent.npz"), "no such file")
    refused(mupc("predict", path, path), "neither a .npz file nor a table")
    refused(mupc("predict", path, samples(z=x)), "lacks x")
    refused(mupc("predict", path, samples(x=x[:, :5])), "samples of 5 values", "training had 12 (3 × 4)")
    refused(mupc("predict", path, samples(x=x[:0])), "at least one")
    refused(mupc("predict", path, samples(x=np.array(3))), "one row per sample")
    refused(mupc("predict", path, samples(x=np.full((3, 12), np.nan))), "not finite")
    refused(mupc("predict", path, samples(x=np.array([["a"] * 12] * 3))), "save numbers")
    refused(mupc("predict", path, samples(x=x, y=np.arange(2))), "one target per sample")
    refused(mupc("predict", path, samples(x=x, y=np.array([0, 1, 3]))), "label 3 of sample 2 is unknown")
    refused(mupc("predict", path, samples(x=x, y=np.zeros((3, 2)))), "labels have shape (3, 2)")
    refused(mupc("predict", path, samples(x=x), "--batch-size", 0), "--batch-size must be at least 1")
    refused(mupc("predict", path, samples(x=x), "--out", tmp_path / "p.txt"), "must end in .npz or .csv or .json")
    (tmp_path / "p.csv").write_text("precious")
    refused(mupc("predict", path, samples(x=x), "--out", tmp_path / "p.csv"), "already exists", "--force")
    assert (tmp_path / "p.csv").read_text() == "precious"
    assert mupc("predict", path, samples(x=x), "--out", tmp_path / "p.csv", "--force").code == 0
    assert (tmp_path / "p.csv").read_text().startswith("sample,class,output_0")
