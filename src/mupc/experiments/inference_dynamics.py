"""Where inference starts and how far it gets: two starts of a scalar chain, and forward starts of wide networks.

`sp-activity-inits`, `mupc-activity-inits`, `mupc-vs-pc-ffwd-lrs` and `mupc-vs-pc-ffwd-relu-lrs`; each takes a minute or
two on two CPU cores at the paper preset.
"""

from __future__ import annotations

import functools
import math
import statistics
from pathlib import Path

from .. import plots
from . import _inference
from ._claims import Claim, judge
from ._declaration import presets
from ._figure import Figure, Row, Table, select
from ._inference import STARTS, ChainConfig, WideConfig, checkpoints, shown_layers
from ._measuring import Finding, number, require
from ._methods import METHODS

FAR = 0.5
NEARER = 1 / 3


def chain_claims(config: ChainConfig, table: Table) -> list[Claim]:
    """Judge that H steps from the forward pass do not go half the way, at any step size, and report random starts."""

    def stays_far(rate: float) -> Finding:
        forward, random = (select(table, start=start, rate=rate) for start in STARTS)
        (row,) = require(forward, 1, f"forward start, β·λmax = {rate:g}")
        ratios, others = ([number(r) for one in rows for r in one["ratios"]] for rows in ([row], random))
        far = f"{sum(ratio > FAR for ratio in ratios)} of {len(ratios)} seeds above {FAR:.0%}"
        other = f"; N(0, 1) start: {statistics.median(others):.1%}" if others else ""
        median = statistics.median(ratios)
        return median > FAR, f"{median:.1%} of the start, {far}{other}"

    values = {"label": METHODS[config.parameterisation].label, "depth": config.hidden_layers, "limit": FAR}
    return [judge("stays-far-{rate:g}", stays_far, rate, rate=rate, **values) for rate in config.rates]


def wide_claims(config: WideConfig, table: Table) -> list[Claim]:
    """Judge that μPC's forward pass is nearer to the exact solution than SP's; or, where there is none, that inference
    moves it less."""
    end = checkpoints(config.hidden_layers, config.beyond).index(config.hidden_layers)

    def compared(share: float, curve: str, beta: int, step: int) -> Finding:
        def mean(method: str) -> float:
            rows = select(table, method=method, activation=config.activation)
            missing = f"{config.seeds - len(rows)} of {config.seeds} seeds of {METHODS[method].label}"
            return statistics.fmean(number(row[curve][beta][step]) for row in require(rows, config.seeds, missing))

        mupc, sp = mean("mupc"), mean("sp")
        told = f"μPC {mupc:.3g}, SP {sp:.3g}, ratio {mupc / sp if sp else math.nan:.3g}"
        return (mupc <= share * sp if share < 1 else mupc < sp), told

    if config.activation == "linear":
        return [judge("starts-nearer", compared, NEARER, "distance", 0, 0)]
    return [
        judge("moves-less-{beta:g}", compared, 1.0, "movement", place, end, beta=beta, depth=config.hidden_layers)
        for place, beta in enumerate(config.betas)
    ]


_PRECISION = "Everything is in float64, which the distances of deep SP networks need."
_CHAIN = (
    "64 hidden layers of width 1, linear, with skips for both parameterisations: the paper says that all experiments "
    "of this section used ResNets, and so does the authors' notebook. Weights N(0, 1), as in the theory figures.",
    "y = −x + ε with x ~ N(1, 1); the paper's ε ~ N(0, 0.5) has a standard deviation of 0.5, as in the authors' "
    "notebook. One sample per seed; the seed draws the weights, the sample and the random start. From the forward pass "
    "the relative distance is the same for every sample, as the output is a scalar and inference is linear.",
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


def _wide_plot(record: Row, path: Path) -> None:
    labels = {name: METHODS[name].label for name in record["config"]["methods"]}
    plots.draw_network_dynamics(record, path, labels, shown_layers(record["config"]["hidden_layers"]))


def _chain_figure(slug: str, parameterisation: str, *more: str) -> Figure:
    paper = ChainConfig("float64", (*_CHAIN, *more), parameterisation)
    both = presets(paper, protocol=(_QUICK, *_CHAIN), hidden_layers=16, seeds=5, beyond=8)
    plot = functools.partial(plots.draw_chain_dynamics, name=METHODS[parameterisation].label)
    return Figure(slug, both, _inference.chain_cells, _inference.run_chain, chain_claims, plot)


def _wide_figure(slug: str, activation: str) -> Figure:
    paper = WideConfig("float64", _WIDE, activation)
    both = presets(paper, _QUICK, data="digits", width=32, hidden_layers=8, seeds=2)
    return Figure(slug, both, _inference.wide_cells, _inference.run_wide, wide_claims, _wide_plot)


_ALL = [
    _chain_figure("sp-activity-inits", "sp", _SP_CHAIN),
    _chain_figure("mupc-activity-inits", "mupc"),
    _wide_figure("mupc-vs-pc-ffwd-lrs", "linear"),
    _wide_figure("mupc-vs-pc-ffwd-relu-lrs", "relu"),
]
FIGURES = {figure.slug: figure for figure in _ALL}
