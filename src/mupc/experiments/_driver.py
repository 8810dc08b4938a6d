"""Run figures one after the other: the loop behind `mupc reproduce` and `python -m mupc.experiments run`."""

import dataclasses
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, runtime_checkable

from ..data import DataError
from ..io import Interruption, checks, counted
from ._figure import Figure, FigureCell, FigureConfig, Row, RunContext
from ._runner import CellReport, FigureProgress, RunOptions, execute
from ._store import CellStore

WORK = Path("runs/reproduce")
"""Where finished cells are kept by default."""
FAILURE, USAGE_ERROR = 1, 2
FigureJob = tuple[Figure, FigureConfig]


@runtime_checkable
class Reporter(Protocol):
    """Show what the driver does."""

    def watch(self, slug: str) -> AbstractContextManager[CellReport]:
        """Return a context in which the cells of one figure are shown as they end."""

    def tell(self, line: str) -> None:
        """Show how far a cell is that takes long."""

    def complain(self, line: str) -> None:
        """Show a problem."""

    def conclude(self, figure: Figure, config: FigureConfig, progress: FigureProgress) -> int:
        """Handle the cells that are finished, and return the exit code."""


def run_figures(
    jobs: Sequence[FigureJob],
    store: CellStore,
    reporter: Reporter,
    interruption: Interruption,
    options: RunOptions,
    data_dir: str | None = None,
) -> int:
    """Compute figures, the limit on seconds being for all of them, and return the exit code.

    It is 0; 1 if a cell failed or another process computes it; 2 if data is missing or the store cannot be written;
    130 or 143 for an interruption.
    """
    begin, code = time.monotonic(), 0
    context = RunContext(data_dir, stop=interruption, tell=reporter.tell)
    for figure, config in jobs:
        limit = options.seconds_limit
        left = None if limit is None else max(0.0, limit - (time.monotonic() - begin))
        try:
            with reporter.watch(figure.slug) as report:
                if interruption():
                    raise KeyboardInterrupt
                progress = execute(
                    figure, config, store, context, dataclasses.replace(options, seconds_limit=left), report
                )
        except KeyboardInterrupt:
            again = "the same command" if options.resume else "the same command without --no-resume"
            reporter.complain(f"{figure.slug}: interrupted; what is finished is kept, {again} goes on.")
            return interruption.code
        except OSError as error:
            cure = "make room, or choose another --work."
            wrong = f"{store.root} cannot be written ({error.strerror}): {cure}" if error.strerror else str(error)
            reporter.complain(wrong)
            return USAGE_ERROR
        except DataError as error:
            reporter.complain(f"{figure.slug}: {error.spelled(checks.flag_spelling)}")
            code = USAGE_ERROR
            continue
        problems = [f"{cell.label}: {reason}" for cell, reason in progress.failed.items()]
        if progress.busy:
            busy = f"another process computes {counted(len(progress.busy), 'cell')} in {store.root}"
            problems.append(f"{busy}: repeat this once it has ended.")
        for line in problems:
            reporter.complain(f"{figure.slug}: {line}")
        code = max(code, FAILURE if problems else 0, reporter.conclude(figure, config, progress))
    return code


def describe_cell(cell: FigureCell, result: Row | None, done: int, known: int) -> str:
    """Return the line for a cell that has ended."""
    if result is None:
        return f"[{done}/{known}] FAILED {cell.label}"
    accuracy = result.get("test_accuracy")
    outcome = f", {100 * accuracy:.2f} %" if accuracy is not None else ""
    diverged = ", diverged" if result.get("diverged") else ""
    return f"[{done}/{known}] {cell.label}{outcome}{diverged}, {result['seconds']:.1f} s"
