"""What a sweep varies: settings written as text, the grid they span, and the ranges that samplers draw from."""

import dataclasses
import itertools
import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

Settings = dict[str, Any]
Typed = Callable[[str, Any], Any]
SCALES = ("log", "lin")
SYNTAX = "such as weight_lr=0.5,0.1,0.05 or weight_lr=log:0.001:1:7"


@dataclasses.dataclass(frozen=True)
class Axis:
    """One setting of a sweep: the `values` it takes, or the range from `low` to `high` that a sampler draws from, by
    its logarithm if `log`."""

    name: str
    values: tuple[Any, ...] = ()
    low: float | int | None = None
    high: float | int | None = None
    log: bool = False

    @property
    def span(self) -> tuple[Any, ...]:
        """The values, or the ends of the range."""
        return self.values or (self.low, self.high)

    @property
    def numeric(self) -> bool:
        """Whether all of it is numbers."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.span)

    @property
    def whole(self) -> bool:
        """Whether all of it is whole numbers."""
        return self.numeric and all(isinstance(value, int) for value in self.span)


def parse(texts: Sequence[str], typed: Typed, *, sampled: bool = False) -> tuple[Axis, ...]:
    """Reads axes: `name=A,B,C` is a list, `name=log:LOW:HIGH:N` are N values evenly spaced by their logarithm, `lin:`
    evenly spaced. For a sampler, a range goes without N.

    **Arguments:** the texts; `typed(name, value)`, which returns the value as the setting has it or raises a
    `ValueError`; and whether a sampler draws from the axes.

    **Example:**

    ```python
    from mupc.sweep import _space

    axes = _space.parse(["weight_lr=0.5,0.1", "width=log:16:64:3"], lambda name, value: value)
    _space.grid(axes)[1]      # {'weight_lr': 0.5, 'width': 32}
    ```
    """
    if not texts:
        raise ValueError(f"the grid is empty: say what to vary, {SYNTAX}.")
    axes = tuple(_axis(text, typed, sampled) for text in texts)
    for name in {axis.name for axis in axes}:
        if sum(axis.name == name for axis in axes) > 1:
            raise ValueError(f"{name} is given twice: put all of its values into one list, {SYNTAX}.")
    return axes


def grid(axes: Iterable[Axis]) -> list[Settings]:
    """Every combination of the values, the last axis running fastest."""
    axes = tuple(axes)
    return [
        dict(zip((axis.name for axis in axes), values, strict=True))
        for values in itertools.product(*(axis.values for axis in axes))
    ]


def _axis(text: str, typed: Typed, sampled: bool) -> Axis:
    name, equals, rest = (part.strip() for part in text.partition("="))
    name = name.replace("-", "_")
    if not equals or not name or not rest:
        raise ValueError(f"{text!r} has no values: write the setting and its values, {SYNTAX}.")
    if rest.split(":")[0] in SCALES:
        return _range(name, rest, typed, sampled)
    values = [typed(name, read(name, part.strip())) for part in rest.split(",") if part.strip()]
    return Axis(name, tuple(dict.fromkeys(values)))


def _range(name: str, text: str, typed: Typed, sampled: bool) -> Axis:
    scale, *ends = text.split(":")
    if len(ends) not in (2, 3):
        raise ValueError(f"{name}={text} is no range: write {name}={scale}:LOW:HIGH:N.")
    low, high = (typed(name, read(name, end)) for end in ends[:2])
    if not Axis(name, (low, high)).numeric or low >= high or (scale == "log" and low <= 0):
        above = " above 0" if scale == "log" else ""
        raise ValueError(f"{name}={text} is no range: LOW and HIGH must be numbers{above}, and LOW the lower one.")
    if sampled:
        if len(ends) == 3:
            raise ValueError(f"{name}={text} has a number of values, which a sampler chooses: leave out :{ends[2]}.")
        return Axis(name, low=low, high=high, log=scale == "log")
    if len(ends) == 2:
        raise ValueError(
            f"{name}={text} does not say how many values a grid takes: add their number, as in {name}={text}:5, "
            "or draw from it with --sampler random or --sampler tpe."
        )
    count = read(name, ends[2])
    if not isinstance(count, int) or count < 2:
        raise ValueError(f"{name}={text} needs a whole number of at least 2 values, got {ends[2]}.")
    points = (np.geomspace if scale == "log" else np.linspace)(low, high, count)
    short = (round(point) if isinstance(low, int) else float(f"{point:.6g}") for point in points)
    return Axis(name, tuple(dict.fromkeys(short)))


def read(name: str, text: str) -> Any:
    """A value written as text: a number, true, false, null, or the text itself."""
    for reader in (json.loads, float):
        try:
            value = reader(text)
        except ValueError:
            continue
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name}={text} is not finite: give a number.")
        return value if value is None or isinstance(value, bool | int | float) else text
    return text
