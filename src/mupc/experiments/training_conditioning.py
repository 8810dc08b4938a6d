"""The conditioning of inference over training: `fig3` and its twins, μPC's, and the figures that show it together with
accuracies, of orthogonal networks and of a single inference step. Training runs record the condition number κ of the
activity Hessian at every evaluation.

The paper presets need an accelerator and the data sets; the quick presets take about half a minute on two CPU cores.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import plots
from . import _methods, _training, _training_claims, training
from ._claims import Claim, Finding, judge
from ._declaration import presets, protocol
from ._figure import Figure, FigureCell, Finished, Row, RunContext, Table, by_slug
from ._methods import METHODS
from ._training import Rates, Thresholds, TrainingCell, TrainingConfig
from ._training_claims import TrainingRuns
from .training import COMMON, LABELS, QUICK_MUPC, paper_config, quick_settings

if TYPE_CHECKING:
    from ..network import Network

ACTIVATIONS = ("linear", "tanh", "relu")
GROWTH = 3.0
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
    sample = _methods.load(first.data, context.data_dir, first.verify, 0.0).x_train[0]
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


def _grows(runs: ConditionedRuns) -> Finding:
    pairs = {depth: runs.grown(depth) for depth in runs.config.depths}
    true = all(end > runs.config.growth * start for start, end in pairs.values())
    return true, ", ".join(f"H={depth}: {_pair(*pair)}" for depth, pair in pairs.items())


def _over_training(runs: ConditionedRuns) -> str:
    highest = {depth: max(map(max, runs.curves(runs.config.method, depth))) for depth in runs.config.depths}
    return "; ".join(f"H={h}: {_pair(*runs.grown(h))}, highest {kappa:.3g}" for h, kappa in highest.items())


def _pair(start: float, end: float) -> str:
    return f"{start:.3g} → {end:.3g} ({end / start:.3g} ×)"


def _falls(runs: ConditionedRuns) -> Finding:
    finals = {depth: runs.final(runs.config.method, runs.activation, depth) for depth in sorted(runs.config.depths)}
    listed = ", ".join(f"H={depth}: {value:.2f}" for depth, value in finals.items())
    return all(a > b for a, b in itertools.pairwise(finals.values())), f"{listed} %"


def _learns_less(runs: ConditionedRuns, expected: bool = True) -> Finding:
    values = [runs.final(method, runs.activation, runs.deepest) for method in runs.compared]
    told = ", ".join(f"{label} {value:.2f} %" for label, value in zip(runs.labels, values, strict=True))
    return (values[0] < values[1]) == expected, told


def _ends_worse(runs: ConditionedRuns) -> Finding:
    own, plain = (runs.kappa(method, runs.deepest, -1) for method in runs.compared)
    return own > plain, f"{runs.labels[0]} {own:.3g}, {runs.labels[1]} {plain:.3g}"


def _starts_worse(runs: ConditionedRuns) -> Finding:
    pairs = {h: [runs.kappa(method, h, 0) for method in runs.compared] for h in runs.config.depths}
    told = ", ".join(f"H={h}: {own:.3g} and {other:.3g}" for h, (own, other) in pairs.items())
    return all(own >= WORSE * other for own, other in pairs.values()), told


_CLAIMS: dict[str, Callable[[ConditionedRuns], Finding | str]] = {
    "kappa-grows": _grows,
    "kappa": _over_training,
    "accuracy-falls": _falls,
    "learns-less": _learns_less,
    "ends-worse": _ends_worse,
    "skips-worse": _starts_worse,
    "skips-learn": functools.partial(_learns_less, expected=False),
}
"""How to measure each claim about the measured runs of one activation."""


def judge_all(names: tuple[str, ...], config: ConditionedConfig, table: Table) -> list[Claim]:
    """Judge the claims about the runs that are not measured, then those with these names for each activation."""
    claims = [claim for part in config.unmeasured for claim in _training_claims.claims(part, table)]
    for activation, name in itertools.product(config.activations, names):
        runs = ConditionedRuns(config, table, activation)
        values = {"activation": activation, "depth": runs.deepest, "factor": WORSE}
        values |= {"label": runs.labels[0], "other": runs.labels[1]}
        times = f"{config.growth:g} × " if config.growth != 1 else ""
        claims.append(judge(name + "-{activation}", _CLAIMS[name], runs, times=times, **values))
    return claims


DATA = {
    "mnist": ("mnist", training.MUPC, "mupc-fixed"),
    "fashion": ("fashion-mnist", training.MUPC_FASHION, "mupc-fashion"),
}
"""The data sets that figures are repeated on: their names, μPC's rates on them, and where the rates are from."""


def _paper(data: str, names: tuple[str, ...], *rates: Rates, **settings: object) -> ConditionedConfig:
    shared = {"widths": (128,), "depths": (8, 16, 32), "evaluate_every": 94, "activations": ACTIVATIONS, "rates": rates}
    return ConditionedConfig("bf16", protocol(*names, "kappa-over-training"), data, **shared | settings)  # type: ignore[arg-type]


def _figure(
    slug: str,
    draw: plots.Drawing,
    claims: tuple[str, ...],
    paper: ConditionedConfig,
    note: str,
    quick: dict[str, object],
) -> Figure:
    shared = quick_settings(widths=(16,), depths=(4, 16), evaluate_every=11, seeds=1, activations=("relu",))
    both = presets(paper, **shared | {"protocol": protocol("digits", note, "kappa-over-training")} | quick)
    judged = functools.partial(judge_all, claims)
    return Figure(slug, both, cells, run_cell, judged, lambda record, path: draw(record, path, LABELS), run_group)


STANDARD = {
    "gd": ("kappa-grows", "accuracy-falls"),
    "adam": ("learns-less", "ends-worse"),
    "skips": ("skips-worse", "skips-learn"),
}
"""The claims about standard networks, by the end of the method's name."""


def _standard(kind: str, name: str) -> Figure:
    methods = dict.fromkeys((f"sp-{kind}", PLAIN))
    rates = [Rates(method, (1e-3,), (0.5, 0.1, 0.05)) for method in methods]
    small = {"widths": (32,), "depths": (4, 8), "epochs": 1.5}
    return _figure(
        f"sp-train-cond-nums-{kind}-{name}",
        plots.draw_conditioning_over_training,
        STANDARD[kind],
        _paper(DATA[name][0], ("sp-train-cond-nums",), *rates, growth=GROWTH),
        "sp-train-cond-nums-quick",
        small | {"rates": tuple(Rates(method, (0.01,), (0.5,)) for method in methods)},
    )


def _mupc(name: str) -> Figure:
    data, rates, rates_from = DATA[name]
    small = {"widths": (64,), "depths": (4, 8), "evaluate_every": 22, "activations": ACTIVATIONS}
    return _figure(
        f"mupc-train-cond-nums-{name}",
        plots.draw_conditioning_over_training,
        ("kappa-grows",),
        _paper(data, (rates_from, *COMMON), rates),
        "mupc-train-cond-nums-quick",
        small | {"rates": (Rates("mupc", (0.5,), (2.0,)),)},
    )


def _orthogonal(name: str) -> Figure:
    data, mupc, rates_from = DATA[name]
    tuned, quick = Rates("orthogonal", *training.SP_GRID), Rates("orthogonal", (0.01,), QUICK_MUPC.beta)
    large = paper_config(data, (), (mupc, tuned), Thresholds(orthogonal=True), activations=ACTIVATIONS)
    small = quick_settings(depths=(4, 32), seeds=1, rates=(QUICK_MUPC, quick), activations=("relu",))
    return _figure(
        f"orthog-init-{name}",
        plots.draw_conditioning_with_accuracies,
        ("kappa",),
        _paper(data, (rates_from, "orthog-init", *COMMON), tuned, accuracies=large),
        "orthog-init-quick",
        {"rates": (quick,), "accuracies": presets(large, **small)["quick"]},
    )


def _one_step(name: str) -> Figure:
    data, mupc, rates_from = DATA[name]
    one, quick = (Rates("mupc-one-step", rates.eta, rates.beta) for rates in (mupc, QUICK_MUPC))
    large = paper_config(data, (), (mupc, one), Thresholds(one_step=True))
    small = quick_settings(depths=(16, 32), rates=(QUICK_MUPC, quick))
    return _figure(
        f"mupc-one-step-{name}",
        plots.draw_one_step_conditioning,
        ("kappa",),
        _paper(data, (rates_from, "mupc-one-step", *COMMON), one, accuracies=large, activations=("relu",)),
        "mupc-one-step-quick",
        {"rates": (quick,), "accuracies": presets(large, **small)["quick"]},
    )


FIGURES = by_slug(
    *(_standard(kind, name) for name in DATA for kind in STANDARD),
    *(build(name) for name in DATA for build in (_mupc, _orthogonal, _one_step)),
)
