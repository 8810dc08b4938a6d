"""Reports on what a network learns: credit reach, the coordinate check, conditioning over training."""

from ._conditioning import Conditioning as Conditioning
from ._coordinate_check import ACTIVITY_LR as ACTIVITY_LR
from ._coordinate_check import WEIGHT_LR as WEIGHT_LR
from ._coordinate_check import Measured as Measured
from ._coordinate_check import conclude as conclude
from ._coordinate_check import coordinate_check as coordinate_check
from ._coordinate_check import coordinate_sizes as coordinate_sizes
from ._coordinate_check import measure as measure
from ._coordinate_check import plan as plan
from ._credit_reach import CreditReach as CreditReach
from ._credit_reach import credit_reach as credit_reach
from ._exponents import CoordinateCheck as CoordinateCheck
from ._exponents import Slope as Slope
from ._exponents import numbered as numbered
from ._learning import LIMITS as LIMITS
from ._learning import learning as learning
