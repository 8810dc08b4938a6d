"""Where batches come from: the samples on the device, their order, augmentation and normalisation."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.random as jr
from jaxtyping import Array, Int

from ..inference import Batch, free_start
from ..network import Inputs, Outputs, PRNGKeyArray
from ._augment import augment

Order = Int[Array, " samples"]


@dataclasses.dataclass(frozen=True)
class SampleFormat:
    """How stored samples become inputs and targets."""

    normalise: Callable[[Array], Inputs]
    classes: int | None
    image_shape: tuple[int, ...] | None
    unsupervised: bool

    @property
    def has_accuracy(self) -> bool:
        """Whether predictions are right or wrong."""
        return self.classes is not None and not self.unsupervised

    def batch(self, raw: Array, targets: Array, key: PRNGKeyArray, in_size: int) -> Batch:
        """Return inputs and targets: one-hot labels or regression targets. In unsupervised training the inputs
        themselves are the targets, and z₀ starts from random values."""
        x = self.normalise(raw)
        if self.unsupervised:
            return Batch(free_start(key, len(x), in_size), x, free_input=True)
        y: Outputs = targets if self.classes is None else jax.nn.one_hot(targets, self.classes)
        return Batch(x, y)


class BatchSource(eqx.Module):
    """The training samples, and how a batch is drawn from them."""

    raw: Array
    targets: Array
    key: PRNGKeyArray
    format: SampleFormat = eqx.field(static=True)
    augments: bool = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)

    def order(self, epoch: Int[Array, ""]) -> Order:
        """Return the order of the samples in one epoch."""
        return jr.permutation(jr.fold_in(self.key, epoch), len(self.raw))

    def draw(
        self, order: Order, index: Int[Array, ""], step: Int[Array, ""], in_size: int
    ) -> tuple[Batch, PRNGKeyArray]:
        """Return batch number `index` of an epoch, and the random key of the training step that uses it."""
        key = jr.fold_in(jr.fold_in(self.key, 2**31 - 1), step)
        chosen = jax.lax.dynamic_slice(order, (index * self.batch_size,), (self.batch_size,))
        raw = self.raw[chosen]
        if self.augments and self.format.image_shape is not None:
            raw = augment(key, raw, self.format.image_shape)
        return self.format.batch(raw, self.targets[chosen], key, in_size), key
