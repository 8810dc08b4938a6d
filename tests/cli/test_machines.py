"""One run of `mupc train` by several processes of this machine, which is what several machines do."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mupc.cli import main
from mupc.io import find_checkpoint

RUN = ["--width", "8", "--hidden-layers", "5", "--batch-size", "64", "--precision", "float64", "--no-tensorboard"]
LIMIT = 120
"""Seconds after which a process is taken to hang."""


def start(count, out, *flags, others=()):
    """Start `mupc train` in so many processes with two devices each; `others` are flags of all but the first."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    common = [sys.executable, "-m", "mupc.cli", "train", *RUN, "--out", str(out), "--coordinator", address, *flags]
    return [
        subprocess.Popen(
            [*common, "--processes", str(count), "--process-id", str(index), *(others if index else ())],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(count)
    ]


def ends(processes):
    """The exit codes and the last lines of mupc itself."""
    found = [(process.communicate(timeout=LIMIT)[1], process.returncode) for process in processes]
    return [(code, [line for line in errors.splitlines() if line.startswith("mupc")]) for errors, code in found]


def losses(folder):
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return np.array([record["test_loss"] for record in records])


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path):
    flags = ["--solver", "gd", "--epochs", "0.5", "--devices", "data=2,layers=2"]
    assert ends(start(2, tmp_path / "two", *flags)) == [(0, []), (0, [])]
    assert main(["train", *RUN, *flags[:4], "--out", str(tmp_path / "one"), "--quiet"]) == 0
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "one"), rtol=0, atol=1e-10)


@pytest.mark.slow
def test_a_process_that_dies_ends_the_others(tmp_path):
    """The run then goes on in one process, and ends as if nothing had happened."""
    flags, folder = ["--method", "bp", "--epochs", "30", "--evaluate-every", "20"], tmp_path / "two"
    first, second = start(2, folder, *flags)
    limit = time.monotonic() + LIMIT
    while not any((folder / "checkpoints").glob("step-*")):
        assert first.poll() is None and time.monotonic() < limit
        time.sleep(0.05)
    second.send_signal(signal.SIGKILL)
    second.communicate()
    assert first.wait(LIMIT) != 0
    first.communicate()
    assert find_checkpoint(folder / "checkpoints")[0].step > 0
    assert main(["train", "--resume", str(folder), "--quiet"]) == 0
    assert main(["train", *RUN, *flags, "--out", str(tmp_path / "one"), "--quiet"]) == 0
    np.testing.assert_allclose(losses(folder), losses(tmp_path / "one"), rtol=0, atol=1e-10)


@pytest.mark.slow
def test_processes_that_disagree(tmp_path):
    line = "mupc train: process 1 was started for another run: network.width is 4 there, and 8 in process 0. Start all"
    for code, lines in ends(start(2, tmp_path / "run", others=["--width", "4"])):
        assert code == 2 and lines[0].startswith(line)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--devices", "9"], "--devices 9 are more than the 8 CPU found. Use fewer, or force them with XLA_FLAGS=-"),
        (["--devices", "layer=2"], "--devices 'layer' is not known. Did you mean 'layers'? Choose one of: data, la"),
        (["--devices", "data=2,data=4"], "--devices data=2,data=4 is not a number of devices for each axis. Write a"),
        (["--devices", "0"], "--devices 0 is not a number of devices for each axis. Write a number such as 8, or data"),
        (["--devices", "8", "--batch-size", "4"], "--batch-size 4 is less than the 8 devices that share a batch. U"),
        (["--devices", "layers=8", "--hidden-layers", "8"], "--hidden-layers 8 are 7 matrices, fewer than the 8 de"),
        (["--processes", "2"], "--coordinator is missing, and the other processes are not known without it. Give -"),
        (["--coordinator", "a:1", "--processes", "2"], "--process-id is missing, and the other processes are not k"),
        (["--coordinator", "here", "--processes", "2", "--process-id", "1"], "--coordinator here is not HOST:PORT."),
        (["--coordinator", "a:1", "--processes", "2", "--process-id", "2"], "--process-id 2 is not one of 2. Count"),
        (
            ["--coordinator", "127.0.0.1:1", "--processes", "2", "--process-id", "1", "--wait", "1"],
            "--coordinator 127.0.0.1:1 did not answer within 1 s (Connection refused). Start process 0 there, open the",
        ),
    ],
)  # fmt: skip
def test_bad_input(flags, message, tmp_path, capsys):
    assert main(["train", *flags, "--quiet", "--out", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.startswith(f"mupc train: {message}")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_sweep_on_two_devices(tmp_path):
    """Three cells of one program are divided over two devices: one of these has a copy to fill up."""
    flags = ["sweep", *RUN[:-1], "--grid", "weight_lr=0.05,0.02,0.01", "--epochs", "0.2", "--quiet"]
    found = []
    for name, more in (("one", []), ("two", ["--devices", "2"])):
        assert main([*flags, "--out", str(tmp_path / name), *more]) == 0
        found.append([cell["value"] for cell in json.loads((tmp_path / name / "sweep.json").read_text())["cells"]])
    np.testing.assert_allclose(*found, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("script", "result"), [("processes.sh", "summary.json"), ("workers.sh", "sweep.json")])
def test_the_examples(script, result, tmp_path):
    """Both start two processes at the same moment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["sh", Path(__file__).parents[2] / "examples" / script, tmp_path / "out", port]
    done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "out" / result).read_text())
