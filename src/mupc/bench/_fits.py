"""How cost grows: straight lines through the logarithms of what was measured."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ._cases import UPDATES

Row = Mapping[str, Any]

AXES = {"hidden_layers": "H", "width": "N", "batch_size": "B", "steps": "T"}
QUANTITIES = {"median_s": "time", "memory_bytes": "memory"}
FEWEST = 3
"""Values that an exponent is fitted to."""


class Fit(NamedTuple):
    """`quantity` of `name` grows as `axis` to the power `exponent`, with the rest `fixed`; `error` is the largest
    factor by which a measured value is off the line."""

    workload: str
    precision: str
    name: str
    quantity: str
    axis: str
    fixed: dict[str, int | str]
    sizes: list[int]
    values: list[float]
    exponent: float
    error: float

    @property
    def line(self) -> str:
        """The fit in words."""
        fixed = ", ".join(f"{AXES[axis]}={value}" for axis, value in self.fixed.items())
        return (
            f"{QUANTITIES[self.quantity]} of {self.name} ({self.workload}, {self.precision}, {fixed}) grows as "
            f"{AXES[self.axis]}^{self.exponent:.2f} (within a factor {self.error:.2f})"
        )


def fits(rows: Iterable[Row]) -> list[Fit]:
    """An exponent for every quantity that was measured at three or more values of one size, the others fixed.

    **Arguments:** rows of `mupc bench`.

    **Example:**

    ```python
    from mupc.bench import fits

    sizes = {"workload": "gd", "precision": "float32", "width": 8, "batch_size": 4, "steps": 2}
    rows = [{**sizes, "hidden_layers": h, "times": {"mupc": {"median_s": 3.0 * h}}} for h in (1, 2, 4)]
    fits(rows)[0].exponent      # 1
    ```
    """
    found: dict[tuple[Any, ...], dict[int, float]] = {}
    for row in rows:
        for name, measured in row.get("times", {}).items():
            kind, sizes = _sizes(row, name)
            for axis, quantity in itertools.product(sizes, QUANTITIES):
                if measured.get(quantity):
                    fixed = tuple((other, _held(row, other, axis)) for other in sizes if other != axis)
                    # one step of inference is a point on the line over T
                    workload = "gd" if axis == "steps" and kind == "one-step" else kind
                    key = (workload, row["precision"], name, quantity, axis, fixed)
                    found.setdefault(key, {})[row[axis]] = float(measured[quantity])
    return [_fit(key, dict(sorted(points.items()))) for key, points in found.items() if len(points) >= FEWEST]


def _sizes(row: Row, name: str) -> tuple[str, list[str]]:
    """What was measured, and the sizes that it depends on: backpropagation is the same beside any inference."""
    sizes = [axis for axis in AXES if row.get(axis) is not None]
    if name == "backprop" and row["workload"] in UPDATES:
        return "update", [axis for axis in sizes if axis != "steps"]
    return row["workload"], sizes


def _held(row: Row, other: str, axis: str) -> int | str:
    """The value of a size that does not vary; T = H varies with H."""
    if other == "steps" and axis == "hidden_layers" and row.get("steps_follow_depth"):
        return "H"
    return int(row[other])


def _fit(key: tuple[Any, ...], points: dict[int, float]) -> Fit:
    x, y = (np.log(np.array(list(values), float)) for values in (points.keys(), points.values()))
    exponent, offset = np.polyfit(x, y, 1)
    error = float(np.exp(np.max(np.abs(y - exponent * x - offset))))
    workload, precision, name, quantity, axis, fixed = key
    return Fit(
        workload,
        precision,
        name,
        quantity,
        axis,
        dict(fixed),
        list(points),
        list(points.values()),
        float(exponent),
        error,
    )


def compile_ratios(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """For each program, how much longer the deepest network takes to compile than the shallowest."""
    compiled = [row for row in rows if row["workload"] == "compile" and "times" in row]
    measured = sorted(compiled, key=lambda row: row["hidden_layers"])
    if len(measured) < 2 or measured[0]["hidden_layers"] == measured[-1]["hidden_layers"]:
        return {}
    first, last = measured[0], measured[-1]

    def seconds(row: Row, name: str) -> float:
        return float(row["times"][name]["trace_s"] + row["times"][name]["compile_s"])

    return {
        f"H={last['hidden_layers']} / H={first['hidden_layers']}": {
            name: seconds(last, name) / seconds(first, name) for name in first["times"]
        }
    }
