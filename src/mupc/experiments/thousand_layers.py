"""Test accuracy over depth with one learning rate, to a thousand layers and beyond: `thousand-layers`.

The paper preset took 27 minutes on one H200, with other runs next to it; the quick one takes under a minute on two CPU
cores.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path

from .. import plots
from . import _training, _training_claims
from ._claims import Claim, Finding, judge
from ._credit import run_compared
from ._declaration import presets, protocol
from ._figure import Figure, FigureCell, FigureConfig, Finished, Row, Table, by_slug, select
from ._methods import decaying, scaled
from ._training import Rates, TrainingConfig
from ._training_claims import TrainingRuns
from .training import COMMON, MUPC, QUICK_MUPC

PLAIN, SCALED, BP = map(decaying, ("error-space-0.01", scaled("error-space-0.01"), scaled("bp")))
ACTIVATION = "relu"


@dataclasses.dataclass(frozen=True)
class DepthConfig(FigureConfig):
    """Networks of `width` units: every method with `seeds` at the `depths`, and all but the paper's with `deep_seeds`
    at the `deep` ones. The deepest is also trained for `long` epochs, and once, if `far` is given, a network of that
    width and depth for that many epochs. η is the best of error space with scaled rates at the least depth, for the
    same width and number of epochs.

    `least`, `long_least`: test accuracy of the deepest network, in per cent. `near`: points from the shallowest one.
    """

    data: str = "mnist"
    width: int = 512
    depths: tuple[int, ...] = (8, 32, 128)
    deep: tuple[int, ...] = (512, 1024)
    etas: tuple[float, ...] = (0.1, 0.05, 0.03, 0.02)
    published: Rates = MUPC
    seeds: int = 3
    deep_seeds: int = 1
    epochs: float = 1.0
    long: float = 5.0
    far: tuple[int, int, float] | None = (128, 10_000, 0.5)
    evaluate_every: int = 300
    least: float = 96.8
    long_least: float = 98.0
    near: float = 0.5

    @property
    def deepest(self) -> int:
        return self.deep[-1]

    def part(self, methods: Iterable[str], *depths: int, **changes: object) -> TrainingConfig:
        """Return training runs of these methods at these depths."""
        rates = tuple(Rates(method, self.etas, tune_depth=self.depths[0], tuned_as=SCALED) for method in methods)
        changes = {"epochs": self.epochs, **changes}
        shared = {"data": self.data, "widths": (self.width,), "seeds": self.seeds, "tune_epochs": changes["epochs"]}
        own = {"precision": self.precision, "evaluate_every": self.evaluate_every, "depths": depths, "rates": rates}
        return TrainingConfig(**shared | own | changes)  # type: ignore[arg-type]

    @property
    def parts(self) -> dict[str, TrainingConfig]:
        """The runs by name: most valuable first."""
        every = (SCALED, BP, PLAIN)
        shallow = self.part(every, *self.depths)
        found = {
            "deep": self.part(every, *self.deep, seeds=self.deep_seeds),
            "long": self.part((SCALED, BP), self.deepest, epochs=self.long, seeds=1),
            "shallow": shallow,
        }
        if self.far:
            width, depth, epochs = self.far
            found["far"] = self.part((SCALED,), depth, widths=(width,), epochs=epochs, seeds=1)
        return found | {"paper": dataclasses.replace(shallow, rates=(self.published,))}


def cells(config: DepthConfig, finished: Finished) -> list[FigureCell]:
    """Return the runs, those that several parts share once."""
    found = itertools.chain(*(_training.cells(part, finished) for part in config.parts.values()))
    return list(dict.fromkeys(found))


@dataclasses.dataclass(frozen=True)
class DepthRuns:
    """The finished runs, by part of the config."""

    config: DepthConfig
    table: Table

    def of(self, part: str) -> TrainingRuns:
        chosen = self.config.parts[part]
        return TrainingRuns(chosen, select(self.table, epochs=chosen.epochs))

    def mean(self, method: str, depth: int) -> float:
        """Return the test accuracy after one epoch, in per cent."""
        return self.of("deep" if depth in self.config.deep else "shallow").final(method, ACTIVATION, depth)

    def ends(self, method: str) -> tuple[float, float]:
        """Return the test accuracy of the shallowest and of the deepest network."""
        return self.mean(method, self.config.depths[0]), self.mean(method, self.config.deepest)


def claims(config: DepthConfig, table: Table) -> list[Claim]:
    """Judge that the rate of the shallowest network is good for every depth if it scales, next to BP."""
    runs, depth = DepthRuns(config, table), config.deepest

    def accurate() -> Finding:
        found = runs.mean(SCALED, depth)
        return found >= config.least, f"{found:.2f} %"

    def as_shallow() -> Finding:
        means = {each: runs.mean(SCALED, each) for each in (*config.depths, *config.deep)}
        first = means[config.depths[0]]
        return max(abs(value - first) for value in means.values()) <= config.near, f"{_training_claims.listed(means)} %"

    def plain_falls() -> Finding:
        plain, own = runs.ends(PLAIN), runs.ends(SCALED)
        found = "; ".join(f"{name} {a:.2f} to {b:.2f} %" for name, (a, b) in (("plain", plain), ("scaled", own)))
        return plain[0] - plain[1] > own[0] - own[1], found

    def long() -> Finding:
        found, other = (runs.of("long").final(method, ACTIVATION, depth) for method in (SCALED, BP))
        return found >= config.long_least, f"{found:.2f} % (BP {other:.2f} %)"

    def backprop() -> str:
        (row, *_) = runs.of("deep").rows(SCALED, ACTIVATION, config.width, depth)
        near = f"smallest {row['smallest_cosine']:.4f}, median {row['median_cosine']:.4f} over layers"
        return f"BP {runs.mean(BP, depth):.2f} %, error space {runs.mean(SCALED, depth):.2f} %; cosine {near}"

    def far(width: int, layers: int) -> str:
        (row,) = runs.of("far").rows(SCALED, ACTIVATION, width, layers)
        learns = f"{row['learning_layers']} of {row['depth'] + 1} layers learn"
        return f"{100 * row['test_accuracy']:.2f} %, η={row['eta']:g}, {row['steps']} steps, {learns}"

    values = {"depth": depth, "first": config.depths[0], "least": config.least, "near": config.near}
    values |= {"long": config.long, "long_least": config.long_least}
    judged: dict[str, Callable[[], Finding | str]] = {
        "deep-accurate": accurate,
        "deep-as-shallow": as_shallow,
        "plain-falls-more": plain_falls,
        "deep-long": long,
        "deep-bp": backprop,
    }
    found = [judge(name, measure, **values) for name, measure in judged.items()]
    if config.far:
        width, layers, epochs = config.far
        found.append(judge("far-deeper", far, width, layers, width=width, depth=layers, epochs=epochs))
    return found


def _plot(record: Row, path: Path) -> None:
    config = STUDY.config(record["preset"], record["precision"])
    assert isinstance(config, DepthConfig)
    rows, paper = select(record["data"], validation=0.0), config.published.method
    labels = {
        SCALED: "predictive coding in error space, scaled rates",
        BP: "backpropagation, scaled rates",
        PLAIN: "predictive coding in error space, plain rates",
        paper: "the paper's gradient descent, plain rates",
    }
    once = select(rows, epochs=config.epochs, width=config.width)
    curves = {label: _by_depth(select(once, method=method)) for method, label in labels.items()}
    deepest = max(config.depths)
    mark = f"the paper's deepest: {deepest}" if record["preset"] == "paper" else f"gradient descent to {deepest}"
    plots.draw_accuracy_at_depths(record, path, curves, _further(config, rows), (mark, deepest))


def _by_depth(rows: Table) -> dict[int, list[float]]:
    """Return the accuracies in per cent, seed by seed, at each depth."""
    depths = sorted({row["depth"] for row in rows})
    return {depth: [100 * row["test_accuracy"] for row in select(rows, depth=depth)] for depth in depths}


def _further(config: DepthConfig, rows: Table) -> dict[str, tuple[int, float]]:
    """Return depth and accuracy of the runs that are longer, or of another width, by what is different."""
    named = {(config.width, config.deepest, config.long): f"error space, scaled rates, after {config.long:g} epochs"}
    if config.far:
        width, depth, epochs = config.far
        named[config.far] = f"{depth:,} layers of {width} units after {epochs:g} epochs"
    found = {(row["width"], row["depth"], row["epochs"]): row for row in select(rows, method=SCALED)}
    return {name: (run[1], 100 * found[run]["test_accuracy"]) for run, name in named.items() if run in found}


_PRESETS = presets(
    DepthConfig("bf16", protocol("thousand-layers", *COMMON)),
    precision="float32",
    protocol=protocol("digits", "thousand-layers-quick"),
    data="digits",
    width=64,
    depths=(8,),
    deep=(256,),
    etas=(0.1, 0.05, 0.03),
    published=QUICK_MUPC,
    seeds=1,
    epochs=3.0,
    long=6.0,
    far=None,
    evaluate_every=66,
    least=93.0,
    long_least=95.0,
    near=3.0,
)
STUDY = Figure("thousand-layers", _PRESETS, cells, run_compared, claims, _plot)
FIGURES = by_slug(STUDY)
