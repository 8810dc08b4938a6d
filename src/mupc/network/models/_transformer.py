"""Decoders that predict the next token, and their nodes: the embedding, normalisation and attention."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from ...io import checks
from .._activation import AnyActivation, resolve_activation, saved_name
from .._chain import Chain, Recipe
from .._coerce import check_key
from .._parts import Stack
from .._types import PRNGKeyArray
from ..nodes import AbstractNode, AbstractWeighted, AnyNode, Linear, Residual, Sequential, Signal

SMALLEST = 1e-5
"""Added to the mean square of a signal before it is divided by its root."""
MLP_WIDTH = 4
"""The hidden width of a block's MLP, in units of the width of the signal."""
ENDS_RATE = 4.0
"""How much faster the embedding and the readout learn than blocks, which have many matrices that move the signal
together. At one seed, 600 steps in error space with λ = 0.1 then end at a perplexity of 7.8 (rate 0.075) or 7.9 (0.05);
with one rate of 0.1 for all, the only one tried, at 8.7."""

Positions = Float[Array, "context width"]
Heads = Float[Array, "context heads size"]
Scores = Float[Array, "heads context context"]


class Embedding(AbstractWeighted):
    """A vector for each token plus one for its position; tokens are whole numbers, in any number format.

    Both come from one matrix, which two inputs at a time are on for: its fan-in is 2.

    **Arguments:** `vocabulary`, the number of tokens; `context`, that of positions; `width`, the size of the vectors;
    `parameterisation` as for `mupc.Network`; a random `key`.
    """

    vocabulary: int = eqx.field(static=True)

    def __init__(
        self, vocabulary: int, context: int, width: int, *, parameterisation: str = "mupc", key: PRNGKeyArray
    ) -> None:
        self.vocabulary = checks.integer("vocabulary", vocabulary, 1)
        rows = checks.integer("width", width, 1), vocabulary + checks.integer("context", context, 1)
        self._set_weights(
            rows,
            role="input",
            depth=1,
            parameterisation=parameterisation,
            init=None,
            use_bias=False,
            key=key,
            inputs_on=2,
            rate=ENDS_RATE,
        )

    def product(self, z: Float[Array, " context"]) -> Positions:
        table = self.weight.T
        return self.multiplier * (table[z.astype(int)] + table[self.vocabulary :])

    def difference(self, z: Float[Array, " context"], delta: Float[Array, " context"]) -> Positions:
        return self(z + delta) - self(z)


class Normalise(AbstractNode):
    """A signal divided by its root mean square over features, the last axis. It has no weights."""

    def __call__(self, z: Signal) -> Signal:
        return z / _size(z)

    def difference(self, z: Signal, delta: Signal) -> Signal:
        old, new = _size(z), _size(z + delta)
        growth = jnp.mean(delta * (2 * z + delta), axis=-1, keepdims=True) / (old + new)
        return (delta - z * growth / old) / new


def _size(z: Signal) -> Signal:
    return jnp.sqrt(jnp.mean(z**2, axis=-1, keepdims=True) + SMALLEST)


class Attention(AbstractNode):
    """Causal attention: each position gets a mean over itself and the ones before it, with weights by how well they
    match, in several heads. Matches are products of d entries divided by d.

    **Arguments:** `width` of the signal; `heads`, which must divide it; `depth`, the number of branches that add up;
    `parameterisation` and `use_bias` as for `mupc.Network`; a random `key`.
    """

    project: Linear
    merge: Linear
    heads: int = eqx.field(static=True)

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        depth: int,
        parameterisation: str = "mupc",
        use_bias: bool = False,
        key: PRNGKeyArray,
    ) -> None:
        width, self.heads = checks.integer("width", width, 1), checks.integer("heads", heads, 1)
        if width % heads:
            wrong = f"= {heads} do not divide the width of {width}."
            raise checks.ArgumentError("heads", wrong, "Choose a {width} that is a multiple of them.")
        options: Any = {"depth": depth, "parameterisation": parameterisation, "use_bias": use_bias}
        first, second = jr.split(key)
        self.project = Linear(width, 3 * width, role="inner", key=first, **options)
        self.merge = Linear(width, width, role="branch", key=second, **options)

    def __call__(self, z: Positions) -> Positions:
        query, key, value = self._split(self.project(z))
        mixed = self._mix(_softmax(self._match(query, key)), value)
        return self.merge(mixed.reshape(z.shape))

    def difference(self, z: Positions, delta: Positions) -> Positions:
        query, key, value = self._split(self.project(z))
        d_query, d_key, d_value = self._split(self.project.difference(z, delta))
        scores = self._match(query, key)
        d_scores = self._match(d_query, key + d_key) + self._match(query, d_key)
        d_weights = _softmax_difference(scores, d_scores)
        d_mixed = self._mix(d_weights, value + d_value) + self._mix(_softmax(scores), d_value)
        return self.merge.product(d_mixed.reshape(z.shape))

    def _split(self, projected: Float[Array, "context three_widths"]) -> tuple[Heads, Heads, Heads]:
        query, key, value = jnp.split(projected.reshape(len(projected), 3 * self.heads, -1), 3, axis=1)
        return query, key, value

    def _match(self, query: Heads, key: Heads) -> Scores:
        return self.project.policy.contract("thd,shd->hts", query, key) / query.shape[-1]

    def _mix(self, weights: Scores, value: Heads) -> Heads:
        return self.project.policy.contract("hts,shd->thd", weights, value)


def _earlier(scores: Scores) -> Array:
    return jnp.tri(scores.shape[-1], dtype=bool)


def _softmax(scores: Scores) -> Scores:
    return jax.nn.softmax(scores, where=_earlier(scores))


def _softmax_difference(scores: Scores, change: Scores) -> Scores:
    """Return softmax(s + Δ) − softmax(s), accurate for small Δ, by plain subtraction for others."""
    change = jnp.where(_earlier(scores), change, 0)
    weights = _softmax(scores)
    growth = jnp.expm1(jnp.clip(change, -1, 1))
    total = jnp.sum(weights * growth, axis=-1, keepdims=True)
    small = jnp.max(jnp.abs(change), axis=-1, keepdims=True) <= 1
    return jnp.where(small, weights * (growth - total) / (1 + total), _softmax(scores + change) - weights)


def transformer(
    vocabulary: int,
    context: int = 64,
    width: int = 64,
    blocks: int = 4,
    heads: int = 4,
    *,
    split: bool = False,
    normalise_embedding: bool = False,
    activation: AnyActivation = "relu",
    parameterisation: str = "mupc",
    use_bias: bool = False,
    key: PRNGKeyArray,
) -> Chain:
    """Return a decoder that predicts the next token at every position of a text.

    An embedding of tokens and positions, blocks of causal attention and an MLP, each on a residual branch with
    normalised input, and a linear readout. All branches are divided by the root of their number.

    **Arguments:**

    - `vocabulary`: the number of tokens; `context`: that of positions. Samples are rows of `context` whole numbers, and
      outputs have shape `(context, vocabulary)`.
    - `width`: the size of the vector at each position; `heads`: those of attention, which share the width.
    - `blocks`: the number of blocks. `split`: whether attention and MLP are nodes of their own, with a latent after
      each, instead of one node together.
    - `normalise_embedding`: whether the embedding's output is divided by its root mean square over features, as the
      inputs of branches are.
    - `activation` (of the MLPs), `parameterisation`, `use_bias`, `key`: as for `mupc.Network`.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.models.transformer(vocabulary=65, context=32, key=jr.key(0))
    network(jnp.zeros((5, 32))).shape     # (5, 32, 65)
    ```
    """
    check_key(key)
    blocks = checks.integer("blocks", blocks, 1)
    phi = resolve_activation(activation)
    style: Any = {"parameterisation": parameterisation, "use_bias": checks.boolean("use_bias", use_bias)}
    options: Any = {"depth": 2 * blocks, **style}
    first, last, middle = jr.split(key, 3)

    def attention(key: PRNGKeyArray) -> AnyNode:
        return Residual([Normalise(), Attention(width, heads, key=key, **options)])

    def mlp(key: PRNGKeyArray) -> AnyNode:
        into, out = jr.split(key)
        wide = Linear(width, MLP_WIDTH * width, role="inner", key=into, **options)
        return Residual([Normalise(), wide, phi, Linear(MLP_WIDTH * width, width, role="branch", key=out, **options)])

    def block(key: PRNGKeyArray) -> AnyNode:
        return Sequential([make(k) for make, k in zip((attention, mlp), jr.split(key), strict=True)])

    embedding = Embedding(vocabulary, context, width, parameterisation=parameterisation, key=first)
    normalised = checks.boolean("normalise_embedding", normalise_embedding)
    made: dict[str, AnyNode | Stack] = {"embedding": Sequential([embedding, Normalise()]) if normalised else embedding}
    if checks.boolean("split", split):
        for index, own in enumerate(jr.split(middle, blocks)):
            keys = jr.split(own)
            made[f"attention {index + 1}"], made[f"mlp {index + 1}"] = attention(keys[0]), mlp(keys[1])
    else:
        made["block"] = Stack(block, blocks, key=middle)
    readout = Linear(width, vocabulary, role="readout", rate=ENDS_RATE, key=last, **style)
    made["readout"] = Sequential([Normalise(), readout])
    arguments = {
        "vocabulary": vocabulary,
        "context": context,
        "width": width,
        "blocks": blocks,
        "heads": heads,
        "split": split,
        "normalise_embedding": normalised,
        "activation": saved_name(phi),
        **style,
    }
    recipe = Recipe("transformer", tuple(arguments.items()))
    return Chain(list(made.values()), input_shape=(context,), names=list(made), recipe=recipe)
