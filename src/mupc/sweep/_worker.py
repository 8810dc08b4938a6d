"""The loop of a worker: take cells, compute them together, report them, until the whole sweep has ended."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path

from ._axes import CellSettings
from ._sweep import ClaimedCell, Sweep
from ._unfinished import UnfinishedGroup, left_group, new_group, trial_numbers

Execute = Callable[[Sequence[CellSettings], Path | None], Sequence[CellSettings]]
GroupOf = Callable[[CellSettings], Hashable]
POLL = 1.0
"""Seconds between looks at a sweep whose other cells all run elsewhere."""


def work_on(
    sweep: Sweep,
    execute: Execute,
    *,
    group_of: GroupOf,
    limit: int,
    explain: Callable[[Exception], str] = str,
    report: Callable[[], None] = lambda: None,
    unfinished: Path | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Work on a sweep until each of its cells has ended, here or at another worker. An exception that ends the work,
    such as an interruption, gives unfinished cells back.

    **Arguments:**

    - `sweep`: the sweep.
    - `execute(cells, folder)`: compute cells with these settings together and return their results, each with the
      plan's objective and whether it `diverged`. The folder, which may be None, is for checkpoints. If it raises, the
      cells are tried in halves, down to the one at fault. An `OSError`, such as a full disk, ends the work.
    - `group_of`: cells with equal `group_of(settings)` can be computed together.
    - `limit`: the most cells to take at once.
    - `explain`: turns an error into one line.
    - `report`: called when something may have changed.
    - `unfinished`: a folder for what is half trained.
    - `stop`: returns whether to end with `KeyboardInterrupt`.
    """
    while True:
        if stop():
            raise KeyboardInterrupt
        with contextlib.ExitStack() as stack:
            groups = _take(sweep, group_of, limit, unfinished, stack)
            claimed = [cell for cells, _ in groups for cell in cells]
            report()
            open_cells = list(claimed)
            try:
                with sweep.beating(claimed):
                    for cells, group in groups:
                        for cell, result in zip(cells, _results(execute, cells, explain, group), strict=True):
                            _settle(sweep, cell, result)
                            open_cells.remove(cell)
                        group.remove()
                        report()
            finally:
                for cell in open_cells:
                    sweep.release(cell)
        if not claimed:
            if sum(record["state"] in ("complete", "failed") for record in sweep.records()) == sweep.plan.size:
                UnfinishedGroup({}, unfinished).remove()
                return
            time.sleep(POLL)  # the rest runs at other workers, which may die


def _take(
    sweep: Sweep, group_of: GroupOf, limit: int, unfinished: Path | None, stack: contextlib.ExitStack
) -> list[tuple[list[ClaimedCell], UnfinishedGroup]]:
    """Take cells, in groups. They are written down before they are taken, because a worker may be killed in between."""
    left = stack.enter_context(left_group(unfinished))
    groups: list[tuple[list[ClaimedCell], UnfinishedGroup]] = []

    def announce(cells: Sequence[ClaimedCell]) -> None:
        indices = [cell.index for cell in cells]
        if cells and (indices == list(left.trials) or left.kept().keys() >= set(indices)):
            again = dataclasses.replace(left, trials=trial_numbers(cells))
            again.write()
            groups.append((list(cells), again))
            return
        left.remove()  # others have ended its cells, or work on some of them
        together: dict[Hashable, list[ClaimedCell]] = {}
        for cell in cells:
            together.setdefault(group_of(cell.settings), []).append(cell)
        groups.extend((group, stack.enter_context(new_group(unfinished, group))) for group in together.values())

    sweep.take(group_of, limit, left.trials, announce)
    return groups


def _results(
    execute: Execute, cells: Sequence[ClaimedCell], explain: Callable[[Exception], str], group: UnfinishedGroup
) -> list[CellSettings]:
    """Return the results of cells: those that a killed worker wrote down, otherwise new ones, written down as well."""
    kept = group.kept()
    if all(cell.index in kept for cell in cells):
        return [kept[cell.index] for cell in cells]
    results = _outcomes(execute, cells, explain, group.folder)
    group.keep(results)
    return results


def _outcomes(
    execute: Execute, cells: Sequence[ClaimedCell], explain: Callable[[Exception], str], folder: Path | None
) -> list[CellSettings]:
    """Return the results of cells, or an error for each cell that cannot be computed."""
    try:
        return list(execute([cell.settings for cell in cells], folder))
    except OSError:
        raise
    except Exception as error:
        if len(cells) == 1:
            return [{"error": explain(error)}]
        half = len(cells) // 2
        first, second = (None if folder is None else folder / name for name in ("first", "second"))
        return [*_outcomes(execute, cells[:half], explain, first), *_outcomes(execute, cells[half:], explain, second)]


def _settle(sweep: Sweep, cell: ClaimedCell, result: CellSettings) -> None:
    if "error" in result:
        sweep.fail(cell, str(result["error"]))
        return
    value = result.get(sweep.plan.objective)
    if result["diverged"] or not isinstance(value, int | float) or not math.isfinite(value):
        value = math.inf
    sweep.finish(cell, value, result)
