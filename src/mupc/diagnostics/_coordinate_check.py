"""The coordinate check: how the sizes of everything that moves in a training step scale with width and depth."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, ArrayLike

from ..data import Dataset
from ..inference import AbstractSolver, Energy, ErrorSpace, as_energy, as_targets, traced
from ..io import checks
from ..learning import OPTIMISERS, PC, LearningContext, check_rate_scaling, scaling_base
from ..network import AbstractNetwork, BaseSize, Network, Real, as_inputs, check_network, resolve_precision
from ._exponents import CoordinateCheck, CoordinateSize, Slope, Updates, group_sizes, judge_slopes
from ._sizes import quick_jit, trajectories

BATCH = 64
"""Samples of a data set to train on, the same in every step, so that sizes change for no other reason."""
WEIGHT_LR = 0.01
"""Small, so that a few steps do not overshoot."""
SHALLOWEST = 4
"""An input layer and three thirds of one layer each."""

Multipliers = tuple[float, ...] | Callable[[int, int], tuple[float, ...]]
SolverChoice = AbstractSolver | Callable[[int], AbstractSolver]
Batch = tuple[ArrayLike, ArrayLike]


class NetworkShape(NamedTuple):
    """The size of a network, the axes of the check that it is part of, and how large its weight updates have to be next
    to those of the base size, at the input, in hidden layers and at the readout; None: nothing is promised."""

    width: int
    hidden_layers: int
    axes: tuple[str, ...]
    updates: Updates | None = None


ShapeSizes = tuple[NetworkShape, tuple[CoordinateSize, ...]]
"""The sizes of the networks of one shape, one network for each seed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CoordinateSettings:
    """The settings of `mupc.coordinate_check`, which describes them; `network` holds the options of `mupc.Network`."""

    widths: Sequence[int] = (64, 128, 256, 512)
    depths: Sequence[int] = (16, 64, 256)
    width: int = 128
    hidden_layers: int = 8
    steps: int = 3
    seeds: int = 3
    weight_lr: Real = WEIGHT_LR
    optimiser: str = "adam"
    rate_scaling: str | None = None
    solver: SolverChoice | None = None
    energy: Energy | None = None
    multipliers: Multipliers | None = None
    network: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.integer("steps", self.steps, 0)
        checks.integer("seeds", self.seeds, 1)
        checks.integer("width", self.width, 1)
        checks.integer("hidden_layers", self.hidden_layers, SHALLOWEST)
        checks.number("weight_lr", self.weight_lr, above=0)
        checks.lookup("optimiser", self.optimiser, OPTIMISERS)
        check_rate_scaling(self.rate_scaling)

    @property
    def parameterisation(self) -> str:
        """The parameterisation of the networks."""
        return str(self.network.get("parameterisation", "mupc"))

    def shapes(self) -> list[NetworkShape]:
        """Return the networks to measure, each shape once; raise if they cannot be compared."""
        axes: dict[tuple[int, int], list[str]] = {}
        for axis, values, least in (("width", self.widths, 1), ("depth", self.depths, SHALLOWEST)):
            chosen = dict.fromkeys(checks.integer(f"{axis}s", value, least) for value in values)
            if chosen and (len(chosen) < 2 or len(chosen) * self.seeds < 3):
                got = f"{', '.join(map(str, chosen))} with {{seeds}} {self.seeds}"
                wrong = f"needs two values and three networks for a slope with its interval, got {got}."
                raise checks.ArgumentError(f"{axis}s", wrong, "Give more of them.")
            for value in chosen:
                shape = (value, self.hidden_layers) if axis == "width" else (self.width, value)
                axes.setdefault(shape, []).append(axis)
        if not axes:
            raise checks.ArgumentError(
                "widths", "and {depths} leave nothing to compare.", "Give two or more of either."
            )
        return [NetworkShape(*shape, tuple(found)) for shape, found in axes.items()]

    def solver_for(self, hidden_layers: int) -> AbstractSolver:
        """Return the solver for a network of this depth."""
        if self.solver is None:
            return ErrorSpace()
        chosen = self.solver(hidden_layers) if callable(self.solver) else self.solver
        if not isinstance(chosen, AbstractSolver):
            raise TypeError(f"solver must be a solver, or a function of the number of hidden layers, got {chosen!r}.")
        return chosen

    def promised_updates(self, network: Network) -> Updates | None:
        """Return how large the weight updates of a network have to be next to those of the base size. Without a rule
        Adam's are as large as the learning rate, and nothing is known of those of other optimisers."""
        if network.why_no_rate_rule is None:
            first, hidden, last = network.rate_scales(BaseSize()).updates
            return first.weight, hidden.weight, last.weight
        return (1.0, 1.0, 1.0) if self.optimiser == "adam" else None


OWN = {field.name for field in dataclasses.fields(CoordinateSettings)} - {"network"}
"""Keywords of `coordinate_check` that are not options of `mupc.Network`."""


def coordinate_check(data: Dataset | Batch, **settings: Any) -> CoordinateCheck:
    """Check that networks of any width and depth start alike and learn alike: the coordinate check of μP, for
    predictive coding.

    This trains networks of several widths, and of several depths, for a few steps on one batch, and measures the mean
    absolute entry of their activities, residual branches (what a layer adds to its skip connection), outputs, errors,
    activity updates (how far inference moves), weight updates and drift (how far training has moved the activities and
    the output). Sizes s follow s ∝ N^a · H^b. The check fits the exponents, with confidence intervals, and compares
    them with what the parameterisation promises. docs/coordinate-check.md derives the promises.

    **Arguments:**

    - `data`: a `mupc.data.Dataset`, of which the first 64 training samples are used, or one batch `(x, y)`.
    - `widths`, all with `hidden_layers` hidden layers; `depths`, all with `width` units. `()` leaves an axis out.
    - `activation`, `parameterisation`, `skip` and other options of `mupc.Network`.
    - `multipliers`: three numbers, or a function `(width, hidden_layers) -> (input, hidden, readout)`, to check instead
      of the parameterisation's own.
    - `solver`: as for `mupc.infer`, or a function `hidden_layers -> solver`; by default `mupc.ErrorSpace()`.
    - `steps` of training (0 for none), `seeds`, `weight_lr` (default 0.01, so that a few steps do not overshoot).
    - `rate_scaling`, `optimiser` (a name) and `energy`: as for `mupc.fit`, with the default base size.

    **Returns:** a `mupc.CoordinateCheck`.

    **Example:**

    ```python
    import mupc

    digits = mupc.data.load("digits")
    check = mupc.coordinate_check(digits, widths=(32, 64, 128), depths=(), steps=0)
    check.verdicts      # {'at init': {'width': 'pass'}, 'first step': {'width': 'pass'}}
    ```
    """
    network = {name: settings.pop(name) for name in settings.keys() - OWN}
    chosen = CoordinateSettings(**settings, network=network)
    return judge_shapes(list(measure_shapes(data, chosen)), chosen.parameterisation)


def coordinate_sizes(
    network: AbstractNetwork,
    data: Dataset | Batch,
    *,
    solver: SolverChoice | None = None,
    weight_lr: Real = WEIGHT_LR,
    optimiser: str = "adam",
    base: BaseSize | None = None,
    energy: Energy | None = None,
) -> dict[str, np.ndarray]:
    """Return the sizes that `mupc.coordinate_check` compares, for any one network, trained or not.

    **Arguments:** the network, and as for `mupc.coordinate_check`. `base`: the base size of scaled rates, by default
    none; `TrainConfig.base(network)` has that of a run.

    **Returns:** a dictionary with the mean absolute entry of each quantity in each layer that has it: `activities`,
    `errors` and `activity updates` of layers 1 … H, `weight updates` of layers 1 … L, `branches` of layers n + 1 … H
    with a skip n (of `mupc.Network` only), `output` and `output error` of layer L. The weight updates are those of the
    optimiser's first step.

    **Example:**

    ```python
    import jax.random as jr, mupc

    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=16, hidden_layers=4, key=jr.key(0))
    mupc.coordinate_sizes(network, digits)["activities"]
    ```
    """
    check_network(network)
    settings = CoordinateSettings(solver=solver, weight_lr=weight_lr, optimiser=optimiser, energy=energy, steps=0)
    sizes = _sizes(jax.tree.map(lambda leaf: leaf[None], network), _batch(data), settings, base)
    del sizes["drift"]  # zero without training
    return {quantity: values[0, 0] for quantity, values in sizes.items()}


def measure_shapes(data: Dataset | Batch, settings: CoordinateSettings) -> Iterator[ShapeSizes]:
    """Return an iterator over the sizes of networks of each shape. Wrong arguments raise at once, before it starts."""
    x, y = _batch(data)
    classes = y.shape[1] if np.ndim(y) > 1 else int(np.max(y)) + 1
    own, shapes, seeds = settings.multipliers, settings.shapes(), range(settings.seeds)

    def make(shape: NetworkShape, key: Array) -> Network:
        size = shape.width, shape.hidden_layers
        multipliers = own(*size) if callable(own) else own
        return Network(x.shape[1], classes, *size, multipliers=multipliers, key=key, **settings.network)

    forms = [eqx.filter_eval_shape(make, shape, jr.key(0)) for shape in shapes]
    bases = [scaling_base(form, settings.optimiser, settings.rate_scaling, BaseSize()) for form in forms]

    def each() -> Iterator[ShapeSizes]:
        keys = jnp.stack([jr.key(seed) for seed in seeds])
        for shape, form, base in zip(shapes, forms, bases, strict=True):
            networks = quick_jit(eqx.filter_vmap(functools.partial(make, shape)))(keys)
            rows = (
                CoordinateSize(shape.width, shape.hidden_layers, seed, step, quantity, *group)
                for quantity, values in _sizes(networks, (x, y), settings, base).items()
                for seed, step in itertools.product(seeds, range(settings.steps + 1))
                for group in group_sizes(quantity, values[seed, step], shape.hidden_layers)
            )
            yield shape._replace(updates=settings.promised_updates(form)), tuple(rows)

    return each()


def judge_shapes(measured: Sequence[ShapeSizes], parameterisation: str) -> CoordinateCheck:
    """Return the slopes over both axes, with their verdicts."""
    slopes: list[Slope] = []
    updates = {(shape.width, shape.hidden_layers): shape.updates for shape, _ in measured}
    for axis in ("width", "depth"):
        if rows := [size for shape, sizes in measured if axis in shape.axes for size in sizes]:
            slopes += judge_slopes(rows, axis, parameterisation, updates)
    return CoordinateCheck(tuple(size for _, sizes in measured for size in sizes), tuple(slopes))


def _batch(data: Dataset | Batch) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(data, Dataset):
        return data.normalisation(data.train.raw[:BATCH]), data.encode(data.train.targets[:BATCH])
    if not (isinstance(data, tuple) and len(data) == 2):
        raise TypeError(f'data must be a data set such as mupc.data.load("digits"), or a batch (x, y), got {data!r}.')
    x, y = (np.asarray(part) for part in data)
    checks.shape("x", x, ("batch", "in_size"), "Pass one row per sample.")
    return x, y


def _sizes(
    networks: AbstractNetwork, batch: tuple[np.ndarray, np.ndarray], settings: CoordinateSettings, base: BaseSize | None
) -> dict[str, np.ndarray]:
    """Return sizes (networks, steps + 1, layers) of stacked networks, whose rates are scaled from a base size."""
    form = jax.tree.map(lambda leaf: leaf[0], networks)
    solver = traced(settings.solver_for(form.layer_count - 1))
    energy = as_energy(settings.energy, PC(solver).defaults.output_precision)
    policy = resolve_precision(None, networks)
    inputs = as_inputs(form, batch[0])
    inputs, targets = policy.cast((inputs, as_targets(form, batch[1], len(inputs), energy)))
    context = LearningContext(
        energy=energy,
        weight_lr=jnp.asarray(settings.weight_lr, policy.dtype),  # traced: another rate needs no new program
        optimiser=settings.optimiser,
        schedule="constant",
        total_steps=jnp.asarray(settings.steps),
        precision=policy.name,
        base=base,
    )
    sizes = trajectories(networks, inputs, targets, solver, context, settings.steps)
    return {quantity: np.asarray(values, np.float64) for quantity, values in sizes.items()}
