"""Rows as tables of text, one for each kind of workload, for a terminal of any kind."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ._cases import UPDATES, WORKLOADS

Row = Mapping[str, Any]
Column = tuple[str, Callable[[Row], str]]
DISPATCH = 1e-6
"""Seconds that no program can be called in."""


class Table(NamedTuple):
    """A title, names of columns, and lines of cells."""

    title: str
    columns: list[str]
    lines: list[list[str]]

    def __str__(self) -> str:
        lines = [self.columns, *self.lines]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.columns))]
        text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join([self.title, *(line.rstrip() for line in text)])


def tables(rows: Iterable[Row]) -> list[Table]:
    """The rows that ended well, as tables."""
    rows = [row for row in rows if "failed" not in row]
    found = []
    for kinds, title, columns in _LAYOUTS:
        own = [row for row in rows if row["workload"] in kinds]
        if own:
            lines = [[cell(row) for _, cell in columns] for row in own]
            found.append(Table(title, [name for name, _ in columns], lines))
    return found


def line(row: Row) -> str:
    """A finished case in a line."""
    if "failed" in row:
        return f"{row['label']}: {row['failed']}"
    parts = [f"{name} {milliseconds(t)} ms" for name, t in row.get("times", {}).items() if "median_s" in t]
    parts += [f"{name} {value:.2f}" for name, value in row.get("ratios", {}).items()]
    if row["workload"] == "compile":
        parts = [f"{name} {t['trace_s'] + t['compile_s']:.2f} s" for name, t in row["times"].items()]
    return f"{row['label']}, {row['precision']}: {', '.join(parts)}"


def milliseconds(taken: Mapping[str, Any] | None) -> str:
    """A median, with as many digits as it is worth."""
    return "–" if taken is None else _number(1e3 * taken["median_s"])


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def _time(name: str, group: str = "times") -> Callable[[Row], str]:
    return lambda row: milliseconds(row[group].get(name))


def _of(group: str, name: str, written: Callable[[float | None], str] = _number) -> Callable[[Row], str]:
    return lambda row: written(row[group].get(name))


def _of_batched(row: Row) -> str:
    """A share of the batched product's rate, if it has one: a tiny product takes as long as to call it."""
    flops = 2 * max(1, row["hidden_layers"] - 1) * row["width"] ** 2 * row["batch_size"]
    tiny = flops / row["ceilings"]["matmul_flops_per_s"] < DISPATCH
    return _percent(None if tiny else row["shares"].get("batched_matmul"))


def _spread(row: Row) -> str:
    taken = row["times"]["mupc"]
    return f"±{50 * (taken['slowest_s'] - taken['fastest_s']) / taken['median_s']:.0f} %"


def _compile(row: Row) -> str:
    taken = row["times"]["mupc"]
    return _number(taken["trace_s"] + taken["compile_s"])


def _memory(row: Row) -> str:
    return _number(row["times"]["mupc"]["memory_bytes"] / 2**20)


def _compiling(name: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        taken = row["times"][name]
        return f"{_number(taken['trace_s'] + taken['compile_s'])} ({_number(taken['compile_s'])})"

    return cell


def _plain(name: str) -> Callable[[Row], str]:
    return lambda row: "–" if row[name] is None else str(row[name])


def _seconds(group: str, name: str) -> Callable[[Row], str]:
    return lambda row: _number(1e3 * row[group][name])


def _value(name: str) -> Callable[[Row], str]:
    return lambda row: _number(row[name])


_SIZES: list[Column] = [("H", _plain("hidden_layers")), ("N", _plain("width"))]
_BATCHES: list[Column] = [*_SIZES, ("T", _plain("steps")), ("B", _plain("batch_size"))]
_NAMED: list[Column] = [("workload", _plain("workload")), *_BATCHES]
_TIMES: list[Column] = [("ms", _time("mupc")), ("spread", _spread)]
_COSTS: list[Column] = [
    ("floor ms", _seconds("floor", "twice_s")),
    ("of it", _of("shares", "floor", _percent)),
    ("limit", lambda row: str(row["floor"]["limit"])),
    ("of matmul", _of("shares", "matmul", _percent)),
]
_COMPILED: list[Column] = [("compile s", _compile), ("MiB", _memory)]

_LAYOUTS: list[tuple[tuple[str, ...], str, list[Column]]] = [
    (
        UPDATES,
        "one weight update, beside backpropagation (BP) and the step-by-step baseline (unrolled)",
        [
            *_NAMED,
            *_TIMES,
            ("BP ms", _time("backprop")),
            ("ms/BP", _of("ratios", "mupc / backprop")),
            ("unrolled ms", _time("unrolled")),
            ("unrolled/ms", _of("ratios", "unrolled / mupc")),
        ],
    ),
    (
        UPDATES,
        "the same beside its floor (once: if inference reads weights once a step) and the device's rates",
        [
            *_NAMED,
            *_COSTS,
            ("once ms", _seconds("floor", "once_s")),
            ("of batched", _of_batched),
            *_COMPILED,
        ],
    ),
    (
        ("evaluation",),
        WORKLOADS["evaluation"],
        [*_SIZES, ("samples", _plain("samples")), *_TIMES, *_COSTS, *_COMPILED],
    ),
    (
        ("epoch",),
        WORKLOADS["epoch"],
        [
            *_BATCHES,
            ("ms a step", _time("mupc")),
            ("by itself", _time("alone")),
            ("BP ms", _time("backprop")),
            ("ms/BP", _of("ratios", "mupc / backprop")),
            ("evaluation ms", _time("mupc", "evaluations")),
            ("steps", _plain("steps_per_epoch")),
            ("epoch s", _value("epoch_s")),
        ],
    ),
    (
        ("grid",),
        f"{WORKLOADS['grid']}; how far apart the losses are, at the end and in the first ten steps",
        [
            *_BATCHES,
            ("runs", _plain("runs")),
            ("together s", _value("together_s")),
            ("one by one s", _value("one_after_another_s")),
            ("ratio", _of("ratios", "one after another / together")),
            ("diverged", _plain("diverged")),
            ("end", _value("largest_difference_of_final_losses")),
            ("first", _value("largest_difference_of_first_losses")),
        ],
    ),
    (
        ("compile",),
        "seconds to trace and compile (of which compile)",
        [*_SIZES, *((name, _compiling(name)) for name in ("gd", "error-space", "backprop"))],
    ),
]
