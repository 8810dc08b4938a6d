"""Train over many batches: one run (`fit`), many at once (`fit_many`), their settings, evaluation and checkpoints."""

from ._checkpoints import Scratch
from ._config import BATCH_SIZE, TrainConfig, as_algorithm
from ._evaluation import EVALUATION_CHUNK, SCORES, TrainStatus
from ._fit import fit
from ._fit_many import Run, fit_many
from ._memory import check_room, free_memory
from ._result import FitResult
from ._state import BACK_TO
from ._stream import StreamError
