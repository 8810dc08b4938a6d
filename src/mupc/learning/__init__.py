"""Learning: algorithms, weight gradients, backpropagation and optimisers."""

from ._algorithm import AbstractAlgorithm as AbstractAlgorithm
from ._algorithm import AlgorithmState as AlgorithmState
from ._algorithm import LearningContext as LearningContext
from ._algorithm import StepReport as StepReport
from ._bp import BP as BP
from ._gradients import backprop_gradients as backprop_gradients
from ._gradients import checked_inputs as checked_inputs
from ._gradients import solution_gradients as solution_gradients
from ._gradients import weight_gradients as weight_gradients
from ._optimiser import OPTIMISERS as OPTIMISERS
from ._optimiser import Optimiser as Optimiser
from ._optimiser import check_optimiser as check_optimiser
from ._optimiser import update_rule as update_rule
from ._pc import PC as PC
