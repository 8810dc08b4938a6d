"""What Ctrl-C and SIGTERM do to a run, or to anything that trains."""

import contextlib
import os
import signal
from types import FrameType
from typing import Any

NOTE = "stopping after the steps in flight; once more to stop at once.\n"


class Interruption:
    """A context in which the first Ctrl-C or SIGTERM is noted, and a second one is an exception at once. Calling it
    says whether there was one. Outside the main thread Python hears no signals, and nothing is changed.

    **Arguments:** the name of the command, for the line that is shown then.
    """

    def __init__(self, command: str) -> None:
        self._line = f"{command}: {NOTE}".encode()
        self._signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        with contextlib.suppress(ValueError):
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        return self._signal is not None

    @property
    def code(self) -> int:
        """The exit code by convention."""
        return 128 + (signal.SIGINT if self._signal is None else self._signal)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._signal is not None:
            raise KeyboardInterrupt
        self._signal = number
        with contextlib.suppress(OSError):
            os.write(2, self._line)  # print() must not be entered twice
