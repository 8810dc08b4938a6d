"""Inference solvers compared on Fashion-MNIST: what gradient descent does not reach, and error space does.

At the paper preset both studies take about twenty minutes on one H200; the quick ones about a minute on two CPU cores.
"""

from __future__ import annotations

import dataclasses

from .. import plots
from . import training
from ._figure import Figure, by_slug
from ._methods import ERROR_SPACE
from ._training import Rates, Thresholds
from .training import QUICK_MUPC, paper_config, quick_settings, training_figure


def _tuned(*eta: float) -> list[Rates]:
    return [Rates(method, eta) for method in (*ERROR_SPACE, "bp")]


def _figure(name: str, width: int, depth: int, gd: Rates, rates_from: str) -> Figure:
    rates = (gd, *_tuned(0.03, 0.01, 0.003, 0.001))
    sizes = {"depths": (depth,), "widths": (width,), "epochs": 10.0}
    return training_figure(
        f"solvers-fashion-{name}",
        plots.draw_solver_comparison,
        paper_config("fashion-mnist", (rates_from, "solvers-fashion"), rates, Thresholds(solvers=True), **sizes),
        quick_settings(depths=(8,), rates=(QUICK_MUPC, *_tuned(0.03, 0.01))),
    )


FIGURES = by_slug(
    # the runs of `mupc-fashion-15-epochs` serve here too; they are read at ten epochs
    _figure("deep", 512, 128, dataclasses.replace(training.MUPC_FASHION, epochs=15.0), "mupc-fashion"),
    _figure("small", 128, 32, Rates("mupc", training.ETA, (5.0, 1.0, 0.5)), "solvers-fashion-small"),
)
