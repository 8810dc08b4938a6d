"""Construction: sizes, initial weights, multipliers, callables."""

import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import reference

import mupc
from mupc.inference import pose
from mupc.network import _recurrence
from mupc.network._backend import GPU


def test_shapes_and_names():
    network = mupc.Network(
        in_size=784, out_size=10, width=32, hidden_layers=12, activation="relu", parameterisation="mupc", skip=1,
        use_bias=False, key=jr.key(0),
    )  # fmt: skip
    assert network.input.weight.shape == (32, 784)
    assert network.hidden.weight.shape == (11, 32, 32)
    assert network.readout.weight.shape == (10, 32)
    assert network.hidden_layers == 12
    np.testing.assert_allclose(network.multipliers, (784**-0.5, (32 * 13) ** -0.5, 1 / 32))
    activities, output = mupc.forward(network, jnp.ones((3, 784)))
    assert activities.shape == (12, 3, 32)
    assert output.shape == (3, 10)


@pytest.mark.parametrize("name", ["sp", "mupc", "ntp", "orthogonal"])
@pytest.mark.parametrize("skip", [0, 1, 2])
def test_multipliers_are_table_1(name, skip):
    network, *_ = reference.make(parameterisation=name, skip=skip)
    np.testing.assert_allclose(network.multipliers, reference.multipliers(name, 5, 6, 4, skip), rtol=1e-15)


@pytest.mark.parametrize(
    ("name", "init", "std"),
    [
        ("sp", None, 1 / 16),
        ("sp", "gaussian", 1 / 16),
        ("sp", "kaiming-uniform", 1 / 16 / 3**0.5),
        ("mupc", None, 1),
        ("mupc", "kaiming-uniform", 1 / 16 / 3**0.5),
        ("ntp", None, 1),
        ("orthogonal", "gaussian", 1 / 16),
    ],
)
def test_initial_weights_have_their_standard_deviation(name, init, std):
    network = mupc.Network(256, 256, 256, 4, parameterisation=name, init=init, key=jr.key(0))
    for weights in (network.input.weight, network.hidden.weight, network.readout.weight):
        np.testing.assert_allclose(np.std(weights), std, rtol=0.02)
        assert abs(np.mean(weights)) < 0.02 * std
    if init == "kaiming-uniform":
        assert np.max(np.abs(network.hidden.weight)) <= 1 / 16


@pytest.mark.parametrize(("activation", "gain"), [("linear", 1.0), ("relu", 1.0), ("tanh", 1.05)])
def test_orthogonal_weights(activation, gain):
    network = mupc.Network(9, 3, 7, 4, parameterisation="orthogonal", activation=activation, skip=0, key=jr.key(0))
    eye = gain**2 * np.eye(7)
    for w in (*network.hidden.weight, network.input.weight):
        np.testing.assert_allclose(w @ w.T, eye, atol=1e-6)
    np.testing.assert_allclose(network.readout.weight @ network.readout.weight.T, eye[:3, :3], atol=1e-6)


def test_layers_differ_and_depend_on_the_key():
    one, same, other = (mupc.Network(4, 2, 5, 4, key=jr.key(k)).hidden.weight for k in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)
    assert not np.allclose(one[0], one[1])


def test_old_keys_give_the_same_network():
    typed, raw = (mupc.Network(4, 2, 5, 4, key=key).hidden.weight for key in (jr.key(3), jr.PRNGKey(3)))
    np.testing.assert_array_equal(typed, raw)


def test_init_may_be_a_function():
    network = mupc.Network(4, 2, 5, 3, init=lambda key, shape: jnp.full(shape, 2.0), key=jr.key(0))
    assert np.all(network.hidden.weight == 2)
    with pytest.raises(ValueError, match=r"init returned a weight of shape \(4, 5\), expected .* \(5, 4\)"):
        mupc.Network(4, 2, 5, 3, init=lambda key, shape: jnp.zeros(shape[::-1]), key=jr.key(0))
    with pytest.raises(ValueError, match="Did you mean 'orthogonal'"):
        mupc.Network(4, 2, 5, 3, init="orthogonall", key=jr.key(0))


def test_multipliers_can_be_overridden():
    network = mupc.Network(4, 2, 9, 3, multipliers=(1.0, 0.5, 1 / 3), key=jr.key(0))
    assert network.multipliers == (1.0, 0.5, 1 / 3)


def test_compile_time_objects_do_not_grow_with_depth():
    """The traced program has the same length whatever the depth: nothing is unrolled."""

    def program(depth):
        network, x, y = reference.make(hidden_layers=depth, activation="tanh")

        def update(x, y):
            solution = mupc.infer(network, x, y, mupc.GradientDescent(0.1, depth))
            return mupc.weight_gradients(network, solution, x), mupc.backprop_gradients(network, x, y)

        return sum(1 for _ in jax.make_jaxpr(update)(x, y).pretty_print().splitlines())

    assert program(64) <= 1.1 * program(16)


@pytest.mark.parametrize("reverse", [False, True])
def test_recurrence_of_a_shallow_network_on_a_gpu_is_the_loop(monkeypatch, reverse):
    items = jr.normal(jr.key(0), (3, 4, 4))
    first = jr.normal(jr.key(1), (4, 2))
    run = lambda: _recurrence.recurrence(jnp.matmul, first, items, 2, reverse)  # noqa: E731
    looped = run()
    monkeypatch.setattr(_recurrence, "backend", lambda: GPU)
    np.testing.assert_allclose(run(), looped, rtol=1e-12)


def test_activations_of_ones_own_may_be_used_in_traced_code():
    x = jnp.ones((2, 4))

    def output(key):
        return mupc.Network(4, 3, 5, 2, activation=jax.nn.mish, key=key)(x)

    np.testing.assert_allclose(jax.jit(output)(jr.key(0)), output(jr.key(0)), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(output)(jr.split(jr.key(0)))[1], output(jr.split(jr.key(0))[1]), rtol=1e-6)
    assert mupc.Network(4, 3, 5, 2, activation=jnp.log, key=jr.key(0)).activation.name == "log"  # NaN where z < 0


class Framed(mupc.AbstractNetwork):
    """A network of another class, with an MLP inside."""

    inner: mupc.Network
    in_size: int = eqx.field(static=True, default=64)
    out_size: int = eqx.field(static=True, default=10)

    weight_roles = property(lambda self: self.inner.weight_roles)
    layer_count = property(lambda self: self.inner.layer_count)
    why_no_rate_rule = property(lambda self: self.inner.why_no_rate_rule)
    layer_names = property(lambda self: self.inner.layer_names)
    weight_stacks = property(lambda self: self.inner.weight_stacks)
    input_shape = property(lambda self: self.inner.input_shape)
    output_shape = property(lambda self: self.inner.output_shape)

    def __call__(self, x):
        return self.inner(x)

    def forward_pass(self, x, precision):
        return self.inner.forward_pass(x, precision)

    def activity_shapes(self, batch):
        return self.inner.activity_shapes(batch)

    def prediction_errors(self, activities, x, precision):
        return self.inner.prediction_errors(activities, x, precision)

    def error_change(self, new, activities, x, precision):
        return self.inner.error_change(new.inner, activities, x, precision)

    def backpropagate(self, x, output_error, precision):
        gradients, output = self.inner.backpropagate(x, output_error, precision)
        return eqx.tree_at(lambda network: network.inner, self, gradients), output

    def local_gradients(self, *given):
        gradients = self.inner.local_gradients(*given)
        return eqx.tree_at(lambda network: network.inner, self, gradients)

    def per_layer(self, function):
        return self.inner.per_layer(function)

    def rate_scales(self, base):
        return self.inner.rate_scales(base)

    def scaled(self, scales):
        return eqx.tree_at(lambda network: network.inner, self, self.inner.scaled(scales))


@pytest.mark.slow
def test_a_network_of_another_class_trains_once_its_problem_is_registered():
    digits = mupc.data.load("digits")
    inner = mupc.Network(64, 10, width=8, hidden_layers=3, key=jr.key(0))
    train = lambda network, algorithm: mupc.fit(network, digits, algorithm, epochs=0.2, weight_lr=0.01)  # noqa: E731
    with pytest.raises(TypeError, match=r"Framed does not have an inference problem: .*pose\.register\(Framed\)"):
        train(Framed(inner), mupc.ErrorSpace())
    pose.register(Framed)(lambda network, batch, energy, precision: pose(network.inner, batch, energy, precision))
    for algorithm in (mupc.ErrorSpace(), mupc.BP()):
        framed, plain = train(Framed(inner), algorithm), train(inner, algorithm)
        np.testing.assert_array_equal(framed.losses, plain.losses)
        np.testing.assert_array_equal(framed.network.inner.hidden.weight, plain.network.hidden.weight)


@pytest.mark.parametrize("activation", ["relu", "linear"])
def test_networks_pickle(activation):
    network = mupc.Network(4, 3, 5, 2, activation=activation, key=jr.key(0))
    again = pickle.loads(pickle.dumps(network))
    assert again.activation is network.activation
    np.testing.assert_array_equal(again.hidden.weight, network.hidden.weight)
