"""Spectra of the activity Hessian and its parts against numpy's eigenvalues of the dense matrix."""

import functools

import jax.random as jr
import numpy as np
import pytest
from reference import make

import mupc
from mupc import theory

OPEN = {"dummy_input": True, "free_output": True}


@functools.cache
def linear(width, depth, parameterisation="sp", skip=0, in_size=None, out_size=None):
    sizes = (in_size or width, out_size or width, width, depth)
    return mupc.Network(*sizes, activation="linear", parameterisation=parameterisation, skip=skip, key=jr.key(depth))


@functools.cache
def plain(part):
    """The exact spectrum of a plain network of 1024 unknowns."""
    return theory.spectrum(linear(64, 16), part=part, method="exact")


def block_diagonal(network, free):
    """Return which entries belong to D: those that couple two unknowns of one layer."""
    sizes = [network.width] * network.hidden_layers
    layer = np.repeat(np.arange(len(sizes) + 2 * free), [network.in_size, *sizes, network.out_size] if free else sizes)
    return layer[:, None] == layer


@pytest.mark.parametrize("skip", [0, 2])
@pytest.mark.parametrize("ends", [{}, OPEN], ids=["clamped", "open"])
def test_exact_spectra_are_numpys(skip, ends):
    network = linear(6, 5, "ntp", skip, 4, 3)
    energy = mupc.Energy(activity_decay=0.3, output_precision=0.7)
    whole = theory.activity_hessian(network, energy=energy, **ends)
    inside = block_diagonal(network, bool(ends))
    parts = {"whole": whole, "diagonal": np.where(inside, whole, 0), "off-diagonal": np.where(inside, 0, whole)}
    blocks = theory.hessian_blocks(network, energy=energy, **ends)
    assert np.array_equal(blocks.part("diagonal").dense() + blocks.part("off-diagonal").dense(), whole)
    for name, matrix in parts.items():
        assert np.array_equal(blocks.part(name).dense(), matrix)
        found = theory.spectrum(network, part=name, method="exact", energy=energy, **ends)
        assert found.exact
        assert found.size == len(found.values) == len(whole)
        np.testing.assert_allclose(found.values, np.linalg.eigvalsh(matrix), rtol=0, atol=1e-12 * np.abs(matrix).max())
        np.testing.assert_allclose(found.weights, 1 / len(whole), rtol=1e-12)


def test_nonlinear_spectrum_is_that_of_the_sample():
    network, x, y = make(activation="tanh", hidden_layers=3, batch=1)
    z = jr.normal(jr.key(1), (3, 1, 6))
    found = theory.spectrum(network, x, y, z, free_input=True)
    want = np.linalg.eigvalsh(theory.activity_hessian(network, x, y, z, free_input=True))
    np.testing.assert_allclose(found.values, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("part", ["whole", "diagonal", "off-diagonal"])
def test_lanczos_quadrature(part):
    exact = plain(part)
    found = theory.spectrum(linear(64, 16), part=part, method="lanczos")
    assert not found.exact
    assert found.size == 1024
    assert np.all(np.diff(found.values) >= 0)
    assert found.weights.sum() == pytest.approx(1, rel=1e-9)
    for power in (1, 2):
        moment = np.mean(exact.values**power)
        scale = np.mean(np.abs(exact.values) ** power)
        assert found.weights @ found.values**power == pytest.approx(moment, abs=0.03 * scale)
    assert found.distance(exact) < 0.03
    rounding = 1e-9 * exact.largest
    assert exact.smallest - rounding <= found.smallest
    assert exact.largest * (1 - 1e-3) <= found.largest <= exact.largest + rounding, "Ritz values lie within"


def test_a_lanczos_run_to_its_end_is_the_gauss_quadrature():
    """With as many steps as unknowns the moments of each probe's measure, vᵀHᵏv, are exact, whatever the vector."""
    network = linear(6, 5, "ntp", 2, 4, 3)
    blocks = theory.hessian_blocks(network)
    found = theory.spectrum(network, method=theory.Lanczos(steps=99, probes=1, seed=3))
    v = np.random.default_rng(3).choice([-1.0, 1.0], (1, 30))[0] / np.sqrt(30)
    np.testing.assert_allclose(found.values[[0, -1]], np.linalg.eigvalsh(blocks.dense())[[0, -1]], rtol=1e-9)
    u = v
    for power in range(1, 6):
        u = blocks.product(u)
        assert found.weights @ found.values**power == pytest.approx(v @ u, rel=1e-9)


def test_lanczos_where_eigenvalues_repeat():
    """An orthogonal network's block diagonal is 2I: one step finds it, and no other value appears."""
    network = linear(8, 4, "orthogonal", 0)
    found = theory.spectrum(network, part="diagonal", method=theory.Lanczos(steps=10, probes=3))
    np.testing.assert_allclose(found.values, 2, rtol=1e-9)
    np.testing.assert_allclose(found.weights, 1 / 3, rtol=1e-9)


def test_lanczos_follows_its_seed():
    network = linear(8, 4, "mupc", 1)
    first, again, other = (
        theory.spectrum(network, part="diagonal", method=theory.Lanczos(5, 1, seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first.values, again.values)
    assert np.array_equal(first.weights, again.weights)
    assert not np.allclose(first.values, other.values)


def test_parts_of_a_plain_network_follow_the_papers_laws():
    """§A.2.3: D is Marchenko–Pastur on [1, 5]; O is symmetric and a little broader than the semicircle of radius 2."""
    diagonal, rest = plain("diagonal"), plain("off-diagonal")
    assert 1 <= diagonal.smallest < 1.01
    assert 4.7 < diagonal.largest < 5.4
    np.testing.assert_allclose(rest.values, -rest.values[::-1], atol=1e-9)
    assert 2.4 < rest.largest < 3.0
    law = theory.marchenko_pastur(1.0, shift=1.0)
    grid = np.linspace(1.5, 4.5, 13)
    np.testing.assert_allclose(diagonal.density(grid, 0.1), law.density(grid), rtol=0.15)


def weighted(values, weights):
    return theory.Spectrum(np.array(values, float), np.array(weights, float), len(values), False)


def test_distribution_functions():
    spectrum = weighted([0, 1, 3], [0.25, 0.5, 0.25])
    assert (spectrum.smallest, spectrum.largest) == (0, 3)
    np.testing.assert_array_equal(spectrum.cumulative(np.array([[-1, 0], [2.9, 3]])), [[0, 0.25], [0.75, 1]])
    np.testing.assert_array_equal(spectrum.quantiles(np.array([0, 0.25, 0.26, 0.75, 1])), [0, 0, 1, 1, 3])
    assert spectrum.cumulative(1).shape == spectrum.quantiles(0.5).shape == spectrum.density(1, 0.1).shape == ()
    tenths = weighted(np.arange(10), np.full(10, 0.1))
    np.testing.assert_array_equal(tenths.quantiles(np.arange(1, 11) / 10), np.arange(10))
    grid = np.linspace(-5, 8, 2001)
    density = spectrum.density(grid, 0.3)
    assert np.trapezoid(density, grid) == pytest.approx(1, rel=1e-6)
    assert np.trapezoid(density * grid, grid) == pytest.approx(1.25, rel=1e-6)
    peak = 0.5 / (0.01 * np.sqrt(2 * np.pi))
    assert spectrum.density(1.0, 0.01) == pytest.approx(peak, rel=1e-9)


def test_distances():
    spectrum = weighted([0, 1, 3], [0.25, 0.5, 0.25])
    assert spectrum.distance(spectrum) == 0
    assert spectrum.distance(weighted([10, 11, 13], [0.25, 0.5, 0.25])) == 1
    assert spectrum.distance(weighted([0, 1 + 1e-9, 3], [0.25, 0.5, 0.25])) == 0.5
    rng = np.random.default_rng(0)
    samples = [np.sort(rng.standard_normal(n)) for n in (40, 60)]
    first, second = (weighted(s, np.full(len(s), 1 / len(s))) for s in samples)
    points = np.concatenate(samples)
    want = max(abs(np.mean(samples[0] <= p) - np.mean(samples[1] <= p)) for p in points)
    assert first.distance(second) == second.distance(first) == pytest.approx(want, rel=1e-12)


def test_large_spectra(monkeypatch):
    monkeypatch.setattr(theory._spectrum, "DENSE_LIMIT", 20)
    network = linear(6, 5, "ntp", 2, 4, 3)
    with pytest.raises(ValueError, match='method="exact" takes up to 20 unknowns, got 30. Use method="lanczos"'):
        theory.spectrum(network, method="exact")
    assert not theory.spectrum(network).exact
    assert theory.spectrum(network, part="diagonal").exact, "block by block at any size"


def test_bad_input():
    network = linear(6, 5, "ntp", 2, 4, 3)
    cases = [
        ("part 'diagnal' is not known. Did you mean 'diagonal'", {"part": "diagnal"}),
        ("method 'lancsoz' is not known. Did you mean 'lanczos'", {"method": "lancsoz"}),
        ("free_input and dummy_input exclude each other", {"free_input": True, "dummy_input": True}),
    ]
    for match, options in cases:
        with pytest.raises(ValueError, match=match):
            theory.spectrum(network, **options)
    for name, least, given in (("steps", 1, 0), ("probes", 1, -1), ("seed", 0, -1)):
        with pytest.raises(ValueError, match=f"{name} must be at least {least}, got {given}"):
            theory.Lanczos(**{name: given})
    found = weighted([0, 1], [0.5, 0.5])
    with pytest.raises(ValueError, match="width must be greater than 0"):
        found.density(0.0, 0.0)
    with pytest.raises(ValueError, match="levels must lie between 0 and 1"):
        found.quantiles(1.1)
