"""Small runs of `mupc train`, in this process."""

import json
import subprocess

import pytest

from mupc.cli import main

TINY = ["--width", "8", "--hidden-layers", "3", "--epochs", "1", "--evaluate-every", "11", "--no-tensorboard"]


class Run:
    """An ended command: its exit code, what it printed, and its run folder."""

    def __init__(self, code, captured, folder):
        self.code, self.out, self.err, self.folder = code, captured.out, captured.err, folder

    def json(self, name):
        return json.loads((self.folder / name).read_text(), parse_constant=pytest.fail)

    @property
    def metrics(self):
        lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line, parse_constant=pytest.fail) for line in lines]


@pytest.fixture
def mupc(capsys):
    """Runs `mupc` and returns its exit code and output."""

    def run(*argv, folder=None):
        capsys.readouterr()
        return Run(main(list(map(str, argv))), capsys.readouterr(), folder)

    return run


@pytest.fixture
def train(mupc, tmp_path):
    """Runs `mupc train` with a tiny network into a folder of its own."""

    def run(*argv, name="run", tiny=True):
        folder = tmp_path / name
        return mupc("train", *(TINY if tiny else []), "--out", folder, *argv, folder=folder)

    return run


@pytest.fixture
def disk(tmp_path):
    """A disk of a given size."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(*options):
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(place)], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip("a disk can be mounted by root only")
        return place

    try:
        yield mount
    finally:
        subprocess.run(["umount", str(place)], capture_output=True, check=False)
