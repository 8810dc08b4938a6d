"""Show how far work is: a bar on a terminal, plain lines elsewhere, nothing on a quiet console.

Import this module where it is needed: rich takes a while.
"""

import time
from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.progress import Progress, ProgressColumn, Task
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

BAR = 10, 40
"""The narrowest and the widest bar, in characters."""
ROOM = 12
"""Characters that the time left may take."""
MARGIN = 4
"""Characters left free: between bar and text, and for the ^C that a terminal echoes."""


def percent(fraction: float | None) -> str:
    """Return a fraction as 12.3 %."""
    return "–" if fraction is None else f"{100 * fraction:.1f} %"


def clock(seconds: float) -> str:
    """Return seconds as 0:07 or 1:02:03."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def say(console: Console, line: str) -> None:
    """Show a line as it is; only the terminal wraps it."""
    console.print(line, soft_wrap=True, highlight=False, markup=False)


class ProgressDisplay:
    """A context in which `update` shows how far a command is.

    **Arguments:** the `console`, what is counted (`unit`, such as "step"), what happens before the first one is done
    (`waiting`, such as "compiling …"), and whether to `estimate` the time left from the pace since the first update.

    **Example:**

    ```python
    with ProgressDisplay(console, "step", "compiling …") as progress:
        progress.update(11, 22, ["loss 0.2500", "accuracy 50.0 %"])
    ```
    """

    def __init__(self, console: Console, unit: str, waiting: str = "", estimate: bool = True) -> None:
        self.console, self._unit, self._waiting, self._estimate = console, unit, waiting, estimate
        self._bar = Progress(_Line(console), console=console, disable=console.quiet or not console.is_terminal)
        self._task = self._bar.add_task(waiting, total=None, parts=(), deadline=None)
        self._first: tuple[float, int] | None = None

    def __enter__(self) -> "ProgressDisplay":
        if self._bar.disable and self._waiting:
            say(self.console, self._waiting)
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def update(
        self, done: int, total: int, parts: Sequence[str] = (), *, left: float | None = None, plain: str | None = None
    ) -> None:
        """Show that `done` of `total` are done.

        **Arguments:** more to show in `parts`, the most important first: a narrow terminal leaves the last ones out.
        The seconds `left`, where they are not estimated. What is shown instead where there is no terminal (`plain`, ""
        for nothing).
        """
        left = self._time_left(done, total) if self._estimate else left
        count = f"{self._unit} {done}/{total}"
        if not self._bar.disable:
            shown = count if done or not self._waiting else self._waiting
            end = time.monotonic() + left if left else None
            self._bar.update(self._task, description=shown, total=total, completed=done, parts=parts, deadline=end)
        elif plain is None:
            say(self.console, "  ".join([count, *parts, *([f"{clock(left)} left"] if left else [])]))
        elif plain:
            say(self.console, plain)

    def _time_left(self, done: int, total: int) -> float | None:
        now = time.monotonic()
        if self._first is None:
            self._first = now, done
        begin, before = self._first
        return (now - begin) / (done - before) * (total - done) if done > before else None


class _Line(ProgressColumn):
    """A bar, the count, as many parts as fit, and the time left, which counts down between updates."""

    max_refresh = 0.5

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def render(self, task: Task) -> RenderableType:
        deadline = task.fields["deadline"]
        words = [task.description, *task.fields["parts"]]
        columns = self._console.width - MARGIN
        room = columns - BAR[0] - ROOM
        while len(words) > 1 and len(" · ".join(words)) > room:
            words.pop()
        if deadline is not None:
            words.append(f"{clock(deadline - time.monotonic())} left")
        text = " · ".join(words)
        width = min(BAR[1], max(BAR[0], columns - len(text)))
        line = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=task.total, completed=task.completed, width=width, pulse=task.total is None)
        line.add_row(bar, Text(text, no_wrap=True, overflow="ellipsis"))
        return line
