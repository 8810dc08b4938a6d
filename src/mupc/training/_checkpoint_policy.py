"""When to write checkpoints, and how a training state goes into one and comes back."""

import dataclasses
import sys
import time
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jax.tree_util import keystr

from ..io import Checkpoint, any_process
from ..learning import AlgorithmState
from ..network import AbstractNetwork, fetch, whole
from ._checkpoints import Checkpoints
from ._state import Position, Record, TrainState, best_record
from ._step import DevicePrograms, Trace

Tree = TypeVar("Tree")

PAUSE = 10
"""After a checkpoint, wait at least this many times as long as it took to write: at most a tenth of the time goes into
them."""
WAIT = 5.0
"""Seconds before the first scratch checkpoint of a run."""


@dataclasses.dataclass
class CheckpointPolicy:
    """Save one run, or many side by side, to `checkpoints`: after each `every` steps, or after evaluations.

    With `keeps_best`, the network of the best evaluation so far is saved, too.

    `saved` is the step and the number of records of the last checkpoint. Evaluations before `next_checkpoint_time` do
    not write one.
    """

    checkpoints: Checkpoints | None = None
    every: int | None = None
    keeps_best: bool = False
    saved: tuple[int, int] | None = None
    next_checkpoint_time: float = 0.0

    def next_step(self, step: int) -> int:
        """Return the step at which training has to pause for a checkpoint, if not for an evaluation before."""
        return sys.maxsize if self.checkpoints is None or self.every is None else step + self.every - step % self.every

    def save(self, state: TrainState, now: bool = False, last: bool = False) -> None:
        """Write a checkpoint if it is time for one, or `now` in any case, or because it is the `last`. It also holds
        `last_finite`: where to go back to if the steps since then turn out to have diverged."""
        position, last_finite = state.position, state.last_finite
        begin = time.monotonic()
        due = (
            position.step % self.every == 0
            if self.every
            else not position.traces and begin >= self.next_checkpoint_time
        )
        if self.checkpoints is None or self.saved == (position.step, state.records) or not position.finite:
            return
        if not any_process(due or now or (last and not self.checkpoints.scratch)):
            return
        trees: dict[str, Any] = {"state": position.state}
        if state.losses:
            trees["losses"] = np.concatenate(state.losses, axis=-1)
        if position.traces:
            trees["trace"] = position.trace
        if last_finite.state is not position.state:
            trees["good"] = last_finite.state
        if state.best is not None and state.best is not position.state.network:
            trees["best"] = state.best
        history = state.histories if position.many else state.histories[0]
        about = {"history": history, "seconds": position.seconds, "good": last_finite.step}
        self.checkpoints.save(position.step, _arrays(trees), about)
        self.saved = position.step, state.records
        end = time.monotonic()
        self.next_checkpoint_time = end + PAUSE * (end - begin)

    def resume(self, start: AlgorithmState, blank: Trace, programs: DevicePrograms) -> TrainState | None:
        """Return the state in the newest checkpoint, if there is one, where the programs take it; `start` and `blank`
        show its form."""
        if self.checkpoints is None:
            return None
        resumed = None
        try:
            if (found := self.checkpoints.newest()) is not None:
                resumed = self._restored(found, start, blank, programs)
        except Exception:
            if not self.checkpoints.scratch:
                raise
            self.checkpoints.clear()
        if self.checkpoints.scratch:
            self.next_checkpoint_time = time.monotonic() + WAIT
        return resumed

    def _restored(self, found: Checkpoint, start: AlgorithmState, blank: Trace, programs: DevicePrograms) -> TrainState:
        arrays, about, template = found.arrays(), found.about, jax.eval_shape(whole, start)
        state = programs.place(_filled(template, "state", arrays, found.path))
        position = last_finite = Position(state, found.step, (), about["seconds"])
        if "trace.losses" in arrays:
            trace = _filled(blank, "trace", arrays, found.path, any_shape=True)
            position = position._replace(traces=(trace,))
        if any(name.startswith("good.") for name in arrays):
            last_finite = Position(programs.place(_filled(template, "good", arrays, found.path)), about["good"])
        histories = about["history"] if position.many else [about["history"]]
        losses = (arrays["losses"],) if "losses" in arrays else ()
        best = None
        if self.keeps_best and any(name.startswith("best.") for name in arrays):
            best = programs.place(_filled(template.network, "best", arrays, found.path))
        elif self.keeps_best:
            best = _best_is_now(found, position, histories[0])
        restored = TrainState(position, last_finite, histories, losses, best)
        self.saved = found.step, restored.records
        return restored


def _best_is_now(found: Checkpoint, position: Position, history: list[Record]) -> AbstractNetwork:
    """Return the network of a checkpoint that was written at the best evaluation so far."""
    best = best_record(history)
    if best is None or best["step"] != found.step or position.traces:
        raise ValueError(
            f"{found.path} does not hold the best network of the steps before it, because it was written without "
            "restore_best: leave that out, or train from the start in another folder."
        )
    return position.state.network


def _arrays(trees: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return all arrays of some trees, by name; empty ones need not be kept."""
    named = (pair for part, tree in trees.items() for pair in _named(part, whole(fetch(tree))).items())
    return {name: np.asarray(leaf) for name, leaf in named if leaf.size}


def _named(part: str, tree: Any) -> dict[str, Any]:
    """Return the leaves of a tree by name."""
    leaves = jax.tree.leaves_with_path(tree)
    return {".".join(filter(None, (part, keystr(path, simple=True, separator=".")))): leaf for path, leaf in leaves}


def _filled(template: Tree, part: str, arrays: dict[str, np.ndarray], path: Path, any_shape: bool = False) -> Tree:
    """Return a tree of the template's form with arrays from a checkpoint."""
    leaves = []
    for name, leaf in _named(part, template).items():
        array = arrays.get(name, np.zeros(leaf.shape, leaf.dtype)) if not leaf.size else arrays.get(name)
        if array is None or array.dtype != leaf.dtype or (array.shape != leaf.shape and not any_shape):
            was = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise ValueError(
                f"{path} is of another run: it has {was} for {name}, which is {leaf.dtype}{list(leaf.shape)} here. "
                "Give the same settings, or another folder."
            )
        leaves.append(array)
    return jax.tree.unflatten(jax.tree.structure(template), leaves)
