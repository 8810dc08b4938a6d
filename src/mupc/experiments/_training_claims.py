"""The predicates of claims.md on tables of training runs. All accuracies are in per cent."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Callable
from typing import Any

from ._figure import Claim, MissingCellsError, Table, judge, select
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

    def finals(self, method: str, activation: str, width: int, depth: int) -> list[float]:
        """The accuracy at the end, seed by seed."""
        return [100 * row["test_accuracy"] for row in self.rows(method, activation, width, depth)]

    def bests(self, method: str, activation: str, width: int, depth: int) -> list[float]:
        """The best accuracy of any evaluation, seed by seed."""
        rows = self.rows(method, activation, width, depth)
        return [100 * max(row["history"]["test_accuracy"]) for row in rows]

    def at_epoch(self, method: str, activation: str, width: int, depth: int, epoch: float) -> list[float]:
        """The accuracy at the last evaluation within so many epochs, seed by seed."""
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
        missing = set(range(self.config.seeds)) - seeds
        if missing:
            name = f"{METHODS[method].label} {activation} N={width} H={depth}"
            raise MissingCellsError(f"{name} lacks {len(missing)} of {self.config.seeds} seeds")
        return rows


def claims(config: TrainingConfig, table: Table) -> list[Claim]:
    """Every claim that the figure's thresholds name, for every activation."""
    runs = TrainingRuns(config, table)
    asked = [(name, build, getattr(config.thresholds, name)) for name, build in _CLAIMS.items()]
    found = [
        build(runs, activation, limit)
        for activation, (_, build, limit) in itertools.product(config.activations, asked)
        if limit is not None
    ]
    return [claim for built in found for claim in (built if isinstance(built, list) else [built])]


def _over_depth(runs: TrainingRuns, method: str, activation: str) -> dict[int, float]:
    return {depth: runs.final(method, activation, depth) for depth in runs.config.depths}


def _listed(values: dict[int, float], name: str = "H") -> str:
    return ", ".join(f"{name}={size}: {value:.2f}" for size, value in values.items())


def _lowest(runs: TrainingRuns, activation: str, limit: float) -> Claim:
    linear = runs.config.thresholds.lowest_linear
    lowest = linear if activation == "linear" and linear is not None else limit

    def measure() -> tuple[bool, str]:
        means = _over_depth(runs, "mupc", activation)
        return min(means.values()) >= lowest, f"{_listed(means)} %"

    return judge(f"μPC trains at every depth, {activation}", f"≥ {lowest:g} % at every H", measure)


def _spread(runs: TrainingRuns, activation: str, limit: float) -> Claim:
    def measure() -> tuple[bool, str]:
        means = _over_depth(runs, "mupc", activation).values()
        spread = max(means) - min(means)
        return spread <= limit, f"{spread:.2f} points"

    return judge(f"μPC's accuracy hardly depends on depth, {activation}", f"spread over H ≤ {limit:g} points", measure)


def _below_mupc(runs: TrainingRuns, activation: str, limit: float) -> Claim:
    """Against SP's best evaluation, not its last: the claim must not profit from a run that collapsed late."""
    depth = runs.deepest

    def measure() -> tuple[bool, str]:
        mupc, sp = runs.final("mupc", activation, depth), runs.best("sp", activation, depth)
        return mupc - sp >= limit, f"μPC {mupc:.2f} %, best SP {sp:.2f} %: {mupc - sp:.2f} points"

    return judge(
        f"standard PC falls behind at H={depth}, {activation}",
        f"best SP at least {limit:g} points below μPC",
        measure,
    )


def _near_bp(runs: TrainingRuns, activation: str, limit: float) -> Claim:
    def measure() -> tuple[bool, str]:
        mupc, bp = (_over_depth(runs, method, activation) for method in ("mupc", "bp"))
        gaps = {depth: mupc[depth] - bp[depth] for depth in mupc}
        return all(abs(gap) <= limit for gap in gaps.values()), f"μPC − BP: {_listed(gaps)} points"

    return judge(f"μPC keeps up with BP, {activation}", f"within {limit:g} points of BP at every H", measure)


def _mean(runs: TrainingRuns, activation: str, limit: tuple[float, float]) -> Claim:
    low, high = limit

    def measure() -> tuple[bool, str]:
        finals = runs.finals("mupc", activation, runs.config.widths[0], runs.deepest)
        mean = statistics.fmean(finals)
        return low <= mean <= high, f"{mean:.2f} ± {_deviation(finals):.2f} % over {len(finals)} seeds"

    return judge(
        f"μPC at H={runs.deepest} after {runs.config.epochs:g} epochs, {activation}",
        f"mean in [{low:g}, {high:g}] %",
        measure,
    )


def _best(runs: TrainingRuns, activation: str, limit: float) -> Claim:
    def measure() -> tuple[bool, str]:
        best = runs.best("mupc", activation, runs.deepest)
        return best >= limit, f"{best:.2f} %, mean over {runs.config.seeds} seeds of each one's best evaluation"

    what = f"μPC at H={runs.deepest} within {runs.config.epochs:g} epochs, {activation}"
    return judge(what, f"best ≥ {limit:g} %", measure)


def _behind_bp(runs: TrainingRuns, activation: str, limit: float) -> Claim:
    def measure() -> tuple[bool, str]:
        mupc, bp = (runs.final(method, activation, runs.deepest) for method in ("mupc", "bp"))
        return 0 <= bp - mupc <= limit, f"μPC {mupc:.2f} %, BP {bp:.2f} %: {bp - mupc:.2f} points below"

    what = f"μPC at H={runs.deepest} is slightly below BP, {activation}"
    return judge(what, f"0 to {limit:g} points below BP", measure)


def _wider(runs: TrainingRuns, activation: str, limit: float) -> Claim:
    """Each width against the next narrower one, with σ² the mean of their two variances over seeds."""

    def measure() -> tuple[bool, str]:
        widths = sorted(runs.config.widths)
        finals = {width: runs.finals("mupc", activation, width, runs.deepest) for width in widths}
        means = {width: statistics.fmean(values) for width, values in finals.items()}
        variances = {width: _deviation(values) ** 2 for width, values in finals.items()}
        true = all(
            means[wide] >= means[narrow] - limit * ((variances[wide] + variances[narrow]) / 2) ** 0.5
            for narrow, wide in itertools.pairwise(widths)
        )
        return true, f"{_listed(means, 'N')} %, σ ≤ {max(variances.values()) ** 0.5:.2f}"

    return judge(f"wider is better, {activation}", f"non-decreasing in N, within {limit:g} σ over seeds", measure)


def _one_step(runs: TrainingRuns, activation: str, _: bool) -> Claim:
    def measure() -> tuple[bool, str]:
        whole, one = (_over_depth(runs, method, activation) for method in ("mupc", "mupc-one-step"))
        gaps = {depth: whole[depth] - one[depth] for depth in sorted(whole)}
        true = min(gaps.values()) > 0 and all(a < b for a, b in itertools.pairwise(gaps.values()))
        return true, f"one step {_listed(one)} %; T=H above it by {_listed(gaps)} points"

    return judge(f"one step is worse, the more so the deeper, {activation}", "gap > 0 and growing with H", measure)


def _orthogonal(runs: TrainingRuns, activation: str, _: bool) -> Claim:
    """Against the best evaluation of orthogonal networks, as for SP."""
    depth = runs.deepest

    def measure() -> tuple[bool, str]:
        mupc, other = runs.final("mupc", activation, depth), runs.best("orthogonal", activation, depth)
        return other < mupc, f"μPC {mupc:.2f} %, best orthogonal {other:.2f} %"

    return judge(f"orthogonal weights fall behind at H={depth}, {activation}", "best accuracy below μPC's", measure)


NEAR_BP, COST = 0.5, 3.0


def _solvers(runs: TrainingRuns, activation: str, _: bool) -> list[Claim]:
    """What error space is for, at every output precision: all that a user could wish for at once."""
    return [_solver(runs, activation, method) for method in ERROR_SPACE]


def _solver(runs: TrainingRuns, activation: str, method: str) -> Claim:
    config, depth = runs.config, runs.deepest
    epochs = sorted({1.0, config.epochs})

    def accuracies(name: str) -> list[float]:
        return [statistics.fmean(runs.at_epoch(name, activation, config.widths[0], depth, e)) for e in epochs]

    def rows(name: str) -> Table:
        return runs.rows(name, activation, config.widths[0], depth)

    def cost(name: str) -> float:
        return statistics.median(row["seconds_per_step"] for row in rows(name))

    def measure() -> tuple[bool, str]:
        learning = min(row["history"]["learning_layers"][-1] for row in rows(method))
        found, bp, gd = accuracies(method), accuracies("bp"), accuracies("mupc")
        ratio = cost(method) / cost("bp")
        good = all(a >= b - NEAR_BP and a >= c for a, b, c in zip(found, bp, gd, strict=True))
        listed = "; ".join(
            f"{e:g} epochs {a:.2f} % (BP {b:.2f}, GD {c:.2f})" for e, a, b, c in zip(epochs, found, bp, gd, strict=True)
        )
        measured = f"{learning} of {depth + 1} layers learn; {listed}; {ratio:.2f} times BP's step"
        return good and learning == depth + 1 and ratio <= COST, measured

    return judge(
        f"{METHODS[method].label} trains every layer as well as BP does",
        f"all layers learn, at most {NEAR_BP:g} points below BP, not below GD, ≤ {COST:g} times BP's time per step",
        measure,
    )


def _deviation(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


_CLAIMS: dict[str, Callable[[TrainingRuns, str, Any], Claim | list[Claim]]] = {
    "lowest": _lowest,
    "spread": _spread,
    "below_mupc": _below_mupc,
    "near_bp": _near_bp,
    "mean": _mean,
    "best": _best,
    "behind_bp": _behind_bp,
    "wider": _wider,
    "one_step": _one_step,
    "orthogonal": _orthogonal,
    "solvers": _solvers,
}
"""A claim, or several, for each field of `Thresholds`."""
