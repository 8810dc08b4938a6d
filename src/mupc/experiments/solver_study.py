"""Inference solvers compared on Fashion-MNIST: what gradient descent leaves on the table, and error space gets.

At the paper preset both studies take about twenty minutes on one H200; the quick ones about a minute on two CPU cores.
"""

from __future__ import annotations

from .. import plots
from ._methods import ERROR_SPACE
from ._training import Rates, Thresholds
from .training import (
    ETA,
    FASHION_BETA,
    FASHION_ETA,
    HELD_OUT,
    QUICK_MUPC,
    TUNED_FASHION,
    paper_config,
    quick_config,
    training_figure,
)

SOLVER_ETA = (0.03, 0.01, 0.003, 0.001)
_STUDIES = (
    # the runs of `mupc-fashion-15-epochs` serve here too; they are read at ten epochs
    ("deep", 512, 128, Rates("mupc", (FASHION_ETA,), (FASHION_BETA,), epochs=15.0), TUNED_FASHION),
    ("small", 128, 32, Rates("mupc", ETA, (5.0, 1.0, 0.5)), f"μPC: η and β tuned {HELD_OUT}."),
)

_ALL = [
    training_figure(
        f"solvers-fashion-{name}",
        f"Inference solvers on Fashion-MNIST, {depth} layers of {width} units",
        "Gradient descent (μPC with as many steps as layers), error space at four output precisions λ, and BP: "
        "accuracy over training, and what a step costs.",
        plots.draw_solver_comparison,
        paper_config(
            "fashion-mnist",
            gd_protocol,
            f"Error space (one linearisation, two conjugate-gradient steps) and BP: η tuned {HELD_OUT}, for each λ by "
            "itself.",
            "Rates are chosen for one epoch and kept for ten. 'After e epochs' is the last evaluation until then; "
            "evaluations are 300 steps apart.",
            "The time per step is the median over intervals of 300 steps, evaluation not included.",
            depths=(depth,),
            widths=(width,),
            epochs=10.0,
            rates=(gd, *(Rates(method, eta=SOLVER_ETA) for method in ERROR_SPACE), Rates("bp", eta=SOLVER_ETA)),
            thresholds=Thresholds(solvers=True),
        ),
        quick_config(
            depths=(8,),
            rates=(
                QUICK_MUPC,
                *(Rates(method, eta=(0.03, 0.01)) for method in ERROR_SPACE),
                Rates("bp", eta=(0.03, 0.01)),
            ),
            thresholds=Thresholds(solvers=True),
        ),
    )
    for name, width, depth, gd, gd_protocol in _STUDIES
]

FIGURES = {figure.slug: figure for figure in _ALL}
