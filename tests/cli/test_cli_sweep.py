"""`mupc sweep` and `mupc sweep work`: cells compared with `fit`, the folder, interruptions, mistakes in one line."""

import dataclasses
import json

import numpy as np
import pytest
from matplotlib.image import imread

from mupc import cli
from mupc.cli import sweep_job
from mupc.cli.building import build, load_data, make_energy, number_format
from mupc.cli.config import TrainFlags, load
from mupc.cli.format_1 import DEFAULTS
from mupc.plots import sweep as plots
from mupc.sweep import AT_EDGE
from mupc.sweep._sweep import SAMPLERS
from mupc.training import _fit

TINY = ("--width", "8", "--hidden-layers", "3", "--epochs", "0.5")
GRID = ("--solver", "gd", "--grid", "weight_lr=0.1,0.03,1e30", "--grid", "activity_lr=0.5,0.1")
HUGE = 1e30


@pytest.fixture
def sweep(mupc, tmp_path):
    """Return a function that runs `mupc sweep` with a tiny network in its own folder."""

    def run(*argv, name="sweep"):
        return mupc("sweep", *TINY, "--out", tmp_path / name, *argv, folder=tmp_path / name)

    return run


@pytest.fixture
def untrained(monkeypatch):
    """Replace training by made-up losses, and return the cells of every call."""
    calls = []

    def execute(self, cells, folder):
        calls.append([dict(settings) for settings in cells])
        return [
            {"train_loss": 1.0 + settings.get("seed", 0), "test_accuracy": 0.5, "diverged": False, "seconds": 0.0}
            for settings in cells
        ]

    monkeypatch.setattr(sweep_job.CellTrainer, "__call__", execute)
    return calls


def alone(config):
    """Train a cell on its own with `mupc.fit`."""
    dataset = load_data(config)
    with number_format(config.precision):
        network, solver = build(config, dataset)
        return _fit.fit(
            network, dataset, solver, epochs=config.epochs, weight_lr=config.weight_lr, seed=config.seed,
            energy=make_energy(config), evaluate_every=config.evaluate_every, precision=config.precision,
        )  # fmt: skip


def test_in_a_grid_of_methods_each_has_the_flags_that_act_on_it(untrained, sweep, monkeypatch):
    check, used = sweep_job.check_run, []
    monkeypatch.setattr(sweep_job, "check_run", lambda c, *rest, **named: (used.append(c), check(c, *rest, **named)))
    run = sweep("--grid", "method=pc,bp,alm", "--output-precision", "0.5", "--solver", "gd", "--momentum", "0.3")
    assert run.code == 0, run.err
    settings = {c.method: (c.output_precision, c.solver, c.momentum) for c in used}
    assert settings == {"pc": (0.5, "gd", 0.3), "bp": (None, None, None), "alm": (0.5, None, None)}
    wrong = sweep("--grid", "method=pc,bp", "--grid", "momentum=0.3,0.5", "--solver", "gd", name="wrong")
    assert wrong.code == 2 and "2 of 4 cells cannot run" in wrong.err
    assert "--momentum 0.3 has no effect with --method bp" in wrong.err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:training diverged:RuntimeWarning")
def test_cells_are_what_fit_gives_and_the_folder_holds_them(sweep, mupc):
    run = sweep(*GRID)
    assert run.code == 0, run.err
    saved = run.json("sweep.json")
    assert saved["counts"] == {"cells": 6, "complete": 6, "failed": 0, "diverged": 2}
    assert saved["complete"] and saved["objective"] == "train_loss" and not saved["interrupted"]
    assert [tuple(cell["settings"].values()) for cell in saved["cells"]] == [
        (weight_lr, activity_lr) for weight_lr in (0.1, 0.03, HUGE) for activity_lr in (0.5, 0.1)
    ]
    for cell in saved["cells"]:
        diverged = cell["settings"]["weight_lr"] == HUGE
        assert cell["results"]["diverged"] is diverged and (cell["value"] is None) is diverged
        assert cell["config"]["width"] == 8 and cell["config"]["weight_lr"] == cell["settings"]["weight_lr"]
    chosen = load(run.folder / "best.json")
    for cell in (saved["cells"][3], saved["cells"][4]):
        expected = alone(dataclasses.replace(chosen, **cell["settings"]))
        assert cell["results"]["diverged"] == expected.diverged
        for name in ("test_loss", "test_accuracy", *(["train_loss"] if not expected.diverged else [])):
            assert cell["results"][name] == pytest.approx(expected.last[name], rel=1e-4), name
    good = [cell for cell in saved["cells"] if cell["value"] is not None]
    best = min(good, key=lambda cell: cell["value"])
    assert saved["best"]["settings"] == best["settings"] and saved["best"]["value"] == best["value"]
    settings = {"solver": "gd", "inference_steps": 3, "output_precision": 1.0, "format": 2} | best["settings"]
    assert {"format": run.json("best.json")["format"], **vars(chosen)}.items() >= settings.items()
    assert (run.folder / "figures" / "contour.png").exists()
    lines = run.out.splitlines()
    assert lines[0] == "6 cells over weight_lr, activity_lr; lowest training loss wins"
    assert any(line.startswith("cell 6/6  best ") for line in lines)
    assert any(line.startswith("6 of 6 cells, 2 diverged") for line in lines)
    assert "best.json" in lines[-1] and str(run.folder) in lines[-1]

    again = sweep(*GRID, "--json")
    assert again.code == 0 and json.loads(again.out) == run.json("sweep.json") and again.err == ""
    assert json.loads(again.out)["cells"] == saved["cells"]  # nothing was trained again
    joined = mupc("sweep", "work", run.folder, "--quiet")
    assert (joined.code, joined.out, joined.err) == (0, "", "")


@pytest.mark.slow
def test_validation_loss_wins_and_seeds_are_averaged(sweep):
    run = sweep("--grid", "weight_lr=0.1,0.03", "--grid", "seed=0,1", "--validation", "0.2", "--method", "bp", "--json")
    saved = json.loads(run.out)
    assert saved["objective"] == "validation_loss"
    assert all(cell["value"] == cell["results"]["validation_loss"] for cell in saved["cells"])
    for row in saved["rows"]:
        mates = [
            cell["value"] for cell in saved["cells"] if cell["settings"]["weight_lr"] == row["settings"]["weight_lr"]
        ]
        assert len(mates) == row["cells"] == 2 and row["value"] == pytest.approx(sum(mates) / 2)
    assert saved["rows"][0]["value"] < saved["rows"][1]["value"]
    assert (run.folder / "figures" / "lines.png").exists()


@pytest.mark.slow
def test_which_cells_train_together(untrained, sweep):
    run = sweep("--grid", "solver=gd,error-space", "--grid", "seed=0,1,2", "--grid", "output_precision=1,0.1")
    assert run.code == 0, run.err
    assert [len(cells) for cells in untrained] == [6, 6]
    assert [{cell["solver"] for cell in cells} for cells in untrained] == [{"gd"}, {"error-space"}]
    untrained.clear()
    assert sweep("--grid", "seed=0,1,2", "--validation", "0.1", name="split").code == 0
    assert [len(cells) for cells in untrained] == [1, 1, 1]  # the seed decides what is held out
    untrained.clear()
    assert sweep("--grid", "seed=0,1,2,3", "--group", "3", name="few").code == 0
    assert [len(cells) for cells in untrained] == [3, 1]


def test_a_sampler(untrained, sweep):
    words = ("--grid", "weight_lr=log:0.001:1", "--grid", "seed=0,1", "--sampler", "tpe", "--trials", "5")
    run = sweep(*words, "--json")
    assert run.code == 0, run.err
    cells = json.loads(run.out)["cells"]
    assert len(cells) == 5 and all(0.001 <= cell["settings"]["weight_lr"] <= 1 for cell in cells)
    assert {cell["settings"]["seed"] for cell in cells} <= {0, 1}


@pytest.mark.slow
def test_the_edge_of_the_grid_is_told(untrained, sweep, monkeypatch):
    """Only rates have an edge, and the middle one of three is not at it."""
    pretend = sweep_job.CellTrainer.__call__

    def execute(self, cells, folder):
        found = pretend(self, cells, folder)
        rates = [settings.get("weight_lr", 0.1) for settings in cells]
        return [one | {"train_loss": abs(rate - 0.1)} for one, rate in zip(found, rates, strict=True)]

    monkeypatch.setattr(sweep_job.CellTrainer, "__call__", execute)
    assert AT_EDGE in sweep("--grid", "weight_lr=0.1,0.2", name="edge").out.splitlines()
    for number, grid in enumerate(("weight_lr=0.05,0.1,0.2", "weight_lr=0.1", "width=8,12", "seed=0,1")):
        assert AT_EDGE not in sweep("--grid", grid, name=str(number)).out, grid


def test_a_single_cell(untrained, sweep):
    lines = sweep("--grid", "weight_lr=0.1").out.splitlines()
    assert lines[0] == "1 cell over weight_lr; lowest training loss wins"
    assert any(line.startswith("cell 1/1  best ") for line in lines) and "1 of 1 cell" in lines


def test_cells_that_cannot_run_are_named_before_any_runs(untrained, sweep):
    for argv, count, *reasons in (
        (
            ("--grid", "solver=gd,exact-linear", "--grid", "activation=relu,tanh,linear", "--grid", "seed=0,1"),
            "4 of 12 cells cannot run",
            "needs a linear network, got activation 'relu'. Use --solver error-space with several steps and a "
            "tolerance instead (solver=exact-linear activation=relu)",
            "(solver=exact-linear activation=tanh)",
        ),
        (("--grid", "width=8,-1", "--grid", "weight_lr=0.1,0"), "3 of 4", "got 0 (weight_lr=0.0)", "got -1 (width=-1 "),
        (("--grid", "solver=error-space,gd", "--activity-lr", "0.1"), "1 of 2", "(solver=error-space)"),
        (("--grid", "hidden_layers=2,3,4", "--skip", "3"), "2 of 3", "or 0 for none (hidden_layers=3)"),
    ):
        run = sweep(*argv)
        assert run.code == cli.USAGE_ERROR and run.err.startswith(f"mupc sweep: {count}"), run.err
        assert "nothing was started" in run.err and len(run.err.splitlines()) == 1
        assert all(reason in run.err for reason in reasons), run.err
        assert not run.folder.exists() and not untrained


def test_the_plan_of_an_earlier_version_keeps_its_meaning():
    """It does not have a format; a configuration of format 1 with nulls, which are those of gd."""
    config = {name: value for name, value in DEFAULTS.items() if name not in ("solver", "data_dir")}
    plan = sweep_job.SweepPlan.from_record(
        {"config": config | {"hidden_layers": 5}, "objective": "train_loss"}
        | {"axes": [{"name": "solver", "values": ["gd", "error-space"], "low": None, "high": None, "log": False}]}
    )
    trainer = sweep_job.CellTrainer(plan, None, lambda: False)
    gd, error_space = (trainer.config(cell) for cell in plan.combinations())
    assert (gd.weight_lr, gd.activity_lr, gd.inference_steps, gd.output_precision) == (0.1, 0.05, 5, 1.0)
    assert (error_space.weight_lr, error_space.cg_steps, error_space.output_precision) == (0.01, 2, 1.0)
    assert gd.precision == "float32"
    today = dataclasses.replace(plan, format=2)
    assert today.describe_difference(plan).endswith("`mupc sweep work` goes on with it")


def test_the_scores_of_the_table(sweep, monkeypatch):
    """R² for a regression, and the accuracies of a classification; a cell that diverged has none."""

    def execute(self, cells, folder):
        scores = [{"test_r2": 0.25, "diverged": False}, {"diverged": True}]
        return [{"train_loss": 1.0, "seconds": 0.0} | one for one in scores]

    monkeypatch.setattr(sweep_job.CellTrainer, "__call__", execute)
    lines = sweep("--grid", "weight_lr=0.1,0.2").out.splitlines()
    assert [line.split() for line in lines if line.lstrip().startswith(("weight_lr", "0."))] == [
        ["weight_lr", "training", "loss", "test", "R²"],
        ["0.1", "1", "0.250"],
        ["0.2", "–", "–", "diverged"],
    ]


def test_other_data_are_refused(untrained, sweep, tmp_path):
    file, rng = tmp_path / "mine.npz", np.random.default_rng(0)
    x, y = rng.normal(size=(40, 5)).astype("f4"), np.arange(40) % 3
    for change, code in ((0, 0), (0, 0), (1, cli.USAGE_ERROR), (0, 0)):
        np.savez(file, x_train=x[:30] + change, y_train=y[:30], x_test=x[30:], y_test=y[30:])
        sweep_job._load.cache_clear()
        run = sweep("--data", file, "--batch-size", "8", "--grid", "seed=0,1")
        assert run.code == code, run.err
        assert not code or ("has cells of other data than" in run.err and run.err.count("\n") == 1)


@pytest.mark.slow
def test_other_settings_are_refused(untrained, sweep):
    first = sweep("--grid", "seed=0,1")
    before = first.json("sweep.json")
    for words, help in (
        (("--grid", "seed=0,1", "--skip", "0"), "its skip is 1"),
        (("--grid", "seed=0,1,2"), "it varies seed over other values"),
        (("--grid", "seed=0,1", "--no-resume"), "leave out --no-resume"),
    ):
        run = sweep(*words)
        assert run.code == cli.USAGE_ERROR and help in run.err and len(run.err.splitlines()) == 1, run.err
    assert first.json("sweep.json") == before
    assert sweep("--grid", "seed=0,1", "--data-dir", first.folder).code == 0  # a machine's own


def test_an_interruption_says_how_to_go_on(untrained, sweep, mupc, monkeypatch):
    pretend = sweep_job.CellTrainer.__call__

    def interrupted(self, cells, folder):
        if cells[0]["seed"]:
            raise KeyboardInterrupt
        return pretend(self, cells, folder)

    monkeypatch.setattr(sweep_job.CellTrainer, "__call__", interrupted)
    run = sweep("--grid", "seed=0,1,2", "--group", "1")
    assert run.code == cli.INTERRUPTED
    assert run.err.startswith(
        "mupc sweep: interrupted; 1 of 3 cells are finished and kept. Go on with: mupc sweep work"
    )
    assert run.json("sweep.json")["interrupted"] and not run.json("sweep.json")["complete"]
    monkeypatch.setattr(sweep_job.CellTrainer, "__call__", pretend)
    untrained.clear()
    assert mupc(*run.err.split("Go on with: mupc ")[1].split()).code == 0
    assert sorted(cell["seed"] for cells in untrained for cell in cells) == [1, 2]
    assert run.json("sweep.json")["complete"]


@pytest.mark.slow
def test_cells_that_cannot_be_computed_fail_alone_and_can_be_tried_again(untrained, sweep, mupc, monkeypatch):
    pretend = sweep_job.CellTrainer.__call__

    def limited(self, cells, folder):
        if any(settings["width"] == 9 for settings in cells):
            raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate")
        return pretend(self, cells, folder)

    monkeypatch.setattr(sweep_job.CellTrainer, "__call__", limited)
    run = sweep("--grid", "width=8,9,10")
    assert run.code == cli.FAILURE
    help = "mupc sweep: 1 of 3 cells failed, the first: out of memory: lower --width"
    assert run.err.startswith(help) and len(run.err.splitlines()) == 1
    assert [cell["state"] for cell in run.json("sweep.json")["cells"]] == ["complete", "failed", "complete"]
    assert run.json("sweep.json")["best"]["settings"]["width"] in (8, 10)

    assert sweep("--grid", "width=8,9,10").code == cli.FAILURE  # going on does not try them again
    monkeypatch.setattr(sweep_job.CellTrainer, "__call__", pretend)
    untrained.clear()
    again = run.err.split("Try again with: mupc ")[1].split()
    assert again[-1] == "--retry-failed" and mupc(*again).code == 0
    assert untrained == [[{"width": 9}]]
    assert run.json("sweep.json")["counts"] == {"cells": 3, "complete": 3, "failed": 0, "diverged": 0}


@pytest.mark.parametrize(
    ("argv", "help"),
    [
        ([], "--grid is empty. Say what to vary"),
        (["--grid", "weigth_lr=0.1"], "did you mean 'weight_lr'?"),
        (["--grid", "depth=4,8"], "unknown key 'depth': did you mean 'hidden_layers'?"),
        (["--grid", "lr=0.1"], "did you mean 'weight_lr' or 'activity_lr'?"),
        (["--grid", "beta=log:1:9:3"], "did you mean 'activity_lr' or 'nudge'?"),
        (["--beta", "0.1"], "there is no --beta: did you mean --activity-lr or --nudge?"),
        (["--grid", "width=wide"], "width = 'wide': it must be a whole number"),
        (["--grid", "solver=gd,gdd"], "it must be one of gd, adam, error-space"),
        (["--grid", "weight_lr="], "has no values"),
        (["--grid", "data_dir=a,b"], "--data-dir cannot vary"),
        (["--grid", "seed=0,1", "--trials", "3"], "--trials is for --sampler random or --sampler tpe"),
        (
            ["--grid", "weight_lr=log:0.1:1", "--sampler", "tpe"],
            "--trials must be at least 1, got 0. Say",
        ),
        (["--grid", "weight_lr=-1,-2"], "--weight-lr must be greater than 0"),
        (["--grid", "seed=0,1", "--skip", "7"], "Use a shorter skip"),
        (["--grid", "width=300000,400000"], "a network of this size needs"),
        (["--grid", "data=mnits,digits"], "did you mean 'mnist'?"),
        (["--grid", "seed=0,1", "--group", "0"], "--group must be at least 1"),
        (["--grid", "seed=0,1", "--heartbeat", "0"], "--heartbeat must be at least 1"),
        (["--grid", "seed=0,1", "--storage", "nonsense"], "--storage 'nonsense' is not an address"),
        (["--grid", "seed=0", "--storage", "sqlite:///absent/folder/x.db"], "unable to open database file"),
    ],
)
def test_mistakes(sweep, argv, help):
    run = sweep(*argv)
    assert run.code == cli.USAGE_ERROR, run.err
    assert run.err.startswith("mupc sweep: ") and len(run.err.splitlines()) == 1 and help in run.err
    assert not run.folder.exists()


def test_mistakes_of_workers(mupc, tmp_path):
    for argv, help in (
        ((), "say which sweep to work on"),
        ((tmp_path,), "has no sweep.db"),
        (("--storage", f"sqlite:///{tmp_path}/new.db"), "new.db' does not exist. Start one with `mupc sweep`"),
    ):
        run = mupc("sweep", "work", *argv)
        assert run.code == cli.USAGE_ERROR and help in run.err and len(run.err.splitlines()) == 1, run.err
    assert list(tmp_path.iterdir()) == []


def test_names_agree_with_the_library():
    assert set(sweep_job.GROUP_SIZES) == {None, *SAMPLERS}
    assert set(sweep_job.NUMBERS) < {field.name for field in dataclasses.fields(TrainFlags)}


def test_means_and_figures(tmp_path):
    cells = [
        {"settings": {"weight_lr": rate, "activity_lr": 1.0, "seed": seed}, "value": None if rate > 1 else rate + seed}
        for rate in (0.1, 1.0, 10.0)
        for seed in (0, 2)
    ]
    assert plots.seed_means(cells, ("weight_lr",)) == {(0.1,): pytest.approx(1.1), (1.0,): 2.0, (10.0,): None}
    for draw, name in (
        (plots.draw_sweep_contour, "flat.png"),
        (lambda c, p: plots.draw_sweep_lines(c, p, "weight_lr"), "lines.png"),
    ):
        draw(cells, tmp_path / name)  # points on one line span no contours
        assert np.ptp(imread(tmp_path / name)[..., :3]) > 0.5
