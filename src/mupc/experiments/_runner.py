"""Computes the cells of a figure, one after the other or several at once, and saves each as it finishes."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from ..data import DataError
from ..io import BusyError
from ._figure import Figure, FigureCell, FigureConfig, Row, RunContext
from ._store import CellStore, key

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Shard:
    """A part of the cells: number `index` (from 1) of `count`. Which part a cell is in depends on the cell only."""

    index: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """From `"2/4"`."""
        index, slash, count = text.partition("/")
        if not (slash and index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
            raise ValueError(f"shard {text!r} is not of the form i/n with 1 ≤ i ≤ n: write 1/4 for the first of four.")
        return cls(int(index), int(count))

    def __contains__(self, cell: FigureCell) -> bool:
        return int(key(cell), 16) % self.count == self.index - 1


@dataclasses.dataclass(frozen=True)
class FigureProgress:
    """The state of a figure's cells: finished ones with their results, known ones, and why it ended. Cells that are
    `busy` are being computed by another process."""

    finished: dict[FigureCell, Row]
    known: list[FigureCell]
    failed: dict[FigureCell, str]
    busy: frozenset[FigureCell] = frozenset()

    @property
    def complete(self) -> bool:
        return all(cell in self.finished for cell in self.known)


Running = dict[Future[dict[FigureCell, Row]], list[FigureCell]]
Report = Callable[[FigureCell, Row | None, int, int], None]


def gather(
    figure: Figure, config: FigureConfig, store: CellStore, finished: dict[FigureCell, Row] | None = None
) -> FigureProgress:
    """What is finished, without computing anything. Stage after stage, until nothing more is found."""
    finished = {} if finished is None else finished
    while True:
        known = figure.cells(config, finished)
        found = {cell: result for cell in known if cell not in finished and (result := store.load(cell)) is not None}
        if not found:
            return FigureProgress(finished, known, {})
        finished.update(found)


def execute(
    figure: Figure,
    config: FigureConfig,
    store: CellStore,
    context: RunContext,
    *,
    shard: Shard | None = None,
    seconds_limit: float | None = None,
    resume: bool = True,
    at_once: int = 1,
    report: Report = lambda cell, result, done, known: None,
) -> FigureProgress:
    """Computes what is not finished yet and belongs to the shard, the first of `figure.cells` first.

    No cell is started after `seconds_limit`, and none that another process is at. A cell that fails is reported and
    left out, so that the others still run; missing data (`DataError`), a disk that is full (`OSError`) and interrupts
    end the run. What was finished stays saved in every case, and a training run that is half done goes on next time.
    With `at_once` > 1 so many groups of cells are computed at the same time, in threads: on an accelerator, one
    compiles while another runs.
    """
    shard = shard or Shard()
    begin = time.monotonic()
    finished: dict[FigureCell, Row] = {}
    failed: dict[FigureCell, str] = {}
    busy: set[FigureCell] = set()
    running: Running = {}
    clock = Clock()
    with ThreadPoolExecutor(at_once) if at_once > 1 else _Inline() as pool:
        while True:
            known = gather(figure, config, store, finished).known if resume else figure.cells(config, finished)
            left_out = {*finished, *failed, *busy, *itertools.chain(*running.values())}
            pending = [cell for cell in known if cell not in left_out and cell in shard]
            late = seconds_limit is not None and time.monotonic() - begin >= seconds_limit
            while not (late or context.stop() or len(running) == at_once):
                group = _next(figure, pending, running)
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
                    results = future.result()
                except BusyError:
                    busy.update(group)
                except (DataError, OSError):
                    raise
                except Exception as error:  # one bad cell must not cost the others
                    for cell in group:
                        failed[cell] = f"{type(error).__name__}: {error}".splitlines()[0]
                        report(cell, None, len(finished), len(known))
                else:
                    for cell, result in results.items():
                        finished[cell] = result
                        report(cell, result, len(finished), len(known))


def _next(figure: Figure, pending: list[FigureCell], running: Running) -> list[FigureCell]:
    """The first cells that can be computed together, and whose programs nobody is compiling; none if there are no
    such."""
    programs = {group[0].program for group in running.values()}
    first = next((cell for cell in pending if cell.program not in programs), None)
    if first is None or not figure.run_group:
        return [] if first is None else [first]
    return [cell for cell in pending if cell.group == first.group]


class _Inline(Executor):
    """Computes in this thread, where an interrupt arrives at once."""

    def submit(self, function: Callable[..., T], /, *arguments: Any, **options: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(function(*arguments, **options))
        except Exception as error:
            future.set_exception(error)
        return future


class Clock:
    """Shares time out between those who compute at the same time, in equal parts, so that no second counts twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users, self._each, self._at = 0, 0.0, 0.0

    def enter(self) -> float:
        """Somebody begins; returns what to subtract from what `leave` returns."""
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
    figure: Figure, group: list[FigureCell], store: CellStore, context: RunContext, resume: bool, clock: Clock
) -> dict[FigureCell, Row]:
    """Computes a group of cells and saves their results, each with its share of the time."""
    with store.scratch(group, anew=not resume) as folder:
        known = {cell: result for cell in group if resume and (result := store.load(cell)) is not None}
        if known:  # another process was quicker
            return known
        # without orbax, as on a bare machine, nothing can be kept of what is half done
        scratch = folder if importlib.util.find_spec("orbax") else None
        results = _results(figure, group, dataclasses.replace(context, scratch=scratch), clock)
        for cell, result in zip(group, results, strict=True):
            store.save(cell, result)
    return {cell: store.load(cell) or result for cell, result in zip(group, results, strict=True)}


def _results(figure: Figure, group: list[FigureCell], context: RunContext, clock: Clock) -> list[Row]:
    from ..io import device, versions

    started = clock.enter()
    try:
        run_group = figure.run_group
        results = run_group(group, context) if run_group else [figure.run_cell(cell, context) for cell in group]
    finally:
        seconds = (clock.leave() - started) / len(group)
    return [{**result, "seconds": seconds, "device": device(), "versions": versions()} for result in results]
