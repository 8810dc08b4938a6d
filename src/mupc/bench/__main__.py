"""`python -m mupc.bench`: `mupc bench` where only JAX, equinox, optax, jaxtyping, numpy and safetensors are installed.

    python -m mupc.bench [WORKLOAD ...] [--preset gpu] [--depths 8 128] [--json FILE]

`mupc bench --help` describes the flags. At any time the file holds the cases that are finished.
"""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

from .. import bench
from ..io import checks, counted, json_text, write_whole

FAILURE, USAGE_ERROR, INTERRUPTED = 1, 2, 130


def _parser() -> argparse.ArgumentParser:
    """Return a parser with a flag for each setting."""
    parser = argparse.ArgumentParser(prog="python -m mupc.bench", description="Measure speed, memory and compile time.")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    for field in dataclasses.fields(bench.BenchConfig)[1:]:
        flag, written = checks.flag_spelling(field.name), str(field.type)
        if field.type is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=field.default)
        else:
            kind = next(kind for kind in (float, int, str) if kind.__name__ in written)
            parser.add_argument(flag, type=kind, nargs="+" if "tuple" in written else None, default=field.default)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Measure and return the exit code: 0, 1 if a case ran out of memory, 2 for wrong usage, 130 if interrupted."""
    flags: dict[str, Any] = vars(_parser().parse_args(argv))
    file: Path | None = flags.pop("json")
    try:
        lists = {name: tuple(value) for name, value in flags.items() if isinstance(value, list)}
        config = bench.BenchConfig(**(flags | lists))
        cases = bench.bench_cases(config)
        about = bench.prepare(config, cases)
    except (ValueError, TypeError) as error:
        text = error.spelled(checks.flag_spelling) if isinstance(error, checks.ArgumentError) else error
        print(f"mupc.bench: {text}", file=sys.stderr)
        return USAGE_ERROR
    rows: list[bench.BenchRow] = []
    print(f"{counted(len(cases), 'case')} on {about['device']}", flush=True)
    try:
        for case in cases:
            rows.append(bench.measure_case(case, config))
            print(f"[{len(rows)}/{len(cases)}] {bench.case_line(rows[-1])}", flush=True)
            if file is not None:
                write_whole(file, json_text(about | {"cases": rows}, indent=1))
    except KeyboardInterrupt:
        print(f"mupc.bench: interrupted after {len(rows)} of {len(cases)} cases.", file=sys.stderr)
    print("\n".join(bench.report_lines(rows)))
    if len(rows) < len(cases):
        return INTERRUPTED
    return FAILURE if any("failed" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
