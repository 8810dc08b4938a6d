"""How many inference steps automatic settings need as networks get deeper: `automatic-steps`.

`mupc reproduce automatic-steps --preset paper` takes about ten minutes on two CPU cores.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from ._figure import Claim, Figure, FigureCell, FigureConfig, Finished, MissingCellsError, Row, RunContext, Table, judge

SQUARE_ROOT, PLAIN = (0.35, 0.65), 0.8
SETTINGS = {"auto": "lr = auto", "plain": "plain descent, best lr"}


@dataclasses.dataclass(frozen=True)
class StepsConfig(FigureConfig):
    """Linear μPC networks; both settings go on until the gradient norm is `tol` of its start."""

    width: int = 32
    depths: tuple[int, ...] = (8, 16, 32, 64, 128)
    seeds: int = 3
    batch: int = 4
    tol: float = 1e-3


@dataclasses.dataclass(frozen=True)
class StepsCell(FigureCell):
    """One network, inferred both ways."""

    family: ClassVar[str] = "automatic-steps"
    version: ClassVar[int] = 2

    width: int
    depth: int
    seed: int
    batch: int
    tol: float
    precision: str

    @property
    def label(self) -> str:
        return f"N={self.width} H={self.depth} seed {self.seed}"


def cells(config: StepsConfig, finished: Finished) -> list[FigureCell]:
    """Shallow networks first."""
    return [
        StepsCell(config.width, depth, seed, config.batch, config.tol, config.precision)
        for depth, seed in itertools.product(config.depths, range(config.seeds))
    ]


def run_cell(cell: StepsCell, context: RunContext) -> Row:
    """Steps until the tolerance is met, and the condition number of the activity Hessian."""
    import jax
    import jax.random as jr

    from ..inference import RESULTS, Energy, GradientDescent, extremes, infer, problem
    from ..network import POLICIES, Network

    with jax.enable_x64(True):
        keys = jr.split(jr.key(cell.seed), 3)
        size = (cell.width, cell.width, cell.width, cell.depth)
        network = POLICIES["float64"].cast(Network(*size, activation="linear", key=keys[0]))
        x, y = (jr.normal(key, (cell.batch, cell.width)) for key in keys[1:])
        posed = problem(network, x, y, Energy(), POLICIES["float64"], activities=None, free_input=False)
        largest, smallest = (float(value[0]) for value in extremes(posed))  # the same for all samples
        limit = 10 * math.ceil(largest / smallest)
        found = {}
        for name, solver in {
            "auto": GradientDescent("auto", tol=cell.tol),
            "plain": GradientDescent(2 / (1.02 * largest + smallest), steps=limit, tol=cell.tol),
        }.items():
            solution = infer(network, x, y, solver)
            reached = bool(solution.result == RESULTS.converged)
            found[name] = int(solution.steps) if reached else None
    return {"condition_number": largest / smallest, **found}


def exponent(table: Table, setting: str) -> float:
    """The slope of log steps over log κ, by least squares over all networks."""
    import numpy as np

    points = [(row["condition_number"], row[setting]) for row in table if row[setting]]
    if len({row["depth"] for row in table}) < 2 or len(points) < len(table):
        raise MissingCellsError(f"networks of several depths, all of them solved ({SETTINGS[setting]})")
    kappa, steps = np.log(np.array(points, float)).T
    return float(np.polyfit(kappa, steps, 1)[0])


def claims(config: StepsConfig, table: Table) -> list[Claim]:
    """Automatic settings pay the square root of what plain descent pays."""

    def listed(setting: str) -> str:
        steps: dict[int, list[int]] = {}
        for row in table:
            steps.setdefault(row["depth"], []).append(row[setting])
        return ", ".join(f"H={depth}: {sorted(found)[len(found) // 2]}" for depth, found in steps.items())

    def measure(setting: str, true: Callable[[float], bool]) -> Callable[[], tuple[bool, str]]:
        def run() -> tuple[bool, str]:
            slope = exponent(table, setting)
            return true(slope), f"steps ∝ κ^{slope:.2f}; median steps {listed(setting)}"

        return run

    low, high = SQUARE_ROOT
    return [
        judge(
            'lr="auto" needs steps that grow like √κ',
            f"exponent in [{low:g}, {high:g}]",
            measure("auto", lambda slope: low <= slope <= high),
        ),
        judge(
            "plain descent with its best step size needs steps that grow like κ",
            f"exponent ≥ {PLAIN:g}",
            measure("plain", lambda slope: slope >= PLAIN),
        ),
    ]


def _plot(record: Row, path: Path) -> None:
    from ..plots import draw_automatic_steps

    draw_automatic_steps(record, path, SETTINGS)


_PROTOCOL = (
    "Linear μPC networks with skips, input and output size N, standard normal inputs and targets, float64.",
    "κ from Lanczos steps with the activity Hessian and with its inverse. Plain descent takes 2/(1.02 λmax + λmin), "
    "almost its best fixed step size, which a user would not know.",
)

_STEPS = Figure(
    "automatic-steps",
    "Inference steps over depth: automatic settings and plain descent",
    "Steps until the activity gradient has fallen to a thousandth of its start, over the condition number of linear "
    "μPC networks of growing depth.",
    {
        "quick": StepsConfig(precision="float64", protocol=_PROTOCOL, width=16, depths=(4, 8, 16), seeds=1),
        "paper": StepsConfig(precision="float64", protocol=_PROTOCOL),
    },
    cells,
    run_cell,
    claims,
    _plot,
)

FIGURES = {_STEPS.slug: _STEPS}
