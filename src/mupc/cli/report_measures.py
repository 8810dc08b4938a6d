"""Measure the trained network of a run again: its predictions on the data, and the conditioning of inference."""

import dataclasses

import numpy as np

from ..data import Dataset, Split
from ..diagnostics import Conditioning
from ..io.progress import percent
from ..network import AbstractNetwork, Network
from ..prediction import Model, load
from .building import METHODS, load_data, make_energy, network_maker, number_format
from .config import TrainFlags
from .report_runs import RecordedRun, is_number
from .runner import explain

MOST_SAMPLES = 10_000
MOST_WORK = 5e9
"""The most multiplications of a Cholesky factor of the activity Hessian: a few seconds."""
FAR = 0.02
"""How far an accuracy may be from the recorded one before the page says that the data have changed."""
ConditionRecord = dict[str, float | str | list[float] | None]


@dataclasses.dataclass(frozen=True)
class Predictions:
    """What a run's network makes of a split of its data: the model, the split's name and its first samples, the
    network's outputs, and how many samples the split has in all."""

    model: Model
    dataset: Dataset
    split: str
    samples: Split
    outputs: np.ndarray
    available: int

    @property
    def predicted(self) -> np.ndarray:
        """The place of the predicted class, or the values in the units of the targets, `(n, outputs)`."""
        if self.model.schema.task != "regression":
            return np.asarray(self.outputs.argmax(axis=-1))
        return np.asarray(self.model.schema.decode(self.outputs), np.float64).reshape(self.samples.targets.shape)


@dataclasses.dataclass(frozen=True)
class RunMeasures:
    """What was measured of a run: predictions, the conditioning of inference before and after training, and for each of
    them sentences on what is missing or odd."""

    predictions: Predictions | None = None
    conditioning: tuple[ConditionRecord, ConditionRecord] | None = None
    about_predictions: tuple[str, ...] = ()
    about_conditioning: tuple[str, ...] = ()

    @classmethod
    def nothing(cls, reason: str) -> "RunMeasures":
        """Return measures of a run of which nothing can be measured."""
        return cls(about_predictions=(reason,), about_conditioning=(reason,))


def measure(run: RecordedRun) -> RunMeasures:
    """Measure what can be measured of a run. Whatever goes wrong becomes a sentence of the page: the folder may be old,
    damaged, or from another machine."""
    if run.flags is None:
        return RunMeasures.nothing("This needs settings that this version of mupc knows.")
    try:
        model = load(run.path)
    except Exception as error:
        return RunMeasures.nothing(f"The trained network cannot be read: {explain(error)}")
    try:
        dataset = load_data(run.flags)
    except Exception as error:
        return RunMeasures.nothing(f"The data cannot be read any more: {explain(error)}")
    found = RunMeasures()
    try:
        predictions = predict_split(model, dataset)
        found = dataclasses.replace(found, predictions=predictions, about_predictions=_changes(run, predictions))
    except Exception as error:
        found = dataclasses.replace(found, about_predictions=(f"Nothing was predicted: {explain(error)}",))
    try:
        return dataclasses.replace(found, conditioning=_conditioning(run.flags, model.network, dataset))
    except Exception as error:
        return dataclasses.replace(found, about_conditioning=(f"Not measured: {explain(error)}",))


def predict_split(model: Model, dataset: Dataset) -> Predictions:
    """Predict the test split, or the validation split or the training split where there is none."""
    if dataset.schema.labels != model.schema.labels:
        raise ValueError("the data have other classes now.")
    splits = {"test": dataset.test, "validation": dataset.validation, "training": dataset.train}
    name, split = next((name, split) for name, split in splits.items() if split is not None and len(split))
    part = split.take(np.arange(min(len(split), MOST_SAMPLES)))
    outputs = model.outputs(part.raw)
    if not np.isfinite(outputs).all():
        raise ValueError("its outputs are not finite.")
    return Predictions(model, dataset, name, part, outputs, len(split))


def _changes(run: RecordedRun, found: Predictions) -> tuple[str, ...]:
    """Return a sentence if the accuracy is not the recorded one."""
    recorded = run.summary.get(f"{found.split}_accuracy")
    if found.model.schema.task == "regression" or not is_number(recorded) or len(found.samples) < found.available:
        return ()
    now = float(np.mean(found.predicted == found.samples.targets))
    if abs(now - float(recorded)) <= FAR:
        return ()
    was = f"The run recorded a {found.split} accuracy of {percent(recorded)}, and it is {percent(now)} now"
    return (f"{was}: the data or the network have changed.",)


def _conditioning(
    flags: TrainFlags, network: AbstractNetwork, dataset: Dataset
) -> tuple[ConditionRecord, ConditionRecord]:
    """Measure the activity Hessian of the first training sample, at the activities of the forward pass."""
    if not METHODS[flags.method].infers:
        raise ValueError(f"{flags.method} does not infer activities.")
    if not isinstance(network, Network):
        raise ValueError("it takes long for this network; `mupc.diagnostics.hessian_extremes` estimates it.")
    if network.hidden_layers * network.width * (2 * network.width) ** 2 > MOST_WORK:
        raise ValueError(f"it takes long for a width of {network.width}; `mupc hessian --checkpoint` computes it.")
    x, y = dataset.normalisation(dataset.train.raw[0]), dataset.encode(dataset.train.targets[:1])[0]
    meter = Conditioning(x, y, energy=make_energy(flags), method="iterative")
    with number_format(flags.precision):
        first = network_maker(flags, dataset)()
        assert isinstance(first, Network)
        return meter(first), meter(network)
