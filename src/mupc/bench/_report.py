"""Describe measured rows: a line for each, and text tables for any terminal. No JAX."""

from collections.abc import Iterable, Sequence
from typing import Any

from ._config import EPOCHS, RESNET, UPDATES, WORKLOADS
from ._growth import growth

BenchRow = dict[str, Any]
"""What was measured for one case, as JSON has it."""


def case_line(row: BenchRow) -> str:
    """Describe a finished case in a line."""
    if "failed" in row:
        return f"{row['label']}: {row['failed']}"
    parts = [f"{name} {_number(1e3 * taken['median_s'])} ms" for name, taken in row.get("times", {}).items()]
    parts += [f"{name} {value:.2f}" for name, value in row["ratios"].items()]
    return f"{row['label']}, {row['precision']}: {', '.join(parts)}"


def report_lines(rows: Sequence[BenchRow]) -> list[str]:
    """Describe all rows together: tables and notes."""
    notes = dict.fromkeys(f"note: {note}" for row in rows for note in row.get("notes", ()))
    return [*(f"\n{table}" for table in tables(rows)), "", *notes]


def tables(rows: Iterable[BenchRow]) -> list[str]:
    """Lay out the rows that did not fail as tables of text, with columns two or more spaces apart."""
    rows = [row for row in rows if "failed" not in row]
    chosen = ((title, [row for row in rows if row["workload"] in names], columns) for title, names, columns in _LAYOUTS)
    return [_table(*each) for each in (*chosen, (_GROWTH_TITLE, growth(rows), _GROWTH)) if each[1]]


def _table(title: str, rows: Iterable[BenchRow], columns: dict[str, str]) -> str:
    lines = [list(columns), *([_cell(row, *column) for column in columns.items()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join([title, *("  ".join(map(str.rjust, line, widths)) for line in lines)])


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _cell(row: BenchRow, title: str, path: str) -> str:
    """Return the text in a column, whose value has this path in the row. The title says how to write numbers: in ms, in
    MiB, or as a share (`of …` and `spread`)."""
    value: Any = row
    for key in path.split("."):
        value = None if value is None else value.get(key)
    scale = {"ms": 1e3, "MiB": 2.0**-20}.get(title.split()[-1], 1)
    if value is None:
        return "–"
    if isinstance(value, str) or (isinstance(value, int) and scale == 1):
        return str(value)
    return f"{100 * value:.0f} %" if title.startswith(("of ", "spread")) else _number(scale * value)


_SIZES = {"H": "hidden_layers", "N": "width", "T": "steps", "B": "batch_size"}
_BACKPROP = {"BP ms": "times.backprop.median_s", "ms/BP": "ratios.mupc / backprop"}
_LAYOUTS: list[tuple[str, Sequence[str], dict[str, str]]] = [
    (
        "a bare weight update, next to backpropagation (BP) and the step-by-step baseline (unrolled)",
        (*UPDATES, RESNET),
        {"workload": "workload", **_SIZES, "ms": "times.mupc.median_s", "spread ±": "times.mupc.spread", **_BACKPROP}
        | {"unrolled ms": "times.unrolled.median_s", "unrolled/ms": "ratios.unrolled / mupc"},
    ),
    (
        "the same next to its floor (once: if inference reads weights once a step) and the device's rates",
        UPDATES,
        {"workload": "workload", **_SIZES, "floor ms": "floor.twice_s", "of it": "shares.floor", "limit": "floor.limit"}
        | {"once ms": "floor.once_s", "of matmul": "shares.matmul", "of batched": "shares.batched_matmul"}
        | {"compile s": "times.mupc.trace_compile_s", "MiB": "times.mupc.memory_bytes"},
    ),
    (
        "a step of fit, which draws its batch and steps the optimiser, and an evaluation (alone: a bare update)",
        EPOCHS,
        {"workload": "workload", **_SIZES}
        | {"step ms": "times.mupc.median_s", "alone ms": "times.alone.median_s", **_BACKPROP}
        | {"evaluation ms": "evaluation_s", "steps": "steps_per_epoch", "epoch s": "epoch_s"},
    ),
    (
        f"{WORKLOADS['grid']}; how far apart losses are at the end and in the first ten steps",
        ["grid"],
        _SIZES
        | {"runs": "runs", "together s": "together_s", "one by one s": "one_after_another_s"}
        | {"ratio": "ratios.one after another / together", "compile s": "compile_s", "diverged": "diverged"}
        | {"end": "largest_difference_of_final_losses", "first": "largest_difference_of_first_losses"},
    ),
]

_GROWTH_TITLE = (
    "how cost grows: exponents of fits on log–log axes (off: the largest factor between a value and its fit)"
)
_GROWTH = {
    "program": "program",
    "over": "over",
    "from": "from",
    "to": "to",
    "time": "time.exponent",
    "off": "time.off",
    "work": "time.theory",
    "memory": "memory.exponent",
    "off ": "memory.off",
    "theory": "memory.theory",
}
