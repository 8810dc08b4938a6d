"""Measure speed, memory and compile time, next to backpropagation, a step-by-step baseline and the device's limits.

Importing this package does not import JAX. Measuring needs only JAX, equinox, optax, jaxtyping, numpy and safetensors,
so that `python -m mupc.bench` works on a bare machine with an accelerator.

>>> from mupc import bench
>>> [case.label for case in bench.bench_cases(bench.BenchConfig(workloads=("gd",), depths=(8, 32), widths=(128,)))]
['gd H=8 N=128 T=8 B=64', 'gd H=32 N=128 T=32 B=64']
"""

from typing import TYPE_CHECKING

from ..io import lazy_names
from ._config import PRECISIONS, PRESETS, WORKLOADS, BenchCase, BenchConfig, bench_cases
from ._report import BenchRow, case_line, report_lines, tables

if TYPE_CHECKING:
    from ._timing import compile_call, time_in_turns
    from ._workloads import measure_case, prepare

__getattr__ = lazy_names(__name__, {"_timing": "compile_call time_in_turns", "_workloads": "measure_case prepare"})
