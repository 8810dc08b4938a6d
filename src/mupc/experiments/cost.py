"""What the paper presets cost on a GPU, predicted and measured: `docs/reproduction-cost.md`.

    python -m mupc.experiments.cost results docs/reproduction-cost.md

Predictions are sums over cells of updates × time per update, with times that `mupc bench` found on one H200.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ._building import PAPER_BATCH
from ._catalogue import CATALOGUE
from ._figure import Figure, FigureCell, Row
from ._methods import METHODS
from ._results import read_all
from ._store import write_text
from ._training import GROUPED, TrainingCell
from ._training_conditioning import ConditionedCell
from .transfer_grids import SOON, WILD, GridCell

DESCENT = {8: 0.25e-3, 16: 0.70e-3, 32: 1.46e-3, 64: 3.57e-3, 128: 7.1e-3}
"""Seconds of a weight update with T = H steps of gradient descent by H: N = 512, batch 64, bf16. Those at 8 and 128 are
benchmarks, the others from the runs of fig1."""
BACKPROP = {8: 0.15e-3, 128: 1.5e-3}
ADAM_STEP = 20e-6
"""A step of Adam inference, which has no kernel of its own: three runs of 128 units side by side, 8 to 32 layers."""
COMPILE, KAPPA, START = 10.0, 0.3, 1.0
"""Seconds to compile a shape, for one condition number (on the CPU), and for whatever else a run or group does."""
DIVERGING = 32
"""From so many hidden layers on, all runs of fig5 with a wild β diverge at once."""
SAMPLES = {"mnist": 60_000, "fashion-mnist": 60_000, "cifar10": 50_000}


def interpolate(points: dict[int, float], depth: int) -> float:
    """On straight lines between the logarithms, prolonged at both ends."""
    known = sorted(points)
    low = max([h for h in known[:-1] if h <= depth], default=known[0])
    high = known[known.index(low) + 1]
    slope = math.log(points[high] / points[low]) / math.log(high / low)
    return points[low] * (depth / low) ** slope


def update(cell: Any) -> float:
    """Seconds of one weight update; those of N = 512, which no narrower network exceeds."""
    method = METHODS[getattr(cell, "method", "mupc")]
    backprop = interpolate(BACKPROP, cell.depth)
    if method.algorithm == "bp":
        return backprop
    step = (interpolate(DESCENT, cell.depth) - backprop) / cell.depth
    steps = cell.depth if method.steps is None else method.steps
    wider = max(1.0, cell.width / 512) ** 2
    return wider * (backprop + steps * (ADAM_STEP if method.adam else step))


def updates(cell: Any) -> int:
    """Weight updates of one training run; those of fig5 that are sure to diverge end after the first look at them."""
    if isinstance(cell, GridCell) and cell.beta >= WILD and cell.depth >= DIVERGING:
        return SOON
    return int(cell.epochs * (SAMPLES[cell.data] * (1 - getattr(cell, "validation", 0.0)) // PAPER_BATCH))


def measuring(cell: Any) -> float:
    """Seconds that one training run spends on condition numbers."""
    return KAPPA * (2 + updates(cell) // cell.evaluate_every) if isinstance(cell, ConditionedCell) else 0.0


def every_cell(figure: Figure) -> list[FigureCell]:
    """The cells of the paper preset, whichever rates tuning will choose."""
    config = figure.config("paper")
    finished: dict[FigureCell, Row] = {}
    outcome: Row = {"validation_accuracy": 0.0, "validation_loss": 0.0, "diverged": False}
    for _ in range(2):
        finished = dict.fromkeys(figure.cells(config, finished), outcome)
    return figure.cells(config, finished)


def predicted(cells: Iterable[FigureCell]) -> float | None:
    """Seconds for these cells with everything compiled once; None where they are not training runs on a GPU."""
    runs = [cell for cell in cells if isinstance(cell, TrainingCell | GridCell) and cell.precision == "bf16"]
    if not runs:
        return None
    shapes = {
        (getattr(c, "method", ""), c.activation, c.width, c.depth, bool(getattr(c, "validation", 0))) for c in runs
    }
    programs = {run.group if run.width <= GROUPED else run: run for run in runs}  # narrow ones cost launches, once
    training = sum(updates(c) * update(c) for c in programs.values())
    return COMPILE * len(shapes) + START * len({run.group for run in runs}) + training + sum(map(measuring, runs))


INTRODUCTION = """# What the figures cost

Minutes of computing at the paper preset, figure by figure. *Predicted*: one H200, each figure by itself from nothing;
runs that figures share are counted in each of them, and once in the sum. *Measured*: the sum over the cells in
`results/`, on the device named. Figures without a prediction train nothing, or small networks in float64, and run on
CPU cores. Most of fig5, `sp-train-cond-nums-gd-fashion` and `sp-train-cond-nums-skips-fashion` ran side by side on one
GPU, and each run is charged its share. That was no quicker: small networks wait for large ones, and the latter two cost
more than their twins on MNIST did alone. Both Adam figures, `mupc-vs-pc-all-activations` and `orthog-init-mnist` were
computed by four threads of one process, as with `--at-once 4`, and are charged in the same way: one thread compiles
while another's networks train. This page is made by
`python -m mupc.experiments.cost results docs/reproduction-cost.md`.

A prediction is Σ updates × seconds per update + {kappa:g} s for each condition number + {start:g} s for each run, or
group of runs that train side by side, + {compile:g} s for each shape to compile. An update of predictive coding takes
BP(H) + T·s(H), where s(H) is such that T = H gives what was measured (N = 512, batch 64, bf16):

- predictive coding: {descent};
- BP: {backprop}; both on straight lines of the logarithms in between.

Narrower networks are counted as if they were of width 512, which is too high; those that train side by side (the seeds
and the tuning runs of networks of at most 128 units) are counted once. A step of Adam inference took
about {adam:g} µs. An epoch of MNIST is 937 updates. Runs that diverge stop early, which is counted only in fig5 and its
twins, from {diverging} hidden layers and β = {wild:g} on.

| figure | runs or cells | predicted (min) | measured (min) | measured on |
|---|---|---|---|---|
"""


RUNNING = """
## In pieces of under nine minutes

A machine with an accelerator needs JAX, equinox, optax, jaxtyping and numpy. No cell or group of cells starts after the
limit. The longest are runs of 15 and 20 epochs (two to three minutes: set a limit of 350 s); all others, and each of
the eleven groups that a grid of fig5 at 128 layers is computed in, take less than a minute.

```bash
python -m mupc.experiments run fig3 --preset paper --work runs/reproduce --seconds-limit 450
```

Repeat it until it says that all cells are finished; with several slugs it goes from one to the next, and runs that they
share are computed once. With `--at-once 3`, three cells are computed in threads: one compiles while another runs. What
is under `--work` is merged with other machines' by copying, and becomes a result with

```bash
mupc reproduce fig3 --preset paper --merge
```

Several machines take `--shard 1/4` and so on; where rates are tuned, merge once the tuning runs are done and start
again, since which runs follow depends on all of them.
"""


def table(results: list[Row]) -> str:
    """The page, given what `results/` holds."""
    best = {result["slug"]: result for result in results if result["preset"] == "paper"}
    lines: list[str] = []
    everything: dict[FigureCell, None] = {}
    for slug, entry in CATALOGUE.items():
        cells = every_cell(entry.load())
        everything |= dict.fromkeys(cells)
        result = best.get(slug)
        finished = result["cells"]["finished"] if result else 0
        part = f", {finished} cells" if finished < len(cells) else ""
        device = f"{result['device']}{part}" if result else "not run"
        spent = _minutes(result["seconds"]) if result else "–"
        lines.append(f"| `{slug}` | {len(cells)} | {_minutes(predicted(cells))} | {spent} | {device} |")
    on_gpu = [best[slug] for slug in CATALOGUE if slug in best and "gpu" in best[slug]["device"]]
    once = {json.dumps(row): row.get("seconds") or 0.0 for result in on_gpu for row in result["data"]}
    gpu = sum(once.values())
    total = f"| all, shared runs once | {len(everything)} | {_minutes(predicted(everything))} | {_minutes(gpu)} | GPU |"
    return _introduction() + "\n".join([*lines, total]) + "\n" + RUNNING


def _introduction() -> str:
    listed = [
        ", ".join(f"{1e3 * value:g} ms at H = {depth}" for depth, value in points.items())
        for points in (DESCENT, BACKPROP)
    ]
    numbers = {"kappa": KAPPA, "start": START, "compile": COMPILE, "adam": 1e6 * ADAM_STEP}
    numbers |= {"diverging": DIVERGING, "wild": WILD}
    return INTRODUCTION.format(descent=listed[0], backprop=listed[1], **numbers)


def _minutes(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds / 60:.1f}"


if __name__ == "__main__":
    folder, target = map(Path, sys.argv[1:3])
    write_text(target, table(read_all(folder)))
