"""Print the relative error of hidden weight gradients against float64, by distance from the output: for increments (the
library) and for plain gradient descent on full activities, in the same precisions. Then the relative error of the whole
gradient in error space, next to that of backpropagation.

    python benchmarks/precision.py
"""

import argparse

import jax

jax.config.update("jax_enable_x64", True)

import equinox as eqx  # noqa: E402
import jax.flatten_util  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import jax.random as jr  # noqa: E402
import numpy as np  # noqa: E402

import mupc  # noqa: E402
from mupc.network import POLICIES  # noqa: E402


def increments(network, x, y, lr, steps, precision):
    """Return the library's gradients."""
    solution = mupc.infer(network, x, y, mupc.GradientDescent(lr, steps), precision=precision)
    return mupc.weight_gradients(network, solution, x).hidden.weight


def error_space(network, x, y, output_precision, precision):
    """Return the gradients of all weights in error space; by backpropagation if λ is 0."""
    if not output_precision:
        return mupc.backprop_gradients(network, x, y, precision=precision)
    energy = mupc.Energy(output_precision=output_precision)
    solution = mupc.infer(network, x, y, mupc.ErrorSpace(), energy=energy, precision=precision)
    return mupc.weight_gradients(network, solution, x)


def relative_error(got, exact):
    """Return |got − exact| / |exact| over all weights."""
    got, exact = (jax.flatten_util.ravel_pytree(tree)[0].astype(jnp.float64) for tree in (got, exact))
    return float(jnp.linalg.norm(got - exact) / jnp.linalg.norm(exact))


@eqx.filter_jit
def full_activities(network, x, y, lr, steps, precision):
    """Return the gradients of the same descent with errors as differences of full activities (ResNet, no biases)."""
    policy = POLICIES[precision]
    network, x, y = policy.cast((network, x, y))
    first, hidden, last = network.multipliers
    phi, weights, readout = network.activation, network.hidden.weight, network.readout.weight
    start = first * policy.contract("ij,bj->bi", network.input.weight, x)

    def up(z, weight):
        return z + hidden * policy.contract("ij,bj->bi", weight, phi(z))

    def errors(z):
        predicted = jnp.concatenate([start[None], jax.vmap(up)(z[:-1], weights)])
        return z - predicted, last * policy.contract("ij,bj->bi", readout, phi(z[-1]))

    def step(_, z):
        e, output = errors(z)
        below = hidden * policy.contract("lij,lbi->lbj", weights, e[1:])
        top = last * policy.contract("ij,bi->bj", readout, y - output)
        skipped = jnp.pad(e[1:], ((0, 1), (0, 0), (0, 0)))
        return z - lr * (e - skipped - phi.derivative(z) * jnp.concatenate([below, top[None]]))

    _, rest = jax.lax.scan(lambda z, weight: (up(z, weight),) * 2, start, weights)
    z = jax.lax.fori_loop(0, steps, step, jnp.concatenate([start[None], rest]))
    e, _ = errors(z)
    return -hidden * policy.contract("lbi,lbj->lij", e[1:], phi(z)[:-1]) / len(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--hidden-layers", type=int, default=32)
    parser.add_argument("--below", type=int, nargs="+", default=[1, 3, 6, 10, 15, 20])
    options = parser.parse_args()
    depth, lr = options.hidden_layers, 0.5 / 64
    print(
        f"N={options.width} H=T={depth} B=64, the paper's β=0.5, "
        f"device {jax.devices()[0].device_kind}, jax {jax.__version__}"
    )
    for activation in ("relu", "tanh"):
        network = mupc.Network(784, 10, options.width, depth, activation=activation, key=jr.key(0))
        network = jax.tree.map(lambda w: w.astype(jnp.float32), network)
        x, y = jr.normal(jr.key(1), (64, 784), jnp.float32), jnp.eye(10)[jnp.arange(64) % 10]
        exact = np.asarray(increments(network, x, y, lr, depth, "float64"))
        rows = [depth - 1 - below for below in options.below]
        print(f"\n| {activation}, layers below the output | " + " | ".join(map(str, options.below)) + " |")
        print("|---" * (len(rows) + 1) + "|")
        print("| gradient norm | " + " | ".join(f"{np.linalg.norm(exact[row]):.0e}" for row in rows) + " |")
        for name, method in (("increments", increments), ("full activities", full_activities)):
            for precision in ("float32", "tf32", "bf16"):
                if precision == "tf32" and jax.default_backend() != "gpu":
                    continue
                got = np.asarray(method(network, x, y, lr, depth, precision), np.float64)
                gaps = [np.linalg.norm(got[r] - exact[r]) / np.linalg.norm(exact[r]) for r in rows]
                print(f"| {name}, {precision} | " + " | ".join(f"{gap:.0e}" for gap in gaps) + " |")
        print(f"\n| {activation}, whole gradient | BP | λ = 0.01 | λ = 0.1 | λ = 1 |\n|---|---|---|---|---|")
        for precision in ("float32", "bf16"):
            pairs = ([error_space(network, x, y, lam, p) for p in (precision, "float64")] for lam in (0, 0.01, 0.1, 1))
            print(f"| {precision} | " + " | ".join(f"{relative_error(*pair):.1e}" for pair in pairs) + " |")


if __name__ == "__main__":
    main()
