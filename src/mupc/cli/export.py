"""`mupc export`: flags in, exit code out. `export_job.py` does the work, once the flags are parsed."""

import dataclasses
from typing import Annotated

import tyro

from .flags import ScreenFlags, hint
from .parse import parse


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportFlags(ScreenFlags):
    """All flags."""

    run: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
    """A run folder of `mupc train`, or a file of mupc.save."""
    target: Annotated[tyro.conf.Positional[str], hint("(required)", "FILE.safetensors")]
    """The file to write."""
    force: tyro.conf.FlagCreatePairsOff[bool] = False
    """Replace the file if it is there."""


def run(argv: list[str]) -> int:
    """Exports as the flags say and returns the exit code."""
    flags = parse(
        ExportFlags,
        argv,
        prog="mupc export",
        description=(
            "Write the trained network of a run to one safetensors file: weights bit for bit, architecture, and what "
            "prediction needs besides (normalisation, image shape, classes). `mupc predict` and mupc.load read it."
        ),
    )
    from rich.console import Console

    from .export_job import export
    from .run_folder import dumps

    summary = export(flags.run, flags.target, flags.force, Console(quiet=flags.quiet or flags.json))
    if flags.json:
        print(dumps(summary, indent=2))
    return 0
