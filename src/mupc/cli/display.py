"""What a training run shows while it goes: a progress bar on a terminal, plain lines elsewhere, or nothing."""

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

Record = dict[str, Any]


def percent(fraction: float | None) -> str:
    return "–" if fraction is None else f"{100 * fraction:.1f} %"


def clock(seconds: float) -> str:
    """Seconds as 0:07 or 1:02:03."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def speed(steps_per_second: float) -> str:
    return f"{steps_per_second:.0f} steps/s" if steps_per_second >= 10 else f"{steps_per_second:.2g} steps/s"


def words(record: Record) -> dict[str, str]:
    """The parts of a record that are shown, as text; those it has not got are left out."""
    loss = record.get("train_loss", record.get("test_loss"))
    found = {"loss": f"loss {loss:.4f}"} if loss is not None else {}
    if "test_accuracy" in record:
        found["accuracy"] = f"accuracy {percent(record['test_accuracy'])}"
    if "learning_layers" in record:
        regime = f" ({record['regime']})" if record.get("regime") else ""
        found["layers"] = f"{record['learning_layers']}/{record['layers']} layers learn{regime}"
    if record.get("steps_per_second"):
        found["speed"] = speed(record["steps_per_second"])
    return found


def time_left(record: Record) -> float | None:
    rate = record.get("steps_per_second")
    return (record["total_steps"] - record["step"]) / rate if rate else None


def say(console: Console, line: str) -> None:
    """A line for people, as it is, wrapped by the terminal alone."""
    console.print(line, soft_wrap=True, highlight=False, markup=False)


class Display:
    """A context in which `update(record)` shows each evaluation. Shows nothing if `quiet`."""

    def __init__(self, console: Console, title: str, quiet: bool = False) -> None:
        self.console, self.title, self.quiet = console, title, quiet
        self._bar = _bar(console) if console.is_terminal and not quiet else None
        self._trained = 0  # evaluations after training steps; the first of them includes compiling
        self._task = self._bar.add_task("compiling …", total=None, note="", deadline=None) if self._bar else None

    def __enter__(self) -> "Display":
        self.say(self.title)
        if self._bar:
            self._bar.start()
        else:
            self.say("compiling …")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, line: str) -> None:
        """A line for people, wrapped by the terminal alone."""
        if not self.quiet:
            say(self.console, line)

    def update(self, record: Record) -> None:
        """Shows an evaluation."""
        self._trained += record["step"] > 0
        if self._trained == 1:
            record = record | {"steps_per_second": None}
        left = time_left(record)
        if self._bar is not None and self._task is not None:
            begun = record["step"] > 0
            self._bar.update(
                self._task,
                description="training" if begun else "compiling …",
                total=record["total_steps"],
                completed=record["step"],
                note=" · ".join(words(record).values()),
                deadline=None if left is None else time.monotonic() + left,
            )
            return
        parts = [f"step {record['step']}/{record['total_steps']}", *words(record).values()]
        if left:
            parts.append(f"{clock(left)} left")
        self.say("  ".join(parts))


class _TimeLeft(ProgressColumn):
    """Counts down between evaluations, at the speed of the latest interval."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        deadline = task.fields.get("deadline")
        return Text("" if deadline is None else f"{clock(deadline - time.monotonic())} left", style="cyan")


def _bar(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        _TimeLeft(),
        console=console,
    )
