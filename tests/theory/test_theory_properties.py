"""Statements about every network, tested on networks drawn at random: Theorem A.1, in exact fractions where float64
cannot decide; Eq. 31; and where equilibrium propagation loses its minimum."""

import functools
import math
from fractions import Fraction
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference import relative

import mupc
from mupc import theory

SIZES = [(3, 2, 2, 3), (1, 3, 2, 4), (2, 2, 3, 2)]
"""In, out, width, hidden layers. Few and small: little to compile, and quick in fractions."""

SEEDS = st.integers(0, 2**32 - 1)
quick = settings(max_examples=25)


class Drawn(NamedTuple):
    """The description of a network. Hypothesis' strategies do not use JAX."""

    sizes: tuple
    parameterisation: str
    skip: int
    seed: int
    powers: list


@st.composite
def networks(draw, decades, sizes=SIZES, names=("sp", "mupc", "ntp")):
    """Draw normal weights, multiplied in each layer by up to `decades` powers of ten either way."""
    sizes = draw(st.sampled_from(sizes))
    depth = sizes[3]
    powers = st.lists(st.floats(-decades, decades), min_size=depth + 1, max_size=depth + 1)
    skip = draw(st.integers(0, min(2, depth - 1)))
    return Drawn(sizes, draw(st.sampled_from(names)), skip, draw(SEEDS), draw(powers))


@functools.cache
def unit(sizes, parameterisation, skip, multipliers=None):
    options = {"parameterisation": parameterisation, "skip": skip, "multipliers": multipliers}
    return mupc.Network(*sizes, activation="linear", key=jr.key(0), **options)


def build(drawn):
    network = unit(drawn.sizes, drawn.parameterisation, drawn.skip)
    first, *inner, last = 10.0 ** np.array(drawn.powers)
    scales = [first, np.reshape(inner, (-1, 1, 1)), last]
    rng = np.random.default_rng(drawn.seed)
    weights = [network.input.weight, network.hidden.weight, network.readout.weight]
    new = [jnp.asarray(scale * rng.standard_normal(w.shape)) for scale, w in zip(scales, weights, strict=True)]
    return eqx.tree_at(lambda n: [n.input.weight, n.hidden.weight, n.readout.weight], network, new)


def exact_hessian(network, weight):
    """Return AᵀA + λMᵀM in fractions, with A from activities to errors and M from activities to the output."""
    depth, width = network.hidden_layers, network.width
    _, hidden, last = network.multipliers
    maps = np.zeros((depth * width + network.out_size, depth * width))
    for layer in range(depth):
        own = slice(layer * width, (layer + 1) * width)
        maps[own, own] += np.eye(width)
        if layer:
            maps[own, own.start - width : own.start] -= hidden * np.asarray(network.hidden.weight[layer - 1])
        if network.skip and layer >= network.skip:
            start = (layer - network.skip) * width
            maps[own, start : start + width] -= np.eye(width)
    maps[depth * width :, -width:] = last * np.asarray(network.readout.weight)
    rows = [[Fraction(float(entry)) for entry in row] for row in maps]
    weights = [Fraction(1)] * (depth * width) + [Fraction(weight)] * network.out_size
    size = range(depth * width)
    return [
        [sum(w * row[i] * row[j] for w, row in zip(weights, rows, strict=True) if row[i] and row[j]) for j in size]
        for i in size
    ]


def pivots(matrix):
    """Return ratios of leading principal minors, by elimination: all positive if and only if the matrix is positive
    definite (Sylvester's criterion, which the paper's proof uses)."""
    matrix, found = [list(row) for row in matrix], []
    while matrix:
        (pivot, *others), *rest = matrix
        found.append(pivot)
        if pivot == 0:
            break
        matrix = [[a - row[0] * b / pivot for a, b in zip(row[1:], others, strict=True)] for row in rest]
    return found


def log(fraction):
    return math.log(fraction.numerator) - math.log(fraction.denominator)


@pytest.mark.slow
@quick
@given(networks(0.5), st.sampled_from([1.0, 0.3]))
def test_hessian_is_positive_definite(drawn, weight):
    network = build(drawn)
    energy = mupc.Energy(output_precision=weight)
    hessian = theory.activity_hessian(network, energy=energy)
    assert relative(hessian, np.array(exact_hessian(network, weight), float)) < 1e-12
    values = np.linalg.eigvalsh(hessian)
    assert values[0] > 0
    found = theory.convexity(network, energy=energy)
    assert (found.definite, found.evidence, found.holds) == ("positive definite", "determinants", True)
    assert found.smallest == pytest.approx(values[0], rel=1e-6)
    assert found.log_determinant == pytest.approx(np.sum(np.log(values)), rel=1e-6, abs=1e-6)


@quick
@given(networks(8), st.sampled_from([1.0, 1e-3]))
@pytest.mark.slow
def test_convexity_at_any_scale(drawn, weight):
    """Scales from 1e-8 to 1e8 in every layer: κ up to 1e30 and beyond."""
    network = build(drawn)
    exact = pivots(exact_hessian(network, weight))
    assert all(pivot > 0 for pivot in exact)
    want = sum(map(log, exact))
    found = theory.convexity(network, energy=mupc.Energy(output_precision=weight))
    assert found.holds
    assert found.log_rescaling >= 0
    assert found.log_rescaling == pytest.approx(want, rel=1e-8, abs=1e-8)
    if found.evidence == "determinants":
        assert found.log_determinant == pytest.approx(want, abs=found.tolerance)


@quick
@given(networks(3))
@pytest.mark.slow
def test_semidefinite_with_a_free_input(drawn):
    network = build(drawn)
    found = theory.convexity(network, free_input=True)
    assert found.holds
    values = np.linalg.eigvalsh(theory.activity_hessian(network, free_input=True))
    assert values[0] > -1e-13 * values[-1]
    if network.in_size > network.out_size:
        assert found.definite == "positive semidefinite"
        assert abs(values[0]) < 1e-13 * values[-1], "no error tells apart inputs with one output"


@quick
@given(networks(1, SIZES[:1], ["mupc"]), st.sampled_from([1.0, 0.3]), SEEDS)
@pytest.mark.slow
def test_equilibrated_energy_is_the_energy_at_the_solution(drawn, weight, seed):
    network = build(drawn)
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, network.in_size)), rng.standard_normal((2, network.out_size))
    energy = mupc.Energy(output_precision=jnp.array(weight))
    z = theory.equilibrium(network, x, y, energy=energy)
    want = float(mupc.energy(network, z, x, y, energy=energy))
    assert theory.equilibrium_energy(network, x, y, energy=energy) == pytest.approx(want, rel=1e-6)
    loss = weight * float(jnp.mean(jnp.sum((y - network(x)) ** 2, axis=1))) / 2
    assert want <= loss * (1 + 1e-9)


@settings(quick, max_examples=50)
@given(st.floats(-4, 4), st.floats(0, 8), st.sampled_from([0.5, 1.0, 2.0]))
def test_equilibrium_propagation_is_indefinite_beyond_its_border(weight, nudge, multiplier):
    """Two layers of one unit: det H = 1 + β − (a₂w₂)²."""
    excess = (multiplier * weight) ** 2 - (1 + nudge)
    assume(abs(excess) > 1e-6)
    network = unit((1, 1, 1, 1), "sp", 0, (1.0, 1.0, multiplier))
    network = eqx.tree_at(lambda n: n.readout.weight, network, jnp.full((1, 1), weight))
    values = np.linalg.eigvalsh(theory.ep_hessian(network, nudge=nudge))
    kind = theory.Condition(float(values[-1]), float(values[0]), 2).definite
    assert kind == ("indefinite" if excess > 0 else "positive definite")
    assert theory.convexity(network).holds, "while predictive coding keeps its minimum"
