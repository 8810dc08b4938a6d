"""Transfer of both learning rates over width and depth: `fig5` = `mupc-transfer-tanh`, and its twins.

A grid of one network and one seed is two programs, of 32 and 12 runs at the paper preset; from 64 hidden layers on it
is one program for every β, of as many runs as there are η. On one H200 a grid takes seconds at 8 hidden layers and
minutes at 128; shards and seconds limits let it be done in pieces.
"""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from .. import plots
from ._claims import Claim, Finding, judge, number, require
from ._declaration import cells_over, presets, protocol
from ._figure import Figure, FigureCell, FigureConfig, Finished, Row, RunContext, Table, by_slug, grouped, select
from ._training import TrainingCell, train

REGRET = 0.1
WILD, SOON = 100.0, 94
"""With this β or a larger one, networks diverge at once unless they are shallow. Such runs are trained together and
evaluated every `SOON` steps: when all have diverged, they end."""
DEEP = 64
"""With this many hidden layers or more, a few runs fill a device: only those of the same β are trained together, and
all are evaluated every `SOON` steps."""
ETA = (0.5, 0.1, 0.05, 0.01)
BETA = (1e3, 5e2, 1e2, 5e1, 1e1, 5.0, 1.0, 0.5, 0.1, 0.05, 0.01)
Size = tuple[int, int]
Rate = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class GridConfig(FigureConfig):
    """Networks of every width at the least depth, and of every depth at `width`; each with every (η, β)."""

    data: str = "mnist"
    activation: str = "tanh"
    widths: tuple[int, ...] = (64, 128, 256, 512, 1024)
    depths: tuple[int, ...] = (8, 16, 32, 64, 128)
    width: int = 512
    etas: tuple[float, ...] = ETA
    betas: tuple[float, ...] = BETA
    seeds: int = 3
    epochs: float = 1.0
    verify: bool = True

    def neighbours(self, rate: Rate) -> list[Rate]:
        """Return the pairs one step away from this one in the grid."""
        row, column = self.etas.index(rate[0]), self.betas.index(rate[1])
        places = itertools.product(enumerate(self.etas), enumerate(self.betas))
        return [(eta, beta) for (i, eta), (j, beta) in places if abs(i - row) + abs(j - column) == 1]


def ladders(widths: Sequence[int], depths: Sequence[int], width: int) -> dict[str, list[Size]]:
    """Return the networks (N, H) over which rates are transferred, the smallest first."""
    over_width = [(each, min(depths)) for each in sorted(widths)]
    return {"width": over_width, "depth": [(width, depth) for depth in sorted(depths)]}


@dataclasses.dataclass(frozen=True)
class GridCell(FigureCell):
    """One training run."""

    family = "transfer-grids"
    words = "{activation} N={width} H={depth} η={eta:g} β={beta:g} seed {seed}"

    activation: str
    width: int
    depth: int
    eta: float
    beta: float
    seed: int
    data: str
    epochs: float
    verify: bool
    precision: str

    @property
    def group(self) -> object:
        beta = self.beta if self.depth >= DEEP else WILD if self.beta >= WILD else 0.0
        return dataclasses.replace(self, eta=0.0, beta=beta)

    @property
    def program(self) -> object:
        return dataclasses.replace(self, eta=0.0, beta=0.0, seed=0)

    @property
    def run(self) -> TrainingCell:
        every = SOON if self.beta >= WILD or self.depth >= DEEP else None
        own = dataclasses.asdict(self)
        return TrainingCell(**own, method="mupc", evaluate_every=every, validation=0.0, augment=False)


def cells(config: GridConfig, finished: Finished) -> list[FigureCell]:
    """Return the runs grid by grid, small networks first."""
    sizes = set(itertools.chain(*ladders(config.widths, config.depths, config.width).values()))
    return [
        cell
        for n, h in sorted(sizes, key=lambda size: size[0] * size[1] ** 2)
        for cell in cells_over(
            GridCell, config, width=n, depth=h, seed=range(config.seeds), eta=config.etas, beta=config.betas
        )
    ]


def run_group(group: Sequence[GridCell], context: RunContext) -> list[Row]:
    """Train one network with every pair of rates, as one program."""
    _, results = train([cell.run for cell in group], context)
    return [
        {
            "lowest_train_loss": min((float(loss) for loss in result.losses if math.isfinite(loss)), default=None),
            "train_loss": statistics.fmean(map(float, result.losses)),
            "test_accuracy": result.last["test_accuracy"],
            "diverged": result.diverged,
        }
        for result in results
    ]


def run_cell(cell: GridCell, context: RunContext) -> Row:
    """Train one network with one pair of rates."""
    return run_group([cell], context)[0]


def losses(config: GridConfig, table: Table, size: Size) -> dict[Rate, float]:
    """Return the lowest training loss for every pair of rates, mean over seeds; infinite where a run diverged."""
    groups = grouped(select(table, width=size[0], depth=size[1]), "eta", "beta")

    def mean(rate: Rate) -> float:
        runs = require(groups.get(rate, []), config.seeds, f"N={size[0]} H={size[1]}")
        return statistics.fmean(math.inf if run["diverged"] else number(run["lowest_train_loss"]) for run in runs)

    return {rate: mean(rate) for rate in itertools.product(config.etas, config.betas)}


@dataclasses.dataclass(frozen=True)
class RateTransfer:
    """The rates of a small network `used` by a large one, whose `losses` are least with `best`."""

    used: Rate
    best: Rate
    losses: dict[Rate, float]

    @classmethod
    def between(cls, small: dict[Rate, float], large: dict[Rate, float]) -> "RateTransfer":
        """Return how the best rates of a network do in a larger one, from the losses of both."""
        return cls(min(small, key=small.__getitem__), min(large, key=large.__getitem__), large)

    def regret(self, rate: Rate) -> float:
        """Return in per cent how much more than the optimum a pair of rates loses."""
        return 100 * (self.losses[rate] / self.losses[self.best] - 1)

    @property
    def cost(self) -> float:
        """The regret of the rates that are used; infinite if they diverge."""
        return self.regret(self.used) if math.isfinite(self.losses[self.used]) else math.inf

    def __str__(self) -> str:
        used, best = (f"{self.losses[rate]:.4g} with {describe_rate(rate)}" for rate in (self.used, self.best))
        cost = f"{self.cost:+.1f} %" if self.cost < 1e4 else f"{self.cost:+.1g} %"
        return f"{cost}: {used}, own best {best}"


def transfer(config: GridConfig, table: Table, small: Size, large: Size) -> RateTransfer:
    """Return how the rates of one network do in another."""
    return RateTransfer.between(losses(config, table, small), losses(config, table, large))


def _pairs(config: GridConfig) -> dict[str, tuple[str, Size, Size]]:
    """Return the smallest network of each ladder with every larger one, by the id of the claim about them."""
    return {
        f"transfers-N{large[0]}-H{large[1]}": (over, small, large)
        for over, (small, *larger) in ladders(config.widths, config.depths, config.width).items()
        for large in larger
    }


def describe_rate(rate: Rate) -> str:
    """Return both rates in words; a solver without steps does not have a β."""
    return f"η={rate[0]:g}" + (f" β={rate[1]:g}" if rate[1] else "")


def claims(config: GridConfig, table: Table) -> list[Claim]:
    """Judge that the rates of the smallest network are good for every larger one."""

    def transfers(small: Size, large: Size) -> Finding:
        found = transfer(config, table, small, large)
        return found.cost <= 100 * REGRET, str(found)

    claim = "transfers-N{large[0]}-H{large[1]}"
    return [
        judge(claim, transfers, small, large, over=over, small=small, large=large, limit=REGRET)
        for over, small, large in _pairs(config).values()
    ]


def checked(config: GridConfig, table: Table, claim: Claim) -> str:
    """Return whether one seed, the lowest of noisy losses or the place in the grid explains that rates do not
    transfer."""
    _, small, large = _pairs(config)[claim.id]
    found = transfer(config, table, small, large)
    grids = grouped(select(table, width=large[0], depth=large[1]), "eta", "beta")
    pairs = zip(grids[found.used], grids[found.best], strict=True)
    lowest = [(used["lowest_train_loss"], best["lowest_train_loss"]) for used, best in pairs]
    excess = ", ".join(f"{100 * (used / best - 1):+.0f}" for used, best in lowest if used and best)

    def ended(rate: Rate) -> str:
        loss, accuracy = (
            statistics.fmean(row[name] or math.inf for row in grids[rate]) for name in ("train_loss", "test_accuracy")
        )
        return f"{loss:.3g} and {100 * accuracy:.1f} % ({describe_rate(rate)})"

    near = ", ".join(f"{describe_rate(rate)} {found.regret(rate):+.0f} %" for rate in config.neighbours(found.used))
    return (
        f"Seed by seed it costs {excess} %; the mean loss of the epoch and the accuracy at its end are "
        f"{ended(found.used)}, {ended(found.best)}. One step away in the grid: {near}."
    )


def _plot(record: Row, path: Path) -> None:
    config = record["config"]
    plots.draw_transfer_grids(record, path, ladders(config["widths"], config["depths"], config["width"]))


_SMALL: dict[str, object] = {"widths": (16, 32), "depths": (4, 8), "width": 32, "seeds": 1, "epochs": 5.0}
_FEW_RATES = {"etas": (0.5, 0.1, 0.02), "betas": (100.0, 10.0, 1.0)}


def _figure(activation: str) -> Figure:
    paper = GridConfig("bf16", protocol("mupc-transfer"), activation=activation)
    both = presets(paper, "mupc-transfer-quick", **_SMALL, **_FEW_RATES, precision="float32", data="digits")
    return Figure(f"mupc-transfer-{activation}", both, cells, run_cell, claims, _plot, run_group, checked)


FIGURES = by_slug(*map(_figure, ("tanh", "linear", "relu")))
