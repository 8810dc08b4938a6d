"""Evaluation: score networks on whole splits, and describe each in a record."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..data import Dataset, Split
from ..diagnostics import layers_that_learn
from ..io import checks
from ..network import Network
from ._batches import bucket
from ._state import BACK_TO, Position, Record
from ._step import Chunks, DevicePrograms, SplitScores, Trace, TrainJob

EVALUATION_CHUNK = 1000
Metrics = Mapping[str, Callable[[Any], Any]]

RECORDED = (
    "step", "epoch", "total_steps", "seconds", "steps_per_second", "diverged", BACK_TO, "weight_lr", "energy",
    "train_loss", "test_loss", "validation_loss", "test_accuracy", "validation_accuracy", "learning_layers", "layers",
)  # fmt: skip
"""All keys that a record of `fit` may have, apart from metrics."""


@dataclasses.dataclass(frozen=True)
class TrainStatus:
    """The argument of callbacks after each evaluation.

    - `record`: what was measured. `history`: all records of the run, this one the last.
    - `network`: as it is now. `run`: the number of the run in `fit_many`, 0 in `fit`.
    """

    record: Record
    history: list[Record]
    network: Network
    run: int = 0


Callbacks = Sequence[Callable[[TrainStatus], object]]


def check_hooks(metrics: Metrics | None, callbacks: Callbacks, stop: Callable[[], bool] | None) -> None:
    """Refuse metrics, callbacks or a `stop` that training could not call."""
    if metrics is not None and not isinstance(metrics, Mapping):
        wanted = '{{"norm": function_of_the_network}}'
        raise checks.ArgumentTypeError(
            "metrics", f"must be a dictionary such as {wanted}, got {checks.literal(metrics)}."
        )
    for name, metric in (metrics or {}).items():
        checks.function(f"the metric {name!r}", metric)
        if name in RECORDED:
            raise checks.ArgumentError(
                "metrics", f"has {name!r}, which is the name of what fit itself records.", "Give it another name."
            )
    if not isinstance(callbacks, Sequence):
        raise checks.ArgumentTypeError(
            "callbacks", f"must be a list of functions such as [print], got {checks.literal(callbacks)}."
        )
    for callback in callbacks:
        checks.function("each of the callbacks", callback)
    if stop is not None:
        checks.function("stop", stop)


class Evaluation:
    """Score networks on whole splits and describe each in a record."""

    def __init__(self, programs: DevicePrograms, job: TrainJob, dataset: Dataset, metrics: Metrics | None) -> None:
        self.programs, self.job, self.metrics = programs, job, dict(metrics or {})
        splits = {"test": dataset.test, "validation": dataset.validation}
        self.splits = {name: _chunks(split) for name, split in splits.items() if split is not None}

    def __call__(self, position: Position) -> list[Record]:
        """Return one record for each run, of the networks now and of the steps that led to them."""
        network, trace = position.state.network, position.trace
        seen = jax.tree.map(np.asarray, (self.programs.score(self.job, network, self.splits), trace))
        records = []
        for index in range(math.prod(self.programs.runs)):
            scores, steps = self.programs.pick(seen, index)
            one = self.programs.pick(network, index) if self.metrics else network
            record = self._describe(scores, steps)
            records.append(record | {name: metric(one) for name, metric in self.metrics.items()})
        return records

    def _describe(self, scores: SplitScores, trace: Trace | None) -> Record:
        found: Record = {}
        if trace is not None:
            sizes = np.asarray(trace.gradient_sizes)
            found["train_loss"] = float(np.mean(trace.losses))
            found["energy"] = float(np.mean(trace.energies))
            found["learning_layers"] = int(np.sum(layers_that_learn(sizes, self.job.context.optimiser)))
            found["layers"] = len(sizes)
        for name, (loss, accuracy) in scores.splits.items():
            found[f"{name}_loss"] = float(loss)
            if self.job.source.format.has_accuracy:
                found[f"{name}_accuracy"] = float(accuracy)
        finite = all(np.isfinite(value) for value in found.values())
        return found | {"diverged": not (finite and bool(scores.finite))}


def _chunks(split: Split) -> Chunks:
    """Return samples in equal chunks, the last one filled up, and which of them are real. A few samples more or less
    give chunks of the same shape."""
    size = min(EVALUATION_CHUNK, bucket(len(split)))
    count = bucket(-(-len(split) // size), finest=1)
    index = np.arange(count * size).reshape(count, size)
    inside = np.minimum(index, len(split) - 1)
    return jnp.asarray(split.raw[inside]), jnp.asarray(split.targets[inside]), jnp.asarray(index < len(split))
