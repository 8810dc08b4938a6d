"""Every mistake ends in one helpful line and a non-zero exit code, and leaves no folder behind."""

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys

import pytest

from mupc import cli


@pytest.mark.parametrize(
    ("argv", "help"),
    [
        (["--data", "mnits"], "did you mean 'mnist'?"),
        (["--depth", "4"], "there is no --depth: did you mean --hidden-layers?"),
        (["--lr=0.1"], "there is no --lr: did you mean --weight-lr or --activity-lr?"),
        (["--wdith", "4"], "unrecognised options: --wdith, 4; did you mean --width? `mupc train --help` lists"),
        (["--width", "20000", "--hidden-layers", "640"], "a network of this size needs about 7651.4 GiB, and"),
        (["--evaluate-every", "0"], "--evaluate-every must be at least 1, got 0"),
        (["--epochs", "1e30"], "--epochs 1e+30 of digits are 2,147,483,648 steps or more"),
        (["--epochs", "x"], "error parsing --epochs: could not convert string to float: 'x'; `mupc train --help`"),
        (["--solver", "gdd"], "--solver 'gdd' is not known. Did you mean 'gd'? Choose one of: gd, adam, "),
        (["--activation", "tanhh"], "Did you mean 'tanh'? Choose one of: linear, tanh"),
        (["--data", "absent.npz"], "there is no such file"),
        (
            ["--patience", "2"],
            "--patience needs a validation split, and digits does not have one. Hold one out with --validation",
        ),
        (["--restore-best"], "--restore-best needs a validation split"),
        (["--patience", "0", "--validation", "0.1"], "--patience must be at least 1, got 0"),
        (["--target", "price"], "--target has no effect on 'digits'"),
        (["--device", "gpu"], "--device gpu is not there, JAX finds the CPU: leave it out, or install JAX"),
        (["--device", "tpu"], "--device 'tpu' is not known. Did you mean 'gpu'? Choose one of: cpu, gpu."),
        (["--width", "0"], "width must be at least 1"),
        (["--epochs", "-1"], "epochs must be greater than 0"),
        (["--batch-size", "5000"], "Use a smaller batch"),
        (["--batch-size", "0"], "--batch-size must be at least 1"),
        (["--skip", "7"], "--skip 7 needs more than 7 --hidden-layers, got 3. Use a shorter skip"),
        (["--validation", "2"], "a fraction between 0 and 1"),
        (["--config", "absent.json"], "cannot be read"),
        (["--data", "mnist", "--data-dir", "absent"], "is not a folder"),
        (["--activity-lr", "0.1"], "no effect with the default solver, error-space: leave it out, or use --solver gd"),
        (["--activity-lr", "-1", "--solver", "gd"], "lr must be greater than 0"),
        (["--activity-lr", "atuo", "--solver", "gd"], "--activity-lr must be a number or \"auto\", got 'atuo'"),
        (["--activity-lr", "auto", "--solver", "adam"], "--activity-lr auto needs --solver gd"),
        (
            ["--cg-steps", "7", "--solver", "gd"],
            "no effect with --solver gd: leave it out, or use --solver error-space",
        ),
        (["--cg-steps", "0"], "--cg-steps must be at least 1"),
        (["--output-precision", "0"], "--output-precision must be greater than 0"),
        (["--end-time", "-1", "--solver", "ode"], "--end-time must be greater than 0"),
        (["--inference-tol", "0"], "--inference-tol must be greater than 0"),
        (["--solver", "exact-linear"], "--solver exact-linear needs a linear network, got activation 'relu'"),
    ],
)
def test_wrong_values(train, argv, help):
    run = train("--quiet", *argv)
    assert run.code == cli.USAGE_ERROR, run.err
    assert run.err.startswith("mupc train: ") and len(run.err.splitlines()) == 1
    assert help in run.err
    assert run.out == ""
    assert not run.folder.exists()


@pytest.mark.parametrize(
    ("content", "help"),
    [
        ({"config": {"widht": 4}}, "did you mean 'width'?"),
        ({"width": "wide"}, "width = 'wide': it must be a whole number"),
        ({"width": True}, "it must be a whole number"),
        ({"loss": "mae"}, "it must be one of mse, cross-entropy"),
        ({"init": 3}, "or null"),
        ({"activity_lr": True}, "it must be a number or text or null"),
        ({"activity_lr": "atuo"}, "--activity-lr must be a number or \"auto\", got 'atuo'"),
        ({"xyzzy": 3}, "`mupc train --help` lists them all"),
        ({"config": {"solver": "errorspace"}}, "Did you mean 'error-space'?"),
        ({"format": 3, "config": {}}, "is of format 3, and only 1 and 2 are known here: update mupc"),
        ({"format": True, "config": {}}, "is of format True"),
        ({"format": 2, "config": {"activity_lr": 0.1}}, "no effect with the default solver, error-space"),
        ({"format": 1, "config": {"cg_steps": 7}}, "--cg-steps 7 has no effect with --solver gd"),
        ({"format": "1", "config": {}}, "is of format '1'"),
        ([1], "holds no configuration"),
        ("{", "is not JSON"),
    ],
)
def test_wrong_config_files(train, tmp_path, content, help):
    file = tmp_path / "c.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    run = train("--config", file)
    assert run.code == cli.USAGE_ERROR, run.err
    assert len(run.err.splitlines()) == 1 and help in run.err


def test_wrong_flag_and_wrong_choice(train):
    run = train("--widht", "4")
    assert run.code == cli.USAGE_ERROR and "--width" in run.err
    run = train("--loss", "mae")
    assert run.code == cli.USAGE_ERROR and "cross-entropy" in run.err


def test_folders_that_cannot_be_used(mupc, tmp_path):
    file = tmp_path / "file"
    file.touch()
    full = tmp_path / "full"
    full.mkdir()
    (full / "precious").touch()
    for out, help in ((file / "below", "choose another with --out"), (file, "is a file"), (full, "is not empty")):
        run = mupc("train", "--out", out)
        assert run.code == cli.USAGE_ERROR, run.err
        assert len(run.err.splitlines()) == 1 and help in run.err
    assert [path.name for path in full.iterdir()] == ["precious"]


def test_unknown_command(mupc):
    run = mupc("trian")
    assert run.code == cli.USAGE_ERROR, run.err
    assert "did you mean `mupc train`?" in run.err and len(run.err.splitlines()) == 1
    assert mupc("xyzzy").code == cli.USAGE_ERROR
    assert mupc().code == cli.USAGE_ERROR


@pytest.mark.parametrize(
    ("argv", "help"),
    [
        (["data"], "expected one of {list, fetch, check}"),
        (["data", "lst"], "lst"),
        (["export"], "FILE.safetensors"),
        (["sweep", "--gird", "a"], "did you mean --grid?"),
        (["sweep", "work", "--stduy", "a"], "--stduy"),
        (["reproduce", "fig1", "--preset", "quik"], "Choose one of: quick, paper."),
        (["report", "--makrdown", "a"], "did you mean --markdown?"),
        (["hessian", "--wat"], "--wat"),
        (["hessian", "--width", "3", "a"], "--width takes INT [INT ...], got '3', 'a'; `mupc hessian --help`"),
        (["check", "--depths", "none"], "--depths takes [INT ...], got 'none'; `mupc check --help` lists all options"),
        (["bench", "--wat"], "--wat"),
        (["check", "--wat"], "--wat"),
        (["transfer", "--wat"], "--wat"),
        (["predict", "a", "b", "--wat"], "--wat"),
    ],
)
def test_wrong_flags_of_every_command_end_in_one_line(mupc, argv, help):
    run = mupc(*argv)
    assert run.code == cli.USAGE_ERROR
    assert help in run.err and len(run.err.splitlines()) == 1
    assert run.err.startswith(f"mupc {argv[0]}: ") and "--help` lists all options." in run.err


def test_unexpected_errors_offer_debug(mupc, monkeypatch):
    from mupc.cli import train

    def fail(flags, session):
        raise RuntimeError("no\nluck")

    monkeypatch.setattr(train, "COMMAND", dataclasses.replace(train.COMMAND, run=fail))
    run = mupc("train")
    assert run.code == cli.FAILURE and "--debug" in run.err and len(run.err.splitlines()) == 1
    with pytest.raises(RuntimeError):
        mupc("train", "--debug")


def test_the_console_script_and_the_module_are_the_same():
    done = subprocess.run([sys.executable, "-m", "mupc.cli", "trian"], capture_output=True, text=True, check=False)
    assert done.returncode == cli.USAGE_ERROR and "mupc train" in done.stderr


def test_compiled_programs_are_kept_in_the_cache(monkeypatch, tmp_path, mupc):
    monkeypatch.setenv("MUPC_CACHE", str(tmp_path))
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.setenv(name, "")  # so that it is put back afterwards
        monkeypatch.delenv(name)
    mupc("data", "list")
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "compiled")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    mupc("data", "list")
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "mine"


@pytest.mark.parametrize("words", [["--grid", "seed=0,1"], ["work", "folder"]], ids=["sweep", "work"])
def test_a_sweep_without_its_extra(words, monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "optuna" else found(name))
    assert cli.main(["sweep", *words]) == 2
    assert capsys.readouterr().err == (
        "mupc sweep: this needs optuna, which is not installed: pip install 'mupc[sweep]'.\n"
    )
