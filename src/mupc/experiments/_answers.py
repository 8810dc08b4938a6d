"""Sections of the report from several figures: claims that fail, time, what the paper leaves open, credit reach."""

import itertools
import statistics
from collections.abc import Iterator, Sequence

from ._claims import FAILS, NOT_RUN
from ._declaration import LEFT_OPEN
from ._figure import Row, Table, grouped
from ._methods import METHODS
from ._page import TEXTS, ReportSection
from ._training import tuning_rank
from .protocol_choices import STUDY, ChoiceConfig, Variant, outcomes

_DAYS = 'several days on an NVIDIA RTX A6000 ("Compute resources", of 128-layer networks trained for multiple epochs)'
DAYS = dict.fromkeys(("mupc-mnist-5-epochs", "mupc-fashion-15-epochs"), _DAYS)
"""What the paper says about its run times, by figure."""


def sections(paper: list[Row], further: list[Row]) -> list[ReportSection]:
    """Return the sections that have rows, from the results at the paper preset: the paper's figures, and studies of
    our own."""
    found = [failed(paper), times(paper), choices(paper, further), reach(paper)]
    return [section for section in found if any(len(table) > 1 for table in section.tables)]


def failed(paper: list[Row]) -> ReportSection:
    """Return every claim of the paper that fails, with what was checked."""
    head = ("id", "claim", "expected", "measured", "checked")
    rows = [
        (f"`{result['slug']}/{c.get('id', '')}`", *(c[name] for name in head[1:4]), c.get("checked", "nothing yet"))
        for result in paper
        for c in result["claims"]
        if c["verdict"] == FAILS
    ]
    return ReportSection("Claims that fail", TEXTS["failed"], ([head, *rows],))


def times(paper: list[Row]) -> ReportSection:
    """Return the time of the figures that were run on a GPU."""
    rows = []
    for result in (result for result in paper if "gpu" in result["device"]):
        runs = _trained(result)
        deepest = [run for run in runs if run["depth"] == max(run["depth"] for run in runs) and run["method"] != "bp"]
        one = duration(statistics.median(run["seconds"] for run in deepest)) if deepest else "–"
        depth = f" (H={deepest[0]['depth']})" if deepest else ""
        number = str(result["cells"]["finished"]) + ("" if result["complete"] else ", not complete")
        slug = result["slug"]
        rows.append(
            (f"`{slug}`", number, one + depth, duration(result["seconds"]), result["device"], DAYS.get(slug, "–"))
        )
    head = ("figure", "runs or cells", "one run", "all of them", "on", "the paper")
    return ReportSection("Time", TEXTS["time"], ([head, *rows],))


def reach(paper: list[Row]) -> ReportSection:
    """Return how many layers learnt, for each trained figure, method and size."""
    rows = []
    for result in paper:
        for runs in _ladders([row for row in _trained(result) if _learning(row)]):
            sizes = list(grouped(runs, "width", "depth").values())
            counts = [[_learning(run) for run in same] for same in sizes]
            listed = [
                [same[0]["width"] for same in sizes],
                [same[0]["depth"] for same in sizes],
                [same[0]["depth"] + 1 for same in sizes],
                [statistics.median(run[0] for run in same) for same in counts],
                [statistics.median(run[-1] for run in same) for same in counts],
                [min(map(min, same)) for same in counts],
                [statistics.median(itertools.chain(*same)) for same in counts],
            ]
            rows.append((f"`{result['slug']}`", _method(runs[0]), *map(_listed, listed)))
    head = ("figure", "method", "N", "H", "layers", "first", "last", "fewest", "median")
    return ReportSection("Credit reach", TEXTS["reach"], ([head, *rows],))


def choices(paper: list[Row], further: list[Row]) -> ReportSection:
    """Return the choices with what they move, every variant, and the neighbours of the rates that were tuned."""
    config = STUDY.config("paper")
    assert isinstance(config, ChoiceConfig)
    data = [row for result in further if result["slug"] == STUDY.slug for row in result["data"]]
    found = outcomes(config, data)
    depths = [depth for depth in config.depths if any(at == depth for _, at in found)]

    def moves(choice: str) -> str:
        moved = [one.move for (variant, _), one in found.items() if variant.choice == choice]
        return f"{min(moved):+.2f} to {max(moved):+.2f}" if moved else NOT_RUN

    def told(variant: Variant, depth: int) -> str:
        one = found.get((variant, depth))
        return NOT_RUN if one is None else f"{one}; {one.learning} of {depth + 1}"

    made = [(choice, said, here, moves(choice)) for choice, said, here in LEFT_OPEN]
    tried = [(variant.name, *(told(variant, depth) for depth in depths)) for variant in config.all]
    return ReportSection(
        "What the paper leaves open, what was chosen, and how much it moves",
        TEXTS["choices"],
        (
            [("choice", "the paper", "here", "moves test accuracy by"), *made],
            [("variant", *(f"H={depth}" for depth in depths)), *tried] if depths else [],
            [
                ("tuned on", "epochs", "method", "N", "H", "pairs", "chosen", "accuracy", "next η", "next β"),
                *_tuned(paper),
            ],
        ),
    )


def _tuned(paper: list[Row]) -> Iterator[tuple[str, ...]]:
    """Yield what was chosen in each grid of tuning runs, and what is next to it."""
    runs = {
        tuple(row[name] for name in (*_GRID, "eta", "beta")): row
        for result in paper
        if result["complete"]
        for row in result["data"]
        if row.get("validation")
    }
    for grid in grouped(runs.values(), *_GRID).values():
        best = max(grid, key=tuning_rank)

        def near(name: str, other: str, grid: Table = grid, best: Row = best) -> str:
            line = sorted((row for row in grid if row[other] == best[other]), key=lambda row: float(row[name]))
            at = line.index(best)
            return ", ".join(f"{row[name]:g}: {_accuracy(row)}" for row in line[max(at - 1, 0) : at + 2] if row != best)

        chosen = f"η={best['eta']:g}" + (f" β={best['beta']:g}" if best["beta"] else "")
        sizes = map(str, (best["width"], best["depth"], len(grid)))
        what = (best["data"], f"{best['epochs']:g}", _method(best), *sizes)
        yield *what, chosen, _accuracy(best), near("eta", "beta") or "–", near("beta", "eta") or "–"


_GRID = ("data", "epochs", "method", "activation", "width", "depth")


def _accuracy(row: Row) -> str:
    return f"{100 * (row['validation_accuracy'] or 0):.2f}" + (" (diverged)" if row["diverged"] else "")


def _trained(result: Row) -> Table:
    """Return the training runs of a result, without the tuning runs."""
    return [row for row in result["data"] if "history" in row and "method" in row]


def _learning(row: Row) -> list[int]:
    """Return how many layers learn at each evaluation, if that was recorded."""
    return [count for count in row["history"].get("learning_layers", []) if count is not None]


def _ladders(rows: Table) -> Iterator[Table]:
    """Yield the runs of each method and activation; width by width if both sizes vary."""
    for runs in grouped(rows, "method", "activation").values():
        both = all(len({run[name] for run in runs}) > 1 for name in ("width", "depth"))
        yield from grouped(runs, "width").values() if both else [runs]


def _method(run: Row) -> str:
    return f"{METHODS[run['method']].label}, {run['activation']}"


def _listed(values: Sequence[int | float]) -> str:
    """Return the values in order; one that all share is listed once."""
    return ", ".join(f"{value:g}" for value in (values[:1] if len(set(values)) == 1 else values))


def duration(seconds: float | int) -> str:
    """Return the time in the unit that suits it."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
