"""Spectra of the activity Hessian and of its parts at initialisation: `d-eigens-n`, `d-eigens-h`, `o-eigens-n`, …

`-n` holds the width at N = 128 and varies the depth, `-h` holds the depth at H = 128 and varies the width. The largest
matrix has 16,384 rows: four seconds on one H200, minutes on a CPU.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from ._figure import (
    Claim,
    Figure,
    FigureCell,
    FigureConfig,
    Finished,
    MissingCellsError,
    Row,
    RunContext,
    Table,
    judge,
    select,
)

HELD, SIZES = 128, (2, 8, 16, 32, 64, 128)
WIDE, DEEP = 64, 16
BULK, NEAR, SAME = (1.0, 5.0), 0.12, 0.05
EDGE, SYMMETRIC = (2.6, 3.0), 1e-6
BOUND = 7.35
LEVELS = 1001


@dataclasses.dataclass(frozen=True)
class Normalisation:
    """Both give a·W the variance 1/N: a large multiplier or large weights."""

    label: str
    parameterisation: str


NORMALISATIONS = {
    "weights": Normalisation(r"$a = 1,\ b = 1/N$", "sp"),
    "multipliers": Normalisation(r"$a = 1/\sqrt{N},\ b = 1$", "ntp"),
}


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the Hessian, as `mupc.theory.spectrum` names it."""

    symbol: str
    part: str
    text: str


PARTS = {
    "d": Part("D", "diagonal", "Hessian's block diagonal"),
    "o": Part("O", "off-diagonal", "Hessian's off-diagonal part"),
    "h": Part("H", "whole", "activity Hessian"),
}


@dataclasses.dataclass(frozen=True)
class SpectrumConfig(FigureConfig):
    """Linear networks without skips of every width and depth; one of the two is held."""

    part: str = "h"
    widths: tuple[int, ...] = SIZES
    depths: tuple[int, ...] = SIZES
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class SpectrumCell(FigureCell):
    """The spectrum of one part of one network's Hessian."""

    family: ClassVar[str] = "spectra"
    version: ClassVar[int] = 2

    part: str
    normalisation: str
    width: int
    depth: int
    seed: int

    @property
    def label(self) -> str:
        return f"{PARTS[self.part].symbol} {self.normalisation} N={self.width} H={self.depth}"


def cells(config: SpectrumConfig, finished: Finished) -> list[FigureCell]:
    """Small networks first."""
    sizes = itertools.product(config.widths, config.depths)
    return [
        SpectrumCell(config.part, normalisation, width, depth, config.seed)
        for width, depth in sorted(sizes, key=lambda size: size[0] * size[1])
        for normalisation in NORMALISATIONS
    ]


def run_cell(cell: SpectrumCell, context: RunContext) -> Row:
    """The quantiles of all eigenvalues at even levels, of which the first and the last are the extremes; and how far
    the eigenvalues are from their mirror image."""
    import jax
    import jax.random as jr
    import numpy as np

    from .. import theory
    from ..network import Network

    with jax.enable_x64(True):
        network = Network(
            cell.width,
            cell.width,
            width=cell.width,
            hidden_layers=cell.depth,
            activation="linear",
            parameterisation=NORMALISATIONS[cell.normalisation].parameterisation,
            skip=0,
            key=jr.fold_in(jr.key(cell.seed), list(NORMALISATIONS).index(cell.normalisation)),
        )
        found = theory.spectrum(network, part=PARTS[cell.part].part, method="exact")
    return {
        "quantiles": found.quantiles(np.linspace(0, 1, LEVELS)).tolist(),
        "asymmetry": float(np.max(np.abs(found.values + found.values[::-1]))),
        "size": found.size,
    }


def claims(config: SpectrumConfig, table: Table) -> list[Claim]:
    """What random matrix theory says of each part."""

    def where(wide: int = WIDE, deep: int = 1) -> Table:
        rows = [row for row in table if row["width"] >= wide and row["depth"] >= deep]
        sizes = [
            size for size in itertools.product(config.widths, config.depths) if size[0] >= wide and size[1] >= deep
        ]
        if len(rows) < len(sizes) * len(NORMALISATIONS) or not rows:
            raise MissingCellsError(f"{PARTS[config.part].symbol} for N ≥ {wide}, H ≥ {deep}")
        return rows

    rules = [rule for rule in RULES[config.part] if rule[2] is not _depthless or len(config.depths) > 1]
    return [judge(text, expected, functools.partial(measure, config, where)) for text, expected, measure in rules]


Where = Callable[..., Table]
Outcome = tuple[bool, str]


def _bulk(config: SpectrumConfig, where: Where) -> Outcome:
    rows = where()
    lows, highs = ([row["quantiles"][end] for row in rows] for end in (0, -1))
    near = all(abs(value / BULK[end] - 1) <= NEAR for end, values in enumerate((lows, highs)) for value in values)
    return near, f"smallest {min(lows):.3f} to {max(lows):.3f}, largest {min(highs):.3f} to {max(highs):.3f}"


def _depthless(config: SpectrumConfig, where: Where) -> Outcome:
    ends = (8, max(config.depths))
    found = {}
    for name in NORMALISATIONS:
        pair = [select(where(), normalisation=name, depth=depth)[0]["quantiles"] for depth in ends]
        found[name] = distance(*pair)
    told = ", ".join(f"{value:.3f} ({name})" for name, value in found.items())
    return max(found.values()) < SAME, f"H={ends[0]} to H={ends[1]}: {told}"


def _symmetric(config: SpectrumConfig, where: Where) -> Outcome:
    worst = max(row["asymmetry"] for row in where(1))
    return worst < SYMMETRIC, f"eigenvalues are within {worst:.1g} of their mirror image"


def _edge(config: SpectrumConfig, where: Where) -> Outcome:
    edges = [row["quantiles"][-1] for row in where(WIDE, DEEP)]
    return min(edges) >= EDGE[0] and max(edges) <= EDGE[1], f"{min(edges):.3f} to {max(edges):.3f}"


def _positive(config: SpectrumConfig, where: Where) -> Outcome:
    least = min(where(1), key=lambda row: row["quantiles"][0])
    return least["quantiles"][0] > 0, f"least {least['quantiles'][0]:.2g} at N={least['width']}, H={least['depth']}"


def _bounded(config: SpectrumConfig, where: Where) -> Outcome:
    highs = [row["quantiles"][-1] for row in where()]
    return max(highs) <= BOUND, f"{min(highs):.3f} to {max(highs):.3f}"


RULES = {
    "d": (
        (
            "the extremes are those of the shifted Marchenko–Pastur law",
            f"within {NEAR:.0%} of 1 and 5, N ≥ {WIDE}",
            _bulk,
        ),
        ("the spectrum of D does not depend on depth", f"Kolmogorov–Smirnov distance < {SAME:g}", _depthless),
    ),
    "o": (
        (
            "the spectrum of O is symmetric about 0",
            f"every eigenvalue has its negative, within {SYMMETRIC:g}",
            _symmetric,
        ),
        (
            "O is slightly broader than the semicircle",
            f"edge in [{EDGE[0]:g}, {EDGE[1]:g}] for H ≥ {DEEP}, N ≥ {WIDE} (semicircle: 2)",
            _edge,
        ),
    ),
    "h": (
        ("every eigenvalue is positive", "> 0 at every size", _positive),
        ("the largest eigenvalue is bounded", f"λmax ≤ {BOUND:g} for N ≥ {WIDE}", _bounded),
    ),
}


def distance(first: list[float], second: list[float]) -> float:
    """The Kolmogorov–Smirnov distance between two distributions, from quantiles at the same even levels."""
    from scipy.stats import ks_2samp

    return float(ks_2samp(first, second, method="asymp").statistic)


def _figure(part: str, held: str) -> Figure:
    row = PARTS[part]
    varied = "depth" if held == "n" else "width"
    fixed = {"n": {"widths": (HELD,)}, "h": {"depths": (HELD,)}}[held]
    small = {"n": {"widths": (64,), "depths": (4, 8, 16)}, "h": {"widths": (4, 16, 64), "depths": (16,)}}[held]

    def plot(record: Row, path: Path) -> None:
        import numpy as np

        from .. import theory
        from ..plots import draw_block_spectra

        laws = {
            "d": ("Marchenko–Pastur", theory.marchenko_pastur(1.0, shift=1.0)),
            "o": ("semicircle", theory.semicircle()),
        }
        labels = {name: kind.label for name, kind in NORMALISATIONS.items()}
        law = None
        if part in laws:
            label, limit = laws[part]
            at = np.linspace(*limit.edges, 400)
            law = {"label": label, "values": at, "density": limit.density(at)}
        draw_block_spectra(record, path, row.symbol, varied, labels, law)

    return Figure(
        f"{part}-eigens-{held}",
        f"Spectrum of the {row.text} over {varied}",
        f"Eigenvalues of the {row.text} {row.symbol} of linear networks at initialisation, "
        f"{'N' if held == 'n' else 'H'} = {HELD}, over {varied}, for both ways to normalise the weights.",
        {
            "quick": SpectrumConfig("float64", ("A small check.", *_PROTOCOL), part, **small),  # type: ignore[arg-type]
            "paper": SpectrumConfig("float64", _PROTOCOL, part, **fixed),  # type: ignore[arg-type]
        },
        cells,
        run_cell,
        claims,
        plot,
    )


_PROTOCOL = (
    "Linear networks without skips, input and output size N, one seed: every eigenvalue, by a dense solver in float64. "
    "The result keeps 1,001 quantiles of them, the extremes included.",
)
FIGURES = {figure.slug: figure for figure in (_figure(part, held) for part in PARTS for held in "nh")}
