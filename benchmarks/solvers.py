"""Print what each inference solver costs and reaches, on one μPC network at initialisation and one batch of digits.

    python benchmarks/solvers.py [--activation linear] [--json FILE]

Costs are times of one weight update (inference and weight gradients), as multiples of backpropagation's in the same
run.
"""

import argparse
import json

import jax
import jax.random as jr
import optax

import mupc
from mupc.bench import compile_call, time_in_turns


def solvers(depth, activation):
    """Return the rows of the table: a name, a solver and an output precision λ."""
    paper = 0.5 / 64
    rows = [
        ("GD, paper (T = H, β = 0.5)", mupc.GradientDescent(paper, depth), 1.0),
        ("GD, one step", mupc.GradientDescent(paper, 1), 1.0),
        ("GD, lr 0.4, T = H", mupc.GradientDescent(0.4, depth), 1.0),
        ("GD, lr 0.2, momentum 0.9, T = H", mupc.GradientDescent(0.2, depth, momentum=0.9), 1.0),
        ("GD, auto, tol 1e-2", mupc.GradientDescent("auto", tol=1e-2), 1.0),
        ("Adam 0.01, T = H", mupc.Optax(optax.adam(0.01), depth), 1.0),
        ("ODE, Tsit5, t = 10", mupc.ODE(t1=10.0), 1.0),
        ("error space, 2 CG", mupc.ErrorSpace(cg_steps=2), 1.0),
        ("error space, 2 CG, λ = 0.1", mupc.ErrorSpace(cg_steps=2), 0.1),
        ("error space, 2 CG, λ = 0.01", mupc.ErrorSpace(cg_steps=2), 0.01),
        ("error space, 5 × 3 CG", mupc.ErrorSpace(steps=5, cg_steps=3), 1.0),
    ]
    return [*rows, ("exact linear", mupc.ExactLinear(), 1.0)] if activation == "linear" else rows


def seconds(function, *arguments, repeats):
    """Return the median time of a call."""
    return time_in_turns({"": compile_call(function, *arguments)}, repeats)[""]["median_s"]


def solver_row(name, solver, precision, network, x, y, best, base, repeats):
    energy = mupc.Energy(output_precision=precision)

    def update(network, x, y):
        return mupc.weight_gradients(network, mupc.infer(network, x, y, solver, energy=energy), x)

    solution = mupc.infer(network, x, y, solver, energy=energy, history=True)
    reach = mupc.credit_reach(network, solution, x, y)
    first = float(solution.history.energies[0])
    share = (first - float(solution.energy)) / (first - best[precision])
    return {
        "solver": name,
        "times BP": seconds(update, network, x, y, repeats=repeats) / base,
        "steps": int(solution.steps),
        "energy": 100 * share,
        "gradient": float(solution.gradient_norm / solution.history.gradient_norms[0]),
        "layers": f"{reach.learning_layers}/{reach.layers}",
        "cosine": reach.evidence.smallest_cosine,
        "regime": reach.regime,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--hidden-layers", type=int, default=32)
    parser.add_argument("--activation", default="relu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    digits = mupc.data.load("digits")
    network = mupc.Network(
        digits.in_size, digits.out_size, options.width, options.hidden_layers, activation=options.activation,
        key=jr.key(0),
    )  # fmt: skip
    x, y = digits.normalisation(digits.train.raw[:64]), digits.encode(digits.train.targets[:64])
    rows = solvers(options.hidden_layers, options.activation)
    base = seconds(lambda n: mupc.backprop_gradients(n, x, y), network, repeats=options.repeats)
    long = mupc.ErrorSpace(steps=50, cg_steps=None, tol=1e-6)
    best = {
        precision: float(mupc.infer(network, x, y, long, energy=mupc.Energy(output_precision=precision)).energy)
        for precision in {row[2] for row in rows}
    }
    print(f"N={options.width} H={options.hidden_layers} {options.activation}, B=64, BP {1e3 * base:.2f} ms\n")
    print("| solver | cost, times BP | steps | of the possible energy decrease | relative gradient | layers that learn "
          "| smallest cosine to BP | regime |\n|---|---|---|---|---|---|---|---|")  # fmt: skip
    table = []
    for row in rows:
        found = solver_row(*row, network, x, y, best, base, options.repeats)
        table.append(found)
        print(
            f"| {found['solver']} | {found['times BP']:.1f} | {found['steps']} | {found['energy']:.1f} % | "
            f"{found['gradient']:.1e} | {found['layers']} | {found['cosine']:.2f} | `{found['regime']}` |",
            flush=True,
        )
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"options": vars(options), "device": str(jax.devices()[0]), "rows": table}, file, indent=1)


if __name__ == "__main__":
    main()
