"""Training runs whose inference is measured as they go: the condition number κ of the activity Hessian at every
evaluation. And the predicates of claims.md on them."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from . import _building, _training, _training_claims
from ._figure import Claim, FigureCell, Finished, Row, RunContext, Table, judge, report_only
from ._methods import METHODS
from ._training import TrainingCell, TrainingConfig
from ._training_claims import TrainingRuns

if TYPE_CHECKING:
    from ..network import Network

DENSE = 1024
"""Up to so many unknowns all eigenvalues are computed, which is quicker than to look for the extremes."""
ENDS = ("condition_number", "largest", "smallest")
Outcome = tuple[bool, str]


@dataclasses.dataclass(frozen=True)
class ConditionedConfig(TrainingConfig):
    """Runs that are measured; the first of `rates` is what the figure is about, others are to compare with.

    - `growth`: by what factor κ must grow over training.
    - `accuracies`: more runs, of other sizes, that are not measured. They are run in this config's precision.
    """

    growth: float = 1.0
    accuracies: TrainingConfig | None = None

    @property
    def method(self) -> str:
        return self.rates[0].method

    @property
    def unmeasured(self) -> list[TrainingConfig]:
        found = self.accuracies
        return [] if found is None else [dataclasses.replace(found, precision=self.precision)]


@dataclasses.dataclass(frozen=True)
class ConditionedCell(TrainingCell):
    """One training run that is measured. Tuning runs are not, and stay plain ones."""

    family: ClassVar[str] = "training-conditioning"

    @property
    def label(self) -> str:
        return f"{super().label}, κ"

    @property
    def group(self) -> object:
        """All seeds."""
        return dataclasses.replace(self, seed=0)


def cells(config: ConditionedConfig, finished: Finished) -> list[FigureCell]:
    """The runs that are not measured first."""
    return list(_cells(config, finished))


def _cells(config: ConditionedConfig, finished: Finished) -> Iterator[FigureCell]:
    for beside in config.unmeasured:
        yield from _training.cells(beside, finished)
    for cell in _training.cells(config, finished):
        assert isinstance(cell, TrainingCell)
        yield cell if cell.validation else ConditionedCell(**dataclasses.asdict(cell))


def run_cell(cell: TrainingCell, context: RunContext) -> Row:
    """One run, with κ in its history if it is to be measured."""
    return run_group([cell], context)[0]


def run_group(group: Sequence[TrainingCell], context: RunContext) -> list[Row]:
    """The runs of one group as one program."""
    first = group[0]
    if not isinstance(first, ConditionedCell):
        return _training.run_group(group, context)
    sample = _building.load(first.data, context.data_dir, first.verify, 0.0).x_train[0]
    method = "dense" if first.width * first.depth <= DENSE else "iterative"
    found = _training.run_group(group, context, {"ends": lambda network: ends(network, sample, method)})
    for row in found:
        measured = row["history"].pop("ends")
        row["history"] |= {name: [one[name] for one in measured] for name in ENDS}
    return found


def ends(network: Network, sample: Any, method: str) -> Row:
    """The ends of the activity Hessian's spectrum at the forward pass, for a target that the network predicts: the
    same quantity as in the figures of networks before training."""
    from ..diagnostics import Conditioning
    from ..network import forward

    predicted = forward(network, sample[None])[1][0]
    return Conditioning(sample, predicted, method=method)(network)


def kappas(row: Row) -> list[float]:
    """κ at each evaluation; infinite where float64 cannot tell the smallest eigenvalue from zero."""
    history = row["history"]
    return [
        math.inf if kappa is None and largest is not None else math.nan if kappa is None else float(kappa)
        for kappa, largest in zip(history["condition_number"], history["largest"], strict=True)
    ]


@dataclasses.dataclass(frozen=True)
class Trained:
    """What the measured runs of one activation found, by hidden layers: medians of κ and means of accuracy over
    seeds."""

    config: ConditionedConfig
    table: Table
    activation: str

    @property
    def deepest(self) -> int:
        return max(self.config.depths)

    def kappa(self, method: str, depth: int, place: int) -> float:
        rows = self._runs.rows(method, self.activation, self.config.widths[0], depth)
        return statistics.median(kappas(row)[place] for row in rows)

    def accuracy(self, method: str, depth: int) -> float:
        return self._runs.final(method, self.activation, depth)

    @property
    def _runs(self) -> TrainingRuns:
        return TrainingRuns(self.config, self.table)


Predicates = Callable[[Trained], list[Claim]]


def grows(found: Trained) -> list[Claim]:
    """κ at the end above κ at the start, by the factor asked for."""
    config, factor = found.config, found.config.growth

    def measure() -> Outcome:
        pairs = {h: [found.kappa(config.method, h, place) for place in (0, -1)] for h in config.depths}
        true = all(end > factor * start for start, end in pairs.values())
        return true, ", ".join(f"H={h}: {_pair(start, end)}" for h, (start, end) in pairs.items())

    times = f"{factor:g} × " if factor != 1 else ""
    return [judge(f"κ grows with training, {found.activation}", f"κ at the end > {times}κ at the start", measure)]


def reported(found: Trained) -> list[Claim]:
    """Report κ at both ends of training and at its highest."""
    config = found.config

    def told(depth: int) -> str:
        rows = TrainingRuns(config, found.table).rows(config.method, found.activation, config.widths[0], depth)
        start, end = (found.kappa(config.method, depth, place) for place in (0, -1))
        return f"H={depth}: {_pair(start, end)}, highest {max(max(kappas(row)) for row in rows):.3g}"

    def measure() -> str:
        return "; ".join(map(told, config.depths))

    return [report_only(f"κ over training, {found.activation}", "reported", measure)]


def falls(found: Trained) -> list[Claim]:
    """Deeper networks are worse."""
    depths = sorted(found.config.depths)

    def measure() -> Outcome:
        finals = [found.accuracy(found.config.method, depth) for depth in depths]
        listed = ", ".join(f"H={depth}: {value:.2f}" for depth, value in zip(depths, finals, strict=True))
        return all(a > b for a, b in itertools.pairwise(finals)), f"{listed} %"

    return [judge(f"accuracy falls with depth, {found.activation}", "final accuracy falling in H", measure)]


def worse_than(other: str) -> Predicates:
    """At the greatest depth: less accurate, and worse conditioned at the end."""

    def claims(found: Trained) -> list[Claim]:
        method, depth, activation = found.config.method, found.deepest, found.activation
        names = [METHODS[name].label for name in (method, other)]

        def accuracy() -> Outcome:
            own, others = (found.accuracy(name, depth) for name in (method, other))
            return own < others, f"{names[0]} {own:.2f} %, {names[1]} {others:.2f} %"

        def kappa() -> Outcome:
            own, others = (found.kappa(name, depth, -1) for name in (method, other))
            return own > others, f"{names[0]} {own:.3g}, {names[1]} {others:.3g}"

        return [
            judge(f"{names[0]} learns less at H={depth}, {activation}", f"accuracy below that of {names[1]}", accuracy),
            judge(
                f"{names[0]} ends worse conditioned at H={depth}, {activation}", f"κ above that of {names[1]}", kappa
            ),
        ]

    return claims


WORSE = 10.0


def skips_against(other: str) -> Predicates:
    """Worse conditioned at the start at every depth, and yet no less accurate at the greatest."""

    def claims(found: Trained) -> list[Claim]:
        method, depth, activation = found.config.method, found.deepest, found.activation
        names = [METHODS[name].label for name in (method, other)]

        def kappa() -> Outcome:
            pairs = {h: [found.kappa(name, h, 0) for name in (method, other)] for h in found.config.depths}
            told = ", ".join(f"H={h}: {own:.3g} and {others:.3g}" for h, (own, others) in pairs.items())
            return all(own >= WORSE * others for own, others in pairs.values()), told

        def accuracy() -> Outcome:
            own, others = (found.accuracy(name, depth) for name in (method, other))
            return own >= others, f"{names[0]} {own:.2f} %, {names[1]} {others:.2f} %"

        return [
            judge(
                f"skips condition worse at every depth, {activation}",
                f"κ at the start ≥ {WORSE:g} × that of {names[1]}",
                kappa,
            ),
            judge(
                f"and yet learn no less at H={depth}, {activation}", f"accuracy not below that of {names[1]}", accuracy
            ),
        ]

    return claims


def all_claims(*predicates: Predicates) -> Callable[[ConditionedConfig, Table], list[Claim]]:
    """Those of the runs that are not measured, then each predicate for each activation."""

    def claims(config: ConditionedConfig, table: Table) -> list[Claim]:
        beside = [claim for part in config.unmeasured for claim in _training_claims.claims(part, table)]
        measured = itertools.product(config.activations, predicates)
        return beside + [claim for act, build in measured for claim in build(Trained(config, table, act))]

    return claims


def _pair(start: float, end: float) -> str:
    return f"{start:.3g} → {end:.3g} ({end / start:.3g} ×)"
