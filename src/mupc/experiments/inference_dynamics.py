"""Where inference starts and how far it gets: two starts of a scalar chain, and forward starts of wide networks.

`sp-activity-inits`, `mupc-activity-inits`, `mupc-vs-pc-ffwd-lrs` and `mupc-vs-pc-ffwd-relu-lrs`; each takes a minute or
two on two CPU cores at the paper preset.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._figure import Claim, Figure, MissingCellsError, Row, Table, judge, select
from ._inference import (
    STARTS,
    ChainConfig,
    WideConfig,
    chain_cells,
    checkpoints,
    run_chain,
    run_wide,
    shown_layers,
    wide_cells,
)
from ._methods import METHODS

FAR = 0.5
NEARER = 1 / 3


def chain_claims(config: ChainConfig, table: Table) -> list[Claim]:
    """From the forward pass H steps do not go half the way, at any step size. Random starts are reported beside it."""

    def stays_far(rate: float) -> Callable[[], tuple[bool, str]]:
        def measure() -> tuple[bool, str]:
            rows = {start: select(table, start=start, rate=rate) for start in STARTS}
            if not rows["forward"]:
                raise MissingCellsError(f"forward start, β·λmax = {rate:g}")
            ratios = [_number(ratio) for ratio in rows["forward"][0]["ratios"]]
            median = statistics.median(ratios)
            far = f"{sum(ratio > FAR for ratio in ratios)} of {len(ratios)} seeds above {FAR:.0%}"
            beside = [_number(ratio) for row in rows["random"] for ratio in row["ratios"]]
            other = f"; N(0, 1) start: {statistics.median(beside):.1%}" if beside else ""
            return median > FAR, f"{median:.1%} of the start, {far}{other}"

        return measure

    name = METHODS[config.parameterisation].label
    expected = f"median distance to the exact solution > {FAR:.0%} of its start"
    text = f"{name}, forward start: inference of T = H = {config.hidden_layers} steps stays far, β·λmax = "
    return [judge(f"{text}{rate:g}", expected, stays_far(rate)) for rate in config.rates]


def wide_claims(config: WideConfig, table: Table) -> list[Claim]:
    """μPC's forward pass is nearer to the exact solution than SP's; where there is none, inference moves it less."""
    end = checkpoints(config.hidden_layers, config.beyond).index(config.hidden_layers)

    def mean(method: str, values: Callable[[Row], Any]) -> float:
        rows = select(table, method=method, activation=config.activation)
        if len(rows) < config.seeds:
            raise MissingCellsError(f"{config.seeds - len(rows)} of {config.seeds} seeds of {METHODS[method].label}")
        return statistics.fmean(_number(values(row)) for row in rows)

    def starts_nearer() -> tuple[bool, str]:
        mupc, sp = (mean(method, lambda row: row["distance"][0][0]) for method in ("mupc", "sp"))
        return mupc <= NEARER * sp, f"μPC {mupc:.3g}, SP {sp:.3g}, ratio {_ratio(mupc, sp):.3g}"

    def moves_less(place: int) -> Callable[[], tuple[bool, str]]:
        def measure() -> tuple[bool, str]:
            mupc, sp = (mean(method, lambda row: row["movement"][place][end]) for method in ("mupc", "sp"))
            return mupc < sp, f"μPC {mupc:.3g}, SP {sp:.3g}, ratio {_ratio(mupc, sp):.3g}"

        return measure

    if config.activation == "linear":
        claim = "μPC's forward pass is nearer to the exact solution than SP's"
        return [judge(claim, "‖z_fwd − z*‖/‖z*‖ of μPC ≤ 1/3 of SP's, mean over seeds", starts_nearer)]
    text = f"inference of T = H = {config.hidden_layers} steps moves μPC's activities less than SP's, β = "
    expected = "‖z_T − z_fwd‖/‖z_fwd‖ of μPC below SP's, mean over seeds"
    return [judge(f"{text}{beta:g}", expected, moves_less(place)) for place, beta in enumerate(config.betas)]


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _number(value: float | None) -> float:
    """A saved number, in which None stands for one that was not finite."""
    return math.inf if value is None else float(value)


_PRECISION = "All in float64, as the distances of deep SP networks want it."
_CHAIN = (
    "64 hidden layers of width 1, linear, with skips for both parameterisations: the paper says that all experiments "
    "of this section used ResNets, and so does the authors' notebook. Weights N(0, 1), as in the theory figures.",
    "y = −x + ε with x ~ N(1, 1); the paper's ε ~ N(0, 0.5) has a standard deviation of 0.5, as in the authors' "
    "notebook. One sample per seed, which draws weights, sample and random start anew: from the forward pass the "
    "relative distance is the same for every sample, as the output is a scalar and inference linear.",
    "The step size is set by λmax of each network's activity Hessian, a dense 64×64 matrix, and acts on one sample's "
    "energy; the paper's β acts on a batch mean and is not given.",
    "z* is the exact solution by elimination. The claim is judged after T = H steps; the picture goes on to 16 H.",
    _PRECISION,
)
_SP_CHAIN = (
    "The verdict rests on skips and Gaussian weights: in a side check of 20 seeds the median was 17 % at β·λmax = 1 "
    "without skips, and 47 % at 1.9 with skips and weights U(±1)."
)
_WIDE = (
    "16 hidden layers with skips, N=128, MNIST inputs and one-hot targets, at initialisation; SP weights "
    "U(±1/√fan_in), as networks start training. A seed draws the weights and 64 training samples.",
    "Plain gradient descent from the forward pass; β of the paper's grid acts on a batch mean of 64 samples, so the "
    "step of one sample is β/64. The paper does not say which β it drew; the largest here is stable for both.",
    "Norms in ratios are over all layers and samples; norms in the figure are those of a layer, mean over samples. "
    "T = H = 16 steps are judged, the picture goes on to 4 H.",
    _PRECISION,
)
_QUICK = "A small check with smaller networks: not a reproduction."


def _chain_plot(record: Row, path: Path) -> None:
    from ..plots import draw_chain_dynamics

    draw_chain_dynamics(record, path, METHODS[record["config"]["parameterisation"]].label)


def _wide_plot(record: Row, path: Path) -> None:
    from ..plots import draw_network_dynamics

    labels = {name: METHODS[name].label for name in record["config"]["methods"]}
    draw_network_dynamics(record, path, labels, shown_layers(record["config"]["hidden_layers"]))


def _chain_figure(slug: str, title: str, caption: str, parameterisation: str, *more: str) -> Figure:
    paper = ChainConfig("float64", (*_CHAIN, *more), parameterisation)
    quick = ChainConfig("float64", (_QUICK, *_CHAIN), parameterisation, hidden_layers=16, seeds=5, beyond=8)
    presets = {"quick": quick, "paper": paper}
    return Figure(slug, title, caption, presets, chain_cells, run_chain, chain_claims, _chain_plot)


def _wide_figure(slug: str, title: str, caption: str, activation: str) -> Figure:
    paper = WideConfig("float64", _WIDE, activation)
    small = {"data": "digits", "width": 32, "hidden_layers": 8, "seeds": 2}
    quick = WideConfig("float64", (_QUICK, *_WIDE), activation, **small)  # type: ignore[arg-type]
    presets = {"quick": quick, "paper": paper}
    return Figure(slug, title, caption, presets, wide_cells, run_wide, wide_claims, _wide_plot)


_ALL = [
    _chain_figure(
        "sp-activity-inits",
        "Inference in a scalar chain from two starts, SP",
        "Distance to the exact solution over gradient descent on the activities of 64-layer scalar residual networks, "
        "and the activities of one of them. Ill-conditioning keeps H steps from getting far at any stable step size.",
        "sp",
        _SP_CHAIN,
    ),
    _chain_figure(
        "mupc-activity-inits",
        "Inference in a scalar chain from two starts, μPC",
        "The chains of sp-activity-inits with μPC: a stable forward pass, and inference that is as slow.",
        "mupc",
    ),
    _wide_figure(
        "mupc-vs-pc-ffwd-lrs",
        "Activity norms over inference, linear",
        "ℓ2 norms of the activities of 16-layer linear residual networks over inference from the forward pass, and "
        "how far they are from the exact solution. μPC's forward pass is closer to it than SP's.",
        "linear",
    ),
    _wide_figure(
        "mupc-vs-pc-ffwd-relu-lrs",
        "Activity norms over inference, ReLU",
        "ℓ2 norms of the activities of 16-layer ReLU residual networks over inference from the forward pass, and how "
        "far they move from it. μPC's move less than SP's.",
        "relu",
    ),
]

FIGURES = {figure.slug: figure for figure in _ALL}
