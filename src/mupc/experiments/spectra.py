"""Spectra of the activity Hessian and of its parts at initialisation: `d-eigens-n`, `d-eigens-h`, `o-eigens-n`, …

`-n` holds the width at N = 128 and varies the depth, `-h` holds the depth at H = 128 and varies the width. The largest
matrix has 16,384 rows: four seconds on one H200, minutes on a CPU.
"""

import dataclasses
import itertools
from pathlib import Path

import numpy as np

from .. import plots
from ._claims import Claim, Finding, judge, require
from ._declaration import cells_over, presets, protocol
from ._figure import Figure, FigureCell, FigureConfig, Finished, Row, RunContext, Table, by_slug, select

HELD, SIZES = 128, (2, 8, 16, 32, 64, 128)
WIDE, DEEP = 64, 16
BULK, NEAR, SAME = (1.0, 5.0), 0.12, 0.05
EDGE, SYMMETRIC = (2.6, 3.0), 1e-6
BOUND = 7.35
LEVELS = 1001

NORMALISATIONS = {"weights": "sp", "multipliers": "ntp"}
"""Parameterisations that give a·W the variance 1/N, by what is small: the weights or the multipliers."""
LABELS = {"weights": r"$a = 1,\ b = 1/N$", "multipliers": r"$a = 1/\sqrt{N},\ b = 1$"}


PARTS = {"d": "diagonal", "o": "off-diagonal", "h": "whole"}
"""The parts D and O of the Hessian, and H itself, as `mupc.theory.spectrum` names them."""


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

    family = "spectra"
    version = 2
    words = "{part} {normalisation} N={width} H={depth}"

    part: str
    normalisation: str
    width: int
    depth: int
    seed: int


def cells(config: SpectrumConfig, finished: Finished) -> list[FigureCell]:
    """Return the networks, small ones first."""
    axes = {"width": config.widths, "depth": config.depths, "normalisation": [*NORMALISATIONS]}
    return [*sorted(cells_over(SpectrumCell, config, **axes), key=lambda cell: cell.width * cell.depth)]


def run_cell(cell: SpectrumCell, context: RunContext) -> Row:
    """Return the quantiles of all eigenvalues at even levels, the extremes first and last; and how far the eigenvalues
    are from their mirror image."""
    import jax
    import jax.random as jr

    from .. import theory
    from ..network import Network

    n, form = cell.width, NORMALISATIONS[cell.normalisation]
    with jax.enable_x64(True):
        key = jr.fold_in(jr.key(cell.seed), list(NORMALISATIONS).index(cell.normalisation))
        network = Network(n, n, n, cell.depth, activation="linear", parameterisation=form, skip=0, key=key)
        found = theory.spectrum(network, part=PARTS[cell.part], method="exact")
    return {
        "quantiles": found.quantiles(np.linspace(0, 1, LEVELS)).tolist(),
        "asymmetry": float(np.max(np.abs(found.values + found.values[::-1]))),
        "size": found.size,
    }


@dataclasses.dataclass(frozen=True)
class Spectra:
    """The spectra of a table."""

    config: SpectrumConfig
    table: Table

    def rows(self, wide: int = WIDE, deep: int = 1) -> Table:
        """Return the spectra of networks of at least this width and depth."""
        sizes = itertools.product(self.config.widths, self.config.depths)
        count = len(NORMALISATIONS) * sum(width >= wide and depth >= deep for width, depth in sizes)
        rows = [row for row in self.table if row["width"] >= wide and row["depth"] >= deep]
        return [*require(rows, count, f"{self.config.part.upper()} for N ≥ {wide}, H ≥ {deep}")]

    def smallest(self) -> list[float]:
        return [row["quantiles"][0] for row in self.rows()]

    def largest(self, deep: int = 1) -> list[float]:
        return [row["quantiles"][-1] for row in self.rows(deep=deep)]


def claims(config: SpectrumConfig, table: Table) -> list[Claim]:
    """Judge what random matrix theory says of each part."""
    spectra, several = Spectra(config, table), len(config.depths) > 1
    rules = {
        "d": [judge("bulk", _bulk, spectra, near=NEAR, wide=WIDE)]
        + ([judge("depth-free", _depthless, spectra, limit=SAME)] if several else []),
        "o": [
            judge("symmetric", _symmetric, spectra, limit=SYMMETRIC),
            judge("broader", _edge, spectra, low=EDGE[0], high=EDGE[1], deep=DEEP, wide=WIDE),
        ],
        "h": [judge("positive", _positive, spectra), judge("bounded", _bounded, spectra, limit=BOUND, wide=WIDE)],
    }
    return rules[config.part]


def _bulk(spectra: Spectra) -> Finding:
    lows, highs = spectra.smallest(), spectra.largest()
    ends = [(value, end) for values, end in zip((lows, highs), BULK, strict=True) for value in values]
    near = all(abs(value / end - 1) <= NEAR for value, end in ends)
    return near, f"smallest {min(lows):.3f} to {max(lows):.3f}, largest {min(highs):.3f} to {max(highs):.3f}"


def _depthless(spectra: Spectra) -> Finding:
    ends = (8, max(spectra.config.depths))
    found = {}
    for name in NORMALISATIONS:
        pair = [select(spectra.rows(), normalisation=name, depth=depth)[0]["quantiles"] for depth in ends]
        found[name] = distance(*pair)
    told = ", ".join(f"{value:.3f} ({name})" for name, value in found.items())
    return max(found.values()) < SAME, f"H={ends[0]} to H={ends[1]}: {told}"


def _symmetric(spectra: Spectra) -> Finding:
    worst = max(row["asymmetry"] for row in spectra.rows(1))
    return worst < SYMMETRIC, f"eigenvalues are within {worst:.1g} of their mirror image"


def _edge(spectra: Spectra) -> Finding:
    edges = spectra.largest(DEEP)
    return min(edges) >= EDGE[0] and max(edges) <= EDGE[1], f"{min(edges):.3f} to {max(edges):.3f}"


def _positive(spectra: Spectra) -> Finding:
    least = min(spectra.rows(1), key=lambda row: row["quantiles"][0])
    return least["quantiles"][0] > 0, f"least {least['quantiles'][0]:.2g} at N={least['width']}, H={least['depth']}"


def _bounded(spectra: Spectra) -> Finding:
    highs = spectra.largest()
    return max(highs) <= BOUND, f"{min(highs):.3f} to {max(highs):.3f}"


def distance(first: list[float], second: list[float]) -> float:
    """Return the Kolmogorov–Smirnov distance between two distributions, from quantiles at the same even levels."""
    from scipy.stats import ks_2samp

    return float(ks_2samp(first, second, method="asymp").statistic)


def _figure(part: str, held: str) -> Figure:
    varied = "depth" if held == "n" else "width"
    widths, depths, few_widths, few_depths = _SIZES[held]
    paper = SpectrumConfig("float64", protocol("spectra"), part, widths, depths)

    def plot(record: Row, path: Path) -> None:
        from .. import theory

        laws = {
            "d": ("Marchenko–Pastur", theory.marchenko_pastur(1.0, shift=1.0)),
            "o": ("semicircle", theory.semicircle()),
        }
        law = None
        if part in laws:
            label, limit = laws[part]
            at = np.linspace(*limit.edges, 400)
            law = {"label": label, "values": at, "density": limit.density(at)}
        plots.draw_block_spectra(record, path, part.upper(), varied, LABELS, law)

    both = presets(paper, "small-check", widths=few_widths, depths=few_depths)
    return Figure(f"{part}-eigens-{held}", both, cells, run_cell, claims, plot)


_SIZES = {"n": ((HELD,), SIZES, (64,), (4, 8, 16)), "h": (SIZES, (HELD,), (4, 16, 64), (16,))}
"""Widths and depths at the paper preset, and at the quick one."""
FIGURES = by_slug(*(_figure(part, held) for part in PARTS for held in "nh"))
