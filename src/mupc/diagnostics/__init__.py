"""Reports on what a network learns: credit reach, the coordinate check, conditioning over training."""

from ._conditioning import Conditioning as Conditioning
from ._coordinate_check import ACTIVITY_LR as ACTIVITY_LR
from ._coordinate_check import WEIGHT_LR as WEIGHT_LR
from ._coordinate_check import CoordinateSettings as CoordinateSettings
from ._coordinate_check import ShapeSizes as ShapeSizes
from ._coordinate_check import coordinate_check as coordinate_check
from ._coordinate_check import coordinate_sizes as coordinate_sizes
from ._coordinate_check import judge_shapes as judge_shapes
from ._coordinate_check import measure_shapes as measure_shapes
from ._credit_reach import CreditReach as CreditReach
from ._credit_reach import credit_reach as credit_reach
from ._exponents import CoordinateCheck as CoordinateCheck
from ._exponents import Slope as Slope
from ._exponents import layer_numbers as layer_numbers
from ._learning import LEARNING_LIMITS as LEARNING_LIMITS
from ._learning import layers_that_learn as layers_that_learn
