"""Train as the flags of `mupc train` say, and write the run folder."""

import contextlib
import json
import time
import warnings
from pathlib import Path
from typing import Any

import jax

from ..io import counted, device, json_ready, only_writer, versions
from ..network import Network, save
from ..training import FitResult, TrainStatus, check_room, find_checkpoint, fit
from .building import build, check_training, load_data, make_energy, number_format, training_options
from .config import FORMAT, TrainFlags, as_dict, load
from .display import ProgressDisplay, percent
from .flags import TrainOutputFlags
from .outcome import conclude, draw, how_to_go_on, outcome
from .reach import ReachMeter, summarise
from .run_folder import RunFolder
from .runner import Session, silent_session
from .solvers import without_effect
from .train import RECORDED, SafetyFlags
from .trained_model import CHECKPOINT

Record = dict[str, Any]
Summary = dict[str, Any]
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
        check_training(flags, network, algorithm, dataset)
        for name in without_effect(flags):
            session.say(f"note: {name} has no effect with --method bp")
        meter = ReachMeter(flags, algorithm, make_energy(flags), dataset)
        new = safety.resume is None
        folder = _open(flags, output, safety)
        with only_writer(folder.path):
            ended = None if new else _ended(folder)
            if ended is not None and load(folder.path).epochs == flags.epochs:
                session.say(f"the run in {folder.path} is finished; more --epochs train it on.")
                return ended
            try:
                past = [] if new else _take_up(folder, ended is not None, session)
                folder.write("config.json", _about(flags, safety))
                recorder = Recorder(folder, output.tensorboard, past)
                with contextlib.closing(folder), session.interruption.gracefully():
                    summary = _run(meter, network, recorder, safety, session)
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


def _about(flags: TrainFlags, safety: SafetyFlags) -> dict[str, Any]:
    """Return the content of `config.json`."""
    return {
        "format": FORMAT,
        "config": as_dict(flags),
        "safety": {name: getattr(safety, name) for name in RECORDED},
        "versions": versions(),
        "device": device(),
        "precision": flags.precision,
        "seed": flags.seed,
    }


class Recorder:
    """Write each record of a run to its folder and show it. `records` holds them all, also those `past`."""

    def __init__(self, folder: RunFolder, tensorboard: bool, past: list[Record]) -> None:
        self.folder, self.tensorboard, self.records = folder, tensorboard, list(past)
        self.progress: ProgressDisplay | None = None
        self._compiled = False  # the first interval of training includes compiling

    def __call__(self, status: TrainStatus) -> None:
        record = status.record
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


def _run(meter: ReachMeter, network: Network, recorder: Recorder, safety: SafetyFlags, session: Session) -> Summary:
    """Train, record and draw; return the summary."""
    flags, dataset, folder, records = meter.flags, meter.dataset, recorder.folder, recorder.records
    begin = time.perf_counter() - (records[-1]["seconds"] if records else 0)
    result: FitResult | None = None
    session.say(_title(flags, network, dataset.name))
    progress = ProgressDisplay(session.console, "step", "compiling …", estimate=False)
    with progress as recorder.progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of divergence, which the last lines tell
        try:
            result = fit(
                network,
                dataset,
                meter.algorithm,
                weight_lr=flags.chosen_weight_lr,
                seed=flags.seed,
                energy=meter.energy,
                **training_options(flags, dataset),
                metrics={"regime": meter.regime},
                callbacks=[recorder],
                **_safety_options(safety, folder),
                stop=session.interruption,
            )
        except KeyboardInterrupt:
            if not records:
                folder.discard()
                raise
    latest = meter.network or network
    if result is not None:
        latest = result.network
        if meter.latest is None:
            meter.regime(latest)  # all steps were taken before, and none was left to measure at
    save(folder.path / CHECKPOINT, latest)
    reach = json_ready(summarise(meter, records))
    draw(records, reach, folder.path)
    return {
        **outcome(flags, records, result, folder.path, resumable=safety.keep > 0),
        "seconds": time.perf_counter() - begin,
        "credit_reach": reach,
        "precision": flags.precision if result is None else result.precision,
        "data": {"name": dataset.name, "official": dataset.official, "source": dataset.source},
        "device": device(),
        "out": str(folder.path),
    }


def _safety_options(safety: SafetyFlags, folder: RunFolder) -> dict[str, Any]:
    """Return the arguments of `fit` about checkpoints and divergence."""
    if safety.keep == 0:
        return {"on_divergence": safety.on_divergence}
    return {
        "checkpoints": folder.path / CHECKPOINT.parent,
        "checkpoint_every": safety.checkpoint_every,
        "keep": safety.keep,
        "on_divergence": safety.on_divergence,
    }


def _title(flags: TrainFlags, network: Network, data: str) -> str:
    count = sum(array.size for array in jax.tree.leaves(network))
    layers = counted(flags.hidden_layers, "hidden layer")
    return f"{data}: {layers} of {flags.width} units, {count:,} weights, {flags.parameterisation}, {flags.method}"
