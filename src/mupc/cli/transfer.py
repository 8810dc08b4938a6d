"""`mupc transfer`: its flags. `transfer_job.py` does the work, once the flags are parsed."""

import dataclasses
from typing import Annotated

import tyro

from ..sweep import ACTIVITY_LRS, WEIGHT_FACTORS
from .flags import (
    FigureFlags,
    FormFlags,
    InferenceSteps,
    LossFlag,
    Method,
    ModelFlags,
    OutputPrecision,
    Solver,
    SourceFlags,
    UpdateFlags,
    hint,
)
from .runner import Command, CommandResult, Session

RATES = "FLOAT [FLOAT ...]"
TUNED_SOLVER: Solver = "gd"
"""The solver of an mlp by default, because it has a rate of its own to tune; other models have that of `mupc train`."""
FACTORS, STEP_SIZES = (" ".join(map(str, values)) for values in (WEIGHT_FACTORS, ACTIVITY_LRS))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransferDataFlags(SourceFlags):
    """What to learn. `mupc data list` shows the data sets."""

    validation: float = 0.1
    """Fraction of the training samples to hold out. They decide which rates are chosen."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransferNetworkFlags(FormFlags, ModelFlags):
    """The small network, which is tuned, and the large one. Rates carry over with the parameterisation mupc. Others
    are for comparison."""

    width: Annotated[int | None, hint("(default: 32; resnet 8; vgg 16)")] = None
    """Width of the small network, as for `mupc train`."""
    hidden_layers: Annotated[int | None, hint("(default: 8)")] = None
    """Number of hidden layers of a small mlp."""
    blocks: Annotated[tuple[int, ...] | None, hint("(default: 2)", "INT")] = None
    """Blocks of a small transformer, or of each of the three stages of a small resnet."""
    large_width: Annotated[int | None, hint("(default: 128; resnet 16; vgg 64; transformer 64)")] = None
    """Width of the large network."""
    large_hidden_layers: Annotated[int | None, hint("(default: 64)")] = None
    """Number of hidden layers of a large mlp."""
    large_blocks: Annotated[int | None, hint("(default: 6)")] = None
    """Blocks of a large transformer, or of each stage of a large resnet."""


TRANSFER_SIZES: dict[str, dict[str, int]] = {
    "mlp": {"width": 32, "hidden_layers": 8, "large_width": 128, "large_hidden_layers": 64},
    "resnet": {"width": 8, "blocks": 2, "large_width": 16, "large_blocks": 6},
    "vgg": {"width": 16, "large_width": 64},
    "transformer": {"width": 32, "blocks": 2, "large_width": 64, "large_blocks": 6},
}
"""The sizes of both networks by default."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GridFlags:
    """Which rates to try, and whether to check them on the large network."""

    weight_lrs: Annotated[
        tuple[float, ...] | None,
        tyro.conf.arg(
            aliases=["--etas"], metavar=RATES, help_behavior_hint=f"(default: that of `mupc train` times {FACTORS})"
        ),
    ] = None
    """Learning rates η of the weights."""
    activity_lrs: Annotated[tuple[float, ...] | None, hint(f"(default: {STEP_SIZES})", RATES)] = None
    """Step sizes of gd and adam, on the energy of one sample (the paper's β is 64 times this)."""
    seeds: int = 3
    """How many seeds to average over."""
    seed: int = 0
    """The first of them."""
    verify: tyro.conf.FlagCreatePairsOff[bool] = False
    """Tune the large network again around these rates, to measure what transfer cost. Takes many large runs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransferLearningFlags:
    """How both networks learn."""

    epochs: float = 3.0
    """Passes through the training data; may be a fraction."""
    batch_size: int = 64
    """Samples per step."""
    method: Method = "pc"
    """Predictive coding, backpropagation, or one of their relatives, with the settings that `mupc train` has by
    default."""
    solver: Annotated[Solver | None, hint(f"(default: {TUNED_SOLVER}; other models that of `mupc train`)")] = None
    """How to infer. The rates of gd and adam are tuned, too."""
    inference_steps: InferenceSteps = None
    """Steps of inference per batch."""
    loss: LossFlag = None
    """Loss at the output."""
    output_precision: OutputPrecision = None
    """Weight λ of the output loss in the energy."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransferOutputFlags(FigureFlags):
    """Where results go, and what to show."""

    out: Annotated[str | None, hint("(default: runs/transfer-N)", "DIR")] = None
    """Run folder: new, empty, or of the same command, which then goes on where it stopped."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransferFlags:
    """Tune small, train large: choose the learning rates on a small network, by the loss on held-out data, and train
    a large one with them. Writes a run folder: config.json, metrics.jsonl, summary.json and a figure."""

    data: tyro.conf.OmitArgPrefixes[TransferDataFlags]
    network: tyro.conf.OmitArgPrefixes[TransferNetworkFlags]
    grid: tyro.conf.OmitArgPrefixes[GridFlags]
    learning: tyro.conf.OmitArgPrefixes[TransferLearningFlags]
    updates: tyro.conf.OmitArgPrefixes[UpdateFlags]
    output: tyro.conf.OmitArgPrefixes[TransferOutputFlags]


def run(flags: TransferFlags, session: Session) -> CommandResult:
    """Tune and train as the flags say."""
    from .transfer_job import transfer

    return transfer(flags, session)


COMMAND = Command(flags=TransferFlags, run=run, spelling={"weight_lrs": "--weight-lrs (--etas)"})
