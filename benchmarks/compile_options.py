"""Print how long an update takes to compile and to run with several settings of XLA.

    python benchmarks/compile_options.py [--precision float32] [--methods bp gd] [--width 512] [--hidden-layers 128]

On a GPU most of the wait is XLA's search for the fastest kernel of each product. A process keeps what a search found,
so each method's last row is the only one that searches.
"""

import argparse
import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

import mupc

SETTINGS = {
    "no search": {"xla_gpu_autotune_level": 0},
    "no search, no Triton": {"xla_gpu_enable_triton_gemm": False, "xla_gpu_autotune_level": 0},
    "as it is": {},
}
REPEATS = 20


def update(method, network, precision):
    """Return a function that computes the weight gradients of a batch."""
    if method == "bp":
        return lambda n, x, y: mupc.backprop_gradients(n, x, y, precision=precision)
    solvers = {"error-space": mupc.ErrorSpace(), "gd": mupc.GradientDescent(0.01, network.hidden_layers)}
    energy = mupc.Energy(output_precision=0.01 if method == "error-space" else 1.0)

    def run(network, x, y):
        solution = mupc.infer(network, x, y, solvers[method], energy=energy, precision=precision)
        return mupc.weight_gradients(network, solution, x)

    return run


METHODS = ("bp", "error-space", "gd")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", choices=METHODS, nargs="+", default=METHODS)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--hidden-layers", type=int, default=128)
    options = parser.parse_args()
    network = mupc.Network(784, 10, options.width, options.hidden_layers, key=jr.key(0))
    arrays, static = eqx.partition((network, jnp.ones((64, 784)), jnp.zeros((64, 10))), eqx.is_array)
    print(f"{'':12} {'':20} {'compile s':>9} {'ms':>7}")
    for method in options.methods:
        function = update(method, network, options.precision)

        def program(given, function=function):
            return eqx.filter(function(*eqx.combine(given, static)), eqx.is_array)

        for name, settings in SETTINGS.items():
            jax.clear_caches()
            begin = time.monotonic()
            compiled = jax.jit(program).lower(arrays).compile(compiler_options=settings)
            seconds, times = time.monotonic() - begin, []
            jax.block_until_ready(compiled(arrays))
            for _ in range(REPEATS):
                begin = time.monotonic()
                jax.block_until_ready(compiled(arrays))
                times.append(time.monotonic() - begin)
            print(f"{method:12} {name:20} {seconds:9.1f} {1e3 * statistics.median(times):7.2f}", flush=True)


if __name__ == "__main__":
    main()
