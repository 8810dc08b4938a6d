"""Print how sensitive the output of a residual network becomes to its activities, in training by BP, in error space and
with nudges away from the target and in both directions.

    python benchmarks/sensitivity.py [--widths 4 8 16] [--output-precisions 0.1 1] [--epochs 5]

The sensitivity is |Jᵀr|²/|r|² for each sample, with J the derivative of the output in all errors and r the residual.
Predictive coding is close to backpropagation while λ times the sensitivity is small. It also lowers its energy by
raising the sensitivity, which feeds on itself once that product is near 1. A nudge away from the target lowers it. In
the mean of both directions this effect cancels, to first order (docs/architectures.md).
"""

import argparse

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

import mupc
from mupc.inference import Batch, pose
from mupc.network import resolve_precision

ENERGY = {"loss": "cross-entropy"}


@eqx.filter_jit
def sensitivity(network, x, y):
    """Return |Jᵀr|²/|r|² of each sample: the energy's gradient in the errors, with λ = 1, is Jᵀr."""
    problem = pose(network, Batch(x, y), mupc.Energy(**ENERGY), resolve_precision(None, network))
    linear = problem.linearise(problem.start())
    pulled, residual = linear.downhill(), linear.output_pull()
    return problem.dot(pulled, pulled) / problem.output_dot(residual, residual)


def methods(precisions):
    """Return names, algorithms and λ."""
    found, solver = [("BP", mupc.BP(), None)], mupc.ErrorSpace(cg_steps=1)
    for precision in precisions:
        found.append((f"error space, λ = {precision:g}", mupc.PC(solver), precision))
        found += [
            (f"nudged, {sign}, β = {precision:g}", mupc.Nudged(solver, precision, sign), None)
            for sign in ("negative", "centred")
        ]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--output-precisions", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--blocks", type=int, default=6, help="in each of three stages")
    parser.add_argument("--activation", default="elu")
    parser.add_argument("--weight-lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=float, default=5.0)
    options = parser.parse_args()
    data = mupc.data.load("digits")
    x, y = jnp.asarray(data.normalisation(data.train.raw[:128])), jnp.asarray(data.encode(data.train.targets[:128]))
    print(f"{'width':>5} {'method':26} {'start':>8} {'end':>8} {'largest sample':>14} {'test':>8}")
    for width in options.widths:
        for name, algorithm, precision in methods(options.output_precisions):
            network = mupc.models.resnet(
                data.sample_shape,
                data.out_size,
                width,
                (options.blocks,) * 3,
                activation=options.activation,
                key=jr.key(0),
            )
            result = mupc.fit(
                network,
                data,
                algorithm,
                energy=mupc.Energy(**ENERGY, output_precision=precision),
                epochs=options.epochs,
                weight_lr=options.weight_lr,
                batch_size=64,
                schedule="warmup-cosine",
            )
            before, after = (sensitivity(each, x, y) for each in (network, result.network))
            numbers = f"{before.mean():8.3g} {after.mean():8.3g} {after.max():14.3g}"
            print(f"{width:5} {name:26} {numbers} {result.last['test_accuracy']:8.2%}", flush=True)


if __name__ == "__main__":
    main()
