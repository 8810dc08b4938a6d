"""What figures show, read from their axes as they are saved."""

import itertools
import json
from pathlib import Path

import pytest

from mupc.plots import learning_curve, style, theorems

PAPER = Path(__file__).parents[1] / "results" / "theorems.json"


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
