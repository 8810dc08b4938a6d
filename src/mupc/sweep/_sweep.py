"""A sweep as an Optuna study that any number of workers share: every cell ends exactly once, whichever worker dies."""

import contextlib
import dataclasses
import math
import os
import socket
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TypedDict

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, Trial, TrialState

from ..io import checks
from ._axes import CellSettings, SweepAxis
from ._database import SweepDatabase
from ._plan import SweepPlan

optuna.logging.set_verbosity(optuna.logging.WARNING)

GRACE = 3
"""Heartbeats that a worker may miss before its cells go to another."""
SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {
    "random": lambda seed: RandomSampler(seed=seed),
    # constant_liar: trials that run elsewhere count as bad ones, or a whole group would be drawn from one place
    "tpe": lambda seed: TPESampler(seed=seed, constant_liar=True),
}
START = "Start one with `mupc sweep`."
STATES = {TrialState.COMPLETE: "complete", TrialState.RUNNING: "running", TrialState.WAITING: "waiting"}


@dataclasses.dataclass(frozen=True)
class ClaimedCell:
    """A cell that this worker has taken: its index, what it sets, and the trial that stands for it."""

    index: int
    settings: CellSettings
    number: int
    trial_id: int


class CellRecord(TypedDict):
    """Everything known about a cell. Its state is complete, failed, running or waiting; the value is None unless it is
    finite; of the attempts exactly one is completed when all is well."""

    cell: int
    settings: CellSettings
    state: str
    value: float | None
    error: str | None
    results: CellSettings
    config: CellSettings
    attempts: int
    completed: int


class Sweep:
    """The cells of a plan, kept in a database.

    A cell is open until one of its trials is complete, or its latest trial has failed with an error of its own. `take`
    enqueues every open cell that has no waiting or running trial: at the start all of them, later those of workers that
    died or left.

    **Arguments:** the database's address, the study's name (None if there is only one), the plan (None to join a sweep
    that exists), and the seconds between heartbeats, which a new sweep keeps.

    **Example:**

    ```python
    from mupc.sweep import Sweep, SweepAxis, SweepPlan

    plan = SweepPlan({}, (SweepAxis("x", (1.0, 2.0)),), "loss")
    sweep = Sweep("sqlite:///example.db", "example", plan)
    for cell in sweep.take(lambda settings: None, limit=2):
        sweep.finish(cell, cell.settings["x"] ** 2, {})
    ```
    """

    def __init__(self, url: str, name: str | None, plan: SweepPlan | None, heartbeat: int = 20) -> None:
        self._database = database = SweepDatabase(url)
        self.address, self.lock = database.shown, database.lock
        if plan is None and database.file is not None and not database.file.exists():
            raise checks.ArgumentError("storage", f"{checks.literal(self.address)} does not exist.", START)
        with database.lock():
            self._storage = database.open()
            self._study = self._find(name, create=plan is not None)
            self.name = self._study.study_name
            self.new = "plan" not in self._study.user_attrs
            if self.new:
                if plan is None:
                    raise checks.ArgumentError("name", f"{checks.literal(self.name)} is not a sweep of mupc.", START)
                self._study.set_user_attr("heartbeat", heartbeat)
                self._study.set_user_attr("plan", dataclasses.asdict(plan))
            self.plan = SweepPlan.from_record(self._study.user_attrs["plan"])
            if plan is not None and plan != self.plan:
                wrong = f"{self.address} holds another sweep, {self.name!r} ({plan.describe_difference(self.plan)})."
                raise ValueError(f"{wrong} Choose another folder, or another name in this database.")
            self.heartbeat = int(self._study.user_attrs["heartbeat"])
            self._storage.heartbeat_interval, self._storage.grace_period = self.heartbeat, GRACE * self.heartbeat
        self._grid = None if self.plan.sampler else self.plan.combinations()
        self._distributions = {axis.name: _distribution(axis, self._grid is None) for axis in self.plan.axes}

    def close(self) -> None:
        """End the connections to the database."""
        self._storage.engine.dispose()
        self._database.close()

    def agree_on_data(self, checksums: Mapping[str, list[str]]) -> None:
        """Refuse data that are not those of the workers before this one.

        **Arguments:** the checksums of each data set, by its name.
        """
        with self.lock():
            known = self._study.user_attrs.setdefault("checksums", dict(checksums))
            self._study.set_user_attr("checksums", known)
        for name, own in checksums.items():
            if known.get(name) != own:
                wrong = f"the sweep {self.name!r} has cells of other data than {checks.literal(name)} holds now."
                raise ValueError(f"{wrong} Put the data back, or start another sweep.")

    def take(
        self,
        group_of: Callable[[CellSettings], Hashable],
        limit: int,
        left: Mapping[int, int] | None = None,
        announce: Callable[[Sequence[ClaimedCell]], None] = lambda cells: None,
    ) -> list[ClaimedCell]:
        """Take up to `limit` waiting cells of one group, or draw new ones if none waits. An empty list: none is left.

        Record heartbeats of the cells, and finish, fail or release each of them.

        **Arguments:** `group_of(settings)`, equal for cells that can be taken together; the limit; `left`, the cells
        that a dead worker left with the numbers of their trials, which come first and are ended if they ran on this
        machine; `announce`, called with the cells before they are taken, or as soon as they are drawn.
        """
        with self.lock():
            left = left or {}
            self._give_up(left)
            optuna.storages.fail_stale_trials(self._study)
            undrawn = self._enqueue()
            waiting = self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
            if not waiting:
                drawn = [self._draw(index) for index in undrawn[:limit]]
                announce(drawn)
                return drawn
            known = {trial.user_attrs["cell"]: trial for trial in waiting}
            wanted = group_of(waiting[0].params)
            chosen = [known[index] for index in left if index in known]
            chosen = chosen or [trial for trial in waiting if group_of(trial.params) == wanted][:limit]
            cells = [_claimed(trial) for trial in chosen]
            announce(cells)
            for cell in cells:
                self._claim(cell.trial_id)
                self._storage.set_trial_state_values(cell.trial_id, state=TrialState.RUNNING)
            return cells

    def finish(self, cell: ClaimedCell, value: float, results: CellSettings) -> bool:
        """Complete a cell. False: its worker was taken for dead, and the cell now belongs to another."""
        return self._end(cell, {"results": results}, value)

    def fail(self, cell: ClaimedCell, error: str) -> bool:
        """End a cell that cannot be computed, with the reason."""
        return self._end(cell, {"error": error}, None)

    def release(self, cell: ClaimedCell) -> bool:
        """Give a cell back, for another worker or another time."""
        return self._end(cell, {}, None)

    def retry_failed(self) -> None:
        """Enqueue the cells that failed with an error again."""
        with self.lock():
            for index, trials in self._attempts().items():
                if _failed(trials):
                    self._add(index, trials[-1].params)

    @contextlib.contextmanager
    def beating(self, cells: Sequence[ClaimedCell]) -> Iterator[None]:
        """Record heartbeats of these cells within the context."""
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(self.heartbeat):
                for cell in cells:
                    with contextlib.suppress(Exception):  # the database may be back at the next beat
                        self._storage.record_heartbeat(cell.trial_id)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def records(self) -> list[CellRecord]:
        """Return all cells so far, by index."""
        with self.lock():
            attempts = self._attempts()
        return [_record(index, attempts[index]) for index in sorted(attempts)]

    def _give_up(self, left: Mapping[int, int]) -> None:
        """End the trials of a worker on this machine that is known to be dead, without waiting for its heartbeats."""
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            ours = trial.user_attrs.get("worker", "").partition(":")[0] == socket.gethostname()
            if ours and left.get(trial.user_attrs.get("cell", -1)) == trial.number:
                self._study.tell(trial.number, state=TrialState.FAIL)

    def _enqueue(self) -> list[int]:
        """Add a trial for every open cell that has none, and return the cells that are still to be drawn."""
        attempts, undrawn = self._attempts(), []
        for index in range(self.plan.size):
            trials = attempts.get(index, [])
            if any(trial.state in STATES for trial in trials) or _failed(trials):
                continue
            if self._grid is not None:
                self._add(index, self._grid[index])
            elif trials:
                self._add(index, trials[-1].params)
            else:
                undrawn.append(index)
        return undrawn

    def _add(self, index: int, params: CellSettings) -> None:
        """Add a trial that waits for a worker."""
        attributes = {"config": self.plan.config | params, "cell": index}
        waiting, known = TrialState.WAITING, self._distributions
        trial = optuna.create_trial(state=waiting, params=params, distributions=known, user_attrs=attributes)
        self._study.add_trial(trial)

    def _attempts(self) -> dict[int, list[FrozenTrial]]:
        """Return the trials of each cell, in order. A trial without a cell was being drawn when its worker died."""
        found: dict[int, list[FrozenTrial]] = {}
        for trial in self._study.get_trials(deepcopy=False):
            if "cell" in trial.user_attrs:
                found.setdefault(trial.user_attrs["cell"], []).append(trial)
            elif trial.state is TrialState.RUNNING:
                self._study.tell(trial.number, state=TrialState.FAIL)
        return found

    def _claim(self, trial_id: int) -> None:
        """Sign a trial. Call it before the trial runs: one that runs without a heartbeat is never found dead."""
        self._storage.record_heartbeat(trial_id)
        self._storage.set_trial_user_attr(trial_id, "worker", f"{socket.gethostname()}:{os.getpid()}")

    def _draw(self, index: int) -> ClaimedCell:
        assert self.plan.sampler is not None
        # the cell's own seed: workers must not draw the same settings, and a sweep must be repeatable
        self._study.sampler = SAMPLERS[self.plan.sampler](self.plan.seed * 100_003 + index)
        trial = self._study.ask(self._distributions)
        self._claim(trial._trial_id)
        trial.set_user_attr("config", self.plan.config | trial.params)
        trial.set_user_attr("cell", index)
        return _claimed(trial)

    def _end(self, cell: ClaimedCell, attributes: Mapping[str, str | CellSettings], value: float | None) -> bool:
        with self.lock():
            if self._storage.get_trial(cell.trial_id).state is not TrialState.RUNNING:
                return False
            for name, content in attributes.items():
                self._storage.set_trial_user_attr(cell.trial_id, name, content)
            self._study.tell(cell.number, value, state=TrialState.FAIL if value is None else TrialState.COMPLETE)
            return True

    def _find(self, name: str | None, create: bool) -> optuna.Study:
        if create:
            return optuna.create_study(storage=self._storage, study_name=name, load_if_exists=True)
        shown = checks.literal(self.address)
        names = sorted(optuna.get_all_study_names(self._storage))
        if not names:
            raise checks.ArgumentError("storage", f"{shown} does not hold a sweep.", START)
        if name is None and len(names) > 1:
            cure = f"Choose one of: {', '.join(map(checks.literal, names))}."
            raise checks.ArgumentError("name", f"is needed: {shown} holds {len(names)} sweeps.", cure)
        if name is not None and name not in names:
            raise checks.unknown("name", name, names)
        return optuna.load_study(storage=self._storage, study_name=name or names[0])


def _claimed(trial: FrozenTrial | Trial) -> ClaimedCell:
    return ClaimedCell(trial.user_attrs["cell"], dict(trial.params), trial.number, trial._trial_id)


def _distribution(axis: SweepAxis, sampled: bool) -> BaseDistribution:
    """Return numbers as a range, so that Optuna's dashboard and samplers know their order. A list that a sampler draws
    from is a choice: from a range it would draw other values as well."""
    if not axis.numbers or (sampled and axis.values):
        return CategoricalDistribution(axis.values)
    low, high = min(axis.numbers), max(axis.numbers)
    log = axis.log or (bool(axis.values) and low > 0)
    if all(isinstance(value, int) for value in axis.numbers):
        return IntDistribution(int(low), int(high), log=log)
    return FloatDistribution(low, high, log=log)


def _failed(trials: Sequence[FrozenTrial]) -> bool:
    """Return whether the latest attempt ended with an error of its own."""
    return bool(trials) and trials[-1].state is TrialState.FAIL and "error" in trials[-1].user_attrs


def _record(index: int, trials: Sequence[FrozenTrial]) -> CellRecord:
    complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    trial = complete[0] if complete else trials[-1]
    attributes, value = trial.user_attrs, trial.value if complete else None
    return {
        "cell": index,
        "settings": dict(trial.params),
        # a trial that failed without an error of its own was given up by its worker, and will be enqueued again
        "state": "failed" if "error" in attributes else STATES.get(trial.state, "waiting"),
        "value": value if value is not None and math.isfinite(value) else None,
        "error": attributes.get("error"),
        "results": attributes.get("results", {}),
        "config": attributes["config"],
        "attempts": len(trials),
        "completed": len(complete),
    }
