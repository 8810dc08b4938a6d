"""Print how much of the energy's decrease error space keeps when it does without conjugate gradients.

    python benchmarks/descent.py [--model mlp|resnet] [--width 64] [--hidden-layers 16] [--data digits] [--epochs 5]

For every output precision λ a network is trained, and one training batch is inferred at the start and at the end of
training: as training does, and always with two conjugate-gradient steps. `passes` counts products with all weights in
an update; backpropagation has three.
"""

import argparse

import jax.numpy as jnp
import jax.random as jr

import mupc
from mupc.inference import Batch, pose
from mupc.network import POLICIES

PRECISIONS = (0.01, 0.1, 1.0)


def passes(network, x, y, energy, solver):
    """Return how many passes an update takes, from the bounds that the solver finds."""
    problem = pose(network, Batch(x, y), energy, POLICIES["float32"])
    start = problem.start()
    linear = problem.linearise(start)
    downhill = linear.downhill()
    found = linear.descent(downhill, problem.follow(downhill).errors.output - start.errors.output)
    if found.left_at_one <= solver.cg_tol:
        return 4
    return 5 if found.left_at_best <= solver.cg_tol else 4 + 2 * solver.cg_steps


def energy_decrease(network, x, y, energy, solver):
    start = mupc.infer(network, x, y, mupc.ErrorSpace(steps=0), energy=energy).energy
    return float(start - mupc.infer(network, x, y, solver, energy=energy).energy)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("mlp", "resnet"), default="mlp")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--hidden-layers", type=int, default=16)
    parser.add_argument("--activation", default="relu")
    parser.add_argument("--parameterisation", default="mupc")
    parser.add_argument("--data", default="digits")
    parser.add_argument("--data-dir")
    parser.add_argument("--epochs", type=float, default=5)
    options = parser.parse_args()
    dataset = mupc.data.load(options.data, data_dir=options.data_dir)
    x, y = jnp.asarray(dataset.x_train[:64]), jnp.asarray(dataset.y_train[:64])
    if options.model == "resnet":
        network = mupc.models.resnet(dataset.sample_shape, dataset.out_size, width=options.width, key=jr.key(0))
    else:
        settings = {"activation": options.activation, "parameterisation": options.parameterisation, "key": jr.key(0)}
        network = mupc.Network(dataset.in_size, dataset.out_size, options.width, options.hidden_layers, **settings)
    solver, plain = mupc.ErrorSpace(), mupc.ErrorSpace(cg_tol=None)
    print(f"{'λ':>5} {'':8} {'passes':>6} {'share of the decrease':>22}")
    for precision in PRECISIONS:
        energy = mupc.Energy(output_precision=precision)
        trained = mupc.fit(network, dataset, solver, energy=energy, epochs=options.epochs, seed=0).network
        for stage, now in {"fresh": network, "trained": trained}.items():
            found, most = (energy_decrease(now, x, y, energy, each) for each in (solver, plain))
            print(f"{precision:5g} {stage:8} {passes(now, x, y, energy, solver):6} {found / most:22.4f}", flush=True)


if __name__ == "__main__":
    main()
