"""Regenerate the paper's figures: frozen configs, cells that are computed one by one, and predicates on the numbers.

Importing this package imports neither JAX nor a plotting library. Computing a cell needs JAX, equinox, optax,
jaxtyping, numpy and safetensors only, so that `python -m mupc.experiments run SLUG` works on a bare machine with an
accelerator.

>>> from mupc import experiments
>>> experiments.find_figure("fig1").slug
'mupc-vs-pc-mnist-accs'
"""

from ._catalogue import BEYOND as BEYOND
from ._catalogue import CATALOGUE as CATALOGUE
from ._catalogue import CatalogueEntry as CatalogueEntry
from ._catalogue import find_figure as find_figure
from ._catalogue import find_figures as find_figures
from ._claims import FAILS as FAILS
from ._claims import HOLDS as HOLDS
from ._claims import NOT_RUN as NOT_RUN
from ._claims import REPORTED as REPORTED
from ._claims import VERDICTS as VERDICTS
from ._claims import Claim as Claim
from ._driver import WORK as WORK
from ._driver import Reporter as Reporter
from ._driver import describe_cell as describe_cell
from ._driver import run_figures as run_figures
from ._figure import PRESETS as PRESETS
from ._figure import Figure as Figure
from ._figure import FigureCell as FigureCell
from ._figure import FigureConfig as FigureConfig
from ._figure import Row as Row
from ._figure import RunContext as RunContext
from ._figure import UnknownFigureError as UnknownFigureError
from ._report import write_report as write_report
from ._results import figure_record as figure_record
from ._results import figure_states as figure_states
from ._results import save_record as save_record
from ._runner import CellReport as CellReport
from ._runner import FigureProgress as FigureProgress
from ._runner import RunOptions as RunOptions
from ._runner import Shard as Shard
from ._runner import execute as execute
from ._store import CellStore as CellStore
