"""Show the progress of training, in scripts and on the command line."""

from types import TracebackType

from rich.console import Console

from ..io.progress import ProgressDisplay, percent, say
from ._evaluation import TrainStatus
from ._state import Record


class TrainProgress:
    """A context, and a callback of `fit` that shows each record in it: the step, the loss, the score, how many layers
    learn, the speed and the time left.

    **Arguments:** the `console`; by default the standard error stream, so that the output of a script stays its own.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = Console(stderr=True) if console is None else console
        self._display = ProgressDisplay(self.console, "step", "compiling …", estimate=False)
        self._compiled = False  # the first interval of training includes compiling

    def __enter__(self) -> "TrainProgress":
        self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.__exit__(kind, error, trace)

    def __call__(self, status: TrainStatus) -> None:
        record = status.record
        step, total = record["step"], record["total_steps"]
        rate = record.get("steps_per_second") if self._compiled else None
        self._compiled = self._compiled or step > 0
        self._display.update(step, total, parts(record, rate), left=(total - step) / rate if rate else None)

    def say(self, line: str) -> None:
        """Show a line above the bar."""
        say(self.console, line)


def parts(record: Record, rate: float | None) -> list[str]:
    """Return what is shown of a record, the most important first, with a `rate` in steps per second."""
    loss = record.get("train_loss", record.get("test_loss"))
    found = [] if loss is None else [f"loss {loss:.4f}" if 1e-3 <= loss < 1e3 else f"loss {loss:.3g}"]
    for name, shown in (("perplexity", "{:.2f}".format), ("accuracy", percent), ("r2", "{:.3f}".format)):
        scores = {split: record[key] for split in ("test", "validation") if (key := f"{split}_{name}") in record}
        title = "R²" if name == "r2" else name
        if len(scores) == 2:  # patience and the best network go by the second
            found += [f"test {title} {shown(scores['test'])}", f"validation {shown(scores['validation'])}"]
        else:
            found += [f"{title} {shown(score)}" for score in scores.values()]
    if "learning_layers" in record:
        regime = f" ({record['regime']})" if record.get("regime") else ""
        found.append(f"{record['learning_layers']}/{record['layers']} layers learn{regime}")
    if rate:
        found.append(f"{rate:.0f} steps/s" if rate >= 10 else f"{rate:.2g} steps/s")
    return found
