"""`mupc hessian`: its flags. `hessian_job.py` does the work."""

import dataclasses
from typing import Annotated, Literal

import tyro

from .flags import (
    Activation,
    Init,
    Loss,
    ModelFlags,
    OutputFlags,
    Parameterisation,
    ReadingFlags,
    hint,
)
from .runner import Command, CommandResult, Session


@dataclasses.dataclass(frozen=True, kw_only=True)
class HessianNetworkFlags:
    """Which networks: every --width with every --hidden-layers at initialisation, or the one of a checkpoint."""

    width: Annotated[tuple[int, ...] | None, hint("(default: 64; resnet 16)", "INT [INT ...]")] = None
    """Units of every hidden layer, or what --width of `mupc train` is; one or more numbers."""
    hidden_layers: Annotated[tuple[int, ...] | None, hint("(default: 16)", "INT [INT ...]")] = None
    """Number of hidden layers of an mlp, one or more."""
    in_size: Annotated[int | None, hint("(default: the width)")] = None
    """Number of inputs."""
    out_size: Annotated[int | None, hint("(default: the width)")] = None
    """Number of outputs."""
    activation: Annotated[Activation | None, hint("(default: linear; other models relu)")] = None
    """Nonlinearity. The Hessian of all but linear networks is taken at the forward pass of one sample."""
    parameterisation: Parameterisation = "mupc"
    """How weights and multipliers scale with width and depth: μPC, standard, neural tangent or orthogonal."""
    skip: int = 1
    """Skip connections: 0 for none, 1 for a ResNet, n to skip n layers."""
    init: Annotated[Init | None, hint("(default: the parameterisation's own)")] = None
    """Initial weights."""
    seed: int = 0
    """Seed of the initial weights and of a random sample."""
    seeds: int = 1
    """Number of seeds, from --seed on; the table shows medians."""
    checkpoint: Annotated[str | None, hint("(optional)", "RUN|FILE")] = None
    """A trained network instead: a run folder of `mupc train` (with its first sample), or a file of mupc.save."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class HessianModelFlags(ReadingFlags, ModelFlags):
    """Other architectures: every --width with every --blocks, at the first sample of a data set."""

    blocks: Annotated[tuple[int, ...] | None, hint("(default: resnet 2, transformer 4)", "INT [INT ...]")] = None
    """Blocks of each stage of a resnet, or of a transformer; one or more numbers."""
    data: str = "digits"
    """A data set, or the path of a .npz, .csv or .txt file or of a folder of images."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnergyFlags:
    """Which energy."""

    loss: Annotated[Loss | None, hint("(default: the run's, or mse; of a text cross-entropy)")] = None
    """Loss at the output."""
    output_precision: Annotated[float | None, hint("(default: the run's, or 1)")] = None
    """Weight λ of the output loss."""
    activity_decay: Annotated[float | None, hint("(default: the run's, or 0)")] = None
    """Penalty on the squares of activities."""
    free_input: bool = False
    """Let the input be free too (the unsupervised case)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MethodFlags:
    """How to compute eigenvalues."""

    method: Literal["auto", "dense", "iterative"] = "auto"
    """Compute all eigenvalues, or only the largest and the smallest; auto: dense up to 2048 unknowns of an mlp. Other
    models have the ends of their Gauss–Newton Hessian, which leaves out the curvature of activations."""
    spectrum: bool = True
    """Draw the eigenvalues. Beyond 4096 unknowns (--method dense: 16,384) Lanczos quadrature gives their density."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class HessianFlags:
    """Compute eigenvalues and condition numbers of the activity Hessian: how fast inference can converge. Writes a run
    folder: config.json, metrics.jsonl, summary.json, spectra.json and figures."""

    network: tyro.conf.OmitArgPrefixes[HessianNetworkFlags]
    model: tyro.conf.OmitArgPrefixes[HessianModelFlags]
    energy: tyro.conf.OmitArgPrefixes[EnergyFlags]
    method: tyro.conf.OmitArgPrefixes[MethodFlags]
    output: tyro.conf.OmitArgPrefixes[OutputFlags]


def run(flags: HessianFlags, session: Session) -> CommandResult:
    """Analyse networks as the flags say."""
    from .hessian_job import analyse

    return CommandResult(analyse(flags, session))


COMMAND = Command(flags=HessianFlags, run=run)
