"""Studies of convolutional networks and a transformer: what they tune and train, what they measure, and their claims,
judged on numbers made by hand."""

import dataclasses
import math
import re
from pathlib import Path
from types import SimpleNamespace

import equinox as eqx
import numpy as np
import pytest

from mupc import data, experiments
from mupc.data import Dataset, Schema, Split
from mupc.experiments import _training, architectures
from mupc.experiments._credit import credit_measure, run_followed
from mupc.experiments._methods import METHODS, build
from mupc.experiments._training import TrainingCell, tuning_rank

HOLDS, FAILS, NOT_RUN, REPORTED = experiments.VERDICTS
FIGURES = architectures.FIGURES
IMAGES = data.load("digits")


def paper(slug):
    """The paper preset of a study, its tuning runs with made-up results, and the runs that follow from them."""
    figure = FIGURES[slug]
    config = figure.config("paper")
    middle = sorted(config.rates[0].eta)[1]
    score = {"validation_accuracy": None, "diverged": False}
    tuned = {
        cell: score | {"validation_loss": 1.0 + (cell.eta != middle)}
        for cell in figure.cells(config, {})
        if isinstance(cell, TrainingCell) and cell.validation
    }
    runs = [cell for cell in figure.cells(config, tuned) if cell not in tuned]
    return figure, config, tuned, runs


def measured(cell):
    """Numbers with which every claim holds."""
    if isinstance(cell, architectures.StepCostCell):
        return {"costly_seconds": 0.008, "cheap_seconds": 0.004, "ratio": 2.0}
    bp = cell.method.endswith("-bp")
    history = {"learning_layers": [None, 22, 22], "epoch": [0, 1, 2]}
    if not bp:
        history |= {
            "median_cosine": [1.0, 0.9, 0.8],
            "smallest_cosine": [1.0, 0.7, 0.6],
            "hidden_energy": [None] * 3 if "nudged" in cell.method else [0, 0.1, 0.2],
        }
    found = {"test_accuracy": 0.905 + 0.002 * bp, "diverged": False, "layers": 22, "history": history}
    return found | ({"test_perplexity": 4.6 - 0.1 * bp} if cell.data == "tinyshakespeare" else {})


def judged(slug, change=lambda cell, found: found):
    figure, config, _, runs = paper(slug)
    table = [{**dataclasses.asdict(cell), **change(cell, measured(cell))} for cell in runs]
    return {claim.id: claim for claim in figure.claims(config, table)}


@pytest.mark.parametrize("slug", FIGURES)
def test_claims_that_hold_and_numbers_that_are_reported(slug):
    found = judged(slug)
    reported = [name for name in found if name.startswith(("model-error", "model-nudged", "model-bp", "model-gd"))]
    assert {claim.verdict for name, claim in found.items() if name not in reported} == {HOLDS}
    assert {found[name].verdict for name in reported} == {REPORTED}
    assert len(reported) == len(FIGURES[slug].config("paper").rates)


def test_measured_numbers_have_their_sources_next_to_them():
    found = judged("conv-resnet")
    assert found["model-near-bp"].measured == "90.50 %, BP 90.70 %: -0.20 points"
    assert found["step-cost"].measured == "8.00 ms, BP 4.00 ms: 2.00 times"
    assert found["every-node-learns"].measured == "22 of 22 nodes learn at the end, 0 of 3 runs diverged"
    assert found["model-nudged-0.1"].claim.startswith("nudged away, β = 0.1: ")
    assert found["model-nudged-0.1"].measured == (
        "90.50 ± 0.00 %, η=0.2; 22 of 22 nodes learn; cosine to BP median 1.000 to 0.800, smallest 1.000 to 0.600"
    )
    assert found["model-error-space-0.1"].measured.endswith("; energy in hidden nodes 0.0% to 20.0%")
    assert found["model-bp"].measured == "90.70 ± 0.00 %, η=0.2; 22 of 22 nodes learn"
    diverged = judged("conv-resnet", lambda cell, found: found | {"diverged": _is(cell, HEADLINE)})
    assert "%, η=0.2; 1 of 1 runs diverged; 22 of 22 nodes" in diverged["model-error-space-0.1"].measured
    assert "diverged" not in diverged["model-bp"].measured
    assert judged("shakespeare")["text-near-bp"].measured == "4.600, BP 4.500: +2.2%"


HEADLINE, AWAY = "error-space-0.1", "nudged-0.1"


@pytest.mark.parametrize(
    ("slug", "method", "change", "fail"),
    [
        ("conv-resnet", AWAY, {"test_accuracy": 0.90}, {"model-near-bp"}),
        ("conv-resnet", AWAY, {"test_accuracy": 0.80}, {"model-accurate", "model-near-bp"}),
        ("conv-resnet", HEADLINE, {"test_accuracy": 0.1}, set()),
        ("conv-resnet", None, {"ratio": 2.6}, {"step-cost"}),
        ("conv-depth", AWAY, {"test_accuracy": 0.89}, {"model-near-bp"}),
        ("conv-depth", AWAY, {"diverged": True}, {"every-node-learns"}),
        ("conv-depth", AWAY, {"layers": 130}, {"every-node-learns"}),
        ("vgg5", AWAY, {"test_accuracy": 0.87}, set()),
        ("vgg5", AWAY, {"test_accuracy": 0.86}, {"model-accurate-or-near-bp"}),
        ("vgg5", "gd", {"test_accuracy": 0.1}, set()),
        ("shakespeare", HEADLINE, {"test_perplexity": 4.7}, {"text-near-bp"}),
        ("shakespeare", HEADLINE, {"test_perplexity": 5.1}, {"text-perplexity", "text-near-bp"}),
        ("shakespeare-large", HEADLINE, {"test_perplexity": 5.1}, {"text-perplexity", "text-near-bp"}),
    ],
)
def test_each_claim_depends_on_its_own_numbers(slug, method, change, fail):
    def worse(cell, found):
        own = isinstance(cell, architectures.StepCostCell) if method is None else _is(cell, method)
        return found | change if own else found

    assert {name for name, claim in judged(slug, worse).items() if claim.verdict == FAILS} == fail


def _is(cell, method):
    return isinstance(cell, TrainingCell) and cell.method.endswith(f"-{method}")


def test_vgg_may_be_below_the_limit_if_it_is_near_bp():
    def worse(cell, found):
        return found | {"test_accuracy": 0.85}

    assert judged("vgg5", worse)["model-accurate-or-near-bp"].verdict == HOLDS


@pytest.mark.parametrize("slug", FIGURES)
def test_every_method_has_the_same_search_and_three_seeds_are_judged(slug):
    _, config, tuned, runs = paper(slug)
    methods = {rates.tuned_as or rates.method for rates in config.rates if len(rates.candidates) > 1}
    assert {config.headline, config.bp} <= methods
    assert {(cell.method, cell.eta) for cell in tuned} == {(m, eta) for m in methods for eta in config.rates[0].eta}
    assert len({(cell.epochs, cell.validation, cell.seed, cell.depth, cell.width) for cell in tuned}) == 1
    runs = [cell for cell in runs if isinstance(cell, TrainingCell)]
    assert {cell.eta for cell in runs} == {sorted(config.rates[0].eta)[1]}
    assert {cell.seed for cell in runs if cell.method == config.headline} == {0, 1, 2}
    assert {cell.seed for cell in runs if cell.method == config.bp} == {0, 1, 2}
    assert len({(cell.epochs, cell.augment, cell.data, cell.width, cell.depth) for cell in runs}) == 1


@pytest.mark.parametrize("slug", ["conv-resnet", "conv-depth", "vgg5"])
def test_convolutional_networks_are_tuned_for_the_whole_run(slug):
    _, _, tuned, runs = paper(slug)
    assert len({cell.epochs for cell in [*tuned, *runs] if isinstance(cell, TrainingCell)}) == 1


def test_the_rates_of_130_nodes_are_tuned_at_22():
    deep, shallow = (
        {dataclasses.replace(cell, epochs=0.0, method=cell.method.removeprefix(prefix)) for cell in paper(slug)[2]}
        for slug, prefix in (("conv-depth", "deep-resnet"), ("conv-resnet", "resnet"))
    )
    assert deep == shallow and {cell.depth for cell in deep} == {6}
    assert {cell.depth for cell in paper("conv-depth")[3]} == {42}


SIZES = {"conv-resnet": 22, "conv-depth": 130, "vgg5": 5, "shakespeare": 6, "shakespeare-large": 8}


@pytest.mark.parametrize(("slug", "nodes"), SIZES.items())
def test_networks_of_the_paper_presets(slug, nodes):
    cell = next(cell for cell in paper(slug)[3] if isinstance(cell, TrainingCell))
    schema = Schema(labels=tuple(range(10)), image_shape=(3, 32, 32))
    none = Split(np.zeros((0, 3072), np.float32), np.zeros(0, np.int32))
    if METHODS[cell.method].model == "transformer":
        context = METHODS[cell.method].context
        schema = Schema(labels=tuple(map(chr, range(65))), context=context)
        none = Split(*2 * [np.zeros((0, context), np.int32)])
    made_up = Dataset("made up", none, none, None, schema, False, "made here")
    network = eqx.filter_eval_shape(
        lambda: build(METHODS[cell.method], made_up, cell.activation, cell.width, cell.depth, cell.seed)
    )
    assert network.layer_count == nodes
    assert METHODS[cell.method].algorithm(0.0, cell.depth).solver.cg_steps == 1


def test_texts_are_tuned_by_their_perplexity():
    better = {"validation_accuracy": 0.3, "validation_loss": 1.0, "validation_perplexity": 2.7, "diverged": False}
    worse = better | {"validation_accuracy": 0.4, "validation_loss": 1.1, "validation_perplexity": 3.0}
    assert tuning_rank(better) > tuning_rank(worse)
    del better["validation_perplexity"], worse["validation_perplexity"]
    assert tuning_rank(better) < tuning_rank(worse)


def test_the_cost_of_a_step_is_a_ratio_of_two_runs_of_one_cell(monkeypatch):
    (cell,) = (cell for cell in paper("conv-resnet")[3] if isinstance(cell, architectures.StepCostCell))
    seen = []

    def train(cells, context):
        seen.extend(cells)
        return IMAGES, [SimpleNamespace(seconds_per_step=0.006 if "nudged" in cells[0].method else 0.003)]

    monkeypatch.setattr(_training, "train", train)
    monkeypatch.setattr(_training, "load_for", lambda *_: SimpleNamespace(train=range(1280)))
    found = architectures.run_cell(cell, experiments.RunContext())
    assert found == {"costly_seconds": 0.006, "cheap_seconds": 0.003, "ratio": 2.0}
    assert [run.method for run in seen] == ["resnet-nudged-0.1", "resnet-bp"]
    steps = [run.epochs * (1280 // 128) for run in seen]
    assert steps == [architectures.COST_STEPS] * 2 and seen[0].evaluate_every * 5 == steps[0]


def small_cell(method, **changes):
    sizes = {"activation": "relu", "width": 4, "depth": 1, "eta": 0.05, "beta": 0.0, "seed": 0, "validation": 0.0}
    run = {"data": "digits", "epochs": 0.2, "evaluate_every": None, "augment": False, "verify": True}
    return TrainingCell(method, **sizes | run | {"precision": "float32"} | changes)


def test_long_runs_tell_how_far_they_are(monkeypatch):
    cell, told = small_cell("bp", depth=2, evaluate_every=2, validation=0.1), []
    monkeypatch.setattr(_training, "TELL_EVERY", math.inf)
    _training.run_cell(cell, experiments.RunContext(tell=told.append))
    assert not told
    monkeypatch.setattr(_training, "TELL_EVERY", 0)
    _training.run_cell(cell, experiments.RunContext(tell=told.append))
    lines = [
        re.fullmatch(rf"  {re.escape(cell.label)}: step (\d+) of 4, [\d.]+ ms a step, (.*)", line) for line in told
    ]
    assert [line[1] for line in lines] == ["2", "4"]
    assert re.fullmatch(r"train loss [\d.]+, validation accuracy [\d.]+, test accuracy [\d.]+", lines[0][2])


def test_a_run_far_worse_than_guessing_ends_and_counts_as_diverged():
    """Ten classes: a guess has log 10 = 2.3."""
    hopeless, poor = (small_cell("small-vgg-bp", eta=eta, epochs=2.0, evaluate_every=2) for eta in (100.0, 0.01))
    row = _training.run_cell(hopeless, experiments.RunContext())
    assert row["diverged"] and row["steps"] < 44 and row["train_loss"] > 5 * math.log(10)
    row = _training.run_cell(poor, experiments.RunContext())
    assert not row["diverged"] and row["steps"] == 44
    squares = small_cell("bp")
    assert not _training.is_hopeless({"train_loss": 1e9}, squares, IMAGES)


def test_methods_that_do_not_infer_have_nothing_to_compare():
    assert credit_measure(small_cell("small-resnet-bp"), IMAGES) is None


def test_a_nudge_has_cosines_but_no_shares_of_an_energy():
    network = build(METHODS["small-resnet-bp"], IMAGES, "relu", 4, 1, 0)
    found = credit_measure(small_cell("small-resnet-nudged-0.1"), IMAGES)(network)
    assert 0.9 < found["smallest_cosine"] <= found["median_cosine"] <= 1 and math.isnan(found["hidden_energy"])


@pytest.mark.slow
def test_gradients_become_those_of_bp_as_the_output_precision_falls():
    """Predictive coding's limit, measured on an untrained network without symmetry."""
    network = build(METHODS["small-resnet-bp"], IMAGES, "relu", 4, 1, 0)
    found = {
        precision: credit_measure(small_cell(f"small-resnet-error-space-{precision:g}"), IMAGES)(network)
        for precision in (1.0, 0.1, 0.01)
    }
    shares = [found[precision]["hidden_energy"] for precision in (1.0, 0.1, 0.01)]
    np.testing.assert_array_less(shares[1:], [share / 3 for share in shares[:-1]])
    assert found[0.01]["smallest_cosine"] > found[1.0]["smallest_cosine"] and found[0.01]["smallest_cosine"] > 0.9999
    assert {each["learning_layers"] for each in found.values()} == {network.layer_count}


@pytest.fixture
def english(tmp_path):
    """A file of English sentences: the letters of the project's pages."""
    pages = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
    path = tmp_path / "pages.txt"
    path.write_text(re.sub("[^a-z]+", " ", "".join(page.read_text() for page in pages).lower()))
    return path


@pytest.mark.slow
def test_the_test_split_of_a_text_is_scored_once(english, monkeypatch):
    import mupc

    scored, evaluate = [], mupc.Model.evaluate

    def counted(self, x, y):
        scored.append(len(x))
        return evaluate(self, x, y)

    monkeypatch.setattr(mupc.Model, "evaluate", counted)
    cell = small_cell(
        "small-transformer-error-space-0.1", data=str(english), width=8, epochs=0.5, evaluate_every=20, augment=True
    )
    row = run_followed(cell, experiments.RunContext())
    text = data.load(english, context=32)
    assert scored == [len(text.test)]
    assert set(row["history"]["test_accuracy"]) == {None} and set(row["history"]["test_loss"]) == {None}
    assert row["test_perplexity"] == pytest.approx(math.exp(row["test_loss"]))
    assert row["validation_perplexity"] == min(row["history"]["validation_perplexity"]) < text.classes / 2
    assert len(row["history"]["median_cosine"]) == len(row["history"]["epoch"]) and row["layers"] == 3
    tuning = run_followed(dataclasses.replace(cell, validation=0.05), experiments.RunContext())
    assert "test_perplexity" not in tuning and "history" not in tuning and len(scored) == 1


@pytest.mark.slow
def test_the_effect_is_there_on_a_text_of_ones_own(english, tmp_path):
    figure = FIGURES["shakespeare"]
    quick = figure.config("quick")
    config = dataclasses.replace(quick, data=str(english), epochs=1.0, tune_epochs=0.25, rates=quick.rates[:2])
    progress = experiments.execute(figure, config, experiments.CellStore(tmp_path / "work"), experiments.RunContext())
    assert progress.complete and not progress.failed
    claims = figure.claims(config, figure.table(config, progress.finished))
    assert {claim.id for claim in claims if claim.verdict == HOLDS} >= {"text-near-bp", "every-node-learns"}
