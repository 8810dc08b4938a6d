"""Report how a network learns: credit reach, the coordinate check, and condition numbers over training."""

from ._conditioning import Conditioning
from ._coordinate_check import (
    CHECK_DEFAULTS,
    WEIGHT_LR,
    CoordinateSettings,
    ShapeSizes,
    coordinate_check,
    coordinate_sizes,
    judge_shapes,
    measure_shapes,
)
from ._credit_reach import LEARNING_LIMITS, UNLIKE, CreditReach, algorithm_reach, credit_reach, layers_that_learn
from ._exponents import CoordinateCheck, Slope, layer_numbers
from ._hessian_extremes import HessianExtremes, hessian_extremes

__all__ = [
    "Conditioning",
    "CoordinateCheck",
    "CreditReach",
    "HessianExtremes",
    "Slope",
    "algorithm_reach",
    "coordinate_check",
    "coordinate_sizes",
    "credit_reach",
    "hessian_extremes",
]
