"""The models: outputs written out in numpy, gradients, multipliers and rates by hand, recipes, and what is refused."""

import json

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc import models
from mupc.network import POLICIES, BaseSize
from mupc.network.nodes import weighted_layers

KEY = jr.key(0)
TEXT = {"vocabulary": 5, "context": 4, "width": 6, "blocks": 2, "heads": 2}
TOKENS, NEXT = jnp.array([[0, 3, 1, 4], [2, 2, 4, 0]]), np.array([[3, 1, 4, 2], [2, 4, 0, 1]])


def doubled(network):
    return jax.tree.map(lambda leaf: leaf.astype(float), network)


MADE = {
    "resnet": lambda **options: models.resnet((2, 4, 4), 3, 2, (2, 1), key=KEY, **options),
    "vgg": lambda **options: models.vgg((2, 4, 4), 3, 2, ((1, 1, True), (2, 1, False)), key=KEY, **options),
    "transformer": lambda **options: models.transformer(**TEXT, key=KEY, **options),
}
VARIANTS = [
    ("resnet", {"convolutions": 2, "use_bias": True}),
    ("vgg", {}),
    ("transformer", {"use_bias": True, "normalise_embedding": True}),
    ("transformer", {"split": True, "parameterisation": "sp"}),
]


def samples(network):
    """Inputs and labels for a network."""
    if len(network.input_shape) == 1:
        return TOKENS, NEXT
    return jr.normal(jr.key(1), (2, *network.input_shape)), np.array([0, 2])


def convolve(image, filters, stride=1):
    """Return a convolution in numpy, pixel by pixel."""
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    rows, columns = (-(-side // stride) for side in image.shape[1:])
    found = np.zeros((len(filters), rows, columns))
    for row, column in np.ndindex(rows, columns):
        window = padded[:, row * stride : row * stride + 3, column * stride : column * stride + 3]
        found[:, row, column] = np.tensordot(filters, window, 3)
    return found


def test_a_resnet_in_numpy():
    """Three residual nodes in two stages; with stem, change of stage and readout L = 6."""
    network = doubled(MADE["resnet"]())
    x = jr.normal(jr.key(1), (2, 4, 4))
    stem, first, down, second, readout = (np.asarray(layer.weight) for layer in weighted_layers(network))
    z = convolve(np.asarray(x), stem) / np.sqrt(9 * 2)
    for weight in first:
        z = z + convolve(np.maximum(z, 0), weight) / np.sqrt(9 * 2 * 6)
    z = convolve(np.maximum(z, 0), down, stride=2) / np.sqrt(9 * 2)
    z = z + convolve(np.maximum(z, 0), second[0]) / np.sqrt(9 * 4 * 6)
    output = readout @ np.maximum(z, 0).mean(axis=(1, 2)) / 4
    np.testing.assert_allclose(network(x[None])[0], output, atol=1e-12)
    assert network.layer_names == ("stem", "stage 1.1", "stage 1.2", "down 2", "stage 2.1", "readout")


def test_vgg_is_that_of_the_literature():
    """Shapes for images of 32 × 32 pixels, from the papers; weights are shapes here, so that nothing is computed."""
    five, seven = (jax.eval_shape(lambda name=name: models.vgg(layers=name, key=KEY)) for name in ("vgg5", "vgg7"))
    assert five.latent_shapes == ((128, 16, 16), (256, 8, 8), (512, 4, 4), (512, 2, 2))
    assert weighted_layers(five)[-1].weight.shape == (10, 2048)
    sides = [shape[1] for shape in seven.latent_shapes]
    assert [shape[0] for shape in seven.latent_shapes] == [128, 128, 256, 256, 512, 512]
    assert sides == [16, 16, 8, 6, 3, 1]
    small = doubled(MADE["vgg"](activation="relu"))
    x = jr.normal(jr.key(1), (2, 4, 4))
    first, second, readout = (np.asarray(layer.weight) for layer in weighted_layers(small))
    z = np.maximum(convolve(np.asarray(x), first) / np.sqrt(9 * 2), 0).reshape(2, 2, 2, 2, 2).max(axis=(2, 4))
    z = np.maximum(convolve(z, second) / np.sqrt(9 * 2), 0)
    np.testing.assert_allclose(small(x[None])[0], readout @ z.reshape(-1) / 16, atol=1e-12)


def attended(z, project, merge):
    """Return what attention with two heads adds to positions (T, 6), loop by loop, times the root of the branches."""
    z = z / np.sqrt(np.mean(z**2, axis=-1, keepdims=True) + 1e-5)
    query, key, value = np.split(z @ project.T / np.sqrt(6), 3, axis=1)
    mixed = np.zeros_like(z)
    for head in (slice(0, 3), slice(3, 6)):
        for t in range(len(z)):
            scores = np.exp([query[t, head] @ key[s, head] / 3 for s in range(t + 1)])
            mixed[t, head] = sum(score * value[s, head] for s, score in enumerate(scores / scores.sum()))
    return mixed @ merge.T / np.sqrt(6)


@pytest.mark.parametrize(("split", "normalised"), [(False, False), (True, False), (False, True)])
def test_a_transformer_in_numpy(split, normalised):
    network = doubled(MADE["transformer"](split=split, normalise_embedding=normalised))
    table, *inner, readout = (np.asarray(layer.weight) for layer in weighted_layers(network))
    blocks = [inner[:4], inner[4:]] if split else zip(*inner, strict=True)
    z = (table.T[np.asarray(TOKENS[0])] + table.T[5:]) / np.sqrt(2)
    if normalised:
        z = z / np.sqrt(np.mean(z**2, axis=-1, keepdims=True) + 1e-5)
    for project, merge, wide, back in blocks:
        z = z + attended(z, project, merge) / np.sqrt(4)  # two blocks have four branches
        into = z / np.sqrt(np.mean(z**2, axis=-1, keepdims=True) + 1e-5)
        z = z + np.maximum(into @ wide.T / np.sqrt(6), 0) @ back.T / np.sqrt(24 * 4)
    output = z / np.sqrt(np.mean(z**2, axis=-1, keepdims=True) + 1e-5) @ readout.T / 6
    np.testing.assert_allclose(network(TOKENS)[0], output, atol=1e-12)
    names = ("embedding", "attention 1", "mlp 1", "attention 2", "mlp 2", "readout")
    assert network.layer_names == (names if split else ("embedding", "block.1", "block.2", "readout"))


def test_later_tokens_change_no_earlier_output():
    network = MADE["transformer"]()
    changed = network(TOKENS.at[:, 2].set(0)) - network(TOKENS)
    assert np.all(np.asarray(changed[:, :2]) == 0)
    assert np.all(np.any(np.asarray(changed[:, 2:]) != 0, axis=-1))


@pytest.mark.slow
@pytest.mark.parametrize("model, options", VARIANTS, ids=lambda value: value if isinstance(value, str) else "")
def test_gradients(model, options):
    """Backpropagation against `jax.grad`, the gradient of the energy against finite differences, both in float64."""
    network = doubled(MADE[model](**options))
    x, labels = samples(network)
    energy = mupc.Energy(loss="cross-entropy", output_precision=0.5)

    def loss(network):
        logs = jax.nn.log_softmax(network(x))
        return -jnp.sum(jnp.take_along_axis(logs, labels[..., None], -1)) / len(x)

    expected = jax.grad(loss)(network)
    found = mupc.backprop_gradients(network, x, labels, energy=energy)
    for own, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-12)

    solution = mupc.infer(network, x, labels, mupc.ErrorSpace(steps=2), energy=energy)
    gradients = mupc.weight_gradients(network, solution, x)
    keys = jr.split(jr.key(3), len(jax.tree.leaves(network)))
    leaves, structure = jax.tree.flatten(network)
    way = jax.tree.unflatten(structure, [jr.normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=True)])

    def moved(step):
        there = jax.tree.map(lambda leaf, by: leaf + step * by, network, way)
        return mupc.energy(there, solution.activities, x, labels, energy=energy)

    slope = sum(jax.tree.leaves(jax.tree.map(lambda g, by: jnp.sum(g * by), gradients, way)))
    np.testing.assert_allclose((moved(1e-5) - moved(-1e-5)) / 2e-5 / 0.5, slope, rtol=1e-6)


def test_rates_of_every_role():
    """Factors of Adam's rates by hand, from a base of 8 hidden layers of 64 units: L₀ = 9."""
    network = jax.eval_shape(lambda: models.resnet((3, 8, 8), 10, 16, (3, 2), convolutions=2, key=KEY))
    layers = weighted_layers(network)
    assert [layer.role for layer in layers] == ["input", "inner", "branch", "hidden", "inner", "branch", "readout"]
    found = [scale.weight for scale in network.rate_scales(BaseSize()).updates]
    stage = [(64 * 9 / (9 * channels * 8)) ** 0.5 for channels in (16, 32)]
    expected = [1, stage[0], stage[0], (64 / (9 * 16)) ** 0.5, stage[1], stage[1], 1]
    np.testing.assert_allclose(found, expected)
    text = jax.eval_shape(lambda: models.transformer(5, 4, width=32, blocks=3, key=KEY))
    found = [scale.weight for scale in text.rate_scales(BaseSize()).updates]
    block = [(64 * 9 / (fan_in * 6)) ** 0.5 for fan_in in (32, 32, 32, 128)]
    np.testing.assert_allclose(found, [4, *block, 4])


@pytest.mark.parametrize("node", [models.Normalise(), models.Attention(6, 2, depth=1, use_bias=True, key=KEY)])
def test_differences_are_exact(node):
    """In float64 a large difference is plain subtraction; in float32 a tiny one agrees with the derivative."""
    z, delta = jr.normal(jr.key(1), (4, 6)), jr.normal(jr.key(2), (4, 6))
    double = doubled(node)
    for size in (0.1, 10.0):
        np.testing.assert_allclose(double.difference(z, size * delta), double(z + size * delta) - double(z), atol=1e-12)
    tiny = 1e-20 * delta
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), node)
    found = single.difference(z.astype(jnp.float32), tiny.astype(jnp.float32))
    np.testing.assert_allclose(found, jax.jvp(double, (z,), (tiny,))[1], rtol=1e-3, atol=1e-25)


@pytest.mark.parametrize("side, stride, padding", [(3, 1, 1), (3, 2, 1), (3, 2, 0), (5, 3, 2), (1, 2, 0), (2, 1, 1)])
def test_both_ways_to_convolve_agree(side, stride, padding):
    """CPUs multiply with shifted images, other devices call the library's convolution."""
    image, filters = jr.normal(jr.key(1), (2, 9, 6)), jr.normal(jr.key(2), (4, 2, side, side))
    policy = POLICIES["float64"]
    ours = policy._shifted_product(image, filters, stride, padding)
    np.testing.assert_allclose(ours, policy._library_convolution(image, filters, stride, padding), atol=1e-12)


@pytest.mark.parametrize("algorithm", ["bp", "error space"])
def test_programs_do_not_grow_with_depth(algorithm):
    """The compiler gets as many operations for a stack of 64 nodes as for one of 8."""

    def size(depth):
        network = models.resnet((1, 4, 4), 3, 2, (depth,), key=KEY)
        x, labels = samples(network)[0][:, :1], np.array([0, 2])

        def learn(network):
            if algorithm == "bp":
                return mupc.backprop_gradients(network, x, labels)
            return mupc.weight_gradients(network, mupc.infer(network, x, labels, mupc.ErrorSpace()), x)

        return len(str(jax.make_jaxpr(learn)(network)).splitlines())

    assert size(64) == size(8)


@pytest.mark.parametrize("model, options", VARIANTS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_recipe_makes_the_same_chain_again(model, options):
    network = MADE[model](**options)
    assert network.recipe.model == model
    arguments = json.loads(json.dumps(dict(network.recipe.arguments)))
    again = models.MODELS[model](**arguments, key=KEY)
    assert jax.tree.structure(again) == jax.tree.structure(network)
    jax.tree.map(np.testing.assert_array_equal, again, network)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: models.resnet((1, 8, 8), blocks=(1,) * 5, key=KEY), "blocks has 5 stages.* 8 × 8 pixels .* for 4"),
        (lambda: models.resnet((1, 8, 8), blocks=(), key=KEY), "blocks is empty"),
        (lambda: models.resnet((1, 8, 8), blocks=(2, 0), key=KEY), "blocks must be at least 1, got 0"),
        (lambda: models.resnet((8, 8), key=KEY), r"input_shape must have three entries, got \(8, 8\)"),
        (lambda: models.resnet(convolutions=0, key=KEY), "convolutions must be at least 1"),
        (lambda: models.vgg(layers="vgg6", key=KEY), "layers 'vgg6' is not known. Did you mean 'vgg"),
        (lambda: models.vgg((1, 8, 8), key=KEY), "the layers leave no pixels of images of 8 × 8 after convolution 4"),
        (lambda: models.vgg(layers=((1, 1),), key=KEY), "layers has .* for a convolution. Give its channels"),
        (lambda: models.vgg(layers=(), key=KEY), "layers is empty"),
        (lambda: models.transformer(5, context=0, key=KEY), "context must be at least 1, got 0"),
        (lambda: models.transformer(5, width=10, heads=4, key=KEY), "heads=4 do not divide the width of 10"),
        (lambda: models.transformer(0, key=KEY), "vocabulary must be at least 1"),
    ],
)
def test_bad_input_is_refused_in_one_line(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
