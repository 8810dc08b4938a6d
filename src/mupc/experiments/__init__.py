"""The paper's figures as frozen configs, cells that are computed one by one, and predicates on what was measured.

Importing this package imports neither JAX nor a plotting library; computing a cell needs JAX, equinox, optax and
numpy only, so that `python -m mupc.experiments run SLUG` works on a bare machine with an accelerator.

>>> from mupc import experiments
>>> experiments.find("fig1").slug
'mupc-vs-pc-mnist-accs'
"""

from ._catalogue import BEYOND, CATALOGUE, Entry, find
from ._figure import FAILS, HOLDS, NOT_RUN, PRESETS, Cell, Claim, Config, Context, Figure, UnknownFigureError
from ._results import Status, destination, record, save, status
from ._runner import Progress, Shard, execute
from ._store import Store

__all__ = [
    "BEYOND",
    "CATALOGUE",
    "FAILS",
    "HOLDS",
    "NOT_RUN",
    "PRESETS",
    "Cell",
    "Claim",
    "Config",
    "Context",
    "Entry",
    "Figure",
    "Progress",
    "Shard",
    "Status",
    "Store",
    "UnknownFigureError",
    "destination",
    "execute",
    "find",
    "record",
    "save",
    "status",
]
