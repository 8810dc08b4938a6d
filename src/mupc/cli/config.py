"""The flags of `mupc train`, and the configuration file that repeats a run. Nothing here imports JAX."""

import dataclasses
import difflib
import json
import re
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from .parse import parse

# A test holds these against the tables of the library, which cannot be imported here without importing JAX.
Activation = Literal["linear", "tanh", "relu", "leaky_relu", "hard_tanh", "gelu", "silu", "selu"]
Parameterisation = Literal["mupc", "sp", "ntp", "orthogonal"]
Init = Literal["gaussian", "kaiming-uniform", "orthogonal"]
Loss = Literal["mse", "cross-entropy"]
Optimiser = Literal["adam", "adamw", "adagrad", "lion", "momentum", "nadam", "rmsprop", "sgd"]
Schedule = Literal["constant", "cosine", "linear", "warmup-cosine"]
Precision = Literal["float32", "tf32", "bf16", "float64"]
Solver = Literal["gd", "adam", "error-space", "exact-linear", "ode"]

ACTIVITY_LR = {"gd": 0.05, "adam": 0.01}
"""By solver. Weights grow in training, and with them the curvature of the energy: larger rates of gd learn a little
faster in the first epochs on digits, but 0.4 collapses after seven, 0.2 within one of MNIST at 32 layers, and 0.1 loses
almost two points at 64."""
WEIGHT_LR, WEIGHT_LR_ALL = 0.1, 0.01
"""Of predictive coding, and of methods whose gradients reach all layers: less is enough then."""


def hint(text: str, metavar: str | None = None) -> Any:
    """What help says of a flag's default."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=text)


def _number_or_word(words: list[str]) -> float | str:
    """A number if it can be one; whether the word is right is for the solver to say, in a line of its own."""
    try:
        return float(words[0])
    except ValueError:
        return words[0]


DataDir = Annotated[str | None, hint("(default: the system's, then the cache)", "DIR")]
NUMBER_OR_AUTO = tyro.constructors.PrimitiveConstructorSpec(
    nargs=1,
    metavar="FLOAT|auto",
    instance_from_str=_number_or_word,
    is_instance=lambda value: value is None or isinstance(value, float | str),
    str_from_instance=lambda value: [str(value)],
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceFlags:
    """Where samples come from."""

    data: str = "digits"
    """A data set (digits, mnist, fashion-mnist, cifar10), or the path of a .npz file."""
    data_dir: DataDir = None
    """Folder with the files of the data set."""
    verify_data: bool = True
    """Refuse files that differ from the published ones."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataFlags(SourceFlags):
    """What to learn. `mupc data list` shows the data sets."""

    validation: float = 0.0
    """Fraction of the training samples to hold out for validation."""
    augment: bool = False
    """Random crops, flips and rotations of the images."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizeFlags:
    """How large a network is."""

    width: int = 64
    """Units of every hidden layer."""
    hidden_layers: int = 16
    """Number of hidden layers."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FormFlags:
    """What a network of any size is like."""

    activation: Activation = "relu"
    """Nonlinearity."""
    parameterisation: Parameterisation = "mupc"
    """How weights and multipliers scale with width and depth: μPC, standard, neural tangent or orthogonal."""
    skip: int = 1
    """Skip connections: 0 for none, 1 for a ResNet, n to skip n layers."""
    init: Annotated[Init | None, hint("(default: the parameterisation's own)")] = None
    """Initial weights."""
    bias: bool = False
    """Give the layers biases."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkFlags(FormFlags, SizeFlags):  # the flags of the last base come first in help
    """What learns."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class InferenceFlags:
    """How activities settle before the weights learn (method pc)."""

    method: Literal["pc", "bp"] = "pc"
    """Predictive coding, or backpropagation as a baseline on the same network."""
    solver: Solver = "gd"
    """Gradient descent, Adam, Gauss–Newton (reaches every layer), exact (linear networks) or the gradient flow."""
    activity_lr: Annotated[
        float | str | None, NUMBER_OR_AUTO, hint(f"(default: gd {ACTIVITY_LR['gd']:g}, adam {ACTIVITY_LR['adam']:g})")
    ] = None
    """Step size, acting on the energy of one sample (the paper's β is 64 times this); auto: gd chooses it itself."""
    momentum: float = 0.0
    """Momentum of gd."""
    inference_steps: Annotated[
        int | None, hint("(default: gd and adam as many as hidden layers, error-space and exact-linear 1, ode 4096)")
    ] = None
    """Steps of inference per batch; an upper limit for ode, and for gd with --activity-lr auto (then by default what
    the network needs)."""
    inference_tol: Annotated[float | None, hint("(default: ode 0.001, others: take all steps)")] = None
    """Stop inference when the activity gradient has fallen to this fraction of its start."""
    cg_steps: int = 2
    """Conjugate-gradient steps in each step of error-space."""
    end_time: float = 10.0
    """End time of ode; one step of gd takes the time --activity-lr."""
    loss: Loss = "mse"
    """Loss at the output."""
    output_precision: float = 1.0
    """Weight λ of the output loss in the energy."""
    activity_decay: float = 0.0
    """Penalty on the squares of activities."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningFlags:
    """How the weights learn."""

    epochs: float = 5.0
    """Passes through the training data; may be a fraction."""
    batch_size: int = 64
    """Samples per step."""
    weight_lr: Annotated[float | None, hint(f"(default: {WEIGHT_LR:g}; bp and error-space {WEIGHT_LR_ALL:g})")] = None
    """Learning rate of the weights. It carries over between widths and depths with μPC; others need less."""
    optimiser: Optimiser = "adam"
    """Weight optimiser."""
    schedule: Schedule = "constant"
    """Course of the learning rate."""
    weight_decay: float = 0.0
    """Penalty on the squares of weights."""
    orthogonality: float = 0.0
    """Penalty on weights that are not orthogonal."""
    precision: Precision = "float32"
    """Number format of matrix products."""
    seed: int = 0
    """Seed of the initial weights, the order of batches and the validation split."""
    evaluate_every: Annotated[int | None, hint("(default: ten times in all, at least once an epoch)")] = None
    """Steps between evaluations."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig(LearningFlags, InferenceFlags, NetworkFlags, DataFlags):
    """Everything that decides the numbers of a training run, one attribute per flag."""

    @property
    def chosen_weight_lr(self) -> float:
        """The learning rate of the weights."""
        if self.weight_lr is not None:
            return self.weight_lr
        return WEIGHT_LR_ALL if self.method == "bp" or self.solver == "error-space" else WEIGHT_LR

    @property
    def chosen_activity_lr(self) -> float | str | None:
        """The step size of inference, of solvers that have one."""
        return ACTIVITY_LR.get(self.solver) if self.activity_lr is None else self.activity_lr


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScreenFlags:
    """What is shown."""

    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print the summary as one JSON object, and nothing else."""
    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print errors only."""
    debug: tyro.conf.FlagCreatePairsOff[bool] = False
    """Show tracebacks."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputFlags(ScreenFlags):
    """Where results go, and what is shown."""

    out: Annotated[str | None, hint("(default: runs/DATA-METHOD-N)", "DIR")] = None
    """Run folder; it must be new or empty."""
    config: Annotated[str | None, hint("(optional)", "FILE")] = None
    """Repeat the run of this config.json; other flags given override it."""
    tensorboard: bool = True
    """Write TensorBoard events into the run folder."""


FORMAT = 1
"""Of `config.json`; a later mupc that reads it in another way counts on."""
SYNONYMS = {"depth": ("hidden_layers",), "beta": ("activity_lr",), "lr": ("weight_lr", "activity_lr")}
"""What others call settings."""
_GROUPS = {"data": DataFlags, "network": NetworkFlags, "inference": InferenceFlags, "learning": LearningFlags}


def parse_with(
    flags_type: Any, argv: list[str], prog: str, description: str, base: Any = None, **others: Any
) -> tuple[TrainConfig, Any]:
    """Flags, over those of `base` or `--config FILE`, over the defaults, for a class that has the groups of a training
    run; `others` are the defaults of the rest."""
    for word in argv:
        if (names := SYNONYMS.get(word.removeprefix("--").partition("=")[0])) and word.startswith("--"):
            meant = " or ".join(f"--{name.replace('_', '-')}" for name in names)
            raise ValueError(f"there is no {word.partition('=')[0]}: did you mean {meant}?")
    if base is None:
        path = given(argv, "--config")
        base = TrainConfig() if path is None else load(path)
    values = dataclasses.asdict(base)
    groups: dict[str, Any] = {name: group(**_pick(values, group)) for name, group in _GROUPS.items()}
    flags = parse(
        flags_type,
        argv,
        prog=prog,
        description=description,
        default=flags_type(**groups, **others),
    )
    found = {key: value for name in _GROUPS for key, value in dataclasses.asdict(getattr(flags, name)).items()}
    return TrainConfig(**found), flags


def as_dict(config: TrainConfig) -> dict[str, Any]:
    """The configuration in the order of the help."""
    values = dataclasses.asdict(config)
    return {key: values[key] for group in _GROUPS.values() for key in _pick(values, group)}


def load(path: str | Path) -> TrainConfig:
    """The configuration in a `config.json`, or in the run folder that holds one."""
    content = read(path)
    values = content.get("config", content)
    if not isinstance(values, dict):
        raise ValueError(f"--config {path} holds no configuration: give the config.json that a run wrote.")
    return from_dict(values, f"--config {path}")


def read(path: str | Path) -> dict[str, Any]:
    """All that a `config.json` holds."""
    file = Path(path).expanduser()
    file = file / "config.json" if file.is_dir() else file
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"--config {path} cannot be read ({error.strerror}): give a run's config.json.") from None
    except (ValueError, RecursionError):
        raise ValueError(f"--config {path} is not JSON: give the config.json that a run wrote.") from None
    if not isinstance(content, dict):
        raise ValueError(f"--config {path} holds no configuration: give the config.json that a run wrote.")
    version = content.get("format", FORMAT)
    if version != FORMAT:
        raise ValueError(f"--config {path} is of format {version!r}, and only {FORMAT} is known here: update mupc.")
    return content


def from_dict(values: Mapping[str, Any], where: str = "the configuration") -> TrainConfig:
    """A configuration from plain values; unknown keys and values of a wrong type are refused."""
    kinds = typing.get_type_hints(TrainConfig)
    for key, value in values.items():
        if key not in kinds:
            near = SYNONYMS.get(key) or difflib.get_close_matches(key, kinds, n=1)
            meant = " or ".join(map(repr, near))
            hint = f"did you mean {meant}?" if near else "`mupc train --help` lists them all."
            raise ValueError(f"{where} has an unknown key {key!r}: {hint}")
        if not _fits(value, kinds[key]):
            near = difflib.get_close_matches(str(value), _words(kinds[key]), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{where} has {key} = {value!r}: it must be {_describe(kinds[key])}.{hint}")
    return TrainConfig(**{key: _typed(value, kinds[key]) for key, value in values.items()})


def given(argv: list[str], name: str) -> str | None:
    """What a flag says, ahead of the real parse, whose defaults it decides."""
    for index, flag in enumerate(argv):
        if flag.startswith(f"{name}="):
            return flag.removeprefix(f"{name}=")
        if flag == name:
            return next(iter(argv[index + 1 :]), None)
    return None


def _pick(values: Mapping[str, Any], group: Any) -> dict[str, Any]:
    return {field.name: values[field.name] for field in dataclasses.fields(group)}


def _options(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union else ()


def _words(kind: Any) -> tuple[str, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def _fits(value: Any, kind: Any) -> bool:
    if options := _options(kind):
        return any(_fits(value, option) for option in options)
    if words := _words(kind):
        return isinstance(value, str) and value in words
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _typed(value: Any, kind: Any) -> Any:
    """JSON writes 1.0 as 1 sometimes: a whole number where only other numbers are meant."""
    kinds = _options(kind) or (kind,)
    return float(value) if isinstance(value, int) and float in kinds and int not in kinds else value


def _describe(kind: Any) -> str:
    if options := _options(kind):
        return " or ".join(_describe(option) for option in options)
    if words := _words(kind):
        return "one of " + ", ".join(words)
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}
    return names[kind]


_SPELLINGS = {
    r'\blr="auto"': "--activity-lr auto",
    r"^lr\b": "activity_lr",
    r"^steps\b": "inference_steps",
    r"^tol\b": "inference_tol",
    r"^t1\b": "end_time",
    r"\bExactLinear\b": "--solver exact-linear",
    r", or give chunk=1 to try it all the same": "",
    r"\bmupc\.ErrorSpace\b(\(.*?\))?": "--solver error-space",
}
"""What the library calls its solvers and their arguments, where flags have other names."""


def in_flags(message: str) -> str:
    """A message of the library with its arguments named as flags: `hidden_layers` becomes `--hidden-layers`."""
    names = sorted((field.name for field in dataclasses.fields(TrainConfig)), key=len, reverse=True)
    for spelling, name in _SPELLINGS.items():
        message = re.sub(spelling, name, message)
    for name in (name for name in names if "_" in name or re.match(rf"{name}( must|=)", message)):
        message = re.sub(rf"(?<![\w-]){name}=(?=\S)", f"--{name.replace('_', '-')} ", message)
        message = re.sub(rf"(?<![\w-]){name}\b", f"--{name.replace('_', '-')}", message)
    return message
