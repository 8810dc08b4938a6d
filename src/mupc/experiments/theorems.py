"""The paper's theorems in numbers, next to equilibrium propagation: `theorems`.

`mupc reproduce theorems --preset paper` takes about a quarter of an hour of computing on CPU cores.
"""

import dataclasses
import itertools
import statistics

import numpy as np

from .. import plots
from ._claims import Claim, Finding, fit_power, judge, require
from ._declaration import cells_over, presets, protocol
from ._figure import Figure, FigureCell, FigureConfig, Finished, Row, RunContext, Table, by_slug, grouped, select

POWER, FLAT = (0.7, 1.3), -0.2
ASPECT = 4
SOLVED = 1e-8


@dataclasses.dataclass(frozen=True)
class TheoremConfig(FigureConfig):
    """Linear networks throughout.

    - `scales`: factors on the weights of standard networks without skips, of `scaled_depths` layers of 16 units.
    - `widths`, `depths`: of the networks whose gradients are compared with those of BP.
    - `free_depths`: of the networks of 16 units whose output is free, for `steps` steps.
    """

    scales: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
    scaled_depths: tuple[int, ...] = (1, 4, 16)
    widths: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1024)
    depths: tuple[int, ...] = (2, 4, 8, 16, 32)
    free_depths: tuple[int, ...] = (2, 8, 32)
    steps: int = 3000
    seeds: int = 3


@dataclasses.dataclass(frozen=True)
class ConvexityCell(FigureCell):
    """The smallest eigenvalue for predictive coding and for equilibrium propagation (free phase)."""

    family = "convexity"
    words = "weights scaled by {scale:g}, H={depth} seed {seed}"

    scale: float
    depth: int
    seed: int


@dataclasses.dataclass(frozen=True)
class LimitCell(FigureCell):
    """How far the gradients of PC at equilibrium are from those of BP."""

    family = "backprop-limit"
    words = "{parameterisation} against BP, N={width} H={depth} seed {seed}"

    parameterisation: str
    width: int
    depth: int
    seed: int


@dataclasses.dataclass(frozen=True)
class FreeCell(FigureCell):
    """Inference with a free output, and its distance from the forward pass."""

    family = "free-output"
    words = "free output, H={free_depth}, {steps} steps"

    free_depth: int
    steps: int
    seed: int


def cells(config: TheoremConfig, finished: Finished) -> list[FigureCell]:
    """Return the cells, theorem by theorem."""
    seeds, limits = range(config.seeds), ("mupc", "sp")
    return [
        *cells_over(FreeCell, config, free_depth=config.free_depths, seed=0),
        *cells_over(ConvexityCell, config, scale=config.scales, depth=config.scaled_depths, seed=seeds),
        *cells_over(LimitCell, config, parameterisation=limits, width=config.widths, depth=config.depths, seed=seeds),
    ]


IN, OUT, UNITS, BATCH = 32, 10, 16, 64


def run_cell(cell: ConvexityCell | LimitCell | FreeCell, context: RunContext) -> Row:
    """Return what the theorem's own function finds, on standard normal data."""
    import jax
    import jax.random as jr

    from .. import theory
    from ..network import Network

    keys = jr.split(jr.key(cell.seed), 3)
    with jax.enable_x64(True):
        x, y = jr.normal(keys[1], (BATCH, IN)), jr.normal(keys[2], (BATCH, OUT))

        def network(width: int, depth: int, parameterisation: str, skip: int) -> Network:
            form = {"activation": "linear", "parameterisation": parameterisation, "skip": skip}
            return Network(IN, OUT, width, depth, key=keys[0], **form)  # type: ignore[arg-type]

        if isinstance(cell, FreeCell):
            free = theory.free_output(network(UNITS, cell.free_depth, "mupc", 1), x[:4], steps=cell.steps)
            shown = [0, *np.unique(np.geomspace(1, cell.steps, 60).astype(int)).tolist()]
            return {
                "solution_distance": free.solution_distance,
                "shown": shown,
                "distances": free.distances[shown].tolist(),
            }
        if isinstance(cell, LimitCell):
            residual = network(cell.width, cell.depth, cell.parameterisation, 1)
            return dataclasses.asdict(theory.backprop_limit(residual, x, y))
        scaled = jax.tree.map(lambda weight: cell.scale * weight, network(UNITS, cell.depth, "sp", 0))
        found = theory.convexity(scaled)
        return {
            "smallest": found.smallest,
            "holds": found.holds,
            "evidence": found.evidence,
            "ep_smallest": float(np.linalg.eigvalsh(theory.ep_hessian(scaled))[0]),
        }


def claims(config: TheoremConfig, table: Table) -> list[Claim]:
    """Judge Theorem A.1, its failure for equilibrium propagation, Theorem 1, and the free output."""

    def scaled() -> Table:
        count = len(config.scales) * len(config.scaled_depths) * config.seeds
        return [*require([row for row in table if "scale" in row], count, "scaled networks")]

    def convex() -> Finding:
        rows = scaled()
        held, least = sum(row["holds"] for row in rows), min(row["smallest"] for row in rows)
        return held == len(rows), f"{held} of {len(rows)} networks, least eigenvalue {least:.2g}"

    def saddle() -> Finding:
        rows, large = scaled(), max(config.scales)
        greatest = max(row["ep_smallest"] for row in select(rows, scale=large))
        negative = sum(row["ep_smallest"] < 0 for row in rows)
        at_large = f"λmin ≤ {greatest:.3g} at scale {large:g}"
        return greatest < 0, f"{at_large}; negative in {negative} of {len(rows)} networks"

    def distances(parameterisation: str) -> dict[tuple[int, int], float]:
        rows = select([row for row in table if "gradient_distance" in row], parameterisation=parameterisation)
        sizes = list(itertools.product(config.widths, config.depths))
        require(rows, len(sizes) * config.seeds, f"limits of {parameterisation}")
        groups = grouped(rows, "width", "depth")
        return {size: statistics.median(row["gradient_distance"] for row in groups[size]) for size in sizes}

    def backprop() -> Finding:
        found = {(width, depth): far for (width, depth), far in distances("mupc").items() if width >= ASPECT * depth}
        aspects = {(depth + 1) / width: far for (width, depth), far in found.items()}
        power = fit_power(aspects.items())[0]
        widest = min(found, key=lambda size: size[1] / size[0])
        told = f"∝ (L/N)^{power:.2f}, {found[widest]:.2g} at N={widest[0]}, H={widest[1]}"
        return POWER[0] <= power <= POWER[1], told

    def apart() -> Finding:
        found = distances("sp")
        powers = {depth: fit_power((n, found[n, depth]) for n in config.widths)[0] for depth in config.depths}
        return min(powers.values()) > FLAT, ", ".join(f"H={depth}: N^{power:.2f}" for depth, power in powers.items())

    def free() -> Finding:
        rows = require([row for row in table if "distances" in row], len(config.free_depths), "free outputs")
        worst = max(row["solution_distance"] for row in rows)
        ends = ", ".join(f"H={row['free_depth']}: {row['distances'][-1]:.2g}" for row in rows)
        return worst <= SOLVED, f"exact solution within {worst:.1g}; after {config.steps} steps of descent {ends}"

    return [
        judge("convex", convex),
        judge("ep-not-convex", saddle),
        judge("becomes-bp", backprop, low=POWER[0], high=POWER[1], aspect=ASPECT),
        judge("sp-stays-apart", apart, power=FLAT),
        judge("free-output", free, limit=SOLVED),
    ]


_SMALL: dict[str, object] = {"scales": (0.1, 1.0, 10.0), "scaled_depths": (1, 4), "widths": (16, 64, 256)}
_PRESETS = presets(
    TheoremConfig("float64", protocol("theorems")),
    "small-check",
    **_SMALL | {"depths": (2,), "free_depths": (2, 8), "steps": 300, "seeds": 1},
)
FIGURES = by_slug(Figure("theorems", _PRESETS, cells, run_cell, claims, plots.draw_theorems))
