"""What figures show, read from their axes as they are saved."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

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
    """The axes of every figure that is saved."""
    found = []
    save = style.save

    def keep(figure, path):
        found.extend(figure.axes)
        return save(figure, path)

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
