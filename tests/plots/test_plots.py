"""What figures show, read from their axes as they are saved."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from legends import covered
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mupc import plots
from mupc.plots import coordinates, credit_reach, landscape, learning_curve, spectrum, style, theorems

REACH = {
    "learning_layers": 2,
    "layers": 3,
    "regime": "shallow",
    "threshold": 1e-8,
    "entry_sizes": [1e-9, 1e-5, 1e-2],
    "backprop_sizes": [2e-3, 3e-3, 1e-2],
    "backprop_cosines": [0.2, 0.8, 1.0],
    "energy_shares": [0.01, 0.1, 0.89],
}
PAPER = Path(__file__).parents[2] / "results" / "theorems.json"


@pytest.fixture
def axes(monkeypatch):
    """The axes of every figure that is saved. No legend lies on a curve."""
    found = []
    save = style.save

    def keep(figure, path):
        found.extend(figure.axes)
        save(figure, path)
        assert not covered(figure)

    monkeypatch.setattr(style, "save", keep)
    return found


@pytest.mark.parametrize(("diverged", "said"), [(True, [learning_curve.EMPTY]), (False, [])])
def test_a_run_without_anything_to_draw(axes, tmp_path, diverged, said):
    """A panel without points says that the run diverged, if it did, and epochs begin at 0."""
    first = {"epoch": 0.0, "test_accuracy": 0.1, "diverged": False}
    last = {"epoch": 0.5, "train_loss": None, "test_accuracy": 0.1, "diverged": diverged}
    learning_curve.draw_learning_curve({"run": [first, last]}, tmp_path / "curve.png")
    left, right = axes
    assert [text.get_text() for text in left.texts] == said and not right.texts
    assert left.get_xlim() == right.get_xlim() == pytest.approx((0, 0.525))
    assert list(right.lines[0].get_xdata()) == ([0.0] if diverged else [0.0, 0.5])


def curve(falls, **more):
    """Records of five evaluations."""
    return [
        {"epoch": float(n), "train_loss": 0.5 * falls**n if n else None, "test_loss": 0.6 * falls**n, "diverged": False}
        | {name: value(n) for name, value in more.items()}
        for n in range(5)
    ]


def test_losses_and_accuracy_of_a_run(axes, tmp_path):
    records = curve(0.5, test_accuracy=lambda n: 1 - 0.9 * 0.3**n)
    learning_curve.draw_learning_curve({"run": records}, tmp_path / "curve.png", loss="mse")
    loss, accuracy = axes
    assert loss.get_ylabel() == "½ sum of squared errors" and accuracy.get_ylabel() == "test accuracy (%)"
    train, test = loss.lines[:2]
    np.testing.assert_allclose(train.get_ydata(), [0.25, 0.125, 0.0625, 0.03125])
    np.testing.assert_allclose(test.get_ydata(), [record["test_loss"] for record in records])
    assert (train.get_linestyle(), test.get_linestyle()) == ("-", "--")
    (legend,) = loss.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["run", "training", "test"]
    np.testing.assert_allclose(accuracy.lines[0].get_ydata(), [100 - 90 * 0.3**n for n in range(5)])


def test_the_error_of_a_regression_has_units(axes, tmp_path):
    records = curve(0.5, test_rmse=lambda n: 9000 / (n + 1), test_r2=lambda n: 0.1 * n)
    learning_curve.draw_learning_curve({"prices": records}, tmp_path / "curve.png", loss="huber")
    loss, error = axes
    assert loss.get_ylabel() == "huber" and error.get_ylabel() == "test RMSE (units of the target)"
    np.testing.assert_allclose(error.lines[0].get_ydata(), [9000, 4500, 3000, 2250, 1800])


def test_without_a_test_split_the_validation_split_is_drawn(axes, tmp_path):
    records = [{name.replace("test", "validation"): value for name, value in one.items()} for one in curve(0.9)]
    learning_curve.draw_learning_curve({"run": records}, tmp_path / "curve.png")
    (loss,) = axes  # neither an accuracy nor an error: one panel
    assert loss.get_ylabel() == "loss" and len(loss.lines[1].get_xdata()) == 5
    assert [text.get_text() for text in loss.figure.legends[0].get_texts()] == ["run", "training", "validation"]


@pytest.mark.parametrize("start", [10.0, 50.0, 90.0])
def test_96_and_97_are_apart_on_an_axis_of_accuracies(start):
    """By at least a twentieth of its height, however low the curve starts, and 100 % has a place."""
    figure = Figure(figsize=(3.6, 2.9))
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    left.plot([0, 1, 2], [start, 96, 97])
    right.plot([0, 1], [start, 98.5])
    style.accuracy_axis(left)
    figure.canvas.draw()
    heights = left.transData.transform([(0, value) for value in (start, 96, 97, 98.5, 100)])[:, 1]
    assert np.all(np.diff(heights) > 0) and np.all(np.isfinite(heights))
    assert heights[2] - heights[1] > 0.05 * left.bbox.height
    assert left.bbox.y0 < heights[0] and heights[3] < left.bbox.y1  # all curves fit, of both panels
    labels = sorted((label.get_window_extent() for label in left.get_yticklabels()), key=lambda box: box.y0)
    assert len(labels) > 2 and all(above.y0 >= below.y1 for below, above in itertools.pairwise(labels))


@pytest.mark.parametrize("inside", [True, False])
def test_a_legend_on_a_curve_is_found(inside):
    figure = Figure()
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    panel.plot([0, 1], [0, 1], label="line")
    panel.legend(loc="lower left" if inside else "lower right")
    assert covered(figure) == [": line"] * inside


@pytest.mark.parametrize(("ending", "begins"), [(".png", b"\x89PNG"), (".pdf", b"%PDF-"), (".svg", b"<?xml")])
def test_the_ending_chooses_the_format(tmp_path, ending, begins):
    files = [tmp_path / "new" / f"{name}{ending}" for name in ("one", "two")]
    for file in files:
        credit_reach.draw_credit_reach(REACH, file)
    one, two = (file.read_bytes() for file in files)
    assert one.startswith(begins) and one == two  # no date, no random names


def test_a_figure_of_another_format_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"r\.gif must end in \.png, \.pdf, \.svg"):
        credit_reach.draw_credit_reach(REACH, tmp_path / "r.gif")
    assert not list(tmp_path.iterdir())


def overlaps(axes):
    """Whether labels of the x axis, of small ticks too, run into each other."""
    shown = [label for minor in (False, True) for label in axes.get_xticklabels(minor) if label.get_text()]
    low, high = axes.bbox.x0 - 1, axes.bbox.x1 + 1
    boxes = sorted((box.x0, box.x1) for box in (label.get_window_extent() for label in shown))
    boxes = [(start, end) for start, end in boxes if low <= (start + end) / 2 <= high]
    assert len(boxes) > 1
    return any(end > start for (_, end), (start, _) in itertools.pairwise(boxes))


@pytest.mark.parametrize("widths", [None, (10, 160)])
def test_ticks_of_the_limit_to_backpropagation(axes, tmp_path, widths):
    """At the size of the paper, and over the little more than a decade of the quick preset."""
    record = json.loads(PAPER.read_text())
    if widths is not None:
        ends = [2 / width for width in widths]
        record["config"]["depths"] = [2]
        record["data"] = [
            {"parameterisation": "mupc", "depth": 2, "aspect": aspect, "gradient_distance": aspect} for aspect in ends
        ]
    theorems.draw_theorems(record, tmp_path / "theorems.png")
    assert not overlaps(axes[1])


@pytest.mark.parametrize("number", [1, 4, 13])
def test_eigenvalue_densities(axes, tmp_path, number):
    values = np.linspace(-1, 3, 50)
    one = {"label": "even", "values": values, "weights": np.full(50, 0.02), "exact": True}
    lumpy = one | {"label": "lumpy", "values": np.append(np.zeros(49), 9.0), "exact": False, "smallest": -1.0}
    law = {"label": "law", "values": values, "density": np.full(50, 0.25)}
    spectrum.draw_eigenvalue_densities([one, lumpy, *[one] * 11][:number], tmp_path / "new" / "s.png", laws=[law])
    titles = ["even", "lumpy, Lanczos", *["even"] * 10][: min(number, 12)]
    assert [panel.get_title() for panel in axes] == titles, "no more than twelve panels"
    lines = [[list(line.get_xdata()) for line in panel.lines[1:]] for panel in axes]
    assert lines[0] == [[-1, -1], [3, 3]] and axes[0].get_yscale() == "linear"
    assert axes[0].lines[0].get_label() == "law"
    if number > 1:
        assert lines[1] == [[-1, -1], [9, 9]], "the end that is known better than the nodes"
        assert axes[1].get_yscale() == "log", "49 of 50 values in one bin"


def test_nodes_of_a_quadrature_do_not_look_like_peaks():
    """Evenly spaced, ten of them for seven bins: an even density away from the ends."""
    nodes = np.linspace(0, 1, 86)
    heights, edges = spectrum.histogram(nodes, np.full(86, 1 / 86), False)
    assert np.sum(heights * np.diff(edges)) == pytest.approx(1)
    np.testing.assert_allclose(heights[4:-4], 85 / 86, rtol=2e-3)
    plain = np.histogram(nodes, spectrum.BINS, density=True)[0]
    np.testing.assert_allclose(spectrum.histogram(nodes, np.full(86, 1 / 86), True)[0], plain, rtol=1e-12)
    assert plain.max() > 1.3 * plain.min()


def test_condition_numbers_over_widths_and_without_any(axes, tmp_path):
    rows = [
        {"width": width, "hidden_layers": 2, "seeds": [{"condition_number": kappa}, {"condition_number": 9.0}]}
        for width, kappa in ((4, 3.0), (8, None), (16, float("nan")))
    ]
    rows.append({"width": 32, "hidden_layers": 2, "seeds": [{"condition_number": None}]})
    for number, chosen in enumerate((rows, rows[-1:])):
        spectrum.draw_condition_numbers(chosen, tmp_path / f"{number}.png")
    medians, none = (panel.lines[0] for panel in axes)
    assert (list(medians.get_xdata()), list(medians.get_ydata())) == ([4, 8, 16], [6, 9, 9])
    assert list(none.get_xdata()) == []
    assert [panel.get_yscale() for panel in axes] == ["log", "linear"]


def test_landscapes(axes, tmp_path):
    """With a path, with holes, and without any height."""
    axis = np.linspace(-1, 1, 11)
    bowl = 3 + axis[None, :] ** 2 + 9 * axis[:, None] ** 2
    holed = [[None if value > 12 else value for value in row] for row in bowl]
    options = {"titles": ["bowl", "holed", "flat"], "path_points": [[(1, 1), (0.5, -0.5)], None, None]}
    landscape.draw_landscape([bowl, holed, np.ones((11, 11))], axis, tmp_path / "l.png", **options, labels=("α", "β"))
    panels = {panel.get_title(): panel for panel in axes if panel.get_title()}
    assert list(panels) == ["bowl", "holed", "flat"]
    path, start = panels["bowl"].lines
    assert path.get_xydata().tolist() == [[1, 1], [0.5, -0.5]] and start.get_xydata().tolist() == [[1, 1]]
    assert not panels["holed"].lines and panels["flat"].get_xlabel() == "α"


def test_sizes_that_a_logarithmic_axis_cannot_show(axes, tmp_path):
    """Groups of layers with such sizes are named instead; layers are left out."""
    common = {"hidden_layers": 8, "seed": 0, "step": 0, "quantity": "errors"}
    rows = [{**common, "group": "last", "width": width, "size": size} for width, size in ((8, 0.0), (16, np.nan))]
    rows += [{**common, "group": "first", "width": width, "size": 0.5} for width in (8, 16)]
    coordinates.draw_coordinate_scaling(rows, "width", tmp_path / "scaling.png")
    coordinates.draw_layer_sizes([{"quantity": "errors", "layer": 1, "size": 0.0}], tmp_path / "layers.png")
    scaling, layers = axes
    assert [line.get_label() for line in scaling.lines] == ["first third"]
    assert "zero or not finite: last third" in [text.get_text() for text in scaling.texts]
    assert not layers.lines


@pytest.mark.filterwarnings("error")
def test_gradients_of_zero(axes, tmp_path):
    """Only the threshold has a place on a logarithmic axis."""
    empty = {"learning_layers": 0, "layers": 3, "regime": "shallow", "threshold": 1e-8}
    sizes = {"backprop_sizes": [0.0] * 3, "entry_sizes": [0.0] * 3}
    unknown = {"backprop_cosines": [None] * 3, "energy_shares": [None] * 3}
    credit_reach.draw_credit_reach(empty | sizes | unknown, tmp_path / "reach.png")
    bp, pc, needed = axes[0].lines
    assert np.all(np.isnan(bp.get_ydata())) and np.all(np.isnan(pc.get_ydata()))
    assert list(needed.get_ydata()) == [1e-8, 1e-8]
    assert axes[0].get_ylim() == pytest.approx((5e-9, 2e-8))


WIDTHS, RATES = (8, 16, 32), (0.01, 0.1, 1.0)
ROWS = [
    {"width": n, "hidden_layers": 4, "seed": seed, "step": step, "quantity": quantity, "group": group, "size": n / 8}
    for n, seed, step in itertools.product(WIDTHS, (0, 1), (0, 3))
    for quantity, group in itertools.product(("activities", "errors"), ("input", "last"))
]
CELLS = [
    {"settings": {"weight_lr": a, "activity_lr": b, "seed": 0}, "value": 1 / a + b} | {"weight_lr": a, "loss": a / b}
    | {"activity_lr": b} for a in RATES for b in RATES
]  # fmt: skip
TIMES = {"times": {"mupc": {"median_s": 1e-3, "memory_bytes": 2**20}, "backprop": {"median_s": 2e-3}}}
BENCH = [{"workload": "gd", "hidden_layers": 4, "width": n, "batch_size": 64, "steps": 4} | TIMES for n in WIDTHS]
KAPPAS = [
    {"width": n, "hidden_layers": h, "seeds": [{"condition_number": float(n * h)}]} for n in WIDTHS for h in (2, 4, 8)
]
EVEN = {"label": "even", "values": np.linspace(0, 4, 50), "weights": np.full(50, 0.02), "exact": True}
PANEL = {"title": "small", "cells": CELLS, "marks": [("chosen", (0.1, 0.1)), ("best", (1.0, 1.0))]}


@pytest.mark.parametrize(
    "draw",
    [
        lambda path: plots.draw_credit_reach(REACH, path),
        lambda path: plots.draw_coordinate_scaling(ROWS, "width", path, {(0, "activities", "last"): 0.0}),
        lambda path: plots.draw_layer_sizes([{"quantity": "errors", "layer": n, "size": n} for n in WIDTHS], path),
        lambda path: plots.draw_sweep_contour(CELLS, path),
        lambda path: plots.draw_sweep_lines(CELLS, path, "weight_lr"),
        lambda path: plots.draw_transfer([PANEL, PANEL], path),
        lambda path: plots.draw_performance(BENCH, path),
        lambda path: plots.draw_condition_numbers(KAPPAS, path),
        lambda path: plots.draw_eigenvalue_densities([EVEN] * 5, path),
        lambda path: plots.draw_learning_curve({name: curve(0.9) for name in ("a", "b", "c")}, path),
    ],
)
def test_no_legend_of_a_command_lies_on_a_curve(axes, tmp_path, draw):
    draw(tmp_path / "figure.png")
    assert axes and all(panel.has_data() or panel.images for panel in axes)
