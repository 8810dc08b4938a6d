"""Learning rates that scale with the network's size, and rates that do not: `transfer-scaled`, beyond the paper.

All rates and seeds of one network are one program. Networks of error space come first, and small ones before large
ones, so that a limit on seconds leaves out the costly ones.
"""

import contextlib
import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from .. import plots
from ._claims import Claim, Finding, MissingCellsError, judge, number, require
from ._declaration import cells_over, presets, protocol
from ._figure import Figure, FigureCell, FigureConfig, Finished, Row, RunContext, Table, by_slug, grouped, select
from ._methods import scaled
from ._training import TrainingCell, train
from .transfer_grids import BETA, DEEP, REGRET, SOON, WILD, GridCell, Rate, RateTransfer, Size, ladders

BASE = (64, 8)
"""The size from which rates are scaled. Here both ways are the same, so it is trained once."""
WIDE = 2048
"""With this width or a larger one, the runs of one seed fill a device: such groups are computed one by one."""


@dataclasses.dataclass(frozen=True)
class SolverGrid:
    """The networks and rates of one solver. `BASE` is trained with all β, other networks with its best β and that one's
    neighbours."""

    name: str
    label: str
    method: str
    activation: str
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    width: int
    etas: tuple[float, ...]
    betas: tuple[float, ...] = (0.0,)

    @property
    def ladders(self) -> dict[str, list[Size]]:
        return ladders(self.widths, self.depths, self.width)

    def form(self, scales: bool, size: Size) -> str:
        """Return the method that trains this network with scaled or plain rates."""
        return scaled(self.method) if scales and size != BASE else self.method


@dataclasses.dataclass(frozen=True)
class ScaledConfig(FigureConfig):
    """For each grid its networks, with plain and with scaled rates. The loss is the mean of the `last` steps."""

    data: str = "mnist"
    grids: tuple[SolverGrid, ...] = ()
    seeds: int = 3
    epochs: float = 1.0
    last: int = 100
    verify: bool = True


@dataclasses.dataclass(frozen=True)
class ScaledCell(GridCell):
    """One training run with this method. Its loss is the mean of the `last` steps."""

    family = "transfer-scaled"
    words = "{method} {activation} N={width} H={depth} η={eta:g} β={beta:g} seed {seed}"

    method: str
    last: int

    @property
    def slow(self) -> bool:
        """Whether only runs with the same β are trained together, and end when all have diverged."""
        return self.depth >= DEEP and bool(self.beta)

    @property
    def group(self) -> object:
        seed, beta = self.seed if self.width >= WIDE else 0, self.beta if self.slow else 0.0
        return dataclasses.replace(self, eta=0.0, beta=beta, seed=seed)

    @property
    def program(self) -> object:
        return WIDE if self.width >= WIDE else dataclasses.replace(self, eta=0.0, beta=0.0, seed=0)

    @property
    def run(self) -> TrainingCell:
        own = {name: value for name, value in dataclasses.asdict(self).items() if name != "last"}
        return TrainingCell(**own, evaluate_every=SOON if self.slow else None, validation=0.0, augment=False)


def cells(config: ScaledConfig, finished: Finished) -> list[FigureCell]:
    """Return the runs solver by solver, small networks first. Which β large ones have depends on those of `BASE`."""
    return list(itertools.chain(*(_grid_cells(config, grid, finished) for grid in config.grids)))


def _grid_cells(config: ScaledConfig, grid: SolverGrid, finished: Finished) -> list[FigureCell]:
    rates = {"eta": grid.etas, "seed": range(config.seeds), "activation": grid.activation}

    def network(size: Size, betas: Sequence[float], *methods: str) -> list[ScaledCell]:
        return cells_over(ScaledCell, config, method=methods, width=size[0], depth=size[1], beta=tuple(betas), **rates)

    base = network(BASE, grid.betas, grid.method)
    table = [{**dataclasses.asdict(cell), **finished[cell]} for cell in base if cell in finished]
    sizes = sorted({*itertools.chain(*grid.ladders.values())} - {BASE}, key=math.prod)
    try:
        betas = tried_betas(config, grid, table)
    except MissingCellsError:
        return [*base]
    return [*base, *(cell for size in sizes for cell in network(size, betas, grid.method, scaled(grid.method)))]


def run_group(group: Sequence[ScaledCell], context: RunContext) -> list[Row]:
    """Train one network with all rates and seeds, as one program."""
    _, results = train([cell.run for cell in group], context)
    return [
        {
            "last_train_loss": statistics.fmean(map(float, result.losses[-cell.last :])),
            "test_accuracy": result.last["test_accuracy"],
            "diverged": result.diverged,
        }
        for cell, result in zip(group, results, strict=True)
    ]


def run_cell(cell: ScaledCell, context: RunContext) -> Row:
    """Train one network with one pair of rates."""
    return run_group([cell], context)[0]


Losses = dict[Rate, float]


def losses(config: ScaledConfig, grid: SolverGrid, table: Table, size: Size, scales: bool) -> Losses:
    """Return the training loss at the end for every pair of rates, mean over seeds; infinite where a run diverged."""
    rows = select(table, method=grid.form(scales, size), activation=grid.activation, width=size[0], depth=size[1])
    groups = grouped(rows, "eta", "beta")

    def mean(rate: Rate) -> float:
        runs = require(groups.get(rate, []), config.seeds, f"{grid.label}, N={size[0]} H={size[1]}")
        return statistics.fmean(math.inf if run["diverged"] else number(run["last_train_loss"]) for run in runs)

    betas = grid.betas if size == BASE else tried_betas(config, grid, table)
    return {rate: mean(rate) for rate in itertools.product(grid.etas, betas)}


def tried_betas(config: ScaledConfig, grid: SolverGrid, table: Table) -> tuple[float, ...]:
    """Return the β that networks other than `BASE` are trained with."""
    if len(grid.betas) == 1:
        return grid.betas
    found = losses(config, grid, table, BASE, False)
    place = grid.betas.index(min(found, key=found.__getitem__)[1])
    return grid.betas[max(place - 1, 0) : place + 2]


CLAIMED = {True: "scaled-{solver}-N{large[0]}-H{large[1]}", False: "plain-{solver}-N{large[0]}-H{large[1]}"}
"""Claims about rates that scale, and about rates that do not."""


def claims(config: ScaledConfig, table: Table) -> list[Claim]:
    """Judge that the rates of the smallest network of a ladder are good for each larger one if they scale, and not for
    the largest one otherwise."""

    def transfers(grid: SolverGrid, small: Size, large: Size, scales: bool) -> Finding:
        found = RateTransfer.between(*(losses(config, grid, table, size, scales) for size in (small, large)))
        return (found.cost <= 100 * REGRET) == scales, str(found)

    judged = []
    for grid in config.grids:
        for over, (small, *larger) in grid.ladders.items():
            values = {"solver": grid.name, "label": grid.label, "over": over, "small": small, "limit": REGRET}
            judged += [
                judge(CLAIMED[scales], transfers, grid, small, large, scales, large=large, **values)
                for scales, sizes in ((True, larger), (False, larger[-1:]))
                for large in sizes
            ]
    return judged


def _plot(record: Row, path: Path) -> None:
    config, table = STUDY.config(record["preset"], record["precision"]), record["data"]
    assert isinstance(config, ScaledConfig)
    both = {False: "plain rates", True: "scaled rates"}
    grids = [grid for grid in config.grids if _curves(config, grid, table, "width", False)] or config.grids
    panels = [
        _curves(config, grid, table, over, scales) for over in ("width", "depth") for grid in grids for scales in both
    ]
    titles = [f"{grid.label}\n{rates}" for grid in grids for rates in both.values()]
    plots.draw_scaled_transfer(record, path, titles, panels)


def _curves(
    config: ScaledConfig, grid: SolverGrid, table: Table, over: str, scales: bool
) -> dict[str, dict[float, float]]:
    """Return the loss over η, with the best β of each, for every finished network of a ladder."""
    found = {}
    for size in grid.ladders[over]:
        with contextlib.suppress(MissingCellsError):
            own = losses(config, grid, table, size, scales)
            name = f"N = {size[0]}" if over == "width" else f"H = {size[1]}"
            found[name] = {eta: min(loss for (other, _), loss in own.items() if other == eta) for eta in grid.etas}
    return found


_ERROR_SPACE = SolverGrid(
    "error-space",
    "error space, ReLU",
    "error-space-0.01",
    "relu",
    widths=(64, 128, 256, 512, 1024, 2048, 4096),
    depths=(8, 32, 128, 512, 1024),
    width=128,
    etas=(0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002),
)
_DESCENT = SolverGrid(
    "gd",
    "gradient descent, tanh",
    "mupc",
    "tanh",
    widths=(64, 256, 1024, 4096),
    depths=(8, 32, 128),
    width=128,
    etas=(0.5, 0.2, 0.1, 0.05, 0.02, 0.01),
    betas=tuple(beta for beta in BETA if beta < WILD),
)
_SMALL = dataclasses.replace(_ERROR_SPACE, widths=(64, 256), depths=(8, 64), width=64, etas=(0.2, 0.1, 0.05, 0.02))
_PRESETS = presets(
    ScaledConfig("bf16", protocol("transfer-scaled"), grids=(_ERROR_SPACE, _DESCENT)),
    "small-digits",
    precision="float32",
    data="digits",
    grids=(_SMALL,),
    seeds=1,
    epochs=3.0,
    last=22,
)
STUDY = Figure("transfer-scaled", _PRESETS, cells, run_cell, claims, _plot, run_group)
FIGURES = by_slug(STUDY)
