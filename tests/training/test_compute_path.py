"""`precision="auto"`, and the line that says what computes a run."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc.data import Dataset, Schema, Split
from mupc.inference import _infer, kernels
from mupc.network import _backend
from mupc.training import _compute_path

GD = mupc.GradientDescent(lr=0.2, steps=4)
WITHOUT = "float32 products and sums on the GPU, without kernels ("
ROUNDED = "bf16 products with float32 sums on the GPU, without kernels ("


def network(dtype=jnp.float32, **options):
    made = mupc.Network(5, 3, 6, 4, key=jr.key(0), **options)
    return jax.tree.map(lambda w: w.astype(dtype), made)


@pytest.fixture
def device(monkeypatch):
    """Return a function that makes the library believe in a device."""

    def become(found):
        for module in (kernels, _infer, _compute_path):
            monkeypatch.setattr(module, "backend", lambda: found)

    return become


@pytest.mark.parametrize(
    ("net", "algorithm", "options", "line"),
    [
        ({}, GD, {}, "bf16 products with float32 sums on the GPU, by its kernels"),
        ({}, GD, {"precision": "float32"}, WITHOUT + "they multiply in bf16, and the precision is float32"),
        ({}, GD, {"precision": None}, WITHOUT + "they multiply in bf16, and the precision is float32"),
        ({}, GD, {"energy": mupc.Energy("cross-entropy")}, WITHOUT + 'they know the loss "mse" only'),
        ({}, GD, {"unsupervised": True}, WITHOUT + "they start at the forward pass, with given inputs"),
        ({"skip": 2}, GD, {}, WITHOUT + "they cover skips over one layer only"),
        ({"activation": jnp.sin}, GD, {}, WITHOUT + "the activation is a function of your own"),
        ({}, mupc.GradientDescent("auto", 4), {}, WITHOUT + "they take a given rate"),
        ({}, mupc.ErrorSpace(), {}, ROUNDED + "only plain gradient descent has them"),
        ({}, mupc.ErrorSpace(), {"precision": "float32"}, WITHOUT + "only plain gradient descent has them"),
        ({}, mupc.BP(), {}, ROUNDED + "only inference has them"),
        (
            {"dtype": jnp.float64}, GD, {},
            "float64 products and sums on the GPU, without kernels (they multiply in bf16, and the precision is "
            "float64",
        ),
    ],
)  # fmt: skip
def test_on_a_gpu(device, net, algorithm, options, line):
    device(_backend.GPU)
    algorithm = algorithm if isinstance(algorithm, mupc.BP) else mupc.PC(algorithm)
    found = mupc.TrainConfig(**options).compute_path(network(**net), algorithm)
    assert found.startswith(line)
    assert "\n" not in found


@pytest.mark.parametrize(
    ("found", "end"),
    [
        (_backend.CPU, "CPU, by its kernels"),
        (
            _backend.Backend("gpu", why_plain="MUPC_KERNELS=0 switches them off"),
            "GPU, without kernels (MUPC_KERNELS=0 ",
        ),
        (_backend.Backend("tpu", why_plain="there are no kernels for tpu"), "TPU, without kernels (there are no "),
    ],
)
def test_where_there_are_no_gpu_kernels(device, found, end):
    device(found)
    line = mupc.TrainConfig().compute_path(network(), mupc.PC(GD))
    assert line.startswith(f"float32 products and sums on the {end}")


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_the_result_says_what_ran(dtype):
    rng = np.random.default_rng(0)
    split = Split(rng.normal(size=(16, 5)).astype(np.float32), rng.integers(0, 3, 16).astype(np.int32))
    data = Dataset("noise", split, split, None, Schema(labels=(0, 1, 2)), False, "made here")
    result = mupc.fit(network(dtype), data, GD, batch_size=8)
    name = jnp.dtype(dtype).name
    assert result.precision == name
    assert result.compute_path == f"{name} products and sums on the CPU, by its kernels"
    assert {leaf.dtype for leaf in jax.tree.leaves(result.network)} == {jnp.dtype(dtype)}
