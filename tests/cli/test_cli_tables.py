"""`mupc train` on tables and on values: the flags, the units of the scores, and bad input in one line."""

import csv
import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

import mupc
from mupc import cli
from mupc.cli.flags import TEST
from mupc.data import from_arrays

SMALL = ("--width", "8", "--hidden-layers", "3", "--no-tensorboard", "--quiet")


@pytest.fixture
def table(tmp_path):
    """Writes columns by name to a .csv file, and returns its path."""

    def write(name="table.csv", **columns):
        with (tmp_path / name).open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(columns)
            rows.writerows(zip(*columns.values(), strict=True))
        return tmp_path / name

    return write


def houses(rows=200):
    """Areas, kinds, and prices in thousands, which follow from both; and ages, which do not."""
    key = np.random.default_rng(0)
    area, age = key.uniform(50, 150, rows).round(1), key.integers(0, 90, rows)
    kind = key.choice(["flat", "house"], rows)
    price = (4 * area + np.where(kind == "house", 150, 0) + key.normal(size=rows)).round(2)
    return {"area": area, "kind": kind, "age": age, "price": price}


@pytest.mark.slow
def test_values_of_a_table(train, table):
    file = table(**houses())
    run = train("--data", file, "--target", "price", "--one-hot", "--epochs", "20", *SMALL, tiny=False)
    assert run.code == 0, run.err
    config = run.json("config.json")["config"]
    assert (config["target"], config["task"], config["test"], config["one_hot"]) == ("price", "regression", TEST, True)
    summary, held_out = run.json("summary.json"), mupc.data.load(file, target="price", one_hot=True).test
    predicted = mupc.load(run.folder).predict(held_out.raw)
    errors, spread = predicted - held_out.targets.ravel(), np.ptp(houses()["price"])
    assert summary["test_mae"] == pytest.approx(np.abs(errors).mean(), rel=1e-4) and summary["test_mae"] < spread
    assert summary["test_rmse"] == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-4)
    assert summary["test_r2"] == pytest.approx(1 - (errors**2).mean() / held_out.targets.var(), rel=1e-4)
    assert summary["test_accuracy"] is None
    again = train("--config", run.folder, "--quiet", tiny=False, name="again")
    assert again.code == 0, again.err
    assert [one.json("summary.json")["test_loss"] for one in (run, again)] == [again.metrics[-1]["test_loss"]] * 2


def test_targets_that_are_not_scaled_are_told(train, tmp_path):
    """Those of a .npz file are learnt as they are."""
    key = np.random.default_rng(0)
    x, y = key.normal(size=(150, 3)), key.normal(1e4, 1e3, size=(150, 1))
    np.savez(tmp_path / "far.npz", x_train=x[:100], y_train=y[:100], x_test=x[100:], y_test=y[100:])
    run = train("--data", tmp_path / "far.npz", "--epochs", "1", "--method", "bp")
    assert run.code == 0, run.err
    (line,) = (line for line in run.out.splitlines() if line.startswith("warning: targets are not scaled"))
    assert "1e+04" in line


def test_the_default_of_the_test_split_is_that_of_the_library():
    assert inspect.signature(from_arrays).parameters["test"].default == TEST


@pytest.mark.parametrize(
    ("change", "argv", "help"),
    [
        ({}, (), "no column is the target: set --target to one of 'area', 'kind', 'age', 'price'"),
        ({}, ("--target", "prize"), "'price'"),
        ({}, ("--target", "price"), "column 'kind' holds text ('flat', 'house'): set --one-hot"),
        ({"kind": [1] * 200}, ("--target", "age"), 'set --task to "regression" or "classification"'),
        ({"kind": [""] * 200}, ("--target", "price"), "kind"),
        ({}, ("--target", "price", "--one-hot", "--test", "2"), "a test split of 2.0 is not possible"),
        ({}, ("--target", "kind", "--task", "regression"), "text"),
        ({name: column[:1] for name, column in houses().items()}, ("--target", "price", "--one-hot"), "1 sample"),
        ({name: [] for name in houses()}, ("--target", "price"), ""),
    ],
)
def test_tables_that_cannot_be_learnt(train, table, change, argv, help):
    file = table(**houses() | change)
    run = train("--data", file, *argv, *SMALL, tiny=False)
    assert run.code == cli.USAGE_ERROR, run.err
    assert run.err.startswith("mupc train: ") and len(run.err.splitlines()) == 1 and help in run.err
    assert not run.folder.exists()


@pytest.mark.slow
def test_a_run_goes_on_with_the_same_columns_only(mupc, train, table):
    """A table of fewer rows than a batch, whose column gets another name between two parts of a run."""
    columns = {"area": houses()["area"][:50], "kind": houses()["kind"][:50]}
    file = table(**columns)
    run = train("--data", file, "--target", "kind", "--epochs", "1", *SMALL, tiny=False)
    assert run.code == 0, run.err
    assert run.json("config.json")["config"]["batch_size"] == 40
    schema = (run.folder / "schema.json").read_bytes()
    table(space=columns["area"], kind=columns["kind"])
    again = mupc("train", "--resume", run.folder, "--epochs", "2", "--quiet")
    assert again.code == cli.USAGE_ERROR
    assert "its columns are others now: put the data back" in again.err
    assert (run.folder / "schema.json").read_bytes() == schema and (run.folder / "summary.json").is_file()


@pytest.mark.slow
def test_a_device_that_is_not_there():
    """JAX ends in an AssertionError where the environment asks for a GPU that is not there. --device comes first."""
    command = [sys.executable, "-m", "mupc.cli", "hessian", "--width", "4", "--hidden-layers", "2", "--json"]
    environment = os.environ | {"JAX_PLATFORMS": "cuda"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == cli.USAGE_ERROR
    assert ended.stderr == (
        "mupc hessian: JAX_PLATFORMS=cuda names a device that is not there: unset it, or use --device cpu.\n"
    )
