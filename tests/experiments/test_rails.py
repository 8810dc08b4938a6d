"""Cells are saved one by one, reused, shared out and merged; results are strict JSON and never worse than before."""

import contextlib
import dataclasses
import json
import shutil
import threading
import time

import pytest

from mupc import data, experiments
from mupc.experiments import _driver, _runner
from mupc.io import Interruption


@pytest.fixture
def store(tmp_path):
    return experiments.CellStore(tmp_path / "work")


def execute(toy, store, report=lambda *ended: None, **how):
    figure, options = toy.figure, experiments.RunOptions(**how)
    return experiments.execute(figure, figure.config("paper"), store, experiments.RunContext(), options, report)


def strict_loads(text):
    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_both_stages_run_and_each_cell_once(toy, store):
    progress = execute(toy, store)
    assert progress.complete and len(progress.finished) == 8
    assert len(toy.calls) == len(set(toy.calls)) == 8
    assert {cell.choice for cell in toy.calls if cell.stage == "second"} == {16}


def test_finished_cells_are_not_computed_again(toy, store):
    execute(toy, store)
    again = execute(toy, store)
    assert len(toy.calls) == 8 and again.complete
    execute(toy, store, resume=False)
    assert len(toy.calls) == 16


@pytest.mark.parametrize("content", ["", "{", "[]", '{"cell": {}, "result": {}}', '{"result": {"value": 5}}', "\x00"])
def test_damaged_files_are_computed_again(toy, store, content):
    execute(toy, store)
    victim = toy.calls[0]
    store.path(victim).write_text(content)
    toy.calls.clear()
    execute(toy, store)
    assert toy.calls == [victim]
    assert store.load(victim)["value"] == 1


def test_an_interrupted_run_keeps_what_it_finished(toy, store):
    toy.fail = {3: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        execute(toy, store)
    assert [cell.size for cell in toy.calls] == [1, 2]
    toy.fail = {}
    execute(toy, store)
    assert len(toy.calls) == 8
    assert not [*store.root.rglob("*.tmp"), *store.root.rglob("*.part")]


def test_a_cell_that_fails_costs_no_other(toy, store):
    toy.fail = {2: RuntimeError("out of memory\nand so on")}
    seen = []
    progress = execute(toy, store, report=lambda cell, result, done, known: seen.append((cell.size, result is None)))
    assert list(progress.failed.values()) == ["RuntimeError: out of memory"]
    assert seen == [(1, False), (2, True), (3, False), (4, False)]
    assert not progress.complete


def test_missing_data_ends_the_run(toy, store):
    toy.fail = {2: data.DataError("mnist is not there: fetch it")}
    with pytest.raises(data.DataError):
        execute(toy, store)
    assert len(list(store.root.rglob("*.json"))) == 1


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_shards_cover_each_cell_once(toy, store, count):
    figure = toy.figure
    execute(toy, store)
    known = experiments.execute(figure, figure.config("paper"), store, experiments.RunContext()).known
    shards = [experiments.Shard(index, count) for index in range(1, count + 1)]
    assert [sum(cell in shard for shard in shards) for cell in known] == [1] * 8


def test_shards_on_several_machines_merge_by_copying(toy, tmp_path):
    stores = [experiments.CellStore(tmp_path / str(index)) for index in (1, 2)]
    for _ in range(2):  # the second stage starts when the first is everywhere
        for index, store in enumerate(stores, 1):
            execute(toy, store, shard=experiments.Shard(index, 2))
        for source, target in (stores, stores[::-1]):
            if source.root.exists():
                shutil.copytree(source.root, target.root, dirs_exist_ok=True)
    assert len(toy.calls) == 8
    figure = toy.figure
    assert _runner.gather(figure, figure.config("paper"), stores[0].load).complete


def test_a_clone_goes_on_from_a_result_that_is_not_complete(toy, store, tmp_path, monkeypatch):
    figure, out, fresh = toy.figure, tmp_path / "results", experiments.CellStore(tmp_path / "fresh")
    config, whole = figure.config("paper"), execute(toy, store)
    part = dataclasses.replace(whole, finished=dict([*whole.finished.items()][:6]))
    assert experiments.recall(figure, config, fresh, out) == 0, "there is no result yet"
    experiments.save_record(figure, experiments.figure_record(figure, "paper", config, part), out)
    with monkeypatch.context() as patch:
        patch.setattr(type(toy.calls[0]), "version", 2)
        assert experiments.recall(figure, config, fresh, out) == 0, "the code has changed its numbers since"
    assert experiments.recall(figure, config, fresh, out) == 6
    assert [fresh.load(cell) for cell in part.finished] == [store.load(cell) for cell in part.finished]
    computed = toy.calls[6:]
    toy.calls.clear()
    assert execute(toy, fresh).complete and toy.calls == computed
    assert experiments.recall(figure, config, fresh, out) == 0, "nothing is missing"


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_wrong_shards_are_refused(text):
    with pytest.raises(ValueError, match="1/4"):
        experiments.Shard.parse(text)


def test_no_cell_starts_after_the_limit(toy, store):
    progress = execute(toy, store, seconds_limit=0.0)
    assert not toy.calls and not progress.complete


def test_cells_are_computed_at_the_same_time(toy, store):
    """Each cell waits for another one; the second stage still follows the first."""
    barrier, run = threading.Barrier(2, timeout=600), toy.run_cell

    def run_cell(cell, context):
        barrier.wait()
        return run(cell, context)

    toy.run_cell = run_cell
    begin = time.perf_counter()
    progress = execute(toy, store, at_once=2)
    assert progress.complete and len(toy.calls) == 8
    assert {cell.stage for cell in toy.calls[:4]} == {"first"}
    shares = [result["seconds"] for result in progress.finished.values()]
    assert 0 < sum(shares) <= time.perf_counter() - begin


def test_time_is_shared_out(monkeypatch):
    now = iter([0.0, 2.0, 6.0, 7.0])
    monkeypatch.setattr(_runner.time, "perf_counter", lambda: next(now))
    clock = _runner.SharedClock()
    first, second = clock.enter(), clock.enter()
    assert clock.leave() - first == 2 + 4 / 2
    assert clock.leave() - second == 4 / 2 + 1


def test_cells_of_one_program_are_not_computed_at_the_same_time(toy, store, monkeypatch):
    lock, run = threading.Lock(), toy.run_cell
    cell = toy.cells(toy.figure.config("paper"), {})[0]
    monkeypatch.setattr(type(cell), "program", property(lambda cell: cell.stage))

    def run_cell(cell, context):
        assert lock.acquire(blocking=False)
        time.sleep(0.01)
        lock.release()
        return run(cell, context)

    toy.run_cell = run_cell
    progress = execute(toy, store, at_once=4)
    assert progress.complete and not progress.failed


@pytest.mark.parametrize("error", [KeyboardInterrupt(), data.DataError("mnist is not there: fetch it")])
def test_what_ends_one_of_several_ends_the_run(toy, store, error):
    toy.fail = {3: error}
    with pytest.raises(type(error)):
        execute(toy, store, at_once=2)
    saved = len(toy.calls)
    assert 2 <= saved <= 3 and len(list(store.root.rglob("*.json"))) == saved
    toy.fail = {}
    assert execute(toy, store, at_once=2).complete and len(toy.calls) == 8


def test_one_of_several_that_fails_costs_no_other(toy, store):
    toy.fail = {2: RuntimeError("out of memory")}
    progress = execute(toy, store, at_once=3)
    assert list(progress.failed.values()) == ["RuntimeError: out of memory"]
    assert {cell.size for cell in progress.finished} == {1, 3, 4}


def test_results_are_strict_and_have_what_is_promised(toy, store, tmp_path):
    figure = toy.figure
    config = figure.config("paper", "bf16")
    progress = experiments.execute(figure, config, store, experiments.RunContext())
    path = experiments.save_record(
        figure, experiments.figure_record(figure, "paper", config, progress), tmp_path / "results"
    )
    result = strict_loads(path.read_text())
    for key in ("slug", "preset", "config", "data", "claims", "device", "seconds", "precision", "versions"):
        assert key in result
    assert result["complete"] and result["precision"] == "bf16" and result["seconds"] >= 0
    assert set(result["claims"][0]) == {"id", "claim", "measured", "expected", "verdict"}
    assert [row["value"] for row in result["data"]] == [1, 4, 9, 16, 17, 20, 25, 32]
    assert result["data"][0]["bad"] is None and result["data"][0]["worse"] == [None, 1.0]
    assert path.with_suffix(".png").exists()


@pytest.mark.parametrize("preset", experiments.PRESETS)
def test_what_was_checked_goes_with_a_claim_that_fails_at_the_paper_preset(toy, preset):
    judged = [experiments.Claim(verdict, verdict, "1", "2", verdict) for verdict in experiments.VERDICTS[:2]]
    figure = dataclasses.replace(
        toy.figure, claims=lambda config, table: judged, checked=lambda config, table, claim: f"why it {claim.claim}"
    )
    config = figure.config(preset)
    result = experiments.figure_record(
        figure, preset, config, experiments.FigureProgress({}, toy.cells(config, {}), {})
    )
    assert [claim.get("checked") for claim in result["claims"]] == [None, "why it fails" if preset == "paper" else None]


def saved(toy, out, preset, finished):
    figure = toy.figure
    config = figure.config(preset)
    known = toy.cells(config, {})
    done = {cell: {"value": 1} for cell in known[:finished]}
    progress = experiments.FigureProgress(done, known, {})
    return experiments.save_record(figure, experiments.figure_record(figure, preset, config, progress), out).name


def test_a_better_result_is_never_overwritten(toy, tmp_path):
    assert saved(toy, tmp_path, "quick", 4) == "toy-ill-cond.json"
    assert saved(toy, tmp_path, "paper", 2) == "toy-ill-cond.json"
    assert saved(toy, tmp_path, "quick", 4) == "toy-ill-cond-quick.json"
    assert saved(toy, tmp_path, "paper", 1) == "toy-ill-cond-partial.json"
    assert saved(toy, tmp_path, "paper", 3) == "toy-ill-cond.json"


def test_status_tells_how_far_a_figure_is(toy, tmp_path):
    def state():
        return experiments.figure_states(tmp_path)

    assert set(state().values()) == {"ready"}
    saved(toy, tmp_path, "quick", 3)
    assert state()["toy-ill-cond"] == "done at the quick preset, 3 of at least 4 cells"
    saved(toy, tmp_path, "paper", 2)
    assert state()["toy-ill-cond"] == "done at the paper preset, 2 of at least 4 cells"
    (tmp_path / "broken.json").write_text("{")
    assert len(state()) == 42 + len(experiments.BEYOND)


class Notes:
    """A reporter that remembers."""

    def __init__(self):
        self.told, self.problems, self.concluded = [], [], []

    @contextlib.contextmanager
    def watch(self, slug):
        yield lambda *ended: None

    def tell(self, line):
        self.told.append(line)

    def complain(self, line):
        self.problems.append(line)

    def conclude(self, figure, config, progress):
        self.concluded.append(len(progress.finished))
        return 0


def drive(toy, store, figures=1, **how):
    notes, job = Notes(), (toy.figure, toy.figure.config("paper"))
    interruption = Interruption("test")
    code = experiments.run_figures([job] * figures, store, notes, interruption, experiments.RunOptions(**how))
    return code, notes


def test_the_driver_goes_on_after_missing_data_and_not_after_an_interruption_or_a_full_disk(toy, store):
    toy.fail = {1: data.DataError("mnist is not there: fetch it")}
    code, notes = drive(toy, store, figures=2)
    assert (code, notes.concluded) == (2, [])
    assert notes.problems == ["toy-ill-cond: mnist is not there: fetch it"] * 2
    toy.fail = {2: KeyboardInterrupt()}
    code, notes = drive(toy, store, figures=2)
    assert code == 130 and notes.problems == [
        "toy-ill-cond: interrupted; what is finished is kept, the same command goes on."
    ]
    toy.fail = {2: OSError(28, "No space left on device")}
    code, notes = drive(toy, store, figures=2)
    assert code == 2 and len(notes.problems) == 1
    assert f"{store.root} cannot be written (No space left on device)" in notes.problems[0]
    toy.fail = {2: RuntimeError("broken")}
    code, notes = drive(toy, store, figures=2)
    assert (code, notes.concluded, len(notes.problems)) == (1, [3, 3], 2)


def test_the_limit_is_for_all_figures_together(toy, store, monkeypatch):
    now, limits = [0.0], []

    def execute(figure, config, store, context, options, report):
        limits.append(options.seconds_limit)
        now[0] += 40.0
        return experiments.FigureProgress({}, [], {})

    monkeypatch.setattr(_driver, "execute", execute)
    monkeypatch.setattr(_driver.time, "monotonic", lambda: now[0])
    drive(toy, store, figures=4, seconds_limit=100.0)
    assert limits == [100.0, 60.0, 20.0, 0.0]
