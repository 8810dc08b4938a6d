"""Print where the time of an update in error space goes: what each part adds, next to backpropagation.

    python benchmarks/passes.py [--width 512] [--hidden-layers 32] [--output-precision 0.01]

Every row is a program of its own, compiled whole, that stops after one part more than the row before. All are timed in
turns. `passes` counts products with all weights: backpropagation has three.
"""

import argparse

import jax
import jax.random as jr

import mupc
from mupc.bench import compile_call, time_in_turns
from mupc.inference import Batch, pose
from mupc.network import resolve_precision


def programs(energy, precision):
    """Return the parts of an update by name: a function and the passes that it has taken by then."""
    policy = resolve_precision(precision, None)

    def posed(network, x, y):
        problem = pose(network, Batch(x, y), energy, policy)
        return problem, problem.start()

    def forward(network, x, y):
        problem, _ = posed(network, x, y)
        return problem.base, problem.base_output

    def gradient(network, x, y):
        problem, start = posed(network, x, y)
        return problem.linearise(start).downhill().hidden

    def followed(network, x, y):
        problem, start = posed(network, x, y)
        downhill = problem.linearise(start).downhill()
        point = problem.follow(downhill)
        return problem.values(point), point.delta.hidden

    def inferred(solver):
        def run(network, x, y):
            found = mupc.infer(network, x, y, solver, energy=energy, precision=precision)
            return found.activities, found.errors

        return run

    def updated(solver):
        def run(network, x, y):
            found = mupc.infer(network, x, y, solver, energy=energy, precision=precision)
            return mupc.weight_gradients(network, found, x)

        return run

    return {
        "backpropagation": (lambda n, x, y: mupc.backprop_gradients(n, x, y, precision=precision), "3"),
        "forward pass": (forward, "1"),
        "+ gradient in the errors (pass down)": (gradient, "2"),
        "+ activities follow (pass up)": (followed, "3"),
        "+ bound, line search: inference": (inferred(mupc.ErrorSpace()), "3"),
        "+ weight gradients: an update": (updated(mupc.ErrorSpace()), "4"),
        "update, always 1 CG step": (updated(mupc.ErrorSpace(cg_steps=1, cg_tol=None)), "5"),
        "update, always 2 CG steps": (updated(mupc.ErrorSpace(cg_tol=None)), "7"),
        "update, always 3 CG steps": (updated(mupc.ErrorSpace(cg_steps=3, cg_tol=None)), "9"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--hidden-layers", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--output-precision", type=float, default=0.01)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    network = mupc.Network(784, 10, options.width, options.hidden_layers, key=jr.key(0))
    x = jr.normal(jr.key(1), (options.batch_size, 784))
    y = jax.nn.one_hot(jr.randint(jr.key(2), (options.batch_size,), 0, 10), 10)
    energy = mupc.Energy(output_precision=options.output_precision)
    parts = programs(energy, options.precision)
    calls = {name: compile_call(function, network, x, y) for name, (function, _) in parts.items()}
    times = time_in_turns(calls, options.repeats)
    base = times["backpropagation"]["fastest_s"]
    print(f"{'':38} {'passes':>6} {'ms':>8} {'times BP':>9} {'compile s':>10}")
    for name, (_, passes) in parts.items():
        taken = times[name]
        fastest = taken["fastest_s"]
        print(f"{name:38} {passes:>6} {1e3 * fastest:8.2f} {fastest / base:9.2f} {taken['trace_compile_s']:10.1f}")


if __name__ == "__main__":
    main()
