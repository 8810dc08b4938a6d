"""Print where the time of an update goes on a GPU: its kernels by kind, from a trace, next to the time without one.

    python benchmarks/profile_kernels.py [--model resnet|vgg|mlp] [--width 64] [--depth 6] [--json FILE]

The depth: blocks in each of a resnet's three stages, or hidden layers of the mlp. Kinds are told by names of kernels:
convolutions forward, into the activities and into the weights, other products, sums and elementwise work.
"""

import argparse
import collections
import gzip
import json
import tempfile
from pathlib import Path

import jax
import jax.random as jr

import mupc
from mupc.bench import compile_call, time_in_turns

KINDS = {
    "convolutions forward": ("fprop",),
    "convolutions back": ("dgrad",),
    "weight gradients": ("wgrad",),
    "other products": ("gemm", "cublas", "nvjet", "dot"),
    "sums": ("reduce",),
    "copies": ("transpose", "memcpy", "copy", "init_device"),
}
ELEMENTWISE = "elementwise"
CALLS = 20


def example(options):
    """Return a network and a batch."""
    key = jr.key(0)
    if options.model == "mlp":
        network = mupc.Network(784, 10, options.width, options.depth, key=key)
    elif options.model == "vgg":
        network = mupc.models.vgg(width=options.width, key=key)
    else:
        blocks = (options.depth,) * 3
        network = mupc.models.resnet(width=options.width, blocks=blocks, activation=options.activation, key=key)
    shape = (784,) if options.model == "mlp" else network.input_shape
    y = jax.nn.one_hot(jr.randint(jr.key(2), (options.batch_size,), 0, 10), 10)
    return network, jr.normal(jr.key(1), (options.batch_size, *shape)), y


def updates(options):
    """Return an update by each method, as a function of network, inputs and targets."""
    energy = mupc.Energy(loss="cross-entropy", output_precision=options.output_precision)
    solver = mupc.ErrorSpace(cg_steps=1)

    def error_space(network, x, y):
        solution = mupc.infer(network, x, y, solver, energy=energy, precision=options.precision)
        return mupc.weight_gradients(network, solution, x)

    def bp(network, x, y):
        plain = mupc.Energy(loss="cross-entropy")
        return mupc.backprop_gradients(network, x, y, energy=plain, precision=options.precision)

    return {"bp": bp, "error-space": error_space}


def traced(call):
    """Return the milliseconds of a call in each kind of kernel, and how many kernels it has."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready([call() for _ in range(CALLS)])
        (file,) = Path(folder).rglob("*.trace.json.gz")
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    devices = {event["pid"] for event in events if event.get("ph") == "M" and "GPU" in event["args"].get("name", "")}
    spent, count = collections.Counter(), 0
    for event in events:
        if event.get("ph") == "X" and event["pid"] in devices and "hlo_op" in event.get("args", {}):
            name = event["name"].lower()
            kind = next((kind for kind, parts in KINDS.items() if any(part in name for part in parts)), ELEMENTWISE)
            spent[kind] += event["dur"] / 1e3 / CALLS
            count += 1
    return dict(spent), count // CALLS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("resnet", "vgg", "mlp"), default="resnet")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--activation", default="relu")
    parser.add_argument("--output-precision", type=float, default=0.1)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write what was measured")
    options = parser.parse_args()
    calls = {name: compile_call(update, *example(options)) for name, update in updates(options).items()}
    rows = []
    for method, timing in time_in_turns(calls, options.repeats).items():
        spent, kernels = traced(calls[method])
        ms, mib, seconds = 1e3 * timing["median_s"], timing["memory_bytes"] / 2**20, timing["trace_compile_s"]
        found = {"method": method, "ms": ms, "mib": mib, "compile_s": seconds, "kernels": kernels}
        rows.append(found | {"ms_by_kind": spent})
        kinds = ", ".join(f"{kind} {ms:.2f}" for kind, ms in sorted(spent.items(), key=lambda item: -item[1]))
        print(f"{method:12} {ms:7.2f} ms, {kernels} kernels, {mib:.0f} MiB, compiled in {seconds:.1f} s: {kinds}")
    if options.json:
        settings = {name: value for name, value in vars(options).items() if name not in ("json", "repeats")}
        device = jax.devices()[0].device_kind
        options.json.write_text(json.dumps({"config": settings, "device": device, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
