"""The cost of figures: the formula by hand, and the page."""

import dataclasses
from pathlib import Path

import pytest

from mupc import experiments
from mupc.experiments import cost
from mupc.experiments._results import read_all

ROOT = Path(__file__).parents[2]


def cell(slug, **wanted):
    cells = cost.every_cell(experiments.find_figure(slug).load())
    return next(c for c in cells if all(getattr(c, name) == value for name, value in wanted.items()))


def test_times_between_the_measured_ones_lie_on_a_power_law():
    points = {8: 1.0, 32: 4.0, 128: 64.0}
    assert [cost.interpolate(points, h) for h in (8, 16, 32, 64, 128)] == pytest.approx([1, 2, 4, 16, 64])
    assert cost.interpolate(points, 256) == pytest.approx(256)
    assert cost.interpolate(points, 4) == pytest.approx(0.5)


def test_an_update_takes_what_was_measured_and_more_for_more_steps():
    deep = cell("fig1", method="mupc", depth=128)
    assert cost.update(deep) == pytest.approx(7.1e-3)
    assert cost.update(dataclasses.replace(deep, method="bp")) == pytest.approx(1.5e-3)
    one = cost.update(dataclasses.replace(deep, method="mupc-one-step"))
    assert one == pytest.approx(1.5e-3 + (7.1e-3 - 1.5e-3) / 128)
    assert cost.predicted([deep]) == pytest.approx(10 + 1 + 937 * 7.1e-3)


def test_condition_numbers_count_and_updates_of_seeds_that_go_together_count_once():
    run = cell("fig3", depth=8, validation=0.0)
    seeds = [dataclasses.replace(run, seed=seed) for seed in range(3)]
    updates = 937 * (0.15e-3 + 500 * 0.1e-3 / 8)
    assert cost.predicted(seeds) == pytest.approx(10 + 1 + updates + 3 * 11 * 0.3)


def test_runs_that_are_sure_to_diverge_are_counted_to_the_first_look():
    grid = [cell("fig5", width=512, depth=64, eta=0.1, beta=beta) for beta in (500.0, 10.0)]
    assert cost.predicted(grid) == pytest.approx(10 + 2 * 1 + (94 + 937) * 3.57e-3)


def test_figures_that_train_nothing_have_no_prediction():
    assert cost.predicted(cost.every_cell(experiments.find_figure("fig2").load())) is None


def test_tuned_runs_are_counted():
    """40 tuning runs fewer or more would show: three methods, five depths, three seeds; 9 rates of BP, 10 × 5 of SP."""
    assert len(cost.every_cell(experiments.find_figure("fig1").load())) == 45 + 9 + 50


def test_runs_that_figures_share_are_counted_once_in_the_sum_of_what_was_measured():
    """fig1 of 60 and 120 s; the other figure shares the second of them, and a third was on a CPU."""
    runs = [{"depth": 8, "seconds": 60.0}, {"depth": 16, "seconds": 120.0}, {"depth": 32, "seconds": 600.0}]

    def result(slug, device, *data):
        about = {"slug": slug, "preset": "paper", "device": device, "data": data, "cells": {"finished": len(data)}}
        return about | {"seconds": sum(row["seconds"] for row in data)}

    page = cost.table(
        [
            result("mupc-vs-pc-mnist-accs", "H200 (gpu)", *runs[:2]),
            result("mupc-vs-pc-all-activations", "H200 (gpu)", runs[1]),
            result("toy-ill-cond", "CPU", runs[2]),
        ]
    )
    assert [line.split("|")[4].strip() for line in page.splitlines() if "| all, " in line] == ["3.0"]


def test_the_page_names_every_figure_and_is_up_to_date():
    page = (ROOT / "docs" / "reproduction-cost.md").read_text(encoding="utf-8")
    assert sum(line.startswith("| `") for line in page.splitlines()) == 42
    made = cost.table(read_all(ROOT / "results"))
    assert page == made, "run python -m mupc.experiments.cost results docs/reproduction-cost.md"
