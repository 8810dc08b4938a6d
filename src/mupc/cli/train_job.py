"""Train as the flags of `mupc train` say, write the run folder, and describe how training ended."""

import contextlib
import dataclasses
import math
import shlex
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

from .. import plots
from ..data import Dataset, targets_warning
from ..diagnostics import LEARNING_LIMITS, CreditReach, credit_reach
from ..inference import ErrorSpace, infer
from ..io import counted, json_ready, only_writer
from ..io.progress import clock, percent
from ..learning import PC, AbstractAlgorithm
from ..network import Network
from ..prediction import RUN_MODEL, Model, model_notes, save
from ..training import BACK_TO, FitResult, TrainConfig, TrainStatus, find_checkpoint, fit
from ..training.progress import TrainProgress
from .building import as_used, build, given_flags, load_data, number_format, train_config
from .config import FORMAT, TrainFlags, load, pick, read
from .flags import ACTIVITY_LR, SOLVER, TrainOutputFlags
from .parsing import flag
from .run_folder import METRICS, RunFolder
from .runner import Session
from .train import SafetyFlags

VERY_DEEP, FEW_STEPS = 256, 32
"""From this number of hidden layers on, as many steps of inference are worth a note, which names fewer."""
SCORES = ("test_accuracy", "test_r2", "test_mae", "test_rmse", "test_loss", "validation_accuracy", "train_loss")
"""What `summary.json` has of the network that was kept. r2, mae and rmse are those of a regression, in the units of its
targets; losses are of the targets as the network learns them."""
FALLEN = 0.02
"""A run that loses more accuracy than this after its best evaluation says so."""
Record = dict[str, Any]
Summary = dict[str, Any]


def train(given: TrainFlags, output: TrainOutputFlags, safety: SafetyFlags, session: Session) -> Summary:
    """Train a network, write its run folder and return its summary, which names the folder under `out`.

    **Arguments:** what to train, where to write it, what to keep and which run to go on with, and where to show it.
    """
    dataset = load_data(given)
    with number_format(given.precision):
        network, algorithm = build(given, dataset)
        flags, rules = as_used(given, dataset, network, algorithm), stopping_rules(safety)
        train_config(flags, dataset, **rules).check(network, dataset, algorithm)
        for line in notes(given, flags):
            session.say(f"note: {line}")
        new, name = safety.resume is None, f"{Path(flags.data).stem}-{flags.method}"
        folder = RunFolder(
            output.out if new else safety.resume, name, None if new else "config.json", format=output.format
        )
        with only_writer(folder.path):
            summary = {} if new else folder.read("summary.json")
            ended = not (summary.get("interrupted", True) or summary.get("diverged", True))
            if ended and load(folder.path).epochs == flags.epochs and not _more_patient(folder, safety):
                session.say(f"the run in {folder.path} is finished; more --epochs train it further.")
                return summary
            try:
                past = [] if new else _take_up(folder, ended, session)
                kept = pick(safety, TrainConfig) | rules
                about = {"format": FORMAT, "safety": kept, "precision": flags.precision, "seed": flags.seed}
                folder.write_config(vars(flags), **about)
                folder.write("schema.json", model_notes(_model(network, dataset, flags)))
                settings = kept | {"checkpoints": folder.path / RUN_MODEL.parent} if safety.keep else rules
                config = train_config(flags, dataset, **settings)
                recorder = Recorder(folder, output.tensorboard, past, session.console)
                with contextlib.closing(recorder), session.interruption.gracefully():
                    summary = _run(flags, dataset, network, algorithm, config, recorder, session)
            except (ValueError, OSError, KeyboardInterrupt) as error:
                if new:
                    folder.discard()
                raise _explained(error, folder.path) from error
    conclude(given, summary, session)
    return summary


def stopping_rules(safety: SafetyFlags) -> dict[str, Any]:
    """Return the settings of training that say when it ends, as used."""
    best = safety.restore_best or safety.patience is not None
    return {"on_divergence": safety.on_divergence, "patience": safety.patience, "restore_best": best}


def _more_patient(folder: RunFolder, safety: SafetyFlags) -> bool:
    """Whether a run that ended for lack of patience is given more."""
    before = read(folder.path).safety.get("patience")
    return isinstance(before, int) and (safety.patience is None or safety.patience > before)


def notes(given: TrainFlags, used: TrainFlags) -> list[str]:
    """Return what a user should know before a run begins: flags without an effect, and steps that cost much."""
    if used.method == "bp":
        without = given_flags(given, "solver", "output_precision", "activity_decay").values()
        return [f"{written} has no effect with --method bp" for written in without]
    layers = used.hidden_layers
    if used.solver not in ACTIVITY_LR or used.inference_steps != layers or layers < VERY_DEEP:
        return []
    saved = f"--inference-steps {FEW_STEPS} would take about 1/{round(layers / FEW_STEPS)} of the time"
    return [
        f"{layers} steps of inference for {layers} hidden layers: {saved}. On a GPU, 1,000 layers took 2,240 ms a "
        "batch with 1,000 steps and 17 ms with 32, and 35 and 18 of them learnt"
    ]


def _model(network: Network, dataset: Dataset, flags: TrainFlags) -> Model:
    """Return a network with everything that prediction needs."""
    return Model(network, dataset.schema, flags.loss, dataset.name)


def _explained(error: BaseException, path: Path) -> BaseException:
    """Return the error, and for a disk that fails what to do about it."""
    if not isinstance(error, OSError) or isinstance(error, BrokenPipeError) or not path.exists():
        return error
    text = str(error)
    if error.strerror:
        text = f"the run folder {path} cannot be written ({error.strerror}): make room or change its permissions."
    return OSError(f"{text} Then {how_to_go_on(path)}.")


def how_to_go_on(folder: Path) -> str:
    """Return the command that goes on with a run."""
    return f"go on with `mupc train --resume {shlex.quote(str(folder))}`"


def _take_up(folder: RunFolder, ended: bool, session: Session) -> list[Record]:
    """Take a run back to its last checkpoint, and return the records up to there."""
    found, damaged = find_checkpoint(folder.path / RUN_MODEL.parent)
    if found is None and ended:
        cure = f"start a new run with --config {folder.path}."
        raise ValueError(f"{folder.path} has no checkpoint from which to train on: {cure}")
    step, past = (0, []) if found is None else (found.step, found.about["history"])
    folder.go_on(past)
    (folder.path / "summary.json").unlink(missing_ok=True)
    session.warn(damaged)
    session.say(f"going on with {folder.path} from step {step}")
    return list(past)


class Recorder:
    """A callback of `fit` that writes each record to the run folder and shows it.

    `records` has all records, including those of the run that this one goes on with (`past`); `network` is the latest.
    """

    def __init__(self, folder: RunFolder, tensorboard: bool, past: list[Record], console: Console) -> None:
        self.folder, self.tensorboard, self.records = folder, tensorboard, past
        self.network: Network | None = None
        self.progress = TrainProgress(console)
        self._events: Any = None

    def __call__(self, status: TrainStatus) -> None:
        record, self.network = status.record, status.network
        if self.tensorboard:
            self._log(record)
        self.records.append(record)
        self.folder.append(record)
        self.progress(status)

    def _log(self, record: Record) -> None:
        """Add the numbers of a record to the TensorBoard events."""
        if self._events is None:
            from tensorboardX import SummaryWriter

            begin = self.records[-1]["step"] + 1 if self.records else 0
            self._events = SummaryWriter(str(self.folder.path / "tensorboard"), purge_step=begin)
        for name, value in record.items():
            plottable = isinstance(value, int | float) and math.isfinite(value)
            if plottable and name not in ("step", "total_steps", "diverged"):
                self._events.add_scalar(name, value, record["step"])

    def close(self) -> None:
        """Close the TensorBoard events."""
        if self._events is not None:
            self._events.close()


class ReachMeter:
    """Measure credit reach on the first training batch."""

    def __init__(self, algorithm: AbstractAlgorithm, config: TrainConfig, dataset: Dataset) -> None:
        self.solver = algorithm.solver if isinstance(algorithm, PC) else None
        self.config = config
        batch = slice(0, config.batch_size)
        self.x = dataset.normalisation(dataset.train.raw[batch])
        self.y = dataset.encode(dataset.train.targets[batch])

    def regime(self, network: Network) -> str | None:
        """Return the regime in which a network would take its next step: a metric of `fit`."""
        found = self.reach(network)
        return None if found is None else found.regime

    def reach(self, network: Network) -> CreditReach | None:
        """Return the credit reach of a network; None without inference, or if the network is not finite any more."""
        if self.solver is None:
            return None
        config = self.config
        solution = infer(network, self.x, self.y, self.solver, energy=config.energy, precision=config.precision)
        found = credit_reach(network, solution, self.x, self.y, optimiser=self.config.optimiser)
        return found if np.all(np.isfinite(found.gradient_norms)) else None


def _run(
    flags: TrainFlags,
    dataset: Dataset,
    network: Network,
    algorithm: AbstractAlgorithm,
    config: TrainConfig,
    recorder: Recorder,
    session: Session,
) -> Summary:
    """Train, record and draw; write the summary and return it."""
    folder, records = recorder.folder, recorder.records
    meter = ReachMeter(algorithm, config, dataset)
    begin = time.perf_counter() - (records[-1]["seconds"] if records else 0)
    result: FitResult | None = None
    count = sum(array.size for array in jax.tree.leaves(network))
    size = f"{counted(flags.hidden_layers, 'hidden layer')} of {flags.width} units, {count:,} weights"
    session.say(f"{dataset.name}: {size}, {flags.parameterisation}, {flags.method}")
    session.say(path := config.compute_path(network, algorithm))
    unscaled = targets_warning(dataset.schema, dataset.train.targets)
    session.warn([unscaled] if unscaled else [])
    with recorder.progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # about divergence, which the last lines tell
        try:
            metrics, stop = {"regime": meter.regime}, session.interruption
            result = fit(network, dataset, algorithm, config=config, metrics=metrics, callbacks=[recorder], stop=stop)
        except KeyboardInterrupt:
            if not records:
                raise
    latest = (recorder.network or network) if result is None else result.network
    save(folder.path / RUN_MODEL, _model(latest, dataset, flags))
    reach = json_ready(summarise_reach(meter.reach(latest), flags, records))
    curve = {folder.path.name: [record for record in records if BACK_TO not in record]}
    plots.draw_learning_curve(curve, folder.figure("learning-curve"), flags.loss)
    if "entry_sizes" in reach:
        plots.draw_credit_reach(reach, folder.figure("credit-reach"))
    results = {
        **summarise(flags, records, result),
        "credit_reach": reach,
        "precision": flags.precision,
        "compute_path": path,
        "data": {"name": dataset.name, "official": dataset.official, "source": dataset.source},
    }
    interrupted, message = result is None or result.stopped, "" if result is None else result.message
    if interrupted:
        none = f"there is no checkpoint to go on from, but its evaluations are in {folder.path / METRICS}"
        cure = none if config.checkpoints is None else how_to_go_on(folder.path)
        message = f"interrupted at step {results['steps']} of {records[-1]['total_steps']}; {cure}."
    return folder.write_summary(results, begin, message, interrupted)


def summarise(flags: TrainFlags, records: list[Record], result: FitResult | None) -> Summary:
    """Return how well the network does that was kept, and how training went, from its records alone if it was
    interrupted."""
    last = next((record for record in reversed(records) if not record["diverged"]), {})
    kept = result.best if result is not None and result.restored and result.best is not None else last
    accuracies = [found for record in records if (found := record.get("test_accuracy")) is not None]
    rates = [record["steps_per_second"] for record in records if record["steps_per_second"]]
    backs = [record for record in records if BACK_TO in record]
    return {
        **{name: kept.get(name) for name in SCORES},
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
            descends = flags.method == "pc" and flags.solver in ACTIVITY_LR
            cure = "lower --activity-lr, then --weight-lr" if descends else "lower --weight-lr"
            rise = f"from {best['train_loss']:.3g} at step {best['step']} to {last['train_loss']:.3g}"
            found.append(f"training became unstable: the loss rose {rise}; {cure}, or use --schedule cosine")
        penalised = flags.activity_decay or flags.weight_decay or flags.orthogonality
        start = math.inf if penalised else (flags.output_precision or math.inf) * last["train_loss"]
        if last["energy"] > 1.01 * start:
            rise = f"from {start:.3g} to {last['energy']:.3g}"
            found.append(f"inference raised the energy {rise} instead of lowering it; lower --activity-lr")
    return found


def conclude(flags: TrainFlags, summary: Summary, session: Session) -> None:
    """Show the last lines: how well, how fast and how deep the network learnt, what to change in the `flags` that were
    given, and where the run folder is."""
    if not (summary["interrupted"] or summary["diverged"]):
        pace = f"{1e3 * summary['seconds_per_step']:.3g} ms per step"
        took = f"after {summary['steps']} steps in {clock(summary['seconds'])} ({pace})"
        session.say(f"{describe_quality(flags, summary)} {took}")
        if summary["restored"]:
            session.say(summary["message"])
        session.say(describe_reach(flags, summary["credit_reach"]))
    session.warn(summary["warnings"])
    session.say(f"run folder {summary['out']}")


def describe_quality(flags: TrainFlags, summary: Summary) -> str:
    """Return how well the network does that was kept: its accuracy, or the errors of a regression."""
    if summary["test_accuracy"] is not None:
        best = summary["best_test_accuracy"]
        fallen = not summary["restored"] and best > summary["test_accuracy"] + FALLEN
        return f"test accuracy {percent(summary['test_accuracy'])}" + (f", {percent(best)} at its best," * fallen)
    if summary["test_mae"] is not None:
        r2 = "unknown" if summary["test_r2"] is None else f"{summary['test_r2']:.3f}"
        return (
            f"test R² {r2}, MAE {summary['test_mae']:.4g} and RMSE {summary['test_rmse']:.4g} in units of the targets"
        )
    name = "training" if summary["test_loss"] is None else "test"
    what = " (½ the sum over outputs)" if flags.loss == "mse" else ""
    return f"{name} loss {summary['train_loss' if name == 'training' else 'test_loss']:.4f}{what}"


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
    if flags.method == "pc" and flags.solver not in (None, SOLVER):
        better = PC(ErrorSpace()).defaults._asdict()  # what was given would stay
        given = [
            f"{flag(name)} {value:g}" for name, value in better.items() if getattr(flags, name) not in (None, value)
        ]
        return " ".join([f"--solver {SOLVER}", *given])
    if flags.parameterisation != "mupc":
        return "--parameterisation mupc"
    return "--optimiser adam" if LEARNING_LIMITS[flags.optimiser].share else "--optimiser lion"
