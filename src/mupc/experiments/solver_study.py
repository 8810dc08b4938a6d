"""Inference solvers compared on Fashion-MNIST: what gradient descent does not reach, and error space does.

At the paper preset both studies take about twenty minutes on one H200; the quick ones about a minute on two CPU cores.
"""

from __future__ import annotations

import dataclasses

from .. import plots
from . import training
from ._figure import Figure
from ._methods import ERROR_SPACE
from ._training import Rates, Thresholds
from .training import HELD_OUT, QUICK_MUPC, paper_config, quick_settings, training_figure

_PROTOCOL = (
    f"Error space (one linearisation, two conjugate-gradient steps) and BP: η tuned {HELD_OUT}, separately for each λ.",
    "Rates are chosen for one epoch and kept for ten. 'After e epochs' is the last evaluation until then; evaluations "
    "are 300 steps apart.",
    "The time per step is the median over intervals of 300 steps, evaluation not included.",
)


def _tuned(*eta: float) -> list[Rates]:
    return [Rates(method, eta) for method in (*ERROR_SPACE, "bp")]


def _figure(name: str, width: int, depth: int, gd: Rates, gd_protocol: str) -> Figure:
    protocol, rates = (gd_protocol, *_PROTOCOL), (gd, *_tuned(0.03, 0.01, 0.003, 0.001))
    sizes = {"depths": (depth,), "widths": (width,), "epochs": 10.0}
    return training_figure(
        f"solvers-fashion-{name}",
        plots.draw_solver_comparison,
        paper_config("fashion-mnist", protocol, rates, Thresholds(solvers=True), **sizes),
        quick_settings(depths=(8,), rates=(QUICK_MUPC, *_tuned(0.03, 0.01))),
    )


_ALL = (
    # the runs of `mupc-fashion-15-epochs` serve here too; they are read at ten epochs
    _figure("deep", 512, 128, dataclasses.replace(training.MUPC_FASHION, epochs=15.0), training.TUNED_FASHION),
    _figure("small", 128, 32, Rates("mupc", training.ETA, (5.0, 1.0, 0.5)), f"μPC: η and β tuned {HELD_OUT}."),
)
FIGURES = {figure.slug: figure for figure in _ALL}
