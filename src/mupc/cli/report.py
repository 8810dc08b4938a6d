"""`mupc report`: one page on runs (`report_job.py` does the work), or on the reproduced figures in `results/`."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from .. import experiments
from .flags import DeviceFlags, hint
from .parsing import flag
from .runner import Command, CommandResult, Session


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperFlags:
    """The report on the reproduced figures, which is written where no run is named."""

    results: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results")
    """Folder that `mupc reproduce` wrote."""
    markdown: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("docs/reproduction.md")
    """The Markdown page; it shows the figures where they are."""
    html: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("runs/report.html")
    """The HTML page; it holds the figures and needs no other file."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportFlags:
    """Write one self-contained HTML page on runs: results, curves, credit reach, conditioning, predictions and
    settings. Without runs: gather the reproduced figures into a Markdown page and such an HTML page."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, hint("(none: the paper's figures)", "RUN [RUN ...]")] = ()
    """Folders of `mupc train` or `mupc sweep`, or a folder that holds such folders. Several are compared."""
    out: Annotated[Path | None, hint("(default: RUN/report.html, of several runs/comparison.html)", "FILE")] = None
    """The page on runs; one that is there is replaced."""
    open: tyro.conf.FlagCreatePairsOff[bool] = False
    """Show the page in the browser."""
    measure: bool = True
    """Load data and networks to predict and to measure conditioning again."""
    paper: tyro.conf.OmitArgPrefixes[PaperFlags]
    output: tyro.conf.OmitArgPrefixes[DeviceFlags]


def run(flags: ReportFlags, session: Session) -> CommandResult:
    """Write the report, and show it if asked to."""
    result = _report_runs(flags, session) if flags.runs else _report_figures(flags, session)
    if flags.open:
        import webbrowser

        page = Path(str(result.summary["html"])).resolve()
        if not webbrowser.open(page.as_uri()):
            session.warn([f"there is no browser to open {page} with"])
    return result


def _report_runs(flags: ReportFlags, session: Session) -> CommandResult:
    for field in dataclasses.fields(PaperFlags):
        if getattr(flags.paper, field.name) != field.default:
            raise ValueError(f"{flag(field.name)} is for a report without runs: leave it out, or use --out.")
    from .report_job import report_runs

    result = report_runs(flags, session)
    session.say(f"report {result.summary['html']}")
    return result


def _report_figures(flags: ReportFlags, session: Session) -> CommandResult:
    paper = flags.paper
    if flags.out is not None:
        raise ValueError("--out is for a report on runs: name a run, or use --html for the page on figures.")
    if not paper.results.is_dir():
        raise ValueError(f"{paper.results} is not a folder: run `mupc reproduce SLUG` first.")
    verdicts, summary = experiments.write_report(paper.results, paper.markdown, paper.html)
    session.say(f"At the paper preset, {summary}\n{paper.markdown} and {paper.html}")
    return CommandResult({"verdicts": verdicts, "markdown": str(paper.markdown), "html": str(paper.html)})


COMMAND = Command(flags=ReportFlags, run=run)
