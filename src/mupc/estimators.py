"""scikit-learn estimators: `PCClassifier` and `PCRegressor`, for pipelines, grid searches and cross-validation."""

import abc
import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import ClassVar, TypeVar, cast

import jax.random as jr
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .data import Column, Dataset, Schema, as_split, from_arrays, standardisation
from .inference import CROSS_ENTROPY, AbstractSolver, Energy, ErrorSpace, GradientDescent
from .io import checks
from .learning import BP, PC, AbstractAlgorithm, Optimiser
from .network import Activation, Elementwise, Network
from .training import FitResult, fit

__all__ = [
    "PCClassifier",
    "PCRegressor",
]

FLOATS = np.float64, np.float32
WEIGHT_LR = 0.01
"""Chosen on validation splits of wine, breast cancer, diabetes and digits, with each of the solvers below."""
Estimator = TypeVar("Estimator", bound="AbstractEstimator")

METHODS: dict[str, Callable[[int], AbstractAlgorithm]] = {
    "error-space": lambda depth: PC(ErrorSpace()),
    "gd": lambda depth: PC(GradientDescent(lr=0.05, steps=depth)),
    "bp": lambda depth: BP(),
}
"""Algorithms by name, for a number of hidden layers, as `mupc train` has them."""


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class AbstractEstimator(BaseEstimator, abc.ABC):
    """What both estimators share: their arguments, which are stored as given and checked in `fit`, and learning."""

    hidden_layers: int = 4
    width: int = 64
    activation: str | Activation | Elementwise = "relu"
    parameterisation: str = "mupc"
    solver: str | AbstractSolver | AbstractAlgorithm = "error-space"
    output_precision: float | None = None
    epochs: int = 50
    batch_size: int = 32
    weight_lr: float | None = None
    rate_scaling: str | None = None
    optimiser: Optimiser = "adam"
    schedule: str | None = None
    early_stopping: bool = False
    validation_fraction: float = 0.1
    patience: int = 10
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False

    _task: ClassVar[str]
    _loss: ClassVar[str]
    _score: ClassVar[str]

    @abc.abstractmethod
    def _checked(self, X: ArrayLike, y: ArrayLike, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return samples and targets as arrays. With `reset`, note the number of features and their names."""

    def fit(self: Estimator, X: ArrayLike, y: ArrayLike) -> Estimator:
        """Learn from scratch.

        **Arguments:** samples (n, features), and their targets.
        """
        X, y = self._checked(X, y, reset=True)
        self._begin()
        held_out, patience = 0.0, None
        if checks.boolean("early_stopping", self.early_stopping):
            checks.number("validation_fraction", self.validation_fraction, above=0, below=1)
            held_out, patience = self.validation_fraction, self.patience
        dataset = from_arrays(X, y, test=0, validation=held_out, task=self._task, seed=self._seed())
        dataset = dataclasses.replace(dataset, schema=dataclasses.replace(dataset.schema, columns=self._columns()))
        result = self._learn(self._network(dataset), dataset, self.epochs, self.schedule, patience)
        scores = [record.get(f"validation_{self._score}") for record in result.history[1:]]
        self.validation_scores_ = scores if self.early_stopping else None
        return self

    def _learn_more(self, X: np.ndarray, y: np.ndarray, schema: Schema) -> None:
        """Learn from these samples for one epoch."""
        if checks.boolean("early_stopping", self.early_stopping):
            raise checks.ArgumentError(
                "early_stopping",
                "needs all samples, and partial_fit gets some of them:",
                "call fit, or set it to False.",
            )
        train = as_split(schema, X, y)
        dataset = Dataset("arrays", train, train.take(np.arange(0)), None, schema, official=False, source="partial_fit")
        if hasattr(self, "model_"):
            network = cast(Network, self.model_.network)
        else:
            self._begin()
            network = self._network(dataset)
        self._learn(network, dataset, 1, "constant")

    def _columns(self) -> tuple[Column, ...] | None:
        """Return the columns of the data frame that was learnt from, so that `model_` finds them by name."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(Column(str(name)) for name in names)

    def _begin(self) -> None:
        self._random = check_random_state(self.random_state)
        self.loss_curve_: list[float] = []

    def _seed(self) -> int:
        return int(self._random.randint(2**31 - 1))

    def _network(self, dataset: Dataset) -> Network:
        return Network(
            dataset.in_size,
            dataset.out_size,
            self.width,
            self.hidden_layers,
            activation=self.activation,
            parameterisation=self.parameterisation,
            use_bias=True,
            key=jr.key(self._seed()),
        )

    def _learn(
        self, network: Network, dataset: Dataset, epochs: int, schedule: str | None, patience: int | None = None
    ) -> FitResult:
        solver, weight_lr = self.solver, self.weight_lr
        if weight_lr is None and isinstance(self.optimiser, str):
            weight_lr = WEIGHT_LR
        if isinstance(solver, str):
            solver = checks.lookup("solver", solver, METHODS)(network.hidden_layers)
        most = 2 ** (len(dataset.train) - 1).bit_length()  # a larger batch would only repeat samples
        batch_size = min(most, checks.integer("batch_size", self.batch_size, 1))
        result = fit(
            network,
            dataset,
            solver,
            epochs=epochs,
            batch_size=batch_size,
            last_batch="fill",
            weight_lr=weight_lr,
            rate_scaling=self.rate_scaling,
            optimiser=self.optimiser,
            schedule=schedule,
            energy=Energy(loss=self._loss, output_precision=self.output_precision),
            patience=patience,
            seed=self._seed(),
            verbose=self.verbose,
        )
        if result.stopped:
            warnings.warn(f"{result.message}: the estimator keeps what it has learnt so far.", stacklevel=3)
        self.model_ = result.model
        steps = math.ceil(len(dataset.train) / batch_size)
        self.loss_curve_ += [float(np.mean(result.losses[i : i + steps])) for i in range(0, result.steps, steps)]
        self.n_iter_ = len(self.loss_curve_)
        return result

    def _samples(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self, "model_")
        return np.asarray(validate_data(self, X, reset=False))


class PCClassifier(ClassifierMixin, AbstractEstimator):
    """Classify with a deep predictive coding network, trained with cross-entropy.

    Samples are standardised inside, each feature by its mean and standard deviation in `fit`; a `StandardScaler` before
    it does no harm. With the defaults the network learns in error space (λ = 0.01), as in `mupc.fit`.

    **Arguments:**

    - `hidden_layers`, `width`, `activation`, `parameterisation`: of the `mupc.Network`, which has biases.
    - `solver`: `"error-space"`, `"gd"` (the paper's gradient descent, as many steps as hidden layers), `"bp"`
      (backpropagation, the baseline), or any solver or algorithm of `mupc`, such as `mupc.ErrorSpace(steps=2)`.
    - `output_precision`: λ, by default what suits the solver.
    - `weight_lr`: the learning rate of the weights, by default 0.01. That is lower than in `mupc.fit`, because many
      epochs overfit a table of a few hundred rows.
    - `rate_scaling`: whether it scales with width and depth: `"mup"` or `"none"`, as in `mupc.TrainConfig`. By default
      it does, with μPC and a named optimiser.
    - `epochs`, `batch_size`, `optimiser`, `schedule`: as in `mupc.TrainConfig`. Every epoch uses all samples, and there
      may be fewer of them than a batch has.
    - `early_stopping`: hold the `validation_fraction` of the samples out, stop after `patience` epochs without a better
      score on them, and keep the best network.
    - `random_state`: a seed, a numpy `RandomState`, or None for another result each time.
    - `verbose`: show progress.

    Another `weight_lr`, `output_precision` or number of epochs or samples does not compile again; other sizes of the
    network do. Call `mupc.keep_compiled()` to keep compiled programs on disk, for later runs and for the processes of
    `n_jobs`.

    **Attributes** after `fit`: `classes_`, `n_features_in_`, `feature_names_in_` (of data frames), `model_` (the
    `mupc.Model`), `n_iter_` (epochs), `loss_curve_` (the mean training loss of each), and with early stopping
    `validation_scores_`.

    **Example:**

    ```python
    from sklearn.datasets import load_wine
    from sklearn.model_selection import cross_val_score
    from mupc.estimators import PCClassifier

    X, y = load_wine(return_X_y=True)
    cross_val_score(PCClassifier(random_state=0), X, y, cv=3).mean()      # about 0.97
    ```
    """

    _task = "classification"
    _loss = CROSS_ENTROPY
    _score = "accuracy"
    classes_: np.ndarray

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> "PCClassifier":
        """Learn from more samples: one epoch, at a constant rate. The first call sets the scale of the inputs; the
        optimiser starts again in every call.

        **Arguments:** samples and labels as for `fit`, and in the first call all labels that there will be.
        """
        if hasattr(self, "model_"):
            if classes is not None and not np.array_equal(_sorted_labels(classes), self.classes_):
                raise checks.ArgumentError("classes", "differ from those of the first call:", "leave them out.")
            samples, labels = self._checked(X, y, reset=False)
            schema = self.model_.schema
        else:
            if classes is None:
                raise checks.ArgumentError("classes", "are missing:", "pass all labels in the first call.")
            samples, labels = self._checked(X, y, reset=True)
            self.classes_ = _sorted_labels(classes)
            known = tuple(self.classes_.tolist())
            schema = Schema(standardisation(samples), labels=known, columns=self._columns())
        self._learn_more(samples, labels, schema)
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the most probable label of each sample."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the probability of each class (n, classes), in the order of `classes_`."""
        X = self._samples(X)
        return self.model_.predict_proba(X)

    def _checked(self, X: ArrayLike, y: ArrayLike, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        samples, labels = validate_data(self, X, y, reset=reset, dtype=FLOATS)
        classes = _sorted_labels(labels)
        check_classification_targets(labels)
        if reset:
            self.classes_ = classes
        return samples, labels


def _sorted_labels(labels: ArrayLike) -> np.ndarray:
    try:
        return np.unique(np.asarray(labels))
    except TypeError:
        raise checks.ArgumentError("y", "has labels of types that do not mix, or gaps:", "use one type.") from None


class PCRegressor(RegressorMixin, AbstractEstimator):
    """Predict one or several values with a deep predictive coding network, trained with the squared error.

    Targets are standardised inside, as samples are, and predictions come in the units of the targets.

    **Arguments** and **attributes** are those of `mupc.estimators.PCClassifier`, but for `classes_`.

    **Example:**

    ```python
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import cross_val_score
    from mupc.estimators import PCRegressor

    X, y = load_diabetes(return_X_y=True)
    cross_val_score(PCRegressor(random_state=0), X, y, cv=3).mean()      # R², about 0.47
    ```
    """

    _task = "regression"
    _loss = "mse"
    _score = "r2"

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> "PCRegressor":
        """Learn from more samples: one epoch, at a constant rate. The first call sets the scales of inputs and targets;
        the optimiser starts again in every call.

        **Arguments:** samples and targets as for `fit`.
        """
        first = not hasattr(self, "model_")
        X, y = self._checked(X, y, reset=first)
        if first:
            schema = Schema(standardisation(X), target_scale=standardisation(y), columns=self._columns())
        else:
            schema = self.model_.schema
        self._learn_more(X, y, schema)
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the predicted values, of the shape that targets had in `fit`."""
        X = self._samples(X)
        return self.model_.predict(X).astype(np.float64)

    def _checked(self, X: ArrayLike, y: ArrayLike, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        samples, values = validate_data(self, X, y, reset=reset, dtype=FLOATS, multi_output=True, y_numeric=True)
        return samples, values

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
