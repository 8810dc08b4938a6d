"""Compute cells on a machine that has JAX, equinox, optax, jaxtyping, numpy and safetensors, and nothing else.

    python -m mupc.experiments run SLUG --preset paper --work DIR [--shard i/n] [--seconds-limit S] [--at-once N]

The cells under DIR are merged by copying, and become `results/SLUG.json` with `mupc reproduce SLUG --merge`.
"""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from ..io import Interruption
from ..io.checks import ArgumentError, flag_spelling
from ._catalogue import find_figures
from ._driver import USAGE_ERROR, WORK, FigureJob, describe_cell, run_figures
from ._figure import PRESETS, Figure, FigureConfig
from ._runner import CellReport, FigureProgress, RunOptions, Shard, gather
from ._store import CellStore

PROGRAM = "mupc.experiments"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {PROGRAM}", description="Compute the cells of figures.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("run", "compute what is not finished"), ("cells", "list the cells and which are finished")):
        command = commands.add_parser(name, help=text)
        command.add_argument("slugs", nargs="+", metavar="SLUG")
        command.add_argument("--preset", choices=PRESETS, default="paper")
        command.add_argument("--work", type=Path, default=WORK, help="folder of finished cells (default: %(default)s)")
        command.add_argument("--shard", default="1/1", metavar="I/N", help="compute only part I of N")
        command.add_argument("--precision", help="override the preset's precision")
    run = commands.choices["run"]
    run.add_argument("--seconds-limit", type=float, metavar="S", help="start no cell after S seconds")
    run.add_argument("--at-once", type=int, default=1, metavar="N", help="compute N cells at the same time")
    run.add_argument("--data-dir", help="folder with the files of the data sets")
    run.add_argument("--no-resume", dest="resume", action="store_false", help="compute finished cells again")
    return parser


class PlainReporter:
    """Print a line for each cell and for each figure."""

    @contextlib.contextmanager
    def watch(self, slug: str) -> Iterator[CellReport]:
        yield lambda *ended: print(describe_cell(*ended), flush=True)

    def tell(self, line: str) -> None:
        print(line, flush=True)

    def complain(self, line: str) -> None:
        print(f"{PROGRAM}: {line}", file=sys.stderr)

    def conclude(self, figure: Figure, config: FigureConfig, progress: FigureProgress) -> int:
        print(f"{figure.slug}: {len(progress.finished)} of {len(progress.known)} known cells finished", flush=True)
        return 0


def _list_cells(jobs: list[FigureJob], store: CellStore, shard: Shard) -> int:
    for figure, config in jobs:
        progress = gather(figure, config, store.load)
        for cell in (cell for cell in progress.known if cell in shard):
            print("finished" if cell in progress.finished else "pending ", figure.slug, cell.label)
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run the command and return the exit code: that of `run_figures`, or 2 for wrong usage."""
    words, reporter = _parser().parse_args(argv), PlainReporter()
    store = CellStore(words.work)
    try:
        figures = [entry.load() for entry in find_figures(words.slugs)]
        jobs = [(figure, figure.config(words.preset, words.precision)) for figure in figures]
        shard = Shard.parse(words.shard)
        if words.command == "cells":
            return _list_cells(jobs, store, shard)
        options = RunOptions(shard, words.seconds_limit, words.resume, words.at_once)
    except ValueError as error:
        reporter.complain(error.spelled(flag_spelling) if isinstance(error, ArgumentError) else str(error))
        return USAGE_ERROR
    with Interruption(PROGRAM) as interruption:
        return run_figures(jobs, store, reporter, interruption, options, words.data_dir)


if __name__ == "__main__":
    sys.exit(main())
