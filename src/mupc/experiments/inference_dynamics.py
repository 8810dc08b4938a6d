"""Where inference starts and how far it gets: two starts of a scalar chain, and forward starts of wide networks.

`sp-activity-inits`, `mupc-activity-inits`, `mupc-vs-pc-ffwd-lrs` and `mupc-vs-pc-ffwd-relu-lrs`; each takes a minute or
two on two CPU cores at the paper preset.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import plots
from ._claims import Claim, Finding, judge, number, require
from ._declaration import cells_over, presets, protocol
from ._figure import Figure, FigureCell, FigureConfig, Finished, Row, RunContext, Table, by_slug, select
from ._methods import METHODS, PAPER_BATCH, build_mlp, load

if TYPE_CHECKING:
    from ..network import Activities, Inputs, Network, Outputs

NOISE_STD = 0.5
STARTS = ("forward", "random")
STRIDE = 16
"""Long stretches of inference go in calls of this many steps, the rest step by step: two programs to compile."""


@dataclasses.dataclass(frozen=True)
class ChainConfig(FigureConfig):
    """Scalar chains; `rates` are β·λmax, and the picture shows `beyond` times H steps."""

    parameterisation: str = "mupc"
    hidden_layers: int = 64
    rates: tuple[float, ...] = (0.02, 0.2, 1.0, 1.9)
    seeds: int = 20
    beyond: int = 16


@dataclasses.dataclass(frozen=True)
class ChainCell(FigureCell):
    """Inference in chains of seeds 0, 1, … from one start at one step size."""

    family = "inference-chain"
    words = "{parameterisation} H={hidden_layers} {start} start β·λmax={rate:g}"

    parameterisation: str
    start: str
    rate: float
    hidden_layers: int
    seeds: int
    beyond: int
    precision: str


@dataclasses.dataclass(frozen=True)
class WideConfig(FigureConfig):
    """Residual networks on a batch of images; β as in the paper, on the mean over 64 samples."""

    activation: str = "linear"
    data: str = "mnist"
    width: int = 128
    hidden_layers: int = 16
    betas: tuple[float, ...] = (0.1, 1.0, 10.0)
    methods: tuple[str, ...] = ("sp", "mupc")
    seeds: int = 3
    beyond: int = 4
    verify: bool = True


@dataclasses.dataclass(frozen=True)
class WideCell(FigureCell):
    """Inference in one network on one batch, from the forward pass, at every step size."""

    family = "inference-wide"
    words = "{method} {activation} N={width} H={hidden_layers} {data}, seed {seed}"

    method: str
    activation: str
    data: str
    width: int
    hidden_layers: int
    betas: tuple[float, ...]
    seed: int
    beyond: int
    verify: bool
    precision: str


def checkpoints(depth: int, beyond: int) -> list[int]:
    """Return the steps at which activities are recorded: 0, 1, 2, 3, 4, 6, 8, 12, … up to `beyond` times H, and H."""
    last = beyond * depth
    powers = [2**k for k in range(last.bit_length())]
    wanted = {0, depth, last, *powers, *(3 * power // 2 for power in powers)}
    return sorted(step for step in wanted if step <= last)


def chain_cells(config: ChainConfig, finished: Finished) -> list[FigureCell]:
    """Return the cells: forward starts first, since the claims are about them."""
    return [*cells_over(ChainCell, config, start=STARTS, rate=config.rates)]


def run_chain(cell: ChainCell, context: RunContext) -> Row:
    """Return quartiles over seeds of the distance to the exact solution over inference, and seed 0's activities."""
    import jax

    steps = checkpoints(cell.hidden_layers, cell.beyond)
    with jax.enable_x64(cell.precision == "float64"):
        paths, solutions, largest = zip(*(_chain_run(cell, seed, steps) for seed in range(cell.seeds)), strict=True)
    at_end = steps.index(cell.hidden_layers)
    pairs = zip(paths, solutions, strict=True)
    distances = np.array([np.linalg.norm(path - solution, axis=1) for path, solution in pairs])
    ratios = distances / distances[:, :1]
    low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75], axis=0)
    example = {"start": paths[0][0], "end": paths[0][at_end], "solution": solutions[0]}
    curves = {"low": low, "median": median, "high": high, "ratios": ratios[:, at_end]}
    return _rounded({"steps": steps, **curves, "largest_eigenvalues": largest, "example": example})


def _chain_run(cell: ChainCell, seed: int, steps: Sequence[int]) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the activities (steps, H) of one chain and one sample, the exact solution (H), and λmax."""
    import jax
    import jax.numpy as jnp
    import jax.random as jr

    from ..inference import ExactLinear, energy, infer
    from ..network import Network

    depth, form = cell.hidden_layers, cell.parameterisation
    network_key, x_key, noise_key, start_key = jr.split(jr.key(seed), 4)
    network = Network(1, 1, 1, depth, activation="linear", parameterisation=form, key=network_key)
    x = 1 + jr.normal(x_key, (1, 1))
    y = -x + NOISE_STD * jr.normal(noise_key, (1, 1))
    shape = (depth, 1, 1)
    hessian = jax.hessian(lambda z: energy(network, z.reshape(shape), x, y))(jnp.zeros(depth))
    largest = float(jnp.linalg.eigvalsh(hessian)[-1])
    start = jr.normal(start_key, shape) if cell.start == "random" else None
    found = _trajectory(network, x, y, cell.rate / largest, steps, start)
    solution = infer(network, x, y, ExactLinear()).activities
    return np.array(found).reshape(len(steps), -1), np.asarray(solution).ravel(), largest


def _trajectory(
    network: Network, x: Inputs, y: Outputs, lr: float, steps: Sequence[int], start: Activities | None = None
) -> list[np.ndarray]:
    """Return the activities (H, B, N) at each of `steps` of gradient descent from `start`, or from the forward pass."""
    from ..inference import GradientDescent, infer
    from ..network import forward

    found = [np.asarray(forward(network, x)[0] if start is None else start)]
    for before, after in itertools.pairwise(steps):
        strides, single = divmod(after - before, STRIDE)
        for count in [STRIDE] * strides + [1] * single:
            start = infer(network, x, y, GradientDescent(lr=lr, steps=count), activities=start).activities
        found.append(np.asarray(start))
    return found


def wide_cells(config: WideConfig, finished: Finished) -> list[FigureCell]:
    """Return a cell for each method and seed: one network on one batch."""
    return [*cells_over(WideCell, config, seed=range(config.seeds), method=config.methods)]


def shown_layers(depth: int) -> list[int]:
    """Return the hidden layers, from 1, whose norms are drawn: the ends and the quarters."""
    return sorted({1, max(1, depth // 4), max(1, depth // 2), max(1, 3 * depth // 4), depth})


def run_wide(cell: WideCell, context: RunContext) -> Row:
    """Return for each β the norms of layers (mean over samples), the movement from the start relative to ‖z_fwd‖, and
    the distance to the exact solution relative to ‖z*‖; the latter norms are over all layers and samples."""
    import jax

    from ..inference import ExactLinear, infer

    dataset = load(cell.data, context.data_dir, cell.verify, 0.0)
    batch = dataset.train.take(np.random.default_rng(cell.seed).permutation(len(dataset.train))[:PAPER_BATCH])
    steps, depth = checkpoints(cell.hidden_layers, cell.beyond), cell.hidden_layers
    picked = [layer - 1 for layer in shown_layers(depth)]

    def layer_norms(activities: np.ndarray) -> np.ndarray:
        return np.linalg.norm(activities[picked], axis=-1).mean(axis=-1)

    def relative(change: np.ndarray, reference: np.ndarray) -> float:
        return float(np.linalg.norm(change) / np.linalg.norm(reference))

    with jax.enable_x64(cell.precision == "float64"):
        network = build_mlp(METHODS[cell.method], dataset, cell.activation, cell.width, depth, cell.seed)
        floats = jax.numpy.result_type(float)
        x, y = (jax.numpy.asarray(a, floats) for a in (dataset.normalisation(batch.raw), dataset.encode(batch.targets)))
        paths = [_trajectory(network, x, y, beta / PAPER_BATCH, steps) for beta in cell.betas]
        exact = cell.activation == "linear"
        solution = np.asarray(infer(network, x, y, ExactLinear()).activities) if exact else None
    found: Row = {
        "steps": steps,
        "norms": [[layer_norms(z) for z in path] for path in paths],
        "movement": [[relative(z - path[0], path[0]) for z in path] for path in paths],
    }
    if solution is not None:
        found["distance"] = [[relative(z - solution, solution) for z in path] for path in paths]
        found["solution_norms"] = layer_norms(solution)
    return _rounded(found) | {"official_data": dataset.official}


def _rounded(value: Any) -> Any:
    """Return nested lists with six digits, to keep results small."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if hasattr(value, "__len__"):
        return [_rounded(item) for item in value]
    return value if isinstance(value, int) else float(f"{value:.6g}")


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
    return Figure(slug, both, chain_cells, run_chain, chain_claims, plot)


def _wide_figure(slug: str, activation: str) -> Figure:
    paper = WideConfig("float64", protocol("ffwd-lrs"), activation)
    both = presets(paper, "inference-quick", data="digits", width=32, hidden_layers=8, seeds=2)
    return Figure(slug, both, wide_cells, run_wide, wide_claims, _wide_plot)


FIGURES = by_slug(
    _chain_figure("sp-activity-inits", "sp", "sp-activity-inits"),
    _chain_figure("mupc-activity-inits", "mupc"),
    _wide_figure("mupc-vs-pc-ffwd-lrs", "linear"),
    _wide_figure("mupc-vs-pc-ffwd-relu-lrs", "relu"),
)
