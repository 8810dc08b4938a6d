"""Where batches come from: the samples on the device, their order, augmentation and normalisation."""

import dataclasses
import math
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Int, Key

from ..data import BatchStream, Dataset, Normalisation, Split
from ..inference import Batch, free_start
from ..network import Outputs, PRNGKeyArray
from ._augment import DEGREES, augment

Order = Int[Array, "*runs drawn"]

BUCKETS = 16
"""How many sizes there are from a power of two to the next: filling up to one of them costs a sixteenth at most."""


def bucket(count: int, finest: int = 16) -> int:
    """Return a size that is as large or a little larger, and the same for nearby counts, so that these share a compiled
    program. Sizes are at least `finest` apart."""
    step = max(finest, 2 ** (count.bit_length() - 1) // BUCKETS)
    return -(-count // step) * step


def padded(rows: np.ndarray, count: int) -> Array:
    """Return rows on the device, filled up to this number with zeros that no order refers to."""
    return jnp.asarray(np.pad(rows, [(0, count - len(rows)), *[(0, 0)] * (rows.ndim - 1)]))


def learned(dataset: Dataset | BatchStream, split: Split) -> np.ndarray:
    """Return the targets of a split for the device: labels (which become one-hot there), or scaled values."""
    return split.targets if dataset.classes is not None else dataset.encode(split.targets)


def _flat_normalisation(normalisation: Normalisation) -> tuple[tuple[object, ...], None]:
    return tuple(getattr(normalisation, field.name) for field in dataclasses.fields(normalisation)), None


def _normalisation(_: None, values: tuple[object, ...]) -> Normalisation:
    made = object.__new__(Normalisation)  # without its checks: values may be traced
    for field, value in zip(dataclasses.fields(Normalisation), values, strict=True):
        object.__setattr__(made, field.name, value)
    return made


# Arrays of one value per feature are then arguments of a program; plain numbers are compiled in.
jax.tree_util.register_pytree_node(Normalisation, _flat_normalisation, _normalisation)


@dataclasses.dataclass(frozen=True)
class SampleFormat:
    """How stored samples become inputs and targets."""

    classes: int | None
    image_shape: tuple[int, ...] | None
    unsupervised: bool
    context: int | None = None

    @property
    def positions(self) -> int:
        """The number of predictions in a sample: one for each character of a text. Records give means over them."""
        return self.context or 1

    @property
    def has_accuracy(self) -> bool:
        """Whether predictions are right or wrong."""
        return self.classes is not None and not self.unsupervised

    @property
    def is_regression(self) -> bool:
        """Whether predictions are values, as far off as they are."""
        return self.classes is None and not self.unsupervised


class BatchSource(eqx.Module):
    """Training samples on the device, and how a batch is drawn from them."""

    raw: Array
    targets: Array
    normalise: Normalisation
    key: PRNGKeyArray
    format: SampleFormat = eqx.field(static=True)
    augments: bool = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    rotation: float = eqx.field(static=True, default=DEGREES)
    cutout: int = eqx.field(static=True, default=0)

    def batch(self, raw: Array, targets: Array, key: PRNGKeyArray, in_size: int) -> Batch:
        """Return inputs and targets: one-hot labels or regression targets. In unsupervised training the inputs
        themselves are the targets, and z₀ starts from random values."""
        x = self.normalise(raw)
        if self.format.unsupervised:
            return Batch(free_start(key, len(x), in_size), x, free_input=True)
        classes = self.format.classes
        y: Outputs = targets if classes is None else jax.nn.one_hot(targets, classes)
        return Batch(x, y)

    def draw(
        self, order: Order, index: Int[Array, ""], step: Int[Array, ""], in_size: int
    ) -> tuple[Batch, PRNGKeyArray]:
        """Return batch number `index` of an order, and the random key of the training step that uses it."""
        key = jr.fold_in(jr.fold_in(self.key, 2**31 - 1), step)
        chosen = jax.lax.dynamic_slice(order, (index * self.batch_size,), (self.batch_size,))
        raw, targets = self.raw[chosen], self.targets[chosen]
        if self.augments and self.format.image_shape is not None:
            raw = augment(key, raw, self.format.image_shape, self.rotation, self.cutout)
        elif self.augments:
            raw, targets = self._moved_windows(chosen, key)
        return self.batch(raw, targets, key, in_size), key

    def _moved_windows(self, chosen: Int[Array, " batch"], key: PRNGKeyArray) -> tuple[Array, Array]:
        """Return windows of a text that begin up to a window earlier, at random. Rows follow each other in the text."""
        length = self.raw.shape[1]
        starts = jnp.maximum(chosen * length - jr.randint(key, chosen.shape, 0, length), 0)
        places = starts[:, None] + jnp.arange(length)
        return self.raw.reshape(-1)[places], self.targets.reshape(-1)[places]


class Dispatch(NamedTuple):
    """Steps that are taken at once: `length` batches of a source in an order, from batch number `first` on."""

    source: BatchSource
    order: Order
    first: int
    length: int


@dataclasses.dataclass(frozen=True)
class StoredBatches:
    """The batches of a split that lies on the device, drawn again every epoch. What is left over at the end of an epoch
    is too little for a batch: it is dropped, or filled up (`fills`) with samples from the start of the epoch's
    order."""

    split: Split
    batch_size: int
    fills: bool = False
    _latest: dict[str, Any] = dataclasses.field(default_factory=dict, compare=False, repr=False)
    """The order of the latest epoch, with its key and number: short intervals should not sort the samples again."""

    @property
    def per_epoch(self) -> int:
        """The number of batches in an epoch."""
        return -(-len(self.split) // self.batch_size) if self.fills else len(self.split) // self.batch_size

    @property
    def content(self) -> dict[str, object]:
        """What a run must have in common with another to have the same batches, by name."""
        data: dict[str, object] = {
            f"the training data ({name})": getattr(self.split, name) for name in ("raw", "targets")
        }
        return data | ({"last_batch": "fill"} if self.fills else {})

    def dispatches(self, source: BatchSource, steps: range, every: int | None) -> Iterator[Dispatch]:
        """Yield these steps, split where an epoch ends and at multiples of `every`."""
        for epoch, first, count in spans(steps, self.per_epoch, every):
            if self._latest.get("key") is not source.key or self._latest["epoch"] != epoch:
                self._latest.update(key=source.key, epoch=epoch, order=self._order(source.key, epoch))
            yield Dispatch(source, self._latest["order"], first, count)

    def _order(self, key: Key[Array, "*runs"], epoch: int) -> Order:
        samples = len(self.split)
        length = bucket(max(samples, self.per_epoch * self.batch_size))
        return epoch_order(key, jnp.asarray(epoch), jnp.asarray(samples), length, shuffles(samples))


def spans(steps: range, per_epoch: int, every: int | None, most: int = sys.maxsize) -> Iterator[tuple[int, int, int]]:
    """Split steps at the ends of epochs, at multiples of `every`, and at every `most` batches of an epoch: (epoch,
    first batch in it, number of batches)."""
    step = steps.start
    while step < steps.stop:
        epoch, first = divmod(step, per_epoch)
        left = steps.stop - step
        length = min(left, per_epoch - first, most - first % most, left if every is None else every - step % every)
        yield epoch, first, length
        step += length


def shuffles(count: int) -> int:
    """Return how often `jax.random.permutation` sorts by random numbers of 32 bits: more than once where two of them
    are likely to be equal."""
    return math.ceil(3 * math.log(count) / math.log(2**32 - 1))


@eqx.filter_jit
def epoch_order(
    key: Key[Array, "*runs"], epoch: Int[Array, ""], samples: Int[Array, ""], length: int, rounds: int
) -> Order:
    """Return the order of the samples in one epoch, repeated up to a length, for one key or for many.

    It is `jax.random.permutation(jax.random.fold_in(key, epoch), samples)` to the bit, but without the number of
    samples in the program: the numbers beyond it are sorted to the end.
    """

    def one(key: PRNGKeyArray) -> Order:
        key = jr.fold_in(key, epoch)
        order, last = jnp.arange(length), jnp.uint32(2**32 - 1)
        for _ in range(rounds):
            key, own = jr.split(key)
            bits = jnp.where(jnp.arange(length) < samples, jr.bits(own, (length,), jnp.uint32), last)
            _, order = jax.lax.sort_key_val(bits, order)
        return order[jnp.arange(length) % samples]

    return jax.vmap(one)(key) if key.ndim else one(key)
