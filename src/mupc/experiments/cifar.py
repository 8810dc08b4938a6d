"""CIFAR-10 for twenty epochs: the paper's figure with rates tuned for the whole run, and a study of solvers next to it.

One run of 128 layers takes two minutes on an H200 with gradient descent, one with error space, half with BP.
"""

import dataclasses

from .. import plots
from ._claims import Claim, Finding, judge
from ._declaration import presets
from ._figure import Figure, Table, by_slug
from ._methods import scaled
from ._training import Rates, Thresholds, TrainingConfig, TrainingRuns, cells, claims, run_compared
from .training import BP, LABELS, MUPC_TUNED, paper_config, quick_settings

NOISE, NEAR_BP = 1.0, 2.0
"""Points of test accuracy: BP's standard deviation over three seeds, and how near BP error space should come."""
WHOLE_ETA = (0.05, 0.02, 0.01, 0.005)
GD = Rates("mupc-whole-run", WHOLE_ETA, beta=(10.0, 5.0, 1.0), tune_depth=8, seeds=1)
ERROR_SPACE = Rates("error-space-0.01", WHOLE_ETA, tune_depth=8)
WHOLE_BP = Rates("bp", WHOLE_ETA, tune_depth=8)
PLAIN = {"mupc": GD, "error-space-0.01": ERROR_SPACE, "bp": WHOLE_BP}
"""Rates that are not scaled, by the method that is scaled."""
SCALED = {name: scaled(name, 512) for name in PLAIN}
"""At the network of 512 units that is tuned there is nothing to scale, so one tuning serves both."""
LABELS_HERE = LABELS | {"mupc": "μPC, rates of one epoch"}


def study_claims(config: TrainingConfig, table: Table) -> list[Claim]:
    """Judge whether scaled rates help and whether error space keeps up with BP; report every method."""
    runs, (activation,) = TrainingRuns(config, table), config.activations
    values = {"depth": runs.deepest, "epochs": config.epochs}

    def behind(method: str, other: str, limit: float) -> Finding:
        own, their = (runs.final(name, activation, runs.deepest) for name in (method, other))
        return own >= their - limit, f"{own:.2f} % and {their:.2f} %: {own - their:+.2f} points"

    def not_worse(name: str) -> Claim:
        compared = SCALED[name], PLAIN[name].method, NOISE
        return judge("scaled-{method}", behind, *compared, method=name, label=LABELS[name], limit=NOISE, **values)

    def near(rates: str, method: str, bp: str) -> Claim:
        claim = "error-space-near-bp-{rates}"
        return judge(claim, behind, method, bp, NEAR_BP, rates=rates, limit=NEAR_BP, **values)

    def report(method: str) -> Claim:
        label = LABELS[method]
        return judge("at-the-end-{method}", _report, runs, method, activation, method=method, label=label, **values)

    return [
        *map(not_worse, SCALED),
        near("plain", ERROR_SPACE.method, "bp"),
        near("scaled", SCALED[ERROR_SPACE.method], SCALED["bp"]),
        *(report(rates.method) for rates in config.rates),
    ]


def _report(runs: TrainingRuns, method: str, activation: str) -> str:
    first, *_ = runs.rows(method, activation, runs.config.widths[0], runs.deepest)
    beta = f" β={first['beta']:g}" if first["beta"] else ""
    best = runs.best(method, activation, runs.deepest)
    ended = (
        f"{runs.final(method, activation, runs.deepest):.2f} %, best evaluation {best:.2f} %, η={first['eta']:g}{beta}"
    )
    if first.get("smallest_cosine") is None:
        return ended
    return (
        f"{ended}; {first['learning_layers']} of {runs.deepest + 1} layers learn, smallest cosine among them "
        f"{first['smallest_cosine']:.3f}, median over all {first['median_cosine']:.3f}"
    )


_LONG = {"depths": (128,), "epochs": 20.0, "tune_epochs": 20.0, "augment": True, "verify": False}
_PAPER = paper_config(
    "cifar10",
    ("cifar-whole-run", "cifar-20-epochs", "cifar"),
    (GD, WHOLE_BP, dataclasses.replace(MUPC_TUNED, tune_epochs=1.0), dataclasses.replace(BP, tune_epochs=1.0, seeds=0)),
    Thresholds(lowest=35.0, behind_bp=5.0),
    **_LONG,
    judged=GD.method,
)
_STUDY = paper_config(
    "cifar10",
    ("cifar-whole-run", "cifar-20-epochs-solvers", "cifar"),
    tuple(
        rates
        for name, plain in PLAIN.items()
        for rates in (plain, dataclasses.replace(plain, method=SCALED[name], tuned_as=plain.method))
    ),
    Thresholds(),
    **_LONG,
    seeds=1,
)


def _small(rates: Rates) -> Rates:
    """Return the rates for digits."""
    return dataclasses.replace(rates, eta=(0.1, 0.05), beta=(16.0,) if len(rates.beta) > 1 else (0.0,), tune_depth=4)


def _quick(paper: TrainingConfig) -> dict[str, object]:
    sizes = {"depths": (16,), "epochs": 8.0, "tune_epochs": 8.0, "augment": False, "verify": True}
    rates = (dataclasses.replace(_small(each), tune_epochs=each.tune_epochs and 2.0) for each in paper.rates)
    return quick_settings("digits-for-cifar", **sizes, rates=tuple(rates), seeds=1)


FIGURES = by_slug(
    Figure(
        "cifar-20-epochs",
        presets(_PAPER, **_quick(_PAPER)),
        cells,
        run_compared,
        claims,
        lambda record, path: plots.draw_accuracy_over_epochs(record, path, LABELS_HERE),
    ),
    Figure(
        "cifar-20-epochs-solvers",
        presets(_STUDY, **_quick(_STUDY)),
        cells,
        run_compared,
        study_claims,
        lambda record, path: plots.draw_accuracy_over_epochs(record, path, LABELS),
    ),
)
