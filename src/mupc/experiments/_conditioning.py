"""The conditioning of inference at initialisation as cells: extreme eigenvalues of the activity Hessian, and slices of
the landscape along their eigenvectors."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import statistics
from typing import TYPE_CHECKING, Any, ClassVar

from ._figure import FigureCell, FigureConfig, Finished, MissingCellsError, Row, RunContext, Table

if TYPE_CHECKING:
    from ..network import Network


@dataclasses.dataclass(frozen=True)
class Kind:
    """A way to build networks."""

    label: str
    parameterisation: str
    skip: int


KINDS = {
    "sp": Kind("SP, no skips", "sp", 0),
    "sp-skips": Kind("SP, skips", "sp", 1),
    "mupc": Kind("μPC, skips", "mupc", 1),
    "orthogonal": Kind("orthogonal, no skips", "orthogonal", 0),
}
POWERS = tuple(2**power for power in range(1, 8))
FITTED, RANDOM = "prediction", "normal"
"""Targets of the sample: what the network predicts, or standard normal numbers. Only activations with a second
derivative tell them apart, since it is multiplied by the output error."""
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

    family: ClassVar[str] = "conditioning"

    kind: str
    activation: str
    width: int
    depth: int
    decay: float
    target: str
    seed: int

    @property
    def label(self) -> str:
        decay = f" α={self.decay:g}" if self.decay else ""
        target = " random target" if self.target == RANDOM else ""
        return f"{self.kind} {self.activation} N={self.width} H={self.depth}{decay}{target} seed {self.seed}"


@dataclasses.dataclass(frozen=True)
class SliceCell(FigureCell):
    """The energy on a grid over [−span, span]² along the extreme eigenvectors of one network's Hessian."""

    family: ClassVar[str] = "landscape-slices"

    kind: str
    activation: str
    width: int
    depth: int
    seed: int = 0
    span: float = 2.0
    points: int = 30

    @property
    def label(self) -> str:
        return f"landscape of {self.kind} {self.activation} N={self.width} H={self.depth}"


def cells(config: ConditionConfig, finished: Finished) -> list[FigureCell]:
    """Slices first, then small networks before large ones."""
    slices = [
        SliceCell(kind, activation, config.slice_width, depth)
        for kind, activation, depth in itertools.product(config.kinds, config.activations, config.slices)
    ]
    sizes = sorted(itertools.product(config.depths, config.widths), key=math.prod)
    largest = [(max(config.depths), max(config.widths))]
    grids = ((config.kinds, sizes), (config.reference, largest))
    return slices + [
        ConditionCell(kind, activation, width, depth, config.decay, target, seed)
        for kinds, grid in grids
        for (depth, width), kind, activation, seed in itertools.product(
            grid, kinds, config.activations, range(config.seeds)
        )
        for target in ((FITTED, RANDOM) if activation in CURVED else (FITTED,))
    ]


def run_cell(cell: ConditionCell | SliceCell, context: RunContext) -> Row:
    """λmax, λmin and κ at the forward pass of a standard normal input; or the slice around the linear solution."""
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
    return {
        "largest": ends.largest,
        "smallest": ends.smallest,
        "condition_number": ends.kappa,
        "definite": ends.definite,
    }


def _network(cell: ConditionCell | SliceCell, activation: str, key: Any) -> Network:
    from ..network import Network

    kind = KINDS[cell.kind]
    return Network(
        cell.width,
        cell.width,
        width=cell.width,
        hidden_layers=cell.depth,
        activation=activation,
        parameterisation=kind.parameterisation,
        skip=kind.skip,
        key=key,
    )


@dataclasses.dataclass(frozen=True)
class Measured:
    """Medians over seeds, from the rows of a table."""

    config: ConditionConfig
    table: Table

    @functools.cached_property
    def _rows(self) -> dict[tuple[Any, ...], Table]:
        groups: dict[tuple[Any, ...], Table] = {}
        for row in self.table:
            if "definite" in row:
                names = ("kind", "activation", "width", "depth", "target")
                groups.setdefault(tuple(row[name] for name in names), []).append(row)
        return groups

    def rows(self, kind: str, activation: str, width: int, depth: int, target: str = FITTED) -> Table:
        found = self._rows.get((kind, activation, width, depth, target), [])
        if len(found) < self.config.seeds:
            raise MissingCellsError(f"{kind} {activation} N={width} H={depth}")
        return found

    def median(self, name: str, *where: Any) -> float:
        return statistics.median(float(row[name]) for row in self.rows(*where))

    def kappa(self, *where: Any) -> float:
        """κ; infinite where float64 cannot tell the smallest eigenvalue from zero, NaN where one is negative."""
        rows = self.rows(*where)
        values = [_kappa(row) for row in rows]
        return math.nan if any(map(math.isnan, values)) else statistics.median(values)

    def indefinite(self, kind: str, activation: str) -> dict[tuple[int, int], float]:
        """The sizes (N, H) with a negative eigenvalue for a random target in some seed, and the least of them."""
        found = {}
        for width, depth in itertools.product(self.config.widths, self.config.depths):
            rows = self.rows(kind, activation, width, depth, RANDOM)
            if any(row["definite"] == "indefinite" for row in rows):
                found[width, depth] = min(row["smallest"] for row in rows)
        return found

    def exponents(self, kind: str, activation: str, widths: tuple[int, ...]) -> tuple[float, float]:
        """The powers of H and of N in κ, by least squares over the grid of these widths and all depths."""
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
