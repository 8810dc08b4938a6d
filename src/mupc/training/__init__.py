"""Training: one run (`fit`), many at once (`fit_many`), and their checkpoints."""

from ._checkpoint_policy import BACK_TO as BACK_TO
from ._checkpoints import Scratch as Scratch
from ._checkpoints import find as find
from ._config import validate as validate
from ._fit import EVALUATION_CHUNK as EVALUATION_CHUNK
from ._fit import FitResult as FitResult
from ._fit import fit as fit
from ._fit_many import Run as Run
from ._fit_many import fit_many as fit_many
from ._fit_many import free_memory as free_memory
from ._memory import check_room as check_room
