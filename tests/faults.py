"""Kill `mupc train`, `mupc sweep` and `mupc reproduce` at random moments, resume each to its end, and compare the
result with that of a run that was not killed.

    python tests/faults.py 50 [train | sweep | reproduce]

kills each of the three fifty times, or only the one named; that takes about ten minutes each. The tests kill fewer, see
`tests/cli/test_cli_resume.py` and `tests/cli/test_unfinished.py`.
"""

import contextlib
import dataclasses
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRAIN = [sys.executable, "-m", "mupc.cli", "train", "--quiet"]
TINY = ["--width", "4", "--hidden-layers", "2", "--evaluate-every", "7", "--checkpoint-every", "3", "--no-tensorboard"]
TIMES = ("seconds", "steps_per_second", "seconds_per_step")
LIMIT = 1800
"""Seconds after which a run counts as one that hangs."""
CHECKPOINTS = 9
"""About as many as the sweep and the reproduction below write."""


def finish(*flags):
    """Run to the end."""
    ended = subprocess.run([*TRAIN, *map(str, flags)], capture_output=True, text=True, check=False, timeout=LIMIT)
    assert ended.returncode == 0, ended.stderr


def kill(folder, lines, delay, *flags):
    """Kill a run `delay` seconds after it has made its folder and recorded `lines` evaluations."""
    with subprocess.Popen([*TRAIN, *map(str, flags), "--out", str(folder)], stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and (not folder.exists() or count(folder / "metrics.jsonl") < lines):
            time.sleep(0.002)
        time.sleep(delay)
        process.kill()


def count(file):
    return file.read_bytes().count(b"\n") if file.exists() else 0


def outcome(folder):
    """Return the result of a run without times: the bytes of the network, the records and the number of steps."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    network = (folder / "checkpoints" / "network.safetensors").read_bytes()
    return network, [timeless(line) for line in lines], summary["steps"]


def timeless(value):
    """Return JSON without times."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in TIMES}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def state(folder):
    """Describe where a killed run stood."""
    if not (folder / "config.json").exists():
        return "nothing there yet"
    if (folder / "summary.json").exists():
        return "finished"
    found = sorted(path.name for path in (folder / "checkpoints").glob("*step-*"))
    return ", ".join(found) or "no checkpoint yet"


def trials(root, number, flags, seed=0, finish=finish):
    """Kill `number` runs and resume each. Yield where it stood when killed, and whether its result is that of the run
    that was not killed. Moments are spread over the run by what it has recorded, and at random in between."""
    finish(*flags, "--out", root / "whole")
    want = outcome(root / "whole")
    draw = random.Random(seed)
    for index in range(number):
        folder = root / f"run-{index}"
        lines = draw.randrange(len(want[1]) + 1)
        kill(folder, lines, draw.uniform(0, 0.2 if lines else 2), *flags)
        between = state(folder)
        again = ["--resume", folder] if (folder / "config.json").exists() else [*flags, "--out", folder]
        finish(*again)
        yield between, outcome(folder) == want


def many(command, folder):
    """Return the arguments of `mupc` for a tiny sweep or reproduction, some cells of which train side by side."""
    if command == "sweep":
        flags = ["--width", "4", "--hidden-layers", "2", "--epochs", "1", "--evaluate-every", "10"]
        vary = ["--method", "bp", "--grid", "weight_lr=0.1,0.03,0.01", "--grid", "seed=0,1", "--group", "2"]
        return [command, *flags, *vary, "--out", folder, "--quiet"]
    return [command, "fig1", "--out", folder, "--work", folder / "work", "--quiet"]


def tiny_figure():
    """Make fig1 tiny: two seeds of μPC, then BP, tuned side by side."""
    from mupc.experiments import training
    from mupc.experiments._training import Rates, TrainingConfig, run_group

    rates = (Rates("mupc", (0.1,), (16.0,)), Rates("bp", (0.1, 0.01), tune_depth=2))
    sizes = {"widths": (4,), "depths": (2,), "seeds": 2, "evaluate_every": 10}
    config = TrainingConfig(data="digits", rates=rates, **sizes)
    slug = "mupc-vs-pc-mnist-accs"
    changes = {"presets": {"quick": config}, "run_group": run_group}
    training.FIGURES[slug] = dataclasses.replace(training.FIGURES[slug], **changes)


def run(argv):
    """Run `mupc` with a tiny fig1 and a checkpoint at each evaluation, however small the network is."""
    from mupc.cli import main
    from mupc.training import _checkpoint_policy

    tiny_figure()
    _checkpoint_policy.PAUSE = _checkpoint_policy.WAIT = 0
    return main(list(map(str, argv)))


def found(folder):
    """Return the results of a sweep or a reproduction without times and numbers of attempts."""
    cells = folder / "sweep.json" if (folder / "sweep.json").exists() else folder / "mupc-vs-pc-mnist-accs.json"
    content = timeless(json.loads(cells.read_text(encoding="utf-8")))
    assert content["complete"], content
    assert not list(folder.rglob("*step-*"))
    rows = content["cells"] if "rows" in content else content["data"]
    return [{key: value for key, value in row.items() if key != "attempts"} for row in rows]


def unfinished(folder):
    """Return the checkpoints of half-trained cells."""
    with contextlib.suppress(FileNotFoundError):  # a checkpoint was taken away meanwhile
        return [path for path in folder.glob("**/unfinished/**/step-*") if path.is_dir()]
    return []


def begin(argv, **options):
    script = "import sys, faults; sys.exit(faults.run(sys.argv[1:]))"
    return subprocess.Popen([sys.executable, "-c", script, *map(str, argv)], cwd=Path(__file__).parent, **options)


def trials_of_many(root, number, command, seed=0, kills=2, end=None, want=None):
    """As `trials`, for a sweep or a reproduction that is killed `kills` times. Moments are spread by the checkpoints
    written, and at random in between."""

    def finish(folder):
        with begin(many(command, folder), stderr=subprocess.PIPE, text=True) as process:
            assert process.communicate(timeout=LIMIT)[1] == ""
            assert process.returncode == 0

    def kill(folder, checkpoints, delay):
        """Kill a run `delay` seconds after it has written `checkpoints` checkpoints."""
        seen = set()
        with begin(many(command, folder), stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and len(seen) < checkpoints:
                seen.update(unfinished(folder))
                time.sleep(0.01)
            time.sleep(delay)
            process.kill()

    end = end or finish
    if want is None:
        end(root / "whole")
        want = found(root / "whole")
    draw = random.Random(seed)
    for index in range(number):
        folder = root / f"run-{index}"
        between = []
        for _ in range(kills):
            kill(folder, draw.randrange(CHECKPOINTS // kills), draw.uniform(0, 0.2))
            between.append(", ".join(sorted(path.name for path in unfinished(folder))) or "no checkpoint")
        end(folder)
        yield " and ".join(between), found(folder) == want
        shutil.rmtree(folder)


def main():
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    bad = 0
    for command in sys.argv[2:] or ("train", "sweep", "reproduce"):
        with tempfile.TemporaryDirectory() as root:
            train = command == "train"
            flags = [*TINY, "--epochs", "6"]
            kills = trials(Path(root), number, flags) if train else trials_of_many(Path(root), number, command)
            same = 0
            for index, (between, equal) in enumerate(kills, start=1):
                same += equal
                print(f"{command} {index}: killed with {between}: {'same' if equal else 'DIFFERENT'}", flush=True)
        print(f"{command}: {same} of {number} runs ended bit for bit as the one that was not killed", flush=True)
        bad += number - same
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
