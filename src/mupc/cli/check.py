"""`mupc check`: its flags. `check_job.py` does the work."""

import dataclasses
from typing import Annotated

import tyro

from .flags import (
    SOLVER,
    ActivityRate,
    FormFlags,
    InferenceSteps,
    Loss,
    ModelFlags,
    Optimiser,
    OutputFlags,
    OutputPrecision,
    RateScalingFlag,
    ReadingFlags,
    Solver,
    hint,
)
from .runner import FAILURE, Command, CommandResult, Session


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompareFlags:
    """Which networks: of several widths and of several depths, or the one of a checkpoint."""

    widths: Annotated[
        tuple[int, ...] | None,
        hint("(default: 64 128 256 512; resnet and vgg 16 32 64 128; transformer 128 256 512)", "[INT ...]"),
    ] = None
    """Widths to compare, two or more; --widths with nothing after it skips this."""
    depths: Annotated[
        tuple[int, ...] | None, hint("(default: 16 64 256; resnet 4 8 16; transformer 12 48)", "[INT ...]")
    ] = None
    """Numbers of hidden layers, or of --blocks, to compare, two or more; --depths with nothing after it skips this."""
    width: Annotated[int | None, hint("(default: 128; resnet 16; transformer 32)")] = None
    """Units of every hidden layer, or what --width of `mupc train` is, when depths are compared."""
    hidden_layers: Annotated[int | None, hint("(default: 8)")] = None
    """Number of hidden layers of an mlp when widths are compared."""
    steps: int = 3
    """Training steps, all on the same batch; 0 checks initial networks only."""
    seeds: int = 3
    """Networks of each size."""
    checkpoint: Annotated[str | None, hint("(optional)", "RUN|FILE")] = None
    """Report the sizes of this trained network instead: a run folder of `mupc train`, or a file of mupc.save. A run of
    another --method than pc needs a --solver."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckNetworkFlags(FormFlags, ModelFlags):
    """The form of all networks."""

    blocks: Annotated[tuple[int, ...] | None, hint("(default: resnet 1; transformer 3)", "INT")] = None
    """Blocks of each of the three stages of a resnet, or of a transformer, when widths are compared."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnFlags(ReadingFlags):
    """How they learn, and from what. With --checkpoint the defaults are those of its run."""

    data: Annotated[str | None, hint("(default: digits)")] = None
    """A data set, of which the first 64 training samples are used; or the path of a .npz, .csv or .txt file, or of a
    folder of images."""
    solver: Annotated[Solver | None, hint(f"(default: {SOLVER})")] = None
    """Gradient descent, Adam, Gauss–Newton (reaches all layers), exact (linear), the gradient flow, or samples."""
    activity_lr: ActivityRate = None
    """Step size of inference, acting on the energy of one sample; auto: gd chooses it itself."""
    inference_steps: InferenceSteps = None
    """Steps of inference; for ode, an upper limit."""
    loss: Annotated[Loss | None, hint("(default: mse; transformer cross-entropy)")] = None
    """Loss at the output."""
    output_precision: OutputPrecision = None
    """Weight λ of the output loss in the energy."""
    optimiser: Annotated[Optimiser | None, hint("(default: adam)")] = None
    """Weight optimiser."""
    weight_lr: Annotated[float | None, hint("(default: 0.01)")] = None
    """Learning rate of the weights; small, so that a few steps do not overshoot."""
    rate_scaling: RateScalingFlag = None
    """Scale it for each kind of weight, so that features move as far in every network; none: as in the paper, the same
    for all."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckOutputFlags(OutputFlags):
    """Where results go, and what is shown."""

    strict: tyro.conf.FlagCreatePairsOff[bool] = False
    """End with exit code 1 if the check fails. Without it a failed check is a result like any other. An unclear one,
    whose intervals are too wide to tell, ends with 0: more --seeds make it clear."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckFlags:
    """The coordinate check: do activities, errors and updates have the right sizes as networks get wider and deeper?
    Measures them at initialisation, in the first step and after a few steps, fits their slopes and explains failures.
    Writes a run folder: config.json, metrics.jsonl, summary.json and figures."""

    compare: tyro.conf.OmitArgPrefixes[CompareFlags]
    network: tyro.conf.OmitArgPrefixes[CheckNetworkFlags]
    learn: tyro.conf.OmitArgPrefixes[LearnFlags]
    output: tyro.conf.OmitArgPrefixes[CheckOutputFlags]


def run(flags: CheckFlags, session: Session) -> CommandResult:
    """Check as the flags say."""
    from .check_job import compare_networks, report_network

    check = compare_networks if flags.compare.checkpoint is None else report_network
    summary = check(flags, session)
    return CommandResult(summary, code=FAILURE if flags.output.strict and summary["verdict"] == "fail" else 0)


COMMAND = Command(flags=CheckFlags, run=run)
