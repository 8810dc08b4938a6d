"""Turn a batch into better weights: the algorithms (one file each), weight gradients and optimisers."""

from ._algorithm import (
    AbstractAlgorithm,
    AbstractForward,
    AbstractRelaxingAlgorithm,
    AbstractUntuned,
    AlgorithmState,
    Defaults,
    LearningContext,
    StepReport,
)
from ._alm import ALM
from ._amortised import Amortised
from ._bp import BP
from ._equilibrium_propagation import EquilibriumPropagation
from ._gradients import backprop_gradients, checked_inputs, solution_gradients, weight_gradients
from ._ipc import IPC
from ._nudged import Nudged
from ._optimiser import OPTIMISERS, SCHEDULES, Optimiser, as_at_base, check_optimiser, default_schedule, update_rule
from ._pc import PC, AbstractSolving
from ._rate_scaling import MUP, NOT_SCALED, check_rate_scaling, scaling_base, why_no_rule
from ._relaxation import Relaxation
from ._taken import algorithm_gradients, check_algorithm
from ._zil import ZIL
