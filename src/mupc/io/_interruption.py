"""Stop a command on Ctrl-C or SIGTERM, at once or at the next good moment."""

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

SIGNALS = signal.SIGINT, signal.SIGTERM
NOTE = "stopping after the steps in flight; once more to stop at once.\n"


class Interruption:
    """A context that handles Ctrl-C and SIGTERM. Call it to ask whether there was one.

    The first signal is only noted, so that work can stop at the next good moment; a second one raises
    `KeyboardInterrupt`. With `at_once` the first one raises too, except inside `gracefully`. Outside the main thread,
    where Python receives no signals, the context does nothing.

    **Arguments:** the name of the command, for the line that is printed when a signal is noted, and the `signals` to
    handle.
    """

    def __init__(self, command: str, at_once: bool = False, signals: Sequence[int] = SIGNALS) -> None:
        self._line = f"{command}: {NOTE}"
        self._at_once, self._signals = at_once, signals
        self._signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        with contextlib.suppress(ValueError):
            for number in self._signals:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            if handler is not None:  # it was not set by Python
                signal.signal(number, handler)

    @classmethod
    def of_script(cls, name: str) -> "Interruption":
        """Return one for a function that a script calls. It handles Ctrl-C only, and only where that would raise
        `KeyboardInterrupt`: a handler that the script has set stays."""
        default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        return cls(name, signals=[signal.SIGINT] if default else [])

    def __call__(self) -> bool:
        return self._signal is not None

    @contextlib.contextmanager
    def gracefully(self) -> "Iterator[Interruption]":
        """Return a context in which the first signal is only noted."""
        self._at_once, before = False, self._at_once
        try:
            yield self
        finally:
            self._at_once = before

    @property
    def code(self) -> int:
        """The exit code that shells expect: 128 and the number of the signal."""
        return 128 + (signal.SIGINT if self._signal is None else self._signal)

    def _note(self, number: int, frame: FrameType | None) -> None:
        again, self._signal = self._signal is not None, number
        if again or self._at_once:
            raise KeyboardInterrupt
        with contextlib.suppress(OSError):
            line = f"\n{self._line}" if os.isatty(2) else self._line  # the cursor may be after a progress bar
            os.write(2, line.encode())  # the signal may have come inside print(), which cannot be entered again
