"""Tune small and train large, from flags to a run folder."""

import contextlib
import dataclasses
import time
import warnings

from rich.console import Console

from .. import data
from ..data import Dataset
from ..inference import Energy
from ..io import device, versions
from ..sweep import Transfer
from ..sweep import transfer as tune_and_train
from .building import network_options, number_format
from .display import ProgressDisplay
from .run_folder import RunFolder
from .transfer import TransferFlags
from .transfer_cells import METRICS, RecordedCells
from .transfer_report import Summary, draw, show, summarise


def transfer(flags: TransferFlags, console: Console) -> Summary:
    """Do what the flags say, write a run folder and return its summary.

    **Arguments:** the flags of `mupc transfer`, and the console.
    """
    dataset = data.load(flags.data.data, data_dir=flags.data.data_dir, verify=flags.data.verify_data)
    groups = (flags.data, flags.network, flags.grid, flags.learning)
    config = {key: value for group in groups for key, value in dataclasses.asdict(group).items()}
    about = {
        "config": config,
        "versions": versions(),
        "device": device(),
        "precision": flags.learning.precision,
        "seed": flags.grid.seed,
    }
    folder = RunFolder(flags.output.out, "transfer", resumes=METRICS)
    done = RecordedCells(folder, config)
    folder.write("config.json", about)
    begin, found = time.perf_counter(), None
    with folder.recording():
        done.restore()
        with TransferProgress(console) as progress:
            found = _run(flags, dataset, progress, done)
    summary = {
        **({} if found is None else summarise(found)),
        "seconds": time.perf_counter() - begin,
        "interrupted": found is None,
        "message": done.message if found is None else "",
        "device": about["device"],
        "out": str(folder.path),
    }
    folder.write("summary.json", summary)
    if found is not None:
        draw(found, folder.path / "figures" / "transfer.png")
        show(found, folder.path, console)
    return summary


def _run(flags: TransferFlags, dataset: Dataset, progress: "TransferProgress", done: RecordedCells) -> Transfer:
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
            progress=progress.show,
            done=done,
            **vars(flags.grid),
            **learning,
            **network_options(network),
        )


class TransferProgress:
    """A context in which `show` shows how far each stage is, one after the other."""

    def __init__(self, console: Console) -> None:
        self._console, self._stage, self._open = console, "", contextlib.ExitStack()

    def __enter__(self) -> "TransferProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def show(self, stage: str, share: float) -> None:
        """Show the share of a stage that is finished."""
        if stage != self._stage:
            self._open.close()
            display = ProgressDisplay(self._console, f"{stage}: percent", f"{stage} …")
            self._stage, self._display = stage, self._open.enter_context(display)
        self._display.update(round(100 * share), 100, plain="")
