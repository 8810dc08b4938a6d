"""What `mupc.transfer` returns: cells, the network sizes they belong to, and what transfer cost."""

import dataclasses
import math
from typing import Literal, NamedTuple

from ..io import size_in_words
from ._rates import RatePair, at_edge


class NetworkSize(NamedTuple):
    """The width and depth of a network, and what the depth counts: hidden layers or blocks. Both are None for a model
    that has only one depth."""

    width: int
    hidden_layers: int | None
    depth_name: str | None = "hidden_layers"

    @property
    def named(self) -> dict[str, int | None]:
        """The numbers by name."""
        return {"width": self.width} | ({} if self.depth_name is None else {self.depth_name: self.hidden_layers})

    def __str__(self) -> str:
        return size_in_words(self.width, self.hidden_layers, self.depth_name)


@dataclasses.dataclass(frozen=True)
class TransferCell:
    """The result of one pair of rates, as means over the seeds. Losses are infinite if one of the runs diverged. The
    activity rate is None if the solver does not have one.

    The training loss is the mean over the last epoch, as in the last record of `mupc.fit`. Accuracies are None for
    regression. `seconds` is the cell's share of the time that its grid took, compiling included.
    """

    weight_lr: float
    activity_lr: float | None
    train_loss: float
    validation_loss: float
    test_loss: float
    test_accuracy: float | None
    diverged: int
    seconds: float = dataclasses.field(default=0.0, compare=False)

    @property
    def rates(self) -> RatePair:
        return self.weight_lr, self.activity_lr


@dataclasses.dataclass(frozen=True)
class Tuning:
    """The cells of one network size, and the floating-point operations of one run."""

    size: NetworkSize
    cells: list[TransferCell]
    flops_per_run: float

    @property
    def seconds(self) -> float:
        """The time that all cells took."""
        return sum(cell.seconds for cell in self.cells)

    def best(self, loss: Literal["train_loss", "validation_loss"]) -> TransferCell:
        """Return the cell with the least loss."""
        return min(self.cells, key=lambda cell: getattr(cell, loss))


@dataclasses.dataclass(frozen=True)
class Transfer:
    """The result of `mupc.transfer`.

    - `small`, `large`: the cells of each size, as `Tuning`. Without `verify` the large one has a single cell.
    - `chosen`: the small network's cell with the least validation loss.
    - `used`: the large network's cell with the same rates.
    - `own`: the large network's cell with the least training loss, of those that `verify` tried; None without it.
    - `regret`: the training loss of `used` over that of `own`, less one; infinite if `used` diverged, NaN if every cell
      did, None without `verify`.
    - `at_edge(cell)`: whether a cell's rates lie at the edge of the grid. Better rates may lie beyond it, and if those
      of `own` do, the true regret may be larger.
    - `saved`: the share of tuning's floating-point operations that the small network saves.
    """

    small: Tuning
    large: Tuning
    chosen: TransferCell
    used: TransferCell
    own: TransferCell | None

    @property
    def regret(self) -> float | None:
        if self.own is None:
            return None
        return self.used.train_loss / self.own.train_loss - 1 if math.isfinite(self.own.train_loss) else math.nan

    def at_edge(self, cell: TransferCell) -> bool:
        axes = zip(*(other.rates for other in self.small.cells), strict=True)
        return any(at_edge(rate, axis) for rate, axis in zip(cell.rates, axes, strict=True))

    @property
    def saved(self) -> float:
        return 1 - self.small.flops_per_run / self.large.flops_per_run
