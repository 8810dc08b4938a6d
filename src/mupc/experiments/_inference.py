"""Inference as cells: gradient descent in scalar chains from two starts, and in wide networks from the forward pass."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

from ._building import PAPER_BATCH, load
from ._figure import FigureCell, FigureConfig, Finished, Row, RunContext
from ._methods import METHODS

NOISE_STD = 0.5
STARTS = ("forward", "random")
STRIDE = 16
"""Long stretches of inference go in calls of so many steps, the rest step by step: two programs to compile, not ten."""


@dataclasses.dataclass(frozen=True)
class ChainConfig(FigureConfig):
    """Scalar chains; `rates` are β·λmax, `beyond` is how many times H steps the picture goes on for."""

    parameterisation: str = "mupc"
    hidden_layers: int = 64
    rates: tuple[float, ...] = (0.02, 0.2, 1.0, 1.9)
    seeds: int = 20
    beyond: int = 16


@dataclasses.dataclass(frozen=True)
class ChainCell(FigureCell):
    """Inference in so many chains from one start at one step size, seeds 0, 1, …"""

    family: ClassVar[str] = "inference-chain"

    parameterisation: str
    start: str
    rate: float
    hidden_layers: int
    seeds: int
    beyond: int
    precision: str

    @property
    def label(self) -> str:
        return f"{self.parameterisation} H={self.hidden_layers} {self.start} start β·λmax={self.rate:g}"


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

    family: ClassVar[str] = "inference-wide"

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

    @property
    def label(self) -> str:
        return f"{self.method} {self.activation} N={self.width} H={self.hidden_layers} {self.data}, seed {self.seed}"


def checkpoints(depth: int, beyond: int) -> list[int]:
    """The steps at which activities are looked at: 0, 1, 2, 3, 4, 6, 8, 12, … up to `beyond` times H, and H itself."""
    last = beyond * depth
    powers = [2**k for k in range(last.bit_length())]
    wanted = {0, depth, last, *powers, *(3 * power // 2 for power in powers)}
    return sorted(step for step in wanted if step <= last)


def chain_cells(config: ChainConfig, finished: Finished) -> list[FigureCell]:
    """Forward starts first: the claims are about them."""
    shared = (config.hidden_layers, config.seeds, config.beyond, config.precision)
    pairs = itertools.product(STARTS, config.rates)
    return [ChainCell(config.parameterisation, start, rate, *shared) for start, rate in pairs]


def run_chain(cell: ChainCell, context: RunContext) -> Row:
    """The distance to the exact solution over inference as quartiles over seeds, and what seed 0 looks like."""
    import jax
    import numpy as np

    steps = checkpoints(cell.hidden_layers, cell.beyond)
    with jax.enable_x64(cell.precision == "float64"):
        runs = [_chain_run(cell, seed, steps) for seed in range(cell.seeds)]
    at_end = steps.index(cell.hidden_layers)
    distances = np.array([np.linalg.norm(run["activities"] - run["solution"], axis=1) for run in runs])
    ratios = distances / distances[:, :1]
    low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75], axis=0)
    first = runs[0]
    return {
        "steps": steps,
        "low": _rounded(low),
        "median": _rounded(median),
        "high": _rounded(high),
        "ratios": _rounded(ratios[:, at_end]),
        "largest_eigenvalues": _rounded([run["largest"] for run in runs]),
        "example": {
            "start": _rounded(first["activities"][0]),
            "end": _rounded(first["activities"][at_end]),
            "solution": _rounded(first["solution"]),
        },
    }


def _chain_run(cell: ChainCell, seed: int, steps: Sequence[int]) -> dict[str, Any]:
    """One chain and one sample: activities (steps, H), the exact solution (H), and λmax."""
    import jax
    import jax.numpy as jnp
    import jax.random as jr
    import numpy as np

    from ..inference import ExactLinear, energy, infer
    from ..network import Network

    network_key, x_key, noise_key, start_key = jr.split(jr.key(seed), 4)
    network = Network(
        1, 1, 1, cell.hidden_layers, activation="linear", parameterisation=cell.parameterisation, key=network_key
    )
    x = 1 + jr.normal(x_key, (1, 1))
    y = -x + NOISE_STD * jr.normal(noise_key, (1, 1))
    shape = (cell.hidden_layers, 1, 1)
    hessian = jax.hessian(lambda z: energy(network, z.reshape(shape), x, y))(jnp.zeros(cell.hidden_layers))
    largest = float(jnp.linalg.eigvalsh(hessian)[-1])
    start = jr.normal(start_key, shape) if cell.start == "random" else None
    found = _trajectory(network, x, y, cell.rate / largest, steps, start)
    solution = infer(network, x, y, ExactLinear()).activities
    return {
        "activities": np.array(found).reshape(len(steps), -1),
        "solution": np.asarray(solution).ravel(),
        "largest": largest,
    }


def _trajectory(network: Any, x: Any, y: Any, lr: float, steps: Sequence[int], start: Any = None) -> list[Any]:
    """Activities (H, B, N) at each of `steps` of gradient descent; from the forward pass if there is no `start`."""
    import numpy as np

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
    """A network and a batch for each method and seed."""
    return [
        WideCell(
            method,
            config.activation,
            config.data,
            config.width,
            config.hidden_layers,
            config.betas,
            seed,
            config.beyond,
            config.verify,
            config.precision,
        )
        for seed, method in itertools.product(range(config.seeds), config.methods)
    ]


def shown_layers(depth: int) -> list[int]:
    """The hidden layers, from 1, whose norms are drawn: the ends and the quarters."""
    return sorted({1, max(1, depth // 4), max(1, depth // 2), max(1, 3 * depth // 4), depth})


def run_wide(cell: WideCell, context: RunContext) -> Row:
    """Norms of layers (mean over samples), and the movement from the start and the distance to the exact solution
    relative to ‖z_fwd‖ and ‖z*‖, norms over all layers and samples. A list for each β."""
    import jax
    import jax.random as jr
    import numpy as np

    from ..inference import ExactLinear, infer
    from ..network import Network

    dataset = load(cell.data, context.data_dir, cell.verify, 0.0)
    batch = dataset.train.take(np.random.default_rng(cell.seed).permutation(len(dataset.train))[:PAPER_BATCH])
    steps, method = checkpoints(cell.hidden_layers, cell.beyond), METHODS[cell.method]
    picked = [layer - 1 for layer in shown_layers(cell.hidden_layers)]

    def layer_norms(activities: Any) -> Any:
        return np.linalg.norm(activities[picked], axis=-1).mean(axis=-1)

    with jax.enable_x64(cell.precision == "float64"):
        network = Network(
            dataset.in_size,
            dataset.out_size,
            cell.width,
            cell.hidden_layers,
            activation=cell.activation,
            parameterisation=method.parameterisation,
            init=method.init,
            key=jr.key(cell.seed),
        )
        floats = jax.numpy.result_type(float)
        x, y = (jax.numpy.asarray(a, floats) for a in (dataset.normalisation(batch.raw), dataset.encode(batch.targets)))
        paths = [_trajectory(network, x, y, beta / PAPER_BATCH, steps) for beta in cell.betas]
        exact = cell.activation == "linear"
        solution = np.asarray(infer(network, x, y, ExactLinear()).activities) if exact else None
    found: Row = {
        "steps": steps,
        "norms": _rounded([[layer_norms(z) for z in path] for path in paths]),
        "movement": _rounded([[_relative(z - path[0], path[0]) for z in path] for path in paths]),
        "official_data": dataset.official,
    }
    if solution is not None:
        found["distance"] = _rounded([[_relative(z - solution, solution) for z in path] for path in paths])
        found["solution_norms"] = _rounded(layer_norms(solution))
    return found


def _relative(change: Any, reference: Any) -> float:
    import numpy as np

    return float(np.linalg.norm(change) / np.linalg.norm(reference))


def _rounded(values: Any) -> list[Any]:
    """Nested lists with six digits, to keep results small."""
    return [_rounded(value) if hasattr(value, "__len__") else float(f"{value:.6g}") for value in values]
