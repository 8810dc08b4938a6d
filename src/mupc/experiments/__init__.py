"""The paper's figures as frozen configs, cells that are computed one by one, and predicates on what was measured.

Importing this package imports neither JAX nor a plotting library; computing a cell needs JAX, equinox, optax and
numpy only, so that `python -m mupc.experiments run SLUG` works on a bare machine with an accelerator.

>>> from mupc import experiments
>>> experiments.find_figure("fig1").slug
'mupc-vs-pc-mnist-accs'
"""

from ._catalogue import BEYOND, CATALOGUE, CatalogueEntry, find_figure
from ._figure import (
    FAILS,
    HOLDS,
    NOT_RUN,
    PRESETS,
    REPORTED,
    VERDICTS,
    Claim,
    Figure,
    FigureCell,
    FigureConfig,
    RunContext,
    UnknownFigureError,
)
from ._results import FigureStatus, destination, record, save, status
from ._runner import FigureProgress, Shard, execute
from ._store import CellStore

__all__ = [
    "BEYOND",
    "CATALOGUE",
    "FAILS",
    "HOLDS",
    "NOT_RUN",
    "PRESETS",
    "REPORTED",
    "VERDICTS",
    "CatalogueEntry",
    "CellStore",
    "Claim",
    "Figure",
    "FigureCell",
    "FigureConfig",
    "FigureProgress",
    "FigureStatus",
    "RunContext",
    "Shard",
    "UnknownFigureError",
    "destination",
    "execute",
    "find_figure",
    "record",
    "save",
    "status",
]
