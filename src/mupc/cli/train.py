"""`mupc train`: flags in, exit code out. `job.py` does the work."""

import sys

from ..io import Interruption
from .config import in_flags
from .train_flags import parse


def run(argv: list[str]) -> int:
    """Trains as the flags say and returns the exit code."""
    config, safety, output = parse(argv)  # ahead of the imports, so that --help and wrong flags answer at once
    from rich.console import Console

    from .job import train
    from .run_folder import dumps

    interruption = Interruption("mupc train")
    try:
        summary = train(config, output, Console(), safety, interruption)
    except ValueError as error:
        raise ValueError(in_flags(str(error))) from error
    if output.json:
        print(dumps(summary, indent=2))
    if summary["interrupted"] or summary["diverged"]:
        print(f"mupc train: {summary['message']}", file=sys.stderr)
    return interruption.code if summary["interrupted"] else int(summary["diverged"])
