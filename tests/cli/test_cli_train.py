"""`mupc train`: the run folder, repeating a run, and what is printed."""

import dataclasses
import json
import typing

import pytest
from rich.console import Console

from mupc import plots
from mupc.cli import config, flags, train_report
from mupc.cli.building import METHODS, SOLVERS, make_solver
from mupc.cli.config import TrainFlags
from mupc.cli.parsing import flag
from mupc.cli.runner import Session
from mupc.cli.train_job import Recorder
from mupc.data._targets import _TASKS
from mupc.inference._energy import LOSSES
from mupc.io import Interruption
from mupc.learning._optimiser import OPTIMISERS, SCHEDULES
from mupc.network._activation import ACTIVATIONS
from mupc.network._parameterisation import INITS, PARAMETERISATIONS
from mupc.network._precision import POLICIES

TIMES = ("seconds", "steps_per_second")


def numbers(records):
    return [{key: value for key, value in record.items() if key not in TIMES} for record in records]


def test_run_folder(train):
    run = train("--tensorboard", "--validation", "0.2")
    assert run.code == 0, run.err
    names = {path.name for path in run.folder.iterdir() if path.name != ".lock"}
    files = {"config.json", "metrics.jsonl", "schema.json", "summary.json"}
    assert names == files | {"figures", "tensorboard", "checkpoints"}
    assert {path.name for path in (run.folder / "figures").iterdir()} == {"learning-curve.png", "credit-reach.png"}
    assert any((run.folder / "tensorboard").iterdir())

    about = run.json("config.json")
    assert set(about) == {"format", "config", "safety", "versions", "device", "precision", "seed"}
    assert about["config"]["width"] == 8 and about["config"]["validation"] == 0.2
    assert set(about["config"]) == {field.name for field in dataclasses.fields(TrainFlags)}
    assert {"mupc", "jax", "python"} <= set(about["versions"])

    assert [record["step"] for record in run.metrics] == [0, 11, 18]
    assert "train_loss" not in run.metrics[0]
    assert {"train_loss", "test_accuracy", "validation_accuracy", "learning_layers", "epoch"} <= set(run.metrics[-1])

    summary = run.json("summary.json")
    assert summary["test_accuracy"] == run.metrics[-1]["test_accuracy"]
    assert summary["train_loss"] == run.metrics[-1]["train_loss"]
    assert summary["steps"] == 18
    assert summary["seconds_per_step"] > 0
    found = summary["credit_reach"]
    assert {"learning_layers", "reach", "ratio", "threshold", "evidence"} < set(found)
    for name in ("gradient_norms", "entry_sizes", "backprop_norms", "backprop_cosines", "energy_shares"):
        assert len(found[name]) == found["layers"] == 4
    assert sum(found["energy_shares"]) == pytest.approx(1)
    assert found["regime"] == run.metrics[-1]["regime"]
    assert summary["diverged"] is False and summary["interrupted"] is False
    assert summary["precision"] == "float32"
    assert summary["data"] == {"name": "digits", "official": True, "source": summary["data"]["source"]}
    assert summary["out"] == str(run.folder)


def test_plain_lines(train):
    run = train()
    assert "\x1b" not in run.out
    assert run.out.startswith(
        "digits: 3 hidden layers of 8 units, 720 weights, mupc, pc by error-space, λ = 0.01\nfloat32 "
    )
    assert "step 11/22" in run.out and "accuracy" in run.out and "compiling" in run.out
    assert str(run.folder) in run.out.splitlines()[-1]


@pytest.mark.slow
def test_repeat_and_override(train):
    first = train("--seed", "3")
    again = train("--config", first.folder / "config.json", name="again", tiny=False)
    assert again.code == 0, again.err
    assert numbers(again.metrics) == numbers(first.metrics)
    assert again.json("config.json") == first.json("config.json")
    other = train("--config", first.folder, "--seed", "4", name="other", tiny=False)
    assert other.json("config.json")["config"] == first.json("config.json")["config"] | {"seed": 4}
    assert numbers(other.metrics) != numbers(first.metrics)


def test_json_prints_one_object_and_nothing_else(train):
    run = train("--json", "--method", "bp")
    assert json.loads(run.out) == run.json("summary.json")
    assert run.err == ""
    assert run.json("summary.json")["credit_reach"] == {
        "learning_layers": 4,
        "layers": 4,
        "regime": "backprop",
    }
    assert not (run.folder / "figures" / "credit-reach.png").exists()


def test_quiet(train):
    run = train("--quiet")
    assert (run.code, run.out, run.err) == (0, "", "")


@pytest.mark.slow
def test_few_layers_learn(train):
    run = train("--solver", "gd", "--activity-lr", "1e-9")
    (line,) = (line for line in run.out.splitlines() if "of 4 layers learn" in line)
    assert line.startswith(
        "1 of 4 layers learn (gradient entries of 3.4e-07 or more), regime: shallow; try --solver err"
    )
    assert run.json("summary.json")["credit_reach"]["regime"] == "shallow"


@pytest.mark.parametrize(
    ("changes", "cure"),
    [
        ({"solver": "gd"}, "--solver error-space"),
        ({"solver": "gd", "weight_lr": 0.1}, "--solver error-space --weight-lr 0.05"),
        ({"solver": "gd", "output_precision": 1.0}, "--solver error-space --output-precision 0.01"),
        ({"method": "bp", "parameterisation": "sp"}, "--parameterisation mupc"),
        ({"solver": "error-space", "optimiser": "sgd"}, "--optimiser adam"),
        ({}, "--optimiser lion"),
    ],
)
def test_the_flag_that_makes_layers_learn(changes, cure):
    config = dataclasses.replace(TrainFlags(), **changes)
    few = {"learning_layers": 2, "layers": 5, "regime": "shallow"}
    assert train_report.describe_reach(config, few).endswith(f"; try {cure}")
    assert train_report.describe_reach(config, few | {"learning_layers": 3}).endswith("regime: shallow")


def test_a_run_that_lost_accuracy_says_what_it_had(monkeypatch):
    said = []
    monkeypatch.setattr(Session, "say", lambda self, line: said.append(line))
    session = Session("mupc train", Console(quiet=True), Interruption("mupc train"))
    summary = {
        **dict.fromkeys(train_report.SUMMARISED), "interrupted": False, "diverged": False,
        "test_loss": 0.1, "test_accuracy": 0.5, "best_test_accuracy": 0.875,
        "seconds_per_step": 0.001, "steps": 7, "seconds": 1.0, "warnings": [], "out": "runs/x", "restored": False,
        "credit_reach": {"learning_layers": 4, "layers": 5, "regime": "equilibrium"},
    }  # fmt: skip
    train_report.conclude(TrainFlags(), summary, session)
    assert said[0].startswith("test accuracy 50.0 %, 87.5 % at its best, after 7 steps")
    train_report.conclude(TrainFlags(), summary | {"test_accuracy": 0.87}, session)
    assert "test accuracy 87.0 % after 7 steps in 0:01 (1 ms per step)" in said


@pytest.mark.parametrize(
    ("scores", "line"),
    [
        ({"test_accuracy": 0.5, "best_test_accuracy": 0.9, "restored": True}, "test accuracy 50.0 %"),
        (
            {"test_r2": 0.5, "test_mae": 12.0, "test_rmse": 1e3},
            "test R² 0.500, MAE 12 and RMSE 1000 in units of the tar",
        ),
        ({"test_r2": None, "test_mae": 12.0, "test_rmse": 1e3}, "test R² unknown, MAE 12"),
        (
            {"test_accuracy": 0.5, "test_loss": 1.5, "test_bits_per_character": 2.164, "test_perplexity": 4.4817},
            "test perplexity 4.482, 1.500 nats or 2.164 bits per character, accuracy 50.0 %",
        ),
        ({}, "test loss 0.2500 (½ the sum over outputs)"),
        ({"test_loss": None}, "training loss 0.1250 (½ the sum over outputs)"),
        ({"test_loss": None, "validation_loss": 0.5, "validation_accuracy": 0.75}, "validation accuracy 75.0 %"),
    ],
)
def test_the_quality_of_a_network(scores, line):
    nothing = dict.fromkeys(train_report.SUMMARISED) | {"restored": False, "best_test_accuracy": None}
    summary = nothing | {"test_loss": 0.25, "train_loss": 0.125} | scores
    assert train_report.describe_quality(TrainFlags(), summary).startswith(line)
    line = line.replace("½ the sum over outputs", "cross-entropy in nats")
    assert train_report.describe_quality(TrainFlags(loss="cross-entropy"), summary).startswith(line)


def test_early_stopping_keeps_the_best(train, mupc):
    """A rate that is too high: the network gets worse after its best evaluation. Then with more patience."""
    flags = ("--validation", "0.2", "--weight-lr", "3", "--patience", "2", "--evaluate-every", "3", "--epochs", "3")
    run = train(*flags, "--method", "bp")
    assert run.code == 0, run.err
    scores = [(record["validation_accuracy"], -record["validation_loss"]) for record in run.metrics]
    best = max(range(len(scores)), key=lambda i: scores[i])
    assert len(scores) == best + 3 < 19  # two evaluations after it
    summary = run.json("summary.json")
    assert summary["kept_step"] == run.metrics[best]["step"] and not summary["interrupted"]
    assert summary["test_accuracy"] == run.metrics[best]["test_accuracy"]
    assert f"% at step {summary['kept_step']}, was kept" in run.out
    safety = {"patience": 2, "restore_best": True, "on_divergence": "stop"}
    assert run.json("config.json")["safety"] == safety | {"keep": 2, "checkpoint_every": None}

    done = mupc("train", "--resume", run.folder)
    assert done.code == 0 and "is finished" in done.out
    more = mupc("train", "--resume", run.folder, "--patience", "3", "--quiet")
    assert more.code == 0, more.err
    assert len(run.metrics) > len(scores) and run.metrics[: len(scores)][-1]["step"] == 3 * (best + 2)


SLOW = ("adam", "ode")


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver",
    [pytest.param(name, marks=pytest.mark.zoo if name in SLOW else ()) for name in typing.get_args(flags.Solver)],
)
def test_every_solver_trains(train, solver):
    activation = "linear" if solver == "exact-linear" else "relu"
    run = train("--solver", solver, "--activation", activation, "--epochs", "0.2", "--quiet")
    assert run.code == 0, run.err
    summary = run.json("summary.json")
    assert summary["steps"] == 4 and summary["warnings"] == []
    assert summary["test_loss"] < run.metrics[0]["test_loss"]


@pytest.mark.slow
def test_automatic_step_size_is_kept_in_the_configuration(train):
    run = train("--solver", "gd", "--activity-lr", "auto", "--epochs", "0.1", "--quiet")
    assert run.code == 0, run.err
    assert config.load(run.folder).activity_lr == "auto"
    assert config.from_dict({"activity_lr": 1}).activity_lr == 1.0
    assert isinstance(config.from_dict({"activity_lr": 1}).activity_lr, float)
    assert make_solver(TrainFlags(solver="gd", activity_lr="auto", inference_steps=7)).steps == 7
    assert make_solver(TrainFlags(solver="gd", hidden_layers=5)).steps == 5


def test_divergence(train):
    run = train("--weight-lr", "1e30", "--evaluate-every", "2")
    assert run.code == 1
    assert len(run.err.splitlines()) == 1 and "diverged" in run.err and "Lower the learning rates" in run.err
    summary = run.json("summary.json")
    assert summary["diverged"] is True
    assert summary["train_loss"] is None and summary["test_accuracy"] is not None
    assert run.metrics[-1]["diverged"] is True
    assert (run.folder / "figures" / "learning-curve.png").exists()


@pytest.mark.slow
def test_interruption_keeps_what_was_recorded(train, monkeypatch):
    show = Recorder.__call__

    def interrupt(self, status):
        show(self, status)
        if status.record["step"] > 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(Recorder, "__call__", interrupt)
    run = train()
    assert run.code == 130
    assert len(run.err.splitlines()) == 1
    assert f"interrupted at step 11 of 22; go on with `mupc train --resume {run.folder}`." in run.err
    assert run.json("summary.json")["interrupted"] is True
    assert run.json("summary.json")["steps"] == 11
    assert len(run.metrics) == 2


@pytest.mark.slow
def test_default_folders_are_numbered(mupc, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "digits-bp-1").mkdir(parents=True)
    run = mupc("train", "--method", "bp", "--width", "4", "--hidden-layers", "2", "--epochs", "0.1", "--quiet")
    assert run.code == 0
    assert (tmp_path / "runs" / "digits-bp-2" / "summary.json").exists()
    assert not any((tmp_path / "runs" / "digits-bp-1").iterdir())


@pytest.mark.slow
def test_float64(train):
    run = train("--precision", "float64", "--method", "bp")
    assert run.json("summary.json")["precision"] == "float64"


def test_choices_are_those_of_the_library():
    tables = {
        flags.Activation: ACTIVATIONS,
        flags.Parameterisation: PARAMETERISATIONS,
        flags.Init: INITS,
        flags.Loss: LOSSES,
        flags.Optimiser: OPTIMISERS,
        flags.Schedule: SCHEDULES,
        flags.Precision: POLICIES,
        flags.AutoPrecision: {*POLICIES, "auto"},
        typing.get_type_hints(TrainFlags)["task"]: {*_TASKS, "text"},
        flags.Solver: SOLVERS,
        flags.Method: METHODS,
    }
    for literal, table in tables.items():
        assert set(typing.get_args(literal)) == set(table)


@pytest.mark.parametrize("name", ["μPC", "regression"])
def test_learning_curve(tmp_path, name):
    key = "test_accuracy" if name == "μPC" else "test_loss"
    records = [{"epoch": e, "train_loss": 1 / (e + 1), key: 0.1 * e, "diverged": e == 3} for e in range(4)]
    plots.draw_learning_curve({name: records, "empty": []}, tmp_path / "new" / "curve.png")
    assert 0 < (tmp_path / "new" / "curve.png").stat().st_size < 300_000


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0.0, 1e-8])
def test_credit_reach_figure(tmp_path, threshold):
    """Layers without any gradient, and without backpropagation to compare with, are left out."""
    lists = {"entry_sizes": [0.0, 1e-20, 1e-3], "energy_shares": [0.0, 0.1, 0.9]}
    nothing = {"backprop_sizes": [None] * 3, "backprop_cosines": [None] * 3}
    about = {"layers": 3, "learning_layers": 1, "regime": "shallow", "threshold": threshold}
    plots.draw_credit_reach(lists | nothing | about, tmp_path / "new" / "reach.png")
    assert 0 < (tmp_path / "new" / "reach.png").stat().st_size < 300_000


@pytest.mark.slow
def test_inference_that_climbs_is_told(train):
    run = train("--solver", "gd", "--activity-lr", "1000", "--hidden-layers", "2")
    (line,) = run.json("summary.json")["warnings"]
    assert line.startswith("inference raised the energy")
    assert "--activity-lr" in line
    assert f"warning: {line}" in " ".join(run.out.split())


@pytest.mark.parametrize(
    ("settings", "energy", "told"),
    [
        ({"solver": "gd"}, 2.1, True),
        ({"solver": "gd"}, 1.9, False),
        ({"method": "nudged", "nudge": 3.0}, 5.9, False),
        ({"method": "nudged", "nudge": 3.0}, 6.1, True),
        ({"method": "nudged", "nudge": 0.5, "final_nudge": 3.0}, 5.9, False),
        ({"method": "nudged", "nudge": 0.5, "nudge_sign": "negative"}, -1.1, False),
        ({"method": "nudged", "nudge": 0.5, "nudge_sign": "negative"}, -0.9, True),
        ({"method": "zil"}, 4.0, False),  # this and those below record another energy, or start elsewhere
        ({"method": "bp"}, 4.0, False),
        ({"method": "ep"}, 4.0, False),
        ({"method": "alm"}, 4.0, False),
        ({"method": "ipc"}, 4.0, False),
        ({"method": "amortised"}, 4.0, False),
    ],
)
def test_inference_starts_at_the_loss_times_the_nudge(settings, energy, told):
    """With λ = ½ and a loss of 4."""
    record = {"step": 1, "train_loss": 4.0, "energy": energy, "diverged": False}
    found = train_report.instabilities(TrainFlags(output_precision=0.5, **settings), [record])
    assert [line[:28] for line in found] == ["inference raised the energy "] * told


def test_a_loss_that_rises_again_is_told():
    records = [{"step": s, "train_loss": loss, "energy": loss, "diverged": False} for s, loss in ((1, 0.01), (2, 0.5))]
    used = TrainFlags(solver="gd", output_precision=1.0)
    (line,) = train_report.instabilities(used, records)
    assert "rose from 0.01 at step 1 to 0.5" in line
    assert train_report.instabilities(used, records[:1]) == []


def test_messages_name_flags():
    flags = {"lr": "--activity-lr", "hidden_layers": "--hidden-layers", "cg_steps": "--cg-steps"}
    flags |= {"steps": "--inference-steps", "ErrorSpace": "--solver error-space", "Energy": "mupc.Energy"}
    assert {name: flag(name) for name in flags} == flags
