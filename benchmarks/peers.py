"""Time one weight update of the same network with FabricPC, another library, and with mupc, in one run.

    pip install -e '.[peers]'
    python benchmarks/peers.py --width 128 --hidden-layers 16

The network is a chain of matrices without skips, biases and nonlinearity, with the same weights in both libraries.
FabricPC applies a nonlinearity after the matrix and mupc before it, so only linear networks are the same in both. Both
take the same gradient descent steps from the forward pass. The script also prints how far apart their gradients are.
"""

import argparse
import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
from fabricpc.core.inference import InferenceSGD, run_inference
from fabricpc.core.topology import Edge
from fabricpc.graph_assembly import TaskMap, graph
from fabricpc.graph_initialization import initialize_params
from fabricpc.graph_initialization.state_initializer import initialize_graph_state
from fabricpc.nodes import Linear
from fabricpc.training import build_clamps, pc_weight_gradients

import mupc
from mupc.bench import compile_call, time_in_turns


def chain(weights, x, y, lr, steps):
    """Return FabricPC's update of the chain of these matrices (out, in), its weights, and the layer of each weight."""
    sizes = [weights[0].shape[1], *(len(weight) for weight in weights)]
    nodes = [Linear(shape=(size,), name=f"layer{index}", use_bias=False) for index, size in enumerate(sizes)]
    edges = [Edge(source=a, target=b.slot("in")) for a, b in itertools.pairwise(nodes)]
    inference = InferenceSGD(eta_infer=lr, infer_steps=steps)
    structure = graph(nodes, edges, TaskMap(x=nodes[0], y=nodes[-1]), inference)
    key = jr.PRNGKey(0)
    drawn = initialize_params(structure, key)
    # every layer has one matrix, stored (in, out): put ours in place of what was drawn
    places, tree = jax.tree_util.tree_flatten_with_path(drawn)
    layer = [int("".join(filter(str.isdigit, str(path[1])))) for path, _ in places]
    params = jax.tree_util.tree_unflatten(tree, [weights[index - 1].T for index in layer])

    def update(params, x, y):
        clamps = build_clamps({"x": x, "y": y}, structure, clamp_target=True)
        state = initialize_graph_state(structure, len(x), key, clamps=clamps, params=params)
        return pc_weight_gradients(params, run_inference(params, state, clamps, structure), structure, clamps)

    return update, params, layer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--hidden-layers", type=int, default=16)
    parser.add_argument("--steps", type=int, help="default: as many as hidden layers")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    steps, lr = options.hidden_layers if options.steps is None else options.steps, 0.1
    network = mupc.Network(
        784, 10, options.width, options.hidden_layers, activation="linear", parameterisation="sp", skip=0,
        key=jr.key(0),
    )  # fmt: skip
    x = jr.normal(jr.key(1), (options.batch_size, 784))
    y = jax.nn.one_hot(jnp.arange(options.batch_size) % 10, 10)

    def ours(network, x, y):
        return mupc.weight_gradients(network, mupc.infer(network, x, y, mupc.GradientDescent(lr, steps)), x)

    weights = [network.input.weight, *network.hidden.weight, network.readout.weight]
    update, params, layer = chain(weights, x, y, lr, steps)
    programs = {"mupc": compile_call(ours, network, x, y), "fabricpc": compile_call(update, params, x, y)}
    own = programs["mupc"]()
    own = [own.input.weight, *own.hidden.weight, own.readout.weight]
    other = dict(zip(layer, jax.tree.leaves(programs["fabricpc"]()), strict=True))
    apart = [jnp.linalg.norm(g - other[i].T) / jnp.linalg.norm(g) for i, g in enumerate(own, start=1)]
    print(f"device {jax.devices()[0].device_kind}, jax {jax.__version__}, float32")
    print(f"N={options.width} H={options.hidden_layers} T={steps} B={options.batch_size}, one weight update")
    print(f"{'':10}{'ms':>9}{'compile (s)':>13}{'MiB':>9}")
    times = time_in_turns(programs, options.repeats)
    for name, taken in times.items():
        compiling, memory = taken["trace_compile_s"], taken["memory_bytes"] / 2**20
        print(f"{name:10}{1e3 * taken['median_s']:9.2f}{compiling:13.2f}{memory:9.1f}")
    print(f"fabricpc / mupc = {times['fabricpc']['median_s'] / times['mupc']['median_s']:.2f}")
    print("relative difference of gradients, readout and down:", " ".join(f"{gap:.0e}" for gap in apart[:-5:-1]))


if __name__ == "__main__":
    main()
