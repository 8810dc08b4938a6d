"""SIGTERM for commands that Ctrl-C stops at once."""

import contextlib
import signal
import sys
from types import FrameType
from typing import Any


class Termination:
    """A context in which SIGTERM is an exception at once, as Ctrl-C is; `code` is the exit code by convention. Where
    that leaves the context, because nothing is finished yet, the command ends with one line. Outside the main thread
    Python hears no signals, and nothing is changed.

    **Arguments:** the name of the command, for that line.
    """

    def __init__(self, command: str) -> None:
        self.code = 128 + signal.SIGINT
        self._command = command
        self._before: Any = None

    def __enter__(self) -> "Termination":
        with contextlib.suppress(ValueError):
            self._before = signal.signal(signal.SIGTERM, self._raise)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
        if kind is KeyboardInterrupt and self.code == 128 + signal.SIGTERM:
            print(f"{self._command}: interrupted.", file=sys.stderr)
            raise SystemExit(self.code)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        self.code = 128 + number
        raise KeyboardInterrupt
