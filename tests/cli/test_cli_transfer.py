"""`mupc transfer`: its run folder compared with `mupc.fit`, what it prints, interruptions and mistakes."""

import dataclasses
import inspect
import json
import math
import re
import signal
import sys

import jax
import jax.random as jr
import pytest

import mupc as library
from mupc import cli
from mupc.cli.flags import UpdateFlags
from mupc.cli.transfer import GridFlags, TransferDataFlags, TransferLearningFlags
from mupc.plots import transfer as plots
from mupc.sweep import AT_EDGE, TransferCell
from mupc.sweep._transfer import EPOCHS, TransferStudy
from mupc.training import BATCH_SIZE, TrainConfig

TINY = [
    "--width", "8", "--hidden-layers", "2", "--large-width", "12", "--large-hidden-layers", "3", "--epochs", "0.5",
    "--seeds", "1", "--etas", "0.2", "0.05", "--activity-lrs", "0.4",
]  # fmt: skip


@pytest.fixture
def transfer(mupc, tmp_path):
    """Return a function that runs `mupc transfer` with tiny networks in its own folder."""

    def run(*argv, name="transfer"):
        return mupc("transfer", *TINY, "--out", tmp_path / name, *argv, folder=tmp_path / name)

    return run


def test_run_folder_and_screen(transfer):
    """If both networks have the same size, transfer is exact."""
    run = transfer("--verify", "--large-width", "8", "--large-hidden-layers", "2")
    assert run.code == 0, run.err
    assert {path.name for path in run.folder.iterdir()} == {"config.json", "metrics.jsonl", "summary.json", "figures"}
    assert (run.folder / "figures" / "transfer.png").exists()
    about = run.json("config.json")
    assert set(about) == {"format", "config", "versions", "device", "precision", "seed"}
    used = {"large_width": 8, "weight_lrs": [0.2, 0.05], "solver": "gd", "output_precision": 1.0, "init": "gaussian"}
    used |= {"precision": "float32", "task": "classification", "rate_scaling": "mup", "base_width": 64}
    assert about["config"].items() >= used.items()
    summary = run.json("summary.json")
    with jax.enable_x64(False):
        fit = library.fit(
            library.Network(64, 10, 8, 2, key=jr.key(0)), library.data.load("digits").with_validation(0.1, seed=0),
            library.GradientDescent(0.4, 2), weight_lr=summary["chosen"]["weight_lr"], epochs=0.5,
        )  # fmt: skip
    assert summary["chosen"] == summary["used"]
    for name in ("train_loss", "validation_loss", "test_accuracy"):
        assert summary["used"][name] == pytest.approx(fit.last[name], rel=1e-5)
    lowest = min(cell["train_loss"] for cell in summary["small"]["cells"])
    assert summary["regret"] == pytest.approx(summary["used"]["train_loss"] / lowest - 1)
    assert summary["saved"] == 0 and summary["diverged"] is False
    assert summary["large"]["size"] == {"width": 8, "hidden_layers": 2} and len(summary["large"]["cells"]) == 2
    scaled = "small network: learning rates scaled from 8 hidden layers of 64: updates of hidden weights × 4.9"
    assert run.out.splitlines()[:2] == [scaled, "tuning 2 hidden layers of 8 …"]
    assert f"regret: {100 * summary['regret']:.3g} %" in run.out
    assert "saved: tuning took 100 % of the operations" in run.out
    assert run.out.splitlines()[-1] == f"run folder {run.folder}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "flags", "algorithm"),
    [
        ("ipc", ["--activity-lrs", "0.4"], library.IPC(library.GradientDescent(0.4, 3))),
        ("alm", [], library.ALM(steps=8)),
        ("ep", ["--skip", "0"], library.EquilibriumPropagation()),
    ],
)
def test_every_method_trains_as_fit_does(mupc, tmp_path, method, flags, algorithm):
    """With as many steps as suit the large network, not the small one."""
    sizes = ["--width", "8", "--hidden-layers", "2", "--large-width", "12", "--large-hidden-layers", "3"]
    shared = ["--epochs", "0.5", "--seeds", "1", "--etas", "0.05", "--out", tmp_path / "run"]
    run = mupc("transfer", "--method", method, *sizes, *shared, *flags, folder=tmp_path / "run")
    assert run.code == 0, run.err
    with jax.enable_x64(False):
        network = library.Network(64, 10, 12, 3, skip=0 if method == "ep" else 1, key=jr.key(0))
        digits = library.data.load("digits").with_validation(0.1, seed=0)
        fit = library.fit(network, digits, algorithm, weight_lr=0.05, epochs=0.5)
    assert run.json("summary.json")["used"]["test_loss"] == pytest.approx(fit.last["test_loss"], rel=3e-4)


def stand_in(monkeypatch, large, interrupted=()):
    """Replace training by the loss 0.5 for the small network and the given one for the large one, or by an interruption
    at some widths. Return the widths and numbers of pairs that were asked for."""
    asked = []

    def train(self, size, rates, report):
        asked.append((size.width, len(rates)))
        if size.width in interrupted:
            raise KeyboardInterrupt
        loss = large if size.width == 12 else 0.5
        return [TransferCell(*pair, loss, loss, loss, 0.0, int(not math.isfinite(loss))) for pair in rates]

    monkeypatch.setattr(TransferStudy, "train", train)
    return asked


def test_json_alone(transfer, monkeypatch):
    stand_in(monkeypatch, 0.25)
    run = transfer("--json")
    summary = json.loads(run.out, parse_constant=pytest.fail)
    assert summary["regret"] is None and summary["own"] is None
    assert summary["train_loss"] == 0.25 and summary["chosen"]["train_loss"] == 0.5
    assert summary["out"] == str(run.folder)


def test_times_are_measured_ones(transfer, monkeypatch):
    """They count the pairs that ran. Scaled up to a whole grid, compiling would count once for every pair."""
    stand_in(monkeypatch, 0.25)
    clocks = r"\(\d+:\d\d for 2 pairs of rates here, \d+:\d\d for {} there, compiling included\)"
    assert re.search(clocks.format("1 pair of rates"), transfer().out)
    assert re.search(clocks.format("2 pairs of rates"), transfer("--verify").out)


def test_the_edge_of_the_grid(transfer, monkeypatch):
    stand_in(monkeypatch, 0.25)
    assert AT_EDGE in transfer().out.splitlines()
    assert AT_EDGE not in transfer("--etas", "0.1", name="alone").out


@pytest.mark.parametrize("counts", [(3, 2), (6, 6), (9, 8)])
@pytest.mark.parametrize("panels", [1, 2])
def test_nothing_of_the_figure_is_cut(tmp_path, monkeypatch, counts, panels):
    """Titles and labels lie within the figure, and no panel runs into the next."""
    boxes = []
    save = plots.style.save

    def measure(figure, path):
        save(figure, path)
        boxes.extend((axes.get_tightbbox(), figure.bbox) for axes in figure.axes)

    monkeypatch.setattr(plots.style, "save", measure)
    rates = [(1 / (eta + 2), 1 / (lr + 2)) for eta in range(counts[0]) for lr in range(counts[1])]
    cells = [{"weight_lr": eta, "activity_lr": lr, "loss": eta / lr} for eta, lr in rates]
    tried = [cells[0] | {"loss": None}, *cells[1:-1]]
    panel = {"title": "128 hidden layers of 1024: validation loss", "cells": tried, "marks": [("used", rates[0])]}
    plots.draw_transfer([panel | {"cells": cells}, panel][-panels:], tmp_path / "transfer.png")
    for inner, whole in boxes:
        assert whole.x0 <= inner.x0 and inner.x1 <= whole.x1 and whole.y0 <= inner.y0 and inner.y1 <= whole.y1
    assert len(boxes) == panels and (panels == 1 or boxes[0][0].x1 <= boxes[1][0].x0)


def test_a_large_network_that_diverges(transfer, monkeypatch):
    stand_in(monkeypatch, math.inf)
    run = transfer("--verify")
    assert run.code == cli.FAILURE
    assert run.err == "mupc transfer: the large network diverged with the rates of the small one.\n"
    assert "regret: unknown, the large network diverged with every rate that was tried" in run.out
    assert run.json("summary.json")["used"]["train_loss"] is None


def test_an_interruption_keeps_what_is_finished_and_the_same_command_goes_on(transfer, monkeypatch):
    stand_in(monkeypatch, 0.25, interrupted=[8])
    run = transfer()
    assert (run.code, run.err, run.folder.exists()) == (cli.INTERRUPTED, "mupc transfer: interrupted.\n", False)

    stand_in(monkeypatch, 0.25, interrupted=[12])
    run = transfer("--json")
    assert run.code == cli.INTERRUPTED
    kept = "finished and kept: 2 pairs of rates with 2 hidden layers of 8."
    assert run.err == f"mupc transfer: interrupted; {kept} Go on with the same flags and --out {run.folder}\n"
    assert json.loads(run.out)["interrupted"] and run.json("summary.json")["interrupted"]
    assert [(row["width"], row["weight_lr"]) for row in run.metrics] == [(8, 0.2), (8, 0.05)]

    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"width": 12, "hidden_la')  # of a process that was killed
    asked = stand_in(monkeypatch, 0.25)
    assert transfer().code == 0 and asked == [(12, 1)]
    summary = run.json("summary.json")
    assert not summary["interrupted"] and summary["train_loss"] == 0.25 and len(summary["small"]["cells"]) == 2
    assert [row["width"] for row in run.metrics] == [8, 8, 12]

    asked = stand_in(monkeypatch, 0.25)
    assert transfer("--verify").code == 0 and asked == [(12, 1)]  # the neighbour alone
    assert transfer("--verify").code == 0 and len(asked) == 1
    assert run.json("summary.json")["regret"] == 0


def test_sigterm_tells_how_far_it_came(transfer, monkeypatch):
    stand_in(monkeypatch, 0.25)
    trained = TransferStudy.train

    def train(self, size, rates, report):
        if size.width == 12:
            signal.raise_signal(signal.SIGTERM)
        return trained(self, size, rates, report)

    monkeypatch.setattr(TransferStudy, "train", train)
    ended = transfer()
    assert ended.code == 143 and "mupc transfer: interrupted; finished and kept: 2 pairs of rates with 2" in ended.err


def test_a_solver_without_a_rate(transfer, monkeypatch):
    """Its rates of the weights alone are tuned, around its own."""
    asked = stand_in(monkeypatch, 0.25)
    argv = ("transfer", "--solver", "error-space", "--width", "8", "--hidden-layers", "2")
    run = transfer("--solver", "error-space")
    assert run.code == cli.USAGE_ERROR and "--activity-lrs has no effect with --solver error-space" in run.err
    assert not run.folder.exists()
    monkeypatch.setattr(sys.modules[__name__], "TINY", [*argv[1:], "--large-width", "12", "--seeds", "1"])
    run = transfer()
    assert run.code == 0, run.err
    assert asked == [(8, 6), (12, 1)] and [row["activity_lr"] for row in run.metrics] == [None] * 7
    config = run.json("config.json")["config"]
    assert config["weight_lrs"] == [0.25, 0.1, 0.05, 0.025, 0.01, 0.005] and config["output_precision"] == 0.01
    assert (
        config["activity_lrs"] is None
        and config["rate_scaling"] == "mup"
        and (run.folder / "figures" / "transfer.png").exists()
    )
    assert transfer().code == 0 and len(asked) == 2  # everything is finished


@pytest.mark.parametrize("version", [1, 2])
def test_a_folder_of_an_earlier_version_goes_on(transfer, monkeypatch, version):
    """Format 1 does not say the solver, and has nulls where format 2 says what was used. Rates were not scaled."""
    stand_in(monkeypatch, 0.25)
    before = ("--rate-scaling", "none", "--schedule", "constant")
    run = transfer(*before)
    about = run.json("config.json")
    newer = ["method", "rate_scaling", "base_width", "base_hidden_layers"]
    for name in newer if version == 2 else [*newer, "solver", "target", "one_hot", "task", "test"]:
        del about["config"][name]
    if version == 1:
        about["config"]["init"] = about.pop("format") and None
    (run.folder / "config.json").write_text(json.dumps(about))
    asked = stand_in(monkeypatch, 0.25)
    scaled = transfer()
    assert scaled.code == cli.USAGE_ERROR and len(scaled.err.splitlines()) == 1
    assert "holds another run (its rate_scaling is none)" in scaled.err
    assert transfer(*before).code == 0 and asked == []
    (run.folder / "config.json").write_text(json.dumps(about))
    assert "its solver is gd" in transfer(*before, "--solver", "adam").err
    assert "its schedule is constant" in transfer("--rate-scaling", "none").err


def test_rates_without_scaling_and_without_predictive_coding(transfer, monkeypatch):
    """The default grid follows the rates that `mupc train` would take."""
    asked = stand_in(monkeypatch, 0.25)
    monkeypatch.setattr(sys.modules[__name__], "TINY", ["--width", "8", "--large-width", "12", "--seeds", "1"])
    backprop = transfer("--method", "bp", name="bp")
    assert backprop.code == 0
    config = backprop.json("config.json")["config"]
    assert (config["solver"], config["activity_lrs"], config["weight_lrs"][2]) == (None, None, 0.05)
    plain = transfer("--solver", "error-space", "--rate-scaling", "none", "--inference-steps", "2", name="plain")
    config = plain.json("config.json")["config"]
    assert (config["rate_scaling"], config["weight_lrs"][2], config["inference_steps"]) == ("none", 0.02, 2)
    assert "small network: learning rates not scaled" in plain.out
    assert asked == [(8, 6), (12, 1)] * 2
    other = transfer("--solver", "error-space", "--inference-steps", "2", name="plain")
    assert other.code == cli.USAGE_ERROR and "(its rate_scaling is none)" in other.err  # not: its weight_lrs


def test_divergence_is_remembered(transfer, monkeypatch):
    stand_in(monkeypatch, math.inf)
    assert transfer().code == cli.FAILURE
    asked = stand_in(monkeypatch, 0.25)
    again = transfer()
    assert again.code == cli.FAILURE and asked == []
    assert again.json("summary.json")["used"]["diverged"] == 1


@pytest.mark.slow
def test_folders_of_other_runs_are_refused(transfer, train, monkeypatch):
    stand_in(monkeypatch, 0.25)
    first = transfer()
    before = first.metrics
    for run in (transfer("--epochs", "0.25"), transfer(name=train("--quiet", "--epochs", "0.1").folder)):
        assert run.code == cli.USAGE_ERROR and len(run.err.splitlines()) == 1
        assert "holds another run (its " in run.err and "choose another folder" in run.err
    assert first.metrics == before


@pytest.mark.parametrize(
    ("argv", "help"),
    [
        (["--data", "mnits"], "did you mean 'mnist'?"),
        (["--width", "0"], "--width must be at least 1, got 0"),
        (["--large-hidden-layers", "0"], "--large-hidden-layers must be at least 1, got 0"),
        (["--blocks", "2"], "--blocks has no effect with --model mlp: leave it out"),
        (["--model", "resnet"], "--hidden-layers has no effect with --model resnet: leave it out"),
        (["--etas", "-1"], "--weight-lrs (--etas) must be greater than 0, got -1"),
        (["--etas"], "--weight-lrs (--etas) is empty. Give at least one learning rate"),
        (["--activity-lrs"], "--activity-lrs is empty"),
        (["--seeds", "0"], "--seeds must be at least 1"),
        (["--epochs", "0"], "--epochs must be greater than 0"),
        (["--batch-size", "5000"], "Use a smaller batch"),
        (["--skip", "2"], "Use a shorter skip"),
        (["--large-width", "300000"], "a network of this size needs"),
        (["--validation", "2"], "a fraction between 0 and 1"),
        (["--base-width", "0"], "--base-width must be at least 1, got 0"),
        (["--rate-scaling", "mup", "--parameterisation", "sp"], "has no rule for the parameterisation sp"),
        (["--parameterisation", "sp", "--base-hidden-layers", "4"], "--base-hidden-layers has no effect"),
        (["--method", "bp"], "--activity-lrs has no effect with --method bp: leave it out, or use --method pc"),
        (["--method", "alm"], "--activity-lrs has no effect with --method alm"),
        (["--method", "zil", "--solver", "gd"], "--solver gd has no effect with --method zil"),
        (["--method", "nudged", "--solver", "error-space"], "--activity-lrs has no effect with --solver error-space"),
    ],
)
def test_mistakes(transfer, argv, help):
    run = transfer("--quiet", *argv)
    assert run.code == cli.USAGE_ERROR, run.err
    assert run.err.startswith("mupc transfer: ") and len(run.err.splitlines()) == 1
    assert help in run.err
    assert run.out == "" and not run.folder.exists()


def test_defaults_are_those_of_the_library():
    flags = vars(GridFlags()) | vars(TransferLearningFlags()) | vars(UpdateFlags())
    defaults = {field.name: field.default for of in (TrainConfig, TransferStudy) for field in dataclasses.fields(of)}
    for name in (*vars(UpdateFlags()), "seed", "seeds", "inference_steps", "verify"):
        assert flags[name] == defaults[name], name
    assert (flags["epochs"], flags["batch_size"]) == (EPOCHS, BATCH_SIZE)
    assert TransferDataFlags().validation == inspect.signature(library.transfer).parameters["validation"].default
