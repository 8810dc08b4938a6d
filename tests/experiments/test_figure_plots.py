"""Every figure can be drawn from a partial table, and is small enough for the repository."""

import pytest

from mupc import experiments
from mupc.experiments._store import strict

ENTRIES = experiments.CATALOGUE | experiments.BEYOND
DRAWN_ELSEWHERE = ("inference_dynamics", "exact_inference")  # their own tests draw them
SLUGS = [entry.slug for entry in ENTRIES.values() if entry.module and entry.module not in DRAWN_ELSEWHERE]


def numbers(cell, diverged):
    """Made-up results for a cell of any family."""
    if cell.family == "automatic-steps":
        return {"condition_number": cell.depth**2, "auto": 10 * cell.depth, "plain": 4 * cell.depth**2}
    if hasattr(cell, "layers"):
        return {"sizes": [1.1**n for n in range(1, cell.layers)]}
    end = 3 if diverged else 5
    history = {
        "step": [300 * n for n in range(end)],
        "epoch": [n / 3 for n in range(end)],
        "test_accuracy": [0.1 + 0.2 * n + 0.01 * cell.seed for n in range(end)],
        "learning_layers": [cell.depth + 1] * end,
    }
    found = {"validation_accuracy": 0.5, "validation_loss": 0.1, "test_accuracy": 0.9, "diverged": diverged}
    found["seconds_per_step"] = 0.01
    return found if cell.validation else {**found, "history": history}


@pytest.mark.parametrize("slug", SLUGS)
@pytest.mark.parametrize("keep", [1, 10**6])
def test_figures_are_drawn_from_what_there_is(slug, keep, tmp_path):
    figure = experiments.find(slug).load()
    config = figure.config("paper")
    finished = {}
    for _ in range(3):  # stage after stage
        cells = figure.cells(config, finished)[:keep]
        finished |= {cell: numbers(cell, diverged=getattr(cell, "method", "") == "sp") for cell in cells}
    progress = experiments.Progress(finished, figure.cells(config, finished), {})
    record = strict(experiments.record(figure, "paper", config, progress))
    path = tmp_path / "figure.png"
    figure.plot(record, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size < 300_000
