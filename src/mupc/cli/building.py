"""Build what a training run needs from its flags: data, network, algorithm, energy and configuration."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.sharding import Mesh

from .. import data
from ..data import Dataset
from ..inference import (
    ODE,
    AbstractSolver,
    Energy,
    ErrorSpace,
    ExactLinear,
    GradientDescent,
    MonteCarlo,
    Optax,
    infer,
)
from ..io import checks, process_count
from ..learning import (
    ALM,
    BP,
    IPC,
    PC,
    ZIL,
    AbstractAlgorithm,
    AbstractSolving,
    Amortised,
    EquilibriumPropagation,
    Nudged,
)
from ..network import PARAMETERISATIONS, AbstractNetwork, Chain, Network, make_mesh, models
from ..training import TrainConfig, check_room
from .config import METHOD_FLAGS, SOLVER_FLAGS, TrainFlags, pick
from .flags import ACTIVITY_LR, DEFAULT_SOLVERS, TEST, SizeFlags, SourceFlags
from .parsing import flag

EVALUATIONS = 10


def number_format(precision: str) -> AbstractContextManager[None]:
    """Return a context with JAX's 64-bit mode on if the run asks for it, and off otherwise."""
    return jax.enable_x64(precision == "float64")


def load_data(flags: TrainFlags) -> Dataset:
    """Load the data set, with its validation split."""
    dataset = load_source(flags)
    return dataset.with_validation(flags.validation, flags.seed) if flags.validation else dataset


def load_source(flags: SourceFlags) -> Dataset:
    """Load the data set without a validation split."""
    given = {name: getattr(flags, name) for name in ("target", "test", "context", "image_size")}
    given["one_hot"] = flags.one_hot or None
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return data.load(flags.data, data_dir=flags.data_dir, verify=flags.verify_data, task=flags.task, **options)


def build(flags: TrainFlags, dataset: Dataset, mesh: Mesh | None = None) -> tuple[AbstractNetwork, AbstractAlgorithm]:
    """Return the network, sized for a data set, and the algorithm that trains it on these devices. Refuse a network
    that does not fit into memory, before it is made."""
    make = network_maker(flags, dataset)
    form = eqx.filter_eval_shape(make)
    algorithm = make_algorithm(flags, form)
    config = train_config(flags, dataset)
    config.check(form, dataset, algorithm)
    check_room(config, form, dataset, algorithm, mesh=mesh)
    return make(), algorithm


MODEL_FLAGS = {
    "mlp": ("hidden_layers", "skip", "init", "orthogonality"),
    "resnet": ("blocks", "convolutions"),
    "vgg": ("vgg",),
    "transformer": ("blocks", "heads", "split", "normalise_embedding"),
}
"""Flags that not every model has."""
MODEL_ARGUMENTS = {"vgg": "layers", "bias": "use_bias"}
"""Arguments of models whose flags have other names."""
SMALL: dict[str, dict[str, Any]] = {
    "mlp": {"width": 64},
    "resnet": {"width": 16, "blocks": (2, 2, 2)},
    "vgg": {"width": 64},
    "transformer": {},
}
"""Defaults with which a model learns digits in a minute on a CPU."""


def foreign_flags(model: str) -> list[str]:
    """Return the flags that other models have, and this one does not."""
    every = dict.fromkeys(name for names in MODEL_FLAGS.values() for name in names)
    return [name for name in every if name not in MODEL_FLAGS[model]]


def network_maker(flags: TrainFlags, dataset: Dataset) -> Callable[[], AbstractNetwork]:
    """Return a function that makes the network, sized for a data set. Refuse flags that its model does not have."""
    for name in foreign_flags(flags.model):
        if getattr(flags, name) != getattr(TrainFlags, name):
            users = " or ".join(f"--model {model}" for model, names in MODEL_FLAGS.items() if name in names)
            raise ValueError(f"{flag(name)} has no effect with --model {flags.model}: leave it out, or use {users}.")
    key = jr.key(checks.seed(flags.seed))
    if flags.model == "mlp":
        size = SMALL["mlp"] | {name: value for name, value in pick(flags, SizeFlags).items() if value is not None}
        options = size | form_options(flags)
        return functools.partial(Network, dataset.in_size, dataset.out_size, **options, key=key)
    return functools.partial(models.MODELS[flags.model], **model_options(flags, dataset), key=key)


def model_options(flags: TrainFlags, dataset: Dataset) -> dict[str, Any]:
    """Return the arguments of a model of `mupc.models`."""
    fixed = models.data_arguments(flags.model, dataset)
    options = SMALL[flags.model] | form_options(flags) | fixed
    size = {"width": flags.width, "blocks": flags.blocks}
    options |= {name: value for name, value in size.items() if value is not None}
    if (blocks := options.get("blocks")) is not None and len(blocks) == 1:
        options["blocks"] = blocks * models.RESNET_STAGES if flags.model == "resnet" else blocks[0]
    elif blocks is not None and flags.model == "transformer":
        raise ValueError("--blocks has several numbers, which are for a resnet: give a transformer one.")
    return options


def make_algorithm(flags: TrainFlags, network: AbstractNetwork | None = None) -> AbstractAlgorithm:
    """Return the algorithm for a network; by default the mlp of the flags."""
    choice, settings = METHODS[flags.method], method_settings(flags, network)
    solver = {"solver": make_solver(flags, network)} if flags.method in DEFAULT_SOLVERS else {}
    return choice.make(**solver, **{ARGUMENTS.get(name, name): value for name, value in settings.items()})


def check_run(flags: TrainFlags, dataset: Dataset, shapes: bool = True) -> None:
    """Refuse a run that cannot be trained. Nothing is computed but shapes; without them, settings alone are checked."""
    config = train_config(flags, dataset)
    make_algorithm(flags)
    make = network_maker(flags, dataset)
    if not shapes:
        return
    with number_format(flags.precision):
        network = eqx.filter_eval_shape(make)
        algorithm = make_algorithm(flags, network)
        config.check(network, dataset, algorithm)
        check_room(config, network, dataset, algorithm)
        if isinstance(algorithm, AbstractSolving):
            x, y = jnp.zeros((1, network.in_size)), jnp.zeros((1, *network.output_shape))
            eqx.filter_eval_shape(infer, network, x, y, algorithm.solver, energy=config.energy)


def form_options(flags: TrainFlags) -> dict[str, Any]:
    """Return the arguments of the model that do not depend on its size or on the data."""
    elsewhere = ("hidden_layers", "blocks", "orthogonality")
    own = (name for name in MODEL_FLAGS[flags.model] if name not in elsewhere)
    names = ("activation", "parameterisation", "bias", *own)
    given = {MODEL_ARGUMENTS.get(name, name): getattr(flags, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def make_energy(flags: TrainFlags) -> Energy:
    """Return the energy."""
    return Energy(**pick(flags, Energy))


def parse_devices(text: str | None, known: Sequence[str]) -> Mesh | None:
    """Return the mesh that --devices asks for, such as 8 or data=2,layers=4. A number alone is for the first of the
    `known` axes."""
    if text is None and process_count() == 1:
        return None
    text = str(jax.device_count()) if text is None else text
    sizes: dict[str, int] = {}
    for part in text.split(",") if "=" in text else [f"{known[0]}={text}"]:
        axis, _, size = (word.strip() for word in part.partition("="))
        if axis not in known:
            raise checks.unknown("devices", axis, known)
        if axis in sizes or not (size.isdecimal() and int(size)):
            cure = f"Write a number such as 8, or {' and '.join(known)} with a number each: {known[0]}=2,{known[1]}=4."
            raise checks.ArgumentError("devices", f"= {text} is not a number of devices for each axis.", cure)
        sizes[axis] = int(size)
    return make_mesh(sizes)


def train_config(flags: TrainFlags, dataset: Dataset, **settings: Any) -> TrainConfig:
    """Return the configuration of training, with further `settings` that are not flags of every command."""
    config = TrainConfig(**pick(flags, TrainConfig) | {"energy": make_energy(flags)} | settings).suited_to(dataset)
    return dataclasses.replace(config, evaluate_every=config.evaluate_every or evaluation_interval(config, dataset))


def as_used(flags: TrainFlags, dataset: Dataset, network: AbstractNetwork, algorithm: AbstractAlgorithm) -> TrainFlags:
    """Return the flags with every value that was left to a default. What has no meaning for the method or the solver is
    None."""
    config = train_config(flags, dataset).chosen(network, algorithm)
    chosen = ("weight_lr", "rate_scaling", "schedule", "precision", "evaluate_every")
    values = {name: getattr(config, name) for name in chosen}
    values["batch_size"] = config.batches(dataset).batch_size
    values |= {"task": dataset.schema.task, "loss": config.objective.loss}
    if isinstance(network, Chain) and network.recipe is not None:
        arguments = dict(network.recipe.arguments)
        for name in ("width", *MODEL_FLAGS[flags.model]):
            value = arguments[MODEL_ARGUMENTS.get(name, name)]
            values[name] = (value,) if name == "blocks" and isinstance(value, int) else value
    else:
        values["width"] = network.width if isinstance(network, Network) else flags.width
        values["init"] = flags.init or PARAMETERISATIONS[flags.parameterisation].init
    values["context"] = dataset.schema.context
    if flags.test is None and data.is_split_at_random(flags.data):
        values["test"] = TEST
    values |= dict.fromkeys(("solver", *SOLVER_FLAGS, *METHOD_FLAGS))
    if METHODS[flags.method].infers:
        values["output_precision"] = config.objective.output_precision
    if flags.method in DEFAULT_SOLVERS:
        values |= {"solver": solver_name(flags)} | solver_settings(flags, network)
    values |= method_settings(flags, network)
    return dataclasses.replace(flags, **values)


def evaluation_interval(config: TrainConfig, dataset: Dataset) -> int:
    """Return the steps between ten evaluations in all, and at least one an epoch: enough for a curve."""
    per_epoch = config.batches(dataset).per_epoch
    return max(1, min(per_epoch, math.ceil(config.epochs * per_epoch / EVALUATIONS)))


class MethodChoice(NamedTuple):
    """A function that makes an algorithm, the flags that it uses apart from those of its solver, with their defaults,
    and whether it infers activities."""

    make: Callable[..., AbstractAlgorithm]
    flags: Mapping[str, float | int | str | None] = MappingProxyType({})
    infers: bool = True


METHODS = {
    "pc": MethodChoice(PC),
    "bp": MethodChoice(BP, infers=False),
    "ipc": MethodChoice(IPC),
    "nudged": MethodChoice(Nudged, {"nudge": 0.3, "final_nudge": None, "nudge_sign": "centred"}),
    "alm": MethodChoice(ALM, {"activity_lr": 0.25, "inference_steps": None, "penalty": 1.0, "dual_lr": 1.0}),
    "zil": MethodChoice(ZIL, infers=False),
    "amortised": MethodChoice(Amortised, {"start_lr": 0.003}),
    "ep": MethodChoice(
        EquilibriumPropagation,
        {"activity_lr": 0.2, "inference_steps": 30, "nudge_steps": 10, "nudge": 0.3, "nudge_sign": "centred"},
    ),
}


def idle_flags(flags: TrainFlags) -> list[str]:
    """Return the flags that were given and have no effect on the method."""
    _, known, infers = METHODS[flags.method]
    unused = METHOD_FLAGS if flags.method in DEFAULT_SOLVERS else (*METHOD_FLAGS, "solver", *SOLVER_FLAGS)
    unused = unused if infers else (*unused, "output_precision")
    return [name for name in unused if name not in known and getattr(flags, name) is not None]


def method_settings(flags: TrainFlags, network: AbstractNetwork | None = None) -> dict[str, Any]:
    """Return the flags of the method apart from those of its solver, as used. Flags without an effect on it are
    refused."""
    known = METHODS[flags.method].flags
    for name in idle_flags(flags):
        users = [f"--method {other}" for other, choice in METHODS.items() if name in choice.flags]
        cure = " or ".join(users) if name in METHOD_FLAGS else "--method pc"
        effect = f"{flag(name)} {getattr(flags, name)} has no effect with --method {flags.method}"
        raise ValueError(f"{effect}: leave it out, or use {cure}.")
    settings = _with_defaults(flags, known)
    if settings.get("inference_steps", 1) is None:
        settings["inference_steps"] = 2 * (flags.hidden_layers + 1 if network is None else network.layer_count)
    return settings


def _with_defaults(flags: TrainFlags, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return those flags that are known, with defaults for those that were left out."""
    return {name: default if getattr(flags, name) is None else getattr(flags, name) for name, default in known.items()}


class SolverChoice(NamedTuple):
    """A function that makes a solver, and the flags that it uses with their defaults. Steps without a default are as
    many as hidden layers."""

    make: Callable[..., AbstractSolver]
    flags: Mapping[str, float | int | None]


_ALL_STEPS = {"inference_steps": None, "inference_tol": None}
_ONE_STEP = {"inference_steps": 1, "inference_tol": None}
SOLVERS = {
    "gd": SolverChoice(GradientDescent, {"activity_lr": ACTIVITY_LR["gd"], "momentum": 0.0, **_ALL_STEPS}),
    "adam": SolverChoice(Optax.adam, {"activity_lr": ACTIVITY_LR["adam"], **_ALL_STEPS}),
    "error-space": SolverChoice(ErrorSpace, {"cg_steps": 2, **_ONE_STEP}),
    "exact-linear": SolverChoice(ExactLinear, _ONE_STEP),
    "ode": SolverChoice(ODE, {"end_time": 10.0, "inference_steps": 4096, "inference_tol": 1e-2}),
    "monte-carlo": SolverChoice(
        MonteCarlo, {"activity_lr": ACTIVITY_LR["monte-carlo"], "temperature": 1.0, "inference_steps": None}
    ),
}
ARGUMENTS = {
    "activity_lr": "lr",
    "inference_steps": "steps",
    "inference_tol": "tol",
    "end_time": "t1",
    "nudge": "beta",
    "final_nudge": "final_beta",
    "nudge_sign": "sign",
}
"""Arguments of solvers and methods whose flags have other names."""


def solver_name(flags: TrainFlags) -> str:
    """Return the solver that was given, or the default of the method."""
    return flags.solver or DEFAULT_SOLVERS[flags.method]


def make_solver(flags: TrainFlags, network: AbstractNetwork | None = None) -> AbstractSolver:
    """Return the solver that the flags ask for, with the defaults for a network."""
    settings = solver_settings(flags, network)
    return SOLVERS[solver_name(flags)].make(**{ARGUMENTS.get(name, name): settings[name] for name in settings})


def solver_settings(flags: TrainFlags, network: AbstractNetwork | None = None) -> dict[str, Any]:
    """Return the flags of the solver, as used. Flags without an effect on it are refused."""
    solver = solver_name(flags)
    known = SOLVERS[solver].flags
    for name in SOLVER_FLAGS:
        value = getattr(flags, name)
        if name not in known and value is not None:
            users = " or ".join(other for other, choice in SOLVERS.items() if name in choice.flags)
            used = f"the default solver, {solver}" if flags.solver is None else f"--solver {solver}"
            written = f"{flag(name)} {value} has no effect with {used}"
            raise ValueError(f"{written}: leave it out, or use --solver {users}.")
    settings = _with_defaults(flags, known)
    if solver != "gd" and isinstance(settings.get("activity_lr"), str):
        wanted = f"give {solver} a number, such as {ACTIVITY_LR[solver]:g}"
        raise ValueError(f"--activity-lr {flags.activity_lr} needs --solver gd: {wanted}.")
    if settings["inference_steps"] is None and settings.get("activity_lr") != "auto":
        settings["inference_steps"] = flags.hidden_layers if network is None else network.layer_count - 1
    return settings
