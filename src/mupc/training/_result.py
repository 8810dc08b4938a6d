"""`FitResult`: what training returns."""

import dataclasses

import numpy as np

from ..data import Schema
from ..inference import LossFunction
from ..io import checks
from ..network import Network
from ..prediction import Model
from ._state import BACK_TO, Record


@dataclasses.dataclass(frozen=True)
class FitResult:
    """The result of `fit`.

    - `network`: as trained; after a divergence that of the last evaluation that was finite.
    - `history`: one record per evaluation, the first before any training.
    - `losses`: the training loss of every step, of the prediction made before learning from its batch.
    - `steps` taken, `seconds_per_step` (median over intervals, without compiling where there is more than one),
      `diverged`, `message` (why it ended) and `precision`.
    - `compute_path`: a line on the precision, the device and its kernels, or why they were not used.
    - `schema` (None if unsupervised), `loss` and `data`: what `model` has in addition to the network.
    """

    network: Network
    history: list[Record]
    losses: np.ndarray
    steps: int
    seconds_per_step: float
    diverged: bool
    message: str
    precision: str
    compute_path: str
    schema: Schema | None
    loss: str | LossFunction
    data: str

    @property
    def model(self) -> Model:
        """The network with everything that predictions from raw samples need."""
        if self.schema is None:
            wrong = "= True trains a network that generates samples from a free input, and predicts nothing."
            raise checks.ArgumentError("unsupervised", wrong, "Use result.network, and mupc.infer with x=None.")
        return Model(self.network, self.schema, self.loss, self.data)

    @property
    def last(self) -> Record:
        """The last record of a network that was still finite."""
        return [record for record in self.history if not record["diverged"]][-1]

    @property
    def stopped(self) -> bool:
        """Whether a callback or `stop` ended it before its last step."""
        return not self.diverged and self.steps < self.history[-1]["total_steps"]


def describe_end(history: list[Record], diverged: bool, step: int, total: int) -> str:
    """Return a sentence on how training ended."""
    if diverged:
        before, last = history[-2], history[-1]
        return (
            f"training diverged between step {before.get(BACK_TO, before['step'])} and step {last['step']}: the loss "
            "or a weight is not finite. Lower the learning rates; the last finite network was kept."
        )
    return "all steps were taken" if step == total else f"training was stopped after {step} of {total} steps"
