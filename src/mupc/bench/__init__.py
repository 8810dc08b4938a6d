"""How fast the library is, beside backpropagation, a step-by-step baseline and what the device can do at most.

Importing this package imports neither JAX nor a plotting library; measuring needs JAX, equinox, optax, jaxtyping and
numpy only, so that `python -m mupc.bench` works on a bare machine with an accelerator.

>>> from mupc import bench
>>> [case.label for case in bench.expand(bench.Options(workloads=("gd",), depths=(8, 32), widths=(128,)))]
['gd H=8 N=128 T=8 B=64', 'gd H=32 N=128 T=32 B=64']
"""

from ._cases import PRECISIONS, PRESETS, WORKLOADS, Case, Options, expand
from ._fits import compile_ratios, fits
from ._table import tables

__all__ = ["PRECISIONS", "PRESETS", "WORKLOADS", "Case", "Options", "compile_ratios", "expand", "fits", "tables"]
