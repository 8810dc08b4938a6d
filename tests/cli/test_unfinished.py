"""`mupc sweep` and `mupc reproduce`: a cell that is half trained goes on where it was, to the bit. Signals, damaged
checkpoints, other processes, full and read-only disks."""

import contextlib
import itertools
import json
import os
import signal
import subprocess

import faults
import pytest

from mupc.cli import FAILURE, USAGE_ERROR
from mupc.experiments import CellStore, __main__, _store, training
from mupc.experiments._store import key
from mupc.training import _checkpoint_policy, _evaluation, _step

COMMANDS = ("sweep", "reproduce")
SLUG = "mupc-vs-pc-mnist-accs"


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """A checkpoint at each evaluation, at steps 10, 20 and 22 of each cell or group, and fig1 is tiny."""
    monkeypatch.setattr(_checkpoint_policy, "PAUSE", 0)
    monkeypatch.setattr(_checkpoint_policy, "WAIT", 0)
    monkeypatch.setitem(training.FIGURES, SLUG, training.FIGURES[SLUG])
    faults.tiny_figure()


@pytest.fixture
def run(mupc):
    """Runs a tiny sweep or reproduction in a folder."""
    return lambda command, folder, *more: mupc(*faults.many(command, folder), *more, folder=folder)


@pytest.fixture(scope="session")
def wholes():
    """What commands come to that nobody interrupts, once each, with the steps they take."""
    return {}


@pytest.fixture
def whole(wholes, run, tmp_path_factory, monkeypatch):
    def get(command):
        if command not in wholes:
            folder = tmp_path_factory.mktemp(command)
            with counted(monkeypatch) as steps:
                assert run(command, folder).code == 0
            wholes[command] = faults.found(folder), sum(steps)
        return wholes[command]

    return get


@contextlib.contextmanager
def counted(monkeypatch):
    """The steps that are taken inside."""
    steps, interval = [], _step.DevicePrograms.run_interval

    def count(programs, job, state, span, *rest):
        steps.append(len(span))
        return interval(programs, job, state, span, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(_step.DevicePrograms, "run_interval", count)
        yield steps


@contextlib.contextmanager
def at(monkeypatch, number, action):
    """Does something at one of the evaluations inside, counted from 1 over all cells."""
    calls, evaluate = [], _evaluation.Evaluation.__call__

    def call(self, *arguments):
        calls.append(1)
        if len(calls) == number:
            action()
        return evaluate(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(_evaluation.Evaluation, "__call__", call)
        yield


def send(*numbers):
    return lambda: [os.kill(os.getpid(), number) for number in numbers]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "evaluation", "number", "code"),
    [("sweep", 7, signal.SIGTERM, 143), ("reproduce", 2, signal.SIGINT, 130), ("reproduce", 10, signal.SIGTERM, 143)],
)
def test_a_signal_saves_and_says_how_to_go_on(
    run, whole, mupc, tmp_path, monkeypatch, command, evaluation, number, code
):
    """In the second group of a sweep; in the first run of a figure; in two runs of one that train side by side."""
    want, all_steps = whole(command)
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with counted(monkeypatch) as steps, at(monkeypatch, evaluation, send(number)):
        first = run(command, tmp_path)
    assert first.code == code
    assert len(first.err.splitlines()) == 1
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    assert faults.unfinished(tmp_path)
    with counted(monkeypatch) as more:
        if command == "sweep":
            assert "interrupted; 2 of 6 cells are finished and kept. Go on with: mupc sweep work" in first.err
            again = mupc(*first.err.split("Go on with: mupc ")[1].split(), "--quiet")
        else:
            assert "interrupted; what is finished is kept, the same command goes on." in first.err
            again = run(command, tmp_path)
    assert (again.code, again.err) == (0, "")
    assert faults.found(tmp_path) == want
    assert sum(steps) + sum(more) == all_steps  # none was taken twice


@pytest.mark.slow
def test_checkpoints_of_no_use_cost_nothing_but_time(run, whole, tmp_path, monkeypatch):
    """A second signal ends at once; then what it left is damaged."""
    with at(monkeypatch, 3, send(signal.SIGTERM, signal.SIGTERM)):
        assert run("reproduce", tmp_path).code == 143
    (found,) = faults.unfinished(tmp_path)
    assert found.name == "step-00000010"
    (found / "manifest.json").write_text("{")
    again = run("reproduce", tmp_path)
    assert (again.code, again.err) == (0, "")
    assert faults.found(tmp_path) == whole("reproduce")[0]


@pytest.mark.slow
def test_cells_of_another_process_are_left_to_it(run, whole, tmp_path):
    figure = training.FIGURES[SLUG]
    cell = figure.cells(figure.config("quick"), {})[0]
    with CellStore(tmp_path / "work").scratch([cell], fresh=False):
        other = run("reproduce", tmp_path)
    assert other.code == FAILURE
    help = f"another process computes 1 cell in {tmp_path / 'work'}: repeat this once it has ended."
    assert other.err == f"mupc reproduce: {SLUG}: {help}\n"
    saved = json.loads((tmp_path / f"{SLUG}.json").read_text())
    assert (saved["complete"], saved["cells"]["finished"]) == (False, saved["cells"]["known"] - 1)
    assert run("reproduce", tmp_path).code == 0
    assert faults.found(tmp_path) == whole("reproduce")[0]


def test_what_a_process_left_that_was_killed_after_saving_is_taken_away(tmp_path):
    store, figure = CellStore(tmp_path), training.FIGURES[SLUG]
    first, second = figure.cells(figure.config("quick"), {})[:2]
    for cell in (first, second):
        with contextlib.suppress(KeyError), store.scratch([cell], fresh=False) as folder:
            (folder / "step-00000010").mkdir()
            raise KeyError
    store.save(first, {})
    store.tidy()
    assert [path.name for path in (tmp_path / "unfinished").iterdir()] == [key(second)]


def test_a_process_that_was_killed_while_it_saved_or_tidied_loses_nothing(tmp_path, monkeypatch):
    """Of a group of cells, one is saved; later the folder of their checkpoints is half deleted."""
    store, figure = CellStore(tmp_path), training.FIGURES[SLUG]
    cells = figure.cells(figure.config("quick"), {})[:2]
    results = {cell: {"accuracy": index} for index, cell in enumerate(cells)}
    with pytest.raises(KeyboardInterrupt), store.scratch(cells, fresh=False) as folder:
        (folder / "step-00000010").mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(_store, "write_text", _killed_at(3))
            store.save_all(results, folder)
    assert [store.load(cell) for cell in cells] == [{"accuracy": 0}, None]
    with monkeypatch.context() as patch:
        patch.setattr(_store.shutil, "rmtree", lambda path, ignore_errors: path.rmdir() if path.is_dir() else None)
        store.tidy()
    assert [store.load(cell) for cell in cells] == list(results.values())
    assert not list(tmp_path.rglob("step-*"))
    store.tidy()
    assert not list((tmp_path / "unfinished").iterdir())


def _killed_at(number):
    """Return `write_text` that is killed at its call of this number."""
    write, count = _store.write_text, itertools.count(1)

    def wrapped(path, text):
        if next(count) == number:
            raise KeyboardInterrupt
        write(path, text)

    return wrapped


@pytest.mark.slow
def test_without_resuming_nothing_is_taken_up(run, whole, tmp_path, monkeypatch):
    with at(monkeypatch, 3, send(signal.SIGINT)):
        stopped = run("reproduce", tmp_path, "--no-resume")
    assert "the same command without --no-resume goes on" in stopped.err
    want, steps = whole("reproduce")
    with counted(monkeypatch) as taken:
        assert run("reproduce", tmp_path, "--no-resume").code == 0
    assert (faults.found(tmp_path), sum(taken)) == (want, steps)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_and_a_read_only_one(run, whole, disk, monkeypatch, command):
    """Filled up in the second cell, or group: one line, and what was finished is whole. Then there is room again."""
    place = disk("size=8m")
    folder, filler = place / "folder", place / "filler"

    def fill():
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass

    with at(monkeypatch, 6, fill):
        full = run(command, folder)
    assert full.code == USAGE_ERROR
    assert len(full.err.splitlines()) == 1
    assert "No space left on device" in full.err or "disk is full" in full.err
    for path in folder.glob("work/training/*.json"):
        assert json.loads(path.read_text())["result"]["steps"] == 22
    filler.unlink()
    if command == "reproduce":
        assert len(list(folder.glob("work/training/*.json"))) >= 1
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        refused = run(command, folder)
        subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
        assert refused.code == USAGE_ERROR
        assert len(refused.err.splitlines()) == 1
        assert "Read-only file system" in refused.err
    again = run(command, folder)
    assert (again.code, again.err) == (0, "")
    assert faults.found(folder) == whole(command)[0]
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    refused = run("sweep", folder)
    assert refused.code == USAGE_ERROR
    assert len(refused.err.splitlines()) == 1


@pytest.mark.slow
def test_cells_without_the_command_line(tmp_path, monkeypatch, capsys, whole):
    """`python -m mupc.experiments` stops, goes on and complains in the same way."""
    argv = ["run", "fig1", "--preset", "quick", "--work", str(tmp_path / "work")]
    with at(monkeypatch, 2, send(signal.SIGTERM)):
        assert __main__.main(argv) == 143
    help = f"mupc.experiments: {SLUG}: interrupted; what is finished is kept, the same command goes on.\n"
    assert capsys.readouterr().err == help
    (tmp_path / "file").touch()
    assert __main__.main([*argv[:-1], str(tmp_path / "file")]) == USAGE_ERROR
    error = capsys.readouterr().err
    assert "cannot be written (Not a directory)" in error
    assert len(error.splitlines()) == 1
    _, steps = whole("reproduce")
    with counted(monkeypatch) as taken:
        assert __main__.main(argv) == 0
    assert sum(taken) == steps - 10


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_killed_at_a_random_moment(run, whole, tmp_path, command):
    """The short form of `python tests/faults.py 50`; only what is killed gets a process of its own."""

    def end(folder):
        ended = run(command, folder)
        assert (ended.code, ended.err) == (0, "")

    want, _ = whole(command)
    ((between, same),) = faults.trials_of_many(tmp_path, 1, command, kills=1, end=end, want=want)
    assert same, between
