"""Tune small and train large, from flags to a run folder."""

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator

from .. import data
from ..data import Dataset
from ..inference import Energy
from ..sweep import Transfer
from ..sweep import transfer as tune_and_train
from .building import network_options, number_format
from .display import ProgressDisplay
from .run_folder import RunFolder
from .runner import Session
from .transfer import TransferFlags
from .transfer_cells import METRICS, RecordedCells
from .transfer_report import Summary, draw_losses, show_transfer, summarise_transfer


def transfer(flags: TransferFlags, session: Session) -> Summary:
    """Do what the flags say, write a run folder and return its summary.

    **Arguments:** the flags of `mupc transfer`, and the session.
    """
    dataset = data.load(flags.data.data, data_dir=flags.data.data_dir, verify=flags.data.verify_data)
    groups = (flags.data, flags.network, flags.grid, flags.learning)
    config = {key: value for group in groups for key, value in dataclasses.asdict(group).items()}
    folder = RunFolder(flags.output.out, "transfer", resumes=METRICS)
    done = RecordedCells(folder, config)
    folder.write_config(config, precision=flags.learning.precision, seed=flags.grid.seed)
    begin, found = time.perf_counter(), None
    with folder.recording():
        done.restore()
        with _stages(session) as show_stage:
            found = _run(flags, dataset, show_stage, done)
    results, message = ({}, done.message) if found is None else (summarise_transfer(found), "")
    summary = folder.write_summary(results, begin, message, interrupted=found is None)
    if found is not None:
        draw_losses(found, folder.path / "figures" / "transfer.png")
        show_transfer(found, folder.path, session)
    return summary


def _run(
    flags: TransferFlags, dataset: Dataset, show_stage: Callable[[str, float], None], done: RecordedCells
) -> Transfer:
    network, learning = flags.network, dict(vars(flags.learning))
    energy = Energy(loss=learning.pop("loss"), output_precision=learning.pop("output_precision"))
    with number_format(flags.learning.precision), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # about numbers that are too large, which diverge
        return tune_and_train(
            dataset,
            small=(network.width, network.hidden_layers),
            large=(network.large_width, network.large_hidden_layers),
            energy=energy,
            validation=flags.data.validation,
            progress=show_stage,
            done=done,
            **vars(flags.grid),
            **learning,
            **network_options(network),
        )


@contextlib.contextmanager
def _stages(session: Session) -> Iterator[Callable[[str, float], None]]:
    """Return a function that shows how far a stage is. The display of one stage closes when the next begins."""
    displays: dict[str, ProgressDisplay] = {}
    with contextlib.ExitStack() as current:

        def show(stage: str, share: float) -> None:
            if stage not in displays:
                current.close()
                display = ProgressDisplay(session.console, f"{stage}: percent", f"{stage} …")
                displays[stage] = current.enter_context(display)
            displays[stage].update(round(100 * share), 100, plain="")

        yield show
