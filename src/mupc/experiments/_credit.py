"""Training runs with where their weight gradients come from: how close they are to BP's, and how many layers learn."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._claims import MissingCellsError
from ._figure import Row, RunContext, Table
from ._methods import METHODS, first_batch
from ._training import TrainingCell, load_for, load_whole, method_energy, train, training_row

if TYPE_CHECKING:
    from ..data import Dataset
    from ..network import AbstractNetwork
    from ..training import TrainStatus


def run_compared(cell: TrainingCell, context: RunContext) -> Row:
    """Train one network. Unless it only tunes, also measure how close its inferred gradients are to BP's at the end, on
    the first batch: the smallest cosine among the layers that learn, the median over all, and how many learn."""
    dataset, (result,) = train([cell], context)
    row = training_row(cell, dataset, result)
    measure = None if cell.validation else credit_measure(cell, dataset)
    if measure is None:
        return row
    found = measure(result.network, result.memory)
    return row | {name: found[name] for name in ("smallest_cosine", "median_cosine", "learning_layers")}


CREDIT = ("smallest_cosine", "median_cosine", "hidden_energy", "relative_gradient")
"""What `run_followed` adds to the history: see `credit_measure`."""


def run_followed(cell: TrainingCell, context: RunContext) -> Row:
    """Train one network. Unless it only tunes, follow at every evaluation where its gradients come from, if it infers;
    and where the data set was without its test split, score that once, at the end."""
    measure = None if cell.validation else credit_measure(cell, load_for(cell, context))

    def record(status: TrainStatus) -> None:
        assert measure is not None
        status.record["credit"] = measure(status.network, status.memory)

    dataset, (result,) = train([cell], context, callbacks=[record] if measure else ())
    row = training_row(cell, dataset, result, ("credit",) if measure else ()) | {"layers": result.network.layer_count}
    if measure is not None:
        credit = row["history"].pop("credit")
        row["history"] |= {name: [found[name] for found in credit] for name in CREDIT}
    if METHODS[cell.method].held_out and not cell.validation:
        test = load_whole(cell, context).test
        row |= {f"test_{name}": value for name, value in result.model.evaluate(test.raw, test.targets).items()}
    return row


def credit_measure(cell: TrainingCell, dataset: Dataset) -> Callable[..., dict[str, Any]] | None:
    """Return a function that compares the gradients of a method with BP's, on the first batch; None for BP. It takes
    the network and what the algorithm has learnt itself.

    It finds the smallest cosine among the layers that learn and the median over all, how many learn and, of predictive
    coding, the share of the energy in the hidden layers and what is left of the gradient over the activities
    (`relative_gradient`).
    """
    import numpy as np

    from ..diagnostics import algorithm_reach
    from ..learning import BP
    from ..training import TrainConfig

    method = METHODS[cell.method]
    algorithm, energy = method.algorithm(cell.beta, cell.depth), method_energy(method)
    if isinstance(algorithm, BP):
        return None
    x, y = first_batch(dataset, method.batch_size)
    settings = TrainConfig(rate_scaling=method.rate_scaling, base_width=method.base_width, optimiser=method.optimiser)

    def measure(network: AbstractNetwork, memory: Any = None) -> dict[str, Any]:
        options: Any = {"optimiser": method.optimiser, "base": settings.base(network), "precision": cell.precision}
        options["memory"] = memory
        reach = algorithm_reach(network, algorithm, x, y, energy=energy, **options)
        return {
            "smallest_cosine": reach.evidence.smallest_cosine,
            "median_cosine": float(np.nanmedian(reach.backprop_cosines)),
            "learning_layers": reach.learning_layers,
            "hidden_energy": float(np.sum(reach.energy_shares[:-1])),
            "relative_gradient": reach.evidence.relative_gradient,
        }

    return measure


def mean_at(rows: Table, name: str, place: int = -1) -> float:
    """Return the mean over seeds of a quantity of the history, at the last evaluation or at another."""
    values = [row["history"][name][place] for row in rows]
    if None in values:
        raise MissingCellsError(f"{name} is not finite")
    return statistics.fmean(values)
