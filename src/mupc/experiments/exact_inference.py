"""SP trained with perfect inference: is the equilibrium enough to train deep linear networks? `pc-analytic-infer`.

The paper preset takes about a quarter of an hour on one CPU core. Set OPENBLAS_NUM_THREADS=1 for it: exact inference
factorises many small matrices, for which the threads of a busy machine wait longer than they work.
"""

import functools
import itertools
import math
import statistics
from collections.abc import Callable

from .. import plots
from ._claims import Claim, Finding, judge, number
from ._declaration import presets, protocol
from ._figure import Figure, Row, Table, by_slug
from ._methods import METHODS
from ._training import Rates, TrainingConfig, cells, run_cell
from ._training_claims import TrainingRuns

METHOD = "sp-exact"
PART = 10
"""Of the intervals between evaluations, the first and the last 1/10 are compared."""
NEAR_CHANCE = 25.0


def ends(row: Row, name: str) -> tuple[float, float]:
    """Return the mean of a run's curve over the first and over the last tenth of its intervals, each weighted by its
    steps. A run that diverged ends at infinity, so that it never counts as decreasing."""
    steps, values = row["history"]["step"], row["history"][name][1:]  # nothing is trained before the first record
    lengths = [after - before for before, after in itertools.pairwise(steps)]
    count = math.ceil(len(values) / PART)

    def mean(part: slice) -> float:
        weighted = [length * value for length, value in zip(lengths[part], values[part], strict=True)]
        return sum(weighted) / sum(lengths[part]) if weighted else math.inf

    return mean(slice(count)), math.inf if row["diverged"] else mean(slice(len(values) - count, None))


def claims(config: TrainingConfig, table: Table) -> list[Claim]:
    """Judge that loss and energy fall at every depth and seed, and the deepest networks still do not generalise."""
    runs = TrainingRuns(config, table)
    where = (METHOD, config.activations[0], config.widths[0])

    def falls(pair: Callable[[Row], tuple[float, float]]) -> Finding:
        """Return whether the pairs of all runs fall; their means by depth, and how many do not."""
        pairs = {depth: [pair(row) for row in runs.rows(*where, depth)] for depth in config.depths}
        rising = {depth: sum(not after < before for before, after in found) for depth, found in pairs.items()}
        listed = [
            f"H={depth}: {statistics.fmean(a for a, _ in found):.3g} → {statistics.fmean(b for _, b in found):.3g}"
            + (f" ({rising[depth]} of {len(found)} seeds do not fall)" if rising[depth] else "")
            for depth, found in pairs.items()
        ]
        return not any(rising.values()), ", ".join(listed)

    def near_chance() -> Finding:
        finals, best = runs.finals(*where, runs.deepest), max(runs.bests(*where, runs.deepest))
        mean = statistics.fmean(finals)
        seeds = ", ".join(f"{final:.2f}" for final in finals)
        return mean < NEAR_CHANCE, f"{mean:.2f} % (seeds: {seeds}; best of any evaluation {best:.2f})"

    loss, energy = (functools.partial(ends, name=name) for name in ("train_loss", "energy"))
    return [
        judge("mse-falls", falls, loss),
        judge("mse-below-untrained", falls, lambda row: (number(row["first_train_loss"]), loss(row)[1])),
        judge("energy-falls", falls, energy),
        judge("near-chance", near_chance, depth=runs.deepest, limit=NEAR_CHANCE),
    ]


_PAPER = TrainingConfig(
    "float64",
    protocol("pc-analytic-infer"),
    widths=(128,),
    depths=(2, 4, 8, 16, 32),
    activations=("linear",),
    rates=(Rates(METHOD, eta=(1e-3,)),),
    evaluate_every=47,  # twenty times an epoch of 937 steps
)
_SMALL = {"data": "digits", "widths": (64,), "depths": (2, 32), "seeds": 2, "epochs": 3.0, "evaluate_every": 6}
_PRESETS = presets(_PAPER, "pc-analytic-infer-quick", **_SMALL)
_PLOT = functools.partial(plots.draw_exact_inference, name=METHODS[METHOD].label)
FIGURES = by_slug(Figure("pc-analytic-infer", _PRESETS, cells, run_cell, claims, _PLOT))
