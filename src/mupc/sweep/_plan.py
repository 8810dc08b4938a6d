"""The plan of a sweep: the settings that all cells share, what varies, and what is minimised."""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import Any

from ..io import checks
from ._axes import CellSettings, SweepAxis


@dataclasses.dataclass(frozen=True)
class SweepPlan:
    """The `config` that all cells share, the `axes` that vary, a `sampler` (None for the full grid) with its number of
    `trials` and `seed`, the `objective`, which is the result to minimise, and the `format` of the configuration: 1 for
    a plan that does not say."""

    config: CellSettings
    axes: tuple[SweepAxis, ...]
    objective: str
    sampler: str | None = None
    trials: int = 0
    seed: int = 0
    format: int = 1

    def __post_init__(self) -> None:
        if self.sampler is not None and self.trials < 1:
            wrong = f"must be at least 1, got {self.trials}."
            raise checks.ArgumentError("trials", wrong, "Say how many cells the {sampler} draws.")

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.trials if self.sampler else math.prod(len(axis.values) for axis in self.axes)

    def combinations(self) -> list[CellSettings]:
        """Return every combination of values, with the two ends of each range that a sampler draws from. The last axis
        runs fastest. Without a sampler these are the cells."""
        names = [axis.name for axis in self.axes]
        spans = [axis.span for axis in self.axes]
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*spans)]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "SweepPlan":
        """Return the plan of a record, which is the plan as JSON keeps it."""
        axes = tuple(SweepAxis(**{**axis, "values": tuple(axis["values"])}) for axis in record["axes"])
        return cls(**{**record, "axes": axes})

    def describe_difference(self, other: "SweepPlan") -> str:
        """Describe the first thing in which another plan differs: its version, what varies, what is shared, how to
        search."""
        if self.format != other.format:
            return "another version of mupc wrote it: `mupc sweep work` goes on with it"
        if self.axes != other.axes:
            names = [axis.name for axis in other.axes]
            alike = names == [axis.name for axis in self.axes]
            return f"it varies {', '.join(names)}" + " over other values" * alike
        ours, theirs = (plan.config if self.config != other.config else vars(plan) for plan in (self, other))
        name = next(name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name))
        return f"its {name} is {theirs.get(name)!r}"
