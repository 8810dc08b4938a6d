"""One PC weight update, ours against the unrolled baseline, in one run.

    python benchmarks/inference.py --width 512 --hidden-layers 32 --batch-size 64

Prints times, their ratio, compile times, and the rate of matrix arithmetic beside the machine's own matmul rate.
"""

import argparse
import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import unrolled

import mupc


def seconds(functions: dict, repeats: int) -> tuple[dict, dict]:
    """Compile-and-first-run time of each, and the median of later runs, taken in turns so that a machine that
    slows down slows all of them."""
    times = {name: [] for name in functions}
    for _ in range(repeats + 1):
        for name, function in functions.items():
            begin = time.perf_counter()
            jax.block_until_ready(function())
            times[name].append(time.perf_counter() - begin)
    first = {name: taken[0] for name, taken in times.items()}
    return first, {name: statistics.median(taken[1:]) for name, taken in times.items()}


def window_flops(network: mupc.Network, batch: int, steps: int) -> float:
    """Arithmetic that the window cannot avoid: two products per reached layer and step, and the learning."""
    depth, reach = network.hidden_layers, max(1, network.skip)
    product = 2 * batch * network.width**2
    reached = sum(min(depth, reach * (t + 1)) for t in range(steps))
    return product * (2 * reached + 2 * depth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--hidden-layers", type=int, default=32)
    parser.add_argument("--steps", type=int, help="default: as many as hidden layers")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--activation", default="relu")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    steps = options.hidden_layers if options.steps is None else options.steps

    network = mupc.Network(784, 10, options.width, options.hidden_layers, activation=options.activation, key=jr.key(0))
    x = jr.normal(jr.key(1), (options.batch_size, 784))
    y = jax.nn.one_hot(jr.randint(jr.key(2), (options.batch_size,), 0, 10), 10)
    solver = mupc.GradientDescent(lr=0.5 / 64, steps=steps)

    @eqx.filter_jit
    def update(network, x, y):
        solution = mupc.infer(network, x, y, solver, precision=options.precision)
        return mupc.weight_gradients(network, solution, x)

    backprop = eqx.filter_jit(lambda n, x, y: mupc.backprop_gradients(n, x, y, precision=options.precision))
    baseline = unrolled.update_functions(network.skip, 0.5 / 64, options.batch_size)
    layers = unrolled.unstack(network)
    size = 2048
    square = jr.normal(jr.key(0), (size, size))
    matmul = jax.jit(lambda a: jnp.matmul(a, a, precision=jax.lax.Precision.HIGHEST))
    first, then = seconds(
        {
            "mupc": lambda: update(network, x, y),
            "unrolled, step by step": lambda: unrolled.weight_gradients(baseline, layers, x, y, steps),
            "backprop": lambda: backprop(network, x, y),
            "large matmul": lambda: matmul(square),
        },
        options.repeats,
    )

    print(f"device {jax.devices()[0].device_kind}, jax {jax.__version__}, {options.precision}, {options.activation}")
    print(f"N={options.width} H={options.hidden_layers} T={steps} B={options.batch_size}, one weight update")
    print(f"{'':28}{'compile + first (s)':>20}{'then (ms)':>12}")
    for name in first:
        print(f"{name:28}{first[name]:20.2f}{1e3 * then[name]:12.2f}")
    rate = window_flops(network, options.batch_size, steps) / then["mupc"]
    peak = 2 * size**3 / then["large matmul"]
    print(f"unrolled / mupc = {then['unrolled, step by step'] / then['mupc']:.2f}")
    print(f"{rate / 1e9:.0f} GFLOP/s inside the window, {100 * rate / peak:.0f} % of a large matmul's {peak / 1e9:.0f}")


if __name__ == "__main__":
    main()
