"""Compute the cells of a figure, one after the other or several at once, and save each as it finishes."""

import dataclasses
import importlib.util
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from typing import ParamSpec, TypeVar

from ..data import DataError
from ..io import BusyError, checks
from ._figure import Figure, FigureCell, FigureConfig, Row, RunContext
from ._store import CellStore, key

T = TypeVar("T")
P = ParamSpec("P")


@dataclasses.dataclass(frozen=True)
class Shard:
    """A part of the cells: number `index` (from 1) of `count`. Which part a cell is in depends on the cell only."""

    index: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Return the shard written as `"2/4"`."""
        index, slash, count = text.partition("/")
        if not (slash and index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
            wrong = f"{checks.literal(text)} is not of the form i/n with 1 ≤ i ≤ n:"
            raise checks.ArgumentError("shard", wrong, "write 1/4 for the first of four.")
        return cls(int(index), int(count))

    def __contains__(self, cell: FigureCell) -> bool:
        return int(key(cell), 16) % self.count == self.index - 1


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """How to compute cells.

    - `shard`: compute only this part of the cells.
    - `seconds_limit`: start no cell after this many seconds.
    - `resume`: reuse finished cells, and go on with those that are half done.
    - `at_once`: compute this many groups of cells at the same time, in threads: on an accelerator, one compiles while
      another runs.
    """

    shard: Shard = Shard()
    seconds_limit: float | None = None
    resume: bool = True
    at_once: int = 1

    def __post_init__(self) -> None:
        checks.integer("at_once", self.at_once, 1)


@dataclasses.dataclass(frozen=True)
class FigureProgress:
    """The cells of a figure that are known so far. Of these some are finished (with their results), some failed (with
    the reason), and some are `busy`: another process computes them."""

    finished: dict[FigureCell, Row]
    known: list[FigureCell]
    failed: dict[FigureCell, str]
    busy: frozenset[FigureCell] = frozenset()

    @property
    def complete(self) -> bool:
        return all(cell in self.finished for cell in self.known)


CellReport = Callable[[FigureCell, Row | None, int, int], None]
"""Called with a cell that ended, its result (None if it failed), and how many cells are finished and known."""
Running = dict[Future[dict[FigureCell, Row]], list[FigureCell]]


def gather(
    figure: Figure,
    config: FigureConfig,
    load: Callable[[FigureCell], Row | None],
    finished: dict[FigureCell, Row] | None = None,
) -> FigureProgress:
    """Find the cells that `load` returns a result of, stage after stage, without computing anything."""
    finished = {} if finished is None else finished
    while True:
        known = figure.cells(config, finished)
        found = {cell: result for cell in known if cell not in finished and (result := load(cell)) is not None}
        if not found:
            return FigureProgress(finished, known, {})
        finished.update(found)


def execute(
    figure: Figure,
    config: FigureConfig,
    store: CellStore,
    context: RunContext,
    options: RunOptions | None = None,
    report: CellReport = lambda cell, result, done, known: None,
) -> FigureProgress:
    """Compute the cells that are not finished yet, in the order of `figure.cells`.

    A cell that fails is reported and left out, so that the others still run; so is a cell that another process
    computes. Missing data (`DataError`), a full disk (`OSError`) and interrupts end the run. Finished cells stay saved
    in every case, and a training run that is half done goes on next time.
    """
    options = options or RunOptions()
    store.tidy()
    begin, clock = time.monotonic(), SharedClock()
    finished: dict[FigureCell, Row] = {}
    failed: dict[FigureCell, str] = {}
    busy: set[FigureCell] = set()
    running: Running = {}
    with ThreadPoolExecutor(options.at_once) if options.at_once > 1 else _Inline() as pool:
        while True:
            resume = options.resume
            known = gather(figure, config, store.load, finished).known if resume else figure.cells(config, finished)
            left_out = {*finished, *failed, *busy, *itertools.chain(*running.values())}
            pending = [cell for cell in known if cell not in left_out and cell in options.shard]
            late = options.seconds_limit is not None and time.monotonic() - begin >= options.seconds_limit
            while not (late or context.stop() or len(running) == options.at_once):
                group = _next_group(figure, pending, running)
                if not group:
                    break
                running[pool.submit(_compute, figure, group, store, context, resume, clock)] = group
                pending = [cell for cell in pending if cell not in group]
            if not running and pending and not late:  # stopped
                raise KeyboardInterrupt
            if not running:
                store.tidy()
                return FigureProgress(finished, known, failed, frozenset(busy - finished.keys()))
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                group = running.pop(future)
                try:
                    results: dict[FigureCell, Row | None] = {**future.result()}
                except BusyError:
                    busy.update(group)
                    continue
                except (DataError, OSError):
                    raise
                except Exception as error:  # one bad cell must not cost the others
                    failed |= dict.fromkeys(group, f"{type(error).__name__}: {error}".splitlines()[0])
                    results = dict.fromkeys(group)
                for cell, result in results.items():
                    if result is not None:
                        finished[cell] = result
                    report(cell, result, len(finished), len(known))


def _next_group(figure: Figure, pending: list[FigureCell], running: Running) -> list[FigureCell]:
    """Return the first cells that can be computed together and whose programs no thread is compiling, if any."""
    programs = {group[0].program for group in running.values()}
    first = next((cell for cell in pending if cell.program not in programs), None)
    if first is None or not figure.run_group:
        return [] if first is None else [first]
    return [cell for cell in pending if cell.group == first.group]


class _Inline(Executor):
    """Compute in this thread, where an interrupt arrives at once."""

    def submit(self, function: Callable[P, T], /, *arguments: P.args, **options: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(function(*arguments, **options))
        except Exception as error:
            future.set_exception(error)
        return future


class SharedClock:
    """Share time out between threads that compute at the same time, in equal parts, so that no second counts twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users, self._each, self._at = 0, 0.0, 0.0

    def enter(self) -> float:
        """Begin; the difference from what `leave` returns is this thread's share."""
        return self._tick(1)

    def leave(self) -> float:
        return self._tick(-1)

    def _tick(self, change: int) -> float:
        with self._lock:
            now = time.perf_counter()
            self._each += (now - self._at) / max(1, self._users)
            self._users, self._at = self._users + change, now
            return self._each


def _compute(
    figure: Figure, group: list[FigureCell], store: CellStore, context: RunContext, resume: bool, clock: SharedClock
) -> dict[FigureCell, Row]:
    """Compute a group of cells and save their results, each with its share of the time."""
    from ..io import device, versions

    with store.scratch(group, fresh=not resume) as folder:
        known = {cell: result for cell in group if resume and (result := store.load(cell)) is not None}
        if known:  # another process was quicker
            return known
        # without orbax, as on a bare machine, half-done work cannot be kept
        context = dataclasses.replace(context, scratch=folder if importlib.util.find_spec("orbax") else None)
        begin = clock.enter()
        try:
            run_group = figure.run_group
            results = run_group(group, context) if run_group else [figure.run_cell(cell, context) for cell in group]
        finally:
            seconds = (clock.leave() - begin) / len(group)
        shared = {"seconds": seconds, "device": device(), "versions": versions()}
        store.save_all({cell: {**result, **shared} for cell, result in zip(group, results, strict=True)}, folder)
    return {cell: store.load(cell) or {**result, **shared} for cell, result in zip(group, results, strict=True)}
