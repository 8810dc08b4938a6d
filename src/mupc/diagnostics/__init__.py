"""Reports on what a network learns."""

from ._credit_reach import ADAM_EPSILON as ADAM_EPSILON
from ._credit_reach import CreditReach as CreditReach
from ._credit_reach import credit_reach as credit_reach
