"""The figures that train networks: accuracy over depth, width and epochs, and inference solvers compared.

The paper presets need an accelerator and the data sets; the quick presets take about a minute each on two CPU cores.
"""

import dataclasses
from collections.abc import Mapping

from .. import plots
from ._declaration import presets, protocol
from ._figure import Figure, by_slug
from ._methods import ERROR_SPACE, METHODS
from ._training import Rates, Thresholds, TrainingConfig, cells, run_cell
from ._training_claims import claims

ETA = (0.5, 0.1, 0.05, 0.01)
BP_ETA = (1.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001, 0.0005, 0.0001)

MUPC = Rates("mupc", eta=(0.1,), beta=(0.5,))
MUPC_FASHION = Rates("mupc", eta=(0.1,), beta=(1.0,))
MUPC_TUNED = Rates("mupc", eta=ETA, beta=(10.0, 5.0, 1.0, 0.5, 0.1), tune_depth=8)
BP = Rates("bp", eta=BP_ETA, tune_depth=8)
SP_GRID = ((0.1, 0.01), (100.0, 10.0, 1.0, 0.1, 0.01))
_SP = Rates("sp", *SP_GRID)


COMMON = ("training", "training-precision")
"""The sections that the protocols of all training runs share."""

QUICK_MUPC = Rates("mupc", eta=(0.05,), beta=(16.0,))
_QUICK_BP = Rates("bp", eta=(0.05,))
_QUICK_SP = Rates("sp", eta=(0.01,), beta=(16.0,))
ACTIVATIONS = ("relu", "tanh", "linear")
LABELS = {name: method.label for name, method in METHODS.items()}


def paper_config(
    data: str, names: tuple[str, ...], rates: tuple[Rates, ...], thresholds: Thresholds, **sizes: object
) -> TrainingConfig:
    """Return a paper preset: bfloat16 products, and the protocol of these sections and of all training runs."""
    shared = {"rates": rates, "thresholds": thresholds}
    return TrainingConfig("bf16", protocol(*names, *COMMON), data, **shared, **sizes)  # type: ignore[arg-type]


def quick_settings(*names: str, **changes: object) -> dict[str, object]:
    """Return what a quick preset changes: small networks on digits."""
    networks = {"data": "digits", "widths": (32,), "evaluate_every": 22, "epochs": 3.0, "seeds": 2}
    return {"precision": "float32", "protocol": protocol("digits", *names, "training")} | networks | changes


def training_figure(slug: str, draw: plots.Drawing, paper: TrainingConfig, quick: Mapping[str, object]) -> Figure:
    """Return a figure of training runs."""
    return Figure(
        slug, presets(paper, **quick), cells, run_cell, claims, lambda record, path: draw(record, path, LABELS)
    )


def _solvers(name: str, width: int, depth: int, gd: Rates, rates_from: str) -> Figure:
    rates = (gd, *_tuned(0.03, 0.01, 0.003, 0.001))
    sizes = {"depths": (depth,), "widths": (width,), "epochs": 10.0}
    return training_figure(
        f"solvers-fashion-{name}",
        plots.draw_solver_comparison,
        paper_config("fashion-mnist", (rates_from, "solvers-fashion"), rates, Thresholds(solvers=True), **sizes),
        quick_settings(depths=(8,), rates=(QUICK_MUPC, *_tuned(0.03, 0.01))),
    )


def _tuned(*eta: float) -> list[Rates]:
    return [Rates(method, eta) for method in (*ERROR_SPACE, "bp")]


_FIXED, _TRANSFERRED = ("mupc-fixed", "bp-tuned"), ("mupc-transferred", "bp-tuned")
_FIG1 = paper_config(
    "mnist",
    (*_FIXED, "sp-tuned"),
    (MUPC, BP, _SP),
    Thresholds(lowest=95.0, spread=1.5, below_mupc=20.0, near_bp=2.0),
)
_SMALL_TUNED = Rates("mupc", eta=(0.1, 0.05), beta=(16.0, 8.0), tune_depth=4)
_SMALL_LONG = {"depths": (16,), "epochs": 8.0, "tune_epochs": 2.0, "rates": (_SMALL_TUNED, _QUICK_BP)}
FIGURES = by_slug(
    training_figure(
        "mupc-vs-pc-mnist-accs",
        plots.draw_accuracy_over_depth,
        _FIG1,
        quick_settings(
            "mupc-vs-pc-mnist-accs-quick",
            depths=(4, 32),
            rates=(QUICK_MUPC, _QUICK_BP, _QUICK_SP),
            thresholds=Thresholds(lowest=80.0, spread=10.0, below_mupc=20.0, near_bp=10.0),
        ),
    ),
    training_figure(
        "mupc-vs-pc-all-activations",
        plots.draw_accuracy_over_depth,
        dataclasses.replace(
            _FIG1, activations=ACTIVATIONS, thresholds=Thresholds(95.0, lowest_linear=80.0, spread=1.5)
        ),
        quick_settings(depths=(4, 16), seeds=1, rates=(QUICK_MUPC,), thresholds=Thresholds(80.0, spread=10.0)),
    ),
    training_figure(
        "mupc-mnist-5-epochs",
        plots.draw_accuracy_over_epochs,
        paper_config("mnist", _FIXED, (MUPC, BP), Thresholds(mean=(97.5, 98.5)), depths=(128,), epochs=5.0, seeds=5),
        quick_settings(
            depths=(32,), epochs=8.0, rates=(QUICK_MUPC, _QUICK_BP), thresholds=Thresholds(mean=(88.0, 100.0))
        ),
    ),
    training_figure(
        "mupc-fashion-15-epochs",
        plots.draw_accuracy_over_epochs,
        paper_config(
            "fashion-mnist", _TRANSFERRED, (MUPC_TUNED, BP), Thresholds(best=88.5), depths=(128,), epochs=15.0
        ),
        quick_settings("digits-for-fashion", **_SMALL_LONG),
    ),
    training_figure(
        "wider-is-better-mnist",
        plots.draw_accuracy_over_width,
        paper_config(
            "mnist", _FIXED[:1], (MUPC,), Thresholds(wider=1.0), depths=(8,), widths=(64, 128, 256, 512, 1024)
        ),
        quick_settings(depths=(4,), widths=(16, 32, 64), seeds=3, rates=(QUICK_MUPC,)),
    ),
    training_figure(
        "sp-smaller-rates",
        plots.draw_accuracy_over_depth,
        paper_config(
            "mnist",
            ("mupc-fixed", "sp-smaller-rates"),
            (MUPC, Rates("sp", eta=(0.01, 0.001, 0.0001), beta=(1.0, 0.1, 0.01))),
            Thresholds(below_mupc=20.0),
            activations=ACTIVATIONS,
        ),
        quick_settings(
            "sp-smaller-rates-quick",
            activations=("relu",),
            depths=(4, 32),
            seeds=1,
            rates=(QUICK_MUPC, Rates("sp", eta=(0.01, 0.001), beta=(16.0, 1.0))),
        ),
    ),
    # the runs of `mupc-fashion-15-epochs` serve here too; they are read at ten epochs
    _solvers("deep", 512, 128, dataclasses.replace(MUPC_FASHION, epochs=15.0), "mupc-fashion"),
    _solvers("small", 128, 32, Rates("mupc", ETA, (5.0, 1.0, 0.5)), "solvers-fashion-small"),
)
