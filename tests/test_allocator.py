import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, numpy
from mupc.io import keep_freed_memory

def page_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        numpy.ones(2**23)  # 64 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = page_faults()
keep_freed_memory()
numpy.ones(2**23)
print(first, page_faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep memory")
def test_memory_that_is_kept_costs_no_page_faults():
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    before, after = map(int, ended.stdout.split())
    assert before > 20 * after
