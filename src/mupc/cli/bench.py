"""`mupc bench`: flags in, exit code out. `bench_job.py` does the work, once the flags are parsed."""

import dataclasses
import sys
from typing import Annotated

import tyro

from ..bench import PRECISIONS, PRESETS, WORKLOADS, Options
from .flags import Activation, DataDir, ScreenFlags, hint
from .parse import parse
from .termination import Termination

Numbers = Annotated[tuple[int, ...] | None, hint("(default: the preset's)", "INT [INT ...]")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchFlags(ScreenFlags, Options):
    """All flags."""

    workloads: Annotated[
        tyro.conf.Positional[tuple[str, ...]], hint("(default: those of the preset)", "[WORKLOAD ...]")
    ] = ()  # fmt: skip
    """What to measure, one or more workloads."""
    preset: Annotated[str, hint("(default: small)", "|".join(PRESETS))] = "small"
    """List of cases: small takes a minute on a CPU, cpu some ten; gpu and full want an accelerator."""
    depths: Numbers = None
    """Numbers of hidden layers H, in place of the preset's."""
    widths: Numbers = None
    """Widths N, in place of the preset's."""
    steps: Annotated[tuple[int, ...] | None, hint("(default: as many as hidden layers)", "INT [INT ...]")] = None
    """Inference steps T of gd, epoch and grid."""
    batch_size: Annotated[tuple[int, ...] | None, hint("(default: 64)", "INT [INT ...]")] = None
    """Samples per update, one or more numbers."""
    precision: Annotated[
        str | None, hint("(default: bf16 on a GPU, otherwise float32)", "|".join(PRECISIONS))
    ] = None  # fmt: skip
    """Number format of matrix products."""
    activation: Activation = "relu"
    """Nonlinearity."""
    data: Annotated[str | None, hint("(default: random numbers of MNIST's shape)")] = None
    """Data set of epoch and grid."""
    data_dir: DataDir = None
    """Folder with the files of the data set."""
    samples: Annotated[int | None, hint("(default: epoch 60,000, grid 6,400)")] = None
    """Random training samples of epoch and grid."""
    chunk: Annotated[int | None, hint("(default: as many as there is memory for)")] = None
    """How many runs of grid to train side by side."""
    sequential: Annotated[int | None, hint("(default: all)")] = None
    """In grid, time only so many runs one after another, and extrapolate."""
    out: Annotated[str | None, hint("(default: runs/bench-N)", "DIR")] = None
    """Run folder; it must be new or empty."""

    @property
    def options(self) -> Options:
        """What of it decides the numbers."""
        return Options(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Options)})


DESCRIPTION = (
    "Measure speed, memory and compile time, beside backpropagation on the same network, a baseline that dispatches "
    "every inference step by itself, and what the device can do at most. Writes a run folder: config.json, "
    "metrics.jsonl, summary.json and a figure of how cost grows. Workloads: "
    + "; ".join(f"{name} ({text})" for name, text in WORKLOADS.items())
    + "."
)


def run(argv: list[str]) -> int:
    """Measures as the flags say and returns the exit code."""
    flags = parse(
        BenchFlags,
        argv,
        prog="mupc bench",
        description=DESCRIPTION,
        default=BenchFlags(),
    )
    from rich.console import Console

    from .bench_job import measure_all
    from .run_folder import dumps

    console = Console(quiet=flags.quiet or flags.json, highlight=False)
    with Termination("mupc bench") as termination:
        summary = measure_all(flags.options, flags.out, console)
    if flags.json:
        print(dumps(summary, indent=2))
    if summary["interrupted"]:
        print(f"mupc bench: {summary['message']}", file=sys.stderr)
    return termination.code if summary["interrupted"] else int(any("failed" in row for row in summary["cases"]))
