"""Write the report on runs: read their folders, measure their networks again, and render the page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..io import counted, write_whole
from ..report import Page, render
from .report import ReportFlags
from .report_answers import prediction_section
from .report_measures import RunMeasures, measure
from .report_runs import RecordedRun, read_runs
from .report_sections import closing_sections, run_sections
from .report_sweep import describe_sweep, sweep_section
from .runner import FAILURE, CommandResult, Session

PAGE, COMPARISON = "report.html", Path("runs/comparison.html")
OFF = "It was not computed again: --no-measure."


def report_runs(flags: ReportFlags, session: Session) -> CommandResult:
    """Write one page on the runs and sweeps in the given folders."""
    runs, sweeps = read_runs(flags.runs)
    target = output_file(flags)
    measures = [_measure(run, flags.measure, session) for run in runs]
    for run, found in zip(runs, measures, strict=True):
        about = found.about_predictions if flags.measure else ()
        session.warn([f"{run.name}: {line}" for line in (*run.missing, *about)])
    sections = [sweep_section(name, sweep) for name, sweep in sweeps.items()]
    if runs:
        sections = [
            *run_sections(runs, measures), prediction_section(runs, measures), *sections, *closing_sections(runs)
        ]  # fmt: skip
    names = [*(run.name for run in runs), *sweeps]
    page = Page(_title(len(runs), len(sweeps), names), _subtitle(runs, sweeps, names), tuple(sections))
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, render(page))
    damage = " ".join(f"{run.name}: {line}" for run in runs for line in run.damaged)
    problem = f"the page is written, but files are damaged. {damage}" if damage else ""
    summary = {"html": str(target), "runs": [str(run.path) for run in runs], "sweeps": list(sweeps)}
    return CommandResult(summary, problem, FAILURE if damage else 0)


def output_file(flags: ReportFlags) -> Path:
    """Return the page to write: --out, or a file in the folder of a single run."""
    if flags.out is None:
        return Path(flags.runs[0]).expanduser() / PAGE if len(flags.runs) == 1 else COMPARISON
    path = flags.out.expanduser()
    if path.suffix not in (".html", ".htm"):
        raise ValueError(f"--out {flags.out} must end in .html.")
    if path.is_dir():
        raise ValueError(f"--out {flags.out} is a folder: give a file.")
    return path


def _measure(run: RecordedRun, wanted: bool, session: Session) -> RunMeasures:
    if not wanted:
        return RunMeasures.nothing(OFF)
    session.say(f"measuring {run.name} …")
    return measure(run)


def _title(runs: int, sweeps: int, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{'Run' if runs else 'Sweep'} {names[0]}"
    counts = [counted(number, noun) for number, noun in ((runs, "run"), (sweeps, "sweep")) if number]
    return " and ".join(counts) + " compared" * (not sweeps)


def _subtitle(runs: Sequence[RecordedRun], sweeps: Mapping[str, Any], names: Sequence[str]) -> str:
    if len(names) > 1:
        return ", ".join(names)
    if not runs:
        return describe_sweep(sweeps[names[0]])
    settings = runs[0].settings
    size = f"{settings.get('model', 'mlp')} of width {settings.get('width')}"
    if settings.get("model", "mlp") == "mlp" and isinstance(settings.get("hidden_layers"), int):
        size = f"{counted(settings['hidden_layers'], 'hidden layer')} of {settings.get('width')} units"
    how = " by ".join(str(settings[name]) for name in ("method", "solver") if settings.get(name))
    return f"{size}, {settings.get('parameterisation')}, trained on {settings.get('data')} with {how}"
