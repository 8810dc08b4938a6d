"""How many inference steps automatic settings need as networks get deeper: `automatic-steps`.

`mupc reproduce automatic-steps --preset paper` takes about ten minutes on two CPU cores.
"""

import dataclasses
import functools
import math
import statistics

from .. import plots
from ._claims import Claim, Finding, fit_power, judge, require
from ._declaration import cells_over, presets, protocol
from ._figure import Figure, FigureCell, FigureConfig, Finished, Row, RunContext, Table, by_slug, grouped

SQUARE_ROOT, PLAIN = (0.35, 0.65), 0.8
SETTINGS = {"auto": "lr = auto", "plain": "plain descent, best lr"}


@dataclasses.dataclass(frozen=True)
class StepsConfig(FigureConfig):
    """Linear μPC networks; inference ends when the gradient norm is `tol` of its start, with both settings."""

    width: int = 32
    depths: tuple[int, ...] = (8, 16, 32, 64, 128)
    seeds: int = 3
    batch: int = 4
    tol: float = 1e-3


@dataclasses.dataclass(frozen=True)
class StepsCell(FigureCell):
    """One network, inferred with both settings."""

    family = "automatic-steps"
    version = 2
    words = "N={width} H={depth} seed {seed}"

    width: int
    depth: int
    seed: int
    batch: int
    tol: float
    precision: str


def cells(config: StepsConfig, finished: Finished) -> list[FigureCell]:
    """Return the networks, shallow ones first."""
    return [*cells_over(StepsCell, config, depth=config.depths, seed=range(config.seeds))]


def run_cell(cell: StepsCell, context: RunContext) -> Row:
    """Return the steps until the tolerance is met, and the condition number of the activity Hessian."""
    import jax
    import jax.random as jr

    from ..inference import RESULTS, Batch, Energy, GradientDescent, extremes, infer, pose
    from ..network import POLICIES, Network

    policy = POLICIES["float64"]
    with jax.enable_x64(True):
        keys = jr.split(jr.key(cell.seed), 3)
        size = (cell.width, cell.width, cell.width, cell.depth)
        network = policy.cast(Network(*size, activation="linear", key=keys[0]))
        x, y = (jr.normal(key, (cell.batch, cell.width)) for key in keys[1:])
        posed = pose(network, Batch(x, y), Energy(), policy)
        largest, smallest = (float(value[0]) for value in extremes(posed))  # the same for all samples
        limit = 10 * math.ceil(largest / smallest)
        solvers = {
            "auto": GradientDescent("auto", tol=cell.tol),
            "plain": GradientDescent(2 / (1.02 * largest + smallest), steps=limit, tol=cell.tol),
        }
        found = {name: infer(network, x, y, solver) for name, solver in solvers.items()}
        steps = {name: int(one.steps) if one.result == RESULTS.converged else None for name, one in found.items()}
    return {"condition_number": largest / smallest, **steps}


def exponent(table: Table, setting: str) -> float:
    """Return the power of κ in the number of steps, over all networks."""
    solved = [row for row in table if row[setting]]
    several = len({row["depth"] for row in table}) > 1
    what = f"networks of several depths, all of them solved ({SETTINGS[setting]})"
    require(solved if several else [], len(table), what)
    return fit_power((row["condition_number"], row[setting]) for row in solved)[0]


def claims(config: StepsConfig, table: Table) -> list[Claim]:
    """Judge that automatic settings pay the square root of what plain descent pays."""

    def grows(setting: str, least: float, most: float) -> Finding:
        power = exponent(table, setting)
        steps = {depth: [row[setting] for row in rows] for (depth,), rows in grouped(table, "depth").items()}
        medians = ", ".join(f"H={depth}: {statistics.median_high(counts)}" for depth, counts in steps.items())
        return least <= power <= most, f"steps ∝ κ^{power:.2f}; median steps {medians}"

    low, high = SQUARE_ROOT
    return [
        judge("auto-steps", grows, "auto", low, high, low=low, high=high),
        judge("plain-steps", grows, "plain", PLAIN, math.inf, limit=PLAIN),
    ]


_PRESETS = presets(StepsConfig("float64", protocol("automatic-steps")), width=16, depths=(4, 8, 16), seeds=1)
_PLOT = functools.partial(plots.draw_automatic_steps, labels=SETTINGS)
FIGURES = by_slug(Figure("automatic-steps", _PRESETS, cells, run_cell, claims, _PLOT))
