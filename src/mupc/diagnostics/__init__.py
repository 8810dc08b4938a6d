"""Reports on what a network learns."""

from ._conditioning import Conditioning as Conditioning
from ._credit_reach import CreditReach as CreditReach
from ._credit_reach import credit_reach as credit_reach
from ._learning import LIMITS as LIMITS
from ._learning import learning as learning
