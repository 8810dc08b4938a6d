"""Claims about training runs, with all accuracies in per cent."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from ._claims import Claim, Finding, MissingCellsError, judge
from ._figure import Table, select
from ._methods import ERROR_SPACE, METHODS
from ._training import TrainingConfig


@dataclasses.dataclass(frozen=True)
class TrainingRuns:
    """The runs of a table on all seeds, by what they trained."""

    config: TrainingConfig
    table: Table

    @property
    def deepest(self) -> int:
        return max(self.config.depths)

    @property
    def judged(self) -> str:
        """The method that claims about μPC are judged by."""
        trained = {row["method"] for row in select(self.table, validation=0.0)}
        return next((method for method in self.config.judged if method in trained), self.config.judged[0])

    def finals(self, method: str, activation: str, width: int, depth: int) -> list[float]:
        """Return the accuracy at the end, seed by seed."""
        return [100 * row["test_accuracy"] for row in self.rows(method, activation, width, depth)]

    def bests(self, method: str, activation: str, width: int, depth: int) -> list[float]:
        """Return the best accuracy of any evaluation, seed by seed."""
        rows = self.rows(method, activation, width, depth)
        return [100 * max(row["history"]["test_accuracy"]) for row in rows]

    def at_epoch(self, method: str, activation: str, width: int, depth: int, epoch: float) -> list[float]:
        """Return the accuracy at the last evaluation until this epoch, seed by seed."""
        return [
            100 * [a for a, e in zip(h["test_accuracy"], h["epoch"], strict=True) if e <= epoch + 1e-6][-1]
            for h in (row["history"] for row in self.rows(method, activation, width, depth))
        ]

    def final(self, method: str, activation: str, depth: int) -> float:
        return statistics.fmean(self.finals(method, activation, self.config.widths[0], depth))

    def best(self, method: str, activation: str, depth: int) -> float:
        return statistics.fmean(self.bests(method, activation, self.config.widths[0], depth))

    def rows(self, method: str, activation: str, width: int, depth: int) -> Table:
        what = {"method": method, "activation": activation, "width": width, "depth": depth}
        rows = select(self.table, validation=0.0, **what)
        seeds = {row["seed"] for row in rows}
        wanted = self.config.count_seeds(*(rates for rates in self.config.rates if rates.method == method))
        missing = set(range(wanted)) - seeds
        if missing:
            name = f"{METHODS[method].label} {activation} N={width} H={depth}"
            raise MissingCellsError(f"{name} lacks {len(missing)} of {wanted} seeds")
        return rows


NEAR_BP, COST = 0.5, 3.0


def claims(config: TrainingConfig, table: Table) -> list[Claim]:
    """Judge every claim that the figure's thresholds name, for every activation."""
    runs, found = TrainingRuns(config, table), []
    for activation in config.activations:
        values = {"activation": activation, "depth": runs.deepest, "epochs": config.epochs}
        for name, (claim, measure) in _CLAIMS.items():
            limit = getattr(config.thresholds, f"{name}_{activation}", None) or getattr(config.thresholds, name)
            if limit is not None:
                found.append(judge(claim, measure, runs, activation, limit, limit=limit, **values))
        if config.thresholds.solvers:
            found += [_judge_solver(runs, activation, method) for method in ERROR_SPACE]
    return found


def _over_depth(runs: TrainingRuns, method: str, activation: str) -> dict[int, float]:
    return {depth: runs.final(method, activation, depth) for depth in runs.config.depths}


def listed(values: Mapping[int, float], name: str = "H") -> str:
    """Return numbers over a size of the network, in a line."""
    return ", ".join(f"{name}={size}: {value:.2f}" for size, value in values.items())


def _lowest(runs: TrainingRuns, activation: str, limit: float) -> Finding:
    means = _over_depth(runs, runs.judged, activation)
    return min(means.values()) >= limit, f"{listed(means)} %"


def _spread(runs: TrainingRuns, activation: str, limit: float) -> Finding:
    means = _over_depth(runs, "mupc", activation).values()
    spread = max(means) - min(means)
    return spread <= limit, f"{spread:.2f} points"


def _below_mupc(runs: TrainingRuns, activation: str, limit: float) -> Finding:
    """Compare with SP's best evaluation, not its last: the claim must not profit from a run that collapsed late."""
    mupc, sp = runs.final("mupc", activation, runs.deepest), runs.best("sp", activation, runs.deepest)
    return mupc - sp >= limit, f"μPC {mupc:.2f} %, best SP {sp:.2f} %: {mupc - sp:.2f} points"


def _near_bp(runs: TrainingRuns, activation: str, limit: float) -> Finding:
    mupc, bp = (_over_depth(runs, method, activation) for method in ("mupc", "bp"))
    gaps = {depth: mupc[depth] - bp[depth] for depth in mupc}
    return all(abs(gap) <= limit for gap in gaps.values()), f"μPC − BP: {listed(gaps)} points"


def _mean(runs: TrainingRuns, activation: str, limit: tuple[float, float]) -> Finding:
    finals = runs.finals("mupc", activation, runs.config.widths[0], runs.deepest)
    mean = statistics.fmean(finals)
    return limit[0] <= mean <= limit[1], f"{mean:.2f} ± {_deviation(finals):.2f} % over {len(finals)} seeds"


def _best(runs: TrainingRuns, activation: str, limit: float) -> Finding:
    best = runs.best("mupc", activation, runs.deepest)
    return best >= limit, f"{best:.2f} %, mean over {runs.config.seeds} seeds of each one's best evaluation"


def _behind_bp(runs: TrainingRuns, activation: str, limit: float) -> Finding:
    mupc, bp = (runs.final(method, activation, runs.deepest) for method in (runs.judged, "bp"))
    return 0 <= bp - mupc <= limit, f"μPC {mupc:.2f} %, BP {bp:.2f} %: {bp - mupc:.2f} points below"


def _wider(runs: TrainingRuns, activation: str, limit: float) -> Finding:
    """Compare each width with the next narrower one; σ² is the mean of their two variances over seeds."""
    widths = sorted(runs.config.widths)
    finals = {width: runs.finals("mupc", activation, width, runs.deepest) for width in widths}
    means = {width: statistics.fmean(values) for width, values in finals.items()}
    variances = {width: _deviation(values) ** 2 for width, values in finals.items()}
    true = all(
        means[wide] >= means[narrow] - limit * ((variances[wide] + variances[narrow]) / 2) ** 0.5
        for narrow, wide in itertools.pairwise(widths)
    )
    return true, f"{listed(means, 'N')} %, σ ≤ {max(variances.values()) ** 0.5:.2f}"


def _one_step(runs: TrainingRuns, activation: str, _: bool) -> Finding:
    whole, one = (_over_depth(runs, method, activation) for method in ("mupc", "mupc-one-step"))
    gaps = {depth: whole[depth] - one[depth] for depth in sorted(whole)}
    true = min(gaps.values()) > 0 and all(a < b for a, b in itertools.pairwise(gaps.values()))
    return true, f"one step {listed(one)} %; T=H above it by {listed(gaps)} points"


def _orthogonal(runs: TrainingRuns, activation: str, _: bool) -> Finding:
    """Compare with the best evaluation of orthogonal networks, as for SP."""
    mupc, other = runs.final("mupc", activation, runs.deepest), runs.best("orthogonal", activation, runs.deepest)
    return other < mupc, f"μPC {mupc:.2f} %, best orthogonal {other:.2f} %"


def _judge_solver(runs: TrainingRuns, activation: str, method: str) -> Claim:
    """Judge all that a user could wish for at once: every layer learns, as well as with BP and GD, at a low cost."""
    config, depth = runs.config, runs.deepest
    size, epochs = (activation, config.widths[0], depth), sorted({1.0, config.epochs})

    def accuracies(name: str) -> list[float]:
        return [statistics.fmean(runs.at_epoch(name, *size, epoch)) for epoch in epochs]

    def cost(name: str) -> float:
        return statistics.median(row["seconds_per_step"] for row in runs.rows(name, *size))

    def measure() -> Finding:
        learning = min(row["history"]["learning_layers"][-1] for row in runs.rows(method, *size))
        compared = list(zip(epochs, accuracies(method), accuracies("bp"), accuracies("mupc"), strict=True))
        ratio = cost(method) / cost("bp")
        good = all(a >= bp - NEAR_BP and a >= gd for _, a, bp, gd in compared)
        found = "; ".join(f"{e:g} epochs {a:.2f} % (BP {bp:.2f}, GD {gd:.2f})" for e, a, bp, gd in compared)
        measured = f"{learning} of {depth + 1} layers learn; {found}; {ratio:.2f} times BP's step"
        return good and learning == depth + 1 and ratio <= COST, measured

    label = METHODS[method].label
    return judge("as-good-as-bp-{method}", measure, method=method, label=label, near=NEAR_BP, cost=COST)


def _deviation(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


_CLAIMS: dict[str, tuple[str, Callable[[TrainingRuns, str, Any], Finding]]] = {
    "lowest": ("trains-{activation}", _lowest),
    "spread": ("same-at-every-depth-{activation}", _spread),
    "below_mupc": ("sp-behind-{activation}", _below_mupc),
    "near_bp": ("near-bp-{activation}", _near_bp),
    "mean": ("mean-accuracy-{activation}", _mean),
    "best": ("best-accuracy-{activation}", _best),
    "behind_bp": ("behind-bp-{activation}", _behind_bp),
    "wider": ("wider-{activation}", _wider),
    "one_step": ("one-step-{activation}", _one_step),
    "orthogonal": ("orthogonal-behind-{activation}", _orthogonal),
}
"""The claim for each field of `Thresholds`, and how to measure it."""
