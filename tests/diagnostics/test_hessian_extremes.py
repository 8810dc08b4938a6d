"""The ends of the spectrum without a matrix, against the dense ones of the same linear network, and refusals."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from chains import chain_of

import mupc
from mupc.diagnostics import hessian_extremes
from mupc.theory._hessian import check_weights

NETWORK = mupc.Network(4, 3, 8, 3, activation="linear", key=jr.key(0))
X, Y = jr.normal(jr.key(1), (2, 4)), jr.normal(jr.key(2), (2, 3))


@pytest.mark.parametrize("make", [lambda network: network, chain_of], ids=["network", "chain"])
def test_linear_networks(make):
    energy = mupc.Energy(output_precision=0.5, activity_decay=0.1)
    exact = np.linalg.eigvalsh(mupc.theory.activity_hessian(NETWORK, energy=energy))
    found = hessian_extremes(make(NETWORK), X, Y, energy=energy)
    np.testing.assert_allclose(found.largest, exact[-1], rtol=1e-3)
    np.testing.assert_allclose(found.smallest, exact[0], rtol=1e-3)
    np.testing.assert_allclose(found.kappa, exact[-1] / exact[0], rtol=1e-3)


def test_what_is_for_mlps_alone():
    chain = chain_of(NETWORK)
    with pytest.raises(TypeError, match=r"mupc.theory is for mupc.Network, got a Chain: .*hessian_extremes"):
        check_weights(chain)
    activities = tuple(jnp.zeros(shape) for shape in chain.activity_shapes(2))
    with pytest.raises(ValueError, match="orthogonality is for the matrices of mupc.Network"):
        mupc.energy(chain, activities, X, Y, energy=mupc.Energy(orthogonality=0.1))
    with pytest.raises((ValueError, TypeError), match="ExactLinear") as caught:
        mupc.infer(chain, X, Y, mupc.ExactLinear())
    assert "\n" not in str(caught.value)


def test_tokens_are_not_inferred():
    network = mupc.models.transformer(4, context=3, width=4, blocks=1, heads=1, key=jr.key(0))
    with pytest.raises(ValueError, match="tokens cannot be inferred"):
        mupc.infer(network, None, jnp.zeros((2, 3, 4)), mupc.ErrorSpace())


@pytest.mark.slow
def test_the_sizes_of_a_chain_are_those_of_the_network():
    batch = np.asarray(X), np.asarray(Y)
    one, two = (mupc.coordinate_sizes(each, batch) for each in (NETWORK, chain_of(NETWORK)))
    assert one.keys() - two.keys() == {"branches"}
    for quantity, sizes in two.items():
        np.testing.assert_allclose(sizes, one[quantity], rtol=1e-6)
