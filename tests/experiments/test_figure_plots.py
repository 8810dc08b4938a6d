"""Every figure can be drawn from a partial table, and is small enough for the repository."""

import pytest

from mupc import experiments
from mupc.experiments._store import strict

ENTRIES = experiments.CATALOGUE | experiments.BEYOND
DRAWN_ELSEWHERE = ("inference_dynamics", "exact_inference")  # their own tests draw them
SLUGS = [entry.slug for entry in ENTRIES.values() if entry.module and entry.module not in DRAWN_ELSEWHERE]


def conditioning(cell):
    kind = "indefinite" if cell.target == "normal" and cell.depth < 4 else "positive definite"
    kind = "positive semidefinite" if cell.kind == "sp-skips" and cell.depth > 32 else kind
    kappa = float(cell.depth) ** 1.9
    found = {"largest": 6.0, "smallest": 6 / kappa, "definite": kind, "seconds": 0.1 * cell.depth}
    return {**found, "condition_number": kappa if kind == "positive definite" else None}


def landscape(cell):
    axis = [4 * place / (cell.points - 1) - 2 for place in range(cell.points)]
    return {"energies": [[x * x + 9 * y * y for x in axis] for y in axis], "curvatures": [2.0, 18.0]}


FAMILIES = {
    "automatic-steps": lambda c: {"condition_number": c.depth**2, "auto": 10 * c.depth, "plain": 4 * c.depth**2},
    "forward-pass": lambda c: {"sizes": [1.1**n for n in range(1, c.layers)]},
    "conditioning": conditioning,
    "landscape-slices": landscape,
    "spectra": lambda c: {"quantiles": [1 + n / 25 for n in range(101)], "asymmetry": 0.0},
    "loss-energy-ratios": lambda c: {"ratio": 1 + c.depth / c.width},
    "transfer-grids": lambda c: {"lowest_train_loss": 0.1 + abs(c.eta - 0.1), "diverged": c.beta > 100},
    "toy-landscape": lambda c: {
        "condition_number": 9.0,
        "solution": [0.5, 0.1],
        "axis": [-1.0, 0.0, 1.0],
        "energies": [[10.0, 9.0, 10.0], [1.0, 0.0, 1.0], [10.0, 9.0, 10.0]],
        "path": [[0.9, 0.9], [0.5, -0.5], [0.1, 0.0]],
        "path_length": 3.0,
        "straight": 1.3,
    },
    "free-output": lambda c: {"solution_distance": 1e-12, "shown": [0, 1, 9], "distances": [1.0, 0.1, 0.01]},
    "backprop-limit": lambda c: {"aspect": c.depth / c.width, "gradient_distance": c.depth / c.width},
    "convexity": lambda c: {"smallest": 1 / c.scale, "ep_smallest": 1 - c.scale, "holds": True},
}


def numbers(cell, diverged):
    """Made-up results for a cell of any family."""
    if cell.family in FAMILIES:
        return FAMILIES[cell.family](cell)
    end = 3 if diverged else 5
    history = {
        "step": [300 * n for n in range(end)],
        "epoch": [n / 3 for n in range(end)],
        "test_accuracy": [0.1 + 0.2 * n + 0.01 * cell.seed for n in range(end)],
        "train_loss": [None, *[0.5] * (end - 1)],
        "energy": [None, *[0.25] * (end - 1)],
        "learning_layers": [cell.depth + 1] * end,
    }
    if cell.family == "training-conditioning":
        kappas = [10.0 * cell.depth * 2**n for n in range(end - 1)]
        history |= {"condition_number": [*kappas, None], "largest": [5.0] * end, "smallest": [0.1] * end}
    found = {"validation_accuracy": 0.5, "validation_loss": 0.1, "test_accuracy": 0.9, "diverged": diverged}
    found["seconds_per_step"] = 0.01
    return found if cell.validation else {**found, "history": history}


@pytest.mark.slow
@pytest.mark.parametrize("slug", SLUGS)
@pytest.mark.parametrize("keep", [1, 10**6])
def test_figures_are_drawn_from_what_there_is(slug, keep, tmp_path):
    figure = experiments.find_figure(slug).load()
    config = figure.config("paper")
    finished = {}
    for _ in range(3):  # stage after stage
        cells = figure.cells(config, finished)[:keep]
        finished |= {cell: numbers(cell, diverged=getattr(cell, "method", "") == "sp") for cell in cells}
    progress = experiments.FigureProgress(finished, figure.cells(config, finished), {})
    record = strict(experiments.record(figure, "paper", config, progress))
    path = tmp_path / "figure.png"
    figure.plot(record, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size < 300_000
