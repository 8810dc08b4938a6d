"""Train as the flags of `mupc train` say, and write the run folder."""

import contextlib
import dataclasses
import math
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from rich.console import Console

from .. import plots
from ..data import Dataset, targets_warning
from ..diagnostics import CreditReach, algorithm_reach
from ..io import checks, counted, find_checkpoint, gather_texts, is_first_process, json_ready, only_writer
from ..learning import BP, SCHEDULES, AbstractAlgorithm, AbstractRelaxingAlgorithm
from ..network import DATA, LAYERS, AbstractNetwork
from ..prediction import RUN_MODEL, RUN_SCHEMA, Model, how_to_go_on, run_schema, save
from ..training import BACK_TO, FitResult, TrainConfig, TrainStatus, fit
from ..training.progress import TrainProgress
from .building import METHODS, as_used, build, load_data, number_format, parse_devices, train_config
from .config import FORMAT, TrainFlags, load, pick, read
from .flags import MachineFlags, TrainOutputFlags
from .run_folder import METRICS, RunFolder
from .runner import Session
from .train import SafetyFlags
from .train_report import Record, Summary, conclude, notes, summarise, summarise_reach


def train(
    given: TrainFlags, output: TrainOutputFlags, safety: SafetyFlags, machines: MachineFlags, session: Session
) -> Summary:
    """Train a network, write its run folder and return its summary, which names the folder under `out`.

    **Arguments:** what to train, where to write it, what to keep and which run to go on with, which devices take part,
    and where to show it.
    """
    mesh = parse_devices(machines.devices, (DATA, LAYERS))
    dataset = load_data(given)
    with number_format(given.precision):
        network, algorithm = build(given, dataset, mesh)
        flags, rules = as_used(given, dataset, network, algorithm), stopping_rules(safety)
        train_config(flags, dataset, **rules).check(network, dataset, algorithm)
        if not is_first_process():
            return _follow(flags, dataset, network, algorithm, safety, session, mesh)
        for line in notes(flags):
            session.say(f"note: {line}")
        new, name = safety.resume is None, f"{Path(flags.data).stem}-{flags.method}"
        folder = RunFolder(
            output.out if new else safety.resume, name, None if new else "config.json", format=output.format
        )
        with only_writer(folder.path):
            summary, epochs = ({}, flags.epochs) if new else (folder.read("summary.json"), load(folder.path).epochs)
            ended = not (summary.get("interrupted", True) or summary.get("diverged", True))
            if ended and epochs == flags.epochs and not _more_patient(folder, safety):
                session.say(f"the run in {folder.path} is finished; more --epochs train it further.")
                return summary
            schema = run_schema(_model(network, dataset, flags, algorithm))
            _check_same_data(folder, schema)
            before, recorder = folder.contents(), None
            try:
                past = [] if new else _take_up(folder, ended, session)
                kept = pick(safety, TrainConfig) | rules
                about = {"format": FORMAT, "safety": kept, "precision": flags.precision, "seed": flags.seed}
                folder.write_config(vars(flags), **about)
                settings = kept | {"checkpoints": folder.path / RUN_MODEL.parent} if safety.keep else rules
                config = train_config(flags, dataset, **settings)
                if past and epochs < flags.epochs and config.course != "constant":
                    session.say(_describe_longer(config, past[-1]["step"], dataset))
                recorder = Recorder(folder, schema, output.tensorboard, past, session.console)
                with contextlib.closing(recorder), session.interruption.gracefully():
                    summary = _run(flags, dataset, network, algorithm, config, recorder, session, mesh)
            except (ValueError, OSError, KeyboardInterrupt) as error:
                if new:
                    folder.discard()
                elif recorder is None or recorder.network is None:
                    with contextlib.suppress(OSError):
                        folder.put_back(before)
                raise _explained(error, folder.path) from error
    conclude(dataclasses.replace(given, loss=flags.loss), summary, session)
    return summary


def _follow(
    flags: TrainFlags,
    dataset: Dataset,
    network: AbstractNetwork,
    algorithm: AbstractAlgorithm,
    safety: SafetyFlags,
    session: Session,
    mesh: Mesh | None,
) -> Summary:
    """Train with process 0, which shows and writes everything. Checkpoints are read from its folder."""
    folder, settings = gather_texts("")[0], stopping_rules(safety)
    if safety.keep:
        settings = pick(safety, TrainConfig) | settings | {"checkpoints": Path(folder) / RUN_MODEL.parent}
    config = train_config(flags, dataset, **settings)
    hooks: Any = {"callbacks": [lambda _: None], "stop": session.interruption}
    with session.interruption.gracefully():
        result = fit(network, dataset, algorithm, config=config, mesh=mesh, **hooks)
    return {"diverged": result.diverged, "message": result.message, "interrupted": result.stopped}


def stopping_rules(safety: SafetyFlags) -> dict[str, Any]:
    """Return the settings of training that say when it ends, as used."""
    best = safety.restore_best or safety.patience is not None
    return {"on_divergence": safety.on_divergence, "patience": safety.patience, "restore_best": best}


def _more_patient(folder: RunFolder, safety: SafetyFlags) -> bool:
    """Whether a run that ended for lack of patience is given more."""
    before = read(folder.path).safety.get("patience")
    return isinstance(before, int) and (safety.patience is None or safety.patience > before)


def _model(network: AbstractNetwork, dataset: Dataset, flags: TrainFlags, algorithm: AbstractAlgorithm) -> Model:
    """Return a network with everything that prediction needs."""
    relaxation = algorithm.relaxation if isinstance(algorithm, AbstractRelaxingAlgorithm) else None
    return Model(network, dataset.schema, str(flags.loss), dataset.name, relaxation)


def _check_same_data(folder: RunFolder, schema: Record) -> None:
    """Refuse to go on with a run on a table of other columns or labels. Checkpoints only know its numbers."""
    before = folder.read(RUN_SCHEMA).get("schema", {})
    for name in ("columns", "targets", "labels"):
        if name in before and before[name] != schema["schema"][name]:
            wrong = f"--resume goes on with the data of the run, and its {name} are others now"
            raise ValueError(f"{wrong}: put the data back, or start a new run with --config {folder.path}.")


def _explained(error: BaseException, path: Path) -> BaseException:
    """Return the error, and for a disk that fails what to do about it."""
    if not isinstance(error, OSError) or isinstance(error, BrokenPipeError) or not path.exists():
        return error
    text = str(error)
    if error.strerror:
        text = f"the run folder {path} cannot be written ({error.strerror}): make room or change its permissions."
    return OSError(f"{text} Then {how_to_go_on(path)}.")


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


def _describe_longer(config: TrainConfig, step: int, dataset: Dataset) -> str:
    """Return a line on the rate with which a run goes on that is longer now than when it started."""
    steps = (jnp.asarray(count, float) for count in (step, config.plan(dataset).total))
    share = f"{100 * float(SCHEDULES[config.course](*steps)):.2g} % of --weight-lr"
    return f"the {config.course} schedule now spans {config.epochs:g} epochs: the learning rate goes on at {share}"


class Recorder:
    """A callback of `fit` that writes each record to the run folder and shows it.

    `records` has all records, including those of the run that this one goes on with (`past`); `network` and `memory`
    are the latest. The `schema` is written with the first record: a run to go on with was then found to have the same
    data.
    """

    def __init__(
        self, folder: RunFolder, schema: Record, tensorboard: bool, past: list[Record], console: Console
    ) -> None:
        self.folder, self.schema, self.tensorboard, self.records = folder, schema, tensorboard, past
        self.network: AbstractNetwork | None = None
        self.memory: Any = None
        self.progress = TrainProgress(console)
        self._events: Any = None

    def __call__(self, status: TrainStatus) -> None:
        if self.network is None:
            self.folder.write(RUN_SCHEMA, self.schema)
            (self.folder.path / RUN_MODEL).unlink(missing_ok=True)
        record, self.network, self.memory = status.record, status.network, status.memory
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
        self.algorithm, self.config = algorithm, config
        batch = slice(0, config.batches(dataset).batch_size)
        self.x = dataset.normalisation(dataset.train.raw[batch])
        self.y = dataset.encode(dataset.train.targets[batch])

    def record_reach(self, status: TrainStatus) -> None:
        """Add the regime in which a network would take its next step to its record, and count the layers that it would
        teach: a callback of `fit`. The summary then says of the last network what its record says."""
        found = self.reach(status.network, status.memory)
        status.record["regime"] = None if found is None else found.regime
        if found is not None and "learning_layers" in status.record:
            status.record["learning_layers"] = found.learning_layers

    def reach(self, network: AbstractNetwork, memory: Any) -> CreditReach | None:
        """Return the credit reach of a network with what the algorithm has learnt itself; None for backpropagation, or
        if the network is not finite any more."""
        if isinstance(self.algorithm, BP):
            return None
        config = self.config
        settings: Any = {"energy": config.energy, "precision": config.precision, "optimiser": config.optimiser}
        settings |= {"base": config.base(network), "memory": memory}
        found = algorithm_reach(network, self.algorithm, self.x, self.y, **settings)
        return found if np.all(np.isfinite(found.gradient_norms)) else None


def _describe_size(flags: TrainFlags, network: AbstractNetwork) -> str:
    layers = f"{counted(flags.hidden_layers, 'hidden layer')} of {flags.width} units"
    if flags.model != "mlp":
        layers = f"{flags.model} of {network.layer_count} nodes, width {flags.width}"
    return f"{layers}, {sum(array.size for array in jax.tree.leaves(network)):,} weights"


def _run(
    flags: TrainFlags,
    dataset: Dataset,
    network: AbstractNetwork,
    algorithm: AbstractAlgorithm,
    config: TrainConfig,
    recorder: Recorder,
    session: Session,
    mesh: Mesh | None = None,
) -> Summary:
    """Train, record and draw; write the summary and return it."""
    folder, records = recorder.folder, recorder.records
    meter = ReachMeter(algorithm, config, dataset)
    gather_texts(str(folder.path))  # for the other processes, if there are any
    begin = time.perf_counter() - (records[-1]["seconds"] if records else 0)
    result: FitResult | None = None
    size = _describe_size(flags, network)
    how = "" if flags.solver is None else f" by {flags.solver}, λ = {flags.output_precision:g}"
    own = {checks.flag_spelling(name)[2:]: getattr(flags, name) for name in METHODS[flags.method].flags}
    how += "".join(f", {name} {value}" for name, value in own.items() if value is not None)
    session.say(f"{dataset.name}: {size}, {flags.parameterisation}, {flags.method}{how}")
    session.say(path := config.compute_path(network, algorithm, mesh))
    session.say(config.describe_rates(network))
    unscaled = targets_warning(dataset.schema, dataset.train.targets)
    session.warn([unscaled] if unscaled else [])
    with recorder.progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # about divergence, which the last lines tell
        try:
            hooks: Any = {"callbacks": [meter.record_reach, recorder], "stop": session.interruption}
            result = fit(network, dataset, algorithm, config=config, mesh=mesh, **hooks)
        except KeyboardInterrupt:
            if not records:
                raise
    ended = recorder if result is None else result
    latest = ended.network or network
    save(folder.path / RUN_MODEL, _model(latest, dataset, flags, algorithm))
    reach = json_ready(summarise_reach(meter.reach(latest, ended.memory), flags, records))
    curve = {folder.path.name: [record for record in records if BACK_TO not in record]}
    plots.draw_learning_curve(curve, folder.figure("learning-curve"), str(flags.loss))
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
