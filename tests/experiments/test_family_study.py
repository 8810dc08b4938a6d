"""The study `family`: searches of the same size, claims judged on numbers made by hand, and a run of a relative."""

import collections
import dataclasses

import pytest

from mupc import experiments
from mupc.experiments._methods import CHAIN_RELATIVES, FAMILY, METHODS
from mupc.experiments._training import TrainingCell
from mupc.experiments.family import FIGURES, run_group

HOLDS, FAILS, NOT_RUN, REPORTED = experiments.VERDICTS
FIGURE = FIGURES["family"]
CONFIG = FIGURE.config("paper")


def tuned():
    """Made-up results of all tuning runs: the largest rate is best."""
    score = {"validation_loss": 1.0, "diverged": False}
    return {cell: score | {"validation_accuracy": cell.eta} for cell in FIGURE.cells(CONFIG, {}) if cell.validation}


def judged(accuracy):
    """Verdicts where a run ends with an accuracy by its cell."""
    table = []
    for cell in FIGURE.cells(CONFIG, found := tuned()):
        if cell not in found:
            history = {"learning_layers": [None, 5], "median_cosine": [1.0, 0.9], "epoch": [0, 1]}
            numbers = {"test_accuracy": accuracy(cell), "seconds_per_step": 1e-3, "layers": 5, "history": history}
            table.append({**dataclasses.asdict(cell), **numbers, "diverged": False})
    return {claim.id: claim for claim in FIGURE.claims(CONFIG, table)}


def test_every_method_has_a_search_of_the_same_size():
    for part in CONFIG.parts:
        own = [cell for cell in tuned() if cell.data == part.data and METHODS[cell.method].model == model_of(part)]
        counts = collections.Counter(cell.method for cell in own)
        assert set(counts) == {rates.method for rates in part.rates}
        assert len(set(counts.values())) == 1
        assert {cell.depth for cell in own} == {min(part.depths)}
        assert {cell.epochs for cell in own} == {part.tune_epochs}


def model_of(part):
    return METHODS[part.rates[0].method].model


def test_all_relatives_are_there_plain_and_scaled():
    mlp = {rates.method for rates in CONFIG.parts[0].rates}
    assert mlp == {f"family-{name}{end}" for name in FAMILY for end in ("", "-scaled")}
    assert {METHODS[name].rate_scaling for name in mlp if name.endswith("-scaled")} == {"mup"}
    assert {METHODS[name].rate_scaling for name in mlp if not name.endswith("-scaled")} == {"none"}
    for part, names in zip(CONFIG.parts[2:], CHAIN_RELATIVES.values(), strict=True):
        assert len(part.rates) == len(names)


def test_claims():
    found = judged(lambda cell: 0.9)
    kinds = collections.Counter(claim.verdict for claim in found.values())
    assert kinds == {REPORTED: 2 * 2 * 22 + 8 + 5, HOLDS: 4 + 2 + 2}  # Z-IL on every network, scaling on deep MLPs
    assert "90.00 ± 0.00 %, η=0.2; 1 ms a step; 5 of 5 layers learn" in found["family-family-alm-mnist-4"].measured

    apart = judged(lambda cell: 0.9 - 0.01 * cell.method.endswith("zil"))
    assert {claim.verdict for name, claim in apart.items() if "zil-is-bp" in name} == {FAILS}

    worse = judged(lambda cell: 0.9 - 0.01 * (cell.method == "family-ipc-scaled" and cell.data == "mnist"))
    verdicts = {name: claim.verdict for name, claim in worse.items() if name.startswith("family-scaling")}
    assert verdicts == {"family-scaling-mnist-32": FAILS, "family-scaling-fashion-mnist-32": HOLDS}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["family-alm-scaled", "family-ep", "family-amortised"])
def test_a_relative_is_trained_and_compared_with_bp(name):
    cell = TrainingCell(
        name, "tanh", width=8, depth=2, eta=0.05, beta=6.4, seed=0, data="digits", epochs=0.5, evaluate_every=None,
        validation=0.0, augment=False, verify=True, precision="float32",
    )  # fmt: skip
    (row,) = run_group([cell], experiments.RunContext())
    assert row["layers"] == 3 and len(row["history"]["median_cosine"]) == len(row["history"]["step"])
    assert -1 <= row["history"]["median_cosine"][-1] <= 1 and row["seconds_per_step"] > 0
