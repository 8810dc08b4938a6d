"""The study of open choices: tables made by hand, and one run against the library's own inference."""

import dataclasses

import jax.random as jr
import pytest

import mupc
from mupc import experiments
from mupc.experiments import protocol_choices
from mupc.experiments._declaration import LEFT_OPEN
from mupc.experiments.protocol_choices import STUDY, ChoiceConfig, Variant, outcomes

PAPER = STUDY.config("paper")


def table(config, accuracy, keep=lambda cell: True):
    """Rows with the accuracy as a function of the cell."""
    history = {"learning_layers": [None, 5, 4]}
    return [
        {**dataclasses.asdict(c), "test_accuracy": accuracy(c), "diverged": c.beta > 10, "history": history}
        for c in STUDY.cells(config, {})
        if keep(c)
    ]


def test_the_reference_is_what_fig1_runs():
    fig1 = experiments.find_figure("fig1").load()
    shared = set(fig1.cells(fig1.config("paper"), {})) & set(STUDY.cells(PAPER, {}))
    assert sorted((cell.depth, cell.seed) for cell in shared) == [
        (8, 0),
        (8, 1),
        (8, 2),
        *((32, s) for s in range(3)),
        (128, 0),
    ]


def test_each_variant_differs_in_one_thing():
    reference = dataclasses.asdict(PAPER.cells(PAPER.all[0], 8)[0])
    for variant in PAPER.variants:
        other = dataclasses.asdict(PAPER.cells(variant, 8)[0])
        assert sum(reference[name] != other[name] for name in reference) == 1
        assert variant.choice in {name for name, *_ in LEFT_OPEN}
    (summed,) = (v for v in PAPER.variants if "sum" in v.name)
    assert PAPER.cells(summed, 8)[0].beta == 0.5 * 64  # a sum over 64 samples is 64 times their mean


def test_moves_are_points_from_the_reference():
    found = outcomes(PAPER, table(PAPER, lambda c: 0.9 + 0.01 * c.seed + (0.02 if c.eta == 0.2 else 0.0)))
    by_name = {(variant.name, depth): one for (variant, depth), one in found.items()}
    assert by_name["η × 2", 8].move == pytest.approx(2.0) and by_name["η × ½", 8].move == pytest.approx(0.0)
    assert by_name["η × 2", 8].accuracy == pytest.approx(93.0) and by_name["η × 2", 128].accuracy == pytest.approx(92.0)
    assert by_name["reference", 32].learning == 4
    assert by_name["sum instead of mean", 8].diverged and "diverged" in str(by_name["sum instead of mean", 8])
    assert ("float64", 32) in by_name and ("float64", 128) not in by_name  # not asked for


def test_what_is_not_run_is_not_reported():
    rows = table(PAPER, lambda c: 0.9, lambda c: c.precision == "bf16")
    verdicts = {claim.claim.split(": ")[1]: claim.verdict for claim in STUDY.claims(PAPER, rows)}
    assert verdicts.pop("precision") == experiments.NOT_RUN
    assert set(verdicts.values()) == {experiments.REPORTED}
    without = table(PAPER, lambda c: 0.9, lambda c: c.eta != 0.1 or c.beta != 0.5)
    assert not outcomes(PAPER, without)  # no reference, no difference


@pytest.mark.slow
def test_a_tolerance_is_followed_and_obeyed():
    config = ChoiceConfig(
        precision="float64", data="digits", width=8, depths=(4,), seeds=(1,), beta=16.0, epochs=0.3, evaluate_every=3,
        variants=(Variant("tolerance", "early", "mupc-tol-0.9"),),
    )  # fmt: skip
    early = protocol_choices.run_cell(STUDY.cells(config, {})[-1], experiments.RunContext())
    steps, left = (early["history"][name] for name in ("inference_steps", "gradient_left"))
    assert len(steps) == len(early["history"]["step"]) and all(value <= 0.9 for value in left)

    dataset = mupc.data.load("digits")
    network = mupc.Network(
        dataset.in_size, dataset.out_size, width=8, hidden_layers=4, activation="relu", key=jr.key(0)
    )
    x, y = dataset.normalisation(dataset.train.raw[:64]), dataset.encode(dataset.train.targets[:64])
    norms = mupc.infer(network, x, y, mupc.GradientDescent(16 / 64, 4), history=True).history.gradient_norms
    first = next(n for n, norm in enumerate(norms) if norm <= 0.9 * norms[0])
    assert steps[0] == first < 4 and left[0] == pytest.approx(float(norms[first] / norms[0]))


def test_missing_networks_end_in_not_run():
    assert {claim.verdict for claim in STUDY.claims(PAPER, [])} == {experiments.NOT_RUN}
