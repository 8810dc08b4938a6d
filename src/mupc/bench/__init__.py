"""Measure speed, memory and compile time, next to backpropagation, a step-by-step baseline and the device's limits.

Importing this package does not import JAX. Measuring needs JAX, equinox, optax, jaxtyping, numpy and safetensors only,
so that `python -m mupc.bench` works on a bare machine with an accelerator.

>>> from mupc import bench
>>> [case.label for case in bench.bench_cases(bench.BenchConfig(workloads=("gd",), depths=(8, 32), widths=(128,)))]
['gd H=8 N=128 T=8 B=64', 'gd H=32 N=128 T=32 B=64']
"""

from typing import TYPE_CHECKING

from ._config import PRECISIONS as PRECISIONS
from ._config import PRESETS as PRESETS
from ._config import WORKLOADS as WORKLOADS
from ._config import BenchCase as BenchCase
from ._config import BenchConfig as BenchConfig
from ._config import bench_cases as bench_cases
from ._report import BenchRow as BenchRow
from ._report import case_line as case_line
from ._report import compile_ratios as compile_ratios
from ._report import conclusions as conclusions
from ._report import fit_line as fit_line
from ._report import growth_fits as growth_fits
from ._report import report_lines as report_lines
from ._report import tables as tables

if TYPE_CHECKING:
    from ._workloads import measure_case as measure_case
    from ._workloads import prepare as prepare


def __getattr__(name: str) -> object:
    if name in ("measure_case", "prepare"):  # they import JAX
        from . import _workloads

        return getattr(_workloads, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
