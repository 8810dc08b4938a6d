"""Size of the forward pass over depth, at initialisation: `fwd-pass-stability`.

`mupc reproduce fwd-pass-stability --preset paper` takes under ten minutes on two CPU cores, in 3 GB of memory.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from ._figure import (
    Claim,
    Figure,
    FigureCell,
    FigureConfig,
    Finished,
    MissingCellsError,
    Row,
    RunContext,
    Table,
    judge,
    select,
)

HOMOGENEOUS = ("linear", "relu")


@dataclasses.dataclass(frozen=True)
class Kind:
    """A way to scale a network. If its multipliers do not depend on the depth, the first layers of the deepest
    network are a shallower one, and one pass gives all depths.

    Where φ(cz) = c φ(z) for c > 0, inputs are multiplied by `scale` and activities divided by it. That is exact, and
    keeps 256 layers of growth or decay inside float32.
    """

    parameterisation: str
    skip: int
    depends_on_depth: bool
    scale: float = 1.0


KINDS = {
    "sp": Kind("sp", 1, False, scale=1e-12),
    "orthogonal": Kind("orthogonal", 0, False, scale=1e12),
    "mupc": Kind("mupc", 1, True),
}


@dataclasses.dataclass(frozen=True)
class ForwardConfig(FigureConfig):
    """`layers` counts the readout: a network with L layers has L − 1 hidden ones."""

    width: int = 1024
    layers: tuple[int, ...] = (4, 8, 16, 32, 64, 128, 256)
    activations: tuple[str, ...] = ("linear", "tanh", "relu")
    batch: int = 64
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class ForwardCell(FigureCell):
    """The forward pass of one network; `layers` is its depth L."""

    family: ClassVar[str] = "forward-pass"

    kind: str
    activation: str
    layers: int
    width: int
    batch: int
    seed: int
    precision: str

    @property
    def label(self) -> str:
        return f"{self.kind} {self.activation} N={self.width} L={self.layers}"


def cells(config: ForwardConfig, finished: Finished) -> list[FigureCell]:
    """One network per depth for Depth-μP, and only the deepest for the others."""
    return [
        ForwardCell(kind, activation, layers, config.width, config.batch, config.seed, config.precision)
        for kind, activation, layers in itertools.product(KINDS, config.activations, config.layers)
        if KINDS[kind].depends_on_depth or layers == max(config.layers)
    ]


def run_cell(cell: ForwardCell, context: RunContext) -> Row:
    """Mean |z| of every hidden layer, over a batch of standard normal inputs of the networks' width."""
    import jax.random as jr

    from ..network import Network
    from ..theory import forward_sizes

    kind = KINDS[cell.kind]
    network_key, input_key = jr.split(jr.key(cell.seed))
    network = Network(
        cell.width,
        1,
        width=cell.width,
        hidden_layers=cell.layers - 1,
        activation=cell.activation,
        parameterisation=kind.parameterisation,
        skip=kind.skip,
        key=network_key,
    )
    scale = kind.scale if cell.activation in HOMOGENEOUS else 1.0
    x = scale * jr.normal(input_key, (cell.batch, cell.width))
    return {"sizes": (forward_sizes(network, x, precision=cell.precision) / scale).tolist()}


def size_at(table: Table, kind: str, activation: str, layers: int) -> float:
    """Mean |z| of the last hidden layer of a network with L layers."""
    rows = select(table, kind=kind, activation=activation)
    if KINDS[kind].depends_on_depth:
        rows = select(rows, layers=layers)
    rows = [row for row in rows if row["layers"] >= layers]
    if not rows:
        raise MissingCellsError(f"{kind} {activation} L={layers}")
    size = rows[0]["sizes"][layers - 2]
    return math.inf if size is None else float(size)


GROWTH, DETERMINATION = 1.05, 0.98
UNBOUNDED = 1.2
STABLE, KEPT, VANISHED = 3.0, 2.0, 1e-6


def claims(config: ForwardConfig, table: Table) -> list[Claim]:
    """SP explodes, Depth-μP is stable, orthogonal networks are stable unless they are ReLU's."""

    def sizes(kind: str, activation: str) -> dict[int, float]:
        return {layers: size_at(table, kind, activation, layers) for layers in config.layers}

    def explodes(activation: str) -> Callable[[], tuple[bool, str]]:
        def measure() -> tuple[bool, str]:
            rate, fit = _exponential(sizes("sp", activation))
            return rate >= GROWTH and fit >= DETERMINATION, f"×{rate:.3f} per layer, R² = {fit:.4f}"

        return measure

    def drifts() -> tuple[bool, str]:
        found = sizes("sp", "tanh")
        ratios = [found[deep] / found[shallow] for shallow, deep in itertools.pairwise(sorted(found))]
        return min(ratios) >= UNBOUNDED, f"×{min(ratios):.2f} or more at every step of L, {_listed(found)}"

    def stable(activation: str) -> Callable[[], tuple[bool, str]]:
        def measure() -> tuple[bool, str]:
            ratios = []
            for layers in config.layers:
                rows = select(table, kind="mupc", activation=activation, layers=layers)
                if not rows:
                    raise MissingCellsError(f"mupc {activation} L={layers}")
                profile = [math.inf if size is None else size for size in rows[0]["sizes"]]
                ratios += [size / profile[0] for size in profile]
            inside = max(ratios) <= STABLE and min(ratios) >= 1 / STABLE
            return inside, f"{min(ratios):.2f} to {max(ratios):.2f} times the first layer, over all layers and L"

        return measure

    deep, shallow = max(config.layers), max(config.layers) // 4

    def kept(activation: str) -> Callable[[], tuple[bool, str]]:
        def measure() -> tuple[bool, str]:
            ratio = size_at(table, "orthogonal", activation, deep) / size_at(table, "orthogonal", activation, shallow)
            return 1 / KEPT <= ratio <= KEPT, f"ratio {ratio:.3f}"

        return measure

    def vanishes() -> tuple[bool, str]:
        ratio = size_at(table, "orthogonal", "relu", deep) / size_at(table, "orthogonal", "relu", 2)
        return ratio <= VANISHED, f"{ratio:.2g} times the first layer"

    exponential = f"log mean |z| linear in L (R² ≥ {DETERMINATION:g}), factor ≥ {GROWTH:g} per layer"
    return [
        *(judge(f"SP with skips grows exponentially, {a}", exponential, explodes(a)) for a in ("linear", "relu")),
        judge("SP with skips grows without bound, tanh", f"×{UNBOUNDED:g} or more for each doubling of L", drifts),
        *(
            judge(f"Depth-μP with skips is stable, {a}", f"within {STABLE:g}× of the first layer", stable(a))
            for a in config.activations
        ),
        *(
            judge(f"orthogonal keeps its size, {a}", f"L={deep} within {KEPT:g}× of L={shallow}", kept(a))
            for a in ("linear", "tanh")
        ),
        judge("orthogonal vanishes, relu", f"L={deep} below {VANISHED:g} of the first layer", vanishes),
    ]


def _exponential(sizes: dict[int, float]) -> tuple[float, float]:
    """The factor per layer of a least-squares fit of log size over L, and its R²."""
    if not all(0 < size < math.inf for size in sizes.values()):
        return math.nan, 0.0
    depths, logs = list(sizes), [math.log(size) for size in sizes.values()]
    mean_depth, mean_log = sum(depths) / len(depths), sum(logs) / len(logs)
    spread = sum((d - mean_depth) ** 2 for d in depths)
    total = sum((v - mean_log) ** 2 for v in logs)
    covariance = sum((d - mean_depth) * (v - mean_log) for d, v in zip(depths, logs, strict=True))
    return math.exp(covariance / spread), covariance**2 / (spread * total) if total else 0.0


def _listed(sizes: dict[int, float]) -> str:
    return ", ".join(f"L={layers}: {size:.3g}" for layers, size in sizes.items())


def _plot(record: Row, path: Path) -> None:
    from ..plots import draw_forward_pass

    draw_forward_pass(record, path)


_PROTOCOL = (
    "Mean |z| of the last hidden layer of networks with L layers at initialisation; input size = N, standard normal "
    "inputs, SP weights N(0, 1/N) as in the theory figures.",
    "SP and orthogonal multipliers do not depend on depth, so their shallower networks are the first layers of the "
    "deepest one; Depth-μP has a network of its own for each L.",
    "Linear and ReLU networks are homogeneous: inputs are scaled by 1e-12 (SP) or 1e12 (orthogonal) and the result "
    "back, which is exact and keeps growth and decay inside float32.",
    "The thresholds for growth are ours: the paper gives none.",
)

_FIGURE = Figure(
    slug="fwd-pass-stability",
    title="Size of the forward pass over depth",
    caption="Mean |z| at initialisation. With the standard parameterisation residual networks explode with depth; "
    "orthogonal networks without skips keep linear and tanh activities but lose ReLU's; Depth-μP keeps all three.",
    presets={
        "quick": ForwardConfig(width=64, layers=(4, 8, 16, 32, 64), protocol=("A small check.", *_PROTOCOL)),
        "paper": ForwardConfig(protocol=_PROTOCOL),
    },
    cells=cells,
    run_cell=run_cell,
    claims=claims,
    plot=_plot,
)

FIGURES = {_FIGURE.slug: _FIGURE}
