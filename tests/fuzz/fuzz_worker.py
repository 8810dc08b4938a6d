"""A process that takes inputs, one line of JSON each, and reports how each ended. Its parent is `fuzz_client.py`.

Long computations (training, measuring) are cut off where they would begin, after all checks.
"""

import contextlib
import importlib
import io
import json
import os
import resource
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mupc.data import DataError

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults import outcome

ROOM = 6 * 2**30  # beyond what the process has at the start, so that no input takes the machine with it
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")
touched: list[str] = []


class Enough(DataError):
    """All checks passed. A `DataError`, because `reproduce` goes on to the next cell after other errors."""


def stop(*args: Any, **options: Any) -> Any:
    raise Enough("fuzz: all checks passed, now it would compute.")


def cut_off() -> None:
    """Stop commands where they begin to compute."""
    for module, name in (
        ("mupc.cli.train_job", "fit"),
        ("mupc.cli.sweep_job", "_work"),
        ("mupc.cli.check_job", "RunFolder"),
        ("mupc.diagnostics", "coordinate_sizes"),
        ("mupc.cli.hessian_job", "find_ends"),
        ("mupc.training._fit_many", "_start"),
        ("mupc.bench", "measure_case"),
        ("mupc.experiments._runner", "_compute"),
    ):
        found = importlib.import_module(module)
        assert hasattr(found, name), f"{module} has no {name} any more: say here where it begins to compute"
        setattr(found, name, stop)


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Note every path that is written to or changed; an audit hook."""
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES:
        note(arguments[0])
    elif event in CHANGES:
        for path in arguments[: 2 if event in ("os.rename", "os.link") else 1]:
            note(path)


def note(path: Any) -> None:
    if isinstance(path, str | bytes | os.PathLike) and os.fspath(path) != os.devnull:
        touched.append(os.path.abspath(os.fsdecode(path)))


def command(argv: list[str]) -> int:
    from mupc.cli import main

    return main(argv)


def resume(folder: str, whole: str) -> int:
    """Resume a run without the stop; if it ends well, its result must be that of `whole`."""
    import mupc
    from mupc.cli import train_job

    train_job.fit = mupc.fit
    mupc.plots.draw_learning_curve = mupc.plots.draw_credit_reach = lambda *arguments: None
    try:
        code = command(["train", "--resume", folder, "--quiet"])
    finally:
        train_job.fit = stop
    assert code or outcome(Path(folder)) == outcome(Path(whole)), "silently wrong"
    return code


def library(call: Callable[..., Any]) -> Callable[..., int]:
    """Wrap a call of the library so that errors show as on the command line."""

    def run(*arguments: Any) -> int:
        from mupc.cli.runner import complain, explain

        try:
            call(*arguments)
        except (ValueError, OSError) as error:
            return complain("mupc", explain(error), 2)
        return 0

    return run


def data(name: str, folder: str | None) -> None:
    from mupc import data

    dataset = data.load(name, data_dir=folder, verify=False, download=False)
    assert dataset.x_train[:2].shape[1] == dataset.in_size and dataset.y_test.shape[1] == dataset.out_size


def network(path: str) -> None:
    import mupc

    assert mupc.load(path).network.in_size > 0


def config(path: str) -> None:
    from mupc.cli.config import TrainFlags, load

    assert isinstance(load(path), TrainFlags)


def misbehave(how: str, path: str) -> int:
    """Do something that the client must notice."""
    if how == "raise":
        raise RuntimeError(how)
    if how == "hang":
        threading.Event().wait()
    if how == "touch":
        Path(path).write_text(how)
    if how == "grow":
        assert len(b"1" * 1_100_000_000)
    if how == "talk":
        print("mupc: one line\nand another", file=sys.stderr)
        return 2
    return 0


OPERATIONS = {
    "misbehave": misbehave,
    "command": command,
    "resume": resume,
    "data": library(data),
    "network": library(network),
    "config": library(config),
}


def memory(name: str) -> int:
    """Return VmRSS or VmHWM of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


def answer(line: str) -> dict[str, Any]:
    operation, *arguments = json.loads(line)
    touched.clear()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    before, out, err = memory("VmRSS"), io.StringIO(), io.StringIO()
    touched.clear()
    trace = ""
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = OPERATIONS[operation](*arguments)
    except BaseException:
        code, trace = -1, traceback.format_exc()
    return {
        "code": code,
        "err": err.getvalue(),
        "trace": trace,
        "grown": memory("VmHWM") - before,
        "touched": sorted(set(touched)),
    }


def lines() -> Iterator[str]:
    while line := sys.stdin.readline():
        yield line


if __name__ == "__main__":
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to standard error
    cut_off()
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
    sys.addaudithook(watch)
    for request in lines():
        print(json.dumps(answer(request)), file=replies, flush=True)
