"""Compile an update for an H200 on a machine without a GPU, and print what its kernels move.

    pip install -e '.[gpu]'
    python benchmarks/without_gpu.py [--methods bp error-space gd] [--model resnet|vgg|transformer|mlp] [--kernels 20]

XLA compiles for a device that it only knows by its description. The text of the program then has every kernel, the
shapes that it reads and writes, and how often loops repeat. The time is an estimate: bytes at the bandwidth of a copy,
and a launch for each kernel; products count as one more line, by format, since their rate depends on their shape.
Loops whose number of turns is not known, such as a line search, are counted as not taken.
"""

import argparse
import collections
import functools
import os
import re
import time
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax._src.lib import xla_client
from jax.experimental import topologies

import mupc

BANDWIDTH, LAUNCH = 4e12, 2.5e-6
"""Bytes and seconds, as measured on an H200."""

H200 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 shared_memory_per_core: 233472
  threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128 block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535 block_dim_limit_z: 65535 memory_bandwidth: 4800000000000 l2_cache_size: 52428800
  clock_rate_ghz: 1.98 device_memory_size: 149000000000 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 } registers_per_core_limit: 65536 registers_per_block_limit: 65536
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 8 } runtime_version { major: 12 minor: 9 }
device_description_str: "NVIDIA H200"
"""

WIDTHS = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "f32": 4, "s32": 4, "u32": 4, "f64": 8, "s64": 8, "u64": 8}
FREE = {"parameter", "tuple", "get-tuple-element", "bitcast", "constant", "after-all", "while", "conditional", "call"}
INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (.*?) ([\w\-]+)\((.*)$")


def device():
    """Return a device that programs can be compiled for, but not run on."""
    jax.devices()  # which loads the plugin
    options = {"topology": "1x1x1", "target_config": H200}
    topology = xla_client._xla.get_default_c_api_topology("cuda", "", options)
    return topologies.TopologyDescription(topology._make_compile_only_devices()).devices[0]


def size(kind):
    """Return the bytes of a shape, or of all shapes of a tuple."""
    total = 0
    for name, dimensions in re.findall(r"(\w+)\[([\d,]*)\]", kind):
        count = WIDTHS.get(name, 4)
        for length in filter(None, dimensions.split(",")):
            count *= int(length)
        total += count
    return total


def computations(text):
    """Return the instructions of every computation by name: (name, shape, operation, rest of the line)."""
    found, own, entry = {}, None, None
    for line in text.splitlines():
        if line.endswith("{") and (header := re.match(r"^(ENTRY )?%?([\w.\-]+) ", line)):
            own = found.setdefault(header[2], [])
            entry = header[2] if header[1] else entry
        elif own is not None and (match := INSTRUCTION.match(line)):
            own.append(match.groups())
    return found, entry


def operands(rest):
    """Return the names of an instruction's operands."""
    return re.findall(r"%([\w.\-]+)", rest.split("), ")[0])


def moved(instruction, shapes, found):
    """Return the bytes that a kernel reads and writes. Of an array that it only slices, the slice counts."""
    _, kind, operation, rest = instruction
    names = operands(rest)
    called = re.search(r"calls=%?([\w.\-]+)", rest)
    if operation != "fusion" or not called:
        if operation == "dynamic-update-slice":
            return 2 * size(shapes[names[1]])
        read = size(kind) if operation in ("slice", "dynamic-slice") else sum(size(shapes[name]) for name in names)
        return size(kind) + read
    inside = found[called[1]]
    inner = {name: kind for name, kind, _, _ in inside}
    updated = {operands(rest)[0]: operands(rest)[1] for _, _, op, rest in inside if op == "dynamic-update-slice"}
    total = size(kind)
    for name, kind, op, _ in inside:
        if op != "parameter":
            continue
        name, users = used_as(name, inside)
        slices = [size(own) for own, user in users if user in ("slice", "dynamic-slice")]
        if name in updated:  # in place
            total += sum(slices) + size(inner[updated[name]]) - size(kind)
        else:
            total += sum(slices) if slices and len(slices) == len(users) else size(kind)
    return total


def used_as(name, inside):
    """Return the name under which a value is used, after a change of its shape, and what is made of it: (shape,
    operation) of each."""
    users = [(own, kind, op) for own, kind, op, rest in inside if name in operands(rest)]
    if len(users) == 1 and users[0][2] == "bitcast":
        return used_as(users[0][0], inside)
    return name, [(kind, op) for _, kind, op in users]


def kernels(text):
    """Yield what runs on the device: (description, times, bytes, whether a library's product)."""
    found, entry = computations(text)

    def visit(name, times):
        shapes = {own: kind for own, kind, _, _ in found[name]}
        for instruction in found[name]:
            own, kind, operation, rest = instruction
            if operation == "while":
                trips = re.search(r'known_trip_count":\{"n":"(\d+)"', rest)
                yield from visit(re.search(r"body=%?([\w.\-]+)", rest)[1], times * int(trips[1]) if trips else 0)
            elif operation == "call":
                yield from visit(re.search(r"to_apply=%?([\w.\-]+)", rest)[1], times)
            elif operation not in FREE:
                target = re.search(r'custom_call_target="([^"]+)"', rest)
                product = bool(target) or operation in ("dot", "convolution") or "__triton_gemm" in rest
                first = shapes[operands(rest)[0]].split("{")[0] if operands(rest) else ""
                label = f"{target[1] if target else re.sub(r'[.0-9]+$', '', own)} {first} -> {kind.split('{')[0]}"
                yield label, times, moved(instruction, shapes, found), product

    yield from visit(entry, 1)


def example(options):
    """Return the network that was asked for, and a batch."""
    key, rows = jr.key(0), options.batch_size or (64 if options.model in ("mlp", "transformer") else 128)
    if options.model == "mlp":
        network = mupc.Network(784, 10, options.width or 512, options.hidden_layers, key=key)
        return network, jnp.zeros((rows, 784)), jnp.zeros((rows, 10))
    if options.model == "transformer":
        network = mupc.models.transformer(65, 256, options.width or 512, blocks=options.blocks[0], key=key)
        return network, jnp.zeros((rows, 256), int), jnp.zeros((rows, 256), int)
    make = (
        functools.partial(mupc.models.resnet, blocks=options.blocks) if options.model == "resnet" else mupc.models.vgg
    )
    network = make(width=options.width or 64, key=key)
    return network, jnp.zeros((rows, *network.input_shape)), jnp.zeros((rows, 10))


def update(solver, energy, precision):
    """Return a function that computes the weight gradients of a batch; without a solver, by backpropagation."""
    if solver is None:
        return lambda n, x, y: mupc.backprop_gradients(n, x, y, energy=energy, precision=precision)

    def run(network, x, y):
        return mupc.weight_gradients(network, mupc.infer(network, x, y, solver, energy=energy, precision=precision), x)

    return run


def compiled(function, network, x, y, gpu):
    """Return the program for these shapes, and the seconds that compiling took."""
    begin = time.monotonic()
    arrays, static = eqx.partition((network, x, y), eqx.is_array)
    place = jax.sharding.SingleDeviceSharding(gpu)
    specs = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), arrays)
    lowered = jax.jit(lambda given: eqx.filter(function(*eqx.combine(given, static)), eqx.is_array)).trace(specs)
    lowered = lowered.lower(lowering_platforms=("cuda",))
    program = lowered.compile(compiler_options={"xla_gpu_autotune_level": "0"})
    return program, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", choices=("bp", "error-space", "gd"), nargs="+", default=["bp", "error-space"])
    parser.add_argument("--model", choices=("resnet", "vgg", "transformer", "mlp"), default="resnet")
    parser.add_argument("--width", type=int, help="channels (default: 64) or units (default: 512)")
    parser.add_argument("--batch-size", type=int, help="default: 64, for images 128")
    parser.add_argument("--blocks", type=int, nargs=3, default=[6, 6, 6])
    parser.add_argument("--output-precision", type=float, default=0.1)
    parser.add_argument("--precision", choices=("bf16", "tf32", "float32"), default="bf16")
    parser.add_argument("--hidden-layers", type=int, default=128)
    parser.add_argument("--kernels", type=int, default=0, help="list this many of those that take longest")
    parser.add_argument("--text", type=Path, help="write the programs into this folder")
    options = parser.parse_args()
    gpu = device()
    jax.default_backend = lambda: "gpu"  # mupc asks once how to build programs
    network, x, y = example(options)
    loss = "cross-entropy" if options.model == "transformer" else "mse"
    energy = mupc.Energy(loss=loss, output_precision=options.output_precision)
    solvers = {"bp": None, "error-space": mupc.ErrorSpace(), "gd": mupc.GradientDescent(0.01, network.layer_count - 1)}
    print(
        f"{'':12} {'launches':>8} {'GB':>7} {'ms':>7} {'bf16 products':>14} {'others':>7} {'MiB':>7} {'compile s':>10}"
    )
    for method in options.methods:
        program, seconds = compiled(update(solvers[method], energy, options.precision), network, x, y, gpu)
        text, memory = program.as_text(), program.memory_analysis().temp_size_in_bytes / 2**20
        if options.text:
            (options.text / f"{method}.txt").write_text(text)
        rows = list(kernels(text))
        launches = sum(times for _, times, _, _ in rows)
        traffic = sum(times * bytes_ for _, times, bytes_, _ in rows)
        products = collections.Counter({False: 0, True: 0})
        for label, times, _, product in rows:
            products[" bf16[" in label.split(" -> ")[0]] += product * times
        estimate = traffic / BANDWIDTH + launches * LAUNCH
        row = f"{launches:8} {traffic / 1e9:7.2f} {1e3 * estimate:7.2f} {products[True]:14} {products[False]:7}"
        print(f"{method:12} {row} {memory:7.0f} {seconds:10.1f}", flush=True)
        taken = collections.Counter()
        for label, times, bytes_, _ in rows:
            taken[label, bytes_] += times
        cost = {key: times * (key[1] / BANDWIDTH + LAUNCH) for key, times in taken.items()}
        for (label, bytes_), spent in sorted(cost.items(), key=lambda item: -item[1])[: options.kernels]:
            print(f"    {1e3 * spent:7.3f} ms {taken[label, bytes_]:5} x {bytes_ / 1e6:8.2f} MB  {label[:150]}")


if __name__ == "__main__":
    main()
