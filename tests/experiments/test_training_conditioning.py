"""κ over training: the sizes of the paper's runs, claims judged on tables made by hand, and one small run."""

import dataclasses

import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc import experiments
from mupc.experiments import _training
from mupc.experiments._runner import execute
from mupc.experiments._store import CellStore
from mupc.experiments._training import Rates
from mupc.experiments.training_conditioning import (
    ConditionedCell,
    ConditionedConfig,
    ends,
    kappas,
    run_cell,
    run_group,
)

OUTCOME = {"validation_accuracy": 0.0, "validation_loss": 0.0, "diverged": False}


def every_cell(figure):
    """The cells of the paper preset, whichever rates tuning will choose."""
    config, finished = figure.config("paper"), {}
    for _ in range(2):
        finished = dict.fromkeys(figure.cells(config, finished), OUTCOME)
    return figure.cells(config, finished)


HOLDS, FAILS, NOT_RUN = experiments.HOLDS, experiments.FAILS, experiments.NOT_RUN
DEPTHS = (8, 16, 32)
STANDARD = [f"sp-train-cond-nums-{kind}-{data}" for data in ("mnist", "fashion") for kind in ("gd", "adam", "skips")]
MUPC = ["mupc-train-cond-nums-mnist", "mupc-train-cond-nums-fashion"]


def paper_cells(slug):
    cells = every_cell(experiments.find_figure(slug).load())
    return [c for c in cells if c.validation], [c for c in cells if not c.validation]


@pytest.mark.parametrize("slug", STANDARD)
def test_standard_networks_are_those_of_the_paper(slug):
    tuning, runs = paper_cells(slug)
    method = "sp-" + slug.split("-")[4]
    assert all(isinstance(cell, ConditionedCell) for cell in runs)
    own = [cell for cell in runs if cell.method == method]
    assert {(c.activation, c.depth, c.seed) for c in own} == {
        (a, h, s) for a in ("linear", "tanh", "relu") for h in DEPTHS for s in range(3)
    }
    assert {c.method for c in runs} == {method, "sp-gd"}
    assert {(c.width, c.eta, c.epochs) for c in runs + tuning} == {(128, 1e-3, 1.0)}
    assert {c.beta for c in tuning} == {0.5, 0.1, 0.05}
    assert {c.data for c in runs} == {"fashion-mnist" if slug.endswith("fashion") else "mnist"}
    built = _training.METHODS[method]
    solver = built.algorithm(0.5, 8).solver
    assert (solver.steps, built.skip, isinstance(solver, mupc.Optax)) == (500, int("skips" in slug), "adam" in slug)


def test_twins_share_the_runs_of_fig3():
    fig3 = set(every_cell(experiments.find_figure("fig3").load()))
    for kind in ("adam", "skips"):
        assert fig3 < set(every_cell(experiments.find_figure(f"sp-train-cond-nums-{kind}-mnist").load()))


def test_one_precision_holds_for_all_runs_of_a_figure():
    figure = experiments.find_figure("orthog-init-mnist").load()
    for precision in (None, "float32"):
        config = figure.config("paper", precision)
        assert {cell.precision for cell in figure.cells(config, {})} == {precision or "bf16"}


@pytest.mark.parametrize("slug", MUPC)
def test_mupc_networks(slug):
    tuning, runs = paper_cells(slug)
    assert not tuning and len(runs) == 27
    assert {(c.method, c.width, c.depth) for c in runs} == {("mupc", 128, h) for h in DEPTHS}


@pytest.mark.parametrize("name", ["mnist", "fashion"])
def test_orthogonal_and_one_step_train_networks_of_fig1(name):
    tuning, runs = paper_cells(f"orthog-init-{name}")
    large = {(c.method, c.activation, c.depth) for c in runs if not isinstance(c, ConditionedCell)}
    assert large == {
        (m, a, 2**p) for m in ("mupc", "orthogonal") for a in ("linear", "tanh", "relu") for p in range(3, 8)
    }
    assert {c.method for c in tuning} == {"orthogonal"}
    assert {c.width for c in runs if isinstance(c, ConditionedCell)} == {128}
    _, runs = paper_cells(f"mupc-one-step-{name}")
    assert len([c for c in runs if not isinstance(c, ConditionedCell)]) == 30
    assert {(c.method, c.depth) for c in runs if isinstance(c, ConditionedCell)} == {
        ("mupc-one-step", h) for h in DEPTHS
    }


def row(method, depth, kappas, accuracy, seed=0, width=128, activation="relu"):
    history = {"condition_number": kappas, "largest": [5.0] * len(kappas), "test_accuracy": [0.1, accuracy]}
    return {
        "method": method, "activation": activation, "width": width, "depth": depth, "seed": seed, "validation": 0.0,
        "test_accuracy": accuracy, "history": history,
    }  # fmt: skip


def rows(method, by_depth, **options):
    """(κ at the start, κ at the end, accuracy) for each depth, the same on three seeds."""
    return [row(method, h, [a, b], acc, s, **options) for h, (a, b, acc) in by_depth.items() for s in range(3)]


def verdicts(slug, table, activation="relu"):
    """Those of one activation."""
    figure = experiments.find_figure(slug).load()
    config = dataclasses.replace(figure.config("paper"), activations=(activation,))
    return [claim.verdict for claim in figure.claims(config, table)]


GD = {8: (30.0, 91.0, 0.9), 16: (40.0, 130.0, 0.8), 32: (40.0, 400.0, 0.3)}


@pytest.mark.parametrize("slug", ["fig3", "sp-train-cond-nums-gd-fashion"])
def test_fig3(slug):
    assert verdicts(slug, rows("sp-gd", GD)) == [HOLDS, HOLDS]
    assert verdicts(slug, rows("sp-gd", GD | {8: (30.0, 89.0, 0.9)})) == [FAILS, HOLDS]  # less than 3 ×
    assert verdicts(slug, rows("sp-gd", GD | {16: (40.0, 130.0, 0.91)})) == [HOLDS, FAILS]
    assert verdicts(slug, rows("sp-gd", GD | {16: (40.0, 130.0, 0.9)})) == [HOLDS, FAILS]  # does not fall
    assert verdicts(slug, rows("sp-gd", GD)[:-1]) == [NOT_RUN, NOT_RUN]
    assert verdicts(slug, rows("sp-gd", GD), "tanh") == [NOT_RUN, NOT_RUN]


def test_kappa_is_the_median_over_seeds_and_may_be_infinite():
    outlier = [row("sp-gd", 8, [30.0, k], 0.9, s) for s, k in enumerate((1.0, 91.0, 95.0))]
    others = [r for r in rows("sp-gd", GD) if r["depth"] != 8]
    assert verdicts("fig3", outlier + others) == [HOLDS, HOLDS]
    lost = [row("sp-gd", 8, [30.0, None], 0.9, s) for s in range(3)]
    assert kappas(lost[0]) == [30.0, np.inf]
    assert verdicts("fig3", lost + others) == [HOLDS, HOLDS]


@pytest.mark.parametrize(
    ("end", "accuracy", "expected"),
    [(401.0, 0.29, [HOLDS, HOLDS]), (401.0, 0.3, [FAILS, HOLDS]), (399.0, 0.29, [HOLDS, FAILS])],
)
def test_adam_is_compared_at_the_greatest_depth(end, accuracy, expected):
    adam = {8: (30.0, 31.0, 0.95), 16: (30.0, 31.0, 0.95), 32: (40.0, end, accuracy)}
    table = rows("sp-gd", GD) + rows("sp-adam", adam)
    assert verdicts("sp-train-cond-nums-adam-mnist", table) == expected
    assert verdicts("sp-train-cond-nums-adam-mnist", rows("sp-adam", adam)) == [NOT_RUN, NOT_RUN]


@pytest.mark.parametrize(
    ("start", "accuracy", "expected"),
    [(400.0, 0.3, [HOLDS, HOLDS]), (399.0, 0.3, [FAILS, HOLDS]), (400.0, 0.29, [HOLDS, FAILS])],
)
def test_skips_are_worse_conditioned_at_every_depth(start, accuracy, expected):
    skips = {8: (300.0, 1.0, 0.5), 16: (start, 1.0, 0.5), 32: (400.0, 1.0, accuracy)}
    table = rows("sp-gd", GD) + rows("sp-skips", skips)
    assert verdicts("sp-train-cond-nums-skips-mnist", table) == expected


def test_mupc_needs_only_to_grow():
    found = {8: (300.0, 301.0, 0.9), 16: (900.0, 1000.0, 0.9), 32: (3000.0, 4000.0, 0.9)}
    assert verdicts("mupc-train-cond-nums-mnist", rows("mupc", found)) == [HOLDS]
    assert verdicts("mupc-train-cond-nums-mnist", rows("mupc", found | {8: (300.0, 300.0, 0.9)})) == [FAILS]


@pytest.mark.parametrize(("best", "expected"), [(0.95, HOLDS), (0.96, FAILS)])
def test_orthogonal_is_compared_at_its_best(best, expected):
    """With μPC's 96 % at 128 hidden layers; the runs that are measured report κ, and decide nothing."""
    large = rows("mupc", {128: (1.0, 1.0, 0.96)}, width=512) + rows("orthogonal", {128: (1.0, 1.0, 0.5)}, width=512)
    for run in large:
        if run["method"] == "orthogonal":
            run["history"]["test_accuracy"] = [0.1, best, 0.5]
    measured = rows("orthogonal", dict.fromkeys(DEPTHS, (30.0, 20.0, 0.9)))
    figure = experiments.find_figure("orthog-init-mnist").load()
    found = {c.claim: c for c in figure.claims(figure.config("paper"), large + measured)}
    assert found["orthogonal weights fall behind at H=128, relu"].verdict == expected
    assert found["orthogonal weights fall behind at H=128, tanh"].verdict == NOT_RUN
    assert "H=8: 30 → 20 (0.667 ×), highest 30" in found["κ over training, relu"].measured


def toy_figure():
    config = ConditionedConfig(
        precision="float64", data="digits", widths=(6,), depths=(3,), activations=("tanh",), seeds=1, epochs=0.5,
        evaluate_every=11, tune_epochs=0.2, rates=(Rates("orthogonal", (0.01, 0.02), (8.0,)),),
    )  # fmt: skip
    return dataclasses.replace(experiments.find_figure("mupc-train-cond-nums-mnist").load(), presets={"quick": config})


@pytest.mark.slow
def test_a_small_figure_from_end_to_end(tmp_path):
    figure = toy_figure()
    config = figure.config("quick")
    progress = execute(figure, config, CellStore(tmp_path / "work"), experiments.RunContext())
    assert progress.complete and not progress.failed
    record = experiments.figure_record(figure, "quick", config, progress)
    path = experiments.save_record(figure, record, tmp_path)
    assert path.with_suffix(".png").stat().st_size < 300_000
    (run,) = [r for r in record["data"] if not r["validation"]]
    tuning = [r for r in record["data"] if r["validation"]]
    assert len(tuning) == 2
    best = max(tuning, key=lambda r: (r["validation_accuracy"], -r["validation_loss"]))
    assert run["eta"] == best["eta"]
    digits = mupc.data.load("digits")
    network = mupc.Network(64, 10, 6, 3, activation="tanh", parameterisation="orthogonal", skip=0, key=jr.key(0))
    x = digits.x_train[:1]
    activities, output = mupc.forward(network, x)
    values = np.linalg.eigvalsh(mupc.theory.hessian_blocks(network, x, output, activities).dense())
    first, *_, last = run["history"]["condition_number"]
    assert [claim["verdict"] for claim in record["claims"]] == [HOLDS if last > first else FAILS]
    assert first == pytest.approx(values[-1] / values[0], rel=1e-4)
    assert ends(network, digits.x_train[0], "iterative")["condition_number"] == pytest.approx(first, rel=1e-4)


@pytest.mark.slow
def test_a_group_of_tuning_runs_equals_single_ones():
    config = toy_figure().config("quick")
    group = [cell for cell in toy_figure().cells(config, {}) if cell.validation]
    assert len({cell.group for cell in group}) == 1
    together = _training.run_group(group, experiments.RunContext())
    for cell, found in zip(group, together, strict=True):
        alone = _training.run_cell(cell, experiments.RunContext())
        assert found["validation_loss"] == pytest.approx(alone["validation_loss"], rel=1e-8)
        assert found["validation_accuracy"] == alone["validation_accuracy"]
    for change in ({"width": 512}, {"validation": 0.0}):
        alone = dataclasses.replace(group[0], **change)
        assert alone.group == alone


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mupc-one-step", "sp-adam"])
def test_measured_seeds_go_together(method):
    config = dataclasses.replace(
        toy_figure().config("quick"), seeds=2, epochs=0.1, evaluate_every=1, rates=(Rates(method, (0.01,), (0.1,)),)
    )
    pair = toy_figure().cells(config, {})
    assert [cell.seed for cell in pair] == [0, 1] and len({cell.group for cell in pair}) == 1
    for cell, found in zip(pair, run_group(pair, experiments.RunContext()), strict=True):
        alone = run_cell(cell, experiments.RunContext())
        for name in ("condition_number", "largest", "train_loss", "test_accuracy"):
            assert found["history"][name][1:] == pytest.approx(alone["history"][name][1:], rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [mupc.GradientDescent(0.5 / 64, 500, tol=1e-3), None])
def test_no_tolerance_of_a_thousandth_is_reached_in_500_steps(solver):
    """Why the figures set none."""
    optax = pytest.importorskip("optax")
    digits = mupc.data.load("digits")
    network = mupc.Network(64, 10, 16, 8, parameterisation="sp", init="kaiming-uniform", skip=0, key=jr.key(0))
    solver = solver or mupc.Optax(optax.adam(0.05), 500, tol=1e-3)
    assert int(mupc.infer(network, digits.x_train[:64], digits.y_train[:64], solver).steps) == 500
