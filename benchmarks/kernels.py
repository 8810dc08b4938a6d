"""Print which operations of the device an update spends its time in.

    python benchmarks/kernels.py [gd|error-space|bp] [--width 512] [--hidden-layers 32] [--precision float32]

JAX's profiler traces a few updates. Operations with the same name but for a number count as one. On a GPU they are
kernels. On a CPU they are parts of the program, of which several may run at the same time, and a loop counts as one
operation next to those inside it.
"""

import argparse
import collections
import re
import tempfile
from pathlib import Path

import jax
import jax.random as jr

import mupc
from mupc.bench import compile_call

UPDATES, MOST = 5, 20
"""How many updates to trace, and how many operations to print."""


def update(method, steps, precision):
    """Return a function that computes the weight gradients of a batch."""
    if method == "bp":
        return lambda n, x, y: mupc.backprop_gradients(n, x, y, precision=precision)
    solver, output_precision = mupc.ErrorSpace(), 0.01
    if method == "gd":
        solver, output_precision = mupc.GradientDescent(0.5 / 64, steps), 1.0
    energy = mupc.Energy(output_precision=output_precision)

    def run(network, x, y):
        return mupc.weight_gradients(network, mupc.infer(network, x, y, solver, energy=energy, precision=precision), x)

    return run


def operations(folder):
    """Return the milliseconds and the number of calls of every operation in a trace."""
    times, calls = collections.Counter(), collections.Counter()
    for file in Path(folder).rglob("*.xplane.pb"):
        for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
            for line in plane.lines:
                if line.name.startswith("Stream") or "XLA" in line.name:
                    for event in (event for event in line.events if "::" not in event.name):  # not the runtime's own
                        name = re.sub(r"[.\d]+$", "", event.name)
                        times[name] += event.duration_ns / 1e6
                        calls[name] += 1
    return times, calls


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method", choices=("gd", "error-space", "bp"), nargs="?", default="error-space")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--hidden-layers", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--precision", default="float32")
    options = parser.parse_args()
    network = mupc.Network(784, 10, options.width, options.hidden_layers, key=jr.key(0))
    x = jr.normal(jr.key(1), (options.batch_size, 784))
    y = jax.nn.one_hot(jr.randint(jr.key(2), (options.batch_size,), 0, 10), 10)
    call = compile_call(update(options.method, options.hidden_layers, options.precision), network, x, y)
    jax.block_until_ready(call())
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(UPDATES):
                jax.block_until_ready(call())
        times, calls = operations(folder)
    print(f"{'operation':60} {'calls':>6} {'ms':>8}   in one update of {options.method}")
    for name, taken in times.most_common(MOST):
        print(f"{name[:60]:60} {calls[name] / UPDATES:6.0f} {taken / UPDATES:8.3f}")


if __name__ == "__main__":
    main()
