"""`mupc predict`: its flags. `predict_job.py` does the work."""

import dataclasses
from typing import Annotated

import tyro

from .flags import DeviceFlags, hint
from .runner import Command, CommandResult, Session


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictFlags(DeviceFlags):
    """Predict new samples with a trained network, or continue a text. The file of `mupc export` says how samples are
    normalised. Images of a folder count from 0 for black to 255 for white; subfolders named after classes are their
    labels."""

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """A file of `mupc export` or mupc.save, or a run folder of `mupc train`."""
    data: Annotated[tyro.conf.Positional[str | None], hint("(or --text)", "[DATA]")] = None
    """New samples as the training data had them: a .csv table, a .npz file with x, a .txt text, or a folder of images.
    If it has targets (the column, y, or subfolders), predictions are compared with them."""
    out: Annotated[str | None, hint("(optional)", "FILE.npz|.csv|.json")] = None
    """Write the predictions of all samples."""
    resize: tyro.conf.FlagCreatePairsOff[bool] = False
    """Resize images to the size that the network takes."""
    batch_size: int = 256
    """Samples at a time; fewer take less memory."""
    force: tyro.conf.FlagCreatePairsOff[bool] = False
    """Replace the file of --out if it is there."""
    text: Annotated[str | None, hint("(in place of DATA)")] = None
    """Continue this text with a network that was trained on one."""
    characters: int = 200
    """How many characters to add to --text."""
    temperature: float = 1.0
    """1 draws characters with their probabilities, less prefers likely ones, 0 takes the likeliest."""
    seed: int = 0
    """Seed of the draws."""


def run(flags: PredictFlags, session: Session) -> CommandResult:
    """Predict every sample, or continue a text."""
    from .predict_job import continue_text, predict

    if (flags.text is None) == (flags.data is None):
        raise ValueError("give DATA to predict, or --text to continue" + (", not both." if flags.text else "."))
    if flags.text is not None and flags.out is not None:
        raise ValueError("--out is for the predictions of samples; --text prints its continuation.")
    if flags.text is not None:
        return CommandResult(continue_text(flags, flags.text, session))
    return CommandResult(predict(flags, str(flags.data), session))


COMMAND = Command(flags=PredictFlags, run=run)
