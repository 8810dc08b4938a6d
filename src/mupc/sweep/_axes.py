"""Read what a sweep varies from text, such as `weight_lr=0.5,0.1` or `weight_lr=log:0.001:1:7`."""

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ..io import checks

Setting: TypeAlias = bool | int | float | str | None
CellSettings = dict[str, Setting]
Convert = Callable[[str, Setting], Setting]
SCALES = ("log", "lin")
SYNTAX = "such as weight_lr=0.5,0.1,0.05 or weight_lr=log:0.001:1:7."


@dataclasses.dataclass(frozen=True)
class SweepAxis:
    """One setting that a sweep varies: the `values` it takes, or the range from `low` to `high` that a sampler draws
    from, uniformly in its logarithm if `log`."""

    name: str
    values: tuple[Setting, ...] = ()
    low: float | int | None = None
    high: float | int | None = None
    log: bool = False

    @property
    def span(self) -> tuple[Setting, ...]:
        """The values, or the two ends of the range."""
        return self.values or (self.low, self.high)

    @property
    def numbers(self) -> tuple[float | int, ...]:
        """The span if it holds nothing but numbers, otherwise nothing."""
        found = tuple(value for value in self.span if isinstance(value, int | float) and not isinstance(value, bool))
        return found if len(found) == len(self.span) else ()


def parse_axes(texts: Sequence[str], convert: Convert, *, sampled: bool = False) -> tuple[SweepAxis, ...]:
    """Read axes: `name=A,B,C` is a list, `name=log:LOW:HIGH:N` are N values evenly spaced on a logarithmic scale,
    `name=lin:LOW:HIGH:N` on a linear one. For a sampler, a range has no N.

    **Arguments:** the texts; `convert(name, value)`, which returns the value with the setting's own type or raises a
    `ValueError`; and whether a sampler draws from the axes.

    **Example:**

    ```python
    from mupc.sweep import parse_axes

    axes = parse_axes(["weight_lr=0.5,0.1", "width=log:16:64:3"], lambda name, value: value)
    axes[1].values      # (16, 32, 64)
    ```
    """
    if not texts:
        raise checks.ArgumentError("grid", "is empty.", f"Say what to vary, {SYNTAX}")
    axes = tuple(_parse_axis(text, convert, sampled) for text in texts)
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise _wrong(name, "is given twice.", f"Put all of its values into one list, {SYNTAX}")
    return axes


def _wrong(text: str, wrong: str, cure: str) -> checks.ArgumentError:
    literal = (part.replace("{", "{{").replace("}", "}}") for part in (f"{text} {wrong}", cure))
    return checks.ArgumentError("grid", *literal)


def _parse_axis(text: str, convert: Convert, sampled: bool) -> SweepAxis:
    name, equals, rest = (part.strip() for part in text.partition("="))
    name = name.replace("-", "_")
    if not equals or not name or not rest:
        raise _wrong(repr(text), "has no values.", f"Write the setting and its values, {SYNTAX}")
    if rest.split(":")[0] in SCALES:
        return _parse_range(name, rest, convert, sampled)
    values = [convert(name, _read(name, part.strip())) for part in rest.split(",") if part.strip()]
    return SweepAxis(name, tuple(dict.fromkeys(values)))


def _parse_range(name: str, text: str, convert: Convert, sampled: bool) -> SweepAxis:
    shown = f"{name}={text}"
    scale, *parts = text.split(":")
    if len(parts) not in (2, 3):
        raise _wrong(shown, "is not a range.", f"Write {name}={scale}:LOW:HIGH:N.")
    ends = SweepAxis(name, tuple(convert(name, _read(name, part)) for part in parts[:2])).numbers
    low, high = ends or (0, 0)
    if low >= high or (scale == "log" and low <= 0):
        above = " above 0" if scale == "log" else ""
        raise _wrong(shown, "is not a range.", f"LOW and HIGH must be numbers{above}, and LOW the lower one.")
    if sampled:
        if len(parts) == 3:
            raise _wrong(shown, "says how many values, which the sampler chooses.", f"Leave out :{parts[2]}.")
        return SweepAxis(name, low=low, high=high, log=scale == "log")
    if len(parts) == 2:
        raise _wrong(shown, "does not say how many values.", f"Write {shown}:5 for five, or choose a sampler.")
    count = _read(name, parts[2])
    if not isinstance(count, int) or count < 2:
        raise _wrong(shown, f"must have at least 2 values, got {parts[2]}.", "Give a larger whole number.")
    import numpy as np

    points = np.geomspace(low, high, count) if scale == "log" else np.linspace(low, high, count)
    values = (round(point) if isinstance(low, int) else float(f"{point:.6g}") for point in points)
    return SweepAxis(name, tuple(dict.fromkeys(values)))


def _read(name: str, text: str) -> Setting:
    """Return a value written as text: a number, true, false, null, or the text itself."""
    for reader in (json.loads, float):
        try:
            value = reader(text)
        except ValueError:
            continue
        if isinstance(value, float) and not math.isfinite(value):
            raise _wrong(f"{name}={text}", "is not finite.", "Give a number.")
        return value if value is None or isinstance(value, bool | int | float) else text
    return text
