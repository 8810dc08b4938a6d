"""Accuracy over depth: claims judged on accuracies made by hand."""

import dataclasses

import pytest

from mupc import experiments, plots
from mupc.experiments.thousand_layers import BP, PLAIN, SCALED, STUDY

PAPER = STUDY.config("paper")
BEST = 0.05
TUNED = {
    cell: {"validation_accuracy": 0.9 + 0.01 * (cell.eta == BEST), "validation_loss": 0.1, "diverged": False}
    for cell in STUDY.cells(PAPER, {})
    if cell.validation
}
CELLS = [cell for cell in STUDY.cells(PAPER, TUNED) if not cell.validation]
HOLDS, FAILS, NOT_RUN, REPORTED = experiments.VERDICTS


def accuracy(cell):
    if cell.epochs == 5:
        return 0.981 + 0.001 * (cell.method == BP)
    falls = {SCALED: 0.0001, BP: 0.0002, PLAIN: 0.003}.get(cell.method, 0.0)
    return 0.971 + 0.001 * (cell.seed - 1) * (cell.depth <= 128) - falls * cell.depth / 100


def judged(accuracy=accuracy, keep=lambda cell: True):
    """The claims by id, with the accuracy as a function of the cell, on the cells that are kept."""
    measured = {"smallest_cosine": 0.9, "median_cosine": 0.95, "learning_layers": 7, "steps": 468}
    table = [{**dataclasses.asdict(cell), "test_accuracy": accuracy(cell), **measured} for cell in filter(keep, CELLS)]
    return {claim.id: claim for claim in STUDY.claims(PAPER, table)}


def test_claims_that_hold_and_numbers_that_are_reported():
    found = judged()
    assert [claim.verdict for claim in found.values()] == [HOLDS] * 4 + [REPORTED] * 2
    assert found["deep-as-shallow"].measured == "H=8: 97.10, H=32: 97.10, H=128: 97.09, H=512: 97.05, H=1024: 97.00 %"
    assert found["plain-falls-more"].measured == "plain 97.08 to 94.03 %; scaled 97.10 to 97.00 %"
    assert found["deep-long"].measured == "98.10 % (BP 98.20 %)"
    measured = "BP 96.90 %, error space 97.00 %; cosine smallest 0.9000, median 0.9500 over layers"
    assert found["deep-bp"].measured == measured
    assert found["far-deeper"].measured == "96.10 %, η=0.05, 468 steps, 7 of 10001 layers learn"


@pytest.mark.parametrize(
    ("method", "depth", "epochs", "points", "fail"),
    [
        (SCALED, 1024, 1, 2, {"deep-accurate", "deep-as-shallow"}),
        (SCALED, 32, 1, 2, {"deep-as-shallow"}),
        (PLAIN, 8, 1, 4, {"plain-falls-more"}),
        (SCALED, 1024, 5, 2, {"deep-long"}),
        (BP, 1024, 1, 9, set()),
        ("mupc", 128, 1, 9, set()),
    ],
)
def test_each_claim_depends_on_its_own_runs(method, depth, epochs, points, fail):
    def worse(cell):
        return accuracy(cell) - points / 100 * ((cell.method, cell.depth, cell.epochs) == (method, depth, epochs))

    found = judged(worse)
    assert {name for name, claim in found.items() if claim.verdict == FAILS} == fail


def test_missing_runs_are_not_judged():
    one = judged(keep=lambda cell: cell.seed == 0)
    assert {name for name, claim in one.items() if claim.verdict == NOT_RUN} == {"deep-as-shallow", "plain-falls-more"}
    short = judged(keep=lambda cell: cell.epochs == 1)
    assert {name for name, claim in short.items() if claim.verdict == NOT_RUN} == {"deep-long", "far-deeper"}


def test_tuning_runs_are_not_drawn(monkeypatch, tmp_path):
    drawn = {}
    monkeypatch.setattr(plots, "draw_accuracy_at_depths", lambda _, __, curves, *rest: drawn.update(curves))
    rows = [{**dataclasses.asdict(cell), "test_accuracy": accuracy(cell)} for cell in (*TUNED, *CELLS)]
    STUDY.plot({"preset": "paper", "precision": "bf16", "data": rows}, tmp_path / "figure.png")
    assert {len(curve[8]) for curve in drawn.values()} == {3}  # the seeds


def test_gradient_descent_is_that_of_fig1():
    fig1 = experiments.find_figure("fig1").load()
    shared = set(fig1.cells(fig1.config("paper"), {})) & set(CELLS)
    assert len(shared) == 9 and shared == {cell for cell in CELLS if cell.method == "mupc"}


def test_all_but_the_paper_have_the_rate_that_is_best_at_the_least_depth():
    assert {(cell.method, cell.width, cell.depth) for cell in TUNED} == {(SCALED, 512, 8), (SCALED, 128, 8)}
    assert {cell.epochs for cell in TUNED} == {0.5, 1.0, 5.0}  # of the runs that they serve
    assert {cell.eta for cell in CELLS if cell.method != "mupc"} == {BEST}
    assert {cell.method for cell in STUDY.cells(PAPER, {}) if not cell.validation} == {"mupc"}
