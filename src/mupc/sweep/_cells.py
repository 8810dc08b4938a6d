"""What `mupc.transfer` finds: cells, the sizes that they belong to, and what transfer cost."""

import dataclasses
import math
from collections.abc import Collection
from typing import NamedTuple

Rates = tuple[float, float]
AT_EDGE = "the optimum lies at the edge of the grid: better rates may lie beyond it"


def at_edge(rate: int | float, rates: Collection[int | float]) -> bool:
    """Whether a rate is the lowest or the highest of several."""
    return min(rates) < max(rates) and rate in (min(rates), max(rates))


class Size(NamedTuple):
    """The size of a network."""

    width: int
    hidden_layers: int

    def __str__(self) -> str:
        return f"{self.hidden_layers} hidden layers of {self.width}"


@dataclasses.dataclass(frozen=True)
class Cell:
    """What a pair of rates led to, mean over the seeds: losses are infinite if one of the runs diverged.

    The training loss is the mean over the last epoch, as in the last record of `mupc.fit`. Accuracies are None for
    regression. `seconds` are its share of what ran side by side, compiling included.
    """

    weight_lr: float
    activity_lr: float
    train_loss: float
    validation_loss: float
    test_loss: float
    test_accuracy: float | None
    diverged: int
    seconds: float = dataclasses.field(default=0.0, compare=False)

    @property
    def rates(self) -> Rates:
        return self.weight_lr, self.activity_lr


@dataclasses.dataclass(frozen=True)
class Tuning:
    """The cells of one size of network, and the floating-point operations of one run."""

    size: Size
    cells: list[Cell]
    flops_per_run: float

    @property
    def seconds(self) -> float:
        """What the cells took."""
        return sum(cell.seconds for cell in self.cells)

    def best(self, loss: str) -> Cell:
        """The cell with the least `"validation_loss"` or `"train_loss"`."""
        return min(self.cells, key=lambda cell: getattr(cell, loss))


@dataclasses.dataclass(frozen=True)
class Transfer:
    """What `transfer` returns.

    - `small`, `large`: what was run at each size, as `Tuning`. Without `verify` the large one has a single cell.
    - `chosen`: the cell of the small network with the least validation loss. `used`: the large network's cell with
      the same rates.
    - `own`: the large network's best cell in training loss, among those that `verify` tried; None without it.
    - `regret`: by how much of `own`'s training loss that of `used` is larger; infinite if it diverged, None without
      `verify`, and NaN if nothing trained.
    - `at_edge(cell)`: whether rates lie at the edge of the grid, beyond which better ones may be. If `own` does, the
      true regret may be larger.
    - `saved`: the share of the work of tuning that the small network saves, in floating-point operations.
    """

    small: Tuning
    large: Tuning
    chosen: Cell
    used: Cell
    own: Cell | None

    @property
    def regret(self) -> float | None:
        if self.own is None:
            return None
        return self.used.train_loss / self.own.train_loss - 1 if math.isfinite(self.own.train_loss) else math.nan

    def at_edge(self, cell: Cell) -> bool:
        axes = zip(*(other.rates for other in self.small.cells), strict=True)
        return any(at_edge(rate, axis) for rate, axis in zip(cell.rates, axes, strict=True))

    @property
    def saved(self) -> float:
        return 1 - self.small.flops_per_run / self.large.flops_per_run
