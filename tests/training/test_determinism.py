"""Same seed, same machine, same bits: twice in a process and in two processes, for every solver.

As a script, prints what every case comes to as one JSON object.
"""

import hashlib
import json
import subprocess
import sys

import jax
import jax.random as jr
import numpy as np
import optax
import pytest

import mupc

TIMES = ("seconds", "steps_per_second")
STEPS = 30
SOLVERS = {
    "gradient descent": mupc.GradientDescent(lr=0.3, steps=3, momentum=0.5),
    "to a tolerance": mupc.GradientDescent(lr=0.3, steps=20, tol=0.7),
    "tuned step size": mupc.GradientDescent(lr="auto", steps=3),
    "error space": mupc.ErrorSpace(),
    "exact": mupc.ExactLinear(),
    "gradient flow": mupc.ODE(t1=2.0),
    "optax": mupc.Optax(optax.adam(0.05), steps=3),
    "samples": mupc.MonteCarlo(lr=0.3, steps=3),
    "backpropagation": mupc.BP(),
}
CASES = (*SOLVERS, "side by side")
QUICK = ("gradient descent", "error space", "backpropagation")


def run(case, seed=0):
    """Thirty steps with two evaluations in between, in float32 as users have it; all but the times."""
    with jax.enable_x64(False):
        digits = mupc.data.load("digits")
        solver = SOLVERS.get(case, SOLVERS["gradient descent"])
        network = mupc.Network(
            64, 10, width=6, hidden_layers=3, activation="linear" if case == "exact" else "tanh", key=jr.key(0)
        )
        options = {"epochs": STEPS / (len(digits.train) // 64), "evaluate_every": 12}
        if case == "side by side":
            runs = [mupc.Run(network, solver, 0.05, number) for number in (seed, seed + 1)]
            return [outcome(result) for result in mupc.fit_many(runs, digits, **options)]
        return [outcome(mupc.fit(network, digits, solver, weight_lr=0.05, seed=seed, **options))]


def outcome(result):
    """Every bit of a result but for times; arrays as checksums."""
    arrays = {"losses": result.losses} | {str(name): leaf for name, leaf in jax.tree.leaves_with_path(result.network)}
    assert result.steps == STEPS
    assert all(np.isfinite(array).all() for array in arrays.values())
    sums = {name: hashlib.sha256(np.asarray(array).tobytes()).hexdigest() for name, array in arrays.items()}
    records = [{key: value for key, value in record.items() if key not in TIMES} for record in result.history]
    return sums | {"history": records}


def test_every_solver_is_here():
    public = [getattr(mupc, name) for name in mupc.__all__ if not name.startswith("Abstract")]
    solvers = {kind for kind in public if isinstance(kind, type) and issubclass(kind, mupc.AbstractSolver)}
    assert {type(solver) for solver in SOLVERS.values() if not isinstance(solver, mupc.BP)} == solvers


@pytest.mark.parametrize(
    "case", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_twice_in_one_process(case):
    """Another seed shows that a difference would be seen."""
    first = run(case)
    assert run(case) == first
    assert run(case, seed=1) != first


@pytest.mark.slow
def test_in_another_process():
    other = subprocess.run([sys.executable, __file__], capture_output=True, check=True)
    assert json.loads(other.stdout) == {case: run(case) for case in CASES}


if __name__ == "__main__":
    print(json.dumps({case: run(case) for case in CASES}))
