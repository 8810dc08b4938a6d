"""The paper's theorems in numbers, beside equilibrium propagation: `theorems`.

`mupc reproduce theorems --preset paper` takes about a quarter of an hour of computing on CPU cores.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from pathlib import Path
from typing import Any, ClassVar

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

POWER, FLAT = (0.7, 1.3), -0.2
ASPECT = 4
SOLVED = 1e-8
Outcome = tuple[bool, str]


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

    family: ClassVar[str] = "convexity"

    scale: float
    depth: int
    seed: int


@dataclasses.dataclass(frozen=True)
class LimitCell(FigureCell):
    """How far the gradients of PC at equilibrium are from those of BP."""

    family: ClassVar[str] = "backprop-limit"

    parameterisation: str
    width: int
    depth: int
    seed: int


@dataclasses.dataclass(frozen=True)
class FreeCell(FigureCell):
    """Inference with a free output, and its distance from the forward pass."""

    family: ClassVar[str] = "free-output"

    free_depth: int
    steps: int
    seed: int


def cells(config: TheoremConfig, finished: Finished) -> list[FigureCell]:
    """Theorem by theorem."""
    seeds = range(config.seeds)
    return [
        *(FreeCell(depth, config.steps, 0) for depth in config.free_depths),
        *itertools.starmap(ConvexityCell, itertools.product(config.scales, config.scaled_depths, seeds)),
        *itertools.starmap(LimitCell, itertools.product(("mupc", "sp"), config.widths, config.depths, seeds)),
    ]


IN, OUT, UNITS, BATCH = 32, 10, 16, 64


def run_cell(cell: Any, context: RunContext) -> Row:
    """What the theorem's own function finds, on standard normal data."""
    import jax
    import jax.random as jr
    import numpy as np

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
            shown = np.unique(np.geomspace(1, cell.steps, 60).astype(int))
            return {
                "solution_distance": free.solution_distance,
                "shown": [0, *shown.tolist()],
                "distances": free.distances[[0, *shown]].tolist(),
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
    """Theorem A.1, its failure for equilibrium propagation, Theorem 1, and the free output."""

    def need(rows: Table, count: int, what: str) -> Table:
        if len(rows) < count or not rows:
            raise MissingCellsError(what)
        return rows

    def scaled() -> Table:
        count = _product(config.scales, config.scaled_depths) * config.seeds
        return need([row for row in table if "scale" in row], count, "scaled networks")

    def convex() -> Outcome:
        rows = scaled()
        failed = [row for row in rows if not row["holds"]]
        least = min(row["smallest"] for row in rows)
        return not failed, f"{len(rows) - len(failed)} of {len(rows)} networks, least eigenvalue {least:.2g}"

    def saddle() -> Outcome:
        large = max(config.scales)
        rows = select(scaled(), scale=large)
        return all(row["ep_smallest"] < 0 for row in rows), (
            f"λmin ≤ {max(row['ep_smallest'] for row in rows):.3g} at scale {large:g}; "
            f"negative in {sum(row['ep_smallest'] < 0 for row in scaled())} of {len(scaled())} networks"
        )

    def limits(parameterisation: str) -> dict[tuple[int, int], float]:
        rows = select([row for row in table if "gradient_distance" in row], parameterisation=parameterisation)
        need(rows, _product(config.widths, config.depths) * config.seeds, f"limits of {parameterisation}")
        sizes = itertools.product(config.widths, config.depths)
        return {
            size: statistics.median(row["gradient_distance"] for row in select(rows, width=size[0], depth=size[1]))
            for size in sizes
        }

    def backprop() -> Outcome:
        found = {(width, depth): far for (width, depth), far in limits("mupc").items() if width >= ASPECT * depth}
        power = _power({(depth + 1) / width: far for (width, depth), far in found.items()})
        widest = min(found, key=lambda size: size[1] / size[0])
        told = f"∝ (L/N)^{power:.2f}, {found[widest]:.2g} at N={widest[0]}, H={widest[1]}"
        return POWER[0] <= power <= POWER[1], told

    def apart() -> Outcome:
        found = limits("sp")
        powers = {depth: _power({width: found[width, depth] for width in config.widths}) for depth in config.depths}
        return min(powers.values()) > FLAT, ", ".join(f"H={depth}: N^{power:.2f}" for depth, power in powers.items())

    def free() -> Outcome:
        rows = need([row for row in table if "distances" in row], len(config.free_depths), "free outputs")
        worst = max(row["solution_distance"] for row in rows)
        ends = ", ".join(f"H={row['free_depth']}: {row['distances'][-1]:.2g}" for row in rows)
        return worst <= SOLVED, f"exact solution within {worst:.1g}; after {config.steps} steps of descent {ends}"

    low, high = POWER
    return [
        judge("Theorem A.1: the activity Hessian is positive definite", "at every scale of weights and depth", convex),
        judge("the energy of equilibrium propagation is not convex", "λmin < 0 at the largest scale", saddle),
        judge(
            "Theorem 1: μPC's gradients become BP's as L/N → 0",
            f"relative distance ∝ (L/N)^p with p in [{low:g}, {high:g}] for N ≥ {ASPECT}·H",
            backprop,
        ),
        judge("SP's gradients do not become BP's with width", f"power of N above {FLAT:g} at every depth", apart),
        judge("inference with a free output ends at the forward pass", f"relative distance ≤ {SOLVED:g}", free),
    ]


def _product(*sizes: tuple[Any, ...]) -> int:
    return len(list(itertools.product(*sizes)))


def _power(points: dict[Any, float]) -> float:
    import numpy as np

    return float(np.polyfit(np.log(list(points)), np.log(list(points.values())), 1)[0])


def _plot(record: Row, path: Path) -> None:
    from ..plots import draw_theorems

    draw_theorems(record, path)


_PROTOCOL = (
    f"Linear networks, {IN} inputs, {OUT} outputs, standard normal data, float64. Scaled networks: SP, no skips, "
    f"{UNITS} units. Limits: residual networks, {BATCH} samples. Free output: μPC, skips, {UNITS} units, descent from "
    "standard normal activities with the step size 1/λmax.",
)
_FIGURE = Figure(
    "theorems",
    "The theorems in numbers",
    "Left: the smallest eigenvalue of the inference Hessian over the scale of the weights, for predictive coding and "
    "for equilibrium propagation. Middle: distance of the gradients at equilibrium from those of BP over L/N. Right: "
    "with a free output, descent on the activities goes to the forward pass.",
    {
        "quick": TheoremConfig(
            "float64",
            ("A small check.", *_PROTOCOL),
            scales=(0.1, 1.0, 10.0),
            scaled_depths=(1, 4),
            widths=(16, 64, 256),
            depths=(2,),
            free_depths=(2, 8),
            steps=300,
            seeds=1,
        ),
        "paper": TheoremConfig("float64", _PROTOCOL),
    },
    cells,
    run_cell,
    claims,
    _plot,
)
FIGURES = {_FIGURE.slug: _FIGURE}
