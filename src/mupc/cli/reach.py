"""Credit reach in a training run: measured at each evaluation, and shown in the last lines."""

import dataclasses
from typing import Any

import numpy as np

from ..data import Dataset
from ..diagnostics import LEARNING_LIMITS, CreditReach, credit_reach
from ..inference import Energy, infer
from ..learning import PC, AbstractAlgorithm
from ..network import Network
from .config import TrainFlags
from .flags import WEIGHT_LR_ALL

Record = dict[str, Any]


class ReachMeter:
    """Measure credit reach on the first training batch; `latest` is that of the last finite network. Backpropagation
    has no solver, and nothing is measured."""

    def __init__(self, flags: TrainFlags, algorithm: AbstractAlgorithm, energy: Energy, dataset: Dataset) -> None:
        self.flags, self.algorithm, self.energy, self.dataset = flags, algorithm, energy, dataset
        self.solver = algorithm.solver if isinstance(algorithm, PC) else None
        batch = slice(0, flags.batch_size)
        self.x = dataset.normalisation(dataset.train.raw[batch])
        self.y = dataset.encode(dataset.train.targets[batch])
        self.latest: CreditReach | None = None
        self.network: Network | None = None

    def regime(self, network: Network) -> str | None:
        """Return the regime in which a network would take its next step; None if it is not finite any more."""
        self.network = network
        if self.solver is None:
            return None
        solution = infer(network, self.x, self.y, self.solver, energy=self.energy, precision=self.flags.precision)
        found = credit_reach(network, solution, self.x, self.y, optimiser=self.flags.optimiser)
        if not np.all(np.isfinite(found.gradient_norms)):
            return None
        self.latest = found
        return found.regime


def summarise(meter: ReachMeter, records: list[Record]) -> Record:
    """Return credit reach for `summary.json`. For backpropagation that is what the last record holds."""
    if meter.latest is not None:
        found = meter.latest
        derived = {name: getattr(found, name) for name in ("layers", "ratio", "regime")}
        return {**dataclasses.asdict(found), **derived, "evidence": found.evidence._asdict()}
    last = records[-1]
    return {
        "learning_layers": last.get("learning_layers"),
        "layers": last.get("layers"),
        "regime": "backprop" if meter.solver is None else None,
    }


def sentence(flags: TrainFlags, reach: Record) -> str:
    """Return how many layers learn and, when they are fewer than half, the flag that changes it."""
    learning, layers = reach["learning_layers"], reach["layers"]
    start = f"{learning} of {layers} layers learn"
    if 2 * learning >= layers:
        return f"{start}, regime: {reach['regime']}"
    if learning == 0:
        return f"{start}: their gradients vanish; try another --seed, --activation tanh or a lower --weight-lr"
    least = f" (gradient entries of {reach['threshold']:.2g} or more)" if "threshold" in reach else ""
    return f"{start}{least}, regime: {reach['regime']}; try {_cure(flags)}"


def _cure(flags: TrainFlags) -> str:
    if flags.method == "pc" and flags.solver != "error-space":
        less = flags.weight_lr is not None and flags.weight_lr > WEIGHT_LR_ALL
        rate = f" --weight-lr {WEIGHT_LR_ALL:g}" if less else ""
        return f"--solver error-space --output-precision 0.01{rate}"
    if flags.parameterisation != "mupc":
        return "--parameterisation mupc"
    return "--optimiser adam" if LEARNING_LIMITS[flags.optimiser].share else "--optimiser lion"
