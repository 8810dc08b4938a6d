"""`mupc predict`: its flags. `predict_job.py` does the work."""

import dataclasses
from typing import Annotated

import tyro

from .flags import DeviceFlags, hint
from .runner import Command, CommandResult, Session


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictFlags(DeviceFlags):
    """Predict new samples with a trained network. The file of `mupc export` says how samples are normalised. Images of
    a folder count from 0 for black to 255 for white; subfolders named after classes are their labels."""

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """A file of `mupc export` or mupc.save, or a run folder of `mupc train`."""
    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATA")]
    """New samples as the training data had them: a .csv table, a .npz file with x, or a folder of images. If it has
    targets (the column, y, or subfolders), predictions are compared with them."""
    out: Annotated[str | None, hint("(optional)", "FILE.npz|.csv|.json")] = None
    """Write the predictions of all samples."""
    resize: tyro.conf.FlagCreatePairsOff[bool] = False
    """Resize images to the size that the network takes."""
    batch_size: int = 256
    """Samples at a time; fewer take less memory."""
    force: tyro.conf.FlagCreatePairsOff[bool] = False
    """Replace the file of --out if it is there."""


def run(flags: PredictFlags, session: Session) -> CommandResult:
    """Predict every sample."""
    from .predict_job import predict

    return CommandResult(predict(flags, session))


COMMAND = Command(flags=PredictFlags, run=run)
