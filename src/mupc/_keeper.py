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

from ._checkpoint import Checkpoints
from ._step import State, Trace

HALVINGS = 5
"""How often a learning rate is halved before a run is given up."""
PAUSE = 10
"""Checkpoints at evaluations are so many times as far apart as writing one takes, or more: a tenth of the time."""
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
    def finite(self) -> bool:
        """Whether all numbers are. After an evaluation, which has seen to it, nothing is looked at again."""
        return not self.pieces or all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves((self.state, self.pieces)))


_STEPS = operator.attrgetter("losses", "energies")
"""What of a trace has an entry for every step."""


@dataclasses.dataclass
class Keeper:
    """Looks after one run: saves it to `checkpoints` after evaluations or `every` so many steps, asks `stop` whether to
    end it early, and says whether a divergence leads back with half the learning rate (`halve`). `saved` is the step
    and the number of records of the last checkpoint, `rests` the time before which no evaluation asks for another."""

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
        self, place: Place, good: Place, history: list[Record], losses: list[np.ndarray], now: bool = False
    ) -> None:
        """Writes a checkpoint if it is time for one, or `now` in any case. It holds `good`, too: where to go back to if
        the steps since then turn out to have diverged."""
        begin = time.monotonic()
        due = place.step % self.every == 0 if self.every else not place.pieces and begin >= self.rests
        if self.checkpoints is None or not (due or now) or self.saved == (place.step, len(history)) or not place.finite:
            return
        trees: dict[str, Any] = {"state": place.state}
        if losses:
            trees["losses"] = np.concatenate(losses)
        if place.pieces:
            trees |= {"trace": place.trace, "good": good.state}
        about = {"history": history, "seconds": place.seconds, "good": good.step}
        self.checkpoints.save(place.step, _arrays(trees), about)
        self.saved = place.step, len(history)
        end = time.monotonic()
        self.rests = end + PAUSE * (end - begin)

    def resume(self, start: State, blank: Trace) -> tuple[Place, Place, list[Record], list[np.ndarray]] | None:
        """The place, the last good one, the history and the losses in the newest checkpoint, if there is one."""
        found = None if self.checkpoints is None else self.checkpoints.newest()
        if found is None:
            return None
        arrays, about = found.arrays(), found.about
        place = good = Place(_filled(start, "state", arrays, found.path), found.step, (), about["seconds"])
        if "trace.losses" in arrays:
            piece = _filled(jax.tree.map(np.asarray, blank), "trace", arrays, found.path, any_shape=True)
            place = place._replace(pieces=(piece,))
            good = Place(_filled(start, "good", arrays, found.path), about["good"])
        self.saved = found.step, len(about["history"])
        return place, good, about["history"], [arrays["losses"]] if "losses" in arrays else []


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
