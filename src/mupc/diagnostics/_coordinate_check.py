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
from ..network import AbstractNetwork, BaseSize, Network, Real, as_inputs, check_network, models, resolve_precision
from ._exponents import CoordinateCheck, CoordinateSize, Slope, Updates, group_sizes, judge_slopes
from ._sizes import mean_entry, quick_jit, trajectories

BATCH = 64
"""Samples of a data set to train on, the same in every step, so that sizes change for no other reason."""
WEIGHT_LR = 0.01
"""Small, so that a few steps do not overshoot."""
SHALLOWEST = 4
"""Hidden layers: the input layer and three thirds of one layer each."""


class CheckDefaults(NamedTuple):
    """What is compared, for one model: widths, which all have the depth `depth`, and depths, which all have the width
    `width`. How outputs are judged."""

    widths: tuple[int, ...] = ()
    depths: tuple[int, ...] = ()
    width: int = 32
    depth: int | None = 4
    loss: str = "mse"


CHECK_DEFAULTS = {
    "mlp": CheckDefaults((64, 128, 256, 512), (16, 64, 256), width=128, depth=8),
    "resnet": CheckDefaults((16, 32, 64, 128), (4, 8, 16), width=16, depth=1),
    "vgg": CheckDefaults((16, 32, 64, 128), depth=None),
    "transformer": CheckDefaults((128, 256, 512), (12, 48), width=32, depth=3, loss="cross-entropy"),
}
"""By model. Slopes are those of large networks, so that a size must not be too small: in narrow ones
random moves of weights add to those that pull together; in shallow ones many layers are not on a branch, and a third of
the layers is not centred on the same share of the depth."""

Multipliers = tuple[float, ...] | Callable[[int, int], tuple[float, ...]]
SolverChoice = AbstractSolver | Callable[[int], AbstractSolver]
Batch = tuple[ArrayLike, ArrayLike]


class NetworkShape(NamedTuple):
    """The size of a network (its depth counts hidden layers or blocks; None: the model has only one), the axes of the
    check that it is part of, how large its weight updates have to be next to those of the base size (None: nothing is
    promised), and whether its learning rates are scaled."""

    width: int
    hidden_layers: int | None
    axes: tuple[str, ...]
    updates: Updates | None = None
    scaled: bool = False


ShapeSizes = tuple[NetworkShape, tuple[CoordinateSize, ...]]
"""The sizes of the networks of one shape, one network for each seed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CoordinateSettings:
    """The settings of `mupc.coordinate_check`, which describes them; `network` holds the options of the model."""

    model: models.Model = models.MLP
    widths: Sequence[int] | None = None
    depths: Sequence[int] | None = None
    width: int | None = None
    hidden_layers: int | None = None
    blocks: int | None = None
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
        models.check_model(self.model)
        for name, given in {"hidden_layers": self.hidden_layers, "blocks": self.blocks}.items():
            if given is not None and name != self.depth_name:
                wrong = f"has no effect with {{model}} {self.model}."
                raise checks.ArgumentError(name, wrong, "Leave it out, or use another model.")
        if self.multipliers is not None and self.model != models.MLP:
            wrong = "are for the mlp: other models have a multiplier in every node."
            raise checks.ArgumentError("multipliers", wrong, "Leave them out.")
        checks.integer("width", self.compared.width, 1)
        if self.depth_name is not None:
            checks.integer(self.depth_name, self.compared.depth, self.shallowest)
        checks.number("weight_lr", self.weight_lr, above=0)
        checks.lookup("optimiser", self.optimiser, OPTIMISERS)
        check_rate_scaling(self.rate_scaling)

    @property
    def parameterisation(self) -> str:
        """The parameterisation of the networks."""
        return str(self.network.get("parameterisation", "mupc"))

    @property
    def depth_name(self) -> str | None:
        """What depths count; None if the model has only one."""
        return models.depth_name(self.model)

    @property
    def shallowest(self) -> int:
        """The least depth; of other models than the mlp `measure_shapes` counts the nodes."""
        return SHALLOWEST if self.model == models.MLP else 1

    @property
    def compared(self) -> CheckDefaults:
        """The sizes to compare, with what was left to a default."""
        default = CHECK_DEFAULTS[self.model] if isinstance(self.model, str) else CheckDefaults()
        depth = self.hidden_layers if self.blocks is None else self.blocks
        given: Any = {"widths": self.widths, "depths": self.depths, "width": self.width, "depth": depth}
        return default._replace(**{name: value for name, value in given.items() if value is not None})

    def shapes(self) -> list[NetworkShape]:
        """Return the networks to measure, each shape once; raise if they cannot be compared."""
        widths, depths, width, depth, _ = self.compared
        if depths and self.depth_name is None:
            wrong = f"has no effect with {{model}} {self.model}, which has only one depth."
            raise checks.ArgumentError("depths", wrong, "Leave it out, or use another model.")
        axes: dict[tuple[int, int | None], list[str]] = {}
        for axis, values, least in (("width", widths, 1), ("depth", depths, self.shallowest)):
            chosen = dict.fromkeys(checks.integer(f"{axis}s", value, least) for value in values)
            if chosen and (len(chosen) < 2 or len(chosen) * self.seeds < 3):
                got = f"{', '.join(map(str, chosen))} with {{seeds}} {self.seeds}"
                wrong = f"needs two values and three networks for a slope with its interval, got {got}."
                raise checks.ArgumentError(f"{axis}s", wrong, "Give more of them.")
            for value in chosen:
                shape = (value, depth) if axis == "width" else (width, value)
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

    def promised_updates(self, network: AbstractNetwork) -> Updates | None:
        """Return how large the weight updates of a network have to be next to those of the base size, by group of
        layers. Without a rule Adam's are as large as the learning rate, and nothing is known of those of other
        optimisers."""
        ruled = network.why_no_rate_rule is None
        if not ruled and self.optimiser != "adam":
            return None
        ones = jax.tree.map(lambda leaf: jnp.ones(leaf.shape), network)
        updates = ones.scaled(network.rate_scales(BaseSize()).updates) if ruled else ones
        sizes = np.asarray(updates.per_layer(mean_entry), np.float64)
        return {group: size for group, _, size in group_sizes("weight updates", sizes, network.layer_count - 1)}


OWN = {field.name for field in dataclasses.fields(CoordinateSettings)} - {"network"}
"""Keywords of `coordinate_check` that are not options of the model."""


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
    - `model`: `"mlp"` (`mupc.Network`, the default), `"resnet"`, `"vgg"`, `"transformer"`, or a function
      `(width, depth, key) -> network`. Other models than the mlp need a data set.
    - `widths`, all with `hidden_layers` hidden layers (other models: `blocks`); `depths`, all with `width` units. `()`
      leaves an axis out. The depth of a resnet is the number of blocks in each of three stages. A vgg has one depth.
    - `activation`, `parameterisation` and other options of the model.
    - `multipliers`: three numbers, or a function `(width, hidden_layers) -> (input, hidden, readout)`, to check instead
      of the parameterisation's own.
    - `solver`: as for `mupc.infer`, or a function `latents -> solver` of their number; by default `mupc.ErrorSpace()`.
    - `steps` of training (0 for none), `seeds`, `weight_lr` (default 0.01, so that a few steps do not overshoot).
    - `rate_scaling`, `optimiser` (a name) and `energy`: as for `mupc.fit`, with the default base size. A transformer
      has cross-entropy by default.

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
    shapes, seeds = settings.shapes(), range(settings.seeds)
    build = _builder(data, settings)

    def make(shape: NetworkShape, key: Array) -> AbstractNetwork:
        return build(shape.width, shape.hidden_layers, key)

    forms = [eqx.filter_eval_shape(make, shape, jr.key(0)) for shape in shapes]
    for shape, form in zip(shapes, forms, strict=True):
        if form.layer_count <= SHALLOWEST:
            name = "depths" if "depth" in shape.axes else "blocks"
            wrong = f"= {shape.hidden_layers} makes {form.layer_count - 1} latents, and thirds need {SHALLOWEST}."
            raise checks.ArgumentError(name, wrong, "Give more.")
    bases = [scaling_base(form, settings.optimiser, settings.rate_scaling, BaseSize()) for form in forms]

    def each() -> Iterator[ShapeSizes]:
        keys = jnp.stack([jr.key(seed) for seed in seeds])
        for shape, form, base in zip(shapes, forms, bases, strict=True):
            networks = quick_jit(eqx.filter_vmap(functools.partial(make, shape)))(keys)
            rows = (
                CoordinateSize(shape.width, shape.hidden_layers, seed, step, quantity, *group)
                for quantity, values in _sizes(networks, (x, y), settings, base).items()
                for seed, step in itertools.product(seeds, range(settings.steps + 1))
                for group in group_sizes(quantity, values[seed, step], form.layer_count - 1)
            )
            yield shape._replace(updates=settings.promised_updates(form), scaled=base is not None), tuple(rows)

    return each()


def _builder(data: Dataset | Batch, settings: CoordinateSettings) -> models.MakeNetwork:
    """Return a function of width, depth and key that makes the networks to compare."""
    if settings.model != models.MLP:
        dataset = data if isinstance(data, Dataset) else None
        return models.sized_model(settings.model, dataset, settings.network)
    x, y = _batch(data)
    classes = y.shape[1] if np.ndim(y) > 1 else int(np.max(y)) + 1
    own = settings.multipliers

    def make(width: int, depth: int | None, key: Array) -> Network:
        assert depth is not None
        multipliers = own(width, depth) if callable(own) else own
        return Network(x.shape[1], classes, width, depth, multipliers=multipliers, key=key, **settings.network)

    return make


def judge_shapes(measured: Sequence[ShapeSizes], parameterisation: str) -> CoordinateCheck:
    """Return the slopes over both axes, with their verdicts."""
    slopes: list[Slope] = []
    updates = {(shape.width, shape.hidden_layers): shape.updates for shape, _ in measured}
    for axis in ("width", "depth"):
        if rows := [size for shape, sizes in measured if axis in shape.axes for size in sizes]:
            slopes += judge_slopes(rows, axis, parameterisation, updates, measured[0][0].scaled)
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
    objective = Energy(loss=settings.compared.loss) if settings.energy is None else settings.energy
    energy = as_energy(objective, PC(solver).defaults.output_precision)
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
