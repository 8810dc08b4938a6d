import sys

import pytest
from fuzz_client import FULL, Fuzzer

from mupc.cli import main

total = 0


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory):
    """One process for all inputs of a test module."""
    global total
    if not sys.platform.startswith("linux"):
        pytest.skip("memory is measured as Linux tells it")
    fuzzer = Fuzzer(tmp_path_factory.mktemp("fuzz"))
    yield fuzzer
    fuzzer.close()
    total += fuzzer.count


@pytest.fixture(scope="session")
def ended(tmp_path_factory):
    """The folder of a small run that has ended, with checkpoints of steps 11 and 22. Take copies."""
    folder = tmp_path_factory.mktemp("ended") / "run"
    flags = ["--width", "3", "--hidden-layers", "2", "--method", "bp", "--epochs", "1", "--checkpoint-every", "11"]
    assert main(["train", *flags, "--no-tensorboard", "--quiet", "--out", str(folder)]) == 0
    return folder


def pytest_terminal_summary(terminalreporter):
    if FULL:
        terminalreporter.write_line(f"{total:,} inputs")
