"""What keeps a training run safe: where it stands goes into checkpoints, and comes back from them."""

import dataclasses
import operator
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr

from ._checkpoints import Checkpoint, Checkpoints
from ._step import State, Trace

HALVINGS = 5
"""How often a learning rate is halved before a run is given up."""
PAUSE = 10
"""Checkpoints at evaluations are so many times as far apart as writing one takes, or more: a tenth of the time."""
WAIT = 5.0
"""Seconds in which a run that checkpoints are scratch of is too young for one."""
BACK_TO = "back_to_step"
"""What the record of a divergence has that was not the end: the step from which training went on."""

Record = dict[str, Any]


class Place(NamedTuple):
    """Where training stands between two dispatches: the state, the steps taken, what those since the last evaluation
    report (on the host, piece by piece), and how long they took."""

    state: State
    step: int = 0
    pieces: tuple[Trace, ...] = ()
    seconds: float = 0.0

    def after(self, state: State, trace: Trace, step: int, seconds: float) -> "Place":
        """The place when a dispatch has led to `step`."""
        count = step - self.step
        host = jax.tree.map(np.asarray, trace)
        if count < host.losses.shape[-1]:
            host = eqx.tree_at(_STEPS, host, replace_fn=lambda values: values[..., :count])
        return Place(state, step, (*self.pieces, host), self.seconds + seconds)

    @property
    def trace(self) -> Trace:
        """All pieces as one."""
        if len(self.pieces) == 1:
            return self.pieces[0]
        joined = [np.concatenate(parts, axis=-1) for parts in zip(*map(_STEPS, self.pieces), strict=True)]
        return eqx.tree_at(_STEPS, self.pieces[-1], tuple(joined))

    @property
    def many(self) -> bool:
        """Whether everything has a leading axis of runs."""
        return bool(self.state.step.ndim)

    @property
    def finite(self) -> bool:
        """Whether all numbers are. After an evaluation, which has seen to it, nothing is looked at again."""
        return not self.pieces or all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves((self.state, self.pieces)))


_STEPS = operator.attrgetter("losses", "energies")
"""What of a trace has an entry for every step."""


@dataclasses.dataclass
class Keeper:
    """Looks after a run, or many side by side: saves it to `checkpoints` after evaluations or `every` so many steps,
    asks `stop` whether to end it early, and says whether a divergence leads back with half the learning rate (`halve`).
    `saved` is the step and the number of records of the last checkpoint, `rests` the time before which no evaluation
    asks for another. Histories are lists of records, one for each run; `every` and `halve` are for one run alone."""

    checkpoints: Checkpoints | None = None
    every: int | None = None
    halve: bool = False
    stop: Callable[[], bool] | None = None
    saved: tuple[int, int] | None = None
    rests: float = 0.0

    def stops(self) -> bool:
        """Whether to end here."""
        return self.stop is not None and self.stop()

    def next(self, step: int) -> int:
        """The step at which training has to pause for a checkpoint, if not for an evaluation before."""
        return sys.maxsize if self.checkpoints is None or self.every is None else step + self.every - step % self.every

    def retries(self, history: list[Record]) -> bool:
        """Whether a run with this history goes on after a divergence."""
        return self.halve and halvings(history) < HALVINGS

    def keep(
        self,
        place: Place,
        good: Place,
        histories: list[list[Record]],
        losses: list[np.ndarray],
        now: bool = False,
        last: bool = False,
    ) -> None:
        """Writes a checkpoint if it is time for one, or `now` in any case, or as it is the `last`. It holds `good`,
        too: where to go back to if the steps since then turn out to have diverged."""
        begin, count = time.monotonic(), sum(map(len, histories))
        due = place.step % self.every == 0 if self.every else not place.pieces and begin >= self.rests
        if self.checkpoints is None or self.saved == (place.step, count) or not place.finite:
            return
        if not (due or now or (last and not self.checkpoints.scratch)):
            return
        trees: dict[str, Any] = {"state": place.state}
        if losses:
            trees["losses"] = np.concatenate(losses, axis=-1)
        if place.pieces:
            trees["trace"] = place.trace
        if good.state is not place.state:
            trees["good"] = good.state
        history = histories if place.many else histories[0]
        about = {"history": history, "seconds": place.seconds, "good": good.step}
        self.checkpoints.save(place.step, _arrays(trees), about)
        self.saved = place.step, count
        end = time.monotonic()
        self.rests = end + PAUSE * (end - begin)

    def resume(self, start: Place, blank: Trace) -> "Resumed | None":
        """What the newest checkpoint holds, if there is one."""
        if self.checkpoints is None:
            return None
        try:
            found = self.checkpoints.newest()
            resumed = None if found is None else self._restored(found, start, blank)
        except Exception:
            if not self.checkpoints.scratch:
                raise
            self.checkpoints.clear()
            resumed = None
        if self.checkpoints.scratch:
            self.rests = time.monotonic() + WAIT
        return resumed

    def _restored(self, found: Checkpoint, start: Place, blank: Trace) -> "Resumed":
        arrays, about = found.arrays(), found.about
        place = good = Place(_filled(start.state, "state", arrays, found.path), found.step, (), about["seconds"])
        if "trace.losses" in arrays:
            piece = _filled(jax.tree.map(np.asarray, blank), "trace", arrays, found.path, any_shape=True)
            place = place._replace(pieces=(piece,))
        if any(name.startswith("good.") for name in arrays):
            good = Place(_filled(start.state, "good", arrays, found.path), about["good"])
        histories = about["history"] if start.many else [about["history"]]
        self.saved = found.step, sum(map(len, histories))
        return Resumed(place, good, histories, [arrays["losses"]] if "losses" in arrays else [])


class Resumed(NamedTuple):
    """Where training goes on: the place, the last good one, and the histories and losses up to there."""

    place: Place
    good: Place
    histories: list[list[Record]]
    losses: list[np.ndarray]


def halvings(history: list[Record]) -> int:
    """How often the learning rate was halved so far."""
    return sum(BACK_TO in record for record in history)


def _arrays(trees: dict[str, Any]) -> dict[str, np.ndarray]:
    """All arrays of some trees, by name; empty ones have nothing to be kept."""
    named = (pair for part, tree in trees.items() for pair in _named(part, tree).items())
    return {name: np.asarray(leaf) for name, leaf in named if leaf.size}


def _named(part: str, tree: Any) -> dict[str, Any]:
    """The leaves of a tree by name."""
    leaves = jax.tree.leaves_with_path(tree)
    return {".".join(filter(None, (part, keystr(path, simple=True, separator=".")))): leaf for path, leaf in leaves}


def _filled(template: Any, part: str, arrays: dict[str, np.ndarray], path: Path, any_shape: bool = False) -> Any:
    """A tree of the template's form with arrays from a checkpoint."""
    leaves = []
    for name, leaf in _named(part, template).items():
        array = arrays.get(name, np.zeros_like(leaf)) if not leaf.size else arrays.get(name)
        if array is None or array.dtype != leaf.dtype or (array.shape != leaf.shape and not any_shape):
            was = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise ValueError(
                f"{path} is of another run: it has {was} for {name}, which is {leaf.dtype}{list(leaf.shape)} here. "
                "Give the same settings, or another folder."
            )
        leaves.append(jnp.asarray(array) if isinstance(leaf, jax.Array) else array)
    return jax.tree.unflatten(jax.tree.structure(template), leaves)
