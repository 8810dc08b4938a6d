"""Claims about ratios, on tables made by hand; and cells against the closed form."""

import jax.random as jr
import pytest

import mupc
from mupc import experiments
from mupc.experiments._training import TrainingCell
from mupc.experiments.loss_energy_ratios import RatioCell, curve, run_cell

HOLDS, FAILS, NOT_RUN = experiments.HOLDS, experiments.FAILS, experiments.NOT_RUN


def judge(slug, initial, final=lambda cell: 100.0, keep=lambda row: True):
    """Verdicts of the paper preset, with ratios as functions of the cell."""
    figure = experiments.find_figure(slug).load()
    config = figure.config("paper")
    rows = []
    for cell in figure.cells(config, {}):
        if isinstance(cell, TrainingCell):
            history = {"train_loss": [None, 1.0, final(cell)], "energy": [None, 1.0, 1.0]}
            rows.append({**vars(cell), "history": history, "diverged": False})
        else:
            rows.append({**vars(cell), "ratio": float(initial(cell))})
    return [claim.verdict for claim in figure.claims(config, [row for row in rows if keep(row)])]


def limit(cell):
    return 1 + cell.depth / cell.width


def test_convergence_and_its_end():
    assert judge("fig6", limit) == [HOLDS] * 3
    assert judge("fig6", lambda c: 1 + 10 * c.depth / c.width)[0] == FAILS
    assert judge("fig6", lambda c: 1.05) == [HOLDS, FAILS, HOLDS]
    assert judge("fig6", limit, final=lambda c: 15.0) == [HOLDS, HOLDS, FAILS]
    assert judge("fig6", limit, keep=lambda row: row["seed"] < 2) == [NOT_RUN] * 3


def test_standard_networks_do_not_converge():
    assert judge("sp-loss-energy-ratios", lambda c: 1 + c.depth) == [HOLDS]
    assert judge("sp-loss-energy-ratios", limit) == [FAILS]


def test_mupc_must_start_nearer_than_sp():
    assert judge("example-loss-energy-ratios", lambda c: 1.2 if c.method == "mupc-exact" else 1.3) == [HOLDS]
    assert judge("example-loss-energy-ratios", lambda c: 1.2) == [FAILS]


def test_what_is_checked_counts_seeds():
    figure = experiments.find_figure("example-loss-energy-ratios").load()
    config = figure.config("paper")
    cells = [cell for cell in figure.cells(config, {}) if isinstance(cell, RatioCell)]
    table = [{**vars(c), "ratio": 1.5 if c.method == "sp-exact" else 1.0 + c.seed / c.width} for c in cells]
    (claim,) = figure.claims(config, table)
    told = figure.checked(config, table, claim)
    assert "1 of 3 at N=2, 2 of 3 at N=4, 3 of 3 at N=8" in told  # below 1.5 where seed < N / 2


def test_a_diverged_run_ends_at_infinity():
    history = {"train_loss": [None, 2.0], "energy": [None, 1.0]}
    assert curve({"history": history, "diverged": True}) == [2.0, float("inf")]
    assert curve({"history": history, "diverged": False}) == [2.0]


@pytest.mark.parametrize("method, init", [("mupc-exact", None), ("sp-exact", "kaiming-uniform")])
def test_an_initial_cell_is_the_energy_at_the_exact_solution(method, init):
    digits = mupc.data.load("digits")
    cell = RatioCell(method, 6, 3, 2, "digits", 20, True)
    network = mupc.Network(
        64, 10, 6, 3, activation="linear", parameterisation=method.split("-")[0], init=init, key=jr.key(2)
    )
    x, y = digits.normalisation(digits.train.raw[:20]), digits.encode(digits.train.targets[:20])
    solution = mupc.infer(network, x, y, mupc.ExactLinear())
    loss = float(((y - network(x)) ** 2).sum(axis=1).mean()) / 2
    assert run_cell(cell, experiments.RunContext())["ratio"] == pytest.approx(loss / float(solution.energy), rel=1e-9)
