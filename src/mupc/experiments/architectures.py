"""Convolutional networks and a transformer in error space, nudged, and with BP: `conv-resnet`, `conv-depth`, `vgg5` and
`shakespeare`, which has a larger twin.

The paper presets are for one accelerator, and no run should take ten minutes there; only that of `shakespeare` is for
two CPU cores. `protocols.md` has the times. The quick presets take one to two minutes of CPU time each.
"""

import dataclasses
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from .. import plots
from . import _training
from ._claims import Claim, Finding, judge, require
from ._credit import mean_at, run_followed
from ._declaration import cells_over, presets, protocol
from ._figure import Figure, FigureCell, Finished, Row, RunContext, Table, by_slug, select
from ._methods import AWAY, METHODS, PAPER_BATCH, PRECISIONS
from ._training import Rates, TrainingCell, TrainingConfig
from ._training_claims import TrainingRuns

PC, PC_STRONG, PC_WEAK = (f"error-space-{precision:g}" for precision in PRECISIONS)
"""Predictive coding with λ = 0.1, 1 and 0.01."""
COST_STEPS, COST_EVERY = 250, 50
"""Steps that are timed for a ratio of costs, and those in one interval. The first interval does not count."""


@dataclasses.dataclass(frozen=True)
class ModelConfig(TrainingConfig):
    """Training runs of one model, with the methods whose names begin with `prefix`. `limits`: the claims about the
    first method of `rates`, each with its numbers."""

    prefix: str = "resnet"
    limits: tuple[tuple[str, tuple[float, ...]], ...] = ()

    @property
    def headline(self) -> str:
        return self.rates[0].method

    @property
    def bp(self) -> str:
        return f"{self.prefix}-bp"


@dataclasses.dataclass(frozen=True)
class StepCostCell(FigureCell):
    """The time of a training step with two methods, measured one after the other."""

    family: ClassVar[str] = "step-cost"
    words: ClassVar[str] = "time of a step of {costly} and of {cheap}, N={width} H={depth}"

    costly: str
    cheap: str
    activation: str
    width: int
    depth: int
    data: str
    augment: bool
    verify: bool
    precision: str

    def run(self, method: str, steps_per_epoch: int) -> TrainingCell:
        """Return the run that is timed, of `COST_STEPS` steps."""
        shared: dict[str, Any] = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)[2:]}
        shared |= {"epochs": COST_STEPS / steps_per_epoch, "evaluate_every": COST_EVERY}
        return TrainingCell(method, eta=1e-3, beta=0.0, seed=0, validation=0.0, **shared)


def cells(config: ModelConfig, finished: Finished) -> list[FigureCell]:
    """Return the training runs, and the measurement of what a step costs if there is a claim about it."""
    found = _training.cells(config, finished)
    if COST not in dict(config.limits):
        return found
    size = {"activation": config.activations, "width": config.widths, "depth": config.depths}
    return found + cells_over(StepCostCell, config, costly=config.headline, cheap=config.bp, **size)


def run_cell(cell: TrainingCell | StepCostCell, context: RunContext) -> Row:
    """Train one network, or time the steps of two."""
    return run_cost(cell, context) if isinstance(cell, StepCostCell) else run_followed(cell, context)


def run_cost(cell: StepCostCell, context: RunContext) -> Row:
    """Time a step of both methods, and return the ratio as well."""
    seconds = {}
    for name, method in (("costly_seconds", cell.costly), ("cheap_seconds", cell.cheap)):
        train = _training.load_for(cell.run(method, 1), context).train
        run = cell.run(method, len(train) // METHODS[method].batch_size)
        _, (result,) = _training.train([run], dataclasses.replace(context, scratch=None))
        seconds[name] = result.seconds_per_step
    return seconds | {"ratio": seconds["costly_seconds"] / seconds["cheap_seconds"]}


@dataclasses.dataclass(frozen=True)
class ModelRuns:
    """The finished runs of a model on all seeds."""

    config: ModelConfig
    table: Table

    def rows(self, method: str) -> Table:
        config = self.config
        size = config.activations[0], config.widths[0], max(config.depths)
        return TrainingRuns(config, self.table).rows(method, *size)

    def scores(self, method: str) -> list[float]:
        """Return the test accuracy in per cent at the end, or the test perplexity of a text, seed by seed."""
        return [row.get("test_perplexity", 100 * row["test_accuracy"]) for row in self.rows(method)]

    def mean(self, method: str) -> float:
        return statistics.fmean(self.scores(method))

    def both(self) -> tuple[float, float]:
        """Return the mean scores of the judged method and of BP."""
        return self.mean(self.config.headline), self.mean(self.config.bp)


def claims(config: ModelConfig, table: Table) -> list[Claim]:
    """Judge one method next to BP, and report where the scores of every method come from."""
    runs = ModelRuns(config, table)
    values = {"epochs": config.epochs, "label": METHODS[config.headline].label}
    found = [judge(name, MEASURES[name], runs, *limit, limit=limit, **values) for name, limit in config.limits]
    for rates in config.rates:
        name, label = rates.method.removeprefix(f"{config.prefix}-"), METHODS[rates.method].label
        found.append(judge("model-{method}", describe, runs, rates.method, method=name, label=label))
    return found


def accurate(runs: ModelRuns, least: float) -> Finding:
    """Judge the accuracy."""
    mean, bp = runs.both()
    return mean >= least, f"{mean:.2f} % (BP {bp:.2f} %)"


def near_bp(runs: ModelRuns, points: float) -> Finding:
    """Judge how far below BP the accuracy is."""
    mean, bp = runs.both()
    return mean >= bp - points, f"{mean:.2f} %, BP {bp:.2f} %: {mean - bp:+.2f} points"


def accurate_or_near_bp(runs: ModelRuns, least: float, points: float) -> Finding:
    """Judge that either claim holds."""
    near, measured = near_bp(runs, points)
    return near or accurate(runs, least)[0], measured


def low_perplexity(runs: ModelRuns, below: float) -> Finding:
    """Judge the perplexity."""
    mean, bp = runs.both()
    return mean < below, f"{mean:.3f} (BP {bp:.3f})"


def near_bp_text(runs: ModelRuns, share: float) -> Finding:
    """Judge by how much the perplexity is above BP's."""
    mean, bp = runs.both()
    return mean <= bp * (1 + share), f"{mean:.3f}, BP {bp:.3f}: {mean / bp - 1:+.1%}"


def every_node_learns(runs: ModelRuns) -> Finding:
    """Judge that all nodes have gradients that move their weights, and that no run diverged."""
    rows = runs.rows(runs.config.headline)
    least = min(row["history"]["learning_layers"][-1] for row in rows)
    diverged = sum(row["diverged"] for row in rows)
    measured = f"{least} of {rows[0]['layers']} nodes learn at the end, {diverged} of {len(rows)} runs diverged"
    return not diverged and least == rows[0]["layers"], measured


def step_cost(runs: ModelRuns, most: float) -> Finding:
    """Judge the ratio of the times of a step."""
    (row, *_) = require(select(runs.table, costly=runs.config.headline), 1, "the time of a step was not measured")
    costly, cheap = (1e3 * row[name] for name in ("costly_seconds", "cheap_seconds"))
    return row["ratio"] <= most, f"{costly:.2f} ms, BP {cheap:.2f} ms: {row['ratio']:.2f} times"


COST = "step-cost"
MEASURES: dict[str, Callable[..., Finding]] = {
    "model-accurate": accurate,
    "model-near-bp": near_bp,
    "model-accurate-or-near-bp": accurate_or_near_bp,
    "text-perplexity": low_perplexity,
    "text-near-bp": near_bp_text,
    "every-node-learns": every_node_learns,
    COST: step_cost,
}
"""How the claims of `ModelConfig.limits` are judged."""
LEARNS = ("every-node-learns", ())


def describe(runs: ModelRuns, method: str) -> str:
    """Report the score of a method, its rate, and where its gradients come from: over training, mean over seeds."""
    rows, scores = runs.rows(method), runs.scores(method)
    spread = f" ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
    score = f"{statistics.fmean(scores):.2f}{spread}" + ("" if "test_perplexity" in rows[0] else " %")
    diverged = sum(row["diverged"] for row in rows)
    told = [
        f"{score}, η={rows[0]['eta']:g}",
        *([f"{diverged} of {len(rows)} runs diverged"] if diverged else []),
        f"{mean_at(rows, 'learning_layers'):g} of {rows[0]['layers']} nodes learn",
    ]
    if "median_cosine" in rows[0]["history"]:
        cosines = [f"{name} {_course(rows, f'{name}_cosine', '.3f')}" for name in ("median", "smallest")]
        told.append(f"cosine to BP {', '.join(cosines)}")
        if rows[0]["history"]["hidden_energy"][-1] is not None:
            told.append(f"energy in hidden nodes {_course(rows, 'hidden_energy', '.1%')}")
    return "; ".join(told)


def _course(rows: Table, name: str, form: str) -> str:
    """Return the values before training and at the end."""
    return f"{mean_at(rows, name, 0):{form}} to {mean_at(rows, name):{form}}"


def _plot(record: Row, path: Path) -> None:
    plots.draw_credit_over_epochs(record, path, {name: method.label for name, method in METHODS.items()})


def _rates(prefix: str, eta: tuple[float, ...], tune_depth: int, *others: str, judged: str = AWAY) -> tuple[Rates, ...]:
    """Return the same search for every method. Those that are only compared have one seed."""
    both = tuple(Rates(f"{prefix}-{name}", eta, tune_depth=tune_depth) for name in (judged, "bp"))
    return both + tuple(Rates(f"{prefix}-{name}", eta, tune_depth=tune_depth, seeds=1) for name in others)


def _shared(
    prefix: str, eta: tuple[float, ...], tune_depth: int, *others: str, judged: str = AWAY
) -> tuple[Rates, ...]:
    """Return the same search for the judged method and BP. Methods that are only compared take the former's rate."""
    return tuple(
        rates if rates.seeds is None else dataclasses.replace(rates, tuned_as=f"{prefix}-{judged}")
        for rates in _rates(prefix, eta, tune_depth, *others, judged=judged)
    )


def _study(slug: str, paper: dict[str, Any], **quick: object) -> Figure:
    """Return a study. Its protocol has the sections of its name and of all models."""
    sections = protocol(slug, "models", *(("cifar-copy",) if paper["data"] == "cifar10" else ()))
    small = {"precision": "float32", "protocol": protocol("digits", "models-quick"), "seeds": 1}
    full = ModelConfig(**{"precision": "bf16", "protocol": sections} | paper)
    return Figure(slug, presets(full, **small | quick), cells, run_cell, claims, _plot)


_ETA, _SMALL_ETA = (0.1, 0.05, 0.025), (0.1, 0.05)
_RESNET_ETA = (0.2, 0.1)
_CIFAR = {"data": "cifar10", "augment": True, "verify": False, "evaluate_every": 1950}
_RESNET = _CIFAR | {"activations": ("elu",), "widths": (64,)}
_DIGITS = {"data": "digits", "augment": False, "verify": True, "tune_epochs": 4.0, "evaluate_every": 44}
_SMALL_LIMITS = (("model-accurate", (94.0,)), ("model-near-bp", (2.0,)), LEARNS)
_SMALL_RESNET = _DIGITS | {"prefix": "small-resnet", "widths": (8,), "limits": _SMALL_LIMITS}
_TEXT = {
    "data": "tinyshakespeare",
    "tune_fraction": 0.05,
    "augment": True,
    "limits": (("text-perplexity", (5.0,)), ("text-near-bp", (0.03,)), LEARNS),
}
_SMALL_TEXT: dict[str, Any] = {
    "protocol": protocol("shakespeare-quick", "shakespeare"),
    "prefix": "small-transformer",
    "widths": (32,),
    "depths": (4,),
    "rates": _shared("small-transformer", _SMALL_ETA, 4, PC_STRONG, judged=PC),
    "epochs": 0.5,
    "tune_epochs": 0.2,
    "evaluate_every": 50,
    "limits": (("text-perplexity", (12.0,)), ("text-near-bp", (0.05,)), LEARNS),
}
_PUBLISHED = 2.641e-4
_VGG_ETA = (2 * _PUBLISHED, _PUBLISHED, _PUBLISHED / 2)
_GD_BETA = PAPER_BATCH * 0.01471
FIGURES = by_slug(
    _study(
        "conv-resnet",
        _RESNET
        | {
            "prefix": "resnet",
            "depths": (6,),
            "rates": _shared("resnet", _RESNET_ETA, 6, PC_WEAK, PC, PC_STRONG),
            "epochs": 30.0,
            "tune_epochs": 30.0,
            "limits": (("model-accurate", (90.0,)), ("model-near-bp", (0.5,)), LEARNS, (COST, (2.5,))),
        },
        **_SMALL_RESNET,
        depths=(1,),
        rates=_shared("small-resnet", _SMALL_ETA, 1, PC),
        epochs=12.0,
    ),
    _study(
        "conv-depth",
        _RESNET
        | {
            "prefix": "deep-resnet",
            "depths": (42,),
            "rates": _rates("deep-resnet", _RESNET_ETA, 6),
            "epochs": 16.0,
            "tune_epochs": 16.0,
            "limits": (("model-accurate", (85.0,)), ("model-near-bp", (1.0,)), LEARNS),
        },
        **_SMALL_RESNET,
        depths=(8,),
        rates=_rates("small-resnet", _SMALL_ETA, 1),
        epochs=8.0,
    ),
    _study(
        "vgg5",
        _CIFAR
        | {
            "prefix": "vgg",
            "activations": ("gelu",),
            "widths": (128,),
            "depths": (4,),
            "rates": (
                *_shared("vgg", _VGG_ETA, 4, PC_WEAK, PC, PC_STRONG),
                Rates("vgg-gd", (_PUBLISHED,), (_GD_BETA,), seeds=1),
            ),
            "epochs": 50.0,
            "tune_epochs": 50.0,
            "limits": (("model-accurate-or-near-bp", (86.8, 0.3)), LEARNS),
        },
        **_DIGITS,
        prefix="small-vgg",
        widths=(16,),
        depths=(3,),
        rates=(*_rates("small-vgg", (4e-3, 2e-3), 3), Rates("small-vgg-gd", (2e-3,), (_GD_BETA,))),
        epochs=10.0,
        limits=(("model-accurate-or-near-bp", (94.0, 2.0)), LEARNS),
    ),
    _study(
        "shakespeare",
        _TEXT
        | {
            "precision": "float32",
            "prefix": "transformer",
            "widths": (128,),
            "depths": (4,),
            "rates": _rates("transformer", _ETA, 4, PC_STRONG, PC_WEAK, judged=PC),
            "epochs": 12.0,
            "tune_epochs": 2.0,
            "evaluate_every": 1862,
        },
        **_SMALL_TEXT,
    ),
    _study(
        "shakespeare-large",
        _TEXT
        | {
            "prefix": "long-transformer",
            "widths": (256,),
            "depths": (6,),
            "rates": _shared("long-transformer", (0.2, 0.1), 6, PC_STRONG, PC_WEAK, judged=PC),
            "epochs": 48.0,
            "tune_epochs": 48.0,
            "evaluate_every": 116,
        },
        **_SMALL_TEXT,
    ),
)
