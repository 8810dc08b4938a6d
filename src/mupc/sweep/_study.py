"""A sweep as an Optuna study that any number of workers share: every cell ends exactly once, whoever dies."""

import contextlib
import dataclasses
import math
import os
import socket
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from ._database import Database
from ._plan import Plan
from ._space import Axis, Settings, grid

optuna.logging.set_verbosity(optuna.logging.WARNING)

GRACE = 3
"""Heartbeats that a worker may miss before its cells go to another."""
SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {
    "random": lambda seed: RandomSampler(seed=seed),
    # constant_liar: trials that run elsewhere count as bad ones, or a group would be drawn all from one place
    "tpe": lambda seed: TPESampler(seed=seed, constant_liar=True),
}
STATES = {TrialState.COMPLETE: "complete", TrialState.RUNNING: "running", TrialState.WAITING: "waiting"}


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell that this worker has taken: its index, what it sets, and the trial that stands for it."""

    index: int
    settings: Settings
    number: int
    trial_id: int


class Sweep:
    """The cells of a plan, kept in a database.

    A cell is open until a trial of it is complete, or its latest has failed with an error of its own. `take` enqueues
    every open cell that no trial waits or runs for: at the start that is all of them, later those of workers that died
    or left.

    **Arguments:** the database, the study's name, the plan (None to join a sweep that is there), and the seconds
    between heartbeats, which the sweep keeps.

    **Example:**

    ```python
    from mupc.sweep._database import Database
    from mupc.sweep._plan import Plan
    from mupc.sweep._space import Axis
    from mupc.sweep._study import Sweep

    plan = Plan({}, (Axis("x", (1.0, 2.0)),), "loss")
    sweep = Sweep(Database("sqlite:///example.db"), "example", plan)
    for cell in sweep.take(lambda settings: None, limit=2):
        sweep.finish(cell, cell.settings["x"] ** 2, {})
    ```
    """

    def __init__(self, database: Database, name: str | None, plan: Plan | None, heartbeat: int = 20) -> None:
        self.database = database
        if plan is None and database.absent:
            raise ValueError(f"{database.shown} is not there: correct --storage, or {_choice([])}")
        with database.lock():
            self._storage = database.open()
            self.name = self._only_name() if name is None else name
            self._study = self._find(create=plan is not None)
            stored = self._study.user_attrs.get("plan")
            self.new = stored is None
            if stored is not None:
                self.plan = Plan.restore(stored)
            elif plan is not None:
                self.plan = plan
                self._study.set_user_attr("heartbeat", heartbeat)
                self._study.set_user_attr("plan", plan.record())
            else:
                raise ValueError(f"{self.name!r} in {database.shown} is no sweep of mupc: {_choice([])}")
            if plan is not None and plan != self.plan:
                raise ValueError(
                    f"{database.shown} holds another sweep, {self.name!r} ({plan.difference(self.plan)}): "
                    "choose another --out, or with --storage another --name."
                )
            self.heartbeat = int(self._study.user_attrs["heartbeat"])
            self._storage.heartbeat_interval, self._storage.grace_period = self.heartbeat, GRACE * self.heartbeat
        sampled = self.plan.sampler is not None
        self._grid = None if sampled else grid(self.plan.axes)
        self._distributions = {axis.name: _distribution(axis, sampled) for axis in self.plan.axes}

    def close(self) -> None:
        """Ends the connections to the database."""
        self._storage.engine.dispose()
        self.database.close()

    def take(
        self,
        group_of: Callable[[Settings], Hashable],
        limit: int,
        left: Mapping[int, int] | None = None,
        announce: Callable[[Sequence[Cell]], None] = lambda cells: None,
    ) -> list[Cell]:
        """Takes up to `limit` waiting cells of one group, or draws new ones if none waits. None left: an empty list.
        The cells must be finished, failed or released, and heartbeats recorded meanwhile. Ahead of others come those
        that a worker has `left`, given with the numbers of its trials, which are given up if it was on this machine.
        Cells are announced before they are taken, or as soon as they are drawn."""
        with self.database.lock():
            left = left or {}
            self._give_up(left)
            optuna.storages.fail_stale_trials(self._study)
            unclaimed = self._enqueue()
            waiting = self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
            known = {trial.user_attrs["cell"]: trial for trial in waiting}
            if not waiting:
                drawn = [self._draw(index) for index in unclaimed[:limit]]
                announce(drawn)
                return drawn
            chosen = [known[index] for index in left if index in known]
            if not chosen:
                wanted = group_of(waiting[0].params)
                chosen = [trial for trial in waiting if group_of(trial.params) == wanted][:limit]
            cells = [Cell(t.user_attrs["cell"], dict(t.params), t.number, t._trial_id) for t in chosen]
            announce(cells)
            for cell in cells:
                self._claim(cell)
            return cells

    def finish(self, cell: Cell, value: float, results: Settings) -> bool:
        """Completes a cell; False if it was thought dead meanwhile and belongs to another, who reports it."""
        return self._end(cell, {"results": results}, value)

    def fail(self, cell: Cell, error: str) -> bool:
        """Ends a cell that cannot be computed, with the reason."""
        return self._end(cell, {"error": error}, None)

    def release(self, cell: Cell) -> bool:
        """Gives a cell back, for another worker or another time."""
        return self._end(cell, {}, None)

    def retry_failed(self) -> None:
        """Enqueues the cells that failed with an error once more."""
        with self.database.lock():
            for index, trials in self._attempts().items():
                if _failed(trials):
                    self._add(index, trials[-1].params)

    @contextlib.contextmanager
    def beating(self, cells: Sequence[Cell]) -> Iterator[None]:
        """A context in which heartbeats of these cells are recorded."""
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

    def records(self) -> list[Settings]:
        """Every cell that there is so far, by index: what it sets, its state (complete, failed, running, waiting),
        value, results and number of attempts."""
        with self.database.lock():
            attempts = self._attempts()
        return [_record(index, attempts[index]) for index in sorted(attempts)]

    def _give_up(self, left: Mapping[int, int]) -> None:
        """Ends the trials of a worker on this machine that is known to be dead, without waiting for its heartbeats."""
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            ours = trial.user_attrs.get("worker", "").partition(":")[0] == socket.gethostname()
            if ours and left.get(trial.user_attrs.get("cell", -1)) == trial.number:
                self._study.tell(trial.number, state=TrialState.FAIL)

    def _enqueue(self) -> list[int]:
        """Makes a trial for every open cell that has none, and returns the cells that are still to be drawn."""
        attempts = self._attempts()
        unclaimed = []
        for index in range(self.plan.size):
            trials = attempts.get(index, [])
            if any(trial.state in STATES for trial in trials) or _failed(trials):
                continue
            if self._grid is None and not trials:
                unclaimed.append(index)
                continue
            self._add(index, self._grid[index] if self._grid is not None else trials[-1].params)
        return unclaimed

    def _add(self, index: int, params: Settings) -> None:
        """Makes a trial that waits for a worker."""
        self._study.add_trial(
            optuna.create_trial(
                state=TrialState.WAITING,
                params=params,
                distributions=self._distributions,
                user_attrs={"config": self.plan.config | params, "cell": index},
            )
        )

    def _attempts(self) -> dict[int, list[FrozenTrial]]:
        """The trials of each cell, in order. A trial without a cell was being drawn when its worker died."""
        found: dict[int, list[FrozenTrial]] = {}
        for trial in self._study.get_trials(deepcopy=False):
            if "cell" in trial.user_attrs:
                found.setdefault(trial.user_attrs["cell"], []).append(trial)
            elif trial.state is TrialState.RUNNING:
                self._study.tell(trial.number, state=TrialState.FAIL)
        return found

    def _claim(self, cell: Cell) -> None:
        # the heartbeat first: a running trial that never had one would never be found dead
        self._storage.record_heartbeat(cell.trial_id)
        self._storage.set_trial_user_attr(cell.trial_id, "worker", _worker())
        self._storage.set_trial_state_values(cell.trial_id, state=TrialState.RUNNING)

    def _draw(self, index: int) -> Cell:
        assert self.plan.sampler is not None
        # seeded by the cell: workers must not draw the same, and a sweep can be repeated
        self._study.sampler = SAMPLERS[self.plan.sampler](self.plan.seed * 100_003 + index)
        trial = self._study.ask(self._distributions)
        self._storage.record_heartbeat(trial._trial_id)
        trial.set_user_attr("worker", _worker())
        trial.set_user_attr("config", self.plan.config | trial.params)
        trial.set_user_attr("cell", index)
        return Cell(index, dict(trial.params), trial.number, trial._trial_id)

    def _end(self, cell: Cell, attributes: Settings, value: float | None) -> bool:
        with self.database.lock():
            if self._storage.get_trial(cell.trial_id).state is not TrialState.RUNNING:
                return False
            for name, content in attributes.items():
                self._storage.set_trial_user_attr(cell.trial_id, name, content)
            self._study.tell(cell.number, value, state=TrialState.FAIL if value is None else TrialState.COMPLETE)
            return True

    def _find(self, create: bool) -> optuna.Study:
        if create:
            return optuna.create_study(storage=self._storage, study_name=self.name, load_if_exists=True)
        try:
            return optuna.load_study(storage=self._storage, study_name=self.name)
        except KeyError:
            known = _choice(self._names())
            raise ValueError(f"{self.database.shown} holds no sweep {self.name!r}: {known}") from None

    def _names(self) -> list[str]:
        return sorted(study.study_name for study in self._storage.get_all_studies())

    def _only_name(self) -> str:
        names = self._names()
        if len(names) != 1:
            raise ValueError(f"{self.database.shown} holds {len(names) or 'no'} sweeps: {_choice(names)}")
        return names[0]


def _choice(names: Sequence[str]) -> str:
    return f"choose one with --name: {', '.join(names)}." if names else "start one with `mupc sweep --grid …`."


def _worker() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _distribution(axis: Axis, sampled: bool) -> BaseDistribution:
    """Numbers as numbers, so that Optuna's dashboard and samplers know their order; but a list that a sampler draws
    from as a choice, or it would draw from between."""
    if not axis.numeric or (sampled and axis.values):
        return CategoricalDistribution(axis.values)
    low, high = min(axis.span), max(axis.span)
    log = axis.log or (bool(axis.values) and low > 0)
    return IntDistribution(int(low), int(high), log=log) if axis.whole else FloatDistribution(low, high, log=log)


def _failed(trials: Sequence[FrozenTrial]) -> bool:
    """Whether the latest attempt ended with an error of its own."""
    return bool(trials) and trials[-1].state is TrialState.FAIL and "error" in trials[-1].user_attrs


def _record(index: int, trials: Sequence[FrozenTrial]) -> Settings:
    complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    trial = complete[0] if complete else trials[-1]
    attributes = trial.user_attrs
    # a trial that failed without an error of its own was given up by its worker, and will be enqueued again
    state = "failed" if "error" in attributes else STATES.get(trial.state, "waiting")
    value = trial.value if complete else None
    return {
        "cell": index,
        "settings": dict(trial.params),
        "state": state,
        "value": value if value is not None and math.isfinite(value) else None,
        "error": attributes.get("error"),
        "results": attributes.get("results", {}),
        "config": attributes["config"],
        "attempts": len(trials),
        "completed": len(complete),
    }
