"""All flags of `mupc train`, those that go on with a run among them. Nothing here imports JAX."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from .config import TrainConfig, as_dict, given, load, parse_with, read
from .flags import DataFlags, InferenceFlags, LearningFlags, NetworkFlags, OutputFlags, hint


@dataclasses.dataclass(frozen=True, kw_only=True)
class SafetyFlags:
    """How a run survives what happens to it."""

    resume: Annotated[str | None, hint("(optional)", "RUN")] = None
    """Go on with the run in this folder; more --epochs train it on."""
    keep: int = 2
    """Checkpoints to keep; 0 writes none."""
    checkpoint_every: Annotated[int | None, hint("(default: at evaluations)", "STEPS")] = None
    """Steps between checkpoints."""
    on_divergence: Literal["stop", "halve-lr"] = "stop"
    """When the loss is not finite any more: stop, or go back with half the --weight-lr, up to five times."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Flags:
    data: tyro.conf.OmitArgPrefixes[DataFlags]
    network: tyro.conf.OmitArgPrefixes[NetworkFlags]
    inference: tyro.conf.OmitArgPrefixes[InferenceFlags]
    learning: tyro.conf.OmitArgPrefixes[LearningFlags]
    safety: tyro.conf.OmitArgPrefixes[SafetyFlags]
    output: tyro.conf.OmitArgPrefixes[OutputFlags]


DESCRIPTION = (
    "Train a network and write a run folder: config.json, metrics.jsonl, summary.json, figures, the trained network, "
    "checkpoints and TensorBoard events. Without options: 16 hidden layers on the built-in digits, in a few seconds."
)


def parse(argv: list[str]) -> tuple[TrainConfig, SafetyFlags, OutputFlags]:
    """Flags, over those of `--resume RUN` or `--config FILE`, over the defaults."""
    run, file = given(argv, "--resume"), given(argv, "--config")
    if run is not None:
        _check_run(run, argv)
    source = file if run is None else run
    others = {"safety": _safety(source), "output": OutputFlags()}
    base = None if source is None else load(source)
    config, flags = parse_with(_Flags, argv, "mupc train", DESCRIPTION, base, **others)
    if run is not None and base is not None:
        _check_same(config, base)
    _check_safety(flags.safety)
    return config, flags.safety, flags.output


def recorded(safety: SafetyFlags) -> dict[str, Any]:
    """What `config.json` holds of these flags."""
    return {name: getattr(safety, name) for name in _RECORDED}


_RECORDED = ("keep", "checkpoint_every", "on_divergence")


def _safety(source: str | None) -> SafetyFlags:
    """The defaults: what the run before was told. Values that do not fit are refused like wrong flags."""
    found = {} if source is None else read(source).get("safety", {})
    kinds = {"keep": int, "checkpoint_every": int | None, "on_divergence": str}
    if not isinstance(found, dict) or any(not isinstance(found[name], kinds[name]) for name in found.keys() & kinds):
        raise ValueError(f"{source} has damaged settings under 'safety': delete them from its config.json.")
    return SafetyFlags(**{name: found[name] for name in _RECORDED if name in found})


def _check_safety(safety: SafetyFlags) -> None:
    if safety.keep < 0:
        raise ValueError(f"--keep must be at least 0, got {safety.keep}.")
    if safety.checkpoint_every is not None and safety.checkpoint_every < 1:
        raise ValueError(f"--checkpoint-every must be at least 1, got {safety.checkpoint_every}.")
    if safety.keep == 0 and safety.checkpoint_every is not None:
        raise ValueError("--checkpoint-every has no effect with --keep 0: leave one of them out.")


def _check_run(run: str, argv: list[str]) -> None:
    for name in ("--out", "--config"):
        if given(argv, name) is not None:
            raise ValueError(f"--resume goes on in the run's own folder, with its own settings: leave {name} out.")
    if not (Path(run).expanduser() / "config.json").is_file():
        raise ValueError(f"--resume {run} is not the folder of a run: it has no config.json.")


def _check_same(config: TrainConfig, base: TrainConfig) -> None:
    """Nothing but the number of epochs may be new, and it may only grow."""
    was, now = (
        as_dict(each) | {"weight_lr": each.chosen_weight_lr, "activity_lr": each.chosen_activity_lr}
        for each in (base, config)
    )
    for name in was.keys() - {"epochs"}:
        if now[name] != was[name]:
            flag = f"--{name.replace('_', '-')}"
            raise ValueError(
                f"--resume goes on with the settings of the run, and its {flag} is {was[name]}, not {now[name]}: leave "
                "it out, or start a new run with --config."
            )
    if config.epochs < base.epochs:
        raise ValueError(f"--epochs {config.epochs:g} is less than the {base.epochs:g} of the run: give more, or none.")
