"""The predicates of claims.md on tables made by hand. Accuracies are fractions in tables and per cent in claims."""

import dataclasses

import pytest

from mupc import experiments
from mupc.experiments._training import Rates, Thresholds, TrainingCell, TrainingConfig, cells, choose
from mupc.experiments._training_claims import claims

HOLDS, FAILS, NOT_RUN = experiments.HOLDS, experiments.FAILS, experiments.NOT_RUN
DEPTHS = (8, 16, 32, 64, 128)


def row(method, accuracy, depth, *, seed=0, width=512, activation="relu", best=None, validation=0.0):
    history = [0.1, accuracy if best is None else best, accuracy]
    return {
        "method": method,
        "activation": activation,
        "width": width,
        "depth": depth,
        "seed": seed,
        "validation": validation,
        "test_accuracy": accuracy,
        "history": {"test_accuracy": history},
    }


def rows(method, accuracies, seeds=3, **options):
    """The same accuracy on every seed, for each depth."""
    return [row(method, a, d, seed=s, **options) for d, a in accuracies.items() for s in range(seeds)]


def verdicts(slug, table, preset="paper"):
    figure = experiments.find_figure(slug).load()
    return [claim.verdict for claim in figure.claims(figure.config(preset), table)]


def fig1(mupc=0.96, bp=0.97, sp=0.5, **changed):
    """Accuracies at every depth; `changed` overrides those at 128 hidden layers."""
    found = []
    for method, accuracy in {"mupc": mupc, "bp": bp, "sp": sp}.items():
        found += rows(method, dict.fromkeys(DEPTHS, accuracy) | {128: changed.get(method, accuracy)})
    return found


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (fig1(), [HOLDS, HOLDS, HOLDS, HOLDS]),
        (fig1(mupc=0.949, bp=0.95), [FAILS, HOLDS, HOLDS, HOLDS]),  # 94.9 < 95
    ],
)
def test_fig1(table, expected):
    assert verdicts("fig1", table) == expected


def with_last(method, accuracy, **base):
    table = [r for r in fig1(**base) if not (r["method"] == method and r["depth"] == 128)]
    return table + rows(method, {128: accuracy})


def test_fig1_is_judged_at_every_depth():
    # One depth below 95, but within 1.5 points of the others and 2 of BP.
    assert verdicts("fig1", with_last("mupc", 0.9495, mupc=0.96, bp=0.955)) == [FAILS, HOLDS, HOLDS, HOLDS]
    # A spread of 1.6 points.
    assert verdicts("fig1", with_last("mupc", 0.976, mupc=0.96, bp=0.97)) == [HOLDS, FAILS, HOLDS, HOLDS]
    # SP 19.9 and 20.1 points below.
    assert verdicts("fig1", with_last("sp", 0.761, sp=0.1))[2] == FAILS
    assert verdicts("fig1", with_last("sp", 0.759, sp=0.1))[2] == HOLDS
    # BP further away than 2 points, on either side.
    assert verdicts("fig1", with_last("bp", 0.981))[3] == FAILS
    assert verdicts("fig1", with_last("bp", 0.939))[3] == FAILS


def test_sp_counts_with_its_best_evaluation():
    table = [r for r in fig1() if r["method"] != "sp"]
    collapsed = rows("sp", dict.fromkeys(DEPTHS, 0.1), best=0.9)
    assert verdicts("fig1", table + collapsed)[2] == FAILS


def test_claims_without_their_cells_were_not_run():
    table = fig1()
    assert verdicts("fig1", []) == [NOT_RUN] * 4
    assert verdicts("fig1", [r for r in table if r["method"] != "sp"]) == [HOLDS, HOLDS, NOT_RUN, HOLDS]
    assert verdicts("fig1", [r for r in table if r["method"] != "bp"]) == [HOLDS, HOLDS, HOLDS, NOT_RUN]
    one_seed_less = [r for r in table if not (r["method"] == "mupc" and r["depth"] == 16 and r["seed"] == 2)]
    assert verdicts("fig1", one_seed_less) == [NOT_RUN, NOT_RUN, HOLDS, NOT_RUN]


def test_tuning_runs_are_no_runs():
    table = [{**r, "validation": 0.1} for r in fig1()]
    assert verdicts("fig1", table) == [NOT_RUN] * 4


def test_means_over_seeds_are_judged():
    table = [r for r in fig1(bp=0.955) if r["method"] != "mupc"]
    seeds = [row("mupc", a, d, seed=s) for d in DEPTHS for s, a in enumerate((0.93, 0.96, 0.97))]
    assert verdicts("fig1", table + seeds)[0] == HOLDS  # mean 95.33


def test_all_activations_let_linear_networks_be_worse():
    relu, tanh, linear = (
        rows("mupc", dict.fromkeys(DEPTHS, a), activation=n)
        for n, a in (("relu", 0.96), ("tanh", 0.95), ("linear", 0.82))
    )
    assert verdicts("mupc-vs-pc-all-activations", relu + tanh + linear) == [HOLDS] * 6
    worse = rows("mupc", dict.fromkeys(DEPTHS, 0.79), activation="linear")
    assert verdicts("mupc-vs-pc-all-activations", relu + tanh + worse) == [HOLDS] * 4 + [FAILS, HOLDS]
    assert verdicts("mupc-vs-pc-all-activations", relu + linear) == [HOLDS, HOLDS, NOT_RUN, NOT_RUN, HOLDS, HOLDS]


@pytest.mark.parametrize(
    ("accuracy", "seeds", "expected"),
    [(0.974, 5, FAILS), (0.9755, 5, HOLDS), (0.984, 5, HOLDS), (0.986, 5, FAILS), (0.98, 4, NOT_RUN)],
)
def test_five_epochs(accuracy, seeds, expected):
    assert verdicts("mupc-mnist-5-epochs", rows("mupc", {128: accuracy}, seeds)) == [expected]


@pytest.mark.parametrize(("best", "expected"), [(0.884, FAILS), (0.886, HOLDS)])
def test_fashion_counts_the_best_evaluation(best, expected):
    assert verdicts("mupc-fashion-15-epochs", rows("mupc", {128: 0.87}, best=best)) == [expected]


@pytest.mark.parametrize(
    ("mupc", "bp", "expected"),
    [
        (0.45, 0.48, [HOLDS, HOLDS]),
        (0.34, 0.36, [FAILS, HOLDS]),
        (0.50, 0.48, [HOLDS, FAILS]),
        (0.40, 0.48, [HOLDS, FAILS]),
        (0.40, None, [HOLDS, NOT_RUN]),
    ],
)
def test_cifar_is_judged_by_the_rates_of_the_whole_run(mupc, bp, expected):
    table = rows("mupc-whole-run", {128: mupc}, seeds=1) + ([] if bp is None else rows("bp", {128: bp}))
    assert verdicts("cifar-20-epochs", table + rows("mupc", {128: 0.3})) == expected


def test_cifar_is_judged_by_the_rates_of_one_epoch_while_those_of_the_whole_run_are_missing():
    one_epoch = rows("mupc", {128: 0.34}) + rows("bp", {128: 0.36})
    assert verdicts("cifar-20-epochs", one_epoch) == [FAILS, HOLDS]


def widths(accuracies, spread=0.0):
    return [row("mupc", a + s * spread, 8, seed=s + 1, width=w) for w, a in accuracies.items() for s in (-1, 0, 1)]


def test_wider_is_better_within_a_standard_deviation():
    rising = {64: 0.90, 128: 0.92, 256: 0.94, 512: 0.95, 1024: 0.96}
    dip = rising | {1024: 0.945}  # half a point down
    assert verdicts("wider-is-better-mnist", widths(rising)) == [HOLDS]
    assert verdicts("wider-is-better-mnist", widths(dip)) == [FAILS]
    assert verdicts("wider-is-better-mnist", widths(dip, spread=0.004)) == [FAILS]
    assert verdicts("wider-is-better-mnist", widths(dip, spread=0.006)) == [HOLDS]
    assert verdicts("wider-is-better-mnist", widths(rising)[3:]) == [NOT_RUN]


def small_config(**changes):
    tuned = Rates("mupc", eta=(0.1, 0.01), beta=(1.0, 10.0), tune_depth=4)
    config = TrainingConfig(
        data="digits",
        widths=(8,),
        depths=(4, 8),
        rates=(tuned, Rates("bp", eta=(0.1,))),
        seeds=2,
        thresholds=Thresholds(lowest=10.0),
    )
    return dataclasses.replace(config, **changes)


def outcome(accuracy, loss=0.1, diverged=False):
    return {"validation_accuracy": accuracy, "validation_loss": loss, "diverged": diverged}


def test_runs_follow_the_tuning_they_depend_on():
    config = small_config()
    first = cells(config, {})
    tuning = [cell for cell in first if cell.validation]
    assert [(cell.eta, cell.beta, cell.depth) for cell in tuning] == [
        (0.1, 1.0, 4),
        (0.1, 10.0, 4),
        (0.01, 1.0, 4),
        (0.01, 10.0, 4),
    ]
    assert {cell.method for cell in first if not cell.validation} == {"bp"}
    some = dict.fromkeys(tuning[:3], outcome(0.5))
    assert cells(config, some) == first
    every = dict(zip(tuning, map(outcome, (0.5, 0.9, 0.7, 0.8)), strict=True))
    trained = [cell for cell in cells(config, every) if cell.method == "mupc" and not cell.validation]
    assert [(c.depth, c.seed) for c in trained] == [(4, 0), (4, 1), (8, 0), (8, 1)]
    assert {(c.eta, c.beta) for c in trained} == {(0.1, 10.0)}


def test_rates_have_their_own_epochs_seeds_and_method_to_tune():
    tuned = Rates("mupc", eta=(0.1, 0.01), beta=(1.0,), tune_depth=4, tune_epochs=5.0)
    config = small_config(
        depths=(8,),
        rates=(
            dataclasses.replace(tuned, seeds=1),
            dataclasses.replace(tuned, method="mupc-scaled-512", tuned_as="mupc"),
            dataclasses.replace(tuned, method="bp", beta=(0.0,), seeds=0),
        ),
    )
    tuning = [cell for cell in cells(config, {}) if cell.validation]
    assert [(cell.method, cell.epochs) for cell in tuning] == [("mupc", 5.0)] * 2 + [("bp", 5.0)] * 2
    found = cells(config, dict(zip(tuning, map(outcome, (0.5, 0.9, 0.9, 0.5)), strict=True)))
    trained = [(cell.method, cell.eta, cell.seed, cell.epochs) for cell in found if not cell.validation]
    assert trained == [("mupc", 0.01, 0, 1.0), *(("mupc-scaled-512", 0.01, seed, 1.0) for seed in (0, 1))]


def test_the_first_rates_whose_tuning_is_finished_train_a_method():
    whole, short = (Rates("bp", eta=(0.1, 0.01), tune_epochs=epochs) for epochs in (5.0, 1.0))
    config = small_config(depths=(8,), rates=(whole, short))
    tuning = [cell for cell in cells(config, {}) if cell.validation]
    finished = dict(zip(tuning, map(outcome, (0.5, 0.9, 0.9, 0.5)), strict=True))

    def trained(found):
        return {cell.eta for cell in cells(config, found) if not cell.validation}

    assert trained(finished) == {0.01}
    assert trained({cell: finished[cell] for cell in tuning[2:]}) == {0.1}


def test_methods_come_in_the_order_of_the_config():
    figure = experiments.find_figure("fig1").load()
    methods = [cell.method for cell in figure.cells(figure.config("paper"), {})]
    assert methods == sorted(methods, key=("mupc", "bp", "sp").index)


def test_tuning_prefers_accuracy_then_loss_and_diverged_runs_last():
    tuning = [cell for cell in cells(small_config(), {}) if cell.validation]

    def chosen(*outcomes):
        return choose(tuning, dict(zip(tuning, outcomes, strict=True)))

    assert all(isinstance(cell, TrainingCell) for cell in tuning)
    assert chosen(outcome(0.5), outcome(0.6), outcome(0.1), outcome(0.2)) == (0.1, 10.0)
    assert chosen(outcome(0.6, 0.2), outcome(0.6, 0.1), outcome(0.1), outcome(0.2)) == (0.1, 10.0)
    assert chosen(outcome(0.9, diverged=True), outcome(0.2), outcome(0.1), outcome(0.1)) == (0.1, 10.0)
    assert chosen(*[outcome(a, diverged=True) for a in (0.1, 0.3, 0.4, 0.2)]) == (0.01, 1.0)


def test_sp_is_tuned_at_every_depth_and_bp_at_eight():
    figure = experiments.find_figure("fig1").load()
    tuning = [cell for cell in figure.cells(figure.config("paper"), {}) if cell.validation]
    assert {cell.depth for cell in tuning if cell.method == "bp"} == {8}
    assert {cell.depth for cell in tuning if cell.method == "sp"} == set(DEPTHS)
    assert [cell.eta for cell in tuning if cell.method == "bp"] == [
        1,
        0.5,
        0.1,
        0.05,
        0.01,
        0.005,
        0.001,
        0.0005,
        0.0001,
    ]


def _row(method, depth, accuracy, *, cost=1.0, learning=None, seed=0):
    learning = depth + 1 if learning is None else learning
    history = {"epoch": [0.0, 1.0, 10.0], "test_accuracy": [0.1, accuracy - 0.02, accuracy],
               "learning_layers": [None, learning, learning]}  # fmt: skip
    return {"method": method, "activation": "relu", "width": 8, "depth": depth, "seed": seed, "validation": 0.0,
            "test_accuracy": accuracy, "seconds_per_step": cost, "history": history}  # fmt: skip


@pytest.mark.parametrize(
    "accuracy,cost,learning,verdict",
    [(0.88, 2.9, 17, "holds"), (0.874, 2.9, 17, "fails"), (0.88, 3.1, 17, "fails"), (0.88, 2.9, 16, "fails")],
)
def test_solver_claims(accuracy, cost, learning, verdict):
    """Near BP at 88 %, not below GD at 87.5 %, at most three times BP's cost, every layer."""
    config = TrainingConfig(widths=(8,), depths=(16,), epochs=10.0, seeds=1, thresholds=Thresholds(solvers=True))
    table = [
        _row("mupc", 16, 0.875),
        _row("bp", 16, 0.88),
        _row("error-space-0.1", 16, accuracy, cost=cost, learning=learning),
    ]
    found = {claim.claim.split(",")[1].split()[2]: claim.verdict for claim in claims(config, table)}
    assert found == {"1": "not run", "0.1": verdict, "0.03": "not run", "0.01": "not run"}


@pytest.mark.parametrize("one,verdict", [((0.90, 0.87), "holds"), ((0.90, 0.89), "fails"), ((0.92, 0.87), "fails")])
def test_one_step_claims(one, verdict):
    config = TrainingConfig(widths=(8,), depths=(8, 16), seeds=1, thresholds=Thresholds(one_step=True))
    table = [_row("mupc", 8, 0.91), _row("mupc", 16, 0.90)]
    table += [_row("mupc-one-step", depth, accuracy) for depth, accuracy in zip((8, 16), one, strict=True)]
    assert [claim.verdict for claim in claims(config, table)] == [verdict]
