"""Reproduce the paper's figures: frozen configs, cells that are computed one by one, and claims about the numbers.

Importing this package imports neither JAX nor a plotting library. Computing a cell needs JAX, equinox, optax,
jaxtyping, numpy and safetensors only, so that `python -m mupc.experiments run SLUG` works on a bare machine with an
accelerator.

>>> from mupc import experiments
>>> experiments.find_figure("fig1").slug
'mupc-vs-pc-mnist-accs'
"""

from ._catalogue import BEYOND, CATALOGUE, CatalogueEntry, find_figure, find_figures
from ._claims import FAILS, HOLDS, NOT_RUN, REPORTED, VERDICTS, Claim
from ._driver import WORK, Reporter, describe_cell, run_figures
from ._figure import PRESETS, Figure, FigureCell, FigureConfig, Row, RunContext, UnknownFigureError
from ._report import write_report
from ._results import figure_record, figure_states, recall, save_record
from ._runner import CellReport, FigureProgress, RunOptions, Shard, execute
from ._store import CellStore
