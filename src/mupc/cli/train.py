"""`mupc train`: flags in, exit code out. `job.py` does the work."""

import sys

from .config import in_flags, parse


def run(argv: list[str]) -> int:
    """Trains as the flags say and returns the exit code."""
    config, output = parse(argv)  # ahead of the imports, so that --help and wrong flags answer at once
    from rich.console import Console

    from .job import train
    from .run_folder import dumps

    try:
        summary = train(config, output, Console())
    except ValueError as error:
        raise type(error)(in_flags(str(error))) from error
    if output.json:
        print(dumps(summary, indent=2))
    if summary["interrupted"]:
        print(f"mupc train: {summary['message']}", file=sys.stderr)
        return 130
    if summary["diverged"]:
        print(f"mupc train: {summary['message']}", file=sys.stderr)
    return int(summary["diverged"])
