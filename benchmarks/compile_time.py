"""Compile time over depth: one PC weight update and BP, for H = 16 and H = 512 at a small width.

python benchmarks/compile_time.py
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

import mupc


def compile_seconds(depth: int, width: int, method: str) -> float:
    network = mupc.Network(64, 10, width, depth, key=jr.key(0))
    x, y = jnp.ones((8, 64)), jnp.zeros((8, 10))

    def pc(network, x, y):
        solution = mupc.infer(network, x, y, mupc.GradientDescent(lr=0.01, steps=depth))
        return mupc.weight_gradients(network, solution, x)

    function = eqx.filter_jit(pc if method == "pc" else mupc.backprop_gradients)
    begin = time.perf_counter()
    function.lower(network, x, y).compile()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depths", type=int, nargs="+", default=[16, 64, 512])
    options = parser.parse_args()
    compile_seconds(options.depths[0], options.width, "pc")  # warm up
    print(f"compile time in seconds, N={options.width}, device {jax.devices()[0].device_kind}, jax {jax.__version__}")
    print("method " + "".join(f"{f'H={depth}':>9}" for depth in options.depths) + "    last / first")
    for method in ("pc", "bp"):
        times = [compile_seconds(depth, options.width, method) for depth in options.depths]
        print(f"{method:7}" + "".join(f"{t:9.2f}" for t in times) + f"{times[-1] / times[0]:16.2f}")


if __name__ == "__main__":
    main()
