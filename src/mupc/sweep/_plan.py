"""What a sweep is: settings that all cells share, what varies, and what is minimised."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from ._space import Axis, Settings


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a sweep is: the `config` that all cells share, the `axes` that it varies, a `sampler` (None for the full
    grid) with its number of `trials` and `seed`, and the `objective`, the result that is minimised."""

    config: Settings
    axes: tuple[Axis, ...]
    objective: str
    sampler: str | None = None
    trials: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.sampler is not None and self.trials < 1:
            raise ValueError("a sampler needs to know how many cells to draw: add --trials N, 1 or more.")

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.trials if self.sampler else math.prod(len(axis.values) for axis in self.axes)

    def record(self) -> Settings:
        """The plan as JSON holds it."""
        return dataclasses.asdict(self) | {"axes": [{**vars(axis), "values": list(axis.values)} for axis in self.axes]}

    @classmethod
    def restore(cls, record: Mapping[str, Any]) -> "Plan":
        """The plan of such a record."""
        axes = tuple(Axis(**{**axis, "values": tuple(axis["values"])}) for axis in record["axes"])
        return cls(**{**record, "axes": axes})

    def difference(self, other: "Plan") -> str:
        """The first thing in which another plan differs: what varies, what is shared, how it is searched."""
        if self.axes != other.axes:
            names = [axis.name for axis in other.axes]
            alike = names == [axis.name for axis in self.axes]
            return f"it varies {', '.join(names)}" + " over values of its own" * alike
        ours, theirs = self.record(), other.record()
        if ours["config"] != theirs["config"]:
            ours, theirs = ours["config"], theirs["config"]
        name = next(name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name))
        return f"its {name} is {theirs.get(name)!r}"
