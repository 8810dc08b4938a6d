"""Describe how a training run ended: in `summary.json`, in figures, and in the last lines."""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

from .. import plots
from ..diagnostics import LEARNING_LIMITS, CreditReach
from ..training import BACK_TO, FitResult
from .config import TrainFlags
from .display import clock, percent
from .flags import ACTIVITY_LR, WEIGHT_LR_ALL
from .runner import Session

FALLEN = 0.02
"""A run that loses more accuracy than this after its best evaluation says so."""
Record = dict[str, Any]
Summary = dict[str, Any]


def summarise(
    flags: TrainFlags, records: list[Record], result: FitResult | None, folder: Path, resumable: bool
) -> Summary:
    """Return how training ended, from its records alone if it was interrupted."""
    last = next((record for record in reversed(records) if not record["diverged"]), {})
    accuracies = [found for record in records if (found := record.get("test_accuracy")) is not None]
    rates = [record["steps_per_second"] for record in records if record["steps_per_second"]]
    steps, total, diverged = records[-1]["step"], records[-1]["total_steps"], records[-1]["diverged"]
    steps = steps if result is None else result.steps
    interrupted = result is None or (steps < total and not diverged)
    message = "" if result is None else result.message
    none = f"there is no checkpoint to go on from, but its evaluations are in {folder / 'metrics.jsonl'}"
    if interrupted:
        message = f"interrupted at step {steps} of {total}; {how_to_go_on(folder) if resumable else none}."
    return {
        "test_accuracy": last.get("test_accuracy"),
        "test_loss": last.get("test_loss"),
        "validation_accuracy": last.get("validation_accuracy"),
        "train_loss": last.get("train_loss"),
        "best_test_accuracy": max(accuracies, default=None),
        "warnings": warnings(flags, records),
        "divergences": [{key: record[key] for key in ("step", BACK_TO, "weight_lr")} for record in _backs(records)],
        "steps": steps,
        "seconds_per_step": result.seconds_per_step if result and rates else 1 / rates[-1] if rates else None,
        "diverged": diverged,
        "interrupted": interrupted,
        "message": message,
    }


def how_to_go_on(folder: Path) -> str:
    """Return the command that goes on with a run."""
    return f"go on with `mupc train --resume {shlex.quote(str(folder))}`"


def _backs(records: list[Record]) -> list[Record]:
    """Return the records of divergences after which training went on."""
    return [record for record in records if BACK_TO in record]


def warnings(flags: TrainFlags, records: list[Record]) -> list[str]:
    """Return warnings that did not stop the run: a divergence, a loss that rose again, inference that climbed."""
    found = [
        f"training diverged before step {record['step']} and went back to step {record[BACK_TO]} with half the "
        f"--weight-lr, {record['weight_lr']:.3g}"
        for record in _backs(records)
    ]
    trained = [record for record in records if record.get("train_loss") is not None and not record["diverged"]]
    if trained:
        best, last = min(trained, key=lambda record: record["train_loss"]), trained[-1]
        if last["train_loss"] > 3 * best["train_loss"]:
            descends = flags.method == "pc" and flags.solver in ACTIVITY_LR
            cure = "lower --activity-lr, then --weight-lr" if descends else "lower --weight-lr"
            found.append(
                f"training became unstable: the loss rose from {best['train_loss']:.3g} at step {best['step']} to "
                f"{last['train_loss']:.3g}; {cure}, or use --schedule cosine"
            )
        plain = not (flags.activity_decay or flags.weight_decay or flags.orthogonality)
        if plain and flags.method == "pc" and last["energy"] > 1.01 * flags.output_precision * last["train_loss"]:
            found.append(
                f"inference raised the energy from {flags.output_precision * last['train_loss']:.3g} to "
                f"{last['energy']:.3g} instead of lowering it; lower --activity-lr"
            )
    return found


def draw(records: list[Record], reach: Record, folder: Path) -> None:
    """Draw the figures of a run."""
    figures = folder / "figures"
    plots.draw_learning_curve({folder.name: [r for r in records if BACK_TO not in r]}, figures / "learning-curve.png")
    if "entry_sizes" in reach:
        plots.draw_credit_reach(reach, figures / "credit-reach.png")


def conclude(flags: TrainFlags, summary: Summary, session: Session) -> None:
    """Show the last lines: how well, how fast and how deep the network learnt, and where the run folder is."""
    if not (summary["interrupted"] or summary["diverged"]):
        quality = f"test loss {summary['test_loss']:.4f}"
        if summary["test_accuracy"] is not None:
            best = summary["best_test_accuracy"]
            fallen = f", {percent(best)} at its best," if best > summary["test_accuracy"] + FALLEN else ""
            quality = f"test accuracy {percent(summary['test_accuracy'])}{fallen}"
        pace = f"{1e3 * summary['seconds_per_step']:.3g} ms per step"
        session.say(f"{quality} after {summary['steps']} steps in {clock(summary['seconds'])} ({pace})")
        session.say(describe_reach(flags, summary["credit_reach"]))
    session.warn(summary["warnings"])
    session.say(f"run folder {summary['out']}")


def summarise_reach(found: CreditReach | None, flags: TrainFlags, records: list[Record]) -> Record:
    """Return credit reach for `summary.json`. For backpropagation that is what the last record holds."""
    if found is not None:
        derived = {name: getattr(found, name) for name in ("layers", "ratio", "regime")}
        return {**dataclasses.asdict(found), **derived, "evidence": found.evidence._asdict()}
    regime = "backprop" if flags.method == "bp" else None
    return {**{name: records[-1].get(name) for name in ("learning_layers", "layers")}, "regime": regime}


def describe_reach(flags: TrainFlags, reach: Record) -> str:
    """Return how many layers learn and, when they are fewer than half, the flag that changes it."""
    learning, layers = reach["learning_layers"], reach["layers"]
    start = f"{learning} of {layers} layers learn"
    if 2 * learning >= layers:
        return f"{start}, regime: {reach['regime']}"
    if learning == 0:
        return f"{start}: their gradients vanish; try another --seed, --activation tanh or a lower --weight-lr"
    least = f" (gradient entries of {reach['threshold']:.2g} or more)" if "threshold" in reach else ""
    return f"{start}{least}, regime: {reach['regime']}; try {_cure(flags)}"


def _cure(flags: TrainFlags) -> str:
    if flags.method == "pc" and flags.solver != "error-space":
        less = flags.weight_lr is not None and flags.weight_lr > WEIGHT_LR_ALL
        rate = f" --weight-lr {WEIGHT_LR_ALL:g}" if less else ""
        return f"--solver error-space --output-precision 0.01{rate}"
    if flags.parameterisation != "mupc":
        return "--parameterisation mupc"
    return "--optimiser adam" if LEARNING_LIMITS[flags.optimiser].share else "--optimiser lion"
