"""`mupc bench`: measure speed, memory and compile time."""

import dataclasses
import time
from typing import Annotated

import tyro

from .. import bench, plots
from ..io import counted
from .flags import Activation, DataDir, FigureFlags, hint
from .runner import FAILURE, Command, CommandResult, Session

SIZES = "INT [INT ...]"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchFlags(FigureFlags, bench.BenchConfig):
    """All flags: the settings of `BenchConfig`, which has their descriptions, with hints about defaults."""

    workloads: Annotated[
        tyro.conf.Positional[tuple[str, ...]], hint("(default: those of the preset)", "[WORKLOAD ...]")
    ] = ()  # fmt: skip
    preset: Annotated[str, hint("(default: small)", "|".join(bench.PRESETS))] = "small"
    depths: Annotated[tuple[int, ...] | None, hint("(default: the preset's)", SIZES)] = None
    widths: Annotated[tuple[int, ...] | None, hint("(default: the preset's)", SIZES)] = None
    steps: Annotated[tuple[int, ...] | None, hint("(default: as many as hidden layers)", SIZES)] = None
    batch_size: Annotated[tuple[int, ...] | None, hint("(default: 64)", SIZES)] = None
    precision: Annotated[
        str | None, hint("(default: bf16 on a GPU, otherwise float32)", "|".join(bench.PRECISIONS))
    ] = None  # fmt: skip
    activation: Activation = "relu"
    data: Annotated[str | None, hint("(default: random numbers of MNIST's shape)")] = None
    data_dir: DataDir = None
    samples: Annotated[int | None, hint("(default: epoch 60,000, grid 6,400)")] = None
    chunk: Annotated[int | None, hint("(default: as many as fit into memory)")] = None
    sequential: Annotated[int | None, hint("(default: all)")] = None
    out: Annotated[str | None, hint("(default: runs/bench-N)", "DIR")] = None
    """Run folder; it must be new or empty."""


def run(flags: BenchFlags, session: Session) -> CommandResult:
    """Measure every case and write a run folder."""
    from ..io.progress import ProgressDisplay
    from .run_folder import RunFolder

    cases = bench.bench_cases(flags)
    about = bench.prepare(flags, cases)
    folder = RunFolder(flags.out, "bench", format=flags.format)
    folder.write("config.json", about)
    session.say(f"{counted(len(cases), 'case')} on {about['device']}; times are medians, taken in turns")
    rows: list[bench.BenchRow] = []
    started = time.perf_counter()
    with folder.recording(), ProgressDisplay(session.console, "case") as progress:
        for case in cases:
            progress.update(len(rows), len(cases), [case.label], plain="")
            rows.append(bench.measure_case(case, flags))
            folder.append(rows[-1])
            session.say(bench.case_line(rows[-1]))
    interrupted = len(rows) < len(cases)
    message = f"interrupted; {len(rows)} of {len(cases)} cases are in {folder.path / 'summary.json'}."
    if not interrupted:
        message = "all cases were measured"
    summary = folder.write_summary(about | {"cases": rows}, started, message, interrupted)
    plots.draw_performance(rows, folder.figure("performance"), title=about["device"])
    for line in (*bench.report_lines(rows), f"run folder {folder.path}"):
        session.say(line)
    return CommandResult(summary, code=FAILURE if any("failed" in row for row in rows) else 0)


COMMAND = Command(
    flags=BenchFlags,
    description=(
        "Measure speed, memory and compile time, next to backpropagation on the same network, a baseline that "
        "dispatches every inference step by itself, and the device's limits. Writes a run folder: config.json, "
        "metrics.jsonl, summary.json and a figure of how cost grows. Workloads: "
        + "; ".join(f"{name} ({text})" for name, text in bench.WORKLOADS.items())
        + "."
    ),
    run=run,
    spelling={"steps": "--steps"},
)
