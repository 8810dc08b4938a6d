"""Commands with `--model`: convolutional networks on digits and a transformer on a text, from flags to predictions."""

import inspect
import re
import typing

import jax
import numpy as np
import pytest

import mupc as library
from mupc.cli import flags
from mupc.cli.building import MODEL_FLAGS
from mupc.network.models import MODELS

RESNET = ("--model", "resnet", "--width", "4", "--blocks", "1", "1", "--epochs", "0.5", "--no-tensorboard", "--quiet",
          "--schedule", "constant")  # fmt: skip


def test_flags_follow_the_models():
    assert typing.get_args(flags.Model) == ("mlp", *MODELS)
    for name, make in MODELS.items():
        wanted = set(inspect.signature(make).parameters)
        own = {"layers" if each == "vgg" else each for each in MODEL_FLAGS[name]}
        assert own <= wanted and wanted - own <= {
            *("input_shape", "out_size", "vocabulary", "context", "width"),
            *("activation", "parameterisation", "use_bias", "key"),
        }


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--model", "resnet", "--skip", "2"], "--skip has no effect with --model resnet"),
        (["--model", "vgg", "--hidden-layers", "8"], "--hidden-layers has no effect with --model vgg"),
        (["--model", "vgg", "--orthogonality", "0.1"], "--orthogonality has no effect with --model vgg"),
        (["--blocks", "2", "2"], "--blocks has no effect with --model mlp: .* or use --model resnet or --model transf"),
        (["--model", "resnet", "--heads", "2"], "--heads has no effect .* use --model transformer"),
        (["--model", "resnet", "--blocks", "0"], "--blocks must be at least 1"),
        (["--model", "resnet", "--blocks", "1", "1", "1", "1", "1"], "8 × 8 pixels are enough for 4"),
        (["--model", "transformer"], "--model transformer learns texts, and digits is not one"),
        (["--model", "resnet", "--solver", "exact-linear"], "exact-linear"),
        (["--model", "vgg11"], "vgg"),
    ],
)
def test_mistakes(mupc, tmp_path, argv, message):
    run = mupc("train", *argv, "--out", tmp_path / "run")
    assert run.code == 2 and not (tmp_path / "run").exists()
    assert len(run.err.splitlines()) == 1
    assert re.search(message, run.err), run.err


@pytest.mark.slow
def test_a_run_goes_on_repeats_and_predicts(mupc, train, tmp_path):
    whole = train(*RESNET, "--evaluate-every", "6", tiny=False)
    assert whole.code == 0, whole.err
    config = whole.json("config.json")["config"]
    assert (config["model"], config["blocks"], config["convolutions"]) == ("resnet", [1, 1], 1)
    names = whole.json("summary.json")["credit_reach"]["names"]
    assert names[0] == "stem" and names[-1] == "readout" and len(names) == 5
    again = train("--config", whole.folder, "--epochs", "0.25", "--quiet", "--no-tensorboard", tiny=False, name="again")
    longer = mupc("train", "--resume", again.folder, "--epochs", "0.5", "--quiet")
    assert longer.code == 0, longer.err
    one, two = (library.load(folder).network for folder in (whole.folder, again.folder))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_array_equal(a, b)
    file = tmp_path / "model.safetensors"
    assert mupc("export", whole.folder, file).code == 0
    model, raw = library.load(file), library.data.load("digits").test.raw[:20]
    np.testing.assert_array_equal(model.predict(raw), model.predict(raw.reshape(-1, 1, 8, 8)))
    np.savez(tmp_path / "new.npz", x=raw)
    assert mupc("predict", whole.folder, tmp_path / "new.npz").code == 0
    check = mupc("check", "--checkpoint", whole.folder, "--out", tmp_path / "check", folder=tmp_path / "check")
    assert check.code == 0, check.err
    assert {row["name"] for row in check.json("summary.json")["sizes"]} == set(names)
    ends = mupc("hessian", "--checkpoint", whole.folder, "--out", tmp_path / "hessian", folder=tmp_path / "hessian")
    assert ends.code == 0, ends.err
    digits = library.data.load("digits")
    energy = library.Energy(output_precision=config["output_precision"])
    sample = digits.x_train[:1], digits.y_train[:1]
    expected = library.diagnostics.hessian_extremes(library.load(whole.folder).network, *sample, energy=energy)
    assert ends.json("summary.json")["networks"][0]["condition_number"] == pytest.approx(expected.kappa[0], rel=0.05)


@pytest.mark.slow
def test_a_text(mupc, tmp_path):
    (tmp_path / "text.txt").write_text("abcd" * 500)
    argv = ["--data", tmp_path / "text.txt", "--context", "8", "--epochs", "2", "--quiet"]
    small = ["--model", "transformer", "--width", "8", "--blocks", "1", "--heads", "2", "--split", "--no-tensorboard"]
    small += ["--normalise-embedding"]
    run = mupc("train", *argv, *small, "--out", tmp_path / "run", folder=tmp_path / "run")
    assert run.code == 0, run.err
    config = run.json("config.json")["config"]
    assert (config["blocks"], config["heads"], config["split"], config["context"]) == ([1], 2, True, 8)
    assert config["normalise_embedding"] and len(library.load(run.folder).network.parts[0].node.parts) == 2
    assert run.metrics[-1]["test_perplexity"] < run.metrics[0]["test_perplexity"]
    assert len(library.load(run.folder).generate("abc", 5)) == 5


@pytest.mark.slow
def test_a_check(mupc, tmp_path):
    argv = ("--model", "resnet", "--widths", "2", "4", "--depths", "--steps", "0", "--convolutions", "2")
    run = mupc("check", *argv, "--out", tmp_path / "check", folder=tmp_path / "check")
    assert run.code == 0, run.err
    with jax.enable_x64(False):
        expected = library.coordinate_check(
            library.data.load("digits"), model="resnet", widths=(2, 4), depths=(), steps=0, convolutions=2
        )
    slopes = [row["slope"] for row in run.json("summary.json")["slopes"]]
    assert slopes == pytest.approx([slope.slope for slope in expected.slopes], rel=1e-4)
    config = run.json("config.json")["config"]
    used = {"model": "resnet", "widths": [2, 4], "depths": [], "blocks": [1, 1, 1], "convolutions": 2, "loss": "mse"}
    assert config.items() >= used.items()
    assert "1 block of 2: measured" in run.out and (run.folder / "figures" / "coordinates-width.png").is_file()


@pytest.mark.slow
def test_a_transfer_goes_on(mupc, tmp_path):
    argv = ["--model", "resnet", "--width", "4", "--blocks", "1", "--large-width", "4", "--large-blocks", "2"]
    argv += ["--epochs", "0.2", "--seeds", "1", "--etas", "0.1", "0.05", "--out", tmp_path / "transfer"]
    run = mupc("transfer", *argv, folder=tmp_path / "transfer")
    assert run.code == 0, run.err
    assert [(row["width"], row["blocks"]) for row in run.metrics] == [(4, 1), (4, 1), (4, 2)]
    config, summary = run.json("config.json")["config"], run.json("summary.json")
    assert (config["solver"], config["blocks"], config["large_blocks"]) == ("error-space", 1, 2)
    assert summary["large"]["size"] == {"width": 4, "blocks": 2} and "optimum, 1 block of 4" in run.out
    before = run.metrics
    again = mupc("transfer", *argv, "--verify", folder=tmp_path / "transfer")
    assert again.code == 0 and again.metrics[:3] == before and len(again.metrics) == 4
    refused = mupc("transfer", *argv, "--model", "vgg")
    assert refused.code == 2 and "--blocks has no effect with --model vgg: leave it out" in refused.err


@pytest.mark.slow
def test_a_sweep_over_blocks(mupc, tmp_path):
    argv = ("sweep", *RESNET[:4], "--epochs", "0.2", "--quiet", "--grid", "blocks=1,2", "--grid", "seed=0,1")
    for _ in range(2):  # the second one has nothing left to do
        run = mupc(*argv, "--out", tmp_path / "sweep", folder=tmp_path / "sweep")
        assert run.code == 0, run.err
    cells = run.json("sweep.json")["cells"]
    assert [cell["settings"]["blocks"] for cell in cells] == [1, 1, 2, 2]
    assert run.json("best.json")["config"]["blocks"] in ([1, 1, 1], [2, 2, 2])
