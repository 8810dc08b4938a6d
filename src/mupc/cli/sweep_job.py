"""A sweep from flags to a folder: what a cell computes, and what a sweep leaves behind."""

import contextlib
import dataclasses
import functools
import time
import warnings
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ..data import Dataset
from ..experiments._training import whole
from ..io import checks, counted, device, versions
from ..sweep._database import Database
from ..sweep._memory import check_room
from ..sweep._plan import Plan
from ..sweep._space import Settings, grid, parse
from ..sweep._study import Sweep
from ..sweep._unfinished import Unfinished
from ..sweep._work import work
from ..training import FitResult, Run, Scratch, fit_many
from .config import TrainConfig, as_dict, from_dict, in_flags
from .job import build, check_training, load_data, make_energy, number_format, training_options
from .run_folder import RunFolder
from .runner import explain
from .sweep import SweepFlags, WorkFlags
from .sweep_table import Board, draw, show, summarise

Summary = dict[str, Any]
Stop = Callable[[], bool]
DATABASE, RESULTS, BEST, UNFINISHED = "sweep.db", "sweep.json", "best.json", "unfinished"
GROUP = {None: 32, "random": 32, "tpe": 8}
NUMBERS = ("weight_lr", "seed", "output_precision", "activity_decay", "weight_decay", "orthogonality")
"""Settings in which cells may differ that train as one program; gd's activity_lr is another."""
KEPT = ("train_loss", "test_loss", "test_accuracy", "validation_loss", "validation_accuracy", "energy")
PRIVATE = ("data_dir",)
"""Settings that are a machine's own, and no part of a sweep."""


def start(config: TrainConfig, flags: SweepFlags, console: Console, stop: Stop) -> Summary:
    """Starts a sweep or goes on with it, and returns its summary.

    **Arguments:** what all cells share, the flags of `mupc sweep`, the console to show it on, and whether to end early.
    """
    plan = _plan(config, flags)
    group = _group(flags.sharing.group, plan)
    checks.integer("--heartbeat", flags.sharing.heartbeat, 1)
    storage = flags.sharing.storage
    execute = Executor(plan, config.data_dir, stop)
    execute.check()
    database = None if storage is None else Database(storage)
    folder = RunFolder(flags.output.out, "sweep", resumes=DATABASE if storage is None else RESULTS)
    try:
        database = database or _file(folder.path)
        sweep = Sweep(database, flags.sharing.name, plan, flags.sharing.heartbeat)
        if not (sweep.new or flags.sharing.resume):
            raise ValueError(
                f"{sweep.database.shown} holds this sweep already: leave out --no-resume to go on with it."
            )
    except (ValueError, OSError):
        folder.discard()
        raise
    again = folder.path if storage is None else f"--storage {sweep.database.shown} --name {sweep.name}"
    with contextlib.closing(sweep):
        if flags.sharing.retry_failed:
            sweep.retry_failed()
        return _work(sweep, execute, group, folder, console, f"mupc sweep work {again}")


def join(flags: WorkFlags, console: Console, stop: Stop) -> Summary:
    """Works on a sweep that is there, and returns its summary.

    **Arguments:** the flags of `mupc sweep work`, the console to show it on, and whether to end early.
    """
    if flags.folder is None and flags.storage is None:
        raise ValueError("say which sweep to work on: its folder, or its database with --storage URL.")
    folder = None
    if flags.folder is not None:
        path = Path(flags.folder).expanduser()
        holds = DATABASE if flags.storage is None else RESULTS
        if not (path / holds).is_file():
            raise ValueError(f"{path} holds no {holds}: give the folder of a sweep, or its database with --storage.")
        folder = RunFolder(path, "sweep", resumes=holds)
    database = _file(Path(flags.folder or "")) if flags.storage is None else Database(flags.storage)
    sweep = Sweep(database, flags.name, None)
    execute = Executor(sweep.plan, flags.data_dir, stop)
    again = flags.folder if flags.storage is None else f"--storage {database.shown} --name {sweep.name}"
    with contextlib.closing(sweep):
        if flags.retry_failed:
            sweep.retry_failed()
        return _work(sweep, execute, _group(flags.group, sweep.plan), folder, console, f"mupc sweep work {again}")


def _file(folder: Path) -> Database:
    return Database(f"sqlite:///{folder.expanduser() / DATABASE}")


def _plan(config: TrainConfig, flags: SweepFlags) -> Plan:
    """What the flags ask for."""
    sampler = None if flags.search.sampler == "grid" else flags.search.sampler
    if sampler is None and flags.search.trials is not None:
        raise ValueError("--trials is for --sampler random or --sampler tpe: a grid trains all of its cells.")
    axes = parse(flags.search.grid, _typed, sampled=sampler is not None)
    for axis in axes:
        if axis.name in PRIVATE:
            raise ValueError(f"--{axis.name.replace('_', '-')} cannot vary: give it once.")
    varied = {axis.name for axis in axes}
    held_out = next((axis.span for axis in axes if axis.name == "validation"), (config.validation,))
    return Plan(
        config={key: value for key, value in as_dict(config).items() if key not in varied and key not in PRIVATE},
        axes=axes,
        objective="validation_loss" if all(held_out) else "train_loss",
        sampler=sampler,
        trials=flags.search.trials or 0,
        seed=config.seed,
    )


def _typed(name: str, value: Any) -> Any:
    return getattr(from_dict({name: value}, "--grid"), name)


def _group(wanted: int | None, plan: Plan) -> int:
    return GROUP[plan.sampler] if wanted is None else checks.integer("--group", wanted, 1)


class Executor:
    """Trains cells: `execute(cells) -> results`, for cells that `group_of` says can train together. Data sets that are
    not there are missed at once, before a worker takes cells that it could only fail.

    **Arguments:** the plan of the sweep, the folder with data sets on this machine, and whether to end early.
    """

    def __init__(self, plan: Plan, data_dir: str | None, stop: Stop) -> None:
        self.plan, self.data_dir, self.stop = plan, data_dir, stop
        first = {axis.name: axis.span[0] for axis in plan.axes}
        for data in next((axis.values for axis in plan.axes if axis.name == "data"), (plan.config.get("data"),)):
            _dataset(_data_settings(self.config(first | {"data": data})))

    def config(self, settings: Settings) -> TrainConfig:
        """The configuration of a cell, as `mupc train` would have it."""
        return from_dict({**self.plan.config, **settings, "data_dir": self.data_dir}, "the sweep")

    def group_of(self, settings: Settings) -> Hashable:
        """What cells have in common that train as one program."""
        config = self.config(settings)
        numbers = set(NUMBERS)
        if config.solver == "gd" and isinstance(config.activity_lr, float):
            numbers.add("activity_lr")
        if config.validation:  # the seed decides the split too
            numbers.remove("seed")
        return tuple((name, value) for name, value in as_dict(config).items() if name not in numbers)

    def check(self) -> None:
        """Raises what is wrong with the first cell if no cell can be trained."""
        cells = grid(dataclasses.replace(axis, values=axis.span) for axis in self.plan.axes)
        errors = []
        for settings in cells:
            try:
                self._check(self.config(settings))
                return
            except (ValueError, TypeError) as error:
                errors.append(error)
        raise ValueError(in_flags(str(errors[0]))) from errors[0]

    def _check(self, config: TrainConfig) -> None:
        dataset = _dataset(_data_settings(config))
        with number_format(config.precision):
            check_room(lambda: build(config, dataset)[0])
            network, solver = build(config, dataset)
        check_training(config, network, solver, dataset)
        make_energy(config)

    def __call__(self, cells: Sequence[Settings], folder: Path | None) -> list[Settings]:
        configs = [self.config(settings) for settings in cells]
        shared = configs[0]
        dataset = _dataset(_data_settings(shared))
        begin = time.perf_counter()
        with number_format(shared.precision), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of divergence, which is a result here
            check_room(lambda: build(shared, dataset)[0])
            runs = [Run(*build(c, dataset), c.chosen_weight_lr, c.seed, make_energy(c)) for c in configs]
            checkpoints = None if folder is None else Scratch(folder)
            options = training_options(shared, dataset)
            results = fit_many(runs, dataset, **options, checkpoints=checkpoints, stop=self.stop)
        whole(results)
        seconds = (time.perf_counter() - begin) / len(cells)
        return [_outcome(result) | {"seconds": seconds} for result in results]


def _outcome(result: FitResult) -> Settings:
    last = result.last
    return {name: last[name] for name in KEPT if name in last} | {"steps": result.steps, "diverged": result.diverged}


def _data_settings(config: TrainConfig) -> TrainConfig:
    """A configuration with nothing in it but what decides the data."""
    names = ("data", "data_dir", "verify_data", "validation")
    seed = config.seed if config.validation else 0
    return TrainConfig(**{name: getattr(config, name) for name in names}, seed=seed)


@functools.lru_cache(maxsize=4)
def _dataset(config: TrainConfig) -> Dataset:
    return load_data(config)


def _work(
    sweep: Sweep, execute: Executor, group: int, folder: RunFolder | None, console: Console, again: str
) -> Summary:
    """Works until the sweep has ended or is interrupted; saves and shows what there is."""
    unfinished = Unfinished(None if folder is None else folder.path / UNFINISHED)
    begin, interrupted = time.perf_counter(), False
    about = {"versions": versions(), "device": device(), "out": None if folder is None else str(folder.path)}
    _save(sweep, folder, summarise(sweep.plan, sweep.name, sweep.records()) | about)  # what makes it a sweep's folder
    with Board(console, sweep) as board:
        try:
            work(
                sweep,
                execute,
                group_of=execute.group_of,
                limit=group,
                explain=_reason,
                report=board.update,
                unfinished=unfinished,
                stop=execute.stop,
            )
        except KeyboardInterrupt:
            interrupted = True
    summary = summarise(sweep.plan, sweep.name, sweep.records()) | about
    summary |= {"seconds": time.perf_counter() - begin, "interrupted": interrupted}
    summary["message"] = _message(summary, again)
    _save(sweep, folder, summary)
    show(sweep.plan, summary, console)
    return summary


def _save(sweep: Sweep, folder: RunFolder | None, summary: Summary) -> None:
    if folder is None:
        return
    with sweep.database.lock():  # other workers write the same files
        folder.write(RESULTS, summary)
        if summary["best"] is not None:
            folder.write(BEST, {"config": summary["best"]["config"], "best": summary["best"]})
            draw(sweep.plan, summary, folder.path / "figures")


def _message(summary: Summary, again: str) -> str:
    """What went wrong, in one line; nothing if nothing did."""
    counts = summary["counts"]
    if summary["interrupted"]:
        kept = f"{counts['complete'] + counts['failed']} of {counts['cells']} cells are finished and kept"
        return f"interrupted; {kept}. Go on with: {again}"
    if counts["failed"]:
        first = next(cell for cell in summary["cells"] if cell["state"] == "failed")
        count = (
            f"{counts['failed']} of {counted(counts['cells'], 'cell')} failed, the first: {first['error'].rstrip('.')}"
        )
        return f"{count}. Try again with: {again} --retry-failed"
    return ""


def _reason(error: Exception) -> str:
    return in_flags(explain(error))
