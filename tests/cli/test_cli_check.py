"""`mupc check`: its numbers against `mupc.coordinate_check`, the run folder, checkpoints and mistakes."""

import dataclasses
import json
import re
import signal

import jax
import numpy as np
import pytest

import mupc as library
from mupc import cli, diagnostics
from mupc.cli.check import CompareFlags
from mupc.network import BaseSize

TINY = ["--widths", "8", "16", "--depths", "--hidden-layers", "4", "--steps", "1", "--inference-steps", "1"]


@pytest.fixture
def check(mupc, tmp_path):
    """Run `mupc check` in a folder of its own."""

    def run(*argv, name="check"):
        return mupc("check", "--out", tmp_path / name, *argv, folder=tmp_path / name)

    return run


@pytest.mark.slow
def test_a_check(check):
    """A failed check is a result: exit code 0, unless --strict asks for 1."""
    run = check(*TINY, "--strict", "--parameterisation", "sp", "--solver", "gd", "--activity-lr", "0.4")
    assert run.code == cli.FAILURE and run.err == ""
    with jax.enable_x64(False):
        expected = library.coordinate_check(
            library.data.load("digits"), widths=(8, 16), depths=(), hidden_layers=4, steps=1, parameterisation="sp",
            solver=library.GradientDescent(0.4, 1),
        )  # fmt: skip
    summary = run.json("summary.json")
    assert set(summary) == {
        *("verdict", "verdicts", "passed", "failures", "unclear", "slopes"),
        *("seconds", "interrupted", "message", "device", "out"),
    }
    assert summary["verdicts"] == expected.verdicts and summary["passed"] is False
    for row, slope in zip(summary["slopes"], expected.slopes, strict=True):
        assert (row["quantity"], row["group"], row["verdict"]) == (slope.quantity, slope.group, slope.verdict)
        assert row["slope"] == (pytest.approx(slope.slope, abs=1e-5) if np.isfinite(slope.slope) else None)
    assert [(row["width"], row["hidden_layers"], row["axes"]) for row in run.metrics] == [
        (8, 4, ["width"]), (16, 4, ["width"]),
    ]  # fmt: skip
    assert run.metrics[1]["sizes"][0]["size"] == pytest.approx(
        next(size.size for size in expected.sizes if size.width == 16), rel=1e-5
    )
    config = run.json("config.json")["config"]
    assert (config["solver"], config["rate_scaling"], config["output_precision"]) == ("gd", "none", 1.0)
    assert {path.name for path in run.folder.iterdir()} == {"config.json", "metrics.jsonl", "summary.json", "figures"}
    assert (run.folder / "figures" / "coordinates-width.png").is_file()
    assert not (run.folder / "figures" / "coordinates-depth.png").exists()

    assert "\x1b" not in run.out and max(map(len, run.out.splitlines()[3:20])) <= 80
    slope = next(slope for slope in expected.worst if slope.quantity == "output")
    (line,) = (line for line in run.out.splitlines() if line.startswith("  output"))
    assert line.split() == [
        "output", "readout", f"{slope.slope:+.2f}", "±", f"{slope.interval:.2f}", "+0.00", "±", "0.25", slope.verdict,
    ]  # fmt: skip
    assert "- at init, activities" in run.out and "too wide to tell: take more seeds" in run.out
    assert run.out.splitlines()[-1] == f"run folder {run.folder}"


@pytest.mark.parametrize("measured", [0, 1])
@pytest.mark.slow
def test_interruption(check, monkeypatch, measured):
    real = diagnostics.measure_shapes

    def measure(*arguments):
        for number, one in enumerate(real(*arguments)):
            if number == measured:
                raise KeyboardInterrupt
            yield one

    monkeypatch.setattr(diagnostics, "measure_shapes", measure)
    run = check(*TINY, "--json", "--parameterisation", "sp")
    assert run.code == cli.INTERRUPTED
    assert run.folder.exists() == bool(measured)
    if measured:
        summary = json.loads(run.out)
        assert summary["interrupted"] and summary["verdicts"] == {} and len(run.metrics) == 1
        assert "interrupted; 1 of 2 sizes" in run.err


@pytest.mark.slow
def test_sigterm_tells_how_far_it_came(check, monkeypatch):
    real = diagnostics.measure_shapes

    def measure(*arguments):
        yield next(real(*arguments))
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(diagnostics, "measure_shapes", measure)
    run = check(*TINY)
    assert run.code == 143 and run.err.startswith("mupc check: interrupted; 1 of 2 sizes are in ")


@pytest.mark.slow
def test_a_trained_network(check, train):
    """With the solver, the rates and the data of its run; other flags override them."""
    rates = ["--weight-lr", "0.03", "--base-width", "2", "--optimiser", "sgd"]
    trained = train("--quiet", "--epochs", "0.1", "--solver", "gd", "--output-precision", "0.5", *rates)
    run = check("--checkpoint", trained.folder)
    assert run.code == 0, run.err
    network = library.load(trained.folder / "checkpoints" / "network.safetensors").network
    with jax.enable_x64(False):
        expected = library.coordinate_sizes(
            network, library.data.load("digits"), solver=library.GradientDescent(0.05, 3), weight_lr=0.03,
            optimiser="sgd", base=BaseSize(2, 8), energy=library.Energy(output_precision=0.5),
        )  # fmt: skip
    rows = run.json("summary.json")["sizes"]
    for quantity, values in expected.items():
        own = [row["size"] for row in rows if row["quantity"] == quantity]
        np.testing.assert_allclose(own, values, rtol=1e-4, err_msg=quantity)
    assert [row["layer"] for row in rows if row["quantity"] == "weight updates"] == [1, 2, 3, 4]
    assert [row["layer"] for row in rows if row["quantity"] == "output"] == [4]
    assert (run.folder / "figures" / "sizes.png").is_file()
    assert f"{expected['activities'][0]:.2g}" in run.out
    for flag, *values in (("--widths", "8", "16"), ("--bias",)):
        refused = check("--checkpoint", trained.folder, flag, *values, name="refused")
        assert refused.code == cli.USAGE_ERROR and f"{flag} has no effect with --checkpoint" in refused.err


def test_runs_of_other_methods_say_what_is_measured(check, train):
    """They have no solver of their own here, and predictive coding would be measured in their name."""
    trained = train("--quiet", "--epochs", "0.1", "--method", "zil")
    refused = check("--checkpoint", trained.folder)
    assert refused.code == cli.USAGE_ERROR and len(refused.err.splitlines()) == 1
    assert "was trained with --method zil, and a check measures predictive coding: add --solver" in refused.err
    run = check("--checkpoint", trained.folder, "--solver", "gd")
    assert run.code == 0 and run.json("config.json")["config"]["solver"] == "gd"


@pytest.mark.parametrize(
    ("argv", "help"),
    [
        (
            ["--widths", "8"],
            "--widths needs two values and three networks for a slope with its interval, got 8 with --seeds 3",
        ),
        (["--depths", "8"], "--depths needs two values"),
        (["--widths", "8", "0"], "--widths must be at least 1, got 0"),
        (["--depths", "8", "2"], "--depths must be at least 4, got 2"),
        (["--widths", "--depths"], "--widths and --depths leave nothing to compare"),
        (["--widths", "8", "16", "--seeds", "1"], "got 8, 16 with --seeds 1"),
        (["--seeds", "0"], "--seeds must be at least 1"),
        (["--steps", "-1"], "--steps must be at least 0, got -1"),
        (["--hidden-layers", "3"], "--hidden-layers must be at least 4"),
        (["--weight-lr", "0"], "--weight-lr must be greater than 0"),
        (["--activity-lr", "-1", "--solver", "gd"], "--activity-lr must be greater than 0"),
        (["--rate-scaling", "mup", "--parameterisation", "ntp"], "has no rule for the parameterisation ntp"),
        (["--activity-lr", "0.1", "--solver", "error-space"], "--activity-lr 0.1 has no effect with --solver error"),
        (["--output-precision", "0"], "--output-precision must be greater than 0"),
        (["--skip", "9"], "Use a shorter skip"),
        (["--data", "digts"], "did you mean 'digits'?"),
        (["--model", "vgg", "--depths", "2", "4"], "--depths has no effect with --model vgg, which has only one depth"),
        (["--model", "resnet", "--hidden-layers", "16"], "--hidden-layers has no effect with --model resnet"),
        (["--model", "resnet", "--skip", "2"], "--skip has no effect with --model resnet"),
        (["--model", "resnet", "--blocks", "1", "2"], "--blocks has several numbers: a check takes one"),
        (["--model", "resnet", "--heads", "2"], "--heads has no effect with --model resnet"),
        (["--model", "vgg"], "leave no pixels of images of 8 × 8"),
        (["--model", "transformer"], "--model transformer learns texts, and digits is not one. Use another --model"),
        (["--blocks", "2"], "--blocks has no effect with --model mlp"),
        (["--checkpoint", "absent"], "--checkpoint absent is not there"),
    ],
)
def test_mistakes(check, tmp_path, monkeypatch, argv, help):
    monkeypatch.chdir(tmp_path)
    run = check(*argv)
    assert run.code == cli.USAGE_ERROR, run.err
    assert run.err.startswith("mupc check: ") and len(run.err.splitlines()) == 1
    assert help in run.err and run.out == ""
    assert not run.folder.exists()


@pytest.mark.parametrize(("flag", "value"), [("--activation", "rleu"), ("--solver", "dg"), ("--parameterisation", "x")])
def test_unknown_names(check, flag, value):
    run = check(flag, value)
    assert run.code == cli.USAGE_ERROR and value in run.err
    assert not run.folder.exists()


def test_defaults_are_those_of_the_library():
    flags, defaults = CompareFlags(), diagnostics.CoordinateSettings()
    for name in ("widths", "depths", "width", "hidden_layers", "steps", "seeds"):
        assert getattr(flags, name) == getattr(defaults, name)


def test_the_help_has_the_defaults_of_every_model(mupc):
    """All sizes of the table stand after the name of their model, or of several."""
    text = " ".join(mupc("check", "--help").out.replace("│", " ").split())
    shown = {}
    for name in ("widths", "depths", "width", "blocks"):
        hint = re.search(rf"--{name} .*?\(default: (.*?)\)", text).group(1)
        for part in hint.split("; "):
            models, numbers = re.fullmatch(r"([a-z ]*?) ?([\d ]+)", part).groups()
            for model in models.split(" and ") if models else ["mlp"]:
                shown[model, name] = tuple(map(int, numbers.split()))
    for model, table in diagnostics.CHECK_DEFAULTS.items():
        depth = {"blocks": (table.depth,)} if model in ("resnet", "transformer") else {}
        fixed = {"width": (table.width,)} if table.depths else {}
        for name, value in {"widths": table.widths, "depths": table.depths, **fixed, **depth}.items():
            assert shown.get((model, name), ()) == value, (model, name)


@pytest.mark.parametrize(
    ("verdict", "code"), [pytest.param("pass", 0, marks=pytest.mark.slow), ("unclear", 0), ("fail", cli.FAILURE)]
)
@pytest.mark.slow
def test_only_a_failure_fails_a_strict_check(check, monkeypatch, verdict, code):
    real = diagnostics.judge_shapes

    def judge(*arguments):
        found = real(*arguments)
        slopes = [dataclasses.replace(slope, verdict=verdict, meaning="take more") for slope in found.slopes]
        return dataclasses.replace(found, slopes=tuple(slopes))

    monkeypatch.setattr(diagnostics, "judge_shapes", judge)
    run = check(*TINY, "--strict", "--parameterisation", "sp")
    summary = run.json("summary.json")
    assert (run.code, summary["verdict"], summary["passed"]) == (code, verdict, verdict == "pass")
    lines = {"pass": [], "unclear": summary["unclear"], "fail": summary["failures"]}[verdict]
    assert bool(lines) == (verdict != "pass") and summary["unclear"] + summary["failures"] == lines
    assert all(f"- {line}" in run.out and line.endswith("take more.") for line in lines)
