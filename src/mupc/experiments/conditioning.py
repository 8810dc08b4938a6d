"""Conditioning of inference at initialisation over width and depth: `fig2`, `fig4`, `max-min-eigens`,
`resnets-cond-nums-init`, and `condition-numbers`, which goes on to 512 layers of 512 units.

At the paper preset each takes about a quarter of an hour of computing on CPU cores; the table of a result has the
seconds of every network. Set OPENBLAS_NUM_THREADS=1 for the small networks.
"""

import dataclasses
import functools
import itertools
import math
import statistics
from collections.abc import Callable, Hashable

import numpy as np

from .. import plots
from ._claims import Claim, Finding, fit_power, judge, require
from ._declaration import cells_over, presets, protocol
from ._figure import Figure, FigureCell, FigureConfig, Finished, Row, RunContext, Table, by_slug, grouped
from ._methods import FigureMethod

KINDS = {
    "sp": FigureMethod("SP, no skips", "sp", skip=0),
    "sp-skips": FigureMethod("SP, skips", "sp"),
    "mupc": FigureMethod("μPC, skips"),
    "orthogonal": FigureMethod("orthogonal, no skips", "orthogonal", skip=0),
}
"""The ways to build networks that are compared, by name."""
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
    from ..network import Network, forward

    n, kind = cell.width, KINDS[cell.kind]
    form = {"parameterisation": kind.parameterisation, "skip": kind.skip}

    def build(activation: str) -> Network:
        return Network(n, n, n, cell.depth, activation=activation, key=keys[0], **form)  # type: ignore[arg-type]

    with jax.enable_x64(True):
        keys = jr.split(jr.key(cell.seed), 3)
        network = build(cell.activation)
        x, y = (jr.normal(key, (1, cell.width)) for key in keys[1:])
        activities = None
        if isinstance(cell, SliceCell):
            centre = theory.equilibrium(build("linear"), x, y)
            found = theory.landscape(network, x, y, centre, span=cell.span, points=cell.points)
            return {"energies": found.energies.tolist(), "curvatures": [float(value) for value in found.curvatures]}
        if cell.activation != "linear":
            activities, output = forward(network, x)
            y = output if cell.target == FITTED else y
        energy = Energy(activity_decay=cell.decay)
        ends = theory.condition_number(network, x, y, activities, energy=energy, method="iterative")
    row = {name: getattr(ends, name) for name in ("largest", "smallest", "definite")}
    return {**row, "condition_number": ends.kappa}


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
        sizes = list(itertools.product(widths, self.config.depths))
        logs = np.log([self.kappa(kind, activation, *size) for size in sizes])
        width, depth = np.log(np.array(sizes, float)).T
        fitted = np.linalg.lstsq(np.stack([depth, width, np.ones(len(sizes))], axis=1), logs, rcond=None)[0]
        return float(fitted[0]), float(fitted[1])


def _kappa(row: Row) -> float:
    if row["definite"] == "positive semidefinite":
        return math.inf
    return math.nan if row["condition_number"] is None else float(row["condition_number"])


WIDE, STABLE_WIDTH, STABLE = 8, 16, 2.0
WORSE = 10.0
SHALLOW = 8
RELU_DEPTHS = (2, 32)
LINE = 0.97


def _over_depth(config: ConditionConfig, value: Callable[..., float], rises: bool) -> Finding:
    """Return whether a value of linear standard networks is monotone in H at every N ≥ WIDE."""
    wide = [n for n in config.widths if n >= WIDE]
    lines = {n: [value("sp", "linear", n, h) for h in config.depths] for n in wide}
    steps = [pair for line in lines.values() for pair in itertools.pairwise(line)]
    true = all(low < high if rises else low > high for low, high in steps)
    return true, "; ".join(f"N={n}: {line[0]:.3g} → {line[-1]:.3g}" for n, line in lines.items())


def standard(config: ConditionConfig, table: Table) -> list[Claim]:
    """Judge that κ of standard networks grows, with depth more than with width."""
    measured = ConditionTable(config, table)
    widths = tuple(width for width in config.widths if width >= WIDE)
    shallow, deep = RELU_DEPTHS

    def steeper() -> Finding:
        depth, width = measured.exponents("sp", "linear", widths)
        return depth > width, f"κ ∝ H^{depth:.2f} N^{width:.2f}"

    def relu() -> Finding:
        pairs = {n: [measured.kappa("sp", "relu", n, h) for h in (shallow, deep)] for n in widths}
        told = ", ".join(f"N={n}: {low:.3g} → {high:.3g}" for n, (low, high) in pairs.items())
        return all(low < high for low, high in pairs.values()), told

    def tanh() -> str:
        found = measured.indefinite("sp", "tanh")
        where = ", ".join(f"N={n} H={h}: {least:.2g}" for (n, h), least in found.items())
        told = f"λmin < 0 in {len(found)} of {len(config.widths) * len(config.depths)} sizes"
        return told + (f" (least over seeds {where})" if found else "")

    return [
        judge("kappa-over-depth", _over_depth, config, measured.kappa, True, wide=WIDE),
        judge("depth-over-width", steeper),
        judge("relu-worse", relu, deep=deep, shallow=shallow, wide=WIDE),
        judge("tanh-sign", tanh),
    ]


def extremes(config: ConditionConfig, table: Table) -> list[Claim]:
    """Judge that it is the smallest eigenvalue that drives κ."""
    measured = ConditionTable(config, table)

    def smallest(*network: str | int) -> float:
        return measured.median("smallest", *network)

    def steady() -> Finding:
        sizes = itertools.product((n for n in config.widths if n >= STABLE_WIDTH), config.depths)
        values = [measured.median("largest", "sp", "linear", *size) for size in sizes]
        return max(values) < STABLE * min(values), f"λmax from {min(values):.2f} to {max(values):.2f}"

    return [
        judge("smallest-falls", _over_depth, config, smallest, False, wide=WIDE),
        judge("largest-steady", steady, wide=STABLE_WIDTH, factor=STABLE),
    ]


def trade_off(config: ConditionConfig, table: Table) -> list[Claim]:
    """Judge that parameterisations with a stable forward pass condition inference badly, and worse with depth."""
    measured = ConditionTable(config, table)
    width, deep = max(config.widths), max(config.depths)

    def growth(kind: str, activation: str) -> Finding:
        shallow, end = (measured.kappa(kind, activation, width, depth) for depth in (SHALLOW, deep))
        told = f"{end / shallow:.3g}× ({shallow:.3g} → {end:.3g})"
        if activation in CURVED:
            worst = min(row["smallest"] for row in measured.rows(kind, activation, width, deep, RANDOM))
            told += f"; with a standard normal target λmin = {worst:.2g} at H={deep}"
        return end >= config.growth * shallow, told

    def values(kind: str, activation: str) -> dict[str, object]:
        names = {"kind": kind, "label": KINDS[kind].label, "activation": activation}
        return names | {"deep": deep, "shallow": SHALLOW, "width": width, "factor": config.growth}

    judged = [("mupc", activation) for activation in config.activations] + [("orthogonal", "linear")]
    others = [("orthogonal", activation) for activation in config.activations if activation != "linear"]
    return [
        *(judge("grows-{kind}-{activation}", growth, *each, **values(*each)) for each in judged),
        *(judge("growth-{kind}-{activation}", lambda *of: growth(*of)[1], *each, **values(*each)) for each in others),
    ]


def residual(config: ConditionConfig, table: Table) -> list[Claim]:
    """Judge that skips make the standard parameterisation far worse."""
    measured = ConditionTable(config, table)
    size = (max(config.widths), max(config.depths))

    def worse(activation: str) -> Finding:
        with_skips, without = (measured.kappa(kind, activation, *size) for kind in ("sp-skips", "sp"))
        told = [f"{kappa:.3g}".replace("inf", "beyond float64 (over 1e12)") for kappa in (with_skips, without)]
        return with_skips >= WORSE * without, f"κ {told[0]} with skips, {told[1]} without"

    values = {"factor": WORSE, "width": size[0], "depth": size[1]}
    return [judge("skips-{activation}", worse, a, activation=a, **values) for a in config.activations]


def power_laws(config: ConditionConfig, table: Table) -> list[Claim]:
    """Judge that κ is a power of the depth, and report which one for every width."""
    measured = ConditionTable(config, table)

    def fits(kind: str) -> Finding:
        found = {width: power_law(measured, kind, width) for width in config.widths if width >= WIDE}
        seconds = sum(row["seconds"] or 0.0 for row in table if row["kind"] == kind)
        told = ", ".join(f"N={width}: H^{slope:.2f} (R² {fit:.3f})" for width, (slope, fit) in found.items())
        return min(fit for _, fit in found.values()) >= LINE, f"{told}; {seconds:.0f} s in all"

    limits = {"fit": LINE, "shallow": SHALLOW, "wide": WIDE}
    labels = {kind: KINDS[kind].label for kind in config.kinds}
    return [judge("power-of-depth-{kind}", fits, k, kind=k, label=label, **limits) for k, label in labels.items()]


def power_law(measured: ConditionTable, kind: str, width: int) -> tuple[float, float]:
    """Return the power of H in κ at one width, from eight layers on, and R² of the fit."""
    depths = [depth for depth in measured.config.depths if depth >= SHALLOW]
    points = [(depth, measured.kappa(kind, "linear", width, depth)) for depth in depths]
    finite = [point for point in points if math.isfinite(point[1])]
    what = f"{kind} N={width}: κ of at least three depths that float64 can tell"
    return fit_power(require(finite, max(3, len(points)), what))


def _figure(
    slug: str,
    draw: plots.Drawing,
    claims: Callable[[ConditionConfig, Table], list[Claim]],
    paper: ConditionConfig,
    *notes: str,
    **quick: object,
) -> Figure:
    """Return a figure whose quick preset takes seconds."""
    labels = {kind: KINDS[kind].label for kind in paper.kinds}
    small = {"widths": (16, 64), "depths": (2, 8, 32), "seeds": 1} | quick
    both = presets(paper, *(notes or ("small-check",)), **small)
    return Figure(slug, both, cells, run_cell, claims, lambda record, path: draw(record, path, labels))


_STANDARD = ConditionConfig("float64", protocol("conditioning"))
_SLICED = dataclasses.replace(_STANDARD, slices=(2, 32), protocol=protocol("conditioning", "landscapes"))
_RESIDUAL = dataclasses.replace(_SLICED, kinds=("sp-skips",), reference=("sp",))
_STABLE = dataclasses.replace(_STANDARD, kinds=("mupc", "orthogonal"))
_SIZES = (*POWERS, 256, 512)
_LINEAR = dataclasses.replace(_STANDARD, kinds=("sp", *_STABLE.kinds), activations=("linear",), seeds=1)
_SMALL: dict[str, object] = {"slices": (2, 8), "slice_width": 8}
FIGURES = by_slug(
    _figure("sp-cond-nums-init", plots.draw_condition_grid, standard, _SLICED, **_SMALL),
    _figure("des-trade-off", plots.draw_condition_grid, trade_off, _STABLE, growth=4.0),
    _figure("max-min-eigens", plots.draw_extreme_eigenvalues, extremes, _STANDARD),
    _figure(
        "resnets-cond-nums-init",
        plots.draw_condition_grid,
        residual,
        _RESIDUAL,
        "resnets-cond-nums-init-quick",
        **_SMALL | {"widths": (8, 32), "depths": (2, 8, 128)},
    ),
    _figure(
        "condition-numbers",
        plots.draw_condition_powers,
        power_laws,
        dataclasses.replace(_LINEAR, widths=_SIZES, depths=_SIZES),
        depths=(8, 16, 32),
        seeds=3,
    ),
)
