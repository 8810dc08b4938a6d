"""Memory of the machine, and of the C library, from which arrays on a CPU come."""

import ctypes
import functools
import os
import sys

MMAP_MAX, TRIM_THRESHOLD = -4, -1
"""Numbers of two settings of glibc's `mallopt`."""


def physical_memory() -> int:
    """Return the bytes of memory that the machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@functools.cache
def keep_freed_memory() -> None:
    """Have glibc keep the memory of freed arrays for the next ones. By default it gives large blocks back to the
    system, and every call of a program waits for their pages again. Other C libraries stay as they are."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(MMAP_MAX, 0)
        mallopt(TRIM_THRESHOLD, 2**31 - 1)
