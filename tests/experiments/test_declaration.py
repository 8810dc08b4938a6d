"""What figure modules share: presets, cells over axes, captions, groups and fits."""

import dataclasses

import pytest

from mupc import experiments
from mupc.experiments._catalogue import CAPTIONS
from mupc.experiments._claims import MissingCellsError, fit_line, fit_power, require
from mupc.experiments._declaration import cells_over, presets
from mupc.experiments._figure import grouped


@dataclasses.dataclass(frozen=True)
class TableConfig(experiments.FigureConfig):
    width: int = 4
    rates: tuple[float, ...] = (0.1, 0.2)


@dataclasses.dataclass(frozen=True)
class TableCell(experiments.FigureCell):
    family = "table"
    words = "N={width} {name}, {rate:g}"

    name: str
    width: int
    rate: float
    seed: int = 7


def test_the_quick_preset_changes_only_what_it_says():
    both = presets(TableConfig("float64", ("As in the paper.",)), "small-check", width=2)
    assert both["paper"] == TableConfig("float64", ("As in the paper.",))
    assert both["quick"] == TableConfig("float64", ("A small check.", "As in the paper."), width=2)


def test_cells_are_products_of_axes_with_the_last_one_fastest():
    cells = cells_over(TableCell, TableConfig(), name=["a", "b"], rate=(0.1, 0.2))
    assert [(cell.name, cell.rate) for cell in cells] == [("a", 0.1), ("a", 0.2), ("b", 0.1), ("b", 0.2)]
    assert {(cell.width, cell.seed) for cell in cells} == {(4, 7)}  # the config's width, the cell's own seed
    assert cells_over(TableCell, TableConfig(), name="one value", rate=0.5, width=8)[0].label == "N=8 one value, 0.5"


def test_every_figure_has_a_caption_and_every_caption_a_figure():
    assert set(CAPTIONS) == set(experiments.CATALOGUE | experiments.BEYOND)


def test_rows_that_are_missing_are_named():
    assert require([1, 2], 2, "two") == [1, 2]
    for rows, count in (([1], 2), ([], 0)):
        with pytest.raises(MissingCellsError, match="two"):
            require(rows, count, "two")


def test_groups_keep_their_order():
    rows = [{"n": 2, "value": 1}, {"n": 1, "value": 2}, {"n": 2, "value": 3}]
    assert grouped(rows, "n") == {(2,): [rows[0], rows[2]], (1,): [rows[1]]}


def test_fits_of_lines_and_powers():
    assert fit_line([(0, 1), (1, 3), (2, 5)]) == pytest.approx((2, 1))
    assert fit_line([(0, 0), (1, 1), (2, 0)]) == pytest.approx((0, 0))
    assert fit_power([(2, 12), (4, 48), (8, 192)]) == pytest.approx((2, 1))
