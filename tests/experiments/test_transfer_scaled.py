"""Rates that scale and rates that do not: claims judged on losses made by hand, and a group against runs one by one."""

import dataclasses
import functools
import math

import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc import experiments
from mupc.experiments.transfer_scaled import BASE, STUDY, ScaledCell, run_group

PAPER = dataclasses.replace(STUDY.config("paper"), seeds=2)
HOLDS, FAILS, NOT_RUN = experiments.HOLDS, experiments.FAILS, experiments.NOT_RUN


@functools.cache
def finished(loss):
    """The results of all stages, with the loss as a function of the cell."""
    found = {}
    while len(cells := STUDY.cells(PAPER, found)) > len(found):
        for cell in cells:
            value = loss(cell)
            found[cell] = {"last_train_loss": value, "diverged": math.isinf(value)}
    return found


def judged(loss, keep=lambda cell: True):
    """The claims by id, on the cells that are kept."""
    kept = {cell: row for cell, row in finished(loss).items() if keep(cell)}
    table = [{**dataclasses.asdict(cell), **row} for cell, row in kept.items()]
    return {claim.id: claim for claim in STUDY.claims(PAPER, table)}


def verdicts(*arguments):
    return {name: claim.verdict for name, claim in judged(*arguments).items()}


def bowl(cell, eta, beta=10.0):
    return 0.1 + 0.1 * abs(math.log(cell.eta / eta)) + (0.1 * abs(math.log(cell.beta / beta)) if cell.beta else 0.0)


def moves(cell):
    """The optimum of a network that is twice as wide or deep is at half the rate, unless rates are scaled."""
    growth = 1.0 if cell.method.endswith("-scaled") else math.prod(BASE) / (cell.width * cell.depth)
    return bowl(cell, 0.2 * growth)


def test_scaled_rates_transfer_and_plain_ones_do_not():
    assert set(verdicts(moves).values()) == {HOLDS}


def test_plain_rates_that_transfer_contradict_the_claim():
    found = verdicts(lambda cell: bowl(cell, 0.1))
    assert {name.split("-")[0]: verdict for name, verdict in found.items()} == {"scaled": HOLDS, "plain": FAILS}


def test_every_size_is_judged_by_its_own_losses():
    def loss(cell):
        off = {(128, 32): 0.19, (128, 128): 0.01}.get((cell.width, cell.depth), 0.2)
        return bowl(cell, off) if cell.method == "mupc-scaled" else moves(cell)

    found = judged(loss)
    one = found.pop("scaled-gd-N128-H128")
    assert one.verdict == FAILS and {claim.verdict for claim in found.values()} == {HOLDS}
    cost = 100 * math.log(0.2 / 0.01)  # over a least loss of 0.1
    assert one.measured.startswith(f"{cost:+.1f} %: ") and one.measured.endswith("own best 0.1 with η=0.01 β=10")


def test_rates_that_diverge_do_not_transfer():
    found = judged(lambda cell: math.inf if cell.depth == 1024 and cell.eta > 0.01 else bowl(cell, 0.1))
    assert found["plain-error-space-N128-H1024"].verdict == HOLDS
    assert found["scaled-error-space-N128-H1024"].verdict == FAILS
    assert found["scaled-error-space-N128-H1024"].measured.startswith("+inf %: inf with η=0.1, own best")


def test_missing_networks_are_not_judged():
    assert set(verdicts(moves, lambda cell: cell.seed < 1).values()) == {NOT_RUN}
    assert set(verdicts(moves, lambda cell: cell.eta < 0.1).values()) == {NOT_RUN}
    assert verdicts(moves, lambda cell: cell.beta != 5 or cell.depth < 128)["scaled-gd-N128-H128"] == NOT_RUN
    found = verdicts(moves, lambda cell: cell.width < 4096)
    assert {name for name, verdict in found.items() if verdict == NOT_RUN} == {
        f"{kind}-{solver}-N4096-H8" for kind in ("plain", "scaled") for solver in ("error-space", "gd")
    }


@pytest.mark.parametrize(("best", "tried"), [(10.0, {50, 10, 5}), (50.0, {50, 10}), (0.01, {0.05, 0.01})])
def test_large_networks_have_the_betas_next_to_the_best_of_the_base(best, tried):
    cells = [cell for cell in finished(lambda cell: bowl(cell, 0.1, best)) if cell.method.startswith("mupc")]
    assert {cell.beta for cell in cells if (cell.width, cell.depth) != BASE} == tried
    assert max(cell.beta for cell in cells) == 50


def test_the_base_is_trained_once_and_error_space_before_all_gradient_descent():
    cells = STUDY.cells(PAPER, {})
    assert {cell.method for cell in cells if (cell.width, cell.depth) == BASE} == {"error-space-0.01", "mupc"}
    solvers = [cell.method.startswith("mupc") for cell in cells]
    assert solvers == sorted(solvers)
    assert len({cell.group for cell in cells if (cell.width, cell.depth) == (128, 1024)}) == 2  # plain and scaled


@pytest.mark.slow
def test_a_group_equals_single_runs():
    shared = {"activation": "relu", "width": 16, "depth": 3, "beta": 0.0, "data": "digits", "epochs": 0.5, "last": 4}
    shared |= {"method": "error-space-0.01-scaled", "verify": True, "precision": "float64"}
    group = [ScaledCell(**shared, eta=eta, seed=seed) for eta in (0.1, 0.02) for seed in (0, 1)]
    assert len({cell.group for cell in group}) == 1
    found = run_group(group, experiments.RunContext())
    digits = mupc.data.load("digits")
    for cell, row in zip(group, found, strict=True):
        network = mupc.Network(64, 10, 16, 3, key=jr.key(cell.seed))
        result = mupc.fit(
            network, digits, mupc.ErrorSpace(cg_steps=2), epochs=0.5, weight_lr=cell.eta, seed=cell.seed,
            energy=mupc.Energy(output_precision=0.01), precision="float64", rate_scaling="mup", schedule="constant",
        )  # fmt: skip
        assert row["last_train_loss"] == pytest.approx(np.mean(result.losses[-4:]), rel=1e-8)
        assert row["test_accuracy"] == pytest.approx(result.last["test_accuracy"]) and not row["diverged"]
