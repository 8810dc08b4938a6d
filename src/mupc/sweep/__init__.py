"""Many training runs: sweeps over any settings, and tuning on a small network for a large one (`mupc.transfer`).

Some names are imported when first used: sweeps need Optuna and no JAX, `transfer` needs JAX and no Optuna.
"""

import importlib
from typing import TYPE_CHECKING

from ._axes import CellSettings as CellSettings
from ._axes import SweepAxis as SweepAxis
from ._axes import parse_axes as parse_axes
from ._plan import SweepPlan as SweepPlan
from ._rates import ACTIVITY_LRS as ACTIVITY_LRS
from ._rates import AT_EDGE as AT_EDGE
from ._rates import WEIGHT_LRS as WEIGHT_LRS
from ._rates import at_edge as at_edge
from ._transfer_result import NetworkSize as NetworkSize
from ._transfer_result import Transfer as Transfer
from ._transfer_result import TransferCell as TransferCell
from ._transfer_result import Tuning as Tuning

if TYPE_CHECKING:
    from ._sweep import CellRecord as CellRecord
    from ._sweep import Sweep as Sweep
    from ._transfer import transfer as transfer
    from ._worker import work_on as work_on

_HOME = {"CellRecord": "_sweep", "Sweep": "_sweep", "transfer": "_transfer", "work_on": "_worker"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'mupc.sweep' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
