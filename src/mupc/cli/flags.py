"""Groups of flags that commands share, and their defaults. Nothing here imports JAX."""

import dataclasses
from typing import Annotated, Literal

import tyro

# A test compares these with the tables of the library, which cannot be imported here without importing JAX.
Activation = Literal["linear", "tanh", "relu", "leaky_relu", "hard_tanh", "gelu", "silu", "elu", "selu"]
Parameterisation = Literal["mupc", "sp", "ntp", "orthogonal"]
Init = Literal["gaussian", "kaiming-uniform", "orthogonal"]
Loss = Literal["mse", "cross-entropy"]
Optimiser = Literal["adam", "adamw", "adagrad", "lion", "momentum", "nadam", "rmsprop", "sgd"]
Schedule = Literal["constant", "cosine", "linear", "warmup-cosine"]
Precision = Literal["float32", "tf32", "bf16", "float64"]
AutoPrecision = Literal["auto", "float32", "tf32", "bf16", "float64"]
RateScaling = Literal["mup", "none"]
FigureFormat = Literal["png", "pdf", "svg"]
Method = Literal["pc", "bp", "ipc", "nudged", "alm", "zil", "amortised", "ep"]
Model = Literal["mlp", "resnet", "vgg", "transformer"]
Solver = Literal["gd", "adam", "error-space", "exact-linear", "ode", "monte-carlo"]

ACTIVITY_LR = {"gd": 0.05, "adam": 0.01, "monte-carlo": 0.05}
"""Step size of inference by solver. Weights grow in training, and so does the curvature of the energy: larger rates of
gd learn a little faster in the first epochs on digits, but 0.4 collapses after seven epochs, 0.2 within one epoch of
MNIST at 32 layers, and 0.1 loses almost two points at 64."""
SOLVER: Solver = "error-space"
"""The solver of `mupc train`, as of `mupc.fit`. It decides the defaults of --weight-lr and --output-precision."""
DEFAULT_SOLVERS: dict[str, Solver] = {"pc": SOLVER, "nudged": SOLVER, "ipc": "gd", "amortised": "gd"}
"""The solver of each method that takes one. One step of error space would leave the last two nothing of their own."""


def hint(text: str, metavar: str | None = None) -> object:
    """Describe a flag's default in the help."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=text)


InferenceSteps = Annotated[
    int | None,
    hint(
        "(default: gd, adam and monte-carlo as many as hidden layers, alm twice all layers, ep 30, ode 4096, others 1)"
    ),
]
OutputPrecision = Annotated[float | None, hint("(default: pc in error-space 0.01, others 1)")]
ActivityRate = Annotated[
    float | str | None,
    hint(
        f"(default: {', '.join(f'{solver} {lr:g}' for solver, lr in ACTIVITY_LR.items())}, alm 0.25, ep 0.2)",
        "FLOAT|auto",
    ),
]
LossFlag = Annotated[Loss | None, hint("(default: mse; of a text cross-entropy)")]
RateScalingFlag = Annotated[RateScaling | None, hint("(default: mup with μPC, others none)")]
TEST = 0.2
Devices = Annotated[str | None, hint("(default: one)", "N|AXIS=N,...")]
DataDir = Annotated[str | None, hint("(default: the system's, then the cache)", "DIR")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadingFlags:
    """Which samples to read, and how."""

    data: str | None = None
    """A data set, or data of your own."""
    target: Annotated[str | None, hint("(for tables)", "COLUMN")] = None
    """Column of the table to learn; all others are inputs."""
    image_size: Annotated[tuple[int, ...] | None, hint("(for folders)", "INT [INT]")] = None
    """Height and width to bring the images of a folder to; one number for squares."""
    context: Annotated[int | None, hint("(default: 64 of a text)")] = None
    """Characters of a text that the network sees at a time."""
    data_dir: DataDir = None
    """Folder with the files of the data set."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceFlags(ReadingFlags):
    """Where samples come from."""

    data: str = "digits"
    """A data set (digits, mnist, fashion-mnist, cifar10, tinyshakespeare), a file of your own, .npz, .csv (a table) or
    .txt (a text), or a folder with a subfolder of images for each class."""
    one_hot: bool = False
    """Give every category of a column of text its own input."""
    task: Literal["auto", "classification", "regression", "text"] = "auto"
    """Whether targets of your own are classes or values; auto: text and few different whole numbers are classes."""
    test: Annotated[float | None, hint(f"(default: {TEST:g} of a table or folder)")] = None
    """Fraction of the rows of a table, or of the images of a folder, to test on."""
    verify_data: bool = True
    """Refuse files that differ from the published ones."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataFlags(SourceFlags):
    """What to learn. `mupc data list` shows the data sets."""

    validation: float = 0.0
    """Fraction of the training samples to hold out for validation."""
    augment: bool = False
    """Random crops, rotations and, in colour, flips of the images; windows of a text begin anywhere."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizeFlags:
    """The size of a network."""

    width: Annotated[int | None, hint("(default: 64; resnet 16)")] = None
    """Units of every hidden layer; channels of the first convolution; the size of the vector of each character."""
    hidden_layers: int = 16
    """Number of hidden layers of an mlp."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FormFlags:
    """The form of a network of any size."""

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
class ModelFlags:
    """The architecture of a network, and what only some have."""

    model: Model = "mlp"
    """A residual mlp; for images a residual or a plain convolutional network; for texts a transformer."""
    blocks: Annotated[tuple[int, ...] | None, hint("(default: resnet 2 2 2, transformer 4)", "INT [INT ...]")] = None
    """Residual blocks of each stage of a resnet (one number: of each of three stages), or of a transformer."""
    convolutions: Annotated[int | None, hint("(default: 1)")] = None
    """Convolutions in each block of a resnet."""
    vgg: Annotated[Literal["vgg5", "vgg7"] | None, hint("(default: vgg5)")] = None
    """The layers of a vgg."""
    heads: Annotated[int | None, hint("(default: 4)")] = None
    """Heads of attention of a transformer."""
    split: bool = False
    """Give the attention and the mlp in a transformer's blocks activities of their own."""
    normalise_embedding: bool = False
    """Divide the output of a transformer's embedding by its root mean square."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkFlags(FormFlags, SizeFlags, ModelFlags):  # the flags of the last base come first in help
    """What learns."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class InferenceFlags:
    """How activities settle before the weights learn."""

    method: Method = "pc"
    """Predictive coding, backpropagation, or one of their relatives, which docs/algorithms.md explains."""
    solver: Annotated[Solver | None, hint(f"(default: {SOLVER}; ipc and amortised gd)")] = None
    """Gradient descent (the paper's), Adam, Gauss–Newton (reaches all layers), exact (linear), the flow, or samples."""
    activity_lr: ActivityRate = None
    """Step size for the energy of one sample (the paper's β is 64 times this); auto: gd and alm choose it."""
    momentum: Annotated[float | None, hint("(default: 0)")] = None
    """Momentum of gd."""
    temperature: Annotated[float | None, hint("(default: 1)")] = None
    """Temperature of monte-carlo; 0 is gradient descent."""
    inference_steps: InferenceSteps = None
    """Steps of inference per batch; an upper limit for ode, and for gd with --activity-lr auto, which by default takes
    as many as the network needs."""
    inference_tol: Annotated[float | None, hint("(default: ode 0.01, others: take all steps)")] = None
    """Stop inference when the activity gradient has fallen to this fraction of its start."""
    cg_steps: Annotated[int | None, hint("(default: 2)")] = None
    """Conjugate-gradient steps in each step of error-space."""
    end_time: Annotated[float | None, hint("(default: 10)")] = None
    """End time of ode; one step of gd takes the time --activity-lr."""
    nudge: Annotated[float | None, hint("(default: 0.3)")] = None
    """Strength of the nudge of nudged and ep: the loss pulls on the output with β times its force."""
    final_nudge: Annotated[float | None, hint("(default: stays)")] = None
    """Strength of the nudge of nudged at the end of the run; it gets there in a straight line."""
    nudge_sign: Annotated[Literal["positive", "negative", "centred"] | None, hint("(default: centred)")] = None
    """Direction of the nudge: to the target, away from it, or both."""
    penalty: Annotated[float | None, hint("(default: 1)")] = None
    """Weight ρ of the squared errors (alm)."""
    dual_lr: Annotated[float | None, hint("(default: 1)")] = None
    """Step size α of the multipliers (alm)."""
    nudge_steps: Annotated[int | None, hint("(default: 10)")] = None
    """Steps of each nudged phase of ep, after those of the free one."""
    start_lr: Annotated[float | None, hint("(default: 0.003)")] = None
    """Learning rate of the second network (amortised)."""
    loss: LossFlag = None
    """Loss at the output; mse is ½ the sum of squared errors over the outputs, as in the paper."""
    output_precision: OutputPrecision = None
    """Weight λ of the output loss in the energy."""
    activity_decay: float = 0.0
    """Penalty on the squares of activities."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaceFlags:
    """How long weights learn, and how fast."""

    epochs: float = 5.0
    """Passes through the training data; may be a fraction."""
    batch_size: Annotated[int | None, hint("(default: 64, or all samples if there are fewer)")] = None
    """Samples per step."""
    weight_lr: Annotated[
        float | None,
        hint("(default: 0.05; pc and nudged with other solvers 0.2, ep 0.1; less if not scaled)"),
    ] = None
    """Learning rate of the weights. With μPC it carries over between widths and depths."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class UpdateFlags:
    """How a learning rate turns into updates of the weights."""

    rate_scaling: RateScalingFlag = None
    """Scale the rate for each kind of weight, so that the rate of a small network is right for a large one; none: as in
    the paper, the same for all."""
    base_width: int = 64
    """Width at which the rate is as given."""
    base_hidden_layers: int = 8
    """Number of hidden layers at which the rate is as given."""
    optimiser: Optimiser = "adam"
    """Weight optimiser."""
    schedule: Annotated[Schedule | None, hint("(default: cosine)")] = None
    """How the learning rate changes over the run: falls to zero (cosine, linear), rises first, or stays."""
    precision: AutoPrecision = "auto"
    """Number format of matrix products; auto: on a GPU bf16 where kernels, error-space or bp take it, else float32."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningFlags(UpdateFlags, PaceFlags):
    """How the weights learn."""

    weight_decay: float = 0.0
    """Penalty on the squares of weights."""
    orthogonality: float = 0.0
    """Penalty on weights that are not orthogonal."""
    seed: int = 0
    """Seed of the initial weights, the order of batches and the validation split."""
    evaluate_every: Annotated[int | None, hint("(default: ten times in all, at least once an epoch)")] = None
    """Steps between evaluations."""


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
class DeviceFlags(ScreenFlags):
    """What computes, and what is shown."""

    device: Annotated[Literal["cpu", "gpu"] | None, hint("(default: a GPU if there is one)")] = None
    """What computes."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FigureFlags(DeviceFlags):
    """What computes, what is shown, and how figures are saved."""

    format: FigureFormat = "png"
    """File format of the figures."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputFlags(FigureFlags):
    """Where results go, and what is shown."""

    out: Annotated[str | None, hint("(default: runs/COMMAND-N)", "DIR")] = None
    """Run folder; it must be new or empty."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainOutputFlags(FigureFlags):
    """Where results go, and what is shown."""

    out: Annotated[str | None, hint("(default: runs/DATA-METHOD-N)", "DIR")] = None
    """Run folder; it must be new or empty."""
    config: Annotated[str | None, hint("(optional)", "FILE")] = None
    """Repeat the run of this config.json. Other flags override it; another --solver starts from its own defaults."""
    tensorboard: bool = True
    """Write TensorBoard events into the run folder."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MachineFlags:
    """Several devices or machines. docs/scaling.md says what each division gives."""

    devices: Devices = None
    """Devices to divide batches over (8, or data=8), and layers (data=2,layers=4); counted over processes."""
    coordinator: Annotated[str | None, hint("(default: found under SLURM)", "HOST:PORT")] = None
    """Where process 0 listens when several processes train one run. Start all with the same flags but --process-id."""
    processes: Annotated[int | None, hint("(with --coordinator)")] = None
    """How many processes there are."""
    process_id: Annotated[int | None, hint("(with --coordinator)")] = None
    """The number of this one, from 0."""
    wait: int = 60
    """Seconds to wait for the other processes to start."""
