import sys

import pytest
from fuzz_client import FULL, Fuzzer

total = 0


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory):
    """One process for the inputs of a file of tests."""
    global total
    if not sys.platform.startswith("linux"):
        pytest.skip("memory is measured as Linux tells it")
    fuzzer = Fuzzer(tmp_path_factory.mktemp("fuzz"))
    yield fuzzer
    fuzzer.close()
    total += fuzzer.count


def pytest_terminal_summary(terminalreporter):
    if FULL:
        terminalreporter.write_line(f"{total:,} inputs")
