"""Describe a training run: what to know before it begins, how it ended, and what to change."""

import dataclasses
import math
from typing import Any

from ..diagnostics import LEARNING_LIMITS, UNLIKE, CreditReach
from ..inference import CROSS_ENTROPY, ErrorSpace
from ..io.progress import clock, percent
from ..learning import PC
from ..training import BACK_TO, SCORES, FitResult
from .building import solver_name
from .config import TrainFlags
from .flags import ACTIVITY_LR, DEFAULT_SOLVERS, SOLVER
from .parsing import flag
from .report_words import written_time
from .runner import Session

VERY_DEEP, FEW_STEPS = 256, 32
"""From this number of hidden layers on, as many steps of inference are worth a note, which names fewer."""
SPLITS = ("test", "validation")
BOUNDED = ("tanh", "hard_tanh")
"""Activations with which equilibrium propagation has a minimum, whatever the weights are."""
SUMMARISED = (*(f"{split}_{score}" for split in SPLITS for score in SCORES), "train_loss")
"""What `summary.json` has of the network that was kept. Losses are of the targets as the network learns them."""
FALLEN = 0.02
"""A run that loses more accuracy than this after its best evaluation says so."""
Record = dict[str, Any]
Summary = dict[str, Any]


def notes(used: TrainFlags) -> list[str]:
    """Return what a user should know before a run begins: an energy that may have no minimum, and steps that cost
    much."""
    if used.method == "ep" and used.activation not in BOUNDED:
        bounded = " or ".join(BOUNDED)
        return [f"the energy of ep has a minimum for all weights only with a bounded --activation: {bounded}"]
    layers = used.hidden_layers
    if used.solver not in ACTIVITY_LR or used.inference_steps != layers or layers < VERY_DEEP:
        return []
    saved = f"--inference-steps {FEW_STEPS} would take about 1/{round(layers / FEW_STEPS)} of the time"
    return [
        f"{layers} steps of inference for {layers} hidden layers: {saved}. On a GPU, 1,000 layers took 2,240 ms a "
        "batch with 1,000 steps and 17 ms with 32, and 35 and 18 of them learnt"
    ]


def summarise(flags: TrainFlags, records: list[Record], result: FitResult | None) -> Summary:
    """Return how well the network does that was kept, and how training went, from its records alone if it was
    interrupted."""
    last = next((record for record in reversed(records) if not record["diverged"]), {})
    kept = result.best if result is not None and result.restored and result.best is not None else last
    accuracies = [found for record in records if (found := record.get("test_accuracy")) is not None]
    rates = [record["steps_per_second"] for record in records if record["steps_per_second"]]
    backs = [record for record in records if BACK_TO in record]
    return {
        **{name: kept.get(name) for name in SUMMARISED},
        "kept_step": kept.get("step"),
        "best_test_accuracy": max(accuracies, default=None),
        "warnings": instabilities(flags, records),
        "divergences": [{key: record[key] for key in ("step", BACK_TO, "weight_lr")} for record in backs],
        "steps": records[-1]["step"] if result is None else result.steps,
        "seconds_per_step": result.seconds_per_step if result and rates else 1 / rates[-1] if rates else None,
        "diverged": records[-1]["diverged"],
        "restored": result is not None and result.restored,
    }


def instabilities(flags: TrainFlags, records: list[Record]) -> list[str]:
    """Return warnings that did not stop the run: a divergence, a loss that rose again, inference that climbed."""
    found = [
        f"training diverged before step {record['step']} and went back to step {record[BACK_TO]} with half the "
        f"--weight-lr, {record['weight_lr']:.3g}"
        for record in records
        if BACK_TO in record
    ]
    trained = [record for record in records if record.get("train_loss") is not None and not record["diverged"]]
    if trained:
        best, last = min(trained, key=lambda record: record["train_loss"]), trained[-1]
        if last["train_loss"] > 3 * best["train_loss"]:
            descends = flags.activity_lr is not None
            cure = "lower --activity-lr, then --weight-lr" if descends else "lower --weight-lr"
            rise = f"from {best['train_loss']:.3g} at step {best['step']} to {last['train_loss']:.3g}"
            falling = ", or use --schedule cosine" if flags.schedule == "constant" else ""
            found.append(f"training became unstable: the loss rose {rise}; {cure}{falling}")
        start = energy_at_start(flags, last["train_loss"])
        if last["energy"] > start + 0.01 * abs(start):
            rise = f"from {start:.3g} to {last['energy']:.3g}"
            found.append(f"inference raised the energy {rise} instead of lowering it; lower --activity-lr")
    return found


def energy_at_start(flags: TrainFlags, loss: float) -> float:
    """Return the energy that inference starts from and then lowers: that of the forward pass with the largest nudge.
    Infinity if another one is recorded, or if something else may raise it."""
    raised = flags.activity_decay or flags.weight_decay or flags.orthogonality or flags.temperature
    if flags.method not in ("pc", "nudged") or flags.output_precision is None or raised:
        return math.inf
    sign = -1 if flags.nudge_sign == "negative" else 1
    nudges = [nudge for nudge in (flags.nudge, flags.final_nudge) if nudge is not None]
    return max((sign * nudge for nudge in nudges), default=1.0) * flags.output_precision * loss


def conclude(flags: TrainFlags, summary: Summary, session: Session) -> None:
    """Show the last lines: how well, how fast and how deep the network learnt, what to change in the `flags` that were
    given, and where the run folder is."""
    if not (summary["interrupted"] or summary["diverged"]):
        pace = f"{written_time(summary['seconds_per_step'])} per step"
        took = f"after {summary['steps']} steps in {clock(summary['seconds'])} ({pace})"
        session.say(f"{describe_quality(flags, summary)} {took}")
        if summary["restored"]:
            session.say(summary["message"])
        session.say(describe_reach(flags, summary["credit_reach"]))
    session.warn(summary["warnings"])
    session.say(f"run folder {summary['out']}")


def describe_quality(flags: TrainFlags, summary: Summary) -> str:
    """Return how well the network does that was kept: its accuracy, its perplexity, or the errors of a regression, on
    the test split or the next best."""
    split = next((name for name in SPLITS if summary[f"{name}_loss"] is not None), "train")
    accuracy, r2, mae, rmse = (summary.get(f"{split}_{name}") for name in ("accuracy", "r2", "mae", "rmse"))
    if summary.get(f"{split}_perplexity") is not None:
        bits, nats = summary[f"{split}_bits_per_character"], summary[f"{split}_loss"]
        per = f"{nats:.3f} nats or {bits:.3f} bits per character"
        return f"{split} perplexity {summary[f'{split}_perplexity']:.3f}, {per}, accuracy {percent(accuracy)}"
    if accuracy is not None:
        best = summary["best_test_accuracy"]
        fallen = split == "test" and not summary["restored"] and best > accuracy + FALLEN
        return f"{split} accuracy {percent(accuracy)}" + (f", {percent(best)} at its best," * fallen)
    if mae is not None:
        known = "unknown" if r2 is None else f"{r2:.3f}"
        return f"{split} R² {known}, MAE {mae:.4g} and RMSE {rmse:.4g} in units of the targets"
    what = "cross-entropy in nats" if flags.loss == CROSS_ENTROPY else "½ the sum over outputs"
    return f"{'training' if split == 'train' else split} loss {summary[f'{split}_loss']:.4f} ({what})"


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
    regime = "" if reach["regime"] is None else f", regime: {reach['regime']}"
    if reach["regime"] == UNLIKE:
        regime += f" (smallest cosine {reach['evidence']['smallest_cosine']:.2f})"
    if 2 * learning >= layers:
        return start + regime
    if learning == 0:
        return f"{start}: their gradients vanish; try another --seed, --activation tanh or a lower --weight-lr"
    least = f" (gradient entries of {reach['threshold']:.2g} or more)" if "threshold" in reach else ""
    return f"{start}{least}{regime}; try {_cure(flags)}"


def _cure(flags: TrainFlags) -> str:
    if flags.method == "ep":
        return "fewer --hidden-layers, or --method pc"
    if flags.method in DEFAULT_SOLVERS and solver_name(flags) != SOLVER:
        defaults = PC(ErrorSpace()).defaults  # what was given would stay
        better = {"weight_lr": defaults.weight_lr, "output_precision": defaults.output_precision}
        given = [
            f"{flag(name)} {value:g}" for name, value in better.items() if getattr(flags, name) not in (None, value)
        ]
        return " ".join([f"--solver {SOLVER}" if flags.method == "pc" else f"--method pc --solver {SOLVER}", *given])
    if flags.parameterisation != "mupc":
        return "--parameterisation mupc"
    return "--optimiser adam" if LEARNING_LIMITS[flags.optimiser].share else "--optimiser lion"
