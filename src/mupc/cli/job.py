"""A training run from a configuration to a run folder."""

import contextlib
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
from rich.console import Console

from .. import data
from ..data import Dataset
from ..inference import AbstractSolver, Energy
from ..io import Interruption, checks, counted, device, only_writer, versions
from ..learning import check_optimiser
from ..network import Network, save
from ..sweep._memory import check_room
from ..training import FitResult, find, fit, validate
from .config import FORMAT, TrainConfig, as_dict, load
from .display import Display
from .flags import FormFlags, OutputFlags
from .outcome import conclude, draw, how_to_go_on, outcome
from .reach import ReachMeter, summarise
from .run_folder import RunFolder, strict
from .solvers import make_solver, without_effect
from .train_flags import SafetyFlags, recorded

Record = dict[str, Any]
Summary = dict[str, Any]
EVALUATIONS = 10
CHECKPOINT = Path("checkpoints", "network.safetensors")
"""The last good network of a run, within its folder. Beside it are the checkpoints to go on from."""
SUMMARY = "summary.json"


def train(
    config: TrainConfig,
    output: OutputFlags | None = None,
    console: Console | None = None,
    safety: SafetyFlags | None = None,
    interruption: Interruption | None = None,
) -> Summary:
    """Trains a network, writes its run folder and returns its summary, which names the folder under `out`.

    **Arguments:** what to train, where and how to show it (default: a numbered folder in `runs`), the rich console to
    show it on (default: nothing is shown), what to keep and which run to go on with (default: a new one), and what
    listens to signals (default: nothing).
    """
    output = OutputFlags(quiet=True) if output is None else output
    safety = SafetyFlags() if safety is None else safety
    console = Console() if console is None else console
    dataset = load_data(config)
    with number_format(config.precision):
        check_room(lambda: build(config, dataset)[0])
        network, solver = build(config, dataset)
        display = Display(console, _title(config, network, dataset), output.quiet or output.json)
        for flag in without_effect(config):
            display.say(f"note: {flag} has no effect with --method bp")
        new = safety.resume is None
        name = f"{Path(config.data).stem}-{config.method}"
        folder = RunFolder(output.out if new else safety.resume, name, resumes=None if new else "config.json")
        with only_writer(folder.path):
            ended = None if new else _ended(folder)
            if ended is not None and load(folder.path).epochs == config.epochs:
                display.say(f"the run in {folder.path} is finished; more --epochs train it on.")
                return ended
            try:
                past = [] if new else _take_up(folder, ended is not None, display)
                folder.write("config.json", _about(config, safety))
                with contextlib.closing(folder), interruption or Interruption("mupc train") as stop:
                    summary = _run(config, network, solver, dataset, folder, display, output, safety, past, stop)
                folder.write(SUMMARY, summary)
            except (ValueError, OSError) as error:
                if new:
                    folder.discard()
                raise _explained(error, folder.path) from error
    conclude(config, summary, display)
    return summary


def _explained(error: ValueError | OSError, path: Path) -> Exception:
    """A disk that fails is no end: with what to do about it. Other errors as they are."""
    if isinstance(error, ValueError | BrokenPipeError) or not path.exists():
        return error
    text = str(error)
    if error.strerror:
        text = f"the run folder {path} cannot be written ({error.strerror}): make room or change its permissions."
    return OSError(f"{text} Then {how_to_go_on(path)}.")


def _ended(folder: RunFolder) -> Summary | None:
    """The summary of a run that has taken all its steps."""
    try:
        summary = json.loads((folder.path / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    ended = isinstance(summary, dict) and not (summary.get("interrupted", True) or summary.get("diverged", True))
    return summary if ended else None


def _take_up(folder: RunFolder, ended: bool, display: Display) -> list[Record]:
    """Takes a run back to its last checkpoint, and returns the records up to there."""
    found, damaged = find(folder.path / CHECKPOINT.parent)
    if found is None and ended:
        raise ValueError(
            f"{folder.path} has no checkpoint from which to train on: start a new run with --config {folder.path}."
        )
    past = [] if found is None else found.about["history"]
    folder.go_on(past)
    (folder.path / SUMMARY).unlink(missing_ok=True)
    for line in damaged:
        display.say(f"warning: {line}")
    display.say(f"going on with {folder.path} from step {0 if found is None else found.step}")
    return past


def _about(config: TrainConfig, safety: SafetyFlags) -> dict[str, Any]:
    """What `config.json` holds."""
    return {
        "format": FORMAT,
        "config": as_dict(config),
        "safety": recorded(safety),
        "versions": versions(),
        "device": device(),
        "precision": config.precision,
        "seed": config.seed,
    }


def load_data(config: TrainConfig) -> Dataset:
    """The data set of a configuration, with its validation split."""
    dataset = data.load(config.data, data_dir=config.data_dir, verify=config.verify_data)
    return dataset.with_validation(config.validation, config.seed) if config.validation else dataset


def build(config: TrainConfig, dataset: Dataset) -> tuple[Network, AbstractSolver | None]:
    """The network and the solver of a configuration, sized for a data set."""
    network = Network(
        dataset.in_size,
        dataset.out_size,
        width=config.width,
        hidden_layers=config.hidden_layers,
        **network_options(config),
        key=jr.key(checks.seed(config.seed)),
    )
    return network, make_solver(config) if config.method == "pc" else None


def network_options(flags: FormFlags) -> dict[str, Any]:
    """What `mupc.Network` is told about a network of any size."""
    return {
        "activation": flags.activation,
        "parameterisation": flags.parameterisation,
        "skip": flags.skip,
        "use_bias": flags.bias,
        "init": flags.init,
    }


def make_energy(config: TrainConfig) -> Energy:
    """The energy of a configuration."""
    return Energy(
        loss=config.loss,
        output_precision=config.output_precision,
        activity_decay=config.activity_decay if config.method == "pc" else 0.0,
        weight_decay=config.weight_decay,
        orthogonality=config.orthogonality,
    )


def check_training(config: TrainConfig, network: Network, solver: AbstractSolver | None, dataset: Dataset) -> None:
    """Raises for what cannot be trained, before anything is compiled."""
    validate(
        network, dataset, solver, config.epochs, config.batch_size, config.method, unsupervised=False,
        augment=config.augment, energy=make_energy(config),
    )  # fmt: skip
    if config.evaluate_every is not None:
        checks.integer("evaluate_every", config.evaluate_every, 1)
    check_optimiser(config.optimiser, config.chosen_weight_lr, config.schedule)


def training_options(config: TrainConfig, dataset: Dataset) -> dict[str, Any]:
    """What `fit` and `fit_many` are told alike: all of a configuration in which runs of one program must agree."""
    return {
        "epochs": config.epochs,
        "method": config.method,
        "batch_size": config.batch_size,
        "optimiser": config.optimiser,
        "schedule": config.schedule,
        "evaluate_every": evaluation_interval(config, len(dataset.train)),
        "augment": config.augment,
        "precision": config.precision,
    }


def _run(
    config: TrainConfig,
    network: Network,
    solver: AbstractSolver | None,
    dataset: Dataset,
    folder: RunFolder,
    display: Display,
    output: OutputFlags,
    safety: SafetyFlags,
    past: list[Record],
    stop: Callable[[], bool],
) -> Summary:
    """Trains, records, draws; returns the summary."""
    energy = make_energy(config)
    check_training(config, network, solver, dataset)
    meter = None if solver is None else ReachMeter(config, solver, energy, dataset)
    records = list(past)
    latest = network

    def regime(current: Network) -> str | None:
        nonlocal latest
        latest = current  # to have something to save after an interruption
        return None if meter is None else meter.regime(current)

    def keep(record: Record) -> None:
        records.append(record)
        folder.append(record)
        if output.tensorboard:
            folder.log(record)
        display.update(record)

    begin = time.perf_counter() - (past[-1]["seconds"] if past else 0)
    result: FitResult | None = None
    with display, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of divergence, which the last lines tell
        try:
            result = fit(
                network,
                dataset,
                solver,
                weight_lr=config.chosen_weight_lr,
                seed=config.seed,
                energy=energy,
                **training_options(config, dataset),
                metrics={"regime": regime},
                callbacks=[keep],
                **_safety_options(safety, folder),
                stop=stop,
            )
        except KeyboardInterrupt:
            if not records:
                folder.discard()
                raise
    if result is not None:
        latest = result.network
        if meter is not None and meter.latest is None:
            meter.regime(latest)  # all steps were taken before, and none was left to measure at
    save(folder.path / CHECKPOINT, latest)
    reach = strict(summarise(meter, records))
    draw(records, reach, folder.path)
    return {
        **outcome(config, records, result, folder.path, resumable=safety.keep > 0),
        "seconds": time.perf_counter() - begin,
        "credit_reach": reach,
        "precision": config.precision if result is None else result.precision,
        "data": {"name": dataset.name, "official": dataset.official, "source": dataset.source},
        "device": device(),
        "out": str(folder.path),
    }


def _safety_options(safety: SafetyFlags, folder: RunFolder) -> dict[str, Any]:
    """What `fit` alone is told."""
    if safety.keep == 0:
        return {"on_divergence": safety.on_divergence}
    return {
        "checkpoints": folder.path / CHECKPOINT.parent,
        "checkpoint_every": safety.checkpoint_every,
        "keep": safety.keep,
        "on_divergence": safety.on_divergence,
    }


def evaluation_interval(config: TrainConfig, samples: int) -> int | None:
    """Often enough for a curve and a live display: ten times in all, and at least once an epoch."""
    if config.evaluate_every is not None or config.batch_size < 1:
        return config.evaluate_every
    per_epoch = samples // config.batch_size
    return max(1, min(per_epoch, math.ceil(config.epochs * per_epoch / EVALUATIONS)))


def _title(config: TrainConfig, network: Network, dataset: Dataset) -> str:
    count = sum(array.size for array in jax.tree.leaves(network))
    layers = counted(config.hidden_layers, "hidden layer")
    return (
        f"{dataset.name}: {layers} of {config.width} units, {count:,} weights, "
        f"{config.parameterisation}, {config.method}"
    )


@contextlib.contextmanager
def number_format(precision: str) -> Iterator[None]:
    """JAX's 64-bit mode if and only if the run asks for it."""
    with jax.enable_x64(precision == "float64"):
        yield
