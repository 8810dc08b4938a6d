"""`config.json`: every value as used, what format 1 meant, and flags that follow others."""

import dataclasses
import json

import pytest

import mupc as library
from mupc.cli import train_job, train_report
from mupc.cli.building import METHODS, SOLVERS, as_used, build, load_data, make_algorithm
from mupc.cli.config import METHOD_FLAGS, SOLVER_FLAGS, TrainFlags, from_dict, load
from mupc.cli.flags import DEFAULT_SOLVERS, SOLVER
from mupc.cli.format_1 import DEFAULTS

SMALL = {"width": 8, "hidden_layers": 3, "epochs": 0.5}
OLD_RUNS = {  # flags of the last version that wrote format 1, and the losses that it came to
    (): (0.38231992721557617, 0.3692828118801117),
    ("solver", "error-space"): (0.4628375768661499, 0.46508297324180603),
    ("method", "bp"): (0.4610249996185303, 0.46429193019866943),
}
MEANT = {
    "gd": {"activity_lr": 0.05, "momentum": 0.0, "inference_steps": 3, "weight_lr": 0.1},
    "adam": {"activity_lr": 0.01, "inference_steps": 3, "weight_lr": 0.1},
    "error-space": {"cg_steps": 2, "inference_steps": 1, "weight_lr": 0.01},
    "exact-linear": {"inference_steps": 1, "weight_lr": 0.1},
    "ode": {"end_time": 10.0, "inference_steps": 4096, "inference_tol": 0.001, "weight_lr": 0.1},
}

REACHING, *_ = library.PC(library.ErrorSpace()).defaults
"""The rate of error space, and of backpropagation."""


def used(**flags):
    """The settings of a run of digits, as used."""
    given = TrainFlags(**flags)
    dataset = load_data(given)
    return as_used(given, dataset, *build(given, dataset))


@pytest.mark.parametrize(
    "flag", [pytest.param(flag, marks=() if "bp" in flag else pytest.mark.slow) for flag in OLD_RUNS]
)
def test_a_configuration_of_format_1_repeats_its_run(train, tmp_path, flag):
    """As the last version with that format wrote it: every key, with nulls for what was chosen by default."""
    file = tmp_path / "config.json"
    config = DEFAULTS | SMALL | dict([flag] if flag else [])
    file.write_text(json.dumps({"format": 1, "config": config, "safety": {"keep": 2, "checkpoint_every": None}}))
    run = train("--config", file, "--quiet", "--no-tensorboard", tiny=False)
    assert run.code == 0, run.err
    losses = [run.json("summary.json")[name] for name in ("train_loss", "test_loss")]
    assert losses == pytest.approx(OLD_RUNS[flag], rel=1e-5)
    assert run.json("config.json")["format"] == 2
    again = train("--config", run.folder, "--quiet", "--no-tensorboard", tiny=False, name="again")
    assert [again.json("summary.json")[name] for name in ("train_loss", "test_loss")] == losses


@pytest.mark.parametrize("solver", MEANT)
def test_what_format_1_meant(solver):
    old = from_dict({"solver": solver, "hidden_layers": 3}, version=1)
    unused = dict.fromkeys(SOLVER_FLAGS)
    always = {"solver": solver, "width": 64, "hidden_layers": 3, "output_precision": 1.0, "precision": "float32"}
    always |= {"batch_size": 64}
    assert old == TrainFlags(
        **unused | always | {"loss": "mse", "rate_scaling": "none", "schedule": "constant"} | MEANT[solver]
    )
    assert from_dict({}, version=1).solver == "gd"


def test_format_1_keeps_what_was_given():
    given = {"weight_lr": 0.3, "activity_lr": "auto", "momentum": 0.9, "output_precision": 0.2}
    old = from_dict(given, version=1)
    assert {name: getattr(old, name) for name in given} == given and old.inference_steps is None
    bp = from_dict({"method": "bp", "solver": "error-space", "output_precision": 0.5, "cg_steps": 4}, version=1)
    assert (bp.solver, bp.cg_steps, bp.output_precision, bp.weight_lr) == (None, None, None, 0.01)


@pytest.mark.parametrize("solver", [None, *SOLVERS])
def test_every_value_is_kept_as_used(solver):
    """What is None is off, or has no meaning for the solver; and the values mean themselves."""
    activation = "linear" if solver == "exact-linear" else "relu"
    found = used(**SMALL, solver=solver, activation=activation)
    assert found.solver == (solver or SOLVER)
    meaningless = {*SOLVER_FLAGS, *METHOD_FLAGS} - set(SOLVERS[found.solver].flags) - {"inference_tol"}
    off = {
        "data_dir",
        "target",
        "test",
        "image_size",
        "context",
        "inference_tol",
        "blocks",
        "convolutions",
        "vgg",
        "heads",
    }
    assert {name for name, value in vars(found).items() if value is None} - off == meaningless
    assert found.output_precision == (0.01 if found.solver == "error-space" else 1.0)
    assert found.weight_lr == (REACHING if found.solver == "error-space" else 0.2)
    assert used(**vars(found)) == found


@pytest.mark.parametrize("method", METHODS)
def test_every_value_of_a_method_is_kept_as_used(method):
    """Flags of other methods, and of solvers where there is none, are None."""
    found = used(**SMALL, method=method, skip=0)
    known = {*METHODS[method].flags, *(SOLVERS[found.solver].flags if method in DEFAULT_SOLVERS else ())}
    kept = {name for name in (*SOLVER_FLAGS, *METHOD_FLAGS) if getattr(found, name) is not None}
    assert kept == known - {"inference_tol", "final_nudge"}
    assert used(**vars(found)) == found
    assert found.weight_lr == make_algorithm(found).defaults.weight_lr


def test_backpropagation_as_used():
    found = used(**SMALL, method="bp")
    assert found.weight_lr == REACHING and found.evaluate_every == 2
    assert {found.solver, found.output_precision, *(getattr(found, name) for name in SOLVER_FLAGS)} == {None}
    assert used(**SMALL, method="bp", weight_lr=0.3).weight_lr == 0.3


@pytest.fixture
def repeated(mupc, tmp_path, monkeypatch):
    """Returns the flags with which `mupc train` would begin, over those of an earlier run."""

    def run(earlier, *argv):
        content = {"format": 2, "config": vars(used(**SMALL, **earlier))}
        (tmp_path / "config.json").write_text(json.dumps(content))
        begun = []
        monkeypatch.setattr(train_job, "train", lambda flags, *rest: begun.append(flags) or {"diverged": False})
        ended = mupc("train", "--config", tmp_path, *argv)
        assert ended.code == 0, ended.err
        return load(tmp_path), used(**vars(begun[0]))

    return run


@pytest.mark.parametrize(
    ("earlier", "argv", "changed"),
    [
        ({}, (), {}),
        ({}, ("--solver", "gd"), {"output_precision": 1.0, "cg_steps": None} | MEANT["gd"] | {"weight_lr": 0.2}),
        ({}, ("--solver", "gd", "--weight-lr", "0.01"), {"solver": "gd", "weight_lr": 0.01}),
        ({"solver": "gd"}, ("--solver", "error-space", "--weight-lr", "0.1"), {"weight_lr": 0.1, "activity_lr": None}),
        ({"solver": "gd", "weight_lr": 0.3}, ("--solver", "gd"), {"weight_lr": 0.3}),
        ({"solver": "gd"}, ("--method", "bp"), {"solver": None, "weight_lr": REACHING, "activity_lr": None}),
        ({"method": "bp", "weight_lr": 0.3}, ("--method", "pc"), {"solver": "error-space", "weight_lr": REACHING}),
        (
            {},
            ("--parameterisation", "orthogonal"),
            {"init": "orthogonal", "rate_scaling": "none", "base_width": 64, "weight_lr": REACHING},
        ),
        (
            {"parameterisation": "orthogonal"},
            ("--parameterisation", "mupc"),
            {"init": "gaussian", "rate_scaling": "mup"},
        ),
        ({"weight_lr": 0.05, "base_width": 32}, ("--rate-scaling", "none"), {"weight_lr": 0.05, "base_width": 64}),
        ({"base_width": 32}, ("--parameterisation", "sp"), {"rate_scaling": "none", "base_width": 64}),
    ],
)
def test_what_follows_another_setting(repeated, earlier, argv, changed):
    """Another solver, method or parameterisation starts from its own defaults, unless they are given."""
    before, after = repeated(earlier, *argv)
    assert {name: getattr(after, name) for name in changed} == changed
    if not argv:
        assert after == before
    same = ("width", "hidden_layers", "epochs", "seed", "evaluate_every")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]


def test_the_cost_of_many_steps_is_told():
    deep = TrainFlags(solver="gd", hidden_layers=1000, inference_steps=1000)
    (line,) = train_report.notes(deep)
    assert "1000 steps" in line and "--inference-steps 32 would take about 1/31 of the time" in line
    for changes in ({"inference_steps": 32}, {"solver": "error-space"}, {"hidden_layers": 128, "inference_steps": 128}):
        assert train_report.notes(dataclasses.replace(deep, **changes)) == []


def test_a_configuration_without_scaling_means_none():
    """It was written before rates were scaled. A run of today says what it did."""
    for version in (1, 2):
        assert from_dict({"hidden_layers": 3}, version=version).rate_scaling == "none"
    assert used().rate_scaling == "mup"
    assert used(parameterisation="sp").rate_scaling == "none"
    assert from_dict(vars(used())).rate_scaling == "mup"


def test_a_configuration_without_a_loss_means_squared_error(tmp_path):
    """It was written before the loss followed the data. A run of today says what it did."""
    (tmp_path / "text.txt").write_text("abcd" * 500)
    text = library.data.load(tmp_path / "text.txt", context=8)
    for version in (1, 2):
        assert from_dict({"hidden_layers": 3}, version=version).loss == "mse"
    flags = TrainFlags(data=str(tmp_path / "text.txt"), context=8, model="transformer", blocks=(1,), width=8)
    for given, found in ((None, "cross-entropy"), ("mse", "mse"), ("cross-entropy", "cross-entropy")):
        chosen = dataclasses.replace(flags, loss=given)
        assert as_used(chosen, text, *build(chosen, text)).loss == found
    assert used().loss == "mse"


def test_a_configuration_without_a_schedule_means_constant(mupc):
    """It does not say what the default was. A run of today says what it did."""
    for version in (1, 2):
        assert from_dict({"hidden_layers": 3}, version=version).schedule == "constant"
    assert used().schedule == "cosine" and used(schedule="linear").schedule == "linear"
    assert f"(default: {used().schedule})" in " ".join(mupc("train", "--help").out.split())
