"""`mupc hessian`: its flags. `hessian_job.py` does the work."""

import dataclasses
import re
from typing import Annotated, Literal

import tyro

from ..io import checks
from .config import in_flags
from .flags import Activation, Init, Loss, OutputFlags, Parameterisation, hint
from .runner import Command, Outcome, Session


@dataclasses.dataclass(frozen=True, kw_only=True)
class HessianNetworkFlags:
    """Which networks: every --width with every --hidden-layers, at initialisation, or the one of a checkpoint."""

    width: Annotated[tuple[int, ...] | None, hint("(default: 64)", "INT [INT ...]")] = None
    """Units of every hidden layer, one or more numbers."""
    hidden_layers: Annotated[tuple[int, ...] | None, hint("(default: 16)", "INT [INT ...]")] = None
    """Number of hidden layers, one or more."""
    in_size: Annotated[int | None, hint("(default: the width)")] = None
    """Number of inputs."""
    out_size: Annotated[int | None, hint("(default: the width)")] = None
    """Number of outputs."""
    activation: Activation = "linear"
    """Nonlinearity. All but linear networks have their Hessian taken at the forward pass of one sample."""
    parameterisation: Parameterisation = "mupc"
    """How weights and multipliers scale with width and depth: μPC, standard, neural tangent or orthogonal."""
    skip: int = 1
    """Skip connections: 0 for none, 1 for a ResNet, n to skip n layers."""
    init: Annotated[Init | None, hint("(default: the parameterisation's own)")] = None
    """Initial weights."""
    seed: int = 0
    """Seed of the initial weights and of a random sample."""
    seeds: int = 1
    """How many seeds, from --seed on; the table shows medians."""
    checkpoint: Annotated[str | None, hint("(optional)", "RUN|FILE")] = None
    """A trained network instead: a run folder of `mupc train` (sample: its first), or a file that mupc.save wrote."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnergyFlags:
    """Which energy."""

    loss: Annotated[Loss | None, hint("(default: the run's, or mse)")] = None
    """Loss at the output."""
    output_precision: Annotated[float | None, hint("(default: the run's, or 1)")] = None
    """Weight λ of the output loss."""
    activity_decay: Annotated[float | None, hint("(default: the run's, or 0)")] = None
    """Penalty on the squares of activities."""
    free_input: bool = False
    """Let the input be free too (the unsupervised case)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MethodFlags:
    """How."""

    method: Literal["auto", "dense", "iterative"] = "auto"
    """All eigenvalues, or the largest and smallest alone; auto: dense up to 2048 unknowns."""
    spectrum: bool = True
    """Draw the eigenvalues; beyond 4096 unknowns (--method dense: 16,384) their density by Lanczos quadrature."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class HessianFlags:
    """All flags."""

    network: tyro.conf.OmitArgPrefixes[HessianNetworkFlags]
    energy: tyro.conf.OmitArgPrefixes[EnergyFlags]
    method: tyro.conf.OmitArgPrefixes[MethodFlags]
    output: tyro.conf.OmitArgPrefixes[OutputFlags]


def run(flags: HessianFlags, session: Session) -> Outcome:
    """Analyse networks as the flags say."""
    from .hessian_job import analyse

    try:
        return Outcome(analyse(flags, session.console))
    except checks.ArgumentError:
        raise
    except ValueError as error:
        named = re.sub(r"(?<![\w-])(in|out)_size\b", r"--\1-size", in_flags(str(error)))
        raise ValueError(named) from error


COMMAND = Command(
    flags=HessianFlags,
    description=(
        "Eigenvalues and condition numbers of the activity Hessian, which say how quickly inference can converge. "
        "Writes a run folder: config.json, metrics.jsonl, summary.json, spectra.json and figures."
    ),
    run=run,
)
