"""Train as the flags of `mupc train` say, and write the run folder."""

import contextlib
import json
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..data import Dataset
from ..diagnostics import CreditReach, credit_reach
from ..inference import infer
from ..io import counted, device, json_ready, only_writer
from ..learning import PC, AbstractAlgorithm
from ..network import Network, save
from ..training import FitResult, TrainConfig, TrainStatus, check_room, find_checkpoint, fit
from .building import build, given_flags, load_data, number_format, train_config
from .config import FORMAT, TrainFlags, as_dict, load
from .display import ProgressDisplay, percent
from .flags import TrainOutputFlags
from .run_folder import RunFolder
from .runner import Session, silent_session
from .train import RECORDED, SafetyFlags
from .train_summary import Record, Summary, conclude, draw, how_to_go_on, summarise, summarise_reach
from .trained_model import CHECKPOINT

SUMMARY = "summary.json"


def train(
    flags: TrainFlags,
    output: TrainOutputFlags | None = None,
    safety: SafetyFlags | None = None,
    session: Session | None = None,
) -> Summary:
    """Train a network, write its run folder and return its summary, which names the folder under `out`.

    **Arguments:** what to train, where to write it (default: a numbered folder in `runs`), what to keep and which run
    to go on with (default: a new one), and where to show it (default: nowhere).
    """
    output = TrainOutputFlags() if output is None else output
    safety = SafetyFlags() if safety is None else safety
    session = silent_session("mupc train") if session is None else session
    dataset = load_data(flags)
    with number_format(flags.precision):
        check_room(lambda: build(flags, dataset)[0])
        network, algorithm = build(flags, dataset)
        train_config(flags, dataset).check(network, dataset, algorithm)
        if flags.method == "bp":
            for written in given_flags(flags, "solver", "output_precision", "activity_decay").values():
                session.say(f"note: {written} has no effect with --method bp")
        new = safety.resume is None
        folder = _open(flags, output, safety)
        with only_writer(folder.path):
            ended = None if new else _ended(folder)
            if ended is not None and load(folder.path).epochs == flags.epochs:
                session.say(f"the run in {folder.path} is finished; more --epochs train it on.")
                return ended
            try:
                past = [] if new else _take_up(folder, ended is not None, session)
                recorded = {name: getattr(safety, name) for name in RECORDED}
                about = {"format": FORMAT, "safety": recorded, "precision": flags.precision, "seed": flags.seed}
                folder.write_config(as_dict(flags), **about)
                recorder = Recorder(folder, output.tensorboard, past)
                with contextlib.closing(folder), session.interruption.gracefully():
                    summary = _run(flags, dataset, network, algorithm, recorder, safety, session)
                folder.write(SUMMARY, summary)
            except (ValueError, OSError) as error:
                if new:
                    folder.discard()
                raise _explained(error, folder.path) from error
    conclude(flags, summary, session)
    return summary


def _open(flags: TrainFlags, output: TrainOutputFlags, safety: SafetyFlags) -> RunFolder:
    name = f"{Path(flags.data).stem}-{flags.method}"
    if safety.resume is not None:
        return RunFolder(safety.resume, name, resumes="config.json")
    return RunFolder(output.out, name)


def _explained(error: ValueError | OSError, path: Path) -> Exception:
    """Return the error, and for a disk that fails what to do about it."""
    if isinstance(error, ValueError | BrokenPipeError) or not path.exists():
        return error
    text = str(error)
    if error.strerror:
        text = f"the run folder {path} cannot be written ({error.strerror}): make room or change its permissions."
    return OSError(f"{text} Then {how_to_go_on(path)}.")


def _ended(folder: RunFolder) -> Summary | None:
    """Return the summary of a run that has taken all its steps."""
    try:
        summary = json.loads((folder.path / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    ended = isinstance(summary, dict) and not (summary.get("interrupted", True) or summary.get("diverged", True))
    return summary if ended else None


def _take_up(folder: RunFolder, ended: bool, session: Session) -> list[Record]:
    """Take a run back to its last checkpoint, and return the records up to there."""
    found, damaged = find_checkpoint(folder.path / CHECKPOINT.parent)
    if found is None and ended:
        raise ValueError(
            f"{folder.path} has no checkpoint from which to train on: start a new run with --config {folder.path}."
        )
    past = [] if found is None else found.about["history"]
    folder.go_on(past)
    (folder.path / SUMMARY).unlink(missing_ok=True)
    session.warn(damaged)
    session.say(f"going on with {folder.path} from step {0 if found is None else found.step}")
    return past


class Recorder:
    """A callback of `fit` that writes each record to the run folder and shows it.

    `records` has all records, including those of the run that this one goes on with (`past`); `network` is the latest.
    """

    def __init__(self, folder: RunFolder, tensorboard: bool, past: list[Record]) -> None:
        self.folder, self.tensorboard, self.records = folder, tensorboard, list(past)
        self.network: Network | None = None
        self.progress: ProgressDisplay | None = None
        self._compiled = False  # the first interval of training includes compiling

    def __call__(self, status: TrainStatus) -> None:
        record, self.network = status.record, status.network
        self.records.append(record)
        self.folder.append(record)
        if self.tensorboard:
            self.folder.log(record)
        rate = record.get("steps_per_second") if self._compiled else None
        self._compiled = self._compiled or record["step"] > 0
        if self.progress is not None:
            left = (record["total_steps"] - record["step"]) / rate if rate else None
            self.progress.update(record["step"], record["total_steps"], parts(record, rate), left=left)


def parts(record: Record, rate: float | None) -> list[str]:
    """Return what is shown of a record, the most important first, with a `rate` in steps per second."""
    loss = record.get("train_loss", record.get("test_loss"))
    found = [] if loss is None else [f"loss {loss:.4f}"]
    if "test_accuracy" in record:
        found.append(f"accuracy {percent(record['test_accuracy'])}")
    if "learning_layers" in record:
        regime = f" ({record['regime']})" if record.get("regime") else ""
        found.append(f"{record['learning_layers']}/{record['layers']} layers learn{regime}")
    if rate:
        found.append(f"{rate:.0f} steps/s" if rate >= 10 else f"{rate:.2g} steps/s")
    return found


class ReachMeter:
    """A metric of `fit`: credit reach on the first training batch. `latest` is that of the last finite network."""

    def __init__(self, algorithm: AbstractAlgorithm, config: TrainConfig, dataset: Dataset) -> None:
        self.solver = algorithm.solver if isinstance(algorithm, PC) else None
        self.config = config
        batch = slice(0, config.batch_size)
        self.x = dataset.normalisation(dataset.train.raw[batch])
        self.y = dataset.encode(dataset.train.targets[batch])
        self.latest: CreditReach | None = None

    def regime(self, network: Network) -> str | None:
        """Return the regime in which a network would take its next step; None without inference, or if the network is
        not finite any more."""
        if self.solver is None:
            return None
        config = self.config
        solution = infer(network, self.x, self.y, self.solver, energy=config.energy, precision=config.precision)
        found = credit_reach(network, solution, self.x, self.y, optimiser=self.config.optimiser)
        if not np.all(np.isfinite(found.gradient_norms)):
            return None
        self.latest = found
        return found.regime


def _run(
    flags: TrainFlags,
    dataset: Dataset,
    network: Network,
    algorithm: AbstractAlgorithm,
    recorder: Recorder,
    safety: SafetyFlags,
    session: Session,
) -> Summary:
    """Train, record and draw; return the summary."""
    folder, records = recorder.folder, recorder.records
    config = train_config(flags, dataset, **_safety_options(safety, folder))
    meter = ReachMeter(algorithm, config, dataset)
    begin = time.perf_counter() - (records[-1]["seconds"] if records else 0)
    result: FitResult | None = None
    session.say(_title(flags, network, dataset.name))
    progress = ProgressDisplay(session.console, "step", "compiling …", estimate=False)
    with progress as recorder.progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # about divergence, which the last lines tell
        try:
            metrics = {"regime": meter.regime}
            stop = session.interruption
            result = fit(
                network, dataset, algorithm, config=config, metrics=metrics, callbacks=[recorder], stop=stop
            )  # fmt: skip
        except KeyboardInterrupt:
            if not records:
                folder.discard()
                raise
    latest = (recorder.network or network) if result is None else result.network
    if result is not None and meter.latest is None:  # all steps were taken before, and none was left to measure at
        meter.regime(result.network)
    save(folder.path / CHECKPOINT, latest)
    reach = json_ready(summarise_reach(meter.latest, flags, records))
    draw(records, reach, folder.path)
    return {
        **summarise(flags, records, result, folder.path, resumable=safety.keep > 0),
        "seconds": time.perf_counter() - begin,
        "credit_reach": reach,
        "precision": flags.precision if result is None else result.precision,
        "data": {"name": dataset.name, "official": dataset.official, "source": dataset.source},
        "device": device(),
        "out": str(folder.path),
    }


def _safety_options(safety: SafetyFlags, folder: RunFolder) -> dict[str, Any]:
    """Return the settings of training about checkpoints and divergence."""
    if safety.keep == 0:
        return {"on_divergence": safety.on_divergence}
    return {name: getattr(safety, name) for name in RECORDED} | {"checkpoints": folder.path / CHECKPOINT.parent}


def _title(flags: TrainFlags, network: Network, data: str) -> str:
    count = sum(array.size for array in jax.tree.leaves(network))
    layers = counted(flags.hidden_layers, "hidden layer")
    return f"{data}: {layers} of {flags.width} units, {count:,} weights, {flags.parameterisation}, {flags.method}"
