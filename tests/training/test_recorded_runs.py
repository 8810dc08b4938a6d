"""Training repeats what it did before: the first losses of float64 runs on the digits, recorded at commit badc8df."""

import json
from pathlib import Path

import jax.random as jr
import numpy as np
import pytest

import mupc

RECORDED = json.loads(Path(__file__).with_name("recorded_losses.json").read_text(encoding="utf-8"))
ALGORITHMS = {
    "gd": (mupc.GradientDescent(lr=0.1, steps=6), {}),
    "error-space": (mupc.ErrorSpace(cg_tol=None), {"energy": mupc.Energy(output_precision=0.1)}),
    "bp": (mupc.BP(), {}),
}


@pytest.mark.parametrize("skip", [0, 1])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_losses_are_those_recorded(name, skip):
    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=24, hidden_layers=6, skip=skip, key=jr.key(3))
    algorithm, settings = ALGORITHMS[name]
    settings = {"weight_lr": 0.02, "rate_scaling": "none", "schedule": "constant", **settings}  # as it was then
    wanted = RECORDED[f"{name}-{skip}"]
    epochs = len(wanted) / (len(digits.train) // 64)
    result = mupc.fit(network, digits, algorithm, epochs=epochs, seed=1, precision="float64", **settings)
    np.testing.assert_allclose(result.losses, wanted, rtol=1e-9)
