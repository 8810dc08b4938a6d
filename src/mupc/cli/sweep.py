"""`mupc sweep` and `mupc sweep work`: flags in, exit code out. `sweep_job.py` does the work, once they are parsed."""

import dataclasses
import sys
from typing import Annotated, Any, Literal

import tyro

from ..io import Interruption
from .config import parse_with
from .flags import DataDir, DataFlags, InferenceFlags, LearningFlags, NetworkFlags, ScreenFlags, hint
from .parse import parse

DESCRIPTION = (
    "Train over a grid of settings, or let a sampler choose them. Any flag below can vary: "
    "--grid weight_lr=0.5,0.1,0.05 --grid activity_lr=log:0.01:1:5 --grid seed=0,1,2 trains every combination, 45 "
    "cells; with --sampler tpe --trials 40, --grid weight_lr=log:0.001:1 draws from a range. Cells that differ in "
    "numbers alone (learning rates, seeds, λ) train side by side as one program. The lowest validation loss wins if "
    "there is a validation split (--validation 0.2), otherwise the lowest training loss at the end. Writes sweep.json, "
    "best.json (for mupc train --config), a figure, and sweep.db, an Optuna study that optuna-dashboard reads too. The "
    "same command, or `mupc sweep work DIR`, goes on where it stopped; run it several times to share the work."
)
WORK = (
    "Work on a sweep that `mupc sweep` started: as many processes as you like, on as many machines as reach its "
    "database. A worker may be killed at any time; its cells go to another after three missed heartbeats."
)
Group = Annotated[int | None, hint("(default: 32; tpe 8)")]
RetryFailed = tyro.conf.FlagCreatePairsOff[bool]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchFlags:
    """What varies."""

    grid: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], hint("(repeatable)", "SETTING=VALUES")] = ()
    """A,B,C, or N values log:LOW:HIGH:N or lin:LOW:HIGH:N; for a sampler a range log:LOW:HIGH or lin:LOW:HIGH."""
    sampler: Literal["grid", "random", "tpe"] = "grid"
    """Every combination, random ones, or those that a tree-structured Parzen estimator expects most of."""
    trials: Annotated[int | None, hint("(for random and tpe)")] = None
    """How many cells a sampler draws."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharingFlags:
    """Where trials live, and who works on them."""

    storage: Annotated[str | None, hint("(default: DIR/sweep.db)", "URL")] = None
    """Database, such as postgresql://USER@HOST:PORT/DATABASE, when several machines share a sweep."""
    name: str = "sweep"
    """Name of the sweep in its database."""
    group: Group = None
    """The most cells to take at once; less shares them better among workers, more runs faster on one GPU."""
    heartbeat: int = 20
    """Seconds between signs of life of a worker."""
    resume: bool = True
    """Go on with a sweep of the same settings that is there already."""
    retry_failed: RetryFailed = False
    """Train cells that failed with an error once more; finished ones stay as they are."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputFlags(ScreenFlags):
    """Where results go, and what is shown."""

    out: Annotated[str | None, hint("(default: runs/sweep-N)", "DIR")] = None
    """Folder: new, empty, or that of this sweep."""
    config: Annotated[str | None, hint("(optional)", "FILE")] = None
    """Settings of a run's config.json; other flags given override it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepFlags:
    """All flags of `mupc sweep`."""

    search: tyro.conf.OmitArgPrefixes[SearchFlags]
    sharing: tyro.conf.OmitArgPrefixes[SharingFlags]
    data: tyro.conf.OmitArgPrefixes[DataFlags]
    network: tyro.conf.OmitArgPrefixes[NetworkFlags]
    inference: tyro.conf.OmitArgPrefixes[InferenceFlags]
    learning: tyro.conf.OmitArgPrefixes[LearningFlags]
    output: tyro.conf.OmitArgPrefixes[OutputFlags]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkFlags(ScreenFlags):
    """All flags of `mupc sweep work`."""

    folder: Annotated[tyro.conf.Positional[str | None], hint("(or --storage)", "DIR")] = None
    """Folder of the sweep."""
    storage: Annotated[str | None, hint("(default: DIR/sweep.db)", "URL")] = None
    """Database of the sweep."""
    name: Annotated[str | None, hint("(default: the only one there)")] = None
    """Name of the sweep in its database."""
    group: Group = None
    """The most cells to take at once."""
    data_dir: DataDir = None
    """Folder with the files of the data set on this machine."""
    retry_failed: RetryFailed = False
    """Train cells that failed with an error once more; finished ones stay as they are."""


def run(argv: list[str]) -> int:
    """Sweeps as the flags say and returns the exit code."""
    joins = argv[:1] == ["work"]
    flags: Any
    if joins:
        flags = parse(
            WorkFlags,
            argv[1:],
            prog="mupc sweep work",
            description=WORK,
            default=WorkFlags(),
        )
        screen = flags
    else:
        others = {"search": SearchFlags(), "sharing": SharingFlags(), "output": OutputFlags()}
        config, flags = parse_with(SweepFlags, argv, "mupc sweep", DESCRIPTION, **others)
        screen = flags.output
    from rich.console import Console

    from .run_folder import dumps
    from .sweep_job import join, start

    console = Console(quiet=screen.quiet or screen.json, highlight=False)
    with Interruption("mupc sweep") as stop:
        summary = join(flags, console, stop) if joins else start(config, flags, console, stop)
    if screen.json:
        print(dumps(summary, indent=2))
    if summary["message"]:
        print(f"mupc sweep: {summary['message']}", file=sys.stderr)
    return stop.code if summary["interrupted"] else int(summary["counts"]["failed"] > 0)
