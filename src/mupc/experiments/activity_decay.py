"""What activity decay costs and what it conditions: `activity-decay`.

The paper preset takes about a quarter of an hour of computing on CPU cores, condition numbers and training together.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import statistics
from pathlib import Path
from typing import Any

from . import _conditioning, _training
from ._conditioning import POWERS, ConditionConfig, Measured
from ._figure import Claim, Figure, FigureCell, Finished, MissingCellsError, Row, RunContext, Table, judge, select
from ._methods import DECAYS
from ._training import Rates, TrainingCell, TrainingConfig

WIDE, WELL = 16, 9.0
JUDGED = ("linear", "relu")
Outcome = tuple[bool, str]


@dataclasses.dataclass(frozen=True)
class DecayConfig(ConditionConfig):
    """Condition numbers with α = `decay`, and training runs over all α."""

    decay: float = 1.0
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)


def cells(config: DecayConfig, finished: Finished) -> list[FigureCell]:
    """Condition numbers first."""
    return [*_conditioning.cells(config, finished), *_training.cells(config.training, finished)]


def run_cell(cell: Any, context: RunContext) -> Row:
    """Either kind of cell."""
    family = _training if isinstance(cell, TrainingCell) else _conditioning
    return family.run_cell(cell, context)


def best(table: Table, config: DecayConfig, method: str) -> float:
    """The highest test accuracy of any evaluation in percent, mean over seeds."""
    rows = select(table, method=method)
    if len(rows) < config.training.seeds:
        raise MissingCellsError(f"training with {method}")
    return 100 * statistics.fmean(max(row["history"]["test_accuracy"]) for row in rows)


def claims(config: DecayConfig, table: Table) -> list[Claim]:
    """Well-conditioned, and useless."""
    measured = Measured(config, table)

    def well(activation: str) -> Outcome:
        sizes = itertools.product((n for n in config.widths if n >= WIDE), config.depths)
        found = {size: measured.kappa("sp", activation, *size) for size in sizes}
        worst = max(found, key=lambda size: found[size])
        return found[worst] <= WELL, f"at most {found[worst]:.2f} (N={worst[0]}, H={worst[1]})"

    def costs() -> Outcome:
        methods = [rates.method for rates in config.training.rates]
        found = {DECAYS[method]: best(table, config, method) for method in methods}
        with_decay = [accuracy for decay, accuracy in found.items() if decay]
        told = ", ".join(f"α={decay:g}: {accuracy:.2f} %" for decay, accuracy in found.items())
        return max(with_decay) < found[0.0], told

    return [
        *(
            judge(
                f"{activation}: activity decay conditions inference well",
                f"κ ≤ {WELL:g} with α = {config.decay:g} at every H, N ≥ {WIDE}",
                functools.partial(well, activation),
            )
            for activation in JUDGED
        ),
        judge("any activity decay costs accuracy", "best test accuracy at every α > 0 below that at α = 0", costs),
    ]


def _plot(record: Row, path: Path) -> None:
    from ..plots import draw_activity_decay

    draw_activity_decay(record, path, DECAYS)


_RATES = tuple(Rates(method, eta=(1e-3,)) for method in DECAYS)
_PROTOCOL = (
    "κ as in sp-cond-nums-init, with α = 1.",
    "Training: linear networks without skips, N = 128, H = 8, SP with weights U(±1/√fan_in), Adam with η = 1e-3 as in "
    "the paper's other networks of this size, one epoch; accuracy is the best of ten evaluations, as in the paper.",
    "Inference is exact, so that no step size and no limit of steps can be blamed; the paper's is gradient descent. "
    "The values of α are ours.",
)
_TRAINING: dict[str, Any] = {"precision": "float64", "activations": ("linear",), "depths": (8,), "rates": _RATES}
_FIGURE = Figure(
    "activity-decay",
    "What activity decay costs and what it conditions",
    "Left: condition number of standard networks without skips with an activity decay of α = 1. Right: best test "
    "accuracy of linear networks of eight hidden layers over α.",
    {
        "quick": DecayConfig(
            "float64",
            ("A small check, training on scikit-learn's digits.", *_PROTOCOL),
            widths=(8, 16, 32),
            depths=(2, 8, 32),
            seeds=1,
            training=TrainingConfig(
                data="digits",
                widths=(32,),
                seeds=1,
                epochs=10.0,
                evaluate_every=22,
                **_TRAINING | {"rates": _RATES[::2]},
            ),
        ),
        "paper": DecayConfig(
            "float64",
            _PROTOCOL,
            widths=POWERS,
            depths=POWERS,
            training=TrainingConfig(widths=(128,), evaluate_every=94, **_TRAINING),
        ),
    },
    cells,
    run_cell,
    claims,
    _plot,
)
FIGURES = {_FIGURE.slug: _FIGURE}
