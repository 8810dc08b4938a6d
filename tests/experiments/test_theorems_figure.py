"""The study of the theorems and the toy landscape: claims on numbers made by hand, and cells with known answers."""

import dataclasses

import numpy as np
import pytest

from mupc import experiments
from mupc.experiments.theorems import ConvexityCell, FreeCell, LimitCell, run_cell

HOLDS, FAILS, NOT_RUN = experiments.HOLDS, experiments.FAILS, experiments.NOT_RUN
CONTEXT = experiments.RunContext()


def numbers(cell):
    if isinstance(cell, FreeCell):
        return {"solution_distance": 1e-12, "shown": [0, 1], "distances": [1.0, 0.1]}
    if isinstance(cell, LimitCell):
        aspect = (cell.depth + 1) / cell.width
        return {"aspect": aspect, "gradient_distance": aspect if cell.parameterisation == "mupc" else 0.9}
    return {"smallest": 0.1, "holds": True, "evidence": "determinants", "ep_smallest": 1 - cell.scale}


def verdicts(**changes):
    figure = experiments.find_figure("theorems").load()
    config = figure.config("paper")
    table = [{**dataclasses.asdict(cell), **numbers(cell)} for cell in figure.cells(config, {})]
    for name, change in changes.items():
        table = [row | {name: change(row)} if name in row else row for row in table]
    return [claim.verdict for claim in figure.claims(config, table)]


def test_predicates():
    assert verdicts() == [HOLDS] * 5
    assert verdicts(holds=lambda row: row["scale"] < 10) == [FAILS] + [HOLDS] * 4
    assert verdicts(ep_smallest=lambda row: 0.1)[1] == FAILS
    assert verdicts(gradient_distance=lambda row: 0.9)[2:4] == [FAILS, HOLDS]
    assert verdicts(gradient_distance=lambda row: row["aspect"])[2:4] == [HOLDS, FAILS]
    assert verdicts(solution_distance=lambda row: 1e-3)[4] == FAILS


@pytest.mark.slow
def test_cells():
    assert run_cell(FreeCell(2, 20, 0), CONTEXT)["solution_distance"] < 1e-10
    far = [run_cell(LimitCell("mupc", width, 2, 0), CONTEXT)["gradient_distance"] for width in (16, 256)]
    assert far[1] < far[0] / 8, "sixteen times as wide"
    zero = run_cell(ConvexityCell(0.0, 2, 0), CONTEXT)
    assert zero["smallest"] == pytest.approx(1) and zero["ep_smallest"] == pytest.approx(1), "both are the identity"
    assert run_cell(ConvexityCell(3.0, 2, 0), CONTEXT)["ep_smallest"] < 0


def test_the_toy_by_hand():
    figure = experiments.find_figure("toy-ill-cond").load()
    config = figure.config("paper")
    (cell,) = figure.cells(config, {})
    found = figure.run_cell(cell, CONTEXT)
    hessian, drive = np.array([[2.0, -1.0], [-1.0, 101.0]]), np.array([1.0, 10.0])
    values = np.linalg.eigvalsh(hessian)
    solution = np.linalg.solve(hessian, drive)
    assert found["condition_number"] == pytest.approx(values[1] / values[0])
    assert found["solution"] == pytest.approx(solution)
    z = [np.ones(2)]
    for _ in range(config.steps):
        z.append(z[-1] - 1.6 / values[1] * (hessian @ z[-1] - drive))
    assert np.array(found["path"]) == pytest.approx(np.array(z) - solution, abs=1e-12)
    assert found["path_length"] == pytest.approx(np.linalg.norm(np.diff(z, axis=0), axis=1).sum())
    row = {**dataclasses.asdict(cell), **found}
    assert [claim.verdict for claim in figure.claims(config, [row])] == [HOLDS, HOLDS]
    short = row | {"path_length": row["straight"], "condition_number": 40.0}
    assert [claim.verdict for claim in figure.claims(config, [short])] == [FAILS, FAILS]
    assert [claim.verdict for claim in figure.claims(config, [])] == [NOT_RUN, NOT_RUN]
