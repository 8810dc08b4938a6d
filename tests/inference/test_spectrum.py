"""The largest eigenvalue of tridiagonal matrices, against numpy's dense solver."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc.inference.solvers._spectrum import largest_eigenvalue

RNG = np.random.default_rng(0)
KINDS = {
    "random": lambda *size: RNG.normal(size=size),
    "clustered": lambda *size: 1e-6 * RNG.normal(size=size),  # around 1: see below
    "tiny": lambda *size: 1e-30 * RNG.normal(size=size),
    "zero": lambda *size: np.zeros(size),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_a_dense_solver(kind, size, dtype):
    diagonal, below = (KINDS[kind](20, count).astype(dtype) for count in (size, size - 1))
    if kind == "clustered":
        diagonal += 1
    found = jax.jit(largest_eigenvalue)(diagonal, below)
    assert found.dtype == dtype
    for value, a, b in zip(found, diagonal.astype(float), below.astype(float), strict=True):
        wanted = np.linalg.eigvalsh(np.diag(a) + np.diag(b, 1) + np.diag(b, -1))
        assert abs(float(value) - wanted[-1]) <= 16 * np.finfo(dtype).eps * np.max(np.abs(wanted))


@pytest.mark.parametrize("name", ["pc", "alm"])
def test_automatic_steps_do_not_call_lapack(name):
    """In a program for several CPU devices its calls can wait for each other for ever."""
    algorithm = {"pc": mupc.PC(mupc.GradientDescent("auto")), "alm": mupc.ALM("auto")}[name]
    network = mupc.Network(5, 3, width=8, hidden_layers=6, key=jr.key(0))
    gradients = eqx.filter_jit(lambda *arguments: mupc.algorithm_gradients(*arguments, y=jnp.arange(3)))
    program = gradients.lower(network, algorithm, jnp.ones((3, 5))).compile().compiled.as_text()
    assert "while" in program and 'custom_call_target="lapack' not in program
