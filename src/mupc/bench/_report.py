"""Describe measured rows: a line for each, text tables for any terminal, and how cost grows with each size. No JAX."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ._config import UPDATES, WORKLOADS

BenchRow = dict[str, Any]
"""What was measured for one case, as JSON has it."""
Column = str | Callable[[BenchRow], str | float | None]
"""Where a column's values are: a path in the row such as `times.mupc.median_s`, or a function of the row."""

AXES = {"hidden_layers": "H", "width": "N", "batch_size": "B", "steps": "T"}
QUANTITIES = {"median_s": "time", "memory_bytes": "memory"}
FEWEST = 3
"""Values that an exponent needs."""
CALL_OVERHEAD = 1e-6
"""Seconds below which a time measures the call."""


def growth_fits(rows: Iterable[BenchRow]) -> list[BenchRow]:
    """Fit an exponent to every quantity that was measured at three or more values of one size, the others fixed.

    A fit says that `quantity` of the program `name` grows as `axis` to the power `exponent`. Its `error` is the largest
    factor by which one of the `values` is off the line.

    **Arguments:** rows of `mupc bench`.

    **Example:**

    ```python
    from mupc.bench import growth_fits

    sizes = {"workload": "gd", "precision": "float32", "width": 8, "batch_size": 4, "steps": 2}
    rows = [{**sizes, "hidden_layers": h, "times": {"mupc": {"median_s": 3.0 * h}}} for h in (1, 2, 4)]
    growth_fits(rows)[0]["exponent"]      # 1
    ```
    """
    points: dict[tuple[Any, ...], dict[int, float]] = {}
    for row in rows:
        for name, timing in row.get("times", {}).items():
            workload, sizes = row["workload"], {axis: row[axis] for axis in AXES if row.get(axis) is not None}
            if name == "backprop" and workload in UPDATES:  # backpropagation is the same next to any inference
                workload, sizes = "update", {axis: size for axis, size in sizes.items() if axis != "steps"}
            for axis, quantity in itertools.product(sizes, filter(timing.get, QUANTITIES)):
                fixed = {other: size for other, size in sizes.items() if other != axis}
                if axis == "hidden_layers" and "steps" in fixed and row.get("steps_follow_depth"):
                    fixed["steps"] = "H"
                # one step of inference is a point on the line over T
                kind = "gd" if axis == "steps" and workload == "one-step" else workload
                key = kind, row["precision"], name, quantity, axis, tuple(fixed.items())
                points.setdefault(key, {})[row[axis]] = float(timing[quantity])
    return [_fit(key, dict(sorted(found.items()))) for key, found in points.items() if len(found) >= FEWEST]


def _fit(key: tuple[Any, ...], points: dict[int, float]) -> BenchRow:
    """Draw a straight line through the logarithms."""
    x, y = (np.log(np.array(list(values), float)) for values in (points.keys(), points.values()))
    exponent, offset = np.polyfit(x, y, 1)
    error = np.exp(np.max(np.abs(y - exponent * x - offset)))
    *names, fixed = key
    return {
        **dict(zip(("workload", "precision", "name", "quantity", "axis"), names, strict=True)),
        "fixed": dict(fixed),
        "sizes": list(points),
        "values": list(points.values()),
        "exponent": float(exponent),
        "error": float(error),
    }


def fit_line(fit: BenchRow) -> str:
    """Describe a fit in a line."""
    fixed = ", ".join(f"{AXES[axis]}={value}" for axis, value in fit["fixed"].items())
    return (
        f"{QUANTITIES[fit['quantity']]} of {fit['name']} ({fit['workload']}, {fit['precision']}, {fixed}) grows as "
        f"{AXES[fit['axis']]}^{fit['exponent']:.2f} (within a factor {fit['error']:.2f})"
    )


def compile_ratios(rows: Iterable[BenchRow]) -> dict[str, dict[str, float]]:
    """Return, for each program, how much longer the deepest network takes to compile than the shallowest."""
    times = {row["hidden_layers"]: row["times"] for row in rows if row["workload"] == "compile" and "times" in row}
    if len(times) < 2:
        return {}
    low, high = min(times), max(times)
    ratios = {name: _compile_seconds(times[high][name]) / _compile_seconds(taken) for name, taken in times[low].items()}
    return {f"H={high} / H={low}": ratios}


def conclusions(rows: Sequence[BenchRow]) -> BenchRow:
    """Return what follows from all rows together."""
    return {"fits": growth_fits(rows), "compile_ratios": compile_ratios(rows)}


def case_line(row: BenchRow) -> str:
    """Describe a finished case in a line."""
    if "failed" in row:
        return f"{row['label']}: {row['failed']}"
    times = row.get("times", {})
    if row["workload"] == "compile":
        parts = [f"{name} {_compile_seconds(taken):.2f} s" for name, taken in times.items()]
    else:
        parts = [f"{name} {_number(1e3 * taken['median_s'])} ms" for name, taken in times.items()]
        parts += [f"{name} {value:.2f}" for name, value in row["ratios"].items()]
    return f"{row['label']}, {row['precision']}: {', '.join(parts)}"


def report_lines(rows: Sequence[BenchRow]) -> list[str]:
    """Describe all rows together: tables, notes, compile times and growth."""
    ratios = [
        f"compile time, {depths}: " + ", ".join(f"{name} {value:.2f}" for name, value in found.items())
        for depths, found in compile_ratios(rows).items()
    ]
    notes = dict.fromkeys(f"note: {note}" for row in rows for note in row.get("notes", ()))
    return [*(f"\n{table}" for table in tables(rows)), "", *notes, *ratios, *map(fit_line, growth_fits(rows))]


def tables(rows: Iterable[BenchRow]) -> list[str]:
    """Lay out the rows that did not fail as tables of text, with columns two or more spaces apart."""
    rows = [row for row in rows if "failed" not in row]
    found = []
    for workloads, title, columns in _LAYOUTS:
        own = [row for row in rows if row["workload"] in workloads]
        if own:
            lines = [list(columns), *([_cell(row, *column) for column in columns.items()] for row in own)]
            widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
            text = ("  ".join(map(str.rjust, line, widths)) for line in lines)
            found.append("\n".join([title, *text]))
    return found


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _cell(row: BenchRow, title: str, column: Column) -> str:
    """Return the text in a column. The title says how to write numbers: in ms, in MiB, or as a share (`of …`)."""
    value: Any = row if isinstance(column, str) else column(row)
    for key in column.split(".") if isinstance(column, str) else ():
        value = None if value is None else value.get(key)
    scale = {"ms": 1e3, "MiB": 2.0**-20}.get(title.split()[-1], 1)
    if value is None:
        return "–"
    if isinstance(value, str) or (isinstance(value, int) and scale == 1):
        return str(value)
    return f"{100 * value:.0f} %" if title.startswith("of ") else _number(scale * value)


def _compile_seconds(taken: BenchRow) -> float:
    return float(taken["trace_s"] + taken["compile_s"])


def _compile_parts(name: str) -> Column:
    return lambda row: f"{_number(_compile_seconds(row['times'][name]))} ({_number(row['times'][name]['compile_s'])})"


def _spread(row: BenchRow) -> str:
    taken = row["times"]["mupc"]
    return f"±{50 * (taken['slowest_s'] - taken['fastest_s']) / taken['median_s']:.0f} %"


def _of_batched(row: BenchRow) -> float | None:
    """Return the share of the batched product's rate, unless that product is so small that its time is the call's."""
    flops = 2 * max(1, row["hidden_layers"] - 1) * row["width"] ** 2 * row["batch_size"]
    tiny = flops / row["ceilings"]["matmul_flops_per_s"] < CALL_OVERHEAD
    return None if tiny else row["shares"].get("batched_matmul")


_SIZES: dict[str, Column] = {"H": "hidden_layers", "N": "width"}
_BATCHES = _SIZES | {"T": "steps", "B": "batch_size"}
_TIMES: dict[str, Column] = {"ms": "times.mupc.median_s", "spread": _spread}
_BACKPROP: dict[str, Column] = {"BP ms": "times.backprop.median_s", "ms/BP": "ratios.mupc / backprop"}
_BASELINE: dict[str, Column] = {"unrolled ms": "times.unrolled.median_s", "unrolled/ms": "ratios.unrolled / mupc"}
_FLOOR: dict[str, Column] = {
    "floor ms": "floor.twice_s", "of it": "shares.floor", "limit": "floor.limit", "of matmul": "shares.matmul",
}  # fmt: skip
_COMPILED: dict[str, Column] = {
    "compile s": lambda row: _compile_seconds(row["times"]["mupc"]), "MiB": "times.mupc.memory_bytes",
}  # fmt: skip
_EPOCH: dict[str, Column] = {
    "step ms": "times.mupc.median_s", "alone ms": "times.alone.median_s", **_BACKPROP,
    "evaluation ms": "evaluations.mupc.median_s", "steps": "steps_per_epoch", "epoch s": "epoch_s",
}  # fmt: skip
_GRID: dict[str, Column] = {
    "runs": "runs", "together s": "together_s", "one by one s": "one_after_another_s",
    "ratio": "ratios.one after another / together", "diverged": "diverged",
    "end": "largest_difference_of_final_losses", "first": "largest_difference_of_first_losses",
}  # fmt: skip
_LAYOUTS: list[tuple[Sequence[str], str, dict[str, Column]]] = [
    (
        UPDATES,
        "one weight update, next to backpropagation (BP) and the step-by-step baseline (unrolled)",
        {"workload": "workload"} | _BATCHES | _TIMES | _BACKPROP | _BASELINE,
    ),
    (
        UPDATES,
        "the same next to its floor (once: if inference reads weights once a step) and the device's rates",
        {"workload": "workload"}
        | _BATCHES
        | _FLOOR
        | {"once ms": "floor.once_s", "of batched": _of_batched}
        | _COMPILED,
    ),
    (["evaluation"], WORKLOADS["evaluation"], _SIZES | {"samples": "samples"} | _TIMES | _FLOOR | _COMPILED),
    (["epoch"], f"{WORKLOADS['epoch']} (alone: a bare update)", _BATCHES | _EPOCH),
    (
        ["grid"],
        f"{WORKLOADS['grid']}; how far apart losses are at the end and in the first ten steps",
        _BATCHES | _GRID,
    ),
    (
        ["compile"],
        "seconds to trace and compile (of which compile)",
        _SIZES | {name: _compile_parts(name) for name in ("gd", "error-space", "backprop")},
    ),
]
