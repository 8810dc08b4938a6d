"""CIFAR-10 for twenty epochs: the paper's figure with rates tuned for the whole run, and a study of solvers next to it.

One run of 128 layers takes two minutes on an H200 with gradient descent, one with error space, half with BP.
"""

import dataclasses
from collections.abc import Mapping

from .. import plots
from ._claims import Claim, Finding, judge
from ._credit import run_compared
from ._declaration import presets
from ._figure import Figure, Table, by_slug
from ._methods import scaled
from ._training import Rates, Thresholds, TrainingConfig, cells
from ._training_claims import TrainingRuns, claims
from .training import BP, LABELS, MUPC_TUNED, paper_config, quick_settings

NOISE, NEAR_BP = 1.0, 2.0
"""Points of test accuracy: BP's standard deviation over three seeds, and how near BP error space should come."""
WHOLE_ETA = (0.05, 0.02, 0.01, 0.005)
GD = Rates("mupc-whole-run", WHOLE_ETA, beta=(10.0, 5.0, 1.0), tune_depth=8, seeds=1)
ERROR_SPACE = Rates("error-space-0.01", WHOLE_ETA, tune_depth=8)
WHOLE_BP = Rates("bp", WHOLE_ETA, tune_depth=8)
PLAIN = {"mupc": GD, "error-space-0.01": ERROR_SPACE, "bp": WHOLE_BP}
"""Plain rates, by the method whose scaled form is compared with them."""
LABELS_HERE = LABELS | {"mupc": "μPC, rates of one epoch"}


def _with_scaled(width: int, plain: Mapping[str, Rates]) -> tuple[Rates, ...]:
    """Return these rates, each with the scaled ones: from the network that is tuned, so that one tuning serves both."""
    return tuple(
        rates
        for name, own in plain.items()
        for rates in (own, dataclasses.replace(own, method=scaled(name, width), tuned_as=own.method))
    )


def study_claims(config: TrainingConfig, table: Table) -> list[Claim]:
    """Judge whether scaled rates help and whether error space keeps up with BP; report every method."""
    runs, (activation,) = TrainingRuns(config, table), config.activations
    values = {"depth": runs.deepest, "epochs": config.epochs}
    scaled_by_name = {name: scaled(name, config.widths[0]) for name in PLAIN}

    def behind(method: str, other: str, limit: float) -> Finding:
        own, their = (runs.final(name, activation, runs.deepest) for name in (method, other))
        return own >= their - limit, f"{own:.2f} % and {their:.2f} %: {own - their:+.2f} points"

    def not_worse(name: str) -> Claim:
        compared = scaled_by_name[name], PLAIN[name].method, NOISE
        return judge("scaled-{method}", behind, *compared, method=name, label=LABELS[name], limit=NOISE, **values)

    def near(rates: str, method: str, bp: str) -> Claim:
        claim = "error-space-near-bp-{rates}"
        return judge(claim, behind, method, bp, NEAR_BP, rates=rates, limit=NEAR_BP, **values)

    def report(method: str) -> Claim:
        label = LABELS[method]
        return judge("at-the-end-{method}", _report, runs, method, activation, method=method, label=label, **values)

    return [
        *map(not_worse, PLAIN),
        near("plain", ERROR_SPACE.method, "bp"),
        near("scaled", scaled_by_name[ERROR_SPACE.method], scaled_by_name["bp"]),
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
    (GD, WHOLE_BP, dataclasses.replace(MUPC_TUNED, tune_epochs=1.0), dataclasses.replace(BP, tune_epochs=1.0)),
    Thresholds(lowest=35.0, behind_bp=5.0),
    **_LONG,
    judged=(GD.method, MUPC_TUNED.method),
)
_STUDY = paper_config(
    "cifar10",
    ("cifar-whole-run", "cifar-20-epochs-solvers", "cifar"),
    _with_scaled(512, PLAIN),
    Thresholds(),
    **_LONG,
    seeds=1,
)


def _small(rates: Rates) -> Rates:
    """Return the rates for digits, with two epochs where the paper preset tunes for one."""
    beta = (16.0,) if rates.beta != (0.0,) else rates.beta
    return dataclasses.replace(rates, eta=(0.1, 0.05), beta=beta, tune_epochs=rates.tune_epochs and 2.0)


def _quick(*rates: Rates) -> dict[str, object]:
    small = {"widths": (64,), "depths": (32,), "epochs": 8.0, "tune_epochs": 8.0, "augment": False, "verify": True}
    return quick_settings("digits-for-cifar", **small, rates=rates, seeds=1)


FIGURES = by_slug(
    Figure(
        "cifar-20-epochs",
        presets(_PAPER, **_quick(*map(_small, _PAPER.rates))),
        cells,
        run_compared,
        claims,
        lambda record, path: plots.draw_accuracy_over_epochs(record, path, LABELS_HERE),
    ),
    Figure(
        "cifar-20-epochs-solvers",
        presets(_STUDY, **_quick(*_with_scaled(64, {name: _small(rates) for name, rates in PLAIN.items()}))),
        cells,
        run_compared,
        study_claims,
        lambda record, path: plots.draw_accuracy_over_epochs(record, path, LABELS),
    ),
)
