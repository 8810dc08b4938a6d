"""`mupc sweep` and `mupc sweep work`: their flags. `sweep_job.py` does the work, once the flags are parsed."""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Literal

import tyro

from ..io import checks
from .config import TrainFlags, TrainingGroups, load
from .flags import DataDir, Devices, FigureFlags, hint
from .runner import Command, CommandResult, Session

GroupSize = Annotated[int | None, hint("(default: 32; tpe 8)")]
RetryFailed = tyro.conf.FlagCreatePairsOff[bool]
DATABASE, RESULTS = "sweep.db", "sweep.json"
"""Files in the folder of a sweep."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchFlags:
    """What varies."""

    grid: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], hint("(repeatable)", "SETTING=VALUES")] = ()
    """A,B,C, or N values log:LOW:HIGH:N or lin:LOW:HIGH:N; for a sampler a range log:LOW:HIGH or lin:LOW:HIGH."""
    sampler: Literal["grid", "random", "tpe"] = "grid"
    """Try every combination, random ones, or the most promising ones by a tree-structured Parzen estimator."""
    trials: Annotated[int | None, hint("(for random and tpe)")] = None
    """How many cells a sampler draws."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharingFlags:
    """Where trials live, and who works on them."""

    storage: Annotated[str | None, hint("(default: DIR/sweep.db)", "URL")] = None
    """Database, such as postgresql://USER@HOST:PORT/DATABASE, when several machines share a sweep."""
    name: str = "sweep"
    """Name of the sweep in its database."""
    group: GroupSize = None
    """The most cells to take at once. Fewer share better among workers, more run faster on one GPU."""
    heartbeat: int = 20
    """Seconds between a worker's heartbeats."""
    resume: bool = True
    """Go on with a sweep of the same settings that exists already."""
    retry_failed: RetryFailed = False
    """Train cells that failed with an error again. Finished cells stay as they are."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepOutputFlags(FigureFlags):
    """Where results go, and what to show."""

    out: Annotated[str | None, hint("(default: runs/sweep-N)", "DIR")] = None
    """Folder: new, empty, or of this sweep."""
    config: Annotated[str | None, hint("(optional)", "FILE")] = None
    """Take settings from a run's config.json. Other flags override it."""
    devices: Devices = None
    """Devices to divide cells over (8, or runs=8), and batches (runs=4,data=2)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchGroups:
    """The flags that `mupc train` does not have."""

    search: tyro.conf.OmitArgPrefixes[SearchFlags]
    sharing: tyro.conf.OmitArgPrefixes[SharingFlags]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepFlags(TrainingGroups, SearchGroups):  # the flags of the last base come first in help
    """Train over a grid of settings, or let a sampler choose them. Any flag below can vary: --solver gd --grid
    weight_lr=0.5,0.1,0.05 --grid activity_lr=log:0.01:1:5 --grid seed=0,1,2 trains every combination, 45 cells. With
    --sampler tpe --trials 40, --grid weight_lr=log:0.001:1 draws from a range. Cells that differ only in numbers
    (learning rates, seeds, λ) train side by side as one program. The lowest validation loss wins if there is a
    validation split (--validation 0.2), otherwise the lowest training loss at the end. Writes sweep.json, best.json
    (for mupc train --config), a figure, and sweep.db, an Optuna study that optuna-dashboard reads too. The same
    command, or `mupc sweep work DIR`, goes on where it stopped. Run it several times to share the work."""

    output: tyro.conf.OmitArgPrefixes[SweepOutputFlags]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkFlags(FigureFlags):
    """Work on a sweep that `mupc sweep` started, with as many processes as you like, on every machine that reaches its
    database. A worker may be killed at any time: its cells go to another after three missed heartbeats."""

    folder: Annotated[tyro.conf.Positional[str | None], hint("(or --storage)", "DIR")] = None
    """Folder of the sweep."""
    storage: Annotated[str | None, hint("(default: DIR/sweep.db)", "URL")] = None
    """Database of the sweep."""
    name: Annotated[str | None, hint("(default: the only one there)")] = None
    """Name of the sweep in its database."""
    group: GroupSize = None
    """The most cells to take at once."""
    data_dir: DataDir = None
    """Folder with the files of the data set on this machine."""
    devices: Devices = None
    """Devices of this machine to divide cells over (8, or runs=8), and batches (runs=4,data=2)."""
    retry_failed: RetryFailed = False
    """Train cells that failed with an error again. Finished cells stay as they are."""


def run(flags: SweepFlags, session: Session) -> CommandResult:
    """Start a sweep, or go on with it."""
    checks.need("optuna", "sweep")
    from .sweep_job import start

    return start(flags, session)


def run_worker(flags: WorkFlags, session: Session) -> CommandResult:
    """Join a sweep that exists."""
    checks.need("optuna", "sweep")
    from .sweep_job import join

    return join(flags, session)


def defaults(flags: SweepFlags, parse_over: Callable[[SweepFlags], SweepFlags]) -> SweepFlags | None:
    """Return the flags of the run that --config names."""
    if flags.output.config is None:
        return None
    was = load(flags.output.config)
    same = SweepFlags(**was.groups(), search=SearchFlags(), sharing=SharingFlags(), output=SweepOutputFlags())
    varied = [text.partition("=")[0].strip().replace("-", "_") for text in flags.search.grid]
    return dataclasses.replace(same, **was.freed_for(TrainFlags.gather(parse_over(same)), varied).groups())


COMMANDS = {
    "": Command(flags=SweepFlags, run=run, defaults=defaults),
    "work": Command(flags=WorkFlags, run=run_worker),
}
