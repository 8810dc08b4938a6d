"""Turn a batch into better weights: algorithms such as `PC` and `BP`, weight gradients and optimisers."""

from ._algorithm import (
    AbstractAlgorithm,
    AbstractRelaxingAlgorithm,
    AlgorithmState,
    Defaults,
    LearningContext,
    StepReport,
)
from ._bp import BP
from ._equilibrium_propagation import EquilibriumPropagation
from ._gradients import backprop_gradients, checked_inputs, solution_gradients, weight_gradients
from ._optimiser import OPTIMISERS, SCHEDULES, Optimiser, as_at_base, check_optimiser, default_schedule, update_rule
from ._pc import PC
from ._rate_scaling import MUP, NOT_SCALED, check_rate_scaling, scaling_base, why_no_rule
from ._relaxation import Relaxation
