"""Start a sweep or join one, train its cells as `mupc train` would, and write its folder: sweep.json, best.json and a
figure."""

import contextlib
import dataclasses
import functools
import math
import time
import warnings
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path

import equinox as eqx

from ..data import Dataset
from ..io import array_checksum, checks, counted, device, json_ready, versions
from ..network import DATA, RUNS
from ..sweep import CellSettings, Setting, Sweep, SweepPlan, parse_axes, work_on
from ..training import SCORES, Run, Scratch, fit_many
from .building import (
    as_used,
    build,
    check_run,
    idle_flags,
    load_data,
    make_algorithm,
    make_energy,
    network_maker,
    number_format,
    parse_devices,
    train_config,
)
from .config import FORMAT, TrainFlags, from_dict, pick
from .flags import SourceFlags
from .run_folder import RunFolder
from .runner import CommandResult, Session, explain
from .sweep import DATABASE, RESULTS, SearchFlags, SharingFlags, SweepFlags, WorkFlags
from .sweep_report import Summary, SweepProgress, draw_sweep, show_sweep, summarise_sweep

BEST, UNFINISHED = "best.json", "unfinished"
GROUP_SIZES = {None: 32, "random": 32, "tpe": 8}
"""The most cells to take at once, by sampler. tpe learns between groups."""
NUMBERS = ("weight_lr", "seed", "output_precision", "activity_decay", "weight_decay", "orthogonality")
"""Settings in which cells that train as one program may differ. The activity_lr of gd is another."""
KEPT = (
    *(f"{split}_{score}" for split in ("test", "validation") for score in SCORES),
    "train_loss",
    "energy",
)


class CellTrainer:
    """Train cells together. A data set that is missing here shows at once, before this worker takes cells.

    **Arguments:** the plan of the sweep, this machine's folder with data sets, whether to end early, and the devices to
    divide cells over, as --devices names them.
    """

    def __init__(
        self, plan: SweepPlan, data_dir: str | None, stop: Callable[[], bool], devices: str | None = None
    ) -> None:
        self.plan, self.data_dir, self.stop = plan, data_dir, stop
        self.mesh = parse_devices(devices, (RUNS, DATA))
        first = {axis.name: axis.span[0] for axis in plan.axes}
        names = next((axis.values for axis in plan.axes if axis.name == "data"), (plan.config.get("data"),))
        self.checksums = {str(data): _checksums(_dataset(self.config(first | {"data": data}))) for data in names}

    def config(self, settings: CellSettings) -> TrainFlags:
        """Return the configuration of a cell. In a grid of methods, each has those shared settings that act on it."""
        values = {**self.plan.config, **settings, "data_dir": self.data_dir}
        flags = from_dict(values, "the sweep", self.plan.format)
        varied = {axis.name for axis in self.plan.axes}
        idle = [name for name in idle_flags(flags) if name not in varied] if "method" in varied else []
        return dataclasses.replace(flags, **{name: getattr(TrainFlags, name) for name in idle})

    def as_used(self, settings: CellSettings) -> TrainFlags:
        """Return the configuration of a cell as it is used, for any machine."""
        config = self.config(settings)
        dataset = _dataset(config)
        with number_format(config.precision):
            shapes = eqx.filter_eval_shape(network_maker(config, dataset))
            used = as_used(config, dataset, shapes, make_algorithm(config, shapes))
        return dataclasses.replace(used, data_dir=None)

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
        """Refuse a sweep with cells that cannot run, and name all of them. Only shapes are computed."""
        good: set[Hashable] = set()
        refused: dict[str, list[CellSettings]] = {}
        for settings in self.plan.combinations():
            try:
                config, group = self.config(settings), self.group_of(settings)
                check_run(config, _dataset(config), shapes=group not in good)
                good.add(group)
            except (ValueError, TypeError) as error:
                refused.setdefault(explain(error).rstrip("."), []).append(settings)
        if refused:
            reasons = (f"{reason} ({name_cells(self.plan, cells)})" for reason, cells in refused.items())
            count = f"{sum(map(len, refused.values()))} of {counted(len(self.plan.combinations()), 'cell')}"
            raise ValueError(f"{count} cannot run, so that nothing was started: {'; '.join(reasons)}.")

    def __call__(self, cells: Sequence[CellSettings], folder: Path | None) -> list[CellSettings]:
        """Train cells of one group, with checkpoints in the folder, and return their results."""
        configs = [self.config(settings) for settings in cells]
        shared = configs[0]
        dataset = _dataset(shared)
        begin = time.perf_counter()
        with number_format(shared.precision), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # about divergence, which is a result here
            runs = [_run(config, dataset) for config in configs]
            settings = train_config(shared, dataset, checkpoints=None if folder is None else Scratch(folder))
            results = fit_many(runs, dataset, config=settings, stop=self.stop, mesh=self.mesh)
        if any(result.stopped for result in results):
            raise KeyboardInterrupt
        seconds = (time.perf_counter() - begin) / len(cells)
        return [
            {name: result.last[name] for name in KEPT if name in result.last}
            | {"steps": result.steps, "diverged": result.diverged, "seconds": seconds}
            for result in results
        ]


def name_cells(plan: SweepPlan, cells: Sequence[CellSettings]) -> str:
    """Return the settings that tell some cells of a plan from the others, in the form of --grid."""
    values = {axis.name: list(dict.fromkeys(cell[axis.name] for cell in cells)) for axis in plan.axes}
    if math.prod(map(len, values.values())) > len(cells):  # not all combinations of these values
        return " and ".join(name_cells(plan, [cell]) for cell in cells)
    spans = {axis.name: len(axis.span) for axis in plan.axes}
    told = [name for name in values if len(values[name]) < spans[name]]
    return " ".join(f"{name}={','.join(map(str, values[name]))}" for name in told) or "every cell"


def _run(config: TrainFlags, dataset: Dataset) -> Run:
    network, algorithm = build(config, dataset)
    used = as_used(config, dataset, network, algorithm)
    return Run(network, algorithm, used.weight_lr, used.seed, make_energy(used))


def _dataset(config: TrainFlags) -> Dataset:
    """Load the data of a configuration. Cells that differ in other settings share one copy."""
    seed = config.seed if config.validation else 0
    return _load(TrainFlags(**pick(config, SourceFlags), validation=config.validation, seed=seed))


_load = functools.lru_cache(maxsize=4)(load_data)


def _checksums(dataset: Dataset) -> list[str]:
    splits = (dataset.train, dataset.test, dataset.validation)
    return [array_checksum(part) for split in splits if split is not None for part in (split.raw, split.targets)]


def start(flags: SweepFlags, session: Session) -> CommandResult:
    """Start a sweep or go on with it, and return its summary.

    **Arguments:** the flags of `mupc sweep`, and the session.
    """
    config, sharing = TrainFlags.gather(flags), flags.sharing
    plan = _plan(config, flags.search)
    limit = _group_size(sharing.group, plan)
    checks.integer("heartbeat", sharing.heartbeat, 1)
    trainer = CellTrainer(plan, config.data_dir, session.interruption, flags.output.devices)
    trainer.check()
    holds = DATABASE if sharing.storage is None else RESULTS
    folder = RunFolder(flags.output.out, "sweep", resumes=holds, format=flags.output.format)
    try:
        sweep = Sweep(sharing.storage or f"sqlite:///{folder.path / DATABASE}", sharing.name, plan, sharing.heartbeat)
        if not (sweep.new or sharing.resume):
            raise ValueError(f"{sweep.address} already holds this sweep: leave out --no-resume to go on with it.")
    except (ValueError, OSError):
        folder.discard()
        raise
    return _work(sweep, trainer, limit, folder, sharing, session)


def join(flags: WorkFlags, session: Session) -> CommandResult:
    """Work on a sweep that exists, and return its summary.

    **Arguments:** the flags of `mupc sweep work`, and the session.
    """
    folder, url = None, flags.storage
    if flags.folder is not None:
        path, holds = Path(flags.folder).expanduser(), DATABASE if url is None else RESULTS
        if not (path / holds).is_file():
            raise ValueError(f"{path} has no {holds}: give the folder of a sweep, or its database with --storage.")
        folder = RunFolder(path, "sweep", resumes=holds, format=flags.format)
        url = url or f"sqlite:///{path / DATABASE}"
    if url is None:
        raise ValueError("say which sweep to work on: its folder, or its database with --storage URL.")
    sweep = Sweep(url, flags.name, None)
    trainer = CellTrainer(sweep.plan, flags.data_dir, session.interruption, flags.devices)
    return _work(sweep, trainer, _group_size(flags.group, sweep.plan), folder, flags, session)


def _plan(config: TrainFlags, search: SearchFlags) -> SweepPlan:
    """Return the plan that the flags ask for."""
    sampler = None if search.sampler == "grid" else search.sampler
    if sampler is None and search.trials is not None:
        raise ValueError("--trials is for --sampler random or --sampler tpe: a grid trains all of its cells.")

    def convert(name: str, value: Setting) -> Setting:
        converted = getattr(from_dict({name: value}, "--grid"), name)
        return value if isinstance(converted, tuple) else converted  # one number of a list

    axes = parse_axes(search.grid, convert, sampled=sampler is not None)
    varied = {axis.name: axis.span for axis in axes}
    if "data_dir" in varied:
        raise ValueError("--data-dir cannot vary: give it once.")
    return SweepPlan(  # data_dir belongs to a machine, not to a sweep
        config={key: value for key, value in json_ready(vars(config)).items() if key not in (*varied, "data_dir")},
        axes=axes,
        objective="validation_loss" if all(varied.get("validation", (config.validation,))) else "train_loss",
        sampler=sampler,
        trials=search.trials or 0,
        seed=config.seed,
        format=FORMAT,
    )


def _group_size(wanted: int | None, plan: SweepPlan) -> int:
    return GROUP_SIZES[plan.sampler] if wanted is None else checks.integer("group", wanted, 1)


def _work(
    sweep: Sweep,
    trainer: CellTrainer,
    limit: int,
    folder: RunFolder | None,
    sharing: SharingFlags | WorkFlags,
    session: Session,
) -> CommandResult:
    """Work until the sweep has ended or is interrupted, then save and show its results."""
    with contextlib.closing(sweep), session.interruption.gracefully():
        sweep.agree_on_data(trainer.checksums)
        if sharing.retry_failed:
            sweep.retry_failed()
        begin, interrupted = time.perf_counter(), False
        about = {"versions": versions(), "device": device(), "out": None if folder is None else str(folder.path)}
        _save(sweep, trainer, folder, summarise_sweep(sweep) | about)  # with this file it is the folder of a sweep
        progress = SweepProgress(session, sweep)
        try:
            with progress.display:
                work_on(
                    sweep,
                    trainer,
                    group_of=trainer.group_of,
                    limit=limit,
                    explain=explain,
                    report=progress.update,
                    unfinished=None if folder is None else folder.path / UNFINISHED,
                    stop=session.interruption,
                )
        except KeyboardInterrupt:
            interrupted = True
        summary = summarise_sweep(sweep) | about
        summary |= {"seconds": time.perf_counter() - begin, "interrupted": interrupted}
        own = folder is not None and sharing.storage is None
        where = summary["out"] if own else f"--storage {sweep.address} --name {sweep.name}"
        summary["message"] = _message(summary, f"mupc sweep work {where}")
        _save(sweep, trainer, folder, summary)
        show_sweep(sweep.plan, summary, session)
        return CommandResult(summary, summary["message"], int(summary["counts"]["failed"] > 0))


def _save(sweep: Sweep, trainer: CellTrainer, folder: RunFolder | None, summary: Summary) -> None:
    if folder is None:
        return
    with sweep.lock():  # other workers write the same files
        folder.write(RESULTS, summary)
        if summary["best"] is not None:
            best = trainer.as_used(summary["best"]["config"])
            folder.write(BEST, {"format": FORMAT, "config": vars(best), "best": summary["best"]})
            draw_sweep(sweep.plan, summary, folder, str(best.loss))


def _message(summary: Summary, again: str) -> str:
    """Return what went wrong, in one line, or nothing."""
    counts = summary["counts"]
    if summary["interrupted"]:
        kept = f"{counts['complete'] + counts['failed']} of {counts['cells']} cells are finished and kept"
        return f"interrupted; {kept}. Go on with: {again}"
    if not counts["failed"]:
        return ""
    first = next(cell["error"] for cell in summary["cells"] if cell["state"] == "failed").rstrip(".")
    failed = f"{counts['failed']} of {counted(counts['cells'], 'cell')} failed, the first: {first}"
    return f"{failed}. Try again with: {again} --retry-failed"
