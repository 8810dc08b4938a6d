"""The loss over the equilibrated energy of linear residual networks, at initialisation and over training: `fig6`,
`sp-loss-energy-ratios`, `example-loss-energy-ratios`.

Where the ratio is one, predictive coding at its equilibrium is backpropagation (Theorem 1). The paper preset takes
about half an hour on one CPU core for each parameterisation. Set OPENBLAS_NUM_THREADS=1 for it.
"""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable

from .. import plots
from . import _methods, _training
from ._claims import Claim, Finding, fit_power, judge, require
from ._declaration import cells_over, presets, protocol
from ._figure import Figure, FigureCell, Finished, Row, RunContext, Table, by_slug, select
from ._methods import METHODS
from ._training import Rates, TrainingCell, TrainingConfig

MUPC, SP = "mupc-exact", "sp-exact"
WIDE, NEAR = 32, 1.1
FALLING, FLAT = -0.7, -0.2
GROWN = 10.0
Claims = Callable[["RatioConfig", Table], list[Claim]]


@dataclasses.dataclass(frozen=True)
class RatioConfig(TrainingConfig):
    """Training runs, and networks at initialisation of all `initial_widths`, whose ratio is that of the first `samples`
    training samples."""

    initial_widths: tuple[int, ...] = ()
    samples: int = 1024


@dataclasses.dataclass(frozen=True)
class RatioCell(FigureCell):
    """One network before training."""

    family = "loss-energy-ratios"
    words = "{method} N={width} H={depth} at initialisation, seed {seed}"

    method: str
    width: int
    depth: int
    seed: int
    data: str
    samples: int
    verify: bool


def cells(config: RatioConfig, finished: Finished) -> list[FigureCell]:
    """Return the cells: initial networks first, then training runs."""
    axes = {"method": [rates.method for rates in config.rates], "depth": config.depths}
    sizes = {"width": config.initial_widths, "seed": range(config.seeds)}
    return [*cells_over(RatioCell, config, **axes, **sizes), *_training.cells(config, finished)]


def run_cell(cell: RatioCell | TrainingCell, context: RunContext) -> Row:
    """Return the ratio before training; for a training run, its history of losses and energies."""
    if isinstance(cell, TrainingCell):
        return _training.run_cell(cell, context)
    import jax

    from .. import theory

    dataset = _methods.load(cell.data, context.data_dir, cell.verify, 0.0)
    with jax.enable_x64(True):
        network = _methods.build_mlp(METHODS[cell.method], dataset, "linear", cell.width, cell.depth, cell.seed)
        part = slice(0, cell.samples)
        x, y = dataset.normalisation(dataset.train.raw[part]), dataset.encode(dataset.train.targets[part])
        return {"ratio": theory.loss_energy_ratio(network, x, y)}


@dataclasses.dataclass(frozen=True)
class Ratios:
    """Ratios of a table, as medians over seeds."""

    config: RatioConfig
    table: Table

    def initial(self, method: str, width: int, depth: int) -> float:
        return statistics.median(row["ratio"] for row in self._rows("ratio", method, width, depth))

    def final(self, method: str, width: int, depth: int) -> float:
        return statistics.median(curve(row)[-1] for row in self._rows("history", method, width, depth))

    def _rows(self, name: str, method: str, width: int, depth: int) -> Table:
        rows = select(self.table, method=method, width=width, depth=depth)
        found = [row for row in rows if row.get(name) is not None]
        return [*require(found, self.config.seeds, f"{method} N={width} H={depth}")]

    def power(self, method: str, over: Callable[[int, int], float], sizes: list[tuple[int, int]]) -> float:
        """Return the power of `over(N, H)` in ratio − 1, by least squares over these sizes."""
        return fit_power((over(*size), max(self.initial(method, *size) - 1, 1e-15)) for size in sizes)[0]


def curve(row: Row) -> list[float]:
    """Return loss over energy between evaluations of a training run; where it diverged the last is infinite."""
    history = row["history"]
    pairs = zip(history["train_loss"][1:], history["energy"][1:], strict=True)
    found = [loss / energy for loss, energy in pairs if loss is not None and energy]
    return [*found, math.inf] if row["diverged"] or not found else found


def converges(config: RatioConfig, table: Table) -> list[Claim]:
    """Judge that μPC is BP where the network is wide for its depth, and ceases to be with training."""
    ratios = Ratios(config, table)
    sizes = list(itertools.product(config.initial_widths, config.depths))

    def near() -> Finding:
        found = {size: ratios.initial(MUPC, *size) for size in sizes if size[0] >= WIDE * size[1]}
        worst = max(found, key=lambda size: found[size])
        return found[worst] <= NEAR, f"at most {found[worst]:.4f} (N={worst[0]}, H={worst[1]}), of {len(found)} sizes"

    def falls() -> Finding:
        wide = [size for size in sizes if size[0] >= size[1]]
        power = ratios.power(MUPC, lambda width, depth: width / depth, wide)
        widest = max(wide, key=lambda size: size[0] / size[1])
        least = f"{ratios.initial(MUPC, *widest):.5f} at N={widest[0]}, H={widest[1]}"
        return power <= FALLING, f"ratio − 1 ∝ (N/H)^{power:.2f} for N ≥ H; {least}"

    def breaks() -> Finding:
        size = (max(config.widths), max(config.depths))
        start, end = ratios.initial(MUPC, *size), ratios.final(MUPC, *size)
        return end > GROWN * start, f"{start:.3g} → {end:.3g} at N={size[0]}, H={size[1]}"

    return [
        judge("near-one", near, aspect=WIDE, limit=NEAR),
        judge("falls-to-one", falls, power=FALLING),
        judge("training-breaks", breaks, factor=GROWN),
    ]


def stays(config: RatioConfig, table: Table) -> list[Claim]:
    """Judge that SP does not become BP with width."""
    ratios = Ratios(config, table)
    widths, widest = config.initial_widths, max(config.initial_widths)

    def flat() -> Finding:
        powers = {h: ratios.power(SP, lambda width, _: width, [(n, h) for n in widths]) for h in config.depths}
        ends = {h: ratios.initial(SP, widest, h) for h in config.depths}
        told = ", ".join(f"H={h}: N^{powers[h]:.2f}, {ends[h]:.3g} at N={widest}" for h in config.depths)
        return min(powers.values()) > FLAT and min(ends.values()) > NEAR, told

    return [judge("no-convergence", flat, power=FLAT, limit=NEAR)]


def compared(config: RatioConfig, table: Table) -> list[Claim]:
    """Judge that μPC starts nearer to BP than SP."""
    ratios = Ratios(config, table)
    depth = config.depths[0]

    def nearer() -> Finding:
        pairs = {width: [ratios.initial(method, width, depth) for method in (MUPC, SP)] for width in config.widths}
        told = ", ".join(f"N={width}: {mupc:.3g} and {sp:.3g}" for width, (mupc, sp) in pairs.items())
        return all(mupc < sp for mupc, sp in pairs.values()), told

    return [judge("nearer-one", nearer, depth=depth)]


def checked(config: RatioConfig, table: Table, claim: Claim) -> str:
    """Return how many seeds agree with the claim."""
    rows = [row for row in table if "ratio" in row and row["depth"] == config.depths[0]]
    ratios = {(row["method"], row["width"], row["seed"]): row["ratio"] for row in rows}
    seeds = range(config.seeds)
    nearer = {n: sum(ratios[MUPC, n, s] < ratios[SP, n, s] for s in seeds) for n in config.widths}
    told = ", ".join(f"{count} of {config.seeds} at N={width}" for width, count in nearer.items())
    return f"Seeds in which μPC is nearer: {told}."


_POWERS = tuple(2**power for power in range(1, 7))
_MUPC, _SP = Rates(MUPC, eta=(0.1,)), Rates(SP, eta=(1e-4,))
_MAPS = RatioConfig(
    "float64",
    protocol("loss-energy-ratios"),
    widths=_POWERS,
    depths=_POWERS,
    activations=("linear",),
    rates=(_MUPC,),
    evaluate_every=47,
    initial_widths=(*_POWERS, 128, 256, 512, 1024),
)
_SP_MAPS = dataclasses.replace(_MAPS, rates=(_SP,))
_CURVES = dataclasses.replace(_MAPS, rates=(_MUPC, _SP), depths=(4,), initial_widths=_POWERS)
_SMALL_MAPS = {"widths": (32, 64), "depths": (2, 8), "initial_widths": (32, 64, 256)}
_SMALL_CURVES = {"widths": (8, 32), "initial_widths": (8, 32)}


def _figure(slug: str, draw: plots.Drawing, claims: Claims, paper: RatioConfig, **small: object) -> Figure:
    names = {rates.method: METHODS[rates.method].label for rates in paper.rates}
    both = presets(paper, "loss-energy-ratios-quick", data="digits", seeds=1, epochs=10.0, evaluate_every=22, **small)
    return Figure(slug, both, cells, run_cell, claims, lambda record, path: draw(record, path, names))


_CURVED = _figure("example-loss-energy-ratios", plots.draw_ratio_curves, compared, _CURVES, **_SMALL_CURVES)
FIGURES = by_slug(
    _figure("mupc-loss-energy-ratios", plots.draw_ratio_maps, converges, _MAPS, **_SMALL_MAPS),
    _figure("sp-loss-energy-ratios", plots.draw_ratio_maps, stays, _SP_MAPS, **_SMALL_MAPS),
    dataclasses.replace(_CURVED, checked=checked),
)
