"""Three workers share a sweep and one is killed during a trial, on a real PostgreSQL server and on SQLite.

This takes a minute and needs the server's programs (Debian: postgresql), so only `make test-postgres` runs it.
"""

import collections
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import optuna
import pytest
from optuna.trial import TrialState

pytestmark = pytest.mark.skipif("MUPC_TEST_POSTGRES" not in os.environ, reason="make test-postgres runs it")

CELLS = 18
SWEEP = [
    *("--grid", "weight_lr=0.2,0.1,0.05", "--grid", "activity_lr=0.5,0.2", "--grid", "seed=0,1,2"),
    *("--width", "32", "--hidden-layers", "8", "--epochs", "10", "--group", "2", "--heartbeat", "2", "--quiet"),
]


@pytest.fixture(scope="module")
def server():
    """Start a PostgreSQL server on loopback with its own data directory, and return its URL."""
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not programs:
        pytest.fail("PostgreSQL is not installed: apt-get install postgresql.")
    root = os.geteuid() == 0  # initdb refuses to run as root
    who = {"user": "postgres", "group": "postgres", "extra_groups": []} if root else {}
    folder = tempfile.mkdtemp(prefix="mupc-postgres-")
    if root:
        shutil.chown(folder, "postgres", "postgres")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(program, *words):
        line = [os.path.join(programs[-1], program), "-D", f"{folder}/data", *words]
        subprocess.run(line, check=True, cwd=folder, stdout=subprocess.DEVNULL, **who)

    try:
        run("initdb", "-A", "trust", "-U", "mupc")
        run("pg_ctl", "-w", "-l", f"{folder}/log", "-o", f"-h 127.0.0.1 -p {port} -k {folder}", "start")
        yield f"postgresql://mupc@127.0.0.1:{port}/postgres"
        run("pg_ctl", "-m", "fast", "stop")
    finally:
        shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request, tmp_path):
    return f"sqlite:///{tmp_path}/shared.db" if request.param == "sqlite" else request.getfixturevalue("server")


def start(*words):
    return subprocess.Popen([sys.executable, "-m", "mupc.cli", "sweep", *words], stderr=subprocess.PIPE, text=True)


def trials(storage):
    opened = optuna.storages.RDBStorage(storage.replace("postgresql://", "postgresql+psycopg://"))
    try:
        return optuna.load_study(study_name="sweep", storage=opened).trials
    finally:
        opened.engine.dispose()


def running_at(storage, process):
    """Return the cells that a worker holds."""
    return {
        trial.user_attrs["cell"]
        for trial in trials(storage)
        if trial.state is TrialState.RUNNING and trial.user_attrs.get("worker", "").endswith(f":{process.pid}")
    }


def wait_for(condition, worker):
    """Wait until the condition is true, while the worker lives."""
    while not (found := condition()):
        assert worker.poll() is None, worker.stderr.read()
        time.sleep(0.2)
    return found


def test_a_killed_worker_loses_nothing_and_nothing_is_done_twice(storage, tmp_path):
    out = tmp_path / "sweep"
    first = start(*SWEEP, "--storage", storage, "--out", str(out))
    workers = [first]
    try:
        wait_for(lambda: (out / "sweep.json").exists(), first)
        workers += [start("work", "--storage", storage, "--group", "2", "--quiet") for _ in range(2)]
        victim = workers[1]
        held = wait_for(lambda: running_at(storage, victim), victim)
        victim.send_signal(signal.SIGKILL)
        assert victim.wait(60) == -signal.SIGKILL
        held &= running_at(storage, victim)  # but for what it finished between the two lines above
        assert held, "the victim was killed between two groups"
        for worker in (first, workers[2]):
            assert worker.wait(300) == 0, worker.stderr.read()
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
            worker.stderr.close()

    states = collections.defaultdict(list)
    for trial in trials(storage):
        states[trial.user_attrs["cell"]].append(trial.state)
    assert sorted(states) == list(range(CELLS))
    for cell, found in states.items():
        assert found.count(TrialState.COMPLETE) == 1, (cell, found)
        assert set(found) <= {TrialState.COMPLETE, TrialState.FAIL}
        assert len(found) > 1 or cell not in held
    helpers = {t.user_attrs["worker"] for t in trials(storage) if t.state is TrialState.COMPLETE}
    print(f"\n{storage.split(':')[0]}: the killed worker held {sorted(held)}; completed by {len(helpers)} workers")

    saved = json.loads((out / "sweep.json").read_text())
    assert saved["complete"] and saved["counts"] == {"cells": CELLS, "complete": CELLS, "failed": 0, "diverged": 0}
    assert all(cell["completed"] == 1 and cell["value"] == cell["results"]["train_loss"] for cell in saved["cells"])
    assert saved["best"]["value"] == min(row["value"] for row in saved["rows"])
