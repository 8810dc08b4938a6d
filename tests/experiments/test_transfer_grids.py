"""Transfer of learning rates: claims judged on grids made by hand, and a group of cells against runs one by one."""

import dataclasses
import math

import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc import experiments
from mupc.experiments._runner import execute
from mupc.experiments._store import CellStore
from mupc.experiments.transfer_grids import GridConfig, cells, run_group

HOLDS, FAILS, NOT_RUN = experiments.HOLDS, experiments.FAILS, experiments.NOT_RUN


def verdicts(loss, keep=lambda cell: True):
    """Verdicts of the paper preset with the loss as a function of the cell; infinite where it diverges."""
    figure = experiments.find_figure("fig5").load()
    config = figure.config("paper")
    table = []
    for cell in filter(keep, figure.cells(config, {})):
        value = float(loss(cell))
        table.append({**dataclasses.asdict(cell), "lowest_train_loss": value, "diverged": math.isinf(value)})
    return [claim.verdict for claim in figure.claims(config, table)]


def bowl(cell, eta=0.1, beta=0.5):
    return 0.1 + 0.1 * abs(math.log(cell.eta / eta)) + 0.1 * abs(math.log(cell.beta / beta))


def test_rates_that_transfer():
    assert verdicts(bowl) == [HOLDS] * 8
    assert verdicts(lambda c: bowl(c, beta=0.5 if c.width == 64 else 1.0)) == [FAILS] * 4 + [HOLDS] * 4
    assert verdicts(lambda c: bowl(c, eta=0.1 if c.depth < 128 else 0.01)) == [HOLDS] * 7 + [FAILS]


def test_a_small_regret_does_not_fail():
    shallow = lambda c: 0.1 + 0.001 * abs(math.log(c.beta / (0.5 if c.depth == 8 else 10.0)))  # noqa: E731
    assert verdicts(shallow) == [HOLDS] * 8


def test_divergence_is_never_an_optimum():
    assert verdicts(lambda c: math.inf if c.eta == 0.1 and c.depth == 128 else bowl(c))[-1] == FAILS


def test_missing_networks_are_not_judged():
    assert verdicts(bowl, lambda c: c.depth < 64) == [HOLDS] * 6 + [NOT_RUN] * 2
    assert verdicts(bowl, lambda c: c.seed < 2) == [NOT_RUN] * 8


def test_what_is_checked_when_rates_do_not_transfer():
    figure = experiments.find_figure("fig5").load()
    config = figure.config("paper")
    table = [
        {
            **dataclasses.asdict(cell),
            "lowest_train_loss": bowl(cell, beta=0.5 if cell.width == 64 else 5.0) * (1 + cell.seed),
            "train_loss": 0.25 if cell.beta == 0.5 else 0.5,
            "test_accuracy": 0.5,
            "diverged": False,
        }
        for cell in figure.cells(config, {})
    ]
    wide = next(claim for claim in figure.claims(config, table) if "N=128" in claim.claim)
    told = figure.checked(config, table, wide)
    cost = 100 * math.log(10)  # of 0.5 instead of 5, over a loss of 0.1 at the optimum; the same for every seed
    assert told.startswith("Seed by seed it costs " + ", ".join([f"{cost:+.0f}"] * 3) + " %;")
    assert "0.25 and 50.0 % (η=0.1 β=0.5), 0.5 and 50.0 % (η=0.1 β=5)" in told
    assert f"η=0.1 β=1 {100 * math.log(5):+.0f} %" in told and told.count("η=") == 2 + 4
    assert config.neighbours((0.5, 1000.0)) == [(0.5, 500.0), (0.1, 1000.0)]


def test_runs_that_will_diverge_go_together():
    figure = experiments.find_figure("fig5").load()
    everything = figure.cells(figure.config("paper"), {})
    calm = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 50]
    wild = [100, 500, 1000]
    for depth, groups in ((32, [calm, wild]), (128, [[beta] for beta in (*calm, *wild)])):
        cells = [cell for cell in everything if (cell.width, cell.depth, cell.seed) == (512, depth, 0)]
        found = {cell.group: {c.beta for c in cells if c.group == cell.group} for cell in cells}
        assert sorted(map(sorted, found.values())) == groups


@pytest.mark.slow
def test_a_grid_is_one_group_and_equals_single_runs():
    config = GridConfig(
        data="digits", widths=(8,), depths=(3,), width=8, etas=(0.1, 0.02), betas=(10.0,), seeds=1, epochs=0.5,
        precision="float64",
    )  # fmt: skip
    group = cells(config, {})
    assert len({cell.group for cell in group}) == 1
    found = run_group(group, experiments.RunContext())
    digits = mupc.data.load("digits")
    network = mupc.Network(64, 10, 8, 3, activation="tanh", key=jr.key(0))
    for cell, row in zip(group, found, strict=True):
        solver = mupc.GradientDescent(lr=10.0 / 64, steps=3)
        settings = {"epochs": 0.5, "weight_lr": cell.eta, "precision": "float64"}
        settings |= {"rate_scaling": "none", "schedule": "constant"}
        result = mupc.fit(network, digits, solver, **settings)
        assert row["lowest_train_loss"] == pytest.approx(min(result.losses), rel=1e-8)
        assert row["train_loss"] == pytest.approx(np.mean(result.losses), rel=1e-8)
        assert row["test_accuracy"] == pytest.approx(result.last["test_accuracy"])
        assert not row["diverged"]


@dataclasses.dataclass(frozen=True)
class Number(experiments.FigureCell):
    value: int

    @property
    def group(self):
        return self.value // 10


def test_the_runner_computes_groups_at_once(tmp_path):
    calls = []

    def run_group(group, context):
        calls.append([cell.value for cell in group])
        if 21 in calls[-1]:
            raise ValueError("no such number")
        return [{"double": 2 * cell.value} for cell in group]

    figure = experiments.Figure(
        "toy", {"quick": experiments.FigureConfig()},
        cells=lambda config, finished: [Number(value) for value in (1, 11, 2, 21, 12, 22)],
        run_cell=lambda cell, context: pytest.fail("one by one"),
        claims=lambda config, table: [], plot=lambda record, path: None, run_group=run_group,
    )  # fmt: skip
    store = CellStore(tmp_path)
    progress = execute(figure, experiments.FigureConfig(), store, experiments.RunContext())
    assert calls == [[1, 2], [11, 12], [21, 22]]
    assert {cell.value: row["double"] for cell, row in progress.finished.items()} == {1: 2, 2: 4, 11: 22, 12: 24}
    assert {cell.value for cell in progress.failed} == {21, 22}
    execute(figure, experiments.FigureConfig(), store, experiments.RunContext())
    assert calls[3:] == [[21, 22]], "what is finished is not computed again"
