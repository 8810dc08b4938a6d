"""Size of the forward pass over depth, at initialisation: `fwd-pass-stability`.

`mupc reproduce fwd-pass-stability --preset paper` takes under ten minutes on two CPU cores, in 3 GB of memory.
"""

import dataclasses
import itertools
import math

from .. import plots
from ._claims import Claim, Finding, fit_line, judge, number, require
from ._declaration import cells_over, presets, protocol
from ._figure import Figure, FigureCell, FigureConfig, Finished, Row, RunContext, Table, by_slug, select

HOMOGENEOUS = ("linear", "relu")


@dataclasses.dataclass(frozen=True)
class ForwardScaling:
    """How a parameterisation is scaled. If its multipliers do not depend on the depth, the first layers of the deepest
    network are a shallower one, and one pass gives all depths.

    Where φ(cz) = c φ(z) for c > 0, inputs are multiplied by `scale` and activities divided by it. That is exact, and
    keeps 256 layers of growth or decay inside float32.
    """

    skip: int
    depends_on_depth: bool
    scale: float = 1.0


KINDS = {
    "sp": ForwardScaling(1, False, scale=1e-12),
    "orthogonal": ForwardScaling(0, False, scale=1e12),
    "mupc": ForwardScaling(1, True),
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

    family = "forward-pass"
    words = "{kind} {activation} N={width} L={layers}"

    kind: str
    activation: str
    layers: int
    width: int
    batch: int
    seed: int
    precision: str


def cells(config: ForwardConfig, finished: Finished) -> list[FigureCell]:
    """Return one network per depth for Depth-μP, and only the deepest for the others."""
    found = cells_over(ForwardCell, config, kind=[*KINDS], activation=config.activations, layers=config.layers)
    return [cell for cell in found if KINDS[cell.kind].depends_on_depth or cell.layers == max(config.layers)]


def run_cell(cell: ForwardCell, context: RunContext) -> Row:
    """Return mean |z| of every hidden layer, over a batch of standard normal inputs of the network's width."""
    import jax.random as jr

    from ..network import Network
    from ..theory import forward_sizes

    form = {"activation": cell.activation, "parameterisation": cell.kind, "skip": KINDS[cell.kind].skip}
    network_key, input_key = jr.split(jr.key(cell.seed))
    network = Network(cell.width, 1, cell.width, cell.layers - 1, key=network_key, **form)  # type: ignore[arg-type]
    scale = KINDS[cell.kind].scale if cell.activation in HOMOGENEOUS else 1.0
    x = scale * jr.normal(input_key, (cell.batch, cell.width))
    return {"sizes": (forward_sizes(network, x, precision=cell.precision) / scale).tolist()}


def profile(table: Table, kind: str, activation: str, layers: int) -> list[float]:
    """Return mean |z| of each hidden layer of a network with L layers."""
    rows = [row for row in select(table, kind=kind, activation=activation) if row["layers"] >= layers]
    rows = select(rows, layers=layers) if KINDS[kind].depends_on_depth else rows
    sizes = require(rows, 1, f"{kind} {activation} L={layers}")[0]["sizes"]
    return [number(size) for size in sizes[: layers - 1]]


GROWTH, DETERMINATION = 1.05, 0.98
UNBOUNDED = 1.2
STABLE, KEPT, VANISHED = 3.0, 2.0, 1e-6


def claims(config: ForwardConfig, table: Table) -> list[Claim]:
    """Judge that SP explodes, Depth-μP is stable, and orthogonal networks are stable except with ReLU."""
    deep, shallow = max(config.layers), max(config.layers) // 4

    def last(kind: str, activation: str) -> dict[int, float]:
        return {layers: profile(table, kind, activation, layers)[-1] for layers in config.layers}

    def explodes(activation: str) -> Finding:
        rate, fit = _exponential(last("sp", activation))
        return rate >= GROWTH and fit >= DETERMINATION, f"×{rate:.3f} per layer, R² = {fit:.4f}"

    def drifts() -> Finding:
        found = last("sp", "tanh")
        least = min(found[after] / found[before] for before, after in itertools.pairwise(sorted(found)))
        listed = ", ".join(f"L={layers}: {size:.3g}" for layers, size in found.items())
        return least >= UNBOUNDED, f"×{least:.2f} or more at every step of L, {listed}"

    def stable(activation: str) -> Finding:
        profiles = [profile(table, "mupc", activation, layers) for layers in config.layers]
        ratios = [size / sizes[0] for sizes in profiles for size in sizes]
        inside = max(ratios) <= STABLE and min(ratios) >= 1 / STABLE
        return inside, f"{min(ratios):.2f} to {max(ratios):.2f} times the first layer, over all layers and L"

    def kept(activation: str) -> Finding:
        sizes = profile(table, "orthogonal", activation, deep)
        ratio = sizes[-1] / sizes[shallow - 2]
        return 1 / KEPT <= ratio <= KEPT, f"ratio {ratio:.3f}"

    def vanishes() -> Finding:
        sizes = profile(table, "orthogonal", "relu", deep)
        return sizes[-1] / sizes[0] <= VANISHED, f"{sizes[-1] / sizes[0]:.2g} times the first layer"

    growth = {"fit": DETERMINATION, "factor": GROWTH}
    same = {"deep": deep, "shallow": shallow, "factor": KEPT}
    return [
        *(judge("sp-explodes-{activation}", explodes, a, activation=a, **growth) for a in ("linear", "relu")),
        judge("sp-unbounded", drifts, factor=UNBOUNDED),
        *(judge("stable-{activation}", stable, a, activation=a, factor=STABLE) for a in config.activations),
        *(judge("orthogonal-keeps-{activation}", kept, a, activation=a, **same) for a in ("linear", "tanh")),
        judge("orthogonal-vanishes", vanishes, deep=deep, limit=VANISHED),
    ]


def _exponential(sizes: dict[int, float]) -> tuple[float, float]:
    """Return the factor per layer of an exponential fitted to the sizes over L, and its R²."""
    if not all(0 < size < math.inf for size in sizes.values()):
        return math.nan, 0.0
    slope, fit = fit_line((layers, math.log(size)) for layers, size in sizes.items())
    return math.exp(slope), fit


_PRESETS = presets(
    ForwardConfig(protocol=protocol("fwd-pass-stability")), "small-check", width=64, layers=(4, 8, 16, 32, 64)
)
FIGURES = by_slug(Figure("fwd-pass-stability", _PRESETS, cells, run_cell, claims, plots.draw_forward_pass))
