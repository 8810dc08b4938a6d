"""What the paper leaves open, what was chosen here, and how much test accuracy moves with it: `protocol-choices`.

At the paper preset it takes about five minutes on one H200, less if the reference runs of `fig1` are there
already; the quick one takes a quarter of a minute on two CPU cores.
"""

import dataclasses
import itertools
import statistics
from pathlib import Path

from .. import plots
from . import _methods, _training
from ._claims import Claim, judge, require
from ._declaration import LEFT_OPEN, cells_over, presets, protocol
from ._figure import Figure, FigureCell, FigureConfig, Finished, Row, RunContext, Table, by_slug, select
from ._methods import METHODS, PAPER_BATCH, TOLERANCES
from ._training import TrainingCell
from .training import COMMON

REFERENCE = "reference"
RATES, BATCH, PRECISION, TOLERANCE = (name for name, *_ in LEFT_OPEN)


@dataclasses.dataclass(frozen=True)
class Variant:
    """One thing done differently. Rates are factors on those of the reference; None leaves the precision as it is."""

    choice: str
    name: str
    method: str = "mupc"
    eta: float = 1.0
    beta: float = 1.0
    precision: str | None = None
    deepest: int | None = None  # None: run at every depth


_VARIANTS = (
    Variant(RATES, "η × ½", eta=0.5),
    Variant(RATES, "η × 2", eta=2.0),
    Variant(RATES, "β × ½", beta=0.5),
    Variant(RATES, "β × 2", beta=2.0),
    Variant(BATCH, "sum instead of mean", beta=float(PAPER_BATCH)),
    Variant(PRECISION, "float32", precision="float32"),
    Variant(PRECISION, "float64", precision="float64", deepest=32),
    *(Variant(TOLERANCE, f"until {tol:g} of the gradient", name, deepest=32) for name, tol in TOLERANCES.items()),
)


@dataclasses.dataclass(frozen=True)
class ChoiceConfig(FigureConfig):
    """The reference (η, β, all steps, `precision`) at every depth with its number of `seeds`, and the variants."""

    data: str = "mnist"
    width: int = 512
    depths: tuple[int, ...] = (8, 32, 128)
    seeds: tuple[int, ...] = (3, 3, 1)
    eta: float = 0.1
    beta: float = 0.5
    epochs: float = 1.0
    evaluate_every: int = 300
    variants: tuple[Variant, ...] = _VARIANTS

    @property
    def all(self) -> tuple[Variant, ...]:
        return (Variant(REFERENCE, REFERENCE), *self.variants)

    def cells(self, variant: Variant, depth: int) -> list[TrainingCell]:
        """Return the runs of a variant at one depth, one for each seed; none beyond its depth."""
        if variant.deepest is not None and depth > variant.deepest:
            return []
        rates = {"eta": variant.eta * self.eta, "beta": variant.beta * self.beta}
        fixed = {"activation": "relu", "validation": 0.0, "augment": False, "verify": True}
        form = {"method": variant.method, "precision": variant.precision or self.precision, "depth": depth}
        seeds = range(self.seeds[self.depths.index(depth)])
        return cells_over(TrainingCell, self, **form, **rates, **fixed, seed=seeds)


def cells(config: ChoiceConfig, finished: Finished) -> list[FigureCell]:
    """Return the cells variant by variant; the reference, whose runs are those of `fig1`, first."""
    return [cell for variant in config.all for depth in config.depths for cell in config.cells(variant, depth)]


def run_cell(cell: TrainingCell, context: RunContext) -> Row:
    """Train one network. With a tolerance, also record the steps that inference takes at each evaluation, and what is
    then left of the gradient."""
    if cell.method not in TOLERANCES:
        return _training.run_cell(cell, context)
    from ..inference import infer
    from ..learning import PC
    from ..network import Network

    dataset = _methods.load(cell.data, context.data_dir, cell.verify, 0.0)

    def inference(network: Network) -> Row:
        x, y = _methods.first_batch(dataset)
        algorithm = METHODS[cell.method].algorithm(cell.beta, cell.depth)
        assert isinstance(algorithm, PC)
        solution = infer(network, x, y, algorithm.solver, precision=cell.precision, history=True)
        assert solution.history is not None
        steps, norms = int(solution.steps), solution.history.gradient_norms
        return {"inference_steps": steps, "gradient_left": float(norms[steps] / norms[0])}

    found = _training.run_cell(cell, context, {"inference": inference})
    measured = found["history"].pop("inference")
    found["history"] |= {name: [one[name] for one in measured] for name in measured[0]}
    return found


@dataclasses.dataclass(frozen=True)
class VariantOutcome:
    """The test accuracy of a variant at one depth, in per cent, mean over seeds. `move`: points from the reference.
    `learning`: how many layers learn at the end, the fewest of any seed. `ending`: where inference ended."""

    accuracy: float
    move: float
    learning: int
    diverged: bool
    ending: str

    def __str__(self) -> str:
        return f"{self.accuracy:.2f} ({self.move:+.2f}){', diverged' if self.diverged else ''}{self.ending}"


def outcomes(config: ChoiceConfig, table: Table) -> dict[tuple[Variant, int], VariantOutcome]:
    """Return what is finished, by variant and depth."""
    runs = {size: _rows(table, config.cells(*size)) for size in itertools.product(config.all, config.depths)}
    reference = {depth: runs[config.all[0], depth] for depth in config.depths}
    return {
        (variant, depth): _outcome(rows, reference[depth])
        for (variant, depth), rows in runs.items()
        if rows and reference[depth]
    }


def _rows(table: Table, wanted: list[TrainingCell]) -> Table:
    """Return the rows of these cells; none if some are missing."""
    found = [select(table, **dataclasses.asdict(cell)) for cell in wanted]
    return [rows[0] for rows in found] if all(found) else []


def _outcome(rows: Table, reference: Table) -> VariantOutcome:
    accuracy, other = (statistics.fmean(100 * row["test_accuracy"] for row in found) for found in (rows, reference))
    learning = min(row["history"]["learning_layers"][-1] or 0 for row in rows)
    return VariantOutcome(accuracy, accuracy - other, learning, any(row["diverged"] for row in rows), _ending(rows))


def _ending(rows: Table) -> str:
    """Return where inference ended in the trained networks, if that was followed."""
    ends = [row["history"] for row in rows if "inference_steps" in row["history"]]
    if not ends:
        return ""
    steps, left = (statistics.fmean(end[name][-1] for end in ends) for name in ("inference_steps", "gradient_left"))
    return f" after {steps:.0f} steps with {left:.2f} of the gradient left"


def claims(config: ChoiceConfig, table: Table) -> list[Claim]:
    """Report what each choice moves."""
    found = outcomes(config, table)

    def at(variant: Variant, depth: int) -> str:
        one = [found[variant, depth]] if (variant, depth) in found else []
        return f"H={depth}: {require(one, 1, f'{variant.name} at H={depth}')[0]}"

    def told(variant: Variant) -> str:
        depths = [depth for depth in config.depths if config.cells(variant, depth)]
        return f"{variant.name}: " + ", ".join(at(variant, depth) for depth in depths)

    def moves(choice: str) -> str:
        return "; ".join(told(variant) for variant in config.all if variant.choice == choice)

    choices = dict.fromkeys(variant.choice for variant in config.all)
    return [judge("choice-{words}", moves, choice, choice=choice, words=choice.replace(" ", "-")) for choice in choices]


def _plot(record: Row, path: Path) -> None:
    config = STUDY.config(record["preset"], record["precision"])
    assert isinstance(config, ChoiceConfig)
    found = outcomes(config, record["data"])
    shown = {(variant.name, depth): (one.move, one.learning) for (variant, depth), one in found.items()}
    plots.draw_protocol_choices(record, path, [variant.name for variant in config.all], shown)


_SMALL: dict[str, object] = {"data": "digits", "width": 32, "depths": (4,), "seeds": (2,), "eta": 0.05, "beta": 16.0}
_PRESETS = presets(
    ChoiceConfig("bf16", protocol("protocol-choices", "tolerance", *COMMON)),
    **_SMALL,
    protocol=protocol("digits", "tolerance", "training"),
    epochs=3.0,
    evaluate_every=33,
    variants=tuple(variant for variant in _VARIANTS if variant.precision != "float64"),
)
STUDY = Figure("protocol-choices", _PRESETS, cells, run_cell, claims, _plot)
FIGURES = by_slug(STUDY)
