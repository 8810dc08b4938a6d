"""`mupc reproduce`: regenerate figures of the paper and judge its claims."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.table import Table

from .. import experiments
from ..io.progress import ProgressDisplay
from .flags import DataDir, DeviceFlags, Precision, hint
from .runner import FAILURE, Command, CommandResult, Session, complain

Flag = tyro.conf.FlagCreatePairsOff[bool]
COLOURS = dict(zip(experiments.VERDICTS, ("green", "red", "yellow", "cyan"), strict=True))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReproduceFlags:
    """Regenerate figures of the paper and judge its claims: SLUG.json and SLUG.png for each."""

    slugs: Annotated[tuple[str, ...], tyro.conf.Positional, hint("(see --list)", "SLUG [SLUG ...]")] = ()
    """Figures by slug or alias (fig1 … fig6), or `all` of the paper."""
    list: Flag = False
    """List every figure of the paper and how far it is."""
    preset: Literal["quick", "paper"] = "quick"
    """`paper` is the paper's setup, for an accelerator; `quick` is a check of under a minute, not a reproduction."""
    resume: bool = True
    """Reuse the cells that are finished."""
    merge: Flag = False
    """Compute nothing: judge and draw what is finished, such as cells brought back from another machine."""
    recall: Flag = False
    """Also reuse the cells in SLUG.json of --out: a new clone can go on with a figure that is not complete."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results")
    """Folder for SLUG.json and SLUG.png."""
    work: Annotated[Path, tyro.conf.arg(metavar="DIR")] = experiments.WORK
    """Folder of finished cells, one file each."""
    data_dir: DataDir = None
    """Folder with the files of the data sets."""
    shard: Annotated[str, tyro.conf.arg(metavar="I/N")] = "1/1"
    """Compute only part I of N."""
    seconds_limit: Annotated[float | None, hint("(default: none)", "S")] = None
    """Start no cell after this many seconds."""
    at_once: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """Compute N cells at the same time: one compiles while another runs."""
    precision: Annotated[Precision | None, hint("(default: the preset's)")] = None
    """Override the preset's precision."""
    output: tyro.conf.OmitArgPrefixes[DeviceFlags]


def run(flags: ReproduceFlags, session: Session) -> CommandResult:
    """Reproduce figures. The exit code is that of `experiments.run_figures`: a claim that fails is a finding, not an
    error."""
    if flags.list:
        return _list(flags, session)
    if not flags.slugs:
        raise ValueError("name a figure, or `all`; `mupc reproduce --list` shows them.")
    figures = [entry.load() for entry in experiments.find_figures(flags.slugs)]
    jobs = [(figure, figure.config(flags.preset, flags.precision)) for figure in figures]
    limit, shard = 0.0 if flags.merge else flags.seconds_limit, experiments.Shard.parse(flags.shard)
    options = experiments.RunOptions(shard, limit, flags.resume or flags.merge, flags.at_once)
    store, reporter = experiments.CellStore(flags.work), RichReporter(session, flags.preset, flags.out)
    for figure, config in jobs if flags.recall else ():
        count = experiments.recall(figure, config, store, flags.out)
        session.say(f"{figure.slug}: took {count} cells from {flags.out / figure.slug}.json")
    with session.interruption.gracefully() as interruption:
        code = experiments.run_figures(jobs, store, reporter, interruption, options, flags.data_dir)
    return CommandResult(reporter.summaries, code=code)


@dataclasses.dataclass(frozen=True)
class RichReporter:
    """Show a bar of cells on a terminal and a line for each elsewhere, then the claims of the figure as a table."""

    session: Session
    preset: str
    out: Path
    summaries: dict[str, dict[str, object]] = dataclasses.field(default_factory=dict)

    @contextlib.contextmanager
    def watch(self, slug: str) -> Iterator[experiments.CellReport]:
        with ProgressDisplay(self.session.console, f"{slug}: cell") as display:

            def show(cell: experiments.FigureCell, result: experiments.Row | None, done: int, known: int) -> None:
                line = experiments.describe_cell(cell, result, done, known)
                display.update(done, known, [cell.label], plain=line)

            yield show

    def tell(self, line: str) -> None:
        self.session.say(line)

    def complain(self, line: str) -> None:
        complain(self.session.name, line, FAILURE)

    def conclude(
        self, figure: experiments.Figure, config: experiments.FigureConfig, progress: experiments.FigureProgress
    ) -> int:
        """Save and show the result."""
        if not progress.finished:
            self.complain(f"{figure.slug}: no cell is finished, so there is nothing to save.")
            return FAILURE
        result = experiments.figure_record(figure, self.preset, config, progress)
        path = experiments.save_record(figure, result, self.out)
        shown = ("preset", "complete", "cells", "claims", "device", "seconds")
        self.summaries[figure.slug] = {name: result[name] for name in shown}
        label = "" if self.preset == "paper" else " (quick preset: not a reproduction)"
        part = "" if result["complete"] else ", not complete"
        table = Table(title=f"{figure.slug}{label}{part}", title_justify="left", show_lines=False)
        for name in ("claim", "expected", "measured", "verdict"):
            table.add_column(name, overflow="fold")
        for claim in result["claims"]:
            verdict = f"[{COLOURS[claim['verdict']]}]{claim['verdict']}[/]"
            table.add_row(claim["claim"], claim["expected"], claim["measured"], verdict)
        self.session.console.print(table)
        self.session.say(f"{path} and {path.with_suffix('.png').name}, {result['seconds']:.0f} s of computing")
        return 0


def _list(flags: ReproduceFlags, session: Session) -> CommandResult:
    states, entries = experiments.figure_states(flags.out), experiments.CATALOGUE | experiments.BEYOND
    wide, long = max(map(len, states)), max(map(len, states.values()))
    for slug, state in states.items():
        session.say(f"{slug:<{wide}}  {entries[slug].alias or '':<4}  {state:<{long}}  {entries[slug].title}")
    return CommandResult({slug: {"alias": entries[slug].alias, "state": state} for slug, state in states.items()})


COMMAND = Command(flags=ReproduceFlags, run=run)
