"""The coordinate check: how the sizes of everything that moves in a training step go with width and depth."""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from ..data import Dataset
from ..inference import AbstractSolver, Energy, GradientDescent, as_energy, as_targets, traced
from ..io import checks
from ..learning import check_optimiser
from ..network import Activation, Elementwise, Network, Real, as_inputs, check_network, resolve_precision
from ._exponents import CoordinateCheck, Size, Slope, grouped, judge
from ._sizes import quick_jit, trajectories

BATCH = 64
"""Samples of a data set that are trained on, the same in every step: sizes then change for no other reason."""
ACTIVITY_LR, WEIGHT_LR = 0.4, 0.01
WIDTHS, DEPTHS, WIDTH, HIDDEN_LAYERS = (64, 128, 256, 512), (8, 16, 32), 128, 8
SHALLOWEST = 4
"""An input layer and three thirds of one layer each."""

Multipliers = tuple[float, ...] | Callable[[int, int], tuple[float, ...]] | None


class Shape(NamedTuple):
    """The size of a network, and the axes of the check that it is part of."""

    width: int
    hidden_layers: int
    axes: tuple[str, ...]


class Measured(NamedTuple):
    """The sizes of the networks of one shape, one for each seed."""

    shape: Shape
    sizes: tuple[Size, ...]


def coordinate_check(
    data: Any,
    *,
    widths: Sequence[int] = WIDTHS,
    depths: Sequence[int] = DEPTHS,
    width: int = WIDTH,
    hidden_layers: int = HIDDEN_LAYERS,
    activation: str | Activation | Elementwise = "relu",
    parameterisation: str = "mupc",
    skip: int = 1,
    solver: Any = None,
    steps: int = 3,
    seeds: int = 3,
    weight_lr: Real = WEIGHT_LR,
    energy: Energy | None = None,
    multipliers: Multipliers = None,
    **options: Any,
) -> CoordinateCheck:
    """Checks that networks of any width and depth start alike and learn alike: the coordinate check of μP, for
    predictive coding.

    It trains networks of several widths, and of several depths, for a few steps of Adam on one batch, and measures the
    mean absolute entry of their activities, residual branches (what a layer adds to its skip connection), outputs,
    errors, activity updates (how far inference moves), weight updates and drift (how far training has moved the
    activities and the output). Sizes s follow s ∝ N^a · H^b. The check fits the exponents, with confidence intervals,
    and compares them with what the parameterisation promises. docs/coordinate-check.md derives the promises.

    **Arguments:**

    - `data`: a `mupc.data.Dataset`, of which the first 64 training samples are taken, or one batch `(x, y)`.
    - `widths`, all with `hidden_layers` hidden layers; `depths`, all with `width` units. `()` leaves an axis out.
    - `activation`, `parameterisation`, `skip` and further `options` of `mupc.Network`.
    - `multipliers`: three numbers, or a function `(width, hidden_layers) -> (input, hidden, readout)`, to check in
      place of the parameterisation's own.
    - `solver`: as for `mupc.infer`, or a function `hidden_layers -> solver`. By default gradient descent with as many
      steps as hidden layers.
    - `steps` of training (0 for none), `seeds`, `weight_lr` and `energy`.

    **Returns:** a `mupc.CoordinateCheck`.

    **Example:**

    ```python
    import mupc

    digits = mupc.data.load("digits")
    check = mupc.coordinate_check(digits, widths=(32, 64, 128), depths=(), steps=0, solver=mupc.ErrorSpace())
    check.verdicts      # {'at init': {'width': 'pass'}, 'first step': {'width': 'pass'}}
    ```
    """
    named = {"activation": activation, "parameterisation": parameterisation, "skip": skip, **options}
    shapes = plan(widths, depths, width, hidden_layers, steps, seeds)
    found = measure(data, shapes, named, multipliers, solver, energy, steps, seeds, weight_lr)
    return conclude(list(found), parameterisation)


def coordinate_sizes(
    network: Any,
    data: Any,
    *,
    solver: Any = None,
    weight_lr: Real = WEIGHT_LR,
    energy: Energy | None = None,
) -> dict[str, np.ndarray]:
    """The sizes that `mupc.coordinate_check` compares, of any one network, trained or not.

    **Arguments:** the network, and as for `mupc.coordinate_check`.

    **Returns:** a dictionary with the mean absolute entry of each quantity in each layer that has it: `activities`,
    `errors` and `activity updates` of layers 1 … H, `weight updates` of layers 1 … L, `branches` of layers n + 1 … H
    with a skip n, `output` and `output error` of layer L. The weight updates are those of Adam's first step.

    **Example:**

    ```python
    import jax.random as jr, mupc

    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=16, hidden_layers=4, key=jr.key(0))
    mupc.coordinate_sizes(network, digits)["activities"]
    ```
    """
    check_network(network)
    stacked = jax.tree.map(lambda leaf: leaf[None], network)
    sizes = _sizes(stacked, data, solver, energy, 0, weight_lr)
    return {
        quantity: values[0, 0] for quantity, values in sizes.items() if quantity != "drift"
    }  # none without training


def plan(
    widths: Sequence[int], depths: Sequence[int], width: int, hidden_layers: int, steps: int, seeds: int
) -> list[Shape]:
    """The networks to measure, each shape once; raises for what cannot be checked."""
    checks.integer("steps", steps, 0)
    checks.integer("seeds", seeds, 1)
    checks.integer("width", width, 1)
    checks.integer("hidden_layers", hidden_layers, SHALLOWEST)
    axes: dict[tuple[int, int], list[str]] = {}
    for axis, name, values, least in (("width", "widths", widths, 1), ("depth", "depths", depths, SHALLOWEST)):
        chosen = dict.fromkeys(checks.integer(f"each of the {name}", value, least) for value in values)
        if chosen and (len(chosen) < 2 or len(chosen) * seeds < 3):
            raise ValueError(
                f"a slope with its interval needs two {name} and three networks, got {name} "
                f"{', '.join(map(str, chosen))} and seeds={seeds}. Give more of them."
            )
        for value in chosen:
            shape = (value, hidden_layers) if axis == "width" else (width, value)
            axes.setdefault(shape, []).append(axis)
    if not axes:
        raise ValueError("there is nothing to compare: give two or more widths or depths.")
    return [Shape(*shape, tuple(found)) for shape, found in axes.items()]


def measure(
    data: Any,
    shapes: Sequence[Shape],
    options: dict[str, Any],
    multipliers: Multipliers,
    solver: Any,
    energy: Energy | None,
    steps: int,
    seeds: int,
    weight_lr: Real,
) -> Iterator[Measured]:
    """The sizes of networks of each shape, as they are found. Mistakes are found at once."""
    check_optimiser("adam", weight_lr, "constant")
    x, y = _batch(data)
    classes = y.shape[1] if np.ndim(y) > 1 else int(np.max(y)) + 1

    def make(shape: Shape, key: Array) -> Network:
        width, depth, _ = shape
        own = multipliers(width, depth) if callable(multipliers) else multipliers
        return Network(x.shape[1], classes, width, depth, multipliers=own, key=key, **options)

    for shape in shapes:
        eqx.filter_eval_shape(make, shape, jr.key(0))

    def each() -> Iterator[Measured]:
        keys = jnp.stack([jr.key(seed) for seed in range(seeds)])
        for shape in shapes:
            networks = quick_jit(eqx.filter_vmap(functools.partial(make, shape)))(keys)
            found = _sizes(networks, (x, y), solver, energy, steps, weight_lr)
            rows = (
                Size(shape.width, shape.hidden_layers, seed, step, quantity, *group)
                for quantity, values in found.items()
                for seed, step in itertools.product(range(seeds), range(steps + 1))
                for group in grouped(quantity, values[seed, step], shape.hidden_layers)
            )
            yield Measured(shape, tuple(rows))

    return each()


def conclude(measured: Sequence[Measured], parameterisation: str) -> CoordinateCheck:
    """The slopes over both axes, and their verdicts."""
    slopes: list[Slope] = []
    for axis in ("width", "depth"):
        if rows := [size for one in measured if axis in one.shape.axes for size in one.sizes]:
            slopes += judge(rows, axis, parameterisation)
    return CoordinateCheck(tuple(size for one in measured for size in one.sizes), tuple(slopes))


def _batch(data: Any) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(data, Dataset):
        return data.normalisation(data.train.raw[:BATCH]), data.encode(data.train.targets[:BATCH])
    if not (isinstance(data, tuple) and len(data) == 2):
        raise TypeError(f'data must be a data set such as mupc.data.load("digits"), or a batch (x, y), got {data!r}.')
    x, y = (np.asarray(part) for part in data)
    checks.shape("x", x, ("batch", "in_size"), "Pass one row per sample.")
    return x, y


def _sizes(
    networks: Network, data: Any, solver: Any, energy: Energy | None, steps: int, weight_lr: Real
) -> dict[str, np.ndarray]:
    """Sizes (networks, steps + 1, layers) of stacked networks."""
    form = jax.tree.map(lambda leaf: leaf[0], networks)
    if solver is None:
        solver = GradientDescent(lr=ACTIVITY_LR, steps=form.hidden_layers)
    chosen = solver(form.hidden_layers) if callable(solver) else solver
    if not isinstance(chosen, AbstractSolver):
        raise TypeError(f"solver must be a solver, or a function of the number of hidden layers, got {chosen!r}.")
    x, y = _batch(data)
    policy = resolve_precision(None, networks)
    inputs = as_inputs(form, x)
    options = as_energy(energy)
    inputs, targets = policy.cast((inputs, as_targets(form, y, len(inputs), options)))
    rate = jnp.asarray(weight_lr, policy.dtype)  # traced: another rate does not compile anew
    sizes = trajectories(networks, inputs, targets, traced(chosen), options, policy, rate, steps)
    return {quantity: np.asarray(values, np.float64) for quantity, values in sizes.items()}
