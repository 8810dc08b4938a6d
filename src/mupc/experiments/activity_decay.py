"""What activity decay costs and what it conditions: `activity-decay`.

The paper preset takes about a quarter of an hour of computing on CPU cores, condition numbers and training together.
"""

import dataclasses
import functools
import itertools
import statistics

from .. import plots
from . import _training, conditioning
from ._claims import Claim, Finding, judge, require
from ._declaration import presets, protocol
from ._figure import Figure, FigureCell, Finished, Row, RunContext, Table, by_slug, select
from ._methods import DECAYS
from ._training import Rates, TrainingCell, TrainingConfig
from .conditioning import ConditionCell, ConditionConfig, ConditionTable, SliceCell

WIDE, WELL = 16, 9.0
JUDGED = ("linear", "relu")


@dataclasses.dataclass(frozen=True)
class DecayConfig(ConditionConfig):
    """Condition numbers with α = `decay`, and training runs over all α."""

    decay: float = 1.0
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)


def cells(config: DecayConfig, finished: Finished) -> list[FigureCell]:
    """Return the cells: condition numbers first, then training runs."""
    return [*conditioning.cells(config, finished), *_training.cells(config.training, finished)]


def run_cell(cell: TrainingCell | ConditionCell | SliceCell, context: RunContext) -> Row:
    """Compute a cell of either family."""
    if isinstance(cell, TrainingCell):
        return _training.run_cell(cell, context)
    return conditioning.run_cell(cell, context)


def best(table: Table, config: DecayConfig, method: str) -> float:
    """Return the highest test accuracy of any evaluation in per cent, mean over seeds."""
    rows = require(select(table, method=method), config.training.seeds, f"training with {method}")
    return 100 * statistics.fmean(max(row["history"]["test_accuracy"]) for row in rows)


def claims(config: DecayConfig, table: Table) -> list[Claim]:
    """Judge that decay conditions inference well, and that it costs accuracy."""
    measured = ConditionTable(config, table)

    def well(activation: str) -> Finding:
        sizes = itertools.product((n for n in config.widths if n >= WIDE), config.depths)
        found = {size: measured.kappa("sp", activation, *size) for size in sizes}
        worst = max(found, key=lambda size: found[size])
        return found[worst] <= WELL, f"at most {found[worst]:.2f} (N={worst[0]}, H={worst[1]})"

    def costs() -> Finding:
        found = {DECAYS[rates.method]: best(table, config, rates.method) for rates in config.training.rates}
        with_decay = [accuracy for decay, accuracy in found.items() if decay]
        told = ", ".join(f"α={decay:g}: {accuracy:.2f} %" for decay, accuracy in found.items())
        return max(with_decay) < found[0.0], told

    limits = {"limit": WELL, "decay": config.decay, "wide": WIDE}
    return [
        *(judge("decay-conditions-{activation}", well, a, activation=a, **limits) for a in JUDGED),
        judge("decay-costs", costs),
    ]


_TRAINING = TrainingConfig(
    "float64",
    widths=(128,),
    depths=(8,),
    activations=("linear",),
    rates=tuple(Rates(method, eta=(1e-3,)) for method in DECAYS),
    evaluate_every=94,
)
_SMALL = dataclasses.replace(
    _TRAINING, data="digits", widths=(32,), seeds=1, epochs=10.0, evaluate_every=22, rates=_TRAINING.rates[::2]
)
_PRESETS = presets(
    DecayConfig("float64", protocol("activity-decay"), training=_TRAINING),
    "activity-decay-quick",
    widths=(8, 16, 32),
    depths=(2, 8, 32),
    seeds=1,
    training=_SMALL,
)
_PLOT = functools.partial(plots.draw_activity_decay, decays=DECAYS)
FIGURES = by_slug(Figure("activity-decay", _PRESETS, cells, run_cell, claims, _PLOT))
