"""Where training stands between two dispatches."""

import math
import operator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..learning import AlgorithmState
from ..network import AbstractNetwork, fetch
from ._step import DevicePrograms, Trace

Record = dict[str, Any]

BACK_TO = "back_to_step"
"""Key in the record of a divergence that was not the end: the step from which training went on."""

_PER_STEP = operator.attrgetter("losses", "energies")
"""Those parts of a trace that have an entry for every step."""


class Position(NamedTuple):
    """A point of a run: the algorithm's state, the steps taken, what the steps since the last evaluation reported (on
    the host, one trace for each dispatch), and how long they took."""

    state: AlgorithmState
    step: int = 0
    traces: tuple[Trace, ...] = ()
    seconds: float = 0.0

    def after(self, state: AlgorithmState, trace: Trace, step: int, seconds: float) -> "Position":
        """Return the position when a dispatch has led to `step`."""
        count = step - self.step
        host = jax.tree.map(np.asarray, trace)
        if count < host.losses.shape[-1]:
            host = eqx.tree_at(_PER_STEP, host, replace_fn=lambda values: values[..., :count])
        return Position(state, step, (*self.traces, host), self.seconds + seconds)

    @property
    def trace(self) -> Trace | None:
        """All traces as one; None right after an evaluation."""
        if len(self.traces) < 2:
            return self.traces[0] if self.traces else None
        joined = [np.concatenate(parts, axis=-1) for parts in zip(*map(_PER_STEP, self.traces), strict=True)]
        return eqx.tree_at(_PER_STEP, self.traces[-1], tuple(joined))

    @property
    def many(self) -> bool:
        """Whether everything has a leading axis of runs."""
        return bool(self.state.step.ndim)

    @property
    def finite(self) -> bool:
        """Whether all numbers are finite. Right after an evaluation this is known and not checked again."""
        leaves = jax.tree.leaves(fetch((self.state, self.traces))) if self.traces else ()
        return all(np.all(np.isfinite(leaf)) for leaf in leaves)


class TrainState(NamedTuple):
    """Everything about a training run, or many runs side by side, that changes.

    - `position`: where it stands. `last_finite`: each run as of its last evaluation that was finite.
    - `histories`: the records of each run. `losses`: the training losses of all runs, one array for each interval.
    - `best`: the network of the best evaluation so far, where it is kept.
    """

    position: Position
    last_finite: Position
    histories: list[list[Record]]
    losses: tuple[np.ndarray, ...] = ()
    best: AbstractNetwork | None = None

    @classmethod
    def start(cls, state: AlgorithmState, runs: tuple[int, ...]) -> "TrainState":
        """Return the state before the first step."""
        position = Position(state)
        return cls(position, position, [[] for _ in range(math.prod(runs))])

    @property
    def records(self) -> int:
        """The number of records of all runs."""
        return sum(map(len, self.histories))

    @property
    def all_diverged(self) -> bool:
        """Whether every run has diverged for good."""
        return all(map(has_diverged, self.histories))

    @property
    def goes_back(self) -> bool:
        """Whether the last evaluation found a divergence after which training goes on from before it."""
        return bool(self.histories[0]) and BACK_TO in self.histories[0][-1]

    def with_best(self) -> "TrainState":
        """Return the state with the network kept that was just evaluated, if it is the best so far."""
        (history,) = self.histories
        return self._replace(best=self.position.state.network) if best_record(history) is history[-1] else self

    def evaluated(self, programs: DevicePrograms) -> "TrainState":
        """Return the state after an evaluation: back after a divergence, otherwise with the runs that are finite."""
        if self.goes_back:
            return self._replace(position=self.last_finite)
        trace = self.position.trace
        losses = self.losses if trace is None else (*self.losses, np.asarray(trace.losses))
        position, last_finite = Position(self.position.state, self.position.step), self.last_finite
        diverged = np.asarray([has_diverged(history) for history in self.histories])
        if not diverged.any():
            last_finite = position
        elif not diverged.all():
            kept = programs.choose(jnp.asarray(diverged), last_finite.state, position.state)
            last_finite = position._replace(state=kept)
        return self._replace(position=position, last_finite=last_finite, losses=losses)

    def network(self, programs: DevicePrograms, index: int) -> AbstractNetwork:
        """Return the network of one run: the best where it was kept, and after a divergence the last that was
        finite."""
        if self.best is not None:
            return programs.pick(self.best, 0)
        return programs.pick(self._finite(index).network, index)

    def memory(self, programs: DevicePrograms, index: int) -> Any:
        """Return what the algorithm of one run has learnt itself, at the end or before a divergence."""
        return programs.pick(self._finite(index).memory, index)

    def _finite(self, index: int) -> AlgorithmState:
        return (self.last_finite if has_diverged(self.histories[index]) else self.position).state

    def all_losses(self, blank: Trace) -> np.ndarray:
        """Return the training losses of all steps."""
        rest = (np.asarray(trace.losses) for trace in self.position.traces)
        return np.concatenate([np.asarray(blank.losses)[..., :0], *self.losses, *rest], axis=-1)


def has_diverged(history: list[Record]) -> bool:
    """Return whether a run has diverged for good. Before the first step none has."""
    return bool(history) and history[-1]["step"] > 0 and history[-1]["diverged"] and BACK_TO not in history[-1]


def validation_score(record: Record) -> str:
    """Return which score on the validation split decides: the accuracy of classes, otherwise the loss."""
    return "accuracy" if "validation_accuracy" in record and "validation_perplexity" not in record else "loss"


def best_record(history: list[Record]) -> Record | None:
    """Return the record of the best score on the validation split, the first of equals: the highest accuracy, then the
    lowest loss; None without such a split. Without classes, and for texts, the lowest loss counts."""

    def score(record: Record) -> tuple[float, float]:
        accuracy = record["validation_accuracy"] if validation_score(record) == "accuracy" else 0.0
        return accuracy, -record["validation_loss"]

    scored = [record for record in history if "validation_loss" in record and not record["diverged"]]
    return max(scored, key=score, default=None)


def evaluations_since_best(history: list[Record]) -> int:
    """Return how many evaluations there were after the best."""
    best = best_record(history)
    return 0 if best is None else sum(record["step"] > best["step"] for record in history)


def halvings(history: list[Record]) -> int:
    """Return how often the learning rate was halved so far."""
    return sum(BACK_TO in record for record in history)
