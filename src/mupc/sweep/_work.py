"""What a worker does: take cells, compute them together, report them, until the whole sweep has ended."""

import math
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ._space import Settings
from ._study import Cell, Sweep

Execute = Callable[[Sequence[Settings]], Sequence[Settings]]
POLL = 1.0


def work(
    sweep: Sweep,
    execute: Execute,
    *,
    group_of: Callable[[Settings], Hashable],
    limit: int,
    explain: Callable[[Exception], str] = str,
    report: Callable[[], None] = lambda: None,
) -> None:
    """Works on a sweep until every cell of it has ended, here or at another worker. Cells that are not finished when an
    exception ends it, such as an interruption, are given back.

    **Arguments:**

    - `sweep`.
    - `execute`: computes the cells with these settings together; a sequence of results, each with the plan's objective
      and whether it `diverged`. Where it raises, halves of the cells are tried, down to the one that is at fault.
    - `group_of`: cells with equal `group_of(settings)` can be computed together; `limit`: the most cells to take.
    - `explain`: an error as one line. `report`: called when something may have changed.
    """
    while True:
        cells = sweep.take(group_of, limit)
        report()
        if not cells:
            if ended(sweep.records(), sweep.plan.size):
                return
            time.sleep(POLL)  # the rest runs at other workers, who may die
            continue
        open_cells = list(cells)
        try:
            with sweep.beating(cells):
                for group in _groups(cells, group_of):
                    for cell, result in zip(group, _outcomes(execute, group, explain), strict=True):
                        _settle(sweep, cell, result)
                        open_cells.remove(cell)
                    report()
        finally:
            for cell in open_cells:
                sweep.release(cell)


def ended(records: Sequence[Settings], size: int) -> bool:
    """Whether all cells are complete or failed."""
    return sum(record["state"] in ("complete", "failed") for record in records) == size


def _groups(cells: Sequence[Cell], group_of: Callable[[Settings], Hashable]) -> list[list[Cell]]:
    found: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        found.setdefault(group_of(cell.settings), []).append(cell)
    return list(found.values())


def _outcomes(execute: Execute, cells: Sequence[Cell], explain: Callable[[Exception], str]) -> list[Settings]:
    """The results of cells, or the errors of those that have none."""
    try:
        return list(execute([cell.settings for cell in cells]))
    except Exception as error:
        if len(cells) == 1:
            return [{"error": explain(error)}]
        half = len(cells) // 2
        return _outcomes(execute, cells[:half], explain) + _outcomes(execute, cells[half:], explain)


def _settle(sweep: Sweep, cell: Cell, result: Settings) -> None:
    if "error" in result:
        sweep.fail(cell, result["error"])
        return
    value: Any = result.get(sweep.plan.objective)
    good = not result["diverged"] and value is not None and math.isfinite(value)
    sweep.finish(cell, value if good else math.inf, result)
