"""Reports on what a network learns."""

from ._conditioning import Conditioning as Conditioning
from ._coordinates import CoordinateCheck as CoordinateCheck
from ._coordinates import Size as Size
from ._coordinates import Slope as Slope
from ._coordinates import grouped as grouped
from ._coordinates import judge as judge
from ._coordinates import numbered as numbered
from ._credit_reach import CreditReach as CreditReach
from ._credit_reach import credit_reach as credit_reach
from ._learning import LIMITS as LIMITS
from ._learning import learning as learning
