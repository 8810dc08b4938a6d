"""Training: one run (`fit`), many at once (`fit_many`), their configuration, state and checkpoints."""

from ._checkpoints import Scratch as Scratch
from ._checkpoints import find_checkpoint as find_checkpoint
from ._config import TrainConfig as TrainConfig
from ._config import as_algorithm as as_algorithm
from ._evaluation import EVALUATION_CHUNK as EVALUATION_CHUNK
from ._evaluation import TrainStatus as TrainStatus
from ._fit import fit as fit
from ._fit_many import Run as Run
from ._fit_many import fit_many as fit_many
from ._memory import check_room as check_room
from ._memory import free_memory as free_memory
from ._result import FitResult as FitResult
from ._state import BACK_TO as BACK_TO
