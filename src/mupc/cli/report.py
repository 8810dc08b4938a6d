"""`mupc report`: gather the reproduced figures in `results/` into one report."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from .. import experiments
from .flags import ScreenFlags
from .runner import Command, CommandResult, Session


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportFlags:
    """Gather the reproduced figures into a Markdown page and a self-contained HTML page."""

    results: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results")
    """Folder that `mupc reproduce` wrote."""
    markdown: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("docs/reproduction.md")
    """The Markdown page; it shows the figures where they are."""
    html: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("runs/report.html")
    """The HTML page; it holds the figures and needs no other file."""
    output: tyro.conf.OmitArgPrefixes[ScreenFlags]


def run(flags: ReportFlags, session: Session) -> CommandResult:
    """Write the report."""
    if not flags.results.is_dir():
        raise ValueError(f"{flags.results} is not a folder: run `mupc reproduce SLUG` first.")
    verdicts, summary = experiments.write_report(flags.results, flags.markdown, flags.html)
    session.say(f"At the paper preset, {summary}\n{flags.markdown} and {flags.html}")
    return CommandResult({"verdicts": verdicts, "markdown": str(flags.markdown), "html": str(flags.html)})


COMMAND = Command(flags=ReportFlags, run=run)
