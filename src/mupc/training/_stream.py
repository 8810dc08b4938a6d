"""Batches of a stream, which are made on the host and go to the device some at a time."""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from ..data import BatchStream, DataError, Split
from ._batches import BatchSource, Dispatch, StoredBatches, learned, padded, spans

if TYPE_CHECKING:
    from ._result import FitResult

STREAM_BYTES, STREAM_BATCHES = 2**26, 32
"""How much of a stream goes to the device at a time, at most. The next part is made while the device learns from it."""


class StreamError(DataError):
    """A batch of a stream that could not be had. `results` hold what was learnt until then, one for each run."""

    results: "list[FitResult]"


class StreamedBatches:
    """The batches of a stream. As many as make one dispatch go to the device at a time: a fixed number, so that one
    program serves all, and at most `most` of them.

    The stream's iterator stays open from one dispatch to the next: `place` is the epoch and batch that comes next.
    """

    def __init__(self, stream: BatchStream, most: int) -> None:
        self.stream, self.batch_size, self.per_epoch = stream, stream.batch_size, stream.batches_per_epoch
        room = STREAM_BYTES // (stream.train.raw.nbytes + stream.train.targets.nbytes)
        self.most = max(1, min(most, room, STREAM_BATCHES))
        self.place: tuple[int, int] | None = None
        self.iterator: Iterator[Split] = iter(())

    @property
    def content(self) -> dict[str, object]:
        """What a run must have in common with another to have the same batches, by name, as far as this is known."""
        return {"the training data": f"the stream {self.stream.name}", "batches_per_epoch": self.per_epoch}

    def dispatches(self, source: BatchSource, steps: range, every: int | None) -> Iterator[Dispatch]:
        """Yield these steps, split where an epoch ends, at multiples of `every`, and where the device has its fill."""
        most = self.most if every is None else min(self.most, every)
        size = most * self.batch_size
        order = jnp.broadcast_to(jnp.arange(size), (*source.key.shape, size))
        for epoch, first, count in spans(steps, self.per_epoch, every, most):
            splits = [self._next(epoch, index) for index in range(first, first + count)]
            raw = np.concatenate([split.raw for split in splits])
            targets = np.concatenate([learned(self.stream, split) for split in splits])
            part = dataclasses.replace(source, raw=padded(raw, size), targets=padded(targets, size))
            yield Dispatch(part, order, 0, count)

    def _next(self, epoch: int, index: int) -> Split:
        """Return a batch of an epoch."""
        if self.place != (epoch, index):
            self.iterator = self.stream.epoch(epoch, index)
        self.place = None
        try:
            split = next(self.iterator)
        except DataError as error:
            raise StreamError(error.problem, error.cure) from error
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise StreamError(
                f"batch {index} of epoch {epoch} of {self.stream.name} could not be made ({reason})",
                "mend the function that makes batches",
            ) from error
        self.place = epoch, index + 1
        return split


Batches = StoredBatches | StreamedBatches
