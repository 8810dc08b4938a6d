"""Start a sweep or join one, and write its folder: sweep.json, best.json and a figure."""

import contextlib
import time
from pathlib import Path

from ..io import checks, counted, device, versions
from ..sweep import Sweep, SweepPlan, parse_axes, work_on
from .config import TrainFlags, from_dict
from .parsing import flag
from .run_folder import RunFolder
from .runner import Session, explain
from .sweep import SearchFlags, SharingFlags, SweepFlags, WorkFlags
from .sweep_cells import CellTrainer
from .sweep_report import Summary, SweepProgress, draw_sweep, show_sweep, summarise_sweep

DATABASE, RESULTS, BEST, UNFINISHED = "sweep.db", "sweep.json", "best.json", "unfinished"
GROUP_SIZES = {None: 32, "random": 32, "tpe": 8}
"""The most cells to take at once, by sampler. tpe learns between groups."""
MACHINE_SETTINGS = ("data_dir",)
"""Settings of one machine, which are not part of a sweep."""


def start(config: TrainFlags, flags: SweepFlags, session: Session) -> Summary:
    """Start a sweep or go on with it, and return its summary.

    **Arguments:** the settings that all cells share, the flags of `mupc sweep`, and the session.
    """
    sharing = flags.sharing
    plan = _plan(config, flags.search)
    limit = _group_size(sharing.group, plan)
    checks.integer("heartbeat", sharing.heartbeat, 1)
    trainer = CellTrainer(plan, config.data_dir, session.interruption)
    trainer.check()
    folder = RunFolder(flags.output.out, "sweep", resumes=DATABASE if sharing.storage is None else RESULTS)
    try:
        sweep = Sweep(sharing.storage or _file(folder.path), sharing.name, plan, sharing.heartbeat)
        if not (sweep.new or sharing.resume):
            raise ValueError(f"{sweep.address} already holds this sweep: leave out --no-resume to go on with it.")
    except (ValueError, OSError):
        folder.discard()
        raise
    return _work(sweep, trainer, limit, folder, sharing, session)


def join(flags: WorkFlags, session: Session) -> Summary:
    """Work on a sweep that exists, and return its summary.

    **Arguments:** the flags of `mupc sweep work`, and the session.
    """
    if flags.folder is None and flags.storage is None:
        raise ValueError("say which sweep to work on: its folder, or its database with --storage URL.")
    folder = None
    if flags.folder is not None:
        path = Path(flags.folder).expanduser()
        holds = DATABASE if flags.storage is None else RESULTS
        if not (path / holds).is_file():
            raise ValueError(f"{path} has no {holds}: give the folder of a sweep, or its database with --storage.")
        folder = RunFolder(path, "sweep", resumes=holds)
    sweep = Sweep(flags.storage or _file(Path(flags.folder or "")), flags.name, None)
    trainer = CellTrainer(sweep.plan, flags.data_dir, session.interruption)
    limit = _group_size(flags.group, sweep.plan)
    return _work(sweep, trainer, limit, folder, flags, session)


def _file(folder: Path) -> str:
    return f"sqlite:///{folder.expanduser() / DATABASE}"


def _plan(config: TrainFlags, search: SearchFlags) -> SweepPlan:
    """Return the plan that the flags ask for."""
    sampler = None if search.sampler == "grid" else search.sampler
    if sampler is None and search.trials is not None:
        raise ValueError("--trials is for --sampler random or --sampler tpe: a grid trains all of its cells.")
    convert = lambda name, value: getattr(from_dict({name: value}, "--grid"), name)  # noqa: E731
    axes = parse_axes(search.grid, convert, sampled=sampler is not None)
    varied = {axis.name: axis.span for axis in axes}
    for name in MACHINE_SETTINGS:
        if name in varied:
            raise ValueError(f"{flag(name)} cannot vary: give it once.")
    return SweepPlan(
        config={key: value for key, value in vars(config).items() if key not in (*varied, *MACHINE_SETTINGS)},
        axes=axes,
        objective="validation_loss" if all(varied.get("validation", (config.validation,))) else "train_loss",
        sampler=sampler,
        trials=search.trials or 0,
        seed=config.seed,
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
) -> Summary:
    """Work until the sweep has ended or is interrupted, then save and show its results."""
    with contextlib.closing(sweep), session.interruption.gracefully():
        if sharing.retry_failed:
            sweep.retry_failed()
        begin, interrupted = time.perf_counter(), False
        about = {"versions": versions(), "device": device(), "out": None if folder is None else str(folder.path)}
        _save(sweep, folder, summarise_sweep(sweep) | about)  # with this file it is the folder of a sweep
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
        _save(sweep, folder, summary)
        show_sweep(sweep.plan, summary, session)
        return summary


def _save(sweep: Sweep, folder: RunFolder | None, summary: Summary) -> None:
    if folder is None:
        return
    with sweep.lock():  # other workers write the same files
        folder.write(RESULTS, summary)
        if summary["best"] is not None:
            folder.write(BEST, {"config": summary["best"]["config"], "best": summary["best"]})
            draw_sweep(sweep.plan, summary, folder.path / "figures")


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
