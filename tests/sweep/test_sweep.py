"""Sweeps without training: what varies, who gets which cell, and that every cell ends exactly once."""

import dataclasses
import json
import math
import signal
import subprocess
import sys
import threading

import pytest
import sqlalchemy

from mupc.sweep import Sweep, SweepAxis, SweepPlan, _sweep, parse_axes, work_on
from mupc.sweep._unfinished import left_group, new_group

AXES = (SweepAxis("rate", (0.5, 0.1)), SweepAxis("kind", ("a", "b")), SweepAxis("seed", (0, 1, 2)))
PLAN = SweepPlan({"shared": 1}, AXES, "loss")


def same(settings):
    return None


def by_kind(settings):
    return settings["kind"]


def score(settings):
    """Return a number that no two cells share."""
    return settings["rate"] + 10.0 * settings["seed"] + 100.0 * (settings["kind"] == "b")


class Executor:
    """Computes cells, and remembers the groups it was given."""

    def __init__(self, trouble=lambda settings: None):
        self.groups, self.trouble = [], trouble

    def __call__(self, cells, folder):
        self.groups.append(list(cells))
        for settings in cells:
            self.trouble(settings)
        return [{"loss": score(settings), "diverged": settings["rate"] == 0.5} for settings in cells]


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens a sweep in one file, any number of times. All are closed at the end."""
    sweeps = []

    def open(plan=PLAN, name="sweep", heartbeat=20):
        sweeps.append(Sweep(f"sqlite:///{tmp_path}/sweep.db", name, plan, heartbeat))
        return sweeps[-1]

    yield open
    for sweep in sweeps:
        sweep.close()


def typed(name, value):
    """Convert values to the types of some settings, as `mupc train` does."""
    kind = {"rate": float, "width": int, "flag": bool, "name": str}[name]
    if kind is float and isinstance(value, int):
        value = float(value)
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be {kind.__name__}")
    return value


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("rate=1, .5,1e-3", (1.0, 0.5, 0.001)),
        ("rate=0.1,0.1,0.2", (0.1, 0.2)),
        ("rate=log:0.01:1:5", (0.01, 0.0316228, 0.1, 0.316228, 1.0)),
        ("rate=lin:0:1:3", (0.0, 0.5, 1.0)),
        ("width=log:16:128:4", (16, 32, 64, 128)),
        ("flag=true,false", (True, False)),
        ("name=auto", ("auto",)),
    ],
)
def test_values(text, values):
    (axis,) = parse_axes([text], typed)
    assert axis.values == values
    assert [type(value) for value in axis.values] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("text", "help", "sampled"),
    [
        ("rate", "'rate' has no values", False),
        ("rate=", "has no values", False),
        ("rate=0.1,wide", "must be float", False),
        ("rate=nan", "is not finite", False),
        ("rate=log:0:1:3", "numbers above 0", False),
        ("rate=lin:1:0:3", "LOW the lower one", False),
        ("rate=log:1:2", "Write rate=log:1:2:5 for five, or choose a sampler.", False),
        ("rate=log:1:2:1", "at least 2 values, got 1", False),
        ("rate=log:1", "Write rate=log:LOW:HIGH:N", False),
        ("rate=log:1:2:3", "Leave out :3", True),
    ],
)
def test_values_that_cannot_be_read(text, help, sampled):
    with pytest.raises(ValueError, match=".*") as caught:
        parse_axes([text], typed, sampled=sampled)
    assert help in str(caught.value) and "\n" not in str(caught.value)


def test_empty_and_repeated_axes():
    with pytest.raises(ValueError, match="grid is empty. Say what to vary"):
        parse_axes([], typed)
    with pytest.raises(ValueError, match="rate is given twice"):
        parse_axes(["rate=1", "rate=2"], typed)
    with pytest.raises(ValueError, match="trials must be at least 1, got 0. Say how many cells the sampler draws."):
        SweepPlan({}, AXES, "loss", "random")


def test_grid_is_the_product():
    cells = PLAN.combinations()
    assert len(cells) == 12 and len({tuple(cell.items()) for cell in cells}) == 12
    assert cells[0] == {"rate": 0.5, "kind": "a", "seed": 0} and cells[1]["seed"] == 1


def test_a_plan_survives_json():
    sampled = SweepPlan({"a": None}, (SweepAxis("rate", low=0.1, high=1.0, log=True), *AXES), "loss", "tpe", 5, 3)
    for plan in (PLAN, sampled):
        assert SweepPlan.from_record(json.loads(json.dumps(dataclasses.asdict(plan)))) == plan


def test_every_cell_once_in_its_groups_and_again_nothing(opened):
    execute, sweep = Executor(), opened()
    reports = []
    work_on(sweep, execute, group_of=by_kind, limit=4, report=lambda: reports.append(1))
    assert [len(group) for group in execute.groups] == [4, 4, 2, 2]
    assert all(len({cell["kind"] for cell in group}) == 1 for group in execute.groups)
    records = sweep.records()
    assert [record["settings"] for record in records] == PLAN.combinations()
    for record in records:
        diverged = record["settings"]["rate"] == 0.5
        assert record["value"] == (None if diverged else score(record["settings"]))
        assert record["results"] == {"loss": score(record["settings"]), "diverged": diverged}
        assert record["config"] == {"shared": 1, **record["settings"]}
        assert (record["state"], record["attempts"], record["completed"]) == ("complete", 1, 1)
    assert len(reports) >= 4

    again = opened()
    assert not again.new
    work_on(again, execute, group_of=by_kind, limit=4)
    assert len(execute.groups) == 4

    other = SweepPlan({"shared": 2}, AXES, "loss")
    with pytest.raises(ValueError, match="holds another sweep, 'sweep' \\(its shared is 1\\). Choose another folder"):
        opened(other)
    with pytest.raises(ValueError, match="\\(it varies rate, kind, seed\\)"):
        opened(SweepPlan({"shared": 1, "seed": 0}, AXES[:2], "loss"))
    with pytest.raises(ValueError, match="it varies rate, kind, seed over other values"):
        opened(SweepPlan({"shared": 2}, (*AXES[:2], SweepAxis("seed", (7,))), "loss"))
    assert opened(other, "another").new
    with pytest.raises(ValueError, match="name is needed: .* holds 2 sweeps. Choose one of: 'another', 'sweep'"):
        opened(None, None)
    with pytest.raises(ValueError, match="name 'third' is not known. Choose one of: another, sweep"):
        opened(None, "third")
    assert opened(None, "another").plan == other


def test_the_cell_at_fault_fails_alone(opened):
    def trouble(settings):
        if settings == {"rate": 0.1, "kind": "b", "seed": 1}:
            raise MemoryError("too large")

    sweep = opened()
    work_on(sweep, Executor(trouble), group_of=same, limit=12, explain=lambda error: f"explained: {error}")
    failed = [record for record in sweep.records() if record["state"] == "failed"]
    assert [record["settings"] for record in failed] == [{"rate": 0.1, "kind": "b", "seed": 1}]
    assert failed[0]["error"] == "explained: too large" and failed[0]["value"] is None
    assert sum(record["state"] == "complete" for record in sweep.records()) == 11


@pytest.mark.slow
def test_an_interruption_keeps_what_is_finished(opened):
    def trouble(settings):
        if settings["kind"] == "b":
            raise KeyboardInterrupt

    sweep = opened()
    with pytest.raises(KeyboardInterrupt):
        work_on(sweep, Executor(trouble), group_of=by_kind, limit=6)
    states = [record["state"] for record in sweep.records()]
    assert states.count("complete") == 6 and states.count("waiting") == 6
    execute = Executor()
    work_on(opened(), execute, group_of=by_kind, limit=6)
    assert [cell["kind"] for group in execute.groups for cell in group] == ["b"] * 6
    assert all(record["completed"] == 1 for record in sweep.records())


def test_failed_cells_are_tried_again_when_asked(opened):
    """The second attempt may be given up, or fail again. Finished cells are not touched."""

    def trouble(settings):
        if settings["kind"] == "b":
            raise RuntimeError("no memory")

    sweep = opened()
    work_on(sweep, Executor(trouble), group_of=by_kind, limit=6)
    assert sweep.take(by_kind, 6) == []  # failures are final unless asked for
    sweep.retry_failed()
    sweep.retry_failed()  # those that wait already are not doubled
    (cell, *_) = taken = sweep.take(by_kind, 12)
    assert [one.settings["kind"] for one in taken] == ["b"] * 6
    for one in taken:
        assert sweep.release(one)
    (again,) = sweep.take(by_kind, 1)
    assert again.index == cell.index and sweep.fail(again, "still no memory")
    execute = Executor()
    work_on(sweep, execute, group_of=by_kind, limit=6)
    assert [len(group) for group in execute.groups] == [5]
    (failed,) = (record for record in sweep.records() if record["state"] == "failed")
    assert failed["cell"] == cell.index and failed["error"] == "still no memory" and failed["attempts"] == 3
    sweep.retry_failed()
    work_on(sweep, execute, group_of=by_kind, limit=6)
    records = sweep.records()
    assert all(record["state"] == "complete" and record["completed"] == 1 for record in records)
    assert all(record["attempts"] == 1 for record in records if record["settings"]["kind"] == "a")


def heartbeats(sweep):
    """Return the time of the latest heartbeat of every trial."""
    with sweep._storage.engine.begin() as database:
        return dict(
            tuple(row) for row in database.execute(sqlalchemy.text("SELECT trial_id, heartbeat FROM trial_heartbeats"))
        )


def silence(sweep, *trial_ids):
    """Make the latest heartbeats of trials a year old."""
    for trial_id in trial_ids:
        with sweep._storage.engine.begin() as database:
            text = "UPDATE trial_heartbeats SET heartbeat = datetime(heartbeat, '-1 year') WHERE trial_id = :trial"
            assert database.execute(sqlalchemy.text(text), {"trial": trial_id}).rowcount == 1


def test_a_dead_workers_cells_go_to_another(opened):
    dead, alive, other = (opened(heartbeat=600) for _ in range(3))
    lost, kept = dead.take(same, 2), other.take(same, 1)
    silence(alive, *(cell.trial_id for cell in lost))
    taken = alive.take(same, 12)
    indices = {cell.index for cell in taken}
    assert {cell.index for cell in lost} <= indices and len(taken) == 11
    assert {cell.index for cell in kept}.isdisjoint(indices)
    assert not dead.finish(lost[0], 1.0, {"loss": 1.0, "diverged": False})  # it comes back to life, too late
    assert all(alive.finish(cell, 2.0, {"loss": 2.0, "diverged": False}) for cell in taken)
    assert other.finish(kept[0], 3.0, {"loss": 3.0, "diverged": False})
    records = alive.records()
    assert all(record["completed"] == 1 for record in records)
    assert {record["cell"] for record in records if record["attempts"] == 2} == {cell.index for cell in lost}
    assert {record["value"] for record in records} == {2.0, 3.0}
    assert alive.take(same, 1) == []


def test_hearts_beat_while_cells_are_computed(opened):
    sweep = opened(heartbeat=1)
    cells = sweep.take(same, 2)
    silence(sweep, *(cell.trial_id for cell in cells))
    before, beaten = heartbeats(sweep), threading.Event()
    with sweep.beating(cells):
        while not all(now > before[trial] for trial, now in heartbeats(sweep).items()):
            beaten.wait(0.1)
    assert len(before) == 2


def drawn(sweep, value=lambda settings: 0.0):
    work_on(
        sweep,
        lambda cells, folder: [{"loss": value(settings), "diverged": False} for settings in cells],
        group_of=same,
        limit=4,
    )
    return [record["settings"] for record in sweep.records()]


@pytest.mark.slow
def test_random_draws_are_within_bounds_and_repeatable(opened):
    axes = (
        SweepAxis("rate", low=0.001, high=1.0, log=True),
        SweepAxis("width", low=8, high=64),
        SweepAxis("kind", ("a", "b")),
    )
    plan = SweepPlan({}, axes, "loss", "random", 8)
    first = drawn(opened(plan, "first"))
    assert len({settings["rate"] for settings in first}) == 8
    assert all(0.001 <= s["rate"] <= 1 and 8 <= s["width"] <= 64 and s["kind"] in "ab" for s in first)
    assert all(isinstance(settings["width"], int) for settings in first)
    second = opened(plan, "second")
    cells = [second.take(same, 3), second.take(same, 5)]  # two workers
    assert [cell.settings for group in cells for cell in group] == first
    assert second.take(same, 1) == []
    third = drawn(opened(SweepPlan({}, axes, "loss", "random", 8, seed=1), "third"))
    assert all(settings not in first for settings in third)


def test_a_drawn_cell_that_was_given_back_keeps_its_settings(opened):
    sweep = opened(SweepPlan({}, (SweepAxis("rate", low=0.0, high=1.0),), "loss", "random", 2))
    cells = sweep.take(same, 2)
    assert sweep.release(cells[0])
    (again,) = sweep.take(same, 2)
    assert (again.index, again.settings) == (cells[0].index, cells[0].settings)


@pytest.mark.slow
def test_tpe_learns_where_the_minimum_is(opened):
    """Uninformed draws are one decade from the middle of four on average, with a standard deviation of 0.577."""
    plan = SweepPlan({}, (SweepAxis("rate", low=1e-4, high=1.0, log=True),), "loss", "tpe", 32)
    rates = [settings["rate"] for settings in drawn(opened(plan), lambda s: (math.log10(s["rate"]) + 2) ** 2)]
    distance = [abs(math.log10(rate) + 2) for rate in rates]
    assert sum(distance[16:]) / 16 < 1 - 2 * 0.577 / 4  # two standard errors


@pytest.mark.parametrize(
    ("url", "error", "help"),
    [
        ("postgresql://me:secret@127.0.0.1:1/x", ConnectionError, "postgresql://me:***@127.0.0.1:1/x cannot be used"),
        ("sqlite:///absent/folder/sweep.db", ConnectionError, "unable to open database file"),
        ("sqlite://", ValueError, "Use sqlite:///FILE"),
        ("mysql://host/x", ValueError, "Use sqlite:///FILE, or postgresql://USER@HOST:PORT/DATABASE"),
        ("nonsense", ValueError, "is not an address"),
        (
            "postgresql://me:secret@127.0.0.1:abc/x",
            ValueError,
            "'postgresql://me:***@127.0.0.1:abc/x' is not an address",
        ),
    ],
)
def test_databases_that_cannot_be_used(url, error, help):
    if url.startswith("postgresql"):
        pytest.importorskip("psycopg")
    with pytest.raises(error) as caught:
        Sweep(url, "sweep", PLAN)
    assert help in str(caught.value) and "\n" not in str(caught.value) and "secret" not in str(caught.value)


WORKER = """
import sys, time
from mupc.sweep import Sweep, work_on
assert "jax" not in sys.modules

def execute(cells, folder):
    for settings in cells:
        print(settings["seed"], flush=True)
        time.sleep(0.3 if sys.argv[2] == "quick" else 600)
    return [{"loss": float(settings["seed"]), "diverged": False} for settings in cells]

work_on(Sweep(sys.argv[1], None, None), execute, group_of=lambda settings: None, limit=2)
"""


@pytest.mark.slow
def test_processes_of_which_one_is_killed(opened, tmp_path):
    """`make test-postgres` does the same with real training, on SQLite and PostgreSQL."""
    sweep = opened(SweepPlan({}, (SweepAxis("seed", tuple(range(10))),), "loss"), heartbeat=600)

    def start(pace):
        words = [sys.executable, "-c", WORKER, f"sqlite:///{tmp_path}/sweep.db", pace]
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    workers = [victim := start("slow")]
    try:
        begun = int(victim.stdout.readline())
        others = [start("quick"), start("quick")]
        workers += others
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        silence(sweep, *taken_by(sweep, victim.pid))
        done = [int(line) for worker in others for line in worker.communicate(timeout=300)[0].splitlines()]
        assert [worker.returncode for worker in others] == [0, 0]
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    assert sorted(done) == list(range(10))  # by the others, each once, those of the killed worker too
    records = sweep.records()
    assert all(record["completed"] == 1 and record["value"] == record["settings"]["seed"] for record in records)
    assert records[begun]["attempts"] == 2


def taken_by(sweep, process):
    """Return the trials that a worker has taken."""
    trials = sweep._study.get_trials(deepcopy=False)
    return [trial._trial_id for trial in trials if trial.user_attrs.get("worker", "").endswith(f":{process}")]


def test_a_group_that_was_left_goes_on_at_once_and_as_it_was(opened, tmp_path, monkeypatch):
    """After its worker has died, the same cells come first, in the same order, without waiting for heartbeats."""
    dead, unfinished = opened(), tmp_path / "unfinished"
    cells = dead.take(by_kind, 2)
    with new_group(unfinished, cells) as group, left_group(unfinished) as other:
        assert other.folder is None  # it has a worker
        assert group.trials == {cell.index: cell.number for cell in cells}
    sweep = opened()
    with left_group(unfinished) as left:
        assert left.folder == group.folder
        with left_group(unfinished) as other:
            assert other.folder is None  # it is ours now
        wrong = {index: number + 1 for index, number in left.trials.items()}  # a trial that is somebody else's
        others = sweep.take(by_kind, 2, wrong)
        assert not {cell.index for cell in others} & set(left.trials)
        with monkeypatch.context() as patch:
            patch.setattr(_sweep.socket, "gethostname", lambda: "elsewhere")
            others += sweep.take(by_kind, 1, left.trials)  # whose folder it may be, but not whose lock
            assert not {cell.index for cell in others} & set(left.trials)
        again = sweep.take(by_kind, 2, left.trials)
    assert [cell.index for cell in again] == [cell.index for cell in cells]
    assert not dead.finish(cells[0], 0.0, {})  # if it was alive after all, it is told
    for cell in (*again, *others):
        sweep.release(cell)


def test_work_takes_up_what_was_left(opened, tmp_path):
    unfinished, folders = tmp_path / "unfinished", []

    def stopped(cells, folder):
        folders.append(folder)
        (folder / "checkpoint").touch()
        raise KeyboardInterrupt

    def execute(cells, folder):
        folders.append(folder)
        assert (folder / "checkpoint").exists() == (len(folders) == 2)
        return [{"loss": score(settings), "diverged": False} for settings in cells]

    with pytest.raises(KeyboardInterrupt):
        work_on(opened(), stopped, group_of=by_kind, limit=4, unfinished=unfinished)
    work_on(opened(), execute, group_of=by_kind, limit=4, unfinished=unfinished)
    assert folders[0] == folders[1]
    assert not (tmp_path / "unfinished").exists()
    with pytest.raises(KeyboardInterrupt):
        work_on(opened(), execute, group_of=by_kind, limit=4, stop=lambda: True)


def test_results_that_were_not_recorded_are_not_computed_again(opened, tmp_path, monkeypatch):
    """Killed between two cells of a group: the rest alone would be another program, with other rounding."""
    unfinished, computed = tmp_path / "unfinished", []

    def execute(cells, folder):
        computed.append(len(cells))
        return [{"loss": score(settings), "diverged": False, "together": len(cells)} for settings in cells]

    def killed(sweep, cell, *found):
        if computed == [4] and sum(record["completed"] for record in sweep.records()) == 1:
            raise KeyboardInterrupt
        return finish(sweep, cell, *found)

    finish = Sweep.finish
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Sweep, "finish", killed)
        work_on(opened(), execute, group_of=by_kind, limit=4, unfinished=unfinished)
    work_on(opened(), execute, group_of=by_kind, limit=4, unfinished=unfinished)
    assert computed == [4, 4, 2, 2]
    records = opened().records()
    assert [record["value"] for record in records] == [score(record["settings"]) for record in records]
    assert sorted(record["results"]["together"] for record in records) == [2] * 4 + [4] * 8
    assert not unfinished.exists()


def test_what_was_left_of_cells_that_others_ended_is_taken_away(opened, tmp_path):
    unfinished = tmp_path / "unfinished"
    with new_group(unfinished, opened().take(by_kind, 2)) as group:
        pass
    (group.folder / "cells.json").write_text("damaged")
    seen = []

    def execute(cells, folder):
        seen.append(group.folder.exists())
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):  # and no cell is to blame
        work_on(opened(), execute, group_of=by_kind, limit=6, unfinished=unfinished)
    assert seen == [False]
    assert all(record["error"] is None for record in opened().records())
