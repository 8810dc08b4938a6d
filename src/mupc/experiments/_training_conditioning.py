"""Training runs that record the condition number κ of the activity Hessian at every evaluation, and the claims
about them."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from . import _building, _training, _training_claims
from ._claims import Claim, judge, report_only
from ._figure import FigureCell, Finished, Row, RunContext, Table
from ._measuring import Finding
from ._methods import METHODS
from ._training import TrainingCell, TrainingConfig
from ._training_claims import TrainingRuns

if TYPE_CHECKING:
    import numpy as np

    from ..network import Network

DENSE = 1024
"""Up to this many unknowns all eigenvalues are computed, which is quicker than searching for the extremes."""
ENDS = ("condition_number", "largest", "smallest")
PLAIN = "sp-gd"
"""The method that others are compared with: standard networks without skips, inferred by gradient descent."""
WORSE = 10.0


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

    family = "training-conditioning"

    @property
    def label(self) -> str:
        return f"{super().label}, κ"

    @property
    def group(self) -> object:
        """Seeds are trained together."""
        return dataclasses.replace(self, seed=0)


def cells(config: ConditionedConfig, finished: Finished) -> list[FigureCell]:
    """Return the cells: runs that are not measured first."""
    unmeasured = [cell for part in config.unmeasured for cell in _training.cells(part, finished)]
    return [*unmeasured, *map(_measured, _training.cells(config, finished))]


def _measured(cell: FigureCell) -> FigureCell:
    assert isinstance(cell, TrainingCell)
    return cell if cell.validation else ConditionedCell(**dataclasses.asdict(cell))


def run_cell(cell: TrainingCell, context: RunContext) -> Row:
    """Train one network, with κ in its history if it is to be measured."""
    return run_group([cell], context)[0]


def run_group(group: Sequence[TrainingCell], context: RunContext) -> list[Row]:
    """Train the networks of one group as one program."""
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


def ends(network: Network, sample: np.ndarray, method: str) -> Row:
    """Return the ends of the activity Hessian's spectrum at the forward pass, for a target that the network predicts:
    the same quantity as in the figures of networks before training."""
    from ..diagnostics import Conditioning
    from ..network import forward

    predicted = forward(network, sample[None])[1][0]
    return Conditioning(sample, predicted, method=method)(network)


def kappas(row: Row) -> list[float]:
    """Return κ at each evaluation; infinite where float64 cannot tell the smallest eigenvalue from zero."""
    history = row["history"]
    return [
        math.inf if kappa is None and largest is not None else math.nan if kappa is None else float(kappa)
        for kappa, largest in zip(history["condition_number"], history["largest"], strict=True)
    ]


@dataclasses.dataclass(frozen=True)
class ConditionedRuns(TrainingRuns):
    """The measured runs of one activation, by hidden layers: medians of κ and means of accuracy over seeds."""

    config: ConditionedConfig
    activation: str

    @property
    def compared(self) -> tuple[str, str]:
        """The method that the figure is about, and the one to compare it with."""
        return self.config.method, PLAIN

    @property
    def labels(self) -> list[str]:
        return [METHODS[method].label for method in self.compared]

    def curves(self, method: str, depth: int) -> list[list[float]]:
        """Return κ at each evaluation, seed by seed."""
        return [kappas(row) for row in self.rows(method, self.activation, self.config.widths[0], depth)]

    def kappa(self, method: str, depth: int, place: int) -> float:
        return statistics.median(found[place] for found in self.curves(method, depth))

    def grown(self, depth: int) -> tuple[float, float]:
        """Return κ at the start and at the end of training, of the method that the figure is about."""
        return self.kappa(self.config.method, depth, 0), self.kappa(self.config.method, depth, -1)


Predicates = Callable[[ConditionedRuns], list[Claim]]


def grows(runs: ConditionedRuns) -> list[Claim]:
    """Judge that κ at the end is above κ at the start, by the factor asked for."""
    factor = runs.config.growth

    def measure() -> Finding:
        pairs = {depth: runs.grown(depth) for depth in runs.config.depths}
        true = all(end > factor * start for start, end in pairs.values())
        return true, ", ".join(f"H={depth}: {_pair(*pair)}" for depth, pair in pairs.items())

    times = f"{factor:g} × " if factor != 1 else ""
    return [judge("kappa-grows-{activation}", measure, activation=runs.activation, times=times)]


def reported(runs: ConditionedRuns) -> list[Claim]:
    """Report κ at both ends of training and at its highest."""

    def told(depth: int) -> str:
        highest = max(map(max, runs.curves(runs.config.method, depth)))
        return f"H={depth}: {_pair(*runs.grown(depth))}, highest {highest:.3g}"

    def measure() -> str:
        return "; ".join(map(told, runs.config.depths))

    return [report_only("kappa-{activation}", measure, activation=runs.activation)]


def falls(runs: ConditionedRuns) -> list[Claim]:
    """Judge that deeper networks are worse."""

    def measure() -> Finding:
        finals = {depth: runs.final(runs.config.method, runs.activation, depth) for depth in sorted(runs.config.depths)}
        listed = ", ".join(f"H={depth}: {value:.2f}" for depth, value in finals.items())
        return all(a > b for a, b in itertools.pairwise(finals.values())), f"{listed} %"

    return [judge("accuracy-falls-{activation}", measure, activation=runs.activation)]


def worse_than_plain(runs: ConditionedRuns) -> list[Claim]:
    """Judge that a method is less accurate than `PLAIN` at the greatest depth, and worse conditioned at the end."""
    own, plain = runs.labels
    names = {"label": own, "other": plain, "depth": runs.deepest, "activation": runs.activation}

    def kappa() -> Finding:
        values = [runs.kappa(method, runs.deepest, -1) for method in runs.compared]
        return values[0] > values[1], f"{own} {values[0]:.3g}, {plain} {values[1]:.3g}"

    return [
        judge("learns-less-{activation}", _less_accurate, runs, True, **names),
        judge("ends-worse-{activation}", kappa, **names),
    ]


def skips_against_plain(runs: ConditionedRuns) -> list[Claim]:
    """Judge that skips condition worse than `PLAIN` at the start at every depth, and yet learn no less at the
    greatest."""

    def kappa() -> Finding:
        pairs = {h: [runs.kappa(method, h, 0) for method in runs.compared] for h in runs.config.depths}
        told = ", ".join(f"H={h}: {own:.3g} and {other:.3g}" for h, (own, other) in pairs.items())
        return all(own >= WORSE * other for own, other in pairs.values()), told

    names = {"other": runs.labels[1], "depth": runs.deepest, "activation": runs.activation, "factor": WORSE}
    return [
        judge("skips-worse-{activation}", kappa, **names),
        judge("skips-learn-{activation}", _less_accurate, runs, False, **names),
    ]


def all_claims(*predicates: Predicates) -> Callable[[ConditionedConfig, Table], list[Claim]]:
    """Return a `Figure.claims`: those of the runs that are not measured, then each predicate for each activation."""

    def claims(config: ConditionedConfig, table: Table) -> list[Claim]:
        unmeasured = [claim for part in config.unmeasured for claim in _training_claims.claims(part, table)]
        runs = [ConditionedRuns(config, table, activation) for activation in config.activations]
        return unmeasured + [claim for one, build in itertools.product(runs, predicates) for claim in build(one)]

    return claims


def _less_accurate(runs: ConditionedRuns, expected: bool) -> Finding:
    values = [runs.final(method, runs.activation, runs.deepest) for method in runs.compared]
    told = ", ".join(f"{label} {value:.2f} %" for label, value in zip(runs.labels, values, strict=True))
    return (values[0] < values[1]) == expected, told


def _pair(start: float, end: float) -> str:
    return f"{start:.3g} → {end:.3g} ({end / start:.3g} ×)"
