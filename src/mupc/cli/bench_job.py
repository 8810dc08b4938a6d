"""Measurements, from options to a run folder."""

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from .. import plots
from ..bench import Options, expand, fits, tables
from ..bench._runner import Row, begin, conclusions, measure
from ..bench._table import line
from ..io import counted
from .display import say
from .run_folder import RunFolder

Summary = dict[str, Any]


def measure_all(options: Options, out: str | None, console: Console) -> Summary:
    """Measures what the options ask for, writes a run folder and returns its summary.

    **Arguments:** `mupc.bench.Options`, the folder (None for `runs/bench-N`), and the console to show it on.
    """
    cases = expand(options)
    about = begin(options, cases)
    folder = RunFolder(out, "bench")
    folder.write("config.json", about)
    say(console, f"{counted(len(cases), 'case')} on {about['device']}; times are medians, taken in turns")
    rows: list[Row] = []
    started = time.perf_counter()
    with folder.recording(), _bar(console) as bar:
        task = bar.add_task("", total=len(cases))
        for case in cases:
            bar.update(task, description=case.label)
            rows.append(measure(case, options))
            folder.append(rows[-1])
            say(console, line(rows[-1]))
            bar.advance(task)
    interrupted = len(rows) < len(cases)
    message = f"interrupted; {len(rows)} of {len(cases)} cases are in {folder.path / 'summary.json'}."
    summary = {
        **about,
        "cases": rows,
        **conclusions(rows),
        "seconds": time.perf_counter() - started,
        "interrupted": interrupted,
        "message": message if interrupted else "all cases were measured",
        "out": str(folder.path),
    }
    folder.write("summary.json", summary)
    if summary["fits"]:
        plots.draw_performance(summary["fits"], folder.path / "figures" / "performance.png", title=about["device"])
    _conclude(summary, console)
    return summary


def _bar(console: Console) -> Progress:
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


def _conclude(summary: Summary, console: Console) -> None:
    for table in tables(summary["cases"]):
        say(console, f"\n{table}")
    say(console, "")
    for note in dict.fromkeys(note for row in summary["cases"] for note in row.get("notes", ())):
        say(console, f"note: {note}")
    for name, ratios in summary["compile_ratios"].items():
        say(console, f"compile time, {name}: " + ", ".join(f"{key} {value:.2f}" for key, value in ratios.items()))
    for fit in fits(summary["cases"]):
        say(console, fit.line)
    say(console, f"run folder {summary['out']}")
