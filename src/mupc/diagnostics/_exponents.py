"""How sizes should scale with width and depth, and whether they do: the verdicts of the coordinate check."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy

AXES = {"width": "wider", "depth": "deeper"}
"""Each axis of the check, and the word for more of it."""
GROUPS = ("input", "first", "middle", "last", "readout")
CONFIDENCE = 0.95
WIDEST = 0.25
"""The widest interval that passes. Exponents are multiples of ½: beyond ± ¼ one cannot be told from the next."""
VERDICTS = ("fail", "unclear", "pass")
"""Worst first. A slope fails when it is outside its tolerance and the promise is outside its interval. It is unclear
when the interval is too wide to pass, or holds the promise although the slope is outside the tolerance."""


Updates = Mapping[str, float]
"""How weight updates have to compare with those of a base size, by group of layers."""
Size = tuple[int, int | None]
"""The width and the depth of a network."""


class Promise(NamedTuple):
    """A promise that a size scales like N^width · r · L^depth · ℓ^layer, within `tolerance` of each slope. L = H + 1 is
    the number of layers, ℓ that of the layer, and r the size of the entries of a_L·W_L to the power `readout`."""

    width: float = 0.0
    readout: float = 0.0
    depth: float = 0.0
    layer: float = 0.0
    tolerance: float = 0.1


READOUT = {"mupc": -1.0, "sp": -0.5, "ntp": -0.5, "orthogonal": -0.5}
"""How the entries of a_L·W_L scale with the width, for each parameterisation. All error that reaches a hidden layer
passes through them, and the output at initialisation is a sum of N such entries with random signs."""

FORWARD = {
    "activities": Promise(tolerance=0.1),
    "branches": Promise(depth=-0.5, tolerance=0.15),  # independent from layer to layer, L of them add up to order one
    "output": Promise(width=0.5, readout=1, tolerance=0.25),
}
LEARNING = {
    "errors": Promise(readout=1, tolerance=0.2),
    "activity updates": Promise(readout=1, layer=1, tolerance=0.25),  # skips pass on the errors of all layers below
    "weight updates": Promise(tolerance=0.2),  # times what the rate factors of the parameterisation say
}
TRAINED = {
    **{quantity: promise for quantity, promise in (FORWARD | LEARNING).items() if quantity != "output"},
    "drift": Promise(tolerance=0.1),  # of the output too, part of which is still its initial value
}
UP_TO_THE_READOUT = ("output", "output error", "weight updates", "drift")
"""Quantities of the readout; the others end with the last hidden layer."""


MEANINGS = {
    "activities": (
        "signals grow as networks get {more}, until they overflow; the hidden multiplier is too large (μPC: 1/√(N·L))",
        "signals fade as networks get {more}: little of the input reaches the top; the hidden multiplier is too small, "
        "or there are no skip connections",
    ),
    "branches": (
        "layers add too much to the skip connections in {more} networks; check the hidden multiplier (μPC: 1/√(N·L))",
        "layers turn into identities as networks get {more}; check the hidden multiplier (μPC: 1/√(N·L))",
    ),
    "output": (
        "the output is too large in {more} networks: learning rates will have to fall with their size; check the "
        "readout multiplier (μPC: 1/N)",
        "the output is too small in {more} networks: they learn more slowly; check the readout multiplier (μPC: 1/N)",
    ),
    "errors": (
        "errors are too large in {more} networks: inference rates that suit small networks will not suit these",
        "errors fade as networks get {more}: inference does not carry the output's error to all layers; use "
        "mupc.ErrorSpace with a small output precision, or more inference steps",
    ),
    "activity updates": (
        "inference moves activities too far in {more} networks: activity rates that suit small networks will not suit "
        "these",
        "inference moves activities too little in {more} networks: it does not reach all layers; use mupc.ErrorSpace "
        "with a small output precision, or more inference steps",
    ),
    "weight updates": (
        "weights move too far in {more} networks: {rates}, or in small ones gradients are as small as the optimiser's "
        "ε",
        "weights move too little in {more} networks: gradients fall to the optimiser's ε and below; use "
        "mupc.ErrorSpace with a small output precision. With SGD, scale learning rates with the size of the network",
    ),
    "drift": (
        "training moves activities and output further in {more} networks",
        "training moves activities and output less in {more} networks: they hardly learn",
    ),
}
"""For each quantity, explanations of one that grows faster than promised, and of one that grows slower."""
RATE = (
    "The moves of more weights add up in {more} networks: without rate scaling expect up to +0.5 with Adam, and the "
    "best rate to fall with size"
)
SMALL = "Rates are scaled, but for networks that are large enough: compare larger ones"
UNCLEAR = "the interval is too wide to tell: take more seeds, or more sizes"
DEGENERATE = "some sizes are zero or not finite: the signal is lost or overflows, or training diverges"


class CoordinateSize(NamedTuple):
    """The mean absolute entry of a quantity in a group of layers, whose mean number is `layer`, of one network before
    training step `step`. In `hidden_layers` models other than the mlp have their number of blocks."""

    width: int
    hidden_layers: int | None
    seed: int
    step: int
    quantity: str
    group: str
    layer: float
    size: float


@dataclasses.dataclass(frozen=True)
class Slope:
    """How a size scales with width or depth (`axis`) on log–log axes: the slope, the half-width of its 95 % confidence
    interval, the expected slope and its tolerance, one of `VERDICTS`, and what it means if it is not `pass`."""

    axis: str
    stage: str
    step: int
    quantity: str
    group: str
    slope: float
    interval: float
    expected: float
    tolerance: float
    verdict: str
    meaning: str

    @property
    def off(self) -> float:
        """The distance from the expected slope, in tolerances."""
        return abs(self.slope - self.expected) / self.tolerance if math.isfinite(self.slope) else math.inf

    @property
    def rank(self) -> tuple[int, float]:
        """The place among others, the worst first."""
        return VERDICTS.index(self.verdict), -self.off

    @property
    def place(self) -> str:
        """The group of layers; after training, also the step."""
        return f"{self.group}, step {self.step}" if self.step else self.group

    def __str__(self) -> str:
        found = f"slope {self.slope:+.2f} ± {self.interval:.2f}" if math.isfinite(self.slope) else "no slope"
        return (
            f"{self.stage}, {self.quantity} ({self.place}) over {self.axis}: {found}, expected {self.expected:+.2f} ± "
            f"{self.tolerance:.2f}"
        )


@dataclasses.dataclass(frozen=True)
class CoordinateCheck:
    """The result of `mupc.coordinate_check`.

    - `sizes`: a row for each network, step, quantity and group of layers.
    - `slopes`: a row for each axis, stage, quantity and group, with its verdict.
    - `verdicts`: `{stage: {axis: "pass" | "fail" | "unclear"}}`. Stages are `at init` (the forward pass), `first step`
      (inference, and what the weights then learn) and `after … steps`. `verdict` is the worst of them.
    - `failures`: a line for each quantity that fails, with its meaning. `unclear`: a line for each one whose interval
      is too wide to tell.
    """

    sizes: tuple[CoordinateSize, ...]
    slopes: tuple[Slope, ...]

    @property
    def verdicts(self) -> dict[str, dict[str, str]]:
        """The worst verdict of the slopes of each stage and axis."""
        found: dict[str, dict[str, list[str]]] = {}
        for slope in self.slopes:
            found.setdefault(slope.stage, {}).setdefault(slope.axis, []).append(slope.verdict)
        return {stage: {axis: _worst(given) for axis, given in axes.items()} for stage, axes in found.items()}

    @property
    def verdict(self) -> str:
        """The worst verdict of all slopes; `unclear` if there are none."""
        return _worst([slope.verdict for slope in self.slopes] or ["unclear"])

    @property
    def passed(self) -> bool:
        """Whether every slope passes."""
        return self.verdict == "pass"

    @property
    def worst(self) -> list[Slope]:
        """For each axis, stage and quantity, the group of layers and the step that are furthest off."""
        found: dict[tuple[str, str, str], Slope] = {}
        for slope in self.slopes:
            key = slope.axis, slope.stage, slope.quantity
            if key not in found or slope.rank < found[key].rank:
                found[key] = slope
        return list(found.values())

    @property
    def failures(self) -> list[str]:
        """One line for each quantity that fails: its worst group, at the first stage where it does."""
        return list(self._lines("fail").values())

    @property
    def unclear(self) -> list[str]:
        """One line for each quantity that is unclear and does not fail at another stage."""
        failed = self._lines("fail")
        return [line for key, line in self._lines("unclear").items() if key not in failed]

    def _lines(self, verdict: str) -> dict[tuple[str, str], str]:
        found: dict[tuple[str, str], str] = {}
        for slope in self.worst:
            if slope.verdict == verdict:
                found.setdefault((slope.axis, slope.quantity), f"{slope}: {slope.meaning}.")
        return found

    def __str__(self) -> str:
        stages = self.verdicts.items()
        lines = [f"{stage}: " + ", ".join(f"{axes[axis]} over {axis}" for axis in axes) for stage, axes in stages]
        return "\n".join([*lines, *self.failures, *self.unclear])


def _worst(verdicts: Sequence[str]) -> str:
    return min(verdicts, key=VERDICTS.index)


def layer_group(layer: int, hidden_layers: int) -> str:
    """Return the group of layer 1 … L: the input layer, a third of the hidden ones above it, or the readout."""
    if layer == 1:
        return "input"
    if layer > hidden_layers:
        return "readout"
    return ("first", "middle", "last")[3 * (layer - 2) // (hidden_layers - 1)]


def layer_numbers(quantity: str, sizes: np.ndarray, hidden_layers: int) -> np.ndarray:
    """Return the layer numbers of sizes, which end with the last layer that has this quantity."""
    last = hidden_layers + (quantity in UP_TO_THE_READOUT)
    return np.arange(last - len(sizes) + 1, last + 1)


def group_sizes(quantity: str, sizes: np.ndarray, hidden_layers: int) -> Iterator[tuple[str, float, float]]:
    """Yield each group of layers with its mean layer number and its mean size."""
    layers = layer_numbers(quantity, sizes, hidden_layers)
    names = np.array([layer_group(int(layer), hidden_layers) for layer in layers])
    for name in GROUPS:
        if (inside := names == name).any():
            yield name, float(layers[inside].mean()), float(sizes[inside].mean())


def judge_slopes(
    sizes: Sequence[CoordinateSize],
    axis: str,
    parameterisation: str,
    updates: Mapping[Size, Updates | None],
    scaled: bool = False,
) -> Iterator[Slope]:
    """Fit and judge the slopes of sizes that were measured over one axis. `updates` has the weight updates that are
    promised, by width and depth; where it has none, they are not judged. `scaled`: whether learning rates were."""
    last = max(size.step for size in sizes)
    stages = [("at init", range(1), FORWARD), ("first step", range(1), LEARNING)]
    if last:
        stages.append((f"after {last} step{'s' * (last > 1)}", range(1, last + 1), TRAINED))
    series: dict[tuple[int, str, str], list[CoordinateSize]] = {}
    for size in sizes:
        series.setdefault((size.step, size.quantity, size.group), []).append(size)
    networks = {(size.width, size.hidden_layers) for size in sizes}
    for (stage, steps, promises), (key, rows) in itertools.product(stages, series.items()):
        complete = {(row.width, row.hidden_layers) for row in rows} == networks
        if key[0] in steps and key[1] in promises and complete:
            factors = [_update_factor(row, updates) if key[1] == "weight updates" else 1.0 for row in rows]
            if None not in factors:
                promise = promises[key[1]]
                yield _judge(rows, axis, stage, promise, READOUT[parameterisation], np.array(factors), scaled)


def _update_factor(row: CoordinateSize, updates: Mapping[Size, Updates | None]) -> float | None:
    """Return how large a weight update has to be next to that of the base size."""
    factors = updates.get((row.width, row.hidden_layers))
    return None if factors is None else factors[row.group]


def _judge(
    rows: Sequence[CoordinateSize],
    axis: str,
    stage: str,
    promise: Promise,
    readout: float,
    factors: np.ndarray,
    scaled: bool,
) -> Slope:
    """Judge one slope. The promise holds times a factor for each row."""
    depths = [row.hidden_layers or 1 for row in rows]
    scale = np.log([row.width for row in rows] if axis == "width" else depths)
    exponents = promise.width + promise.readout * readout, promise.depth, promise.layer
    promised = [np.dot(exponents, np.log([row.width, h + 1, row.layer])) for row, h in zip(rows, depths, strict=True)]
    expected = round(fit_line(scale, promised + np.log(factors))[0], 9) + 0.0  # without the sign of a rounded zero
    with np.errstate(divide="ignore", invalid="ignore"):
        slope, interval = fit_line(scale, np.log([row.size for row in rows]))
    off = slope - expected
    if abs(off) <= promise.tolerance and interval <= WIDEST:
        verdict, meaning = "pass", ""
    elif abs(off) <= max(promise.tolerance, interval):
        verdict, meaning = "unclear", UNCLEAR
    else:
        verdict, meaning = "fail", _meaning(rows[0], axis, off, scaled)
    which = axis, stage, rows[0].step, rows[0].quantity, rows[0].group
    return Slope(*which, slope, interval, expected, promise.tolerance, verdict, meaning)


def fit_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the slope of y over x by least squares, and the half-width of its confidence interval by Student's t. NaN
    if y is not finite."""
    if not np.all(np.isfinite(y)):
        return math.nan, math.nan
    spread, freedom = x - np.mean(x), len(x) - 2
    squares = np.sum(spread**2)
    slope = np.sum(spread * y) / squares
    left = np.sum((y - np.mean(y) - slope * spread) ** 2)
    interval = scipy.special.stdtrit(freedom, (1 + CONFIDENCE) / 2) * math.sqrt(left / freedom / squares)
    return float(slope), float(interval)


def _meaning(row: CoordinateSize, axis: str, off: float, scaled: bool) -> str:
    if not math.isfinite(off):
        return DEGENERATE
    above, below = MEANINGS[row.quantity]
    trained = row.step > 0 and row.quantity not in LEARNING
    text = below if off < 0 else f"{above}. {SMALL if scaled else RATE}" if trained else above
    rates = "these are too small for the promise" if scaled else "learning rates are not scaled with their size"
    return text.format(more=AXES[axis], rates=rates)
