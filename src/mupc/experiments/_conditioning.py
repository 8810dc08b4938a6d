"""The conditioning of inference at initialisation as cells: extreme eigenvalues of the activity Hessian, and slices of
the landscape along their eigenvectors."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import statistics
from collections.abc import Hashable
from typing import TYPE_CHECKING

from ._declaration import cells_over
from ._figure import FigureCell, FigureConfig, Finished, Row, RunContext, Table
from ._measuring import grouped, require

if TYPE_CHECKING:
    from ..network import Network, PRNGKeyArray


@dataclasses.dataclass(frozen=True)
class NetworkKind:
    """A way to build networks."""

    label: str
    parameterisation: str
    skip: int


KINDS = {
    "sp": NetworkKind("SP, no skips", "sp", 0),
    "sp-skips": NetworkKind("SP, skips", "sp", 1),
    "mupc": NetworkKind("μPC, skips", "mupc", 1),
    "orthogonal": NetworkKind("orthogonal, no skips", "orthogonal", 0),
}
POWERS = tuple(2**power for power in range(1, 8))
FITTED, RANDOM = "prediction", "normal"
"""Targets of the sample: what the network predicts, or standard normal numbers. They differ only for activations with a
second derivative, which is multiplied by the output error."""
CURVED = ("tanh",)


@dataclasses.dataclass(frozen=True)
class ConditionConfig(FigureConfig):
    """Networks of every kind, activation, width and depth, on `seeds` seeds; `decay` is the activity decay α.

    - `reference`: kinds to compare with, at the largest width and depth only.
    - `slices`: depths of the networks of width `slice_width` whose landscape is sampled.
    - `growth`: how much κ must grow from 8 layers to the deepest networks.
    """

    kinds: tuple[str, ...] = ("sp",)
    activations: tuple[str, ...] = ("linear", "tanh", "relu")
    widths: tuple[int, ...] = POWERS
    depths: tuple[int, ...] = POWERS
    seeds: int = 3
    decay: float = 0.0
    reference: tuple[str, ...] = ()
    slices: tuple[int, ...] = ()
    slice_width: int = 64
    growth: float = 30.0


@dataclasses.dataclass(frozen=True)
class ConditionCell(FigureCell):
    """The extreme eigenvalues of one network."""

    family = "conditioning"
    words = "{kind} {activation} N={width} H={depth} α={decay:g}, target: {target}, seed {seed}"

    kind: str
    activation: str
    width: int
    depth: int
    decay: float
    target: str
    seed: int


@dataclasses.dataclass(frozen=True)
class SliceCell(FigureCell):
    """The energy on a grid over [−span, span]² along the extreme eigenvectors of one network's Hessian."""

    family = "landscape-slices"
    words = "landscape of {kind} {activation} N={width} H={depth}"

    kind: str
    activation: str
    width: int
    depth: int
    seed: int = 0
    span: float = 2.0
    points: int = 30


def cells(config: ConditionConfig, finished: Finished) -> list[FigureCell]:
    """Return the cells: slices first, then networks, small ones before large ones."""
    forms = {"kind": config.kinds, "activation": config.activations}
    slices = cells_over(SliceCell, config, **forms, width=config.slice_width, depth=config.slices)
    sizes = sorted(itertools.product(config.depths, config.widths), key=math.prod)
    grids = [(size, config.kinds) for size in sizes] + [(sizes[-1], config.reference)]
    rest = {"activation": config.activations, "seed": range(config.seeds), "target": (FITTED, RANDOM)}
    networks = [
        cell
        for (depth, width), kinds in grids
        for cell in cells_over(ConditionCell, config, depth=depth, width=width, kind=kinds, **rest)
        if cell.target == FITTED or cell.activation in CURVED
    ]
    return [*slices, *networks]


def run_cell(cell: ConditionCell | SliceCell, context: RunContext) -> Row:
    """Return λmax, λmin and κ at the forward pass of a standard normal input; or the slice around the linear
    solution."""
    import jax
    import jax.random as jr

    from .. import theory
    from ..inference import Energy
    from ..network import forward

    with jax.enable_x64(True):
        keys = jr.split(jr.key(cell.seed), 3)
        network = _network(cell, cell.activation, keys[0])
        x, y = (jr.normal(key, (1, cell.width)) for key in keys[1:])
        activities = None
        if isinstance(cell, SliceCell):
            centre = theory.equilibrium(_network(cell, "linear", keys[0]), x, y)
            found = theory.landscape(network, x, y, centre, span=cell.span, points=cell.points)
            return {"energies": found.energies.tolist(), "curvatures": [float(value) for value in found.curvatures]}
        if cell.activation != "linear":
            activities, output = forward(network, x)
            y = output if cell.target == FITTED else y
        energy = Energy(activity_decay=cell.decay)
        ends = theory.condition_number(network, x, y, activities, energy=energy, method="iterative")
    row = {name: getattr(ends, name) for name in ("largest", "smallest", "definite")}
    return {**row, "condition_number": ends.kappa}


def _network(cell: ConditionCell | SliceCell, activation: str, key: PRNGKeyArray) -> Network:
    from ..network import Network

    n, kind = cell.width, KINDS[cell.kind]
    form = {"parameterisation": kind.parameterisation, "skip": kind.skip}
    return Network(n, n, n, cell.depth, activation=activation, key=key, **form)  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
class ConditionTable:
    """Medians over seeds, from the rows of a table. A network is named by its kind, activation, width and depth, and by
    its target if that is not what it predicts."""

    config: ConditionConfig
    table: Table

    @functools.cached_property
    def _groups(self) -> dict[tuple[Hashable, ...], Table]:
        rows = [row for row in self.table if "definite" in row]
        return grouped(rows, "kind", "activation", "width", "depth", "target")

    def rows(self, *network: str | int) -> Table:
        kind, activation, width, depth, *_ = network
        found = self._groups.get(network if len(network) > 4 else (*network, FITTED), [])
        return [*require(found, self.config.seeds, f"{kind} {activation} N={width} H={depth}")]

    def median(self, name: str, *network: str | int) -> float:
        return statistics.median(float(row[name]) for row in self.rows(*network))

    def kappa(self, *network: str | int) -> float:
        """Return κ: infinite where float64 cannot tell the smallest eigenvalue from zero, NaN where one is negative."""
        values = [_kappa(row) for row in self.rows(*network)]
        return math.nan if any(map(math.isnan, values)) else statistics.median(values)

    def indefinite(self, kind: str, activation: str) -> dict[tuple[int, int], float]:
        """Return the sizes (N, H) that have a negative eigenvalue for a random target in some seed, and the least."""
        sizes = itertools.product(self.config.widths, self.config.depths)
        found = {size: self.rows(kind, activation, *size, RANDOM) for size in sizes}
        return {
            size: min(row["smallest"] for row in rows)
            for size, rows in found.items()
            if any(row["definite"] == "indefinite" for row in rows)
        }

    def exponents(self, kind: str, activation: str, widths: tuple[int, ...]) -> tuple[float, float]:
        """Return the powers of H and of N in κ, by least squares over the grid of these widths and all depths."""
        import numpy as np

        sizes = list(itertools.product(widths, self.config.depths))
        logs = np.log([self.kappa(kind, activation, *size) for size in sizes])
        width, depth = np.log(np.array(sizes, float)).T
        fitted = np.linalg.lstsq(np.stack([depth, width, np.ones(len(sizes))], axis=1), logs, rcond=None)[0]
        return float(fitted[0]), float(fitted[1])


def _kappa(row: Row) -> float:
    if row["definite"] == "positive semidefinite":
        return math.inf
    return math.nan if row["condition_number"] is None else float(row["condition_number"])
