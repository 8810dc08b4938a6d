"""Training at the exact equilibrium against a dense solve, and claims judged on made-up numbers."""

import jax
import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc import data, experiments
from mupc.experiments._methods import PAPER_BATCH
from mupc.experiments._store import strict
from mupc.experiments._training import TrainingCell, run_cell
from mupc.experiments.exact_inference import ends

HOLDS, FAILS, NOT_RUN = experiments.HOLDS, experiments.FAILS, experiments.NOT_RUN
SLUG = "pc-analytic-infer"
WIDTH, DEPTH, SEED = 4, 3, 1


def dense_energy(weights, x, y):
    """½ min ‖M z − c‖² of one sample, with all layers' errors stacked; skips on all hidden layers but the first."""
    size = DEPTH * WIDTH
    m, c = np.zeros((size + len(y), size)), np.zeros(size + len(y))
    m[:size] = np.eye(size)
    for layer in range(1, DEPTH):
        start = layer * WIDTH
        m[start : start + WIDTH, start - WIDTH : start] = -np.eye(WIDTH) - weights[layer]
    c[:WIDTH], m[size:, -WIDTH:], c[size:] = weights[0] @ x, weights[-1], y
    return 0.5 * np.sum((m @ np.linalg.lstsq(m, c)[0] - c) ** 2)


def dense_loss(weights, x, y):
    z = weights[0] @ x
    for weight in weights[1:-1]:
        z = z + weight @ z
    return 0.5 * np.sum((y - weights[-1] @ z) ** 2)


def test_a_cell_reports_the_energy_of_a_dense_solve():
    digits = data.load("digits")
    batches = len(digits.train) // PAPER_BATCH
    shared = {"beta": 0.0, "evaluate_every": 1, "validation": 0.0, "augment": False, "verify": True}
    cell = TrainingCell(
        "sp-exact",
        "linear",
        WIDTH,
        DEPTH,
        eta=1e-3,
        seed=SEED,
        data="digits",
        epochs=1 / batches,
        precision="float64",
        **shared,
    )
    with jax.enable_x64(False):  # as in a user's process: the cell sees to its precision itself
        found = run_cell(cell, experiments.RunContext())
    assert found["steps"] == 1 and found["history"]["energy"][0] is None

    network = mupc.Network(
        64,
        10,
        WIDTH,
        DEPTH,
        activation="linear",
        parameterisation="sp",
        init="kaiming-uniform",
        skip=1,
        key=jr.key(SEED),
    )
    layers = [network.input.weight, *network.hidden.weight, network.readout.weight]  # SP's multipliers are one
    weights = [np.asarray(weight) for weight in layers]
    batch = np.asarray(jr.permutation(jr.fold_in(jr.key(SEED), 0), len(digits.train)))[:PAPER_BATCH]
    x, y = digits.x_train[batch].astype(float), digits.y_train[batch].astype(float)
    energy = np.mean([dense_energy(weights, *sample) for sample in zip(x, y, strict=True)])
    loss = np.mean([dense_loss(weights, *sample) for sample in zip(x, y, strict=True)])
    np.testing.assert_allclose(found["history"]["energy"][1], energy, rtol=1e-6)
    np.testing.assert_allclose(found["history"]["train_loss"][1], loss, rtol=1e-6)
    np.testing.assert_allclose(found["first_train_loss"], loss, rtol=1e-6)
    assert energy < 0.9 * loss  # so that one is not taken for the other


def numbers(cell, fall=0.5, first=10.0, energy_fall=0.5, accuracy=0.15, diverged=False):
    """Made-up results of a cell: curves of twenty intervals that are `fall` as high in the end, after a first batch."""
    count = 20
    return {
        "test_accuracy": accuracy,
        "first_train_loss": first,
        "diverged": diverged,
        "history": {
            "step": [47 * n for n in range(count + 1)],
            "test_accuracy": [accuracy] * (count + 1),
            "train_loss": [None, *np.linspace(2, 2 * fall, count)],
            "energy": [None, *np.linspace(1, energy_fall, count)],
        },
    }


def results(made=numbers, keep=lambda cell: True):
    figure = experiments.find_figure(SLUG).load()
    config = figure.config("paper")
    return figure, config, {cell: made(cell) for cell in figure.cells(config, {}) if keep(cell)}


def judged(made=numbers, keep=lambda cell: True):
    figure, config, finished = results(made, keep)
    return figure.claims(config, [strict(row) for row in figure.table(config, finished)])


def verdicts(*args, **kwargs):
    return [claim.verdict for claim in judged(*args, **kwargs)]


def only(depth, seed, **changes):
    """Numbers that one cell alone has changed."""
    return lambda cell: numbers(cell, **(changes if (cell.depth, cell.seed) == (depth, seed) else {}))


def test_ends_weigh_intervals_by_their_steps():
    values = [None, *range(1, 12)]
    row = {"diverged": False, "history": {"step": [*range(0, 110, 10), 105], "energy": values}}
    assert ends(row, "energy") == (1.5, pytest.approx((10 * 10 + 5 * 11) / 15))
    assert ends({**row, "diverged": True}, "energy") == (1.5, np.inf)
    nothing = {"diverged": True, "history": {"step": [0], "energy": [None]}}
    assert ends(nothing, "energy") == (np.inf, np.inf)


def test_claims_hold_only_if_every_depth_and_seed_falls():
    assert verdicts() == [HOLDS] * 4
    assert verdicts(only(4, 1, fall=1.0)) == [FAILS, HOLDS, HOLDS, HOLDS]
    assert verdicts(only(32, 2, energy_fall=1.1)) == [HOLDS, HOLDS, FAILS, HOLDS]
    assert "1 of 3 seeds do not fall" in judged(only(4, 1, fall=1.0))[0].measured


def test_a_loss_that_falls_after_it_rose_has_not_decreased():
    assert verdicts(only(32, 0, first=0.9)) == [HOLDS, FAILS, HOLDS, HOLDS]


def test_runs_that_diverge_do_not_decrease():
    assert verdicts(only(16, 0, diverged=True)) == [FAILS, FAILS, FAILS, HOLDS]


def test_accuracy_near_chance_is_judged_at_the_deepest_only():
    assert verdicts(lambda cell: numbers(cell, accuracy=0.15 if cell.depth == 32 else 0.9)) == [HOLDS] * 4
    assert verdicts(lambda cell: numbers(cell, accuracy=0.25)) == [HOLDS, HOLDS, HOLDS, FAILS]


def test_missing_cells_are_not_run():
    assert verdicts(keep=lambda cell: cell.depth == 32) == [NOT_RUN] * 3 + [HOLDS]
    assert verdicts(keep=lambda cell: (cell.depth, cell.seed) != (32, 2)) == [NOT_RUN] * 4


@pytest.mark.parametrize("preset", experiments.PRESETS)
def test_presets_train_every_depth_and_seed_in_float64(preset):
    figure = experiments.find_figure(SLUG).load()
    config = figure.config(preset)
    cells = figure.cells(config, {})
    assert len(cells) == len(config.depths) * config.seeds
    assert all(cell.precision == "float64" and cell.eta == 1e-3 and cell.activation == "linear" for cell in cells)


def test_the_figure_shows_the_rows_there_are(drawings):
    assert len(drawings(*results(), (0, 1, None))) == 3
