"""Train the cells of a sweep, as `mupc train` would train each of them."""

import functools
import time
import warnings
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path

from ..data import Dataset
from ..sweep import CellSettings, SweepPlan
from ..training import Run, Scratch, check_room, fit_many
from .building import build, load_data, make_energy, number_format, train_config
from .config import TrainFlags, from_dict

NUMBERS = ("weight_lr", "seed", "output_precision", "activity_decay", "weight_decay", "orthogonality")
"""Settings in which cells that train as one program may differ. The activity_lr of gd is another."""
KEPT = ("train_loss", "test_loss", "test_accuracy", "validation_loss", "validation_accuracy", "energy")


class CellTrainer:
    """Trains cells together. A data set that is missing here shows at once, before this worker takes cells.

    **Arguments:** the plan of the sweep, this machine's folder with data sets, and whether to end early.
    """

    def __init__(self, plan: SweepPlan, data_dir: str | None, stop: Callable[[], bool]) -> None:
        self.plan, self.data_dir, self.stop = plan, data_dir, stop
        first = {axis.name: axis.span[0] for axis in plan.axes}
        for data in next((axis.values for axis in plan.axes if axis.name == "data"), (plan.config.get("data"),)):
            _dataset(self.config(first | {"data": data}))

    def config(self, settings: CellSettings) -> TrainFlags:
        """Return the configuration of a cell."""
        return from_dict({**self.plan.config, **settings, "data_dir": self.data_dir}, "the sweep")

    def group_of(self, settings: CellSettings) -> Hashable:
        """Return what cells that train as one program have in common."""
        config = self.config(settings)
        numbers = set(NUMBERS)
        if config.solver == "gd" and isinstance(config.activity_lr, float):
            numbers.add("activity_lr")
        if config.validation:  # the seed decides the split too
            numbers.remove("seed")
        return tuple((name, value) for name, value in vars(config).items() if name not in numbers)

    def check(self) -> None:
        """Raise the first cell's error if no cell can be trained."""
        errors: list[Exception] = []
        for settings in self.plan.combinations():
            try:
                self._check(self.config(settings))
                return
            except (ValueError, TypeError) as error:
                errors.append(error)
        raise errors[0]

    def _check(self, config: TrainFlags) -> None:
        dataset = _dataset(config)
        with number_format(config.precision):
            check_room(lambda: build(config, dataset)[0])
            network, algorithm = build(config, dataset)
        train_config(config, dataset).check(network, dataset, algorithm)

    def __call__(self, cells: Sequence[CellSettings], folder: Path | None) -> list[CellSettings]:
        """Train cells of one group, with checkpoints in the folder, and return their results."""
        configs = [self.config(settings) for settings in cells]
        shared = configs[0]
        dataset = _dataset(shared)
        begin = time.perf_counter()
        with number_format(shared.precision), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # about divergence, which is a result here
            check_room(lambda: build(shared, dataset)[0])
            runs = [Run(*build(c, dataset), c.chosen_weight_lr, c.seed, make_energy(c)) for c in configs]
            settings = train_config(shared, dataset, checkpoints=None if folder is None else Scratch(folder))
            results = fit_many(runs, dataset, config=settings, stop=self.stop)
        if any(result.stopped for result in results):
            raise KeyboardInterrupt
        seconds = (time.perf_counter() - begin) / len(cells)
        return [
            {name: result.last[name] for name in KEPT if name in result.last}
            | {"steps": result.steps, "diverged": result.diverged, "seconds": seconds}
            for result in results
        ]


def _dataset(config: TrainFlags) -> Dataset:
    """Load the data of a configuration. Cells that differ in other settings share one copy."""
    names = ("data", "data_dir", "verify_data", "validation")
    seed = config.seed if config.validation else 0
    return _load(TrainFlags(**{name: getattr(config, name) for name in names}, seed=seed))


@functools.lru_cache(maxsize=4)
def _load(config: TrainFlags) -> Dataset:
    return load_data(config)
