"""`FitResult`: what training returns."""

import dataclasses
from typing import Any

import numpy as np

from ..data import Schema
from ..inference import LossFunction
from ..io import checks, counted
from ..learning import Relaxation
from ..network import AbstractNetwork
from ..prediction import Model
from ._state import BACK_TO, Record, best_record, evaluations_since_best, has_diverged, validation_score


@dataclasses.dataclass(frozen=True)
class FitResult:
    """The result of `fit`.

    - `network`: as trained; with `restore_best` that of the best evaluation, and after a divergence that of the last
      evaluation that was finite.
    - `history`: one record per evaluation, the first before any training.
    - `losses`: the training loss of every step, of the prediction made before learning from its batch.
    - `steps` taken, `seconds_per_step` (median over intervals, without compiling where there is more than one),
      `diverged`, `message` (why it ended) and `precision`.
    - `stopped`: whether a callback, `stop` or Ctrl-C ended it. `restored`: whether `network` is the best.
    - `compute_path`: a line on the precision, the device and its kernels, or why they were not used.
    - `schema` (None if unsupervised), `loss`, `data` and `relaxation`: what `model` has in addition to the network.
    - `memory`: what the algorithm has learnt itself by the end of the run, such as the second network of
      `mupc.Amortised`. `mupc.algorithm_gradients` and `mupc.algorithm_reach` take it.
    """

    network: AbstractNetwork
    history: list[Record]
    losses: np.ndarray
    steps: int
    seconds_per_step: float
    diverged: bool
    stopped: bool
    restored: bool
    message: str
    precision: str
    compute_path: str
    schema: Schema | None
    loss: str | LossFunction
    data: str
    relaxation: Relaxation | None = None
    memory: Any = None

    @property
    def model(self) -> Model:
        """The network with everything that predictions from raw samples need."""
        if self.schema is None:
            wrong = "= True trains a network that generates samples from a free input, and predicts nothing."
            raise checks.ArgumentError("unsupervised", wrong, "Use result.network, and mupc.infer with x=None.")
        return Model(self.network, self.schema, self.loss, self.data, self.relaxation)

    @property
    def last(self) -> Record:
        """The last record of a network that was still finite."""
        finite = [record for record in self.history if not record["diverged"]]
        if not finite:
            raise ValueError("the network was never finite: begin with smaller weights or inputs.")
        return finite[-1]

    @property
    def best(self) -> Record | None:
        """The record with the best score on the validation split (the highest accuracy, then the lowest loss); None
        without one. It is that of `network` if `restored`."""
        return best_record(self.history)


def describe_end(history: list[Record], step: int, total: int, patience: int | None, restored: bool) -> str:
    """Return a sentence on how training ended and, where it was `restored`, on the best network."""
    unlucky = evaluations_since_best(history)
    best = "the best on the validation split"
    if has_diverged(history):
        before, last = history[-2], history[-1]
        reason = (
            f"training diverged between step {before.get(BACK_TO, before['step'])} and step {last['step']}: the loss "
            "or a weight is not finite. Lower the learning rates"
        )
        if not restored:
            return f"{reason}; the last finite network was kept."
    elif patience is not None and unlucky >= patience:
        score = validation_score(history[-1])
        reason = f"stopped after {counted(unlucky, 'evaluation')} without a better validation {score}"
        best = "the best"
    elif step == total:
        reason = "all steps were taken"
    else:
        reason = f"training was stopped after {step} of {total} steps"
    return f"{reason}; {best}, {_best_score(history)}, was kept" if restored else reason


def _best_score(history: list[Record]) -> str:
    best = best_record(history)
    assert best is not None
    score = validation_score(best)
    value = best[f"validation_{score}"]
    return f"{f'{100 * value:.1f} %' if score == 'accuracy' else f'{value:.4g}'} at step {best['step']}"
