"""Credit reach in a training run: measured at each evaluation, and told in the last lines."""

import dataclasses
from typing import Any

import numpy as np

from ..data import Dataset
from ..diagnostics import LIMITS, CreditReach, credit_reach
from ..inference import AbstractSolver, Energy, infer
from ..network import Network
from .config import TrainConfig
from .flags import WEIGHT_LR_ALL

Record = dict[str, Any]


class ReachMeter:
    """Measures credit reach on the first training batch; `latest` is that of the last finite network."""

    def __init__(self, config: TrainConfig, solver: AbstractSolver, energy: Energy, dataset: Dataset) -> None:
        self.config, self.solver, self.energy = config, solver, energy
        batch = slice(0, config.batch_size)
        self.x = dataset.normalisation(dataset.train.raw[batch])
        self.y = dataset.encode(dataset.train.targets[batch])
        self.latest: CreditReach | None = None

    def regime(self, network: Network) -> str | None:
        """The regime in which a network would take its next step; None if it is not finite any more."""
        solution = infer(network, self.x, self.y, self.solver, energy=self.energy, precision=self.config.precision)
        found = credit_reach(network, solution, self.x, self.y, energy=self.energy, optimiser=self.config.optimiser)
        if not np.all(np.isfinite(found.gradient_norms)):
            return None
        self.latest = found
        return found.regime


def summarise(meter: ReachMeter | None, records: list[Record]) -> Record:
    """Credit reach for `summary.json`. Backpropagation has only what the last record tells."""
    if meter is not None and meter.latest is not None:
        found = meter.latest
        derived = {name: getattr(found, name) for name in ("layers", "ratio", "regime")}
        return {**dataclasses.asdict(found), **derived, "evidence": found.evidence._asdict()}
    last = records[-1]
    return {
        "learning_layers": last.get("learning_layers"),
        "layers": last.get("layers"),
        "regime": "backprop" if meter is None else None,
    }


def sentence(config: TrainConfig, reach: Record) -> str:
    """How many layers learn and, when they are fewer than half, the flag that changes it."""
    learning, layers = reach["learning_layers"], reach["layers"]
    start = f"{learning} of {layers} layers learn"
    if 2 * learning >= layers:
        return f"{start}, regime: {reach['regime']}"
    if learning == 0:
        return f"{start}: their gradients vanish; try another --seed, --activation tanh or a lower --weight-lr"
    least = f" (gradient entries of {reach['threshold']:.2g} or more)" if "threshold" in reach else ""
    return f"{start}{least}, regime: {reach['regime']}; try {_cure(config)}"


def _cure(config: TrainConfig) -> str:
    if config.method == "pc" and config.solver != "error-space":
        less = config.weight_lr is not None and config.weight_lr > WEIGHT_LR_ALL
        rate = f" --weight-lr {WEIGHT_LR_ALL:g}" if less else ""
        return f"--solver error-space --output-precision 0.01{rate}"
    if config.parameterisation != "mupc":
        return "--parameterisation mupc"
    return "--optimiser adam" if LIMITS[config.optimiser].share else "--optimiser lion"
