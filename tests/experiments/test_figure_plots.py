"""Every drawing function draws whole and partial tables, and the files are small enough for the repository."""

import json
from pathlib import Path

import pytest
from legends import covered

from mupc import experiments, plots
from mupc.experiments._store import strict

DRAWN = {
    "draw_accuracy_at_depths": "thousand-layers",
    "draw_accuracy_over_depth": "mupc-vs-pc-all-activations",
    "draw_accuracy_over_epochs": "mupc-fashion-15-epochs",
    "draw_accuracy_over_width": "wider-is-better-mnist",
    "draw_activity_decay": "activity-decay",
    "draw_automatic_steps": "automatic-steps",
    "draw_block_spectra": "d-eigens-n",
    "draw_condition_grid": "sp-cond-nums-init",
    "draw_condition_powers": "condition-numbers",
    "draw_conditioning_over_training": "sp-train-cond-nums-skips-mnist",
    "draw_conditioning_with_accuracies": "orthog-init-mnist",
    "draw_credit_over_epochs": "conv-resnet",
    "draw_extreme_eigenvalues": "max-min-eigens",
    "draw_family": "family",
    "draw_forward_pass": "fwd-pass-stability",
    "draw_landscape": "toy-ill-cond",
    "draw_one_step_conditioning": "mupc-one-step-mnist",
    "draw_protocol_choices": "protocol-choices",
    "draw_ratio_curves": "example-loss-energy-ratios",
    "draw_ratio_maps": "mupc-loss-energy-ratios",
    "draw_scaled_transfer": "transfer-scaled",
    "draw_solver_comparison": "solvers-fashion-small",
    "draw_theorems": "theorems",
    "draw_transfer_grids": "mupc-transfer-tanh",
}
"""A figure for each drawing function of the experiments."""
DRAWN_ELSEWHERE = {
    *("draw_chain_dynamics", "draw_network_dynamics", "draw_exact_inference"),  # in the tests of these experiments
    *("draw_learning_curve", "draw_credit_reach", "draw_performance", "draw_transfer"),  # in the tests of commands
    *("draw_coordinate_scaling", "draw_layer_sizes", "draw_sweep_contour", "draw_sweep_lines"),
    *("draw_eigenvalue_densities", "draw_condition_numbers"),
}


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
    "transfer-scaled": lambda c: {"last_train_loss": 0.1 + abs(c.eta - 0.1), "diverged": c.eta * c.depth > 100},
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
    "step-cost": lambda c: {"costly_seconds": 0.008, "cheap_seconds": 0.004, "ratio": 2.0},
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
    history |= {"median_cosine": [0.9] * end, "smallest_cosine": [0.8] * end, "hidden_energy": [0.1] * end}
    if cell.family == "training-conditioning":
        kappas = [10.0 * cell.depth * 2**n for n in range(end - 1)]
        history |= {"condition_number": [*kappas, None], "largest": [5.0] * end, "smallest": [0.1] * end}
    found = {"validation_accuracy": 0.5, "validation_loss": 0.1, "test_accuracy": 0.9, "diverged": diverged}
    found |= {"seconds_per_step": 0.01, "steps": 900, "learning_layers": cell.depth}
    found |= {"smallest_cosine": 0.5, "median_cosine": 0.6, "layers": 22, "official_data": False}
    return found if cell.validation else {**found, "history": history}


def made_up_record(figure, most_cells=None):
    """A result at the paper preset with made-up numbers, of at most so many cells in each stage."""
    config = figure.config("paper")
    finished = {}
    for _ in range(3):  # stage after stage
        cells = figure.cells(config, finished)[:most_cells]
        finished |= {cell: numbers(cell, diverged=getattr(cell, "method", "") == "sp") for cell in cells}
    progress = experiments.FigureProgress(finished, figure.cells(config, finished), {})
    return strict(experiments.figure_record(figure, "paper", config, progress))


@pytest.fixture
def saved(monkeypatch):
    """The figures that were saved."""
    found, save = [], plots.style.save
    monkeypatch.setattr(plots.style, "save", lambda figure, path: (found.append(figure), save(figure, path)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("slug", DRAWN.values())
def test_every_panel_of_a_whole_table_shows_something(slug, tmp_path, saved):
    figure = experiments.find_figure(slug).load()
    path = tmp_path / "figure.png"
    figure.plot(made_up_record(figure), path)
    (drawn,) = saved
    for panel in drawn.axes:
        assert panel.has_data(), panel.get_title()
        shown = [line for line in panel.lines if len(line.get_xdata())]
        assert shown or panel.images or panel.collections or panel.patches, panel.get_title()
    assert path.stat().st_size < plots.style.MAX_BYTES
    assert not covered(drawn)


RESULTS = sorted((Path(__file__).parents[2] / "results").glob("*.json"))
COVERED_BEFORE = ("cifar-20-epochs", "mupc-one-step-fashion", "theorems")
"""Results in which a legend once lay on a curve: these are drawn in the quick tests too."""


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=() if p.stem in COVERED_BEFORE else pytest.mark.slow) for p in RESULTS]
)
def test_no_legend_of_a_saved_result_lies_on_a_curve(path, tmp_path, saved):
    record = json.loads(path.read_text())
    experiments.find_figure(record["slug"]).load().plot(record, tmp_path / "figure.png")
    (drawn,) = saved
    assert not covered(drawn)


@pytest.mark.slow
@pytest.mark.parametrize("slug", DRAWN.values())
def test_a_partial_table_is_drawn(slug, tmp_path):
    figure = experiments.find_figure(slug).load()
    path = tmp_path / "figure.png"
    figure.plot(made_up_record(figure, most_cells=1), path)
    assert path.stat().st_size < plots.style.MAX_BYTES


def test_no_drawing_function_is_forgotten():
    assert DRAWN.keys() | DRAWN_ELSEWHERE == {name for name in vars(plots) if name.startswith("draw_")}
