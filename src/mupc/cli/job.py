"""A training run from a configuration to a run folder."""

import contextlib
import math
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
from rich.console import Console

from .. import data
from .._energy import Energy
from .._network import Network
from .._optimiser import check
from .._saved import save
from .._solver import AbstractSolver
from .._train import FitResult, fit, validate
from ..data import Dataset
from ..experiments._machine import device, versions
from ..plots import credit_reach, learning_curve
from .config import FormFlags, OutputFlags, TrainConfig, as_dict
from .display import Display, clock, percent
from .reach import ReachMeter, sentence, summarise
from .run_folder import RunFolder, strict
from .solvers import make_solver

Record = dict[str, Any]
Summary = dict[str, Any]
EVALUATIONS = 10
CHECKPOINT = Path("checkpoints", "network.safetensors")
"""The last good network of a run, within its folder."""


def train(config: TrainConfig, output: OutputFlags | None = None, console: Console | None = None) -> Summary:
    """Trains a network, writes its run folder and returns its summary, which names the folder under `out`.

    **Arguments:** what to train, where and how to show it (default: a numbered folder in `runs`), and the rich
    console to show it on (default: nothing is shown).
    """
    output = OutputFlags(quiet=True) if output is None else output
    console = Console() if console is None else console
    dataset = load_data(config)
    with number_format(config.precision):
        network, solver = build(config, dataset)
        folder = RunFolder(output.out, f"{Path(config.data).stem}-{config.method}")
        about = {
            "config": as_dict(config),
            "versions": versions(),
            "device": device(),
            "precision": config.precision,
            "seed": config.seed,
        }
        folder.write("config.json", about)
        display = Display(console, _title(config, network, dataset), output.quiet or output.json)
        try:
            summary = _run(config, network, solver, dataset, folder, display, output.tensorboard)
        except (ValueError, OSError):
            folder.discard()
            raise
        finally:
            folder.close()
    summary |= {"device": about["device"], "out": str(folder.path)}
    folder.write("summary.json", summary)
    _conclude(config, summary, display)
    return summary


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
        key=jr.key(config.seed),
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
        activity_decay=config.activity_decay,
        weight_decay=config.weight_decay,
        orthogonality=config.orthogonality,
    )


def check_training(config: TrainConfig, network: Network, solver: AbstractSolver | None, dataset: Dataset) -> None:
    """Raises for what cannot be trained, before anything is compiled."""
    validate(
        network, dataset, solver, config.epochs, config.batch_size, config.method, unsupervised=False,
        augment=config.augment,
    )  # fmt: skip
    check(config.optimiser, config.weight_lr, config.schedule)


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
    tensorboard: bool,
) -> Summary:
    """Trains, records, draws; returns the summary but for what the caller knows."""
    energy = make_energy(config)
    check_training(config, network, solver, dataset)
    meter = None if solver is None else ReachMeter(config, solver, energy, dataset)
    records: list[Record] = []
    latest = network

    def regime(current: Network) -> str | None:
        nonlocal latest
        latest = current  # to have something to save after an interruption
        return None if meter is None else meter.regime(current)

    def keep(record: Record) -> None:
        records.append(record)
        folder.append(record)
        if tensorboard:
            folder.log(record)
        display.update(record)

    begin = time.perf_counter()
    result: FitResult | None = None
    with display, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of divergence, which the last lines tell
        try:
            result = fit(
                network,
                dataset,
                solver,
                weight_lr=config.weight_lr,
                seed=config.seed,
                energy=energy,
                **training_options(config, dataset),
                metrics={"regime": regime},
                callbacks=[keep],
            )
        except KeyboardInterrupt:
            if not records:
                folder.discard()
                raise
    seconds = time.perf_counter() - begin
    save(folder.path / CHECKPOINT, latest if result is None else result.network)
    reach = strict(summarise(meter, records))
    _draw(records, reach, folder)
    return {
        **_outcome(config, records, result, folder),
        "seconds": seconds,
        "credit_reach": reach,
        "precision": config.precision if result is None else result.precision,
        "data": {"name": dataset.name, "official": dataset.official, "source": dataset.source},
    }


def evaluation_interval(config: TrainConfig, samples: int) -> int | None:
    """Often enough for a curve and a live display: ten times in all, and at least once an epoch."""
    if config.evaluate_every is not None or config.batch_size < 1:
        return config.evaluate_every
    per_epoch = samples // config.batch_size
    return max(1, min(per_epoch, math.ceil(config.epochs * per_epoch / EVALUATIONS)))


def _outcome(config: TrainConfig, records: list[Record], result: FitResult | None, folder: RunFolder) -> Summary:
    """How training ended, from its records alone if it was interrupted."""
    last = next((record for record in reversed(records) if not record["diverged"]), {})
    rates = [record["steps_per_second"] for record in records if record["steps_per_second"]]
    interrupted = f"interrupted; the {len(records)} evaluations so far are in {folder.path / 'metrics.jsonl'}."
    return {
        "test_accuracy": last.get("test_accuracy"),
        "test_loss": last.get("test_loss"),
        "validation_accuracy": last.get("validation_accuracy"),
        "train_loss": last.get("train_loss"),
        "best_test_accuracy": max((record.get("test_accuracy") or 0.0 for record in records), default=None),
        "warnings": _warnings(config, records),
        "steps": records[-1]["step"],
        "seconds_per_step": result.seconds_per_step if result else 1 / rates[-1] if rates else None,
        "diverged": records[-1]["diverged"],
        "interrupted": result is None,
        "message": interrupted if result is None else result.message,
    }


def _warnings(config: TrainConfig, records: list[Record]) -> list[str]:
    """What went wrong without an end: a loss that rose again, inference that climbed."""
    found = []
    trained = [record for record in records if record.get("train_loss") is not None and not record["diverged"]]
    if trained:
        best, last = min(trained, key=lambda record: record["train_loss"]), trained[-1]
        if last["train_loss"] > 3 * best["train_loss"]:
            found.append(
                f"training became unstable: the loss rose from {best['train_loss']:.3g} at step {best['step']} to "
                f"{last['train_loss']:.3g}; lower --weight-lr, or use --schedule cosine"
            )
        plain = not (config.activity_decay or config.weight_decay or config.orthogonality)
        if plain and config.method == "pc" and last["energy"] > 1.01 * config.output_precision * last["train_loss"]:
            found.append(
                f"inference raised the energy from {config.output_precision * last['train_loss']:.3g} to "
                f"{last['energy']:.3g} instead of lowering it; lower --activity-lr"
            )
    return found


def _draw(records: list[Record], reach: Record, folder: RunFolder) -> None:
    figures = folder.path / "figures"
    learning_curve.plot({folder.path.name: records}, figures / "learning-curve.png")
    if "entry_sizes" in reach:
        credit_reach.plot(reach, figures / "credit-reach.png")


def _title(config: TrainConfig, network: Network, dataset: Dataset) -> str:
    count = sum(array.size for array in jax.tree.leaves(network))
    return (
        f"{dataset.name}: {config.hidden_layers} hidden layers of {config.width} units, {count:,} weights, "
        f"{config.parameterisation}, {config.method}"
    )


def _conclude(config: TrainConfig, summary: Summary, display: Display) -> None:
    """The last lines: how well, how fast, how deep, and where it all is."""
    if not (summary["interrupted"] or summary["diverged"]):
        quality = f"test loss {summary['test_loss']:.4f}"
        if summary["test_accuracy"] is not None:
            quality = f"test accuracy {percent(summary['test_accuracy'])}"
        pace = f"{1e3 * summary['seconds_per_step']:.3g} ms per step"
        display.say(f"{quality} after {summary['steps']} steps in {clock(summary['seconds'])} ({pace})")
        display.say(sentence(config, summary["credit_reach"]))
    for line in summary["warnings"]:
        display.say(f"warning: {line}")
    display.say(f"run folder {summary['out']}")


@contextlib.contextmanager
def number_format(precision: str) -> Iterator[None]:
    """JAX's 64-bit mode if and only if the run asks for it."""
    with jax.enable_x64(precision == "float64"):
        yield
