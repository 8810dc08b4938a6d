"""`TrainConfig`: every setting of a training run, validated once."""

import dataclasses
import os
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.sharding import Mesh
from numpy.typing import ArrayLike

from ..data import BatchStream, DataError, Dataset, RawSamples, from_arrays
from ..inference import CROSS_ENTROPY, PAPER_LOSS, AbstractSolver, Energy, ErrorSpace, as_energy, traced, with_loss
from ..io import checks
from ..learning import (
    MUP,
    NOT_SCALED,
    PC,
    AbstractAlgorithm,
    LearningContext,
    Optimiser,
    check_optimiser,
    check_rate_scaling,
    default_schedule,
    scaling_base,
    why_no_rule,
)
from ..network import POLICIES, AbstractNetwork, BaseSize, Real, check_network, resolve_precision, using
from ._augment import DEGREES
from ._batches import BatchSource, SampleFormat, StoredBatches, bucket, learned, padded
from ._compute_path import AUTO, choose_precision, describe_path
from ._step import TrainJob
from ._stream import Batches, StreamedBatches

BATCH_SIZE = 64
MOST_STEPS = 2**31
HALVE = "halve-lr"
ON_DIVERGENCE = ("stop", HALVE)
FILL = "fill"
LAST_BATCH = ("drop", FILL)
Path = str | os.PathLike[str]
Arrays = tuple[RawSamples, ArrayLike]
"""Samples and their targets, as `mupc.data.from_arrays` takes them."""


class StepPlan(NamedTuple):
    """The number of steps in all and from one evaluation to the next, and where their batches come from."""

    total: int
    interval: int
    batches: Batches

    @property
    def per_epoch(self) -> int:
        """The number of steps in an epoch."""
        return self.batches.per_epoch

    def next_evaluation(self, step: int) -> int:
        """Return the step of the first evaluation after this one."""
        return min(self.total, step + self.interval - step % self.interval)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Every setting of a training run; `mupc.fit` takes them as keywords.

    - `epochs` (may be a fraction), `seed` (order of the batches, random starts), `batch_size` (by default 64,
      or all samples if there are fewer; a stream has its own).
    - `weight_lr`: the learning rate of the weights; by default what suits the algorithm: 0.05 in error space and for
      backpropagation, or 0.02 if rates are not scaled; otherwise 0.2, or 0.1.
    - `energy`: `mupc.Energy(...)`; by default its λ follows the algorithm, and its loss is cross-entropy for a text and
      squared error for everything else.
    - `precision`: as for `mupc.infer`, or `"auto"`: bf16 products with float32 sums on a GPU, where its kernels take
      them, in error space and for backpropagation; otherwise that of the weights. `result.compute_path` says what ran.
    - `rate_scaling`: `"mup"` gives each kind of weight a factor on its learning rate, so that the rate of a small
      network is right for a large one. All factors are one at `base_hidden_layers` layers of `base_width`. `"none"`
      takes the rate as it is at every size, as the paper does. By default `"mup"` where there is a rule: for μPC with
      a named optimiser. `docs/rate-scaling.md` has the factors.
    - `optimiser`: a name such as `"adam"` or `"sgd"`, or any optax transformation, which then brings its own rate.
    - `schedule`: how rates change over the run: `"cosine"` (the default) and `"linear"` fall to zero, `"warmup-cosine"`
      rises first, and `"constant"` is what the paper has.
    - `last_batch`: `"drop"` leaves out the samples at the end of an epoch that do not make a whole batch; `"fill"`
      fills that batch up with samples from the start of the epoch's order.
    - `evaluate_every`: steps between evaluations; by default once an epoch.
    - `unsupervised`: learn to generate the inputs from a free z₀; targets are not used.
    - `augment`: random crops, rotations and, in colour, flips of the images, on the device. Windows of a text begin
      anywhere. `rotation`: the most degrees to turn an image by; 0 for none. `cutout`: with `augment`, the side in
      pixels of a square of each image that is hidden; 0 for none.
    - `checkpoints`: a folder to write checkpoints to and to go on from. `checkpoint_every`: steps between them; by
      default at evaluations, but never for more than a tenth of the time. `keep`: how many to keep.
    - `on_divergence`: `"stop"`, or `"halve-lr"` to go back to the last finite state with half the `weight_lr`, up to
      five times; the record of each divergence then has `back_to_step` and the new `weight_lr`.
    - `patience`: stop after this many evaluations without a better score on the validation split. `restore_best`:
      return the network with the best score instead of the last; None: with `patience` only.
    """

    epochs: float | int = 1
    batch_size: int | None = None
    weight_lr: Real | None = None
    seed: int = 0
    energy: Energy | None = None
    optimiser: Optimiser = "adam"
    schedule: str | None = None
    evaluate_every: int | None = None
    unsupervised: bool = False
    augment: bool = False
    rotation: float | int = DEGREES
    cutout: int = 0
    precision: str | None = AUTO
    checkpoints: Path | None = None
    checkpoint_every: int | None = None
    keep: int = 2
    on_divergence: str = "stop"
    patience: int | None = None
    restore_best: bool | None = None
    last_batch: str = "drop"
    rate_scaling: str | None = None
    base_width: int = BaseSize().width
    base_hidden_layers: int = BaseSize().hidden_layers

    def __post_init__(self) -> None:
        as_energy(self.energy)
        checks.number("epochs", self.epochs, above=0)
        if self.batch_size is not None:  # numpy's are not int
            object.__setattr__(self, "batch_size", checks.integer("batch_size", self.batch_size, 1))
        checks.seed(self.seed)
        check_optimiser(self.optimiser, self.weight_lr, self.schedule)
        checks.boolean("unsupervised", self.unsupervised)
        checks.boolean("augment", self.augment)
        checks.number("rotation", self.rotation, at_least=0)
        object.__setattr__(self, "cutout", checks.integer("cutout", self.cutout, 0))
        if self.cutout and not self.augment:
            raise checks.ArgumentError("cutout", "is a part of augmentation:", "set {augment}, or leave it out.")
        checks.integer("keep", self.keep, 1)
        for name in ("base_width", "base_hidden_layers"):
            object.__setattr__(self, name, checks.integer(name, getattr(self, name), 1))
        check_rate_scaling(self.rate_scaling)
        for name in ("evaluate_every", "checkpoint_every", "patience"):
            if (every := getattr(self, name)) is not None:
                object.__setattr__(self, name, checks.integer(name, every, 1))
        if self.checkpoint_every is not None and self.checkpoints is None:
            raise checks.ArgumentError("checkpoint_every", "needs a folder:", "give {checkpoints}, or leave it out.")
        if self.precision not in (None, AUTO, *POLICIES):
            raise checks.unknown("precision", self.precision, (AUTO, *POLICIES))
        if self.restore_best is not None:
            checks.boolean("restore_best", self.restore_best)
        if self.on_divergence not in ON_DIVERGENCE:
            raise checks.unknown("on_divergence", self.on_divergence, ON_DIVERGENCE)
        if self.last_batch not in LAST_BATCH:
            raise checks.unknown("last_batch", self.last_batch, LAST_BATCH)
        if self.halves_rate and not isinstance(self.optimiser, str):
            raise checks.ArgumentError(
                "on_divergence",
                f'= "{HALVE}" does not have a rate to halve, because an optax transformation brings its own.',
                'Name an optimiser such as "adam", or use "stop".',
            )

    @classmethod
    def of(cls, config: "TrainConfig | None", settings: Mapping[str, object]) -> "TrainConfig":
        """Return a configuration (by default all defaults) with these settings in place of its own."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name, value in settings.items():
            if name in ("method", "solver"):
                raise checks.ArgumentTypeError(
                    name,
                    f"= {checks.literal(value)} is not a keyword:",
                    "pass an algorithm as the third argument, {BP}() or {PC}(solver).",
                )
            if name not in known:
                raise checks.ArgumentTypeError(
                    name,
                    f"is not a setting of training.{checks.suggestion(name, known)}",
                    f"Choose from {', '.join(known)}.",
                )
        return dataclasses.replace(cls() if config is None else config, **settings)  # type: ignore[arg-type]

    @property
    def halves_rate(self) -> bool:
        """Whether a divergence leads back with half the learning rate."""
        return self.on_divergence == HALVE

    @property
    def keeps_best(self) -> bool:
        """Whether the network with the best score on the validation split is returned."""
        return self.patience is not None if self.restore_best is None else self.restore_best

    @property
    def objective(self) -> Energy:
        """The energy."""
        return as_energy(self.energy)

    def suited_to(self, dataset: Dataset | BatchStream) -> "TrainConfig":
        """Return the settings with a loss that suits a data set where it was left open. Cutout needs images."""
        if self.cutout and dataset.schema.image_shape is None:
            raise checks.ArgumentError("cutout", "is for images, and this data set has none.", "Leave it out.")
        is_text = dataset.schema.task == "text" and not self.unsupervised
        return dataclasses.replace(self, energy=with_loss(self.energy, CROSS_ENTROPY if is_text else PAPER_LOSS))

    @property
    def rate(self) -> Real:
        """The learning rate as a number. That of an optax transformation is its own: this one is not used."""
        return 1.0 if self.weight_lr is None else self.weight_lr

    @property
    def course(self) -> str:
        """The schedule as used."""
        return default_schedule(self.optimiser) if self.schedule is None else self.schedule

    def chosen(self, network: AbstractNetwork, algorithm: AbstractAlgorithm) -> "TrainConfig":
        """Return the settings as used: what was left to the algorithm and the network is chosen."""
        defaults, base = algorithm.defaults, self.base(network)
        own = None
        if isinstance(self.optimiser, str):
            own = defaults.unscaled_weight_lr if base is None else defaults.weight_lr
        return dataclasses.replace(
            self,
            rate_scaling=NOT_SCALED if base is None else MUP,
            weight_lr=own if self.weight_lr is None else self.weight_lr,
            schedule=self.course,
            energy=as_energy(self.energy, defaults.output_precision),
            precision=choose_precision(self.precision, network, algorithm, self.objective, self.unsupervised).name,
        )

    def base(self, network: AbstractNetwork) -> BaseSize | None:
        """Return the size from which rates are scaled; None if they are not. Refuse to scale without a rule."""
        base = BaseSize(self.base_width, self.base_hidden_layers)
        return scaling_base(network, self.optimiser, self.rate_scaling, base)

    def describe_rates(self, network: AbstractNetwork) -> str:
        """Return a line on how learning rates are scaled, or why they are not."""
        base = self.base(network)
        if base is not None:
            factors: dict[str, set[float]] = {}
            for kind, by in zip(network.weight_roles, network.rate_scales(base).updates, strict=True):
                factors.setdefault(kind.role, set()).add(float(f"{by.weight:.3g}"))
            shown = [
                f"{role} weights × {_span(found)}"
                for role, found in factors.items()
                if role not in ("input", "readout")
            ]
            return f"learning rates scaled from {base}" + (f": updates of {', '.join(shown)}" if shown else "")
        missing = why_no_rule(network, self.optimiser)
        return "learning rates not scaled" + ("" if missing is None else f": no rule for {missing}")

    def compute_path(self, network: AbstractNetwork, algorithm: AbstractAlgorithm, mesh: Mesh | None = None) -> str:
        """Return a line on what computes: the precision, the device and its kernels, or why they are not used."""
        chosen = self.chosen(network, algorithm)
        policy = resolve_precision(chosen.precision, network)
        with using(mesh):
            return describe_path(network, algorithm, chosen.objective, policy, self.unsupervised)

    def check(self, network: AbstractNetwork, dataset: Dataset | BatchStream, algorithm: AbstractAlgorithm) -> None:
        """Refuse what cannot be trained together, before anything is compiled."""
        check_network(network)
        self.base(network)
        self.check_energy(network, dataset, algorithm)
        if len(network.output_shape) > 1 and dataset.schema.task != "text" and not self.unsupervised:
            wrong = f"has outputs of shape {network.output_shape}, and {dataset.name} is not a text."
            raise checks.ArgumentError("the network", wrong, "Load a text with mupc.data.load, or use another network.")
        wanted = {"out_size": dataset.in_size} if self.unsupervised else {
            "in_size": dataset.in_size, "out_size": dataset.out_size
        }  # fmt: skip
        for name, size in wanted.items():
            if getattr(network, name) != size:
                shape = network.input_shape if name == "in_size" else network.output_shape
                told = f" (shape {shape})" if len(shape) > 1 else ""
                raise checks.ArgumentError(
                    name,
                    f"of the network is {getattr(network, name)}{told}, but {dataset.name} needs {size}.",
                    "Create the network that way.",
                )
        shape = dataset.schema.sample_shape or ()
        if not self.unsupervised and len(network.input_shape) > 1 and len(shape) > 1 and network.input_shape != shape:
            raise checks.ArgumentError(
                "input_shape",
                f"of the network is {network.input_shape}, but samples of {dataset.name} have the shape {shape}.",
                "Create the network that way; channels come first.",
            )
        if dataset.schema.task == "text" and network.output_shape != dataset.output_shape:
            raise checks.ArgumentError(
                "the network",
                f"has outputs of shape {network.output_shape}, but {dataset.name} needs {dataset.output_shape}.",
                "Use one for texts, such as mupc.models.transformer.",
            )
        if (self.patience is not None or self.keeps_best) and not dataset.validation:
            raise checks.ArgumentError(
                "restore_best" if self.patience is None else "patience",
                f"needs a validation split, and {dataset.name} does not have one.",
                "Hold one out with {validation}, or leave this out.",
            )
        if self.augment and dataset.image_shape is None and dataset.schema.task != "text":
            raise checks.ArgumentError(
                "augment", f"needs images or a text, and {dataset.name} has neither.", "Leave it out."
            )
        self._check_length(dataset)

    def _check_length(self, dataset: Dataset | BatchStream) -> None:
        """Refuse batches and epochs that the data do not have room for."""
        per_epoch = self.batches(dataset).per_epoch
        if not per_epoch:
            raise checks.ArgumentError(
                "batch_size",
                f"= {self.batch_size} is more than the {len(dataset.train)} training samples of {dataset.name}.",
                "Use a smaller batch.",
            )
        if self.epochs * per_epoch >= MOST_STEPS:
            raise checks.ArgumentError(
                "epochs", f"= {self.epochs:g} of {dataset.name} are {MOST_STEPS:,} steps or more.", "Use fewer."
            )

    def check_energy(
        self, network: AbstractNetwork, dataset: Dataset | BatchStream, algorithm: AbstractAlgorithm
    ) -> None:
        """Refuse an energy that the algorithm does not have, or whose loss does not fit the targets."""
        energy = self.objective
        algorithm.check(network, energy, self.unsupervised)
        energy.check_outputs((dataset.in_size,) if self.unsupervised else dataset.output_shape)
        if energy.output_function == CROSS_ENTROPY and (self.unsupervised or dataset.classes is None):
            targets = "the inputs themselves" if self.unsupervised else f"numbers in {dataset.name}"
            raise checks.ArgumentError(
                "loss", f"cross-entropy needs classes as targets, and they are {targets}.", 'Use the loss "mse".'
            )

    def batches(self, dataset: Dataset | BatchStream) -> Batches:
        """Return where batches come from."""
        if isinstance(dataset, BatchStream):
            if self.batch_size not in (None, dataset.batch_size):
                raise checks.ArgumentError(
                    "batch_size",
                    f"= {self.batch_size} has no effect, because {dataset.name} makes batches of {dataset.batch_size}.",
                    "Leave it out.",
                )
            pauses = (self.evaluate_every, self.checkpoint_every)
            return StreamedBatches(dataset, min(every for every in (*pauses, dataset.batches_per_epoch) if every))
        size = min(BATCH_SIZE, len(dataset.train)) if self.batch_size is None else self.batch_size
        return StoredBatches(dataset.train, size, self.last_batch == FILL)

    def plan(self, dataset: Dataset | BatchStream) -> StepPlan:
        """Return how long to train, and when to evaluate."""
        batches = self.batches(dataset)
        total = max(1, round(float(self.epochs) * batches.per_epoch))
        return StepPlan(total, min(total, self.evaluate_every or batches.per_epoch), batches)

    def job(self, network: AbstractNetwork, dataset: Dataset | BatchStream, algorithm: AbstractAlgorithm) -> TrainJob:
        """Return the job, after all checks."""
        self.check(network, dataset, algorithm)
        plan = self.plan(dataset)
        source = BatchSource(
            raw=padded(dataset.train.raw, bucket(len(dataset.train))),
            targets=padded(learned(dataset, dataset.train), bucket(len(dataset.train))),
            normalise=jax.tree.map(lambda leaf: jnp.asarray(leaf) if np.ndim(leaf) else leaf, dataset.normalisation),
            key=jr.key(checks.seed(self.seed)),
            format=SampleFormat(dataset.classes, dataset.image_shape, self.unsupervised, dataset.schema.context),
            augments=self.augment,
            rotation=float(self.rotation),
            cutout=self.cutout,
            batch_size=plan.batches.batch_size,
        )
        return TrainJob(traced(algorithm), self.context(network, algorithm, plan.total), source)

    def context(self, network: AbstractNetwork, algorithm: AbstractAlgorithm, steps: int) -> LearningContext:
        """Return the settings of learning for a run with this number of steps."""
        chosen = self.chosen(network, algorithm)
        policy = resolve_precision(chosen.precision, network)
        return LearningContext(
            energy=chosen.objective,
            weight_lr=jnp.asarray(chosen.rate, policy.dtype),
            optimiser=self.optimiser,
            schedule=self.course,
            total_steps=jnp.asarray(steps),
            precision=policy.name,
            base=self.base(network),
        )


def _span(numbers: set[float]) -> str:
    """Return a number, or the range of several."""
    return " … ".join(f"{number:g}" for number in dict.fromkeys((min(numbers), max(numbers))))


def as_algorithm(given: AbstractAlgorithm | AbstractSolver | None) -> AbstractAlgorithm:
    """Return an algorithm; a bare solver stands for `mupc.PC(solver)`, and None for error space."""
    if given is None or isinstance(given, AbstractSolver):
        return PC(ErrorSpace() if given is None else given)
    if isinstance(given, AbstractAlgorithm):
        return given
    raise checks.ArgumentTypeError(
        "algorithm",
        f"must be an algorithm such as mupc.PC(solver) or mupc.BP(), or a solver, got {checks.literal(given)}.",
        "Pass it as the third argument.",
    )


def as_dataset(given: Dataset | BatchStream | Arrays, seed: int, network: AbstractNetwork) -> Dataset | BatchStream:
    """Return a data set or a stream; a pair of samples and targets is split at random. A network with one output learns
    values, since classes take at least two."""
    if isinstance(given, Dataset | BatchStream):
        return given
    if isinstance(given, tuple) and len(given) == 2:
        check_network(network)
        try:
            return from_arrays(*given, seed=seed, task="regression" if network.out_size == 1 else "auto")
        except DataError as error:
            if "{task}" not in error.cure:
                raise
            raise DataError(error.problem, 'pass mupc.data.from_arrays(x, y, task="regression") or its like') from None
    found = checks.literal(given) if isinstance(given, str) else type(given).__name__  # an array would fill the screen
    raise checks.ArgumentTypeError(
        "dataset",
        f'must be a mupc.data.Dataset such as mupc.data.load("digits"), or a pair (x, y), got {found}.',
    )
