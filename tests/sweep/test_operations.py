"""The number of products in a forward pass, against counts by hand."""

import jax.random as jr
import pytest

import mupc
from mupc.sweep._operations import forward_products

KEY = jr.key(0)
NETWORKS = {
    "mlp": (lambda: mupc.Network(64, 10, 8, 3, key=KEY), 64 * 8 + 2 * 8 * 8 + 8 * 10),
    "resnet": (
        lambda: mupc.models.resnet((1, 8, 8), 10, width=4, blocks=(2, 1), key=KEY),
        64 * 9 * 4 + 2 * 64 * 9 * 4 * 4 + 16 * 9 * 4 * 8 + 16 * 9 * 8 * 8 + 8 * 10,  # pixels × filters
    ),
    "transformer": (
        lambda: mupc.models.transformer(5, 6, width=8, blocks=3, heads=2, key=KEY),
        3 * 6 * (8 * 24 + 8 * 8 + 2 * 8 * 32) + 3 * 2 * 2 * 6 * 6 * 4 + 6 * 8 * 5,  # matrices, matches, readout
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_products_of_a_forward_pass(name):
    make, expected = NETWORKS[name]
    assert forward_products(make()) == expected
