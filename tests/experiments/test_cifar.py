"""Twenty epochs of CIFAR-10: what is tuned for it, and the study of solvers next to it."""

import dataclasses

import pytest

from mupc import experiments
from mupc.experiments._training import TrainingCell, cells
from mupc.experiments.cifar import FIGURES, study_claims

FIGURE, STUDY = FIGURES["cifar-20-epochs"], FIGURES["cifar-20-epochs-solvers"]


def tuned(figure):
    """The tuning runs, all with the same outcome."""
    found = {"validation_accuracy": 0.5, "validation_loss": 0.1, "diverged": False}
    return dict.fromkeys((cell for cell in cells(figure.config("paper"), {}) if cell.validation), found)


def test_rates_are_tuned_at_8_layers_for_as_long_as_they_are_used():
    for figure in (FIGURE, STUDY):
        config = figure.config("paper")
        found = cells(config, tuned(figure))
        own = [cell for cell in found if cell.validation and cell.epochs > 1]
        assert {(cell.depth, cell.epochs, cell.augment) for cell in own} == {(8, 20.0, True)}
        assert {(cell.depth, cell.epochs) for cell in found if not cell.validation} == {(128, 20.0)}


def test_scaled_rates_are_those_that_plain_ones_were_tuned_to():
    runs = [cell for cell in cells(STUDY.config("paper"), tuned(STUDY)) if not cell.validation]
    rates = {cell.method: (cell.eta, cell.beta) for cell in runs}
    assert rates["mupc-scaled-512"] == rates["mupc-whole-run"]
    assert rates["bp-scaled-512"] == rates["bp"] and len(rates) == 6


def test_the_study_uses_runs_of_the_figure():
    shared = set(cells(STUDY.config("paper"), tuned(STUDY))) & set(cells(FIGURE.config("paper"), tuned(FIGURE)))
    assert {cell.method for cell in shared if not cell.validation} == {"mupc-whole-run", "bp"}


def table(**accuracies):
    """One run for each method of the study, at 50 % unless given."""
    names = [rates.method for rates in STUDY.config("paper").rates]
    shared = {"activation": "relu", "width": 512, "depth": 128, "seed": 0, "validation": 0.0, "eta": 0.01, "beta": 0.0}
    values = {name: accuracies.get(name.replace("-", "_").replace(".", ""), 0.5) for name in names}
    return [
        {**shared, "method": n, "test_accuracy": a, "history": {"test_accuracy": [0.1, a]}} for n, a in values.items()
    ]


@pytest.mark.parametrize(
    "accuracies,failing",
    [
        ({}, set()),
        ({"mupc_scaled_512": 0.491}, set()),
        ({"mupc_scaled_512": 0.489}, {"scaled-mupc"}),
        ({"bp": 0.521, "bp_scaled_512": 0.519}, {"error-space-near-bp-plain"}),
        ({"error_space_001_scaled_512": 0.479}, {"scaled-error-space-0.01", "error-space-near-bp-scaled"}),
    ],
)
def test_claims_of_the_study(accuracies, failing):
    judged = study_claims(STUDY.config("paper"), table(**accuracies))
    assert {claim.id for claim in judged if claim.verdict == experiments.FAILS} == failing
    assert sum(claim.verdict == experiments.REPORTED for claim in judged) == 6


def test_cosines_to_backprop_are_reported_where_gradients_are_inferred():
    rows = table()
    rows[0] |= {"smallest_cosine": 0.75, "median_cosine": 0.9, "learning_layers": 2}
    said = {claim.id: claim.measured for claim in study_claims(STUDY.config("paper"), rows)}
    assert (
        "2 of 129 layers learn, smallest cosine among them 0.750, median over all 0.900"
        in (said["at-the-end-mupc-whole-run"])
    )
    assert "cosine" not in said["at-the-end-bp"]


@pytest.mark.slow
def test_a_run_ends_with_the_direction_of_its_gradients():
    """With a small β, the gradients of the layers that inference reaches are almost BP's."""
    cell = TrainingCell(
        "mupc", "relu", 8, 4, 0.01, 0.1, 0, "digits", 1.0, None, 0.0, augment=False, verify=True, precision="float32"
    )
    found = STUDY.run_cell(cell, experiments.RunContext())
    assert 1 <= found["learning_layers"] <= 5 and found["smallest_cosine"] == pytest.approx(1, abs=1e-2)
    for other in ({"validation": 0.1}, {"method": "bp"}):
        assert "smallest_cosine" not in STUDY.run_cell(dataclasses.replace(cell, **other), experiments.RunContext())
