"""Print what a step of `fit` costs if every step is followed by an evaluation, next to one with fewer of them.

    python benchmarks/evaluations.py [--repeats 3] [--freed]

Evaluations themselves are not counted. Both ways take turns. With `--freed`, the C library gives memory back to the
system, as it does without `mupc.io.keep_freed_memory`.
"""

import argparse
import statistics

import jax.random as jr

import mupc
from mupc.training import _loop

SIZES = ((64, 16, 100, 12), (128, 32, 100, 10), (512, 32, 20, 2))
"""Width, hidden layers, steps between two evaluations, and epochs."""


def milliseconds(network, dataset, every, epochs):
    """Return the median time of a step with an evaluation after this number of steps."""
    result = mupc.fit(network, dataset, mupc.ErrorSpace(), epochs=epochs, evaluate_every=every)
    return 1e3 * statistics.median(1 / record["steps_per_second"] for record in result.history[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--freed", action="store_true")
    flags = parser.parse_args()
    if flags.freed:
        _loop.keep_freed_memory = lambda: None
    digits = mupc.data.load("digits")
    print("width  layers  every step  fewer  ratio")
    for width, layers, every, epochs in SIZES:
        network = mupc.Network(digits.in_size, digits.out_size, width=width, hidden_layers=layers, key=jr.key(0))
        milliseconds(network, digits, 1, 1), milliseconds(network, digits, every, epochs)  # compile
        for _ in range(flags.repeats):
            often, seldom = (milliseconds(network, digits, n, epochs) for n in (1, every))
            print(f"{width:5}  {layers:6}  {often:7.2f} ms  {seldom:5.2f}  {often / seldom:5.2f}")


if __name__ == "__main__":
    main()
