"""Train many networks: sweeps over any settings, and tuning on a small network for a large one (`mupc.transfer`).

Some names are imported when first used: sweeps need Optuna but not JAX, `transfer` needs JAX but not Optuna.
"""

from typing import TYPE_CHECKING

from ..io import lazy_names
from ._axes import CellSettings, Setting, SweepAxis, parse_axes
from ._plan import SweepPlan
from ._rates import ACTIVITY_LRS, AT_EDGE, WEIGHT_FACTORS, at_edge, weight_lrs
from ._transfer_result import NetworkSize, Transfer, TransferCell, Tuning

if TYPE_CHECKING:
    from ._sweep import CellRecord, Sweep
    from ._transfer import TransferSolver, transfer
    from ._worker import work_on

__getattr__ = lazy_names(
    __name__, {"_sweep": "CellRecord Sweep", "_transfer": "TransferSolver transfer", "_worker": "work_on"}
)
