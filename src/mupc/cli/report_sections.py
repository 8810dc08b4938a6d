"""Sections of a report on runs: results, curves, credit reach, conditioning, configuration, and how they were made."""

import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from ..diagnostics import LEARNING_LIMITS
from ..io.progress import percent
from ..plots import LOSSES
from ..report import Alert, Block, Chart, ChartGrid, Fact, Facts, PageSection, PlainTable, Prose, Series, TableGrid
from .config import TrainingGroups
from .parsing import flag
from .report_measures import RunMeasures
from .report_runs import RecordedRun, differing, is_number
from .report_words import ABSENT, written_number, written_setting, written_time

SPLITS = {"train": "training", "test": "test", "validation": "validation"}
SCORES: dict[str, tuple[str, str, Callable[[float], str]]] = {
    "accuracy": ("Accuracy", "accuracy (%)", percent),
    "perplexity": ("Perplexity", "perplexity per character", "{:.3f}".format),
    "r2": ("R²", "R²", "{:.3f}".format),
    "rmse": ("Root mean square error", "error (units of the target)", written_number),
    "loss": ("Loss", "loss of a sample", "{:.4f}".format),
}
"""Scores with the title and the axis of their chart, and how they are written."""
MOST_PROFILES, MOST_COMPARED = 8, 4
"""The most evaluations in a chart of gradients by layer, and the most settings in the table that compares runs."""
STEEP = 30
"""From this ratio of the largest to the smallest value on, an axis is logarithmic."""
_GROUPS = typing.get_type_hints(TrainingGroups)
_PARTS = {name: group.capitalize() for group, kind in _GROUPS.items() for name in typing.get_type_hints(kind)}
"""The part of the configuration that each setting belongs to, in the order of the help."""


def run_sections(runs: Sequence[RecordedRun], measures: Sequence[RunMeasures]) -> list[PageSection]:
    """Return the sections that describe runs, but for their predictions."""
    return [
        _results(runs),
        PageSection("Learning curves", tuple(_curves(runs))),
        PageSection("Credit reach", tuple(_reach(runs))),
        PageSection("Conditioning of inference", tuple(_conditioning(runs, measures))),
    ]


def closing_sections(runs: Sequence[RecordedRun]) -> list[PageSection]:
    """Return the sections that come last: configuration, machine and time."""
    return [
        PageSection("Configuration", (_settings_of(runs[0]) if len(runs) == 1 else _configuration(runs),)),
        PageSection("Machine and time", (_machine(runs),)),
    ]


def score_of(run: RecordedRun) -> tuple[str, str, float] | None:
    """Return the split and the name of the most telling score of a run, and its value."""
    source = run.summary or run.last
    for split in ("test", "validation", "train"):
        for name in SCORES:
            if is_number(value := source.get(f"{split}_{name}")):
                return split, name, float(value)
    return None


def _describe_score(run: RecordedRun) -> tuple[str, str]:
    """Return the name of a run's score, and its value in words."""
    if (found := score_of(run)) is None:
        return "Score", ABSENT
    split, name, value = found
    title = SCORES[name][0]
    return f"{SPLITS[split].capitalize()} {title if title.isupper() else title.lower()}", SCORES[name][2](value)


def _learning(run: RecordedRun) -> str:
    reach = _mapping(run.summary.get("credit_reach")) or run.last
    counts = reach.get("learning_layers"), reach.get("layers")
    return "{} of {}".format(*counts) if all(map(is_number, counts)) else ABSENT


def _state(run: RecordedRun) -> str:
    if not run.summary:
        return "not finished"
    return next((name for name in ("diverged", "interrupted") if run.summary.get(name)), "finished")


def _results(runs: Sequence[RecordedRun]) -> PageSection:
    blocks: list[Block] = [_facts(runs[0]) if len(runs) == 1 else _comparison(runs)]
    blocks += alerts(runs, [[*_ending(run), *map(str, _list(run.summary.get("warnings")))] for run in runs], "warning")
    blocks += alerts(runs, [(*run.missing, *run.damaged) for run in runs])
    return PageSection("Results", tuple(blocks))


def alerts(
    runs: Sequence[RecordedRun], lines: Sequence[Sequence[str]], kind: Literal["warning", "missing"] = "missing"
) -> list[Alert]:
    """Return an alert with the lines of all runs, if there are any; several runs are named."""
    pairs = [(run.name, line) for run, own in zip(runs, lines, strict=True) for line in own]
    return [Alert(tuple(f"{name}: {line}" if len(runs) > 1 else line for name, line in pairs), kind)] if pairs else []


def _ending(run: RecordedRun) -> list[str]:
    """Return how a run ended, if it was not the end of its plan."""
    return [str(run.summary.get("message", ""))] if _state(run) in ("diverged", "interrupted") else []


def _facts(run: RecordedRun) -> Facts:
    name, value = _describe_score(run)
    best = run.summary.get("best_test_accuracy")
    reach = _mapping(run.summary.get("credit_reach"))
    seconds, pace = run.summary.get("seconds"), run.summary.get("seconds_per_step")
    steps = run.summary.get("steps", run.last.get("step"))
    data = run.settings.get("data", ABSENT)
    return Facts(
        (
            Fact(name, value, f"{percent(best)} at its best" if is_number(best) else ""),
            Fact("Layers that learn", _learning(run), str(reach.get("regime") or "")),
            Fact("Steps", f"{steps:,}" if is_number(steps) else ABSENT, _state(run)),
            Fact("Time", written_time(seconds) or ABSENT, f"{written_time(pace)} per step" if is_number(pace) else ""),
            Fact("Method", str(run.settings.get("method", ABSENT)), str(run.settings.get("solver") or "")),
            Fact("Data", str(data).rpartition("/")[2], str(run.settings.get("task") or "")),
        )
    )


def _comparison(runs: Sequence[RecordedRun]) -> PlainTable:
    names = list(dict.fromkeys(_describe_score(run)[0] for run in runs))
    changed = [name for name in _settings(runs) if name not in ("data_dir",) and differing(runs, name)]
    shown = [name for name in changed if name not in _FOLLOWING][:MOST_COMPARED]
    rows = []
    for run in runs:
        score, value = _describe_score(run)
        scores = [value if score == name else ABSENT for name in names]
        times = (written_time(run.summary.get(key)) or ABSENT for key in ("seconds", "seconds_per_step"))
        settings = (written_setting(run.settings.get(name)) for name in shown)
        rows.append((run.name, *scores, _learning(run), *times, _state(run), *settings))
    flags = (f"`{flag(name)}`" for name in shown)
    head = ("run", *names, "layers that learn", "time", "time per step", "state", *flags)
    return PlainTable("Runs next to each other, with the settings in which they differ.", head, tuple(rows))


_FOLLOWING = ("evaluate_every", "cg_steps", "inference_steps", "base_width", "base_hidden_layers", "activity_lr")
"""Settings that mostly follow others: the table of configurations has them."""


def _curves(runs: Sequence[RecordedRun]) -> Iterator[Block]:
    charts = [chart for name in SCORES for chart in [_curve_chart(runs, name)] if chart is not None]
    energy = _lines([run if _infers(run) else None for run in runs], {"energy": ""})
    if energy:
        charts.append(Chart("Energy after inference", "epoch", "energy of a sample", energy, log_y=_steep(energy)))
    if len(runs) > 1 and (found := score_of(runs[0])) is not None:
        split, name, _ = found
        factor = 100.0 if name == "accuracy" else 1.0
        timed = _lines(runs, {f"{split}_{name}": SPLITS[split]}, "seconds", factor)
        title, label, _ = SCORES[name]
        charts.append(Chart(f"{title} over time", "time (s, with compiling)", label, timed))
    if charts:
        yield Prose(("Move over a chart to read values, and drag to zoom; double-click to zoom out.",))
        yield ChartGrid(tuple(charts))
    else:
        yield Alert(("There is no evaluation to draw.",))


def _infers(run: RecordedRun) -> bool:
    return run.settings.get("method") not in ("bp", "zil")


def _curve_chart(runs: Sequence[RecordedRun], name: str) -> Chart | None:
    factor = 100.0 if name == "accuracy" else 1.0
    series = _lines(runs, {f"{split}_{name}": words for split, words in SPLITS.items()}, "epoch", factor)
    if not series:
        return None
    title, label, _ = SCORES[name]
    if name == "loss":
        kinds = {str(run.settings.get("loss")) for run in runs}
        label = LOSSES.get(kinds.pop(), label) if len(kinds) == 1 else label
    return Chart(title, "epoch", label, series, log_y=name in ("loss", "perplexity") and _steep(series))


def _lines(
    runs: Sequence[RecordedRun | None], keys: Mapping[str, str], over: str = "epoch", factor: float = 1.0
) -> tuple[Series, ...]:
    """Return the curves of records: a colour for each run and a dash for each key, or of one run a colour for each. A
    run that is None has no curve here, but keeps its colour."""
    known = [(number, run) for number, run in enumerate(runs) if run is not None]
    drawn = [key for key in keys if any(run.curve(key, over)[0] for _, run in known)]
    found = []
    for number, run in known:
        for place, (key, words) in enumerate(keys.items()):
            x, y = run.curve(key, over, factor)
            name = ", ".join(filter(None, (run.name, words)))
            if x and len(runs) == 1:
                found.append(Series(words or run.name, x, y, colour=place))
            elif x:
                found.append(Series(name, x, y, colour=number, dash=drawn.index(key) % 3))
    return tuple(found)


def _steep(series: Sequence[Series]) -> bool:
    values = [value for line in series for value in line.y if value is not None]
    return bool(values) and min(values) > 0 and max(values) > STEEP * min(values)


def _reach(runs: Sequence[RecordedRun]) -> Iterator[Block]:
    yield Prose(
        (
            "A layer learns if the entries of its weight gradient are not lost below what the optimiser needs to "
            "make a step. Sizes are root mean squares in the last training step before an evaluation, as the optimiser "
            "sees them. Layer 1 is next to the input.",
        )
    )
    charts = [_last_profiles(runs)] if len(runs) > 1 else []
    share = _lines_of_shares(runs)
    charts += [_profiles(run, run.name if len(runs) > 1 else "") for run in runs]
    charts += [Chart("Layers that learn", "epoch", "layers that learn (%)", share, y_range=(0, 100))] if share else []
    charts += [_directions(runs)]
    drawn = tuple(chart for chart in charts if chart is not None)
    if drawn:
        yield ChartGrid(drawn)
    without = "The log has no gradients by layer: the run ended before its first evaluation, or an older mupc wrote it."
    yield from alerts(runs, [() if _sizes(run) else (without,) for run in runs])


def _sizes(run: RecordedRun) -> list[tuple[float, list[Any]]]:
    """Return the epoch and the gradient sizes of every record that has them."""
    finite = [record for record in run.records if not record.get("diverged")]
    found = [(record.get("epoch"), _list(record.get("gradient_sizes"))) for record in finite]
    return [(epoch, sizes) for epoch, sizes in found if is_number(epoch) and sizes]


def _profile(name: str, sizes: Sequence[Any], **look: Any) -> Series:
    values = [value if is_number(value) else None for value in sizes]
    return Series(name, [*range(1, len(values) + 1)], values, **look)


def _profiles(run: RecordedRun, name: str) -> Chart | None:
    """Return the gradient of every layer at some evaluations from the first to the last."""
    found = _sizes(run)
    if not found:
        return None
    last = len(found) - 1
    places = sorted({round(last * step / (MOST_PROFILES - 1)) for step in range(MOST_PROFILES)})
    series = tuple(
        _profile(f"epoch {found[place][0]:.3g}", found[place][1], shade=place / last if last else 1.0)
        for place in places
    )
    return _gradient_chart("Gradient by layer over training" + f": {name}" * bool(name), series, [run])


def _last_profiles(runs: Sequence[RecordedRun]) -> Chart | None:
    series = tuple(_profile(run.name, _sizes(run)[-1][1], colour=i) for i, run in enumerate(runs) if _sizes(run))
    return _gradient_chart("Gradient by layer at the end", series, runs) if series else None


def _gradient_chart(title: str, series: tuple[Series, ...], runs: Sequence[RecordedRun]) -> Chart:
    limits = {LEARNING_LIMITS.get(str(run.settings.get("optimiser"))) for run in runs}
    limit = limits.pop() if len(limits) == 1 else None
    largest = max((value for value in series[-1].y if value is not None), default=0.0)
    least = 0.0 if limit is None else limit.epsilon or limit.share * largest * (len(runs) == 1)
    marks = {"needed to learn": least} if least > 0 else {}
    names = _list(_mapping(runs[0].summary.get("credit_reach")).get("names")) if len(runs) == 1 else []
    return Chart(title, "layer", "RMS gradient entry", series, log_y=True, marks=marks, x_names=tuple(map(str, names)))


def _lines_of_shares(runs: Sequence[RecordedRun]) -> tuple[Series, ...]:
    found = []
    for number, run in enumerate(runs):
        kept = [record for record in run.records if is_number(record.get("layers")) and record["layers"]]
        kept = [
            record for record in kept if is_number(record.get("learning_layers")) and is_number(record.get("epoch"))
        ]
        if kept:
            shares = [100 * record["learning_layers"] / record["layers"] for record in kept]
            found.append(Series(run.name, [record["epoch"] for record in kept], shares, colour=number))
    return tuple(found)


def _directions(runs: Sequence[RecordedRun]) -> Chart | None:
    reaches = [_list(_mapping(run.summary.get("credit_reach")).get("backprop_cosines")) for run in runs]
    series = tuple(
        _profile(run.name, found, colour=i) for i, (run, found) in enumerate(zip(runs, reaches, strict=True)) if found
    )
    title = "Direction compared with backpropagation, after training"
    least = min((value for line in series for value in line.y if value is not None), default=0.0)
    return Chart(title, "layer", "cosine to BP", series, y_range=(min(0.0, least), 1.0)) if series else None


def _conditioning(runs: Sequence[RecordedRun], measures: Sequence[RunMeasures]) -> Iterator[Block]:
    yield Prose(
        (
            "κ is the largest over the smallest eigenvalue of the activity Hessian: gradient descent on the activities "
            "needs about κ steps. Measured for the first training sample, at the forward pass.",
        )
    )
    head = (
        "run",
        "κ before training",
        "κ after training",
        "largest eigenvalue",
        "smallest eigenvalue",
        "the Hessian is",
    )
    rows = []
    for run, found in zip(runs, measures, strict=True):
        if found.conditioning is not None:
            before, after = found.conditioning
            numbers = (before["condition_number"], *(after[key] for key in ("condition_number", "largest", "smallest")))
            written = (written_number(value) if is_number(value) else ABSENT for value in numbers)
            rows.append((run.name, *written, str(after["definite"] or "not finite")))
    if rows:
        caption = "Conditioning of inference; eigenvalues after training."
        yield PlainTable(caption, head, tuple(rows), 1)
    yield from alerts(runs, [found.about_conditioning for found in measures])


def _settings(runs: Sequence[RecordedRun]) -> list[str]:
    """Return the names of all settings, in the order of the help."""
    written = [name for run in runs for name in run.settings]
    return [name for name in dict.fromkeys((*_PARTS, *written)) if name in written]


def _settings_of(run: RecordedRun) -> TableGrid:
    """Return the settings of a run, a table for each part."""
    parts: dict[str, list[tuple[str, str]]] = {}
    for name in _settings([run]):
        if run.settings[name] is not None:
            parts.setdefault(_PARTS.get(name, "Other"), []).append(
                (f"`{flag(name)}`", written_setting(run.settings[name]))
            )
    return TableGrid(tuple(PlainTable(part, ("setting", "value"), tuple(rows)) for part, rows in parts.items()))


def _configuration(runs: Sequence[RecordedRun]) -> PlainTable:
    """Return the settings of several runs, with a mark where they differ."""
    rows: list[tuple[str, ...]] = []
    marked = set()
    for name in _settings(runs):
        values = [run.settings.get(name) for run in runs]
        if all(value is None for value in values):
            continue
        if differing(runs, name):
            marked.add(len(rows))
        rows.append((f"`{flag(name)}`", _PARTS.get(name, "Other"), *map(written_setting, values)))
    head = ("setting", "part", *(run.name for run in runs))
    caption = "Settings as used. Marked: those in which runs differ."
    return PlainTable(caption, head, tuple(rows), marked=frozenset(marked), foldable=True)


def _machine(runs: Sequence[RecordedRun]) -> PlainTable:
    """Return how runs were made, with a mark where they differ."""
    columns = [_made(run) for run in runs]
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows = tuple((name, *(written_setting(column.get(name)) for column in columns)) for name in names)
    marked = frozenset(i for i, (name, *values) in enumerate(rows) if len(set(values)) > 1 and name != "folder")
    return PlainTable("How the runs were made.", ("", *(run.name for run in runs)), rows, marked=marked)


def _made(run: RecordedRun) -> dict[str, object]:
    about, summary = run.about, run.summary
    return {
        "folder": str(run.path),
        "device": about.get("device"),
        "computed with": summary.get("compute_path"),
        "precision": about.get("precision"),
        "seed": about.get("seed", run.settings.get("seed")),
        "time": written_time(summary.get("seconds")),
        "time per step": written_time(summary.get("seconds_per_step")),
        "data from": _mapping(summary.get("data")).get("source"),
        **{f"{name} version": version for name, version in _mapping(about.get("versions")).items()},
    }


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
