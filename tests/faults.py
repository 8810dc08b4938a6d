"""Kills `mupc train` at random moments, goes on with each run to its end, and compares with a run nobody killed.

    python tests/faults.py 50

takes some ten minutes. The tests do the same with fewer, see `tests/cli/test_cli_resume.py`.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRAIN = [sys.executable, "-m", "mupc.cli", "train", "--quiet"]
TINY = ["--width", "4", "--hidden-layers", "2", "--evaluate-every", "7", "--checkpoint-every", "3", "--no-tensorboard"]
TIMES = ("seconds", "steps_per_second")
LIMIT = 300


def finish(*flags):
    """A run to its end."""
    ended = subprocess.run([*TRAIN, *map(str, flags)], capture_output=True, text=True, check=False, timeout=LIMIT)
    assert ended.returncode == 0, ended.stderr


def kill(folder, lines, delay, *flags):
    """A run that is killed so many seconds after it has made its folder, and recorded so many evaluations."""
    with subprocess.Popen([*TRAIN, *map(str, flags), "--out", str(folder)], stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and (not folder.exists() or count(folder / "metrics.jsonl") < lines):
            time.sleep(0.002)
        time.sleep(delay)
        process.kill()


def count(file):
    return file.read_bytes().count(b"\n") if file.exists() else 0


def outcome(folder):
    """What a run has come to, but for how long it took: the bytes of the network, and the records."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    records = [{key: value for key, value in line.items() if key not in TIMES} for line in lines]
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return (folder / "checkpoints" / "network.safetensors").read_bytes(), records, summary["steps"]


def state(folder):
    """Where a killed run stood, in words."""
    if not (folder / "config.json").exists():
        return "nothing there yet"
    if (folder / "summary.json").exists():
        return "finished"
    found = sorted(path.name for path in (folder / "checkpoints").glob("*step-*"))
    return ", ".join(found) or "no checkpoint yet"


def trials(root, number, flags, seed=0, finish=finish):
    """Kills so many runs and goes on with each. Yields where it stood when killed, and whether it came out as the
    one that nobody killed. Moments are spread over the run by what it has recorded, and at random in between."""
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


def main():
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    same = 0
    with tempfile.TemporaryDirectory() as root:
        for index, (between, equal) in enumerate(trials(Path(root), number, [*TINY, "--epochs", "6"]), start=1):
            same += equal
            print(f"{index}: killed with {between}: {'same' if equal else 'DIFFERENT'}", flush=True)
    print(f"{same} of {number} runs ended bit for bit as the one that was not killed")
    return int(same < number)


if __name__ == "__main__":
    sys.exit(main())
