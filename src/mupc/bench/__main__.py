"""`python -m mupc.bench`: `mupc bench` where there are JAX, equinox, optax, jaxtyping and numpy, and nothing else.

    python -m mupc.bench [WORKLOAD ...] [--preset gpu] [--depths 8 128] [--json FILE]

The flags are those of `mupc bench --help`. The file holds the cases that are finished at any time.
"""

import argparse
import dataclasses
import json
import sys
import typing
from pathlib import Path
from typing import Any

from ..io import counted, write_whole
from ._cases import Options, expand
from ._table import line, tables

INTERRUPTED, USAGE_ERROR, FAILURE = 130, 2, 1


def _parser() -> argparse.ArgumentParser:
    """A flag for each option."""
    parser = argparse.ArgumentParser(prog="python -m mupc.bench", description="Measure speed, memory and compile time.")
    kinds = typing.get_type_hints(Options)
    for field in dataclasses.fields(Options):
        flag = f"--{field.name.replace('_', '-')}"
        options = {kind for kind in typing.get_args(kinds[field.name]) if kind is not type(None)} or {kinds[field.name]}
        (kind,) = {next(iter(typing.get_args(option)), option) for option in options if option is not Ellipsis}
        many = "tuple" in str(kinds[field.name])
        if field.name == "workloads":
            parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
        elif kind is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=field.default)
        else:
            parser.add_argument(flag, type=kind, nargs="+" if many else None, default=field.default)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Measures and returns the exit code: 0, 1 if a case ran out of memory, 2 for wrong usage, 130 if interrupted."""
    given: dict[str, Any] = vars(_parser().parse_args(argv))
    file: Path | None = given.pop("json")
    try:
        lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
        options = Options(**(given | lists))
        cases = expand(options)
        from ._runner import begin, conclusions, measure

        head = begin(options, cases)
    except (ValueError, TypeError) as error:
        print(f"mupc.bench: {error}", file=sys.stderr)
        return USAGE_ERROR
    rows: list[dict[str, Any]] = []
    print(f"{counted(len(cases), 'case')} on {head['device']}", flush=True)
    code = 0
    try:
        for number, case in enumerate(cases, start=1):
            rows.append(measure(case, options))
            print(f"[{number}/{len(cases)}] {line(rows[-1])}", flush=True)
            _write(file, head | {"cases": rows} | conclusions(rows))
    except KeyboardInterrupt:
        print(f"mupc.bench: interrupted after {len(rows)} of {len(cases)} cases.", file=sys.stderr)
        code = INTERRUPTED
    for table in tables(rows):
        print(f"\n{table}")
    found = conclusions(rows)
    for name, ratios in found["compile_ratios"].items():
        print(f"\ncompile time, {name}: " + ", ".join(f"{key} {value:.2f}" for key, value in ratios.items()))
    from ._fits import fits

    print("\n" + "\n".join(fit.line for fit in fits(rows)))
    return code or FAILURE * any("failed" in row for row in rows)


def _write(file: Path | None, content: dict[str, Any]) -> None:
    if file is not None:
        write_whole(file, json.dumps(content, indent=1, allow_nan=False))


if __name__ == "__main__":
    sys.exit(main())
