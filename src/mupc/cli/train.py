"""`mupc train`: its flags, and how they go over those of an earlier run. `train_job.py` does the work."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ..io import checks
from .config import TrainFlags, TrainingGroups, load, read, typed
from .flags import MachineFlags, TrainOutputFlags, hint
from .parsing import flag
from .runner import Command, CommandResult, Session


@dataclasses.dataclass(frozen=True, kw_only=True)
class SafetyFlags:
    """When a run stops, and how it survives interruptions and divergence."""

    patience: Annotated[int | None, hint("(default: train to the end)", "EVALUATIONS")] = None
    """Stop after this many evaluations without a better score on the --validation split; keep the best network."""
    restore_best: tyro.conf.FlagCreatePairsOff[bool] = False
    """Train to the end, but keep the best network on the --validation split, not the last."""
    resume: Annotated[str | None, hint("(optional)", "RUN")] = None
    """Go on with the run in this folder; more --epochs train it further."""
    keep: int = 2
    """Checkpoints to keep; 0 writes none."""
    checkpoint_every: Annotated[int | None, hint("(default: at evaluations)", "STEPS")] = None
    """Steps between checkpoints."""
    on_divergence: Literal["stop", "halve-lr"] = "stop"
    """When the loss is not finite any more: stop, or go back with half the --weight-lr, up to five times."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainCommandFlags(TrainingGroups):
    """Train a network and write a run folder: config.json, metrics.jsonl, summary.json, figures, the trained network,
    checkpoints and TensorBoard events. Without options: 16 hidden layers on the built-in digits, in a few seconds."""

    safety: tyro.conf.OmitArgPrefixes[SafetyFlags]
    machines: tyro.conf.OmitArgPrefixes[MachineFlags]
    output: tyro.conf.OmitArgPrefixes[TrainOutputFlags]


def run(flags: TrainCommandFlags, session: Session) -> CommandResult:
    """Train as the flags say."""
    settings, safety = TrainFlags.gather(flags), flags.safety
    if safety.resume is not None:
        _check_same(settings, load(safety.resume))
    checks.integer("keep", safety.keep, 0)
    if safety.checkpoint_every is not None:
        checks.integer("checkpoint_every", safety.checkpoint_every, 1)
        if safety.keep == 0:
            raise ValueError("--checkpoint-every has no effect with --keep 0: leave one of them out.")
    from .train_job import train

    summary = train(settings, flags.output, safety, flags.machines, session)
    return CommandResult(summary, summary["message"] if summary["diverged"] else "", int(summary["diverged"]))


def defaults(
    flags: TrainCommandFlags, parse_over: Callable[[TrainCommandFlags], TrainCommandFlags]
) -> TrainCommandFlags | None:
    """Return the flags of the run that --resume or --config names."""
    source = flags.output.config
    if flags.safety.resume is not None:
        for name in ("out", "config"):
            if getattr(flags.output, name) is not None:
                raise ValueError(f"--resume goes on in the run's own folder with its settings: leave --{name} out.")
        source = flags.safety.resume
        if not (Path(source).expanduser() / "config.json").is_file():
            raise ValueError(f"--resume {source} is not the folder of a run: it has no config.json.")
    if source is None:
        return None
    recorded = {**read(source).safety, "resume": None}
    safety = typed(SafetyFlags, recorded, f"the 'safety' in the configuration of {source}")
    was = load(source)
    same = TrainCommandFlags(**was.groups(), safety=safety, machines=MachineFlags(), output=TrainOutputFlags())
    if flags.safety.resume is not None:
        return same
    return dataclasses.replace(same, **was.freed_for(TrainFlags.gather(parse_over(same))).groups())


def _check_same(now: TrainFlags, was: TrainFlags) -> None:
    """Refuse new settings of a run that goes on. Only the number of epochs may change, and only grow."""
    before, after = vars(was), vars(now)
    for name in before:
        open_task = name == "task" and before[name] == "auto"  # of format 1, which did not ask for it
        if name != "epochs" and after[name] != before[name] and not open_task:
            wrong = f"--resume goes on with the settings of the run, and its {flag(name)} is {before[name]}"
            raise ValueError(f"{wrong}, not {after[name]}: leave it out, or start a new run with --config.")
    if now.epochs < was.epochs:
        raise ValueError(f"--epochs {now.epochs:g} is less than the {was.epochs:g} of the run: give more, or none.")


COMMAND = Command(flags=TrainCommandFlags, run=run, defaults=defaults)
