"""An ill-conditioned inference landscape in two dimensions: `toy-ill-cond`. It takes seconds."""

import dataclasses
from pathlib import Path

import numpy as np

from ._claims import Claim, Finding, judge, require
from ._declaration import cells_over, presets, protocol
from ._figure import Figure, FigureCell, FigureConfig, Finished, Row, RunContext, Table, by_slug

ILL, LONGER = 50.0, 2.0


@dataclasses.dataclass(frozen=True)
class ToySettings:
    """f(x) = w₃w₂w₁x with z₁ and z₂ to infer, from the forward pass; the step size is `rate` / λmax."""

    weights: tuple[float, float, float] = (1.0, 1.0, 10.0)
    x: float = 1.0
    y: float = 1.0
    rate: float = 1.6
    steps: int = 100
    points: int = 81


@dataclasses.dataclass(frozen=True)
class ToyConfig(ToySettings, FigureConfig):
    """The one landscape of the figure."""


@dataclasses.dataclass(frozen=True)
class ToyCell(ToySettings, FigureCell):
    """The landscape and the path over it."""

    family = "toy-landscape"
    words = "w = {weights}, x = {x:g}, y = {y:g}"


def cells(config: ToyConfig, finished: Finished) -> list[FigureCell]:
    """Return the one cell."""
    return [*cells_over(ToyCell, config)]


def run_cell(cell: ToyCell, context: RunContext) -> Row:
    """Return κ, the energy around the solution, and the path of gradient descent relative to it."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import jax.random as jr

    from .. import theory
    from ..network import Network, forward

    with jax.enable_x64(True):
        network = Network(1, 1, 1, 2, activation="linear", parameterisation="sp", skip=0, key=jr.key(0))
        shapes = ((1, 1), (1, 1, 1), (1, 1))
        weights = [jnp.full(shape, weight) for shape, weight in zip(shapes, cell.weights, strict=True)]
        network = eqx.tree_at(lambda n: [n.input.weight, n.hidden.weight, n.readout.weight], network, weights)
        x, y = jnp.full((1, 1), cell.x), jnp.full((1, 1), cell.y)
        ends = theory.condition_number(network)
        start = forward(network, x)[0]
        path = theory.descent_path(network, x, y, start, lr=cell.rate / ends.largest, steps=cell.steps)
        units = np.eye(2).reshape(2, 2, 1)
        reach = 1.1 * float(np.abs(path - theory.equilibrium(network, x, y)[:, 0]).max())
        found = theory.landscape(network, x, y, directions=units, span=reach, points=cell.points)
    points = found.project(path)
    return {
        "condition_number": ends.kappa,
        "solution": found.centre.ravel().tolist(),
        "axis": found.axis.tolist(),
        "energies": found.energies.tolist(),
        "path": points.tolist(),
        "path_length": float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum()),
        "straight": float(np.linalg.norm(points[0])),
    }


def claims(config: ToyConfig, table: Table) -> list[Claim]:
    """Judge that the landscape is ill-conditioned and that descent takes a detour."""

    def ill() -> Finding:
        kappa = require(table, 1, "the landscape")[0]["condition_number"]
        return kappa > ILL, f"{kappa:.2f}"

    def longer() -> Finding:
        row = require(table, 1, "the landscape")[0]
        ratio = row["path_length"] / row["straight"]
        return ratio > LONGER, f"{ratio:.2f}×"

    return [
        judge("ill-conditioned", ill, limit=ILL),
        judge("detour", longer, factor=LONGER),
    ]


def _plot(record: Row, path: Path) -> None:
    from ..plots import draw_landscape

    for row in record["data"]:
        one, two = row["solution"]
        labels = (rf"$z_1 - z_1^*$   ($z_1^*$ = {one:.2f})", rf"$z_2 - z_2^*$   ($z_2^*$ = {two:.2f})")
        title = rf"$\kappa$ = {row['condition_number']:.1f}"
        draw_landscape([row["energies"]], row["axis"], path, titles=[title], path_points=[row["path"]], labels=labels)


_PRESETS = presets(ToyConfig("float64", protocol("toy-ill-cond")), "toy-ill-cond-quick")
FIGURES = by_slug(Figure("toy-ill-cond", _PRESETS, cells, run_cell, claims, _plot))
