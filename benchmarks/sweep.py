"""What running many training runs as one program saves: `mupc.fit_many` against `mupc.fit`, one run after another.

    python benchmarks/sweep.py [--data mnist --width 512 --hidden-layers 8 --seeds 3 --paper] [--json FILE]

Every pair of η and β is trained with every seed. Both ways are compiled by a run beforehand, and then timed. β is
the paper's, 64 times a solver's `lr`. Needs JAX, equinox, optax, jaxtyping and numpy only.
"""

import argparse
import itertools
import json
import time
import warnings

import jax
import jax.random as jr
import numpy as np

import mupc

PAPER_BATCH = 64
ETAS = (0.5, 0.1, 0.05, 0.01)
BETAS = (1000.0, 500.0, 100.0, 50.0, 10.0, 5.0, 1.0, 0.5, 0.1, 0.05, 0.01)


def grid(options, dataset):
    """A run for each η, β and seed."""
    networks = [
        mupc.Network(
            dataset.in_size, dataset.out_size, options.width, options.hidden_layers, activation=options.activation,
            key=jr.key(seed),
        )
        for seed in range(options.seeds)
    ]  # fmt: skip
    return [
        mupc.Run(networks[seed], mupc.GradientDescent(beta / PAPER_BATCH, options.hidden_layers), eta, seed)
        for eta, beta, seed in itertools.product(options.etas, options.betas, range(options.seeds))
    ]


def timed(function):
    """The seconds that a call takes, and what it returns."""
    begin = time.perf_counter()
    found = function()
    return time.perf_counter() - begin, found


def outcome(result):
    """The training loss over the last interval, or NaN."""
    return float("nan") if result.diverged else result.last["train_loss"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--data-dir")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--hidden-layers", type=int, default=8)
    parser.add_argument("--activation", default="relu")
    parser.add_argument("--etas", type=float, nargs="+", default=[0.1, 0.05, 0.01], help=f"paper: {ETAS}")
    parser.add_argument("--betas", type=float, nargs="+", default=[50.0, 5.0, 0.5], help=f"paper: {BETAS}")
    parser.add_argument("--paper", action="store_true", help="the paper's 44 pairs of η and β")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=float, default=2.0)
    parser.add_argument("--precision")
    parser.add_argument("--chunk", type=int)
    parser.add_argument("--sequential", type=int, help="time only so many runs one after another, and extrapolate")
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.paper:
        options.etas, options.betas = ETAS, BETAS
    warnings.simplefilter("ignore", RuntimeWarning)  # of runs that diverge, which the table counts
    dataset = mupc.data.load(options.data, data_dir=options.data_dir)
    runs = grid(options, dataset)
    shared = {"epochs": options.epochs, "precision": options.precision}

    def many():
        return mupc.fit_many(runs, dataset, chunk=options.chunk, **shared)

    def one(run):
        return mupc.fit(run.network, dataset, run.solver, weight_lr=run.weight_lr, seed=run.seed, **shared)

    cold, results = timed(many)
    warm, results = timed(many)
    print(f"{len(runs)} runs as one program: {warm:.2f} s (first time, with compiling: {cold:.2f} s)", flush=True)
    cold_one, _ = timed(lambda: one(runs[0]))
    part = runs[: options.sequential]
    sequential, singles = timed(lambda: [one(run) for run in part])
    sequential *= len(runs) / len(part)
    print(f"one after another: {sequential:.2f} s (the first with compiling: {cold_one:.2f} s)")
    losses = np.array([[outcome(a), outcome(b)] for a, b in zip(results, singles, strict=False)])
    # all but the first interval's rounding is amplified by training itself, so two numbers: typical and largest
    apart = np.abs(losses[:, 0] - losses[:, 1]) / np.abs(losses[:, 1])
    first = [[r.losses[:10] for r in found[: len(part)]] for found in (results, singles)]
    start = np.nanmax(np.abs(np.array(first[0]) - first[1]) / np.abs(first[1]))
    found = {
        "options": vars(options),
        "device": str(jax.devices()[0].device_kind),
        "runs": len(runs),
        "diverged": sum(result.diverged for result in results),
        "diverged_alike": all(a.diverged == b.diverged for a, b in zip(results, singles, strict=False)),
        "seconds_as_one": warm,
        "seconds_one_after_another": sequential,
        "ratio": sequential / warm,
        "largest_difference_of_the_first_ten_losses": float(start),
        "median_difference_of_final_losses": float(np.nanmedian(apart)),
        "largest_difference_of_final_losses": float(np.nanmax(apart)),
    }
    print(f"ratio {found['ratio']:.2f}; relative differences: first ten losses at most {start:.1e}, final losses "
          f"{found['median_difference_of_final_losses']:.1e} (median), "
          f"{found['largest_difference_of_final_losses']:.1e} (largest); {found['diverged']} diverged, "
          f"{'the same runs' if found['diverged_alike'] else 'NOT the same runs'} both ways")  # fmt: skip
    if options.json:
        with open(options.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
