"""Train for a long time in one process, and check that memory and file handles do not grow.

    python tests/soak.py 20000 200

takes 20,000 steps as `mupc train` does, with evaluations and checkpoints, then calls `mupc.fit` 200 times; some five
minutes in all. Linux only, as what a process has is read from /proc.
"""

import contextlib
import itertools
import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import jax.random as jr
from rich.console import Console

import mupc
from mupc.cli.config import TrainFlags
from mupc.cli.flags import MachineFlags, TrainOutputFlags
from mupc.cli.runner import Session
from mupc.cli.train import SafetyFlags
from mupc.cli.train_job import train

WARM_UP, MOST_GROWTH, SHOWN = 0.2, 0.05, 10
STEPS_PER_EPOCH = 22  # of the digits, in batches of 64


class Sample(NamedTuple):
    """What the process holds after `at` steps or calls; memory in bytes."""

    at: int
    memory: int
    handles: int
    threads: int


def sample(at):
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Sample(at, pages * os.sysconf("SC_PAGE_SIZE"), *(len(os.listdir(f"/proc/self/{x}")) for x in ("fd", "task")))


class Watch:
    """Stand in for the signal handler: asked every 20 steps whether to stop, take a sample."""

    def __init__(self):
        self.samples = []

    def __call__(self):
        self.samples.append(sample(20 * len(self.samples)))
        return False

    def gracefully(self):
        return contextlib.nullcontext()


def train_long(folder, steps):
    """Train one run of `steps` steps."""
    watch = Watch()
    config = TrainFlags(width=16, hidden_layers=3, epochs=steps / STEPS_PER_EPOCH, evaluate_every=40)
    session = Session("soak", Console(quiet=True), watch)
    summary = train(
        config, TrainOutputFlags(out=str(folder)), SafetyFlags(checkpoint_every=20), MachineFlags(), session
    )
    assert summary["steps"] == steps, summary
    return watch.samples


def fit_often(folder, calls):
    """Train `calls` short runs, each with another seed and rate and checkpoints of its own."""
    digits = mupc.data.load("digits")
    samples = []
    for call in range(calls):
        network = mupc.Network(digits.in_size, digits.out_size, width=16, hidden_layers=3, key=jr.key(call))
        solver = mupc.GradientDescent(lr=0.4 / (1 + call), steps=3)
        mupc.fit(network, digits, solver, weight_lr=0.1 / (1 + call), seed=call, checkpoints=folder / str(call))
        samples.append(sample(call + 1))
    return samples


def growth(samples):
    """Return by how much memory (as a fraction) and handles rise after the warm-up, above the least seen before."""
    rest = samples[int(WARM_UP * len(samples)) :]
    memory, handles = ([getattr(taken, name) for taken in rest] for name in ("memory", "handles"))
    least = itertools.accumulate(memory, min)  # the system may take pages back, which would hide what comes after
    return max(now / low - 1 for now, low in zip(memory, least, strict=True)), max(handles) - min(handles)


def judge(title, samples):
    """Print a table of a few samples and the verdict; return whether nothing grows."""
    print(f"\n{title:>10} {'memory/MB':>10} {'handles':>8} {'threads':>8}")
    for index in sorted({round(place * (len(samples) - 1) / SHOWN) for place in range(SHOWN + 1)}):
        taken = samples[index]
        print(f"{taken.at:>10,} {taken.memory / 1e6:>10.1f} {taken.handles:>8} {taken.threads:>8}")
    memory, handles = growth(samples)
    flat = memory <= MOST_GROWTH and handles <= 0
    print(f"at most {memory:+.1%} memory and {handles:+} handles after warm-up: {'flat' if flat else 'NOT FLAT'}")
    return flat


def main():
    steps, calls = map(int, sys.argv[1:] or ("20000", "200"))
    with tempfile.TemporaryDirectory() as folder:
        flat = judge("steps", train_long(Path(folder, "run"), steps))
        flat &= judge("calls", fit_often(Path(folder), calls))
    return int(not flat)


if __name__ == "__main__":
    sys.exit(main())
