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
from ._declaration import presets, protocol
from ._figure import Figure, Row, Table, by_slug, select
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


def _wide_plot(record: Row, path: Path) -> None:
    labels = {name: METHODS[name].label for name in record["config"]["methods"]}
    plots.draw_network_dynamics(record, path, labels, shown_layers(record["config"]["hidden_layers"]))


def _chain_figure(slug: str, parameterisation: str, *more: str) -> Figure:
    paper = ChainConfig("float64", protocol("activity-inits", *more), parameterisation)
    both = presets(paper, protocol=protocol("inference-quick", "activity-inits"), hidden_layers=16, seeds=5, beyond=8)
    plot = functools.partial(plots.draw_chain_dynamics, name=METHODS[parameterisation].label)
    return Figure(slug, both, _inference.chain_cells, _inference.run_chain, chain_claims, plot)


def _wide_figure(slug: str, activation: str) -> Figure:
    paper = WideConfig("float64", protocol("ffwd-lrs"), activation)
    both = presets(paper, "inference-quick", data="digits", width=32, hidden_layers=8, seeds=2)
    return Figure(slug, both, _inference.wide_cells, _inference.run_wide, wide_claims, _wide_plot)


FIGURES = by_slug(
    _chain_figure("sp-activity-inits", "sp", "sp-activity-inits"),
    _chain_figure("mupc-activity-inits", "mupc"),
    _wide_figure("mupc-vs-pc-ffwd-lrs", "linear"),
    _wide_figure("mupc-vs-pc-ffwd-relu-lrs", "relu"),
)
