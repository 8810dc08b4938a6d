"""Time one update of each algorithm on the same network, and compare it with what it must cost, in one run.

    python benchmarks/family.py --width 256 --hidden-layers 16

Nudging is compared with PC, both with gradient descent and in error space. iPC is compared with T activity steps and T
weight updates, each measured by itself: steps as differences between T and no steps of PC from given activities, where
no layer is left out, and a weight update as local gradients and one step of Adam. An amortised start is compared with
PC, others with BP.
"""

import argparse

import jax
import jax.numpy as jnp
import jax.random as jr

import mupc
from mupc.bench import compile_call, time_in_turns
from mupc.inference import Batch, infer_batch
from mupc.learning import LearningContext, solution_gradients


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--hidden-layers", type=int, default=16)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()

    network = mupc.Network(784, 10, options.width, options.hidden_layers, key=jr.key(0))
    labels = jr.randint(jr.key(2), (options.batch_size,), 0, 10)
    batch = Batch(jr.normal(jr.key(1), (options.batch_size, 784)), jax.nn.one_hot(labels, 10))
    energy = mupc.Energy(output_precision=1.0)
    context = LearningContext(energy, jnp.asarray(0.01), "adam", "constant", jnp.asarray(100), "float32")
    descent, reaching = mupc.GradientDescent(0.01, options.steps), mupc.ErrorSpace()
    algorithms = {
        "BP": mupc.BP(),
        "Z-IL": mupc.ZIL(),
        "PC, gd": mupc.PC(descent),
        "nudged, gd": mupc.Nudged(descent, 0.3, "positive"),
        "centred, gd": mupc.Nudged(descent, 0.3, "centred"),
        "PC, error space": mupc.PC(reaching),
        "nudged, error space": mupc.Nudged(reaching, 0.3, "positive"),
        "centred, error space": mupc.Nudged(reaching, 0.3, "centred"),
        "iPC, gd": mupc.IPC(descent),
        "PC-ALM": mupc.ALM(steps=options.steps),
        "amortised, gd": mupc.Amortised(descent),
    }

    def call(algorithm):
        state = algorithm.init(network, context)
        return compile_call(lambda s, b: algorithm.update(s, b, jr.key(0), context)[0], state, batch)

    def inferred(steps):
        """Inference from given activities: every step moves every layer."""
        start = network.forward_pass(batch.x, context.policy)[0]
        placed = Batch(batch.x, batch.y, start)
        solver = mupc.GradientDescent(0.01, steps)
        return compile_call(lambda n, b: infer_batch(n, b, solver, energy, context.policy), network, placed)

    solution = infer_batch(network, batch, descent, energy, context.policy)
    state = mupc.BP().init(network, context)
    update = compile_call(
        lambda s, found, b: s.descended(solution_gradients(s.network, found, b.x, energy), context),
        state,
        solution,
        batch,
    )
    parts = {"steps": inferred(options.steps), "no steps": inferred(0), "weights": update}
    found = time_in_turns({**{name: call(a) for name, a in algorithms.items()}, **parts}, options.repeats)
    times = {name: timing["median_s"] for name, timing in found.items()}
    apart = times["steps"] - times["no steps"] + options.steps * times["weights"]
    compared = {
        **dict.fromkeys(("nudged, gd", "centred, gd", "amortised, gd"), ("PC, gd", times["PC, gd"])),
        **{
            name: ("PC, error space", times["PC, error space"])
            for name in algorithms
            if name.endswith("d, error space")
        },
        **dict.fromkeys(("Z-IL", "PC, gd", "PC, error space", "PC-ALM"), ("BP", times["BP"])),
        "iPC, gd": (f"{options.steps} activity and weight steps", apart),
    }
    print(f"{options.hidden_layers} hidden layers of {options.width}, T = {options.steps}, B = {options.batch_size}")
    for name in algorithms:
        against, seconds = compared.get(name, ("", float("nan")))
        ratio = f"{times[name] / seconds:6.2f} × {against}" if against else ""
        print(f"{name:22s} {1e3 * times[name]:9.2f} ms {ratio}")


if __name__ == "__main__":
    main()
