"""Chains: shapes, names, nodes of others, and what is refused."""

import pickle
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc import nodes

KEY = jr.key(0)


def small(**changes):
    readout = nodes.Sequential(["relu", nodes.Flatten(), nodes.Linear(32, 3, role="readout", key=KEY)])
    parts = {"stem": nodes.Conv2d(1, 2, role="input", key=KEY), "readout": readout} | changes
    return mupc.Chain(list(parts.values()), input_shape=(1, 4, 4), names=tuple(parts))


def test_samples_may_be_images_or_rows():
    chain, images = small(), jr.normal(KEY, (5, 1, 4, 4))
    assert chain.in_size == 16 and chain.out_size == 3 and chain.layer_count == 2
    np.testing.assert_array_equal(chain(images), chain(images.reshape(5, 16)))
    with pytest.raises(ValueError, match=r"x must have shape \(batch, 1, 4, 4\), got \(5, 4, 4, 1\)"):
        chain(images.transpose(0, 2, 3, 1))


def test_nodes_of_a_stack_are_named_by_number():
    def block(key):
        return nodes.Residual(["relu", nodes.Conv2d(2, 2, role="branch", depth=4, key=key)])

    readout = nodes.Sequential([nodes.GlobalMean(), nodes.Linear(2, 3, role="readout", key=KEY)])
    parts = [nodes.Conv2d(1, 2, key=KEY), mupc.Stack(block, 2, key=KEY), readout]
    chain = mupc.Chain(parts, input_shape=(1, 4, 4), names=("stem", "block", "readout"))
    assert chain.layer_names == ("stem", "block.1", "block.2", "readout")
    sizes = [int(n) for n in chain.per_layer(lambda layer: layer.weight.shape[-1] * jnp.ones(len(layer.weight)))]
    assert sizes == [18, 36, 36, 6]


def test_a_convolution_is_its_dense_matrix():
    layer = nodes.Conv2d(2, 3, stride=2, use_bias=True, key=KEY)
    z = jr.normal(jr.key(1), (2, 5, 5))
    padded, found = np.pad(np.asarray(z), ((0, 0), (1, 1), (1, 1))), np.zeros((3, 3, 3))
    for row in range(3):
        for column in range(3):
            window = padded[:, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
            found[:, row, column] = np.asarray(layer.weight).reshape(3, -1) @ window.reshape(-1) / np.sqrt(18)
    np.testing.assert_allclose(layer(z), found, atol=1e-6)


@pytest.mark.parametrize(
    "node, shape",
    [
        (nodes.Linear(4, 3, use_bias=True, key=KEY), (4,)),
        (nodes.Conv2d(2, 2, use_bias=True, key=KEY), (2, 4, 4)),
        (nodes.MaxPool(), (2, 4, 5)),
        (nodes.MeanPool(), (2, 4, 4)),
        (nodes.GlobalMean(), (2, 4, 4)),
        (nodes.Flatten(), (2, 4, 4)),
        (nodes.Residual(["gelu", nodes.Conv2d(2, 2, key=KEY), "tanh", nodes.Conv2d(2, 2, key=KEY)]), (2, 4, 4)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, eqx.Module) else "",
)
def test_differences_are_exact(node, shape):
    """In float64 a large difference is plain subtraction; in float32 a tiny one agrees with the derivative."""
    z, delta = jr.normal(jr.key(1), shape), jr.normal(jr.key(2), shape)
    double = jax.tree.map(lambda leaf: leaf.astype(float), node)
    assert node.exact
    np.testing.assert_allclose(double.difference(z, delta), double(z + delta) - double(z), atol=1e-12)
    tiny = 1e-20 * delta
    slope = jax.jvp(double, (z,), (tiny,))[1]
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), node)
    found = single.difference(z.astype(jnp.float32), tiny.astype(jnp.float32))
    np.testing.assert_allclose(found, slope, rtol=1e-4, atol=1e-26)


@pytest.mark.parametrize(
    "role, multiplier, hidden_factor",
    [
        ("input", 54**-0.5, 1),
        ("hidden", 54**-0.5, (64 / 54) ** 0.5),
        ("inner", 54**-0.5, (64 * 9 / (54 * 16)) ** 0.5),
        ("branch", (54 * 16) ** -0.5, (64 * 9 / (54 * 16)) ** 0.5),
        ("readout", 1 / 54, 1),
    ],
)
def test_roles_decide_multiplier_and_rate(role, multiplier, hidden_factor):
    layer = nodes.Conv2d(6, 4, role=role, depth=16, key=KEY)
    assert layer.multiplier == pytest.approx(multiplier)
    (scale,) = layer.rate_scales(mupc.network.BaseSize()).updates
    assert scale.weight == pytest.approx(hidden_factor)
    plain = nodes.Conv2d(6, 4, role=role, depth=16, parameterisation="sp", key=KEY)
    assert plain.multiplier == 1 and float(jnp.std(plain.weight)) == pytest.approx(54**-0.5, rel=0.3)


def test_modules_of_equinox_are_nodes_without_a_rule_for_rates():
    parts = [eqx.nn.Linear(4, 5, key=KEY), eqx.nn.MLP(5, 3, 6, 1, key=KEY)]
    chain, x = mupc.Chain(parts, input_shape=(4,)), jr.normal(KEY, (2, 4))
    np.testing.assert_allclose(chain(x), jax.vmap(parts[1])(jax.vmap(parts[0])(x)), atol=1e-6)
    assert chain.why_no_rate_rule == "the node '1 Linear', some of whose weights have no role"
    assert small().why_no_rate_rule is None
    assert pickle.loads(pickle.dumps(small()))(jnp.ones((1, 16))).shape == (1, 3)


@pytest.mark.slow
def test_a_chain_of_equinox_modules_trains():
    chain = mupc.Chain([eqx.nn.Linear(4, 5, key=KEY), eqx.nn.MLP(5, 3, 6, 1, key=KEY)], input_shape=(4,))
    made = mupc.fit(chain, mupc.data.from_arrays(np.ones((8, 4)), np.arange(8) % 3), epochs=1, batch_size=4)
    assert np.isfinite(made.last["train_loss"])


class Tokens(eqx.Module):
    table: jax.Array

    def __call__(self, tokens):
        return self.table[tokens.astype(int)]


def test_outputs_may_have_positions():
    """A loss for every position: labels (B, T) are targets (B, T, V), and losses add up."""
    table, head = jr.normal(KEY, (5, 4)), nodes.Sequential(["tanh", nodes.Linear(4, 5, role="readout", key=KEY)])
    chain = mupc.Chain([Tokens(table), head], input_shape=(3,))
    tokens, labels = jnp.array([[0, 1, 2], [4, 3, 2]]), np.array([[1, 2, 3], [3, 2, 0]])
    assert chain.output_shape == (3, 5)
    energy = mupc.Energy(loss="cross-entropy")
    solution = mupc.infer(chain, tokens, labels, mupc.ErrorSpace(), energy=energy)
    assert solution.output.shape == (2, 3, 5)
    logits = np.log(np.exp(chain(tokens)) / np.exp(chain(tokens)).sum(-1, keepdims=True))
    loss = -np.take_along_axis(logits, labels[..., None], -1).sum() / 2
    start = mupc.infer(chain, tokens, labels, mupc.GradientDescent(lr=0.1, steps=0), energy=energy)
    np.testing.assert_allclose(start.energy, loss, rtol=1e-6)
    with pytest.raises(ValueError, match=r"y .*\(batch, 3, 5\)"):
        mupc.infer(chain, tokens, np.ones((2, 3)), mupc.ErrorSpace())


def refused(error, match):
    return pytest.raises(error, match=match)


def test_what_does_not_fit_is_named():
    with refused(ValueError, r"'readout' does not take the shape \(2, 2, 2\) of 'stem'"):
        small(stem=nodes.Conv2d(1, 2, stride=2, role="input", key=KEY))
    with refused(ValueError, r"no latent"):
        mupc.Chain([nodes.Flatten()], input_shape=(3,))
    with refused(ValueError, r"names has 1 entries for 2 nodes"):
        mupc.Chain([nodes.Flatten(), nodes.Linear(3, 2, key=KEY)], input_shape=(3,), names=("one",))
    with refused(ValueError, r"ends with a Stack"):
        mupc.Chain(
            [nodes.Linear(3, 3, key=KEY), mupc.Stack(lambda k: nodes.Linear(3, 3, key=k), 2, key=KEY)], input_shape=(3,)
        )
    with refused(ValueError, r"stack 'readout', whose node turns the shape \(3,\) into \(2,\)"):
        parts = [nodes.Linear(3, 3, key=KEY), mupc.Stack(lambda k: nodes.Linear(3, 2, key=k), 2, key=KEY)]
        mupc.Chain([*parts, nodes.Linear(2, 2, key=KEY)], input_shape=(3,), names=("stem", "readout", "end"))
    with refused(ValueError, r"batch norm in '1 BatchNorm'.*LayerNorm"):
        mupc.Chain([eqx.nn.BatchNorm(3, "batch", mode="batch"), nodes.Linear(3, 2, key=KEY)], input_shape=(3,))
    with refused(ValueError, r"nothing after 'stem'"):
        small(stem=nodes.Conv2d(1, 2, 5, padding=0, key=KEY))
    with refused(ValueError, r"pool is 5, and images of 4 × 4 pixels"):
        small(stem=nodes.Sequential([nodes.Conv2d(1, 2, key=KEY), nodes.MaxPool(5)]))
    with refused(ValueError, r"size must be at least 1, got 0"):
        small(stem=nodes.Sequential([nodes.Conv2d(1, 2, key=KEY), nodes.MaxPool(0)]))
    with refused(TypeError, r"function of a random key"):
        mupc.Stack(nodes.Linear(3, 3, key=KEY), 2, key=KEY)
    with refused(ValueError, r"role .*branch"):
        nodes.Linear(3, 3, role="skip", key=KEY)
    with pytest.warns(UserWarning, match="'pool' has no weights.*inside its neighbour"):
        readout = nodes.Sequential(["relu", nodes.Flatten(), nodes.Linear(8, 3, role="readout", key=KEY)])
        mupc.Chain(
            [nodes.Conv2d(1, 2, role="input", key=KEY), nodes.MeanPool(), readout],
            input_shape=(1, 4, 4),
            names=("stem", "pool", "readout"),
        )


class Masked(eqx.Module):
    weight: jax.Array
    mask: jax.Array

    def __call__(self, z):
        return jnp.where(self.mask, self.weight, 0) @ z


def test_a_node_that_cannot_learn_is_refused_before_training():
    linear = nodes.Linear(4, 3, role="readout", key=KEY)
    for other in (jnp.ones((4, 4), bool), jnp.arange(4), jr.key(0)):
        with refused(ValueError, r"^nodes has '1 Masked' with an array of .*stop_gradient, or make it in the call\.$"):
            mupc.Chain([Masked(jnp.eye(4), other), linear], input_shape=(4,))
    counts = eqx.nn.Lambda(lambda z: jnp.round(z).astype(int))
    with refused(ValueError, r"'1 Lambda'"):
        mupc.Chain([counts, linear], input_shape=(4,))
    with refused(ValueError, r"Residual turns the shape \(4,\) into \(1,\)"):
        mupc.Chain([nodes.Residual(nodes.Linear(4, 1, key=KEY)), linear], input_shape=(4,))


@pytest.mark.parametrize(
    ("given", "shape", "error", "words"),
    [
        (
            [nodes.Linear(5, 8, key=KEY), nodes.Linear(7, 3, key=KEY)],
            (5,),
            ValueError,
            "'2 Linear' does not take the shape (8,) of '1 Linear': a Linear takes 7 features in the last axis.",
        ),
        (
            [nodes.Conv2d(1, 8, key=KEY), "relu"],
            (3, 4, 4),
            ValueError,
            "'1 Conv2d' does not take the shape (3, 4, 4) of the input: a Conv2d takes images of shape (1,",
        ),
        (nodes.Linear(5, 3, key=KEY), (5,), TypeError, "nodes must be a list or a tuple"),
        (["relu", "relu"], 5, TypeError, "input_shape must be a list or a tuple, got 5"),
        (["relu", [nodes.Linear(5, 3, key=KEY)]], (5,), ValueError, "activation"),
    ],
)
def test_mistakes_are_one_line(given, shape, error, words):
    with warnings.catch_warnings(), pytest.raises(error) as raised:
        warnings.simplefilter("ignore", UserWarning)
        mupc.Chain(given, input_shape=shape)
    assert words in str(raised.value) and "\n" not in str(raised.value) and len(str(raised.value)) < 500


def test_activities_of_another_chain_are_refused():
    chain, x = small(), jnp.ones((2, 16))
    with refused(ValueError, r"activities does not fit the chain.*tuple of 1"):
        mupc.energy(chain, jnp.ones((1, 2, 2, 4, 4)), x, jnp.array([0, 1]))
    with refused(ValueError, r"activities must have shape .*, got \(1, 2, 2, 4, 5\)"):
        mupc.energy(chain, (jnp.ones((1, 2, 2, 4, 5)),), x, jnp.array([0, 1]))
    with refused(ValueError, "ExactLinear|linear"):
        mupc.infer(chain, x, jnp.array([0, 1]), mupc.ExactLinear())


@pytest.mark.parametrize(
    ("shape", "cure"),
    [
        ((2, 4, 5), r"Add the axis of channels: x\[:, None\]"),
        ((2, 4, 5, 1), r"Channels come first: jnp.moveaxis\(x, -1, 1\)"),
        ((2, 1, 5, 4), "Pass samples of the network's input_shape"),
    ],
)
def test_images_with_axes_that_do_not_fit(shape, cure):
    first = nodes.Sequential([nodes.Flatten(), nodes.Linear(20, 3, key=KEY)])
    network = mupc.Chain([first, nodes.Linear(3, 2, key=KEY)], input_shape=(1, 4, 5))
    for call in (network, lambda x: mupc.infer(network, x, np.zeros(2, int), mupc.ErrorSpace())):
        with pytest.raises(ValueError, match=rf"x must have shape \(batch, 1, 4, 5\), got .*\. {cure}"):
            call(np.zeros(shape))


def test_nodes_of_a_stack_are_made_at_once_and_depend_on_their_key_alone():
    made = iter([eqx.nn.Linear(4, 4, key=jr.key(seed)) for seed in (3, 4, 5)])
    numbers = iter(range(9))
    for make in (lambda key: next(made), lambda key: nodes.Linear(4, 4, key=jr.key(next(numbers)))):
        with pytest.raises(ValueError, match="must return a node that depends on its key alone. Draw the weights"):
            mupc.Stack(make, 3, key=KEY)
    own = mupc.Stack(lambda key: eqx.nn.MLP(4, 4, 8, 1, activation=lambda z: z**2, key=key), 3, key=KEY)
    assert own.depth == 3
