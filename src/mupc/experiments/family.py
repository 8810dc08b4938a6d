"""`family`: predictive coding and its relatives on the same networks, with rates from searches of the same size."""

import dataclasses
import itertools
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import plots
from . import _training
from ._claims import Claim, Finding, judge
from ._credit import mean_at, run_followed
from ._declaration import presets, protocol
from ._figure import Figure, FigureCell, FigureConfig, Finished, Row, RunContext, Table, by_slug, select
from ._methods import CHAIN_RELATIVES, FAMILY, METHODS, PAPER_BATCH, scaled
from ._training import Rates, TrainingCell, TrainingConfig
from ._training_claims import TrainingRuns

NOISE = 0.3
"""Points of test accuracy within which two methods count as equal."""


@dataclasses.dataclass(frozen=True)
class FamilyConfig(FigureConfig):
    """Several families of training runs in one figure, by data set and network."""

    parts: tuple[TrainingConfig, ...] = ()


def run_group(group: Sequence[TrainingCell], context: RunContext) -> list[Row]:
    """Train tuning runs side by side, and others one by one, and compare their gradients with BP's."""
    if group[0].validation:
        return _training.run_group(group, context)
    return [run_followed(cell, context) for cell in group]


def cells(config: FamilyConfig, finished: Finished) -> list[FigureCell]:
    """Return the runs of all parts."""
    return list(dict.fromkeys(cell for part in config.parts for cell in _training.cells(part, finished)))


@dataclasses.dataclass(frozen=True)
class FamilyRuns:
    """The finished runs of one network: a part of the study at one depth."""

    part: TrainingConfig
    depth: int
    table: Table

    def rows(self, method: str) -> Table:
        own = select(self.table, data=self.part.data)
        return TrainingRuns(self.part, own).rows(method, self.part.activations[0], self.part.widths[0], self.depth)

    def mean(self, method: str) -> float:
        return statistics.fmean(100 * row["test_accuracy"] for row in self.rows(method))


def claims(config: FamilyConfig, table: Table) -> list[Claim]:
    """Judge Z-IL, and what scaled rates do for every relative at depth; report all numbers."""
    found = []
    for part in config.parts:
        names = [rates.method for rates in part.rates]
        for depth in part.depths:
            runs = FamilyRuns(part, depth, table)
            place = {"data": part.data, "depth": depth, "noise": NOISE}
            place |= {"network": network_name(names[0], part.widths[0], depth)}
            for name in names:
                claim = "family-{method}-{data}-{depth}"
                found.append(judge(claim, describe, runs, name, method=name, label=label(name), **place))
            pair = [name for name in names if name.endswith(("-bp", "-zil"))]
            if len(pair) == 2:
                found.append(judge("family-zil-is-bp-{data}-{depth}", same, runs, *pair, **place))
            plain = [name for name in names if scaled(name) in names]
            if depth == max(part.depths) and len(part.depths) > 1 and plain:
                found.append(judge("family-scaling-{data}-{depth}", scaling_helps, runs, tuple(plain), **place))
    return found


def label(method: str) -> str:
    """Return a method's name in words."""
    return METHODS[method].label


def network_name(method: str, width: int, depth: int) -> str:
    """Return the kind and size of a network that a method trains."""
    model = METHODS[method].model
    return f"{depth} hidden layers of {width}" if model == "mlp" else f"{model}, width {width}"


def describe(runs: FamilyRuns, method: str) -> str:
    """Report the accuracy of a method, its rate, its speed, and where its gradients come from at the end."""
    rows = runs.rows(method)
    scores = [100 * row["test_accuracy"] for row in rows]
    spread = f" ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
    told = [f"{statistics.fmean(scores):.2f}{spread} %, η={rows[0]['eta']:g}"]
    told.append(f"{1e3 * statistics.fmean(row['seconds_per_step'] for row in rows):.3g} ms a step")
    told.append(f"{mean_at(rows, 'learning_layers'):.3g} of {rows[0]['layers']} layers learn")
    if "median_cosine" in rows[0]["history"]:
        told.append(f"median cosine to BP {mean_at(rows, 'median_cosine'):.3f}")
    return "; ".join(told)


def same(runs: FamilyRuns, one: str, other: str) -> Finding:
    """Judge that two methods reach the same accuracy."""
    first, second = runs.mean(one), runs.mean(other)
    return abs(first - second) <= NOISE, f"{label(one)} {first:.2f} %, {label(other)} {second:.2f} %"


def scaling_helps(runs: FamilyRuns, methods: tuple[str, ...]) -> Finding:
    """Judge that rates of the shallow network, scaled, do at least as well at depth as they do unscaled."""
    pairs = {name: (runs.mean(scaled(name)), runs.mean(name)) for name in methods}
    told = (f"{label(name)} {by:.2f} % ({plain:.2f} %)" for name, (by, plain) in pairs.items())
    return all(by >= plain - NOISE for by, plain in pairs.values()), ", ".join(told)


def _plot(record: Row, path: Path) -> None:
    titles = [
        f"{plots.written(part['data'])}, {network_name(part['rates'][0]['method'], width, depth)}"
        for part in record["config"]["parts"]
        for width, depth in itertools.product(part["widths"], part["depths"])
    ]
    plots.draw_family(record, path, {name: method.label for name, method in METHODS.items()}, titles)


def _rates(
    prefix: str, names: Sequence[str], etas: tuple[float, ...], betas: tuple[float, ...], tune_depth: int, both: bool
) -> tuple[Rates, ...]:
    """Return the same number of candidates for every relative: those with a step size of inference try fewer rates of
    the weights. With `both`, rates are plain and scaled."""
    found = []
    for name in names:
        own = tuple(eta / FAMILY[name].slower for eta in etas)
        given = (own[:: len(betas)], betas) if FAMILY[name].descends else (own, (0.0,))
        method = f"{prefix}-{name}"
        found += [Rates(each, *given, tune_depth=tune_depth) for each in (method, scaled(method))[: 1 + both]]
    return tuple(found)


_ETAS, _BETAS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005), (PAPER_BATCH * 0.4, PAPER_BATCH * 0.1)
_MLP: dict[str, Any] = {
    "activations": ("tanh",),
    "widths": (128,),
    "depths": (4, 32),
    "rates": _rates("family", tuple(FAMILY), _ETAS, _BETAS, 4, True),
    "epochs": 3.0,
    "tune_epochs": 3.0,
    "evaluate_every": 938,
}
_CIFAR: dict[str, Any] = {
    "data": "cifar10",
    "augment": True,
    "verify": False,
    "epochs": 10.0,
    "tune_epochs": 2.0,
    "evaluate_every": 780,
}
_VGG, _RESNET = (
    _CIFAR
    | {
        "activations": (activation,),
        "widths": (width,),
        "depths": (depth,),
        "rates": _rates(f"family-{model}", CHAIN_RELATIVES[model], etas, (0.94, 6.4), depth, False),
    }
    for model, activation, width, depth, etas in (
        ("vgg", "gelu", 128, 4, (1e-3, 5e-4, 2.5e-4, 1.2e-4)),
        ("resnet", "relu", 64, 6, (0.2, 0.1, 0.05, 0.025)),
    )
)
_PARTS = (*(_MLP | {"data": data} for data in ("mnist", "fashion-mnist")), _VGG, _RESNET)
_SMALL = _MLP | {
    "data": "digits",
    "widths": (16,),
    "depths": (3, 12),
    "rates": _rates("family", ("bp", "zil", "pc-gd", "alm"), (0.1, 0.02), (6.4,), 3, True),
    "seeds": 1,
    "evaluate_every": 22,
}


def _precise(part: dict[str, Any]) -> TrainingConfig:
    return TrainingConfig("bf16" if part["data"] == "cifar10" else "float32", **part)


FIGURES = by_slug(
    Figure(
        "family",
        presets(
            FamilyConfig("float32", protocol("family"), parts=tuple(map(_precise, _PARTS))),
            protocol=protocol("digits", "family"),
            parts=(_precise(_SMALL),),
        ),
        cells,
        lambda cell, context: run_group([cell], context)[0],
        claims,
        _plot,
        run_group,
    )
)
