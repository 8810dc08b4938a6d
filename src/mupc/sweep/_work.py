"""What a worker does: take cells, compute them together, report them, until the whole sweep has ended."""

import contextlib
import math
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

from ._space import Settings
from ._study import Cell, Sweep
from ._unfinished import Group, Unfinished

Execute = Callable[[Sequence[Settings], Path | None], Sequence[Settings]]
POLL = 1.0


def work(
    sweep: Sweep,
    execute: Execute,
    *,
    group_of: Callable[[Settings], Hashable],
    limit: int,
    explain: Callable[[Exception], str] = str,
    report: Callable[[], None] = lambda: None,
    unfinished: Unfinished | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Works on a sweep until every cell of it has ended, here or at another worker. Cells that are not finished when an
    exception ends it, such as an interruption, are given back.

    **Arguments:**

    - `sweep`.
    - `execute`: computes the cells with these settings together; a sequence of results, each with the plan's objective
      and whether it `diverged`. Where it raises, halves of the cells are tried, down to the one that is at fault; but
      `OSError`, of a disk that is full, ends the work. Its second argument is a folder for checkpoints, or None.
    - `group_of`: cells with equal `group_of(settings)` can be computed together; `limit`: the most cells to take.
    - `explain`: an error as one line. `report`: called when something may have changed.
    - `unfinished`: where cells that are half trained are kept; `stop`: whether to end with `KeyboardInterrupt`.
    """
    unfinished = Unfinished() if unfinished is None else unfinished
    while True:
        if stop():
            raise KeyboardInterrupt
        with contextlib.ExitStack() as stack:
            groups = _take(sweep, group_of, limit, unfinished, stack)
            cells = [cell for group, _ in groups for cell in group]
            report()
            open_cells = list(cells)
            try:
                with sweep.beating(cells):
                    for group, place in groups:
                        for cell, result in zip(group, _outcomes(execute, group, explain, place.folder), strict=True):
                            _settle(sweep, cell, result)
                            open_cells.remove(cell)
                        place.remove()
                        report()
            finally:
                for cell in open_cells:
                    sweep.release(cell)
        if not cells:
            if ended(sweep.records(), sweep.plan.size):
                unfinished.clear()
                return
            time.sleep(POLL)  # the rest runs at other workers, who may die


def _take(
    sweep: Sweep,
    group_of: Callable[[Settings], Hashable],
    limit: int,
    unfinished: Unfinished,
    stack: contextlib.ExitStack,
) -> list[tuple[Sequence[Cell], Group]]:
    """Takes cells, in groups. Which they are is written down before they are taken, as a worker may be killed."""
    left = stack.enter_context(unfinished.left())
    groups: list[tuple[Sequence[Cell], Group]] = []

    def announce(cells: Sequence[Cell]) -> None:
        if left is not None and cells and [cell.index for cell in cells] == list(left.trials):
            groups.append((cells, left.again(cells)))
            return
        if left is not None:
            left.remove()  # others have ended its cells, or are at some of them
        groups.extend((group, stack.enter_context(unfinished.begin(group))) for group in _groups(cells, group_of))

    sweep.take(group_of, limit, None if left is None else left.trials, announce)
    return groups


def ended(records: Sequence[Settings], size: int) -> bool:
    """Whether all cells are complete or failed."""
    return sum(record["state"] in ("complete", "failed") for record in records) == size


def _groups(cells: Sequence[Cell], group_of: Callable[[Settings], Hashable]) -> list[list[Cell]]:
    found: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        found.setdefault(group_of(cell.settings), []).append(cell)
    return list(found.values())


def _outcomes(
    execute: Execute, cells: Sequence[Cell], explain: Callable[[Exception], str], folder: Path | None
) -> list[Settings]:
    """The results of cells, or the errors of those that have none."""
    try:
        return list(execute([cell.settings for cell in cells], folder))
    except OSError:
        raise
    except Exception as error:
        if len(cells) == 1:
            return [{"error": explain(error)}]
        half = len(cells) // 2
        parts = {"first": cells[:half], "second": cells[half:]}
        return [
            outcome
            for name, part in parts.items()
            for outcome in _outcomes(execute, part, explain, None if folder is None else folder / name)
        ]


def _settle(sweep: Sweep, cell: Cell, result: Settings) -> None:
    if "error" in result:
        sweep.fail(cell, result["error"])
        return
    value: Any = result.get(sweep.plan.objective)
    good = not result["diverged"] and value is not None and math.isfinite(value)
    sweep.finish(cell, value if good else math.inf, result)
