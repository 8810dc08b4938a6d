"""Conditioning of inference at initialisation over width and depth: `fig2`, `fig4`, `max-min-eigens`,
`resnets-cond-nums-init`, and `condition-numbers`, which goes on to 512 layers of 512 units.

At the paper preset each takes about a quarter of an hour of computing on CPU cores; the table of a result has the
seconds of every network. Set OPENBLAS_NUM_THREADS=1 for the small networks.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from pathlib import Path

from .. import plots
from ._conditioning import CURVED, KINDS, POWERS, RANDOM, ConditionConfig, Measured, cells, run_cell
from ._figure import Claim, Figure, MissingCellsError, Row, Table, judge, report_only

WIDE, STABLE_WIDTH, STABLE = 8, 16, 2.0
WORSE = 10.0
SHALLOW = 8
RELU_DEPTHS = (2, 32)
LINE = 0.97
Outcome = tuple[bool, str]
Claims = Callable[[ConditionConfig, Table], list[Claim]]


def standard(config: ConditionConfig, table: Table) -> list[Claim]:
    """κ of standard networks grows, with depth more than with width."""
    measured = Measured(config, table)
    widths = tuple(width for width in config.widths if width >= WIDE)
    shallow, deep = RELU_DEPTHS

    def monotone() -> Outcome:
        lines = {n: [measured.kappa("sp", "linear", n, h) for h in config.depths] for n in widths}
        rising = all(low < high for line in lines.values() for low, high in itertools.pairwise(line))
        return rising, "; ".join(f"N={n}: {line[0]:.3g} → {line[-1]:.3g}" for n, line in lines.items())

    def steeper() -> Outcome:
        depth, width = measured.exponents("sp", "linear", widths)
        return depth > width, f"κ ∝ H^{depth:.2f} N^{width:.2f}"

    def relu() -> Outcome:
        pairs = {n: [measured.kappa("sp", "relu", n, h) for h in (shallow, deep)] for n in widths}
        return all(low < high for low, high in pairs.values()), _pairs(pairs)

    def tanh() -> str:
        found = measured.indefinite("sp", "tanh")
        total = len(config.widths) * len(config.depths)
        where = ", ".join(f"N={n} H={h}: {least:.2g}" for (n, h), least in found.items())
        return f"λmin < 0 in {len(found)} of {total} sizes" + (f" (least over seeds {where})" if found else "")

    return [
        judge(f"linear: κ grows with H at every N ≥ {WIDE}", "median over seeds monotone in H", monotone),
        judge("linear: depth worsens κ more than width", "log-log slope in H above that in N", steeper),
        judge("ReLU: deep networks are worse conditioned", f"κ(H={deep}) > κ(H={shallow}), N ≥ {WIDE}", relu),
        report_only("tanh: sign of the smallest eigenvalue for standard normal targets", "reported", tanh),
    ]


def extremes(config: ConditionConfig, table: Table) -> list[Claim]:
    """It is the smallest eigenvalue that drives κ."""
    measured = Measured(config, table)

    def falls() -> Outcome:
        lines = {
            n: [measured.median("smallest", "sp", "linear", n, h) for h in config.depths]
            for n in config.widths
            if n >= WIDE
        }
        falling = all(low > high for line in lines.values() for low, high in itertools.pairwise(line))
        return falling, "; ".join(f"N={n}: {line[0]:.3g} → {line[-1]:.3g}" for n, line in lines.items())

    def steady() -> Outcome:
        sizes = itertools.product((n for n in config.widths if n >= STABLE_WIDTH), config.depths)
        values = [measured.median("largest", "sp", "linear", n, h) for n, h in sizes]
        return max(values) < STABLE * min(values), f"λmax from {min(values):.2f} to {max(values):.2f}"

    return [
        judge(f"linear: λmin falls with H at every N ≥ {WIDE}", "median over seeds monotone in H", falls),
        judge(
            f"linear: λmax hardly changes for N ≥ {STABLE_WIDTH}", f"varies by less than {STABLE:g}× over N, H", steady
        ),
    ]


def trade_off(config: ConditionConfig, table: Table) -> list[Claim]:
    """Parameterisations with a stable forward pass condition inference badly, and worse with depth."""
    measured = Measured(config, table)
    width, deep = max(config.widths), max(config.depths)

    def growth(kind: str, activation: str, least: float) -> Outcome:
        pair = [measured.kappa(kind, activation, width, depth) for depth in (SHALLOW, deep)]
        told = f"{pair[1] / pair[0]:.3g}× ({pair[0]:.3g} → {pair[1]:.3g})"
        if activation in CURVED:
            worst = min(row["smallest"] for row in measured.rows(kind, activation, width, deep, RANDOM))
            told += f"; with a standard normal target λmin = {worst:.2g} at H={deep}"
        return pair[1] >= least * pair[0], told

    def grown(kind: str, activation: str) -> str:
        return growth(kind, activation, 0.0)[1]

    judged = [("mupc", activation) for activation in config.activations] + [("orthogonal", "linear")]
    others = [("orthogonal", activation) for activation in config.activations if activation != "linear"]
    what = f"κ(H={deep}) over κ(H={SHALLOW}) at N={width}"
    return [
        *(
            judge(
                f"{KINDS[kind].label}, {activation}: κ grows with depth",
                f"{what} ≥ {config.growth:g}",
                functools.partial(growth, kind, activation, config.growth),
            )
            for kind, activation in judged
        ),
        *(
            report_only(
                f"{KINDS[kind].label}, {activation}",
                f"{what}, reported",
                functools.partial(grown, kind, activation),
            )
            for kind, activation in others
        ),
    ]


def residual(config: ConditionConfig, table: Table) -> list[Claim]:
    """Skips make the standard parameterisation far worse."""
    measured = Measured(config, table)
    size = (max(config.widths), max(config.depths))

    def worse(activation: str) -> Outcome:
        with_skips, without = (measured.kappa(kind, activation, *size) for kind in ("sp-skips", "sp"))
        return with_skips >= WORSE * without, f"κ {_told_kappa(with_skips)} with skips, {_told_kappa(without)} without"

    return [
        judge(
            f"{activation}: skips make κ far larger",
            f"κ with skips ≥ {WORSE:g}× κ without at N={size[0]}, H={size[1]}",
            functools.partial(worse, activation),
        )
        for activation in config.activations
    ]


def power_laws(config: ConditionConfig, table: Table) -> list[Claim]:
    """κ is a power of the depth; which one is told for every width."""
    measured = Measured(config, table)

    def fits(kind: str) -> Outcome:
        found = {width: power_law(measured, kind, width) for width in config.widths if width >= WIDE}
        seconds = sum(row["seconds"] or 0.0 for row in table if row["kind"] == kind)
        told = ", ".join(f"N={width}: H^{slope:.2f} (R² {fit:.3f})" for width, (slope, fit) in found.items())
        return min(fit for _, fit in found.values()) >= LINE, f"{told}; {seconds:.0f} s in all"

    return [
        judge(
            f"{KINDS[kind].label}: κ is a power of H",
            f"R² ≥ {LINE:g} of log κ over log H from {SHALLOW} hidden layers on, for every N ≥ {WIDE}",
            functools.partial(fits, kind),
        )
        for kind in config.kinds
    ]


def power_law(measured: Measured, kind: str, width: int) -> tuple[float, float]:
    """The exponent of H in κ at one width, from eight layers on, and R² of the fit."""
    import numpy as np

    depths = [depth for depth in measured.config.depths if depth >= SHALLOW]
    logs = np.log([measured.kappa(kind, "linear", width, depth) for depth in depths])
    if not np.all(np.isfinite(logs)) or len(depths) < 3:
        raise MissingCellsError(f"{kind} N={width}: κ of at least three depths that float64 can tell")
    at = np.log(depths)
    slope, start = np.polyfit(at, logs, 1)
    return float(slope), 1 - float(np.var(logs - slope * at - start) / np.var(logs))


def _told_kappa(kappa: float) -> str:
    return "beyond float64 (over 1e12)" if kappa == math.inf else f"{kappa:.3g}"


def _pairs(pairs: dict[int, list[float]]) -> str:
    return ", ".join(f"N={n}: {low:.3g} → {high:.3g}" for n, (low, high) in pairs.items())


_PROTOCOL = (
    "One network per seed, input and output size N, SP weights N(0, 1/N), one standard normal sample; κ is the median "
    "over seeds. Nonlinear Hessians are those at the forward pass.",
    "The Hessian of tanh networks also depends on the output error, which the paper says nothing about: κ is that of a "
    "sample which the network predicts (no error); the sign of λmin is also told for a standard normal target.",
    "κ by Lanczos and a block-banded Cholesky factor in float64, which agrees with dense eigenvalues to 1e-6; λmin "
    "below rounding counts as zero (κ beyond about 1e12).",
)
_SLICES = (
    "Landscapes: one network per activation and depth, on a 30 × 30 grid over [−2, 2]² along the extreme eigenvectors "
    "of its own Hessian at the solution of the linear network with the same weights.",
)
_QUICK = ("A small check.", *_PROTOCOL)
_DEEP = "As deep as the paper's networks: of linear ones at N=H=32, skips make κ 5 to 8 times as large (three seeds)."
_SMALL = {"widths": (16, 64), "depths": (2, 8, 32), "precision": "float64", "protocol": _QUICK, "seeds": 1}


def _figure(
    slug: str,
    title: str,
    caption: str,
    drawing: plots.Drawing,
    claims: Claims,
    paper: ConditionConfig,
    quick: ConditionConfig,
) -> Figure:
    def plot(record: Row, path: Path) -> None:
        drawing(record, path, {kind: KINDS[kind].label for kind in record["config"]["kinds"]})

    return Figure(slug, title, caption, {"quick": quick, "paper": paper}, cells, run_cell, claims, plot)


def paper_config(**options: object) -> ConditionConfig:
    """The grid of the paper's figures."""
    return ConditionConfig(**{"precision": "float64", "protocol": _PROTOCOL} | options)  # type: ignore[arg-type]


def quick_config(**options: object) -> ConditionConfig:
    """A grid for seconds."""
    return ConditionConfig(**_SMALL | options)  # type: ignore[arg-type]


def _by_slug(figures: Iterable[Figure]) -> dict[str, Figure]:
    return {figure.slug: figure for figure in figures}


FIGURES = _by_slug(
    [
        _figure(
            "sp-cond-nums-init",
            "Conditioning of SP's inference at initialisation",
            "Condition number κ of the activity Hessian of standard networks without skips over width N and hidden "
            "layers H, and slices of the landscape along its extreme eigenvectors.",
            plots.draw_condition_grid,
            standard,
            paper_config(slices=(2, 32), protocol=_PROTOCOL + _SLICES),
            quick_config(slices=(2, 8), slice_width=8, protocol=_QUICK + _SLICES),
        ),
        _figure(
            "des-trade-off",
            "Stable forward pass against well-conditioned inference",
            "κ at initialisation for the two parameterisations whose forward pass is stable: μPC with skips and "
            "orthogonal weights without.",
            plots.draw_condition_grid,
            trade_off,
            paper_config(kinds=("mupc", "orthogonal")),
            quick_config(kinds=("mupc", "orthogonal"), growth=4.0),
        ),
        _figure(
            "max-min-eigens",
            "Extreme eigenvalues over width and depth",
            "The largest and the smallest eigenvalue of the activity Hessian of standard networks without skips.",
            plots.draw_extreme_eigenvalues,
            extremes,
            paper_config(),
            quick_config(),
        ),
        _figure(
            "resnets-cond-nums-init",
            "Conditioning of residual networks at initialisation",
            "As for networks without skips, for standard residual networks.",
            plots.draw_condition_grid,
            residual,
            paper_config(kinds=("sp-skips",), reference=("sp",), slices=(2, 32), protocol=_PROTOCOL + _SLICES),
            quick_config(
                kinds=("sp-skips",),
                reference=("sp",),
                widths=(8, 32),
                depths=(2, 8, 128),
                slices=(2, 8),
                slice_width=8,
                protocol=(*_QUICK, _DEEP, *_SLICES),
            ),
        ),
        _figure(
            "condition-numbers",
            "Conditioning of inference up to 512 layers of 512 units",
            "κ of linear networks at initialisation over hidden layers, with the power of H that fits it, and the time "
            "that one network took.",
            plots.draw_condition_powers,
            power_laws,
            paper_config(
                kinds=("sp", "mupc", "orthogonal"),
                activations=("linear",),
                widths=(*POWERS, 256, 512),
                depths=(*POWERS, 256, 512),
                seeds=1,
            ),
            quick_config(kinds=("sp", "mupc", "orthogonal"), activations=("linear",), depths=(8, 16, 32), seeds=3),
        ),
    ]
)
