"""`python -m mupc.experiments`: computes cells on a machine that has JAX, equinox, optax and numpy, and nothing else.

    python -m mupc.experiments run SLUG --preset paper --work DIR [--shard i/n] [--seconds-limit S] [--at-once N]

The cells it leaves under DIR are merged by copying, and become `results/SLUG.json` with `mupc reproduce SLUG`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..data import DataError
from ..io import Interruption, checks
from ._catalogue import find_figure
from ._figure import PRESETS, FigureCell, Row, RunContext, UnknownFigureError
from ._runner import Shard, execute, gather
from ._store import CellStore

WORK = Path("runs/reproduce")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mupc.experiments", description="Compute the cells of figures.")
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
    run.add_argument("--at-once", type=int, default=1, metavar="N", help="compute so many cells at the same time")
    run.add_argument("--data-dir", help="folder with the files of the data sets")
    run.add_argument("--no-resume", dest="resume", action="store_false", help="compute finished cells again")
    return parser


def describe(cell: FigureCell, result: Row | None, done: int, known: int) -> str:
    """The line for a cell that has ended."""
    if result is None:
        return f"[{done}/{known}] FAILED {cell.label}"
    accuracy = result.get("test_accuracy")
    outcome = f", {100 * accuracy:.2f} %" if accuracy is not None else ""
    diverged = ", diverged" if result.get("diverged") else ""
    return f"[{done}/{known}] {cell.label}{outcome}{diverged}, {result['seconds']:.1f} s"


def main(argv: list[str] | None = None) -> int:
    """Runs the command and returns the exit code: 0, 1 if a cell failed or another process has it, 2 for wrong usage,
    missing data or a disk that cannot be written, 130 or 143 for an interruption."""
    options = _parser().parse_args(argv)
    try:
        shard = Shard.parse(options.shard)
        figures = [find_figure(slug).load() for slug in options.slugs]
        configs = [figure.config(options.preset, options.precision) for figure in figures]
        checks.integer("--at-once", getattr(options, "at_once", 1), 1)
    except (UnknownFigureError, ValueError) as error:
        print(f"mupc.experiments: {error}", file=sys.stderr)
        return 2
    store = CellStore(options.work)
    if options.command == "cells":
        for figure, config in zip(figures, configs, strict=True):
            progress = gather(figure, config, store)
            for cell in (cell for cell in progress.known if cell in shard):
                print("finished" if cell in progress.finished else "pending ", figure.slug, cell.label)
        return 0
    return _run(options, list(zip(figures, configs, strict=True)), store, shard)


def _run(options: argparse.Namespace, jobs: list, store: CellStore, shard: Shard) -> int:
    import time

    begin, code = time.monotonic(), 0
    interruption = Interruption("mupc.experiments")
    context = RunContext(options.data_dir, stop=interruption)

    def report(cell: FigureCell, result: Row | None, done: int, known: int) -> None:
        print(describe(cell, result, done, known), flush=True)

    for figure, config in jobs:
        limit = options.seconds_limit
        left = None if limit is None else max(0.0, limit - (time.monotonic() - begin))
        try:
            with interruption:
                progress = execute(
                    figure,
                    config,
                    store,
                    context,
                    shard=shard,
                    seconds_limit=left,
                    resume=options.resume,
                    at_once=options.at_once,
                    report=report,
                )
        except KeyboardInterrupt:
            again = "the same command" if options.resume else "the same command without --no-resume"
            print(f"mupc.experiments: interrupted; what is finished is kept, {again} goes on.", file=sys.stderr)
            return interruption.code
        except OSError as error:
            reason = f"{options.work} cannot be written ({error.strerror}): make room, or choose another --work."
            print(f"mupc.experiments: {reason if error.strerror else error}", file=sys.stderr)
            return 2
        except DataError as error:
            print(f"mupc.experiments: {figure.slug}: {error}", file=sys.stderr)
            code = 2
            continue
        for cell, reason in progress.failed.items():
            print(f"mupc.experiments: {figure.slug}: {cell.label}: {reason}", file=sys.stderr)
            code = max(code, 1)
        if progress.busy:
            print(f"mupc.experiments: another process computes {len(progress.busy)} of the cells", file=sys.stderr)
            code = max(code, 1)
        print(f"{figure.slug}: {len(progress.finished)} of {len(progress.known)} known cells finished", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
