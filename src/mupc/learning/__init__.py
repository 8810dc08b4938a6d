"""Learning: weight gradients, backpropagation and optimisers."""

from ._gradients import backprop_gradients as backprop_gradients
from ._gradients import backprop_step as backprop_step
from ._gradients import check_backprop as check_backprop
from ._gradients import layer_gradients as layer_gradients
from ._gradients import weight_gradients as weight_gradients
from ._optimiser import Optimiser as Optimiser
from ._optimiser import check_optimiser as check_optimiser
from ._optimiser import decoupled as decoupled
from ._optimiser import update_rule as update_rule
