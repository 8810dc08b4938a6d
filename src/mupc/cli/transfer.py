"""`mupc transfer`: flags in, exit code out. `transfer_job.py` does the work, once the flags are parsed."""

import dataclasses
import re
import sys
from typing import Annotated

import tyro

from .config import in_flags
from .flags import FormFlags, Loss, Optimiser, Precision, Schedule, ScreenFlags, SourceFlags, hint
from .parse import parse
from .termination import Termination

WEIGHT_LRS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
ACTIVITY_LRS = (0.8, 0.4, 0.2, 0.1, 0.05, 0.02)
ETAS = "--etas"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataFlags(SourceFlags):
    """What to learn. `mupc data list` shows the data sets."""

    validation: float = 0.1
    """Fraction of the training samples to hold out; the rates are chosen on it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SizeFlags:
    """How large the two are."""

    width: int = 32
    """Units of every hidden layer of the small network."""
    hidden_layers: int = 8
    """Number of hidden layers of the small network."""
    large_width: int = 128
    """Units of every hidden layer of the large network."""
    large_hidden_layers: int = 64
    """Number of hidden layers of the large network."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkFlags(FormFlags, SizeFlags):
    """The small network, which is tuned, and the large one. Rates carry over with the parameterisation mupc; others are
    for comparison."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GridFlags:
    """Which rates to try, and whether to check them on the large network."""

    weight_lrs: Annotated[tuple[float, ...], tyro.conf.arg(aliases=[ETAS], metavar="FLOAT [FLOAT ...]")] = WEIGHT_LRS
    """Learning rates η of the weights."""
    activity_lrs: Annotated[tuple[float, ...], tyro.conf.arg(metavar="FLOAT [FLOAT ...]")] = ACTIVITY_LRS
    """Step sizes of inference, on the energy of one sample (the paper's β is 64 times this)."""
    seeds: int = 3
    """How many seeds to average over."""
    seed: int = 0
    """The first of them."""
    verify: tyro.conf.FlagCreatePairsOff[bool] = False
    """Re-tune the large network around these rates, to measure what transfer cost. Takes many large runs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningFlags:
    """How both networks learn."""

    epochs: float = 3.0
    """Passes through the training data; may be a fraction."""
    batch_size: int = 64
    """Samples per step."""
    inference_steps: Annotated[int | None, hint("(default: as many as hidden layers)")] = None
    """Steps of inference per batch."""
    loss: Loss = "mse"
    """Loss at the output."""
    output_precision: float = 1.0
    """Weight λ of the output loss in the energy."""
    optimiser: Optimiser = "adam"
    """Weight optimiser."""
    schedule: Schedule = "constant"
    """Course of the learning rate."""
    precision: Precision = "float32"
    """Number format of matrix products."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputFlags(ScreenFlags):
    """Where results go, and what is shown."""

    out: Annotated[str | None, hint("(default: runs/transfer-N)", "DIR")] = None
    """Run folder: new, empty, or that of the same command, which then goes on where it stopped."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransferFlags:
    """All flags."""

    data: tyro.conf.OmitArgPrefixes[DataFlags]
    network: tyro.conf.OmitArgPrefixes[NetworkFlags]
    grid: tyro.conf.OmitArgPrefixes[GridFlags]
    learning: tyro.conf.OmitArgPrefixes[LearningFlags]
    output: tyro.conf.OmitArgPrefixes[OutputFlags]


_NAMES = {
    r"\b(width|hidden_layers) of small\b": r"--\1",
    r"\b(width|hidden_layers) of large\b": r"--large_\1",
    r"\b(weight_lrs|activity_lrs|seeds)\b": r"--\1",
}


def run(argv: list[str]) -> int:
    """Tunes and trains as the flags say and returns the exit code, 1 if the large network diverged."""
    flags = parse(
        TransferFlags,
        argv,
        prog="mupc transfer",
        description=(
            "Tune small, train large: choose both learning rates on a small network, by the loss on held-out data, and "
            "train a large one with them. Writes a run folder: config.json, metrics.jsonl, summary.json and a figure."
        ),
        default=TransferFlags(
            data=DataFlags(), network=NetworkFlags(), grid=GridFlags(), learning=LearningFlags(), output=OutputFlags()
        ),
    )
    from rich.console import Console

    from .run_folder import dumps
    from .transfer_job import transfer

    try:
        with Termination("mupc transfer") as termination:
            summary = transfer(flags, Console())
    except ValueError as error:
        message = str(error)
        for pattern, name in _NAMES.items():
            message = re.sub(pattern, name, message)
        flag = lambda match: match[0].replace("_", "-")  # noqa: E731
        message = in_flags(re.sub(r"--\w+", flag, message))
        short = any(word.partition("=")[0] == ETAS for word in argv)  # the name that the user knows it by
        raise ValueError(message.replace("--weight-lrs", ETAS) if short else message) from error
    if flags.output.json:
        print(dumps(summary, indent=2))
    if summary["interrupted"]:
        print(f"mupc transfer: {summary['message']}", file=sys.stderr)
        return termination.code
    if summary["diverged"]:
        print("mupc transfer: the large network diverged with the rates of the small one.", file=sys.stderr)
    return int(summary["diverged"])
