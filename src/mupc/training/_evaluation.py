"""Evaluation: score networks on whole splits, and describe each in a record."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..data import BatchStream, Dataset
from ..diagnostics import layers_that_learn
from ..inference import CROSS_ENTROPY
from ..io import checks
from ..network import AbstractNetwork
from ..prediction import regression_scores, text_scores
from ._batches import bucket, learned
from ._state import BACK_TO, Position, Record
from ._step import Chunks, DevicePrograms, SplitScores, Trace, TrainJob

EVALUATION_CHUNK = 1000
Metrics = Mapping[str, Callable[[Any], Any]]

SCORES = ("loss", "accuracy", "r2", "mae", "rmse", "perplexity", "bits_per_character")
"""What may be known of a split: `r2`, `mae` and `rmse` of a regression in the units of its targets; of a text the means
over characters, the loss with cross-entropy in nats."""
RECORDED = (
    "step", "epoch", "total_steps", "seconds", "steps_per_second", "diverged", BACK_TO, "weight_lr", "energy",
    "train_loss", "learning_layers", "layers", "gradient_sizes",
    *(f"{split}_{name}" for name in SCORES for split in ("test", "validation")),
)  # fmt: skip
"""All keys that a record of `fit` may have, apart from metrics. `gradient_sizes` are the root mean square entries of
each layer's gradient in the last step, from the input to the readout, as the optimiser sees them."""


@dataclasses.dataclass(frozen=True)
class TrainStatus:
    """The argument of callbacks after each evaluation.

    - `record`: what was measured. `history`: all records of the run, this one the last.
    - `network`: as it is now. `run`: the number of the run in `fit_many`, 0 in `fit`.
    - `memory`: what the algorithm has learnt itself, as `mupc.algorithm_reach` takes it.
    """

    record: Record
    history: list[Record]
    network: AbstractNetwork
    run: int = 0
    memory: Any = None


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

    def __init__(
        self, programs: DevicePrograms, job: TrainJob, dataset: Dataset | BatchStream, metrics: Metrics | None
    ) -> None:
        self.programs, self.job, self.metrics = programs, job, dict(metrics or {})
        self.schema, self.data = dataset.schema, dataset.name
        splits = {"test": dataset.test, "validation": dataset.validation}
        measured = {name: split for name, split in splits.items() if split is not None and len(split)}
        self.splits = {name: _chunks(split.raw, learned(dataset, split)) for name, split in measured.items()}
        self.splits = programs.place_shared(self.splits)
        self.spreads = {name: np.var(split.targets, axis=0, dtype=np.float64) for name, split in measured.items()}
        scale = dataset.schema.target_scale
        self.units = 1.0 if scale is None else np.asarray(scale.std / scale.scale, np.float64)

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
        format, loss = self.job.source.format, self.job.context.energy.loss
        if trace is not None:
            sizes = np.asarray(trace.gradient_sizes)
            found["train_loss"] = float(np.mean(trace.losses))
            found["energy"] = float(np.mean(trace.energies))
            found["learning_layers"] = int(np.sum(layers_that_learn(sizes, self.job.context.optimiser)))
            found["layers"] = len(sizes)
        for name, means in scores.splits.items():
            found |= {f"{name}_{key}": float(means[key].item()) for key in ("loss", "accuracy") if key in means}
        finite = all(np.isfinite(value) for value in found.values())
        if trace is not None:
            found["gradient_sizes"] = np.asarray(trace.gradient_sizes, np.float64).tolist()
        if format.context is not None and loss == CROSS_ENTROPY:
            for name in scores.splits:
                measured = text_scores(found[f"{name}_loss"])
                found |= {f"{name}_{key}": value for key, value in measured.items()}
        if format.is_regression:
            for name, means in scores.splits.items():
                squares, sizes = (np.asarray(means[key], np.float64) for key in ("squares", "sizes"))
                measured = regression_scores(self.units**2 * squares, self.units * sizes, self.spreads[name])
                found |= {f"{name}_{key}": value for key, value in measured.items()}
        return found | {"diverged": not (finite and bool(scores.finite))}


def _chunks(raw: np.ndarray, targets: np.ndarray) -> Chunks:
    """Return samples in equal chunks, the last one filled up, and which of them are real. A few samples more or less
    give chunks of the same shape."""
    size = min(EVALUATION_CHUNK, bucket(len(raw)))
    count = bucket(-(-len(raw) // size), finest=1)
    index = np.arange(count * size).reshape(count, size)
    inside = np.minimum(index, len(raw) - 1)
    return jnp.asarray(raw[inside]), jnp.asarray(targets[inside]), jnp.asarray(index < len(raw))
