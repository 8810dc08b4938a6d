"""`mupc reproduce`: regenerate figures of the paper and judge its claims."""

import contextlib
import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from .. import experiments
from ..io import Interruption
from ..io.checks import ArgumentError
from .flags import DataDir, Precision, ScreenFlags, hint
from .parse import parse

Flag = tyro.conf.FlagCreatePairsOff[bool]
PROGRAM = "mupc reproduce"
USAGE_ERROR, FAILURE = 2, 1
COLOURS = dict(zip(experiments.VERDICTS, ("green", "red", "yellow", "cyan"), strict=True))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReproduceFlags(ScreenFlags):
    """Which figures to regenerate, and how."""

    slugs: Annotated[tuple[str, ...], tyro.conf.Positional, hint("(see --list)", "SLUG [SLUG ...]")] = ()
    """Figures by slug or alias (fig1 … fig6), or `all` that can be regenerated."""
    list: Flag = False
    """List every figure of the paper and how far it is."""
    preset: Literal["quick", "paper"] = "quick"
    """`paper` is the paper's setup and wants an accelerator; `quick` is a small check on built-in data, under a minute
    each, and never counts as a reproduction."""
    resume: bool = True
    """Reuse the cells that are finished."""
    merge: Flag = False
    """Compute nothing: judge and draw what is finished, such as cells brought back from another machine."""
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


def run(argv: list[str]) -> int:
    """Reproduce figures and return the exit code, that of `experiments.run_figures`. A claim that fails is a finding,
    not an error."""
    text = "Regenerate figures of the paper and judge its claims: SLUG.json and SLUG.png for each."
    flags: ReproduceFlags = parse(ReproduceFlags, argv, prog=PROGRAM, description=text)
    console = Console(quiet=flags.quiet or flags.json, highlight=False, soft_wrap=True)
    if flags.list:
        return _list(flags, console)
    reporter = RichReporter(console, flags.preset, flags.out)
    if not flags.slugs:
        reporter.complain("name a figure, or `all`; `mupc reproduce --list` shows them.")
        return USAGE_ERROR
    try:
        figures = [entry.load() for entry in experiments.find_figures(flags.slugs)]
        jobs = [(figure, figure.config(flags.preset, flags.precision)) for figure in figures]
        limit = 0.0 if flags.merge else flags.seconds_limit
        shard = experiments.Shard.parse(flags.shard)
        options = experiments.RunOptions(shard, limit, flags.resume or flags.merge, flags.at_once)
    except ArgumentError as error:
        reporter.complain(error.spelled(lambda name: f"--{name.replace('_', '-')}"))
        return USAGE_ERROR
    except ValueError as error:
        reporter.complain(str(error))
        return USAGE_ERROR
    store = experiments.CellStore(flags.work)
    with Interruption(PROGRAM) as interruption:
        code = experiments.run_figures(jobs, store, reporter, interruption, options, flags.data_dir)
    if flags.json and code < 128:
        print(json.dumps(reporter.summaries, ensure_ascii=False))
    return code


@dataclasses.dataclass(frozen=True)
class RichReporter:
    """Show a bar of cells on a terminal and a line for each elsewhere, then the claims of the figure as a table."""

    console: Console
    preset: str
    out: Path
    summaries: dict[str, dict[str, object]] = dataclasses.field(default_factory=dict)

    @contextlib.contextmanager
    def watch(self, slug: str) -> Iterator[experiments.CellReport]:
        if not self.console.is_terminal or self.console.quiet:
            yield lambda *ended: self.console.print(experiments.describe_cell(*ended), markup=False)
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console) as bar:
            task = bar.add_task(slug, total=None)
            yield lambda cell, result, done, known: bar.update(
                task, completed=done, total=known, description=f"{slug}: {cell.label}"
            )

    def complain(self, line: str) -> None:
        print(f"{PROGRAM}: {line}", file=sys.stderr)

    def conclude(
        self, figure: experiments.Figure, config: experiments.FigureConfig, progress: experiments.FigureProgress
    ) -> int:
        """Save and show the result."""
        if not progress.finished:
            self.complain(f"{figure.slug}: no cell is finished, so there is nothing to save.")
            return FAILURE
        result = experiments.record(figure, self.preset, config, progress)
        path = experiments.save(figure, result, self.out)
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
        self.console.print(table, soft_wrap=False)
        computed = f"{path} and {path.with_suffix('.png').name}, {result['seconds']:.0f} s of computing"
        self.console.print(computed, markup=False)
        return 0


def _list(flags: ReproduceFlags, console: Console) -> int:
    found = experiments.status(flags.out)
    if flags.json:
        rows = {line.entry.slug: {"alias": line.entry.alias, "state": line.state} for line in found}
        print(json.dumps(rows, ensure_ascii=False))
        return 0
    wide = max(len(line.entry.slug) for line in found)
    state = max(len(line.state) for line in found)
    for line in found:
        alias = line.entry.alias or ""
        console.print(f"{line.entry.slug:<{wide}}  {alias:<4}  {line.state:<{state}}  {line.entry.title}", markup=False)
    return 0
