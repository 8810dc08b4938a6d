"""`Model`: a trained network together with what turns a user's samples into its inputs and its outputs into answers."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..data import DataError, Normalisation, RawSamples, Schema
from ..inference import CROSS_ENTROPY, Energy, LossFunction
from ..io import checks
from ..learning import Relaxation
from ..network import AbstractNetwork, Inputs, Outputs, Precision, check_network, resolve_precision

BUCKETS = (16, 256)
"""So many samples at a time, filled up if need be: two compiled programs serve any number of samples."""


class Model(eqx.Module):
    """A trained network, with everything that prediction needs. `mupc.fit(...).model` and `mupc.load` return one.

    **Arguments:**

    - `network`: the network.
    - `schema`: how raw samples become its inputs, and its outputs predictions (default: as they are).
    - `loss`: what it was trained with: a name, or a function of one output and its target.
    - `data`: the name of the data that it was trained on, if known.
    - `relaxation`: how the network predicts after `mupc.EquilibriumPropagation`; None: by the forward pass.

    **Example:**

    ```python
    import jax.random as jr, mupc

    digits = mupc.data.load("digits")
    network = mupc.Network(in_size=64, out_size=10, width=32, hidden_layers=4, key=jr.key(0))
    model = mupc.fit(network, digits, mupc.PC(mupc.ErrorSpace()), epochs=1).model
    model.predict(digits.test.raw)                             # raw pixels, as they were loaded
    model.evaluate(digits.test.raw, digits.test.targets)       # {"accuracy": …, "loss": …}
    ```
    """

    network: AbstractNetwork
    schema: Schema = eqx.field(static=True, default_factory=Schema)
    loss: str | LossFunction = eqx.field(static=True, default="mse")
    data: str | None = eqx.field(static=True, default=None)
    relaxation: Relaxation | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        check_network(self.network)
        Energy(loss=self.loss)
        for kind, known, size in (
            ("inputs", self.schema.in_size, self.network.in_size),
            ("outputs", self.schema.out_size, self.network.out_size),
        ):
            if known not in (None, size):
                wrong = f"is for {known} {kind}, and the network has {size}."
                raise checks.ArgumentError("schema", wrong, "Pass the schema of the data that it was trained on.")

    @property
    def describes_samples(self) -> bool:
        """Whether the model says anything about its samples, or takes and returns numbers as they are."""
        return self.schema.as_json() != Schema().as_json()

    def outputs(self, x: RawSamples) -> np.ndarray:
        """Return the network's own outputs for raw samples: (n, out_size), of a text (n, positions, characters)."""
        return _outputs(self.network, self.schema.read(x), self.schema.normalisation, self.relaxation)

    def predict(self, x: RawSamples) -> np.ndarray:
        """Return a label for each raw sample; for a regression the predicted values, in the units of the targets; for
        texts the character that comes next.

        **Arguments:** samples as the training data had them: an array, lists, or a DataFrame; a text, or several.
        """
        return self.schema.decode(self._answers(x))

    def predict_proba(self, x: RawSamples) -> np.ndarray:
        """Return the probability of each class, or of each next character (n, classes), in the order of
        `schema.labels`.

        **Arguments:** samples as for `predict`. Only a network trained with cross-entropy has probabilities.
        """
        return self.probabilities(self._answers(x))

    def _answers(self, x: RawSamples) -> np.ndarray:
        """Return the outputs that say what `predict` is asked: of texts those after the last character."""
        outputs = self.outputs(x)
        if self.schema.task != "text":
            return outputs
        texts = [x] if isinstance(x, str) else x
        ends = [min(len(text), outputs.shape[1]) - 1 for text in texts]  # type: ignore[union-attr,arg-type]
        last = np.array(ends, np.int64)
        return np.asarray(outputs[np.arange(len(outputs)), last])

    def generate(self, text: str, characters: int = 200, temperature: float | int = 1.0, seed: int = 0) -> str:
        """Continue a text, one character at a time. Return the new characters.

        The network sees as many of the last characters as it has positions. Of a shorter text the positions after its
        end are filled with something else, which no position before them sees: the network must be causal, as a decoder
        is.

        **Arguments:** the `text`, how many `characters` to add, the `temperature` (1: each with its probability; less:
        more often the likely ones; 0: always the likeliest), and the `seed` of the draws.
        """
        if self.schema.task != "text":
            wrong = f"goes on with models of texts, and this one is of a {self.schema.task}."
            raise checks.ArgumentError("text", wrong, "Predict from samples instead.")
        if not isinstance(text, str):
            raise checks.wrong_type("text", "a text", text)
        checks.integer("characters", characters, 1)
        checks.number("temperature", temperature, at_least=0)
        draws, known, start = np.random.default_rng(checks.seed(seed)), np.array(self.schema.labels), len(text)
        for _ in range(characters):
            shares = self.predict_proba(text)[0].astype(np.float64)
            if not np.isfinite(shares).all():
                raise checks.ArgumentError("network", "has outputs that are not finite.", "Train it again.")
            with np.errstate(divide="ignore", over="ignore"):
                powers = (shares / shares.max()) ** (1 / temperature if temperature else np.inf)
            text += known[draws.choice(len(known), p=powers / powers.sum())]
        return text[start:]

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Return what `predict_proba` does, from the network's outputs."""
        if not self.has_probabilities:
            wrong = (
                f"{checks.literal(self.loss)}, and outputs are probabilities after training with cross-entropy only."
            )
            raise checks.ArgumentError(
                "loss", f"is {wrong}", 'Train with Energy(loss="cross-entropy"), or call predict.'
            )
        with np.errstate(invalid="ignore"):  # outputs that are not finite give NaN
            powers = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
            return np.asarray(powers / powers.sum(axis=-1, keepdims=True))

    @property
    def has_probabilities(self) -> bool:
        """Whether outputs stand for probabilities of classes."""
        return self.schema.labels is not None and self.loss == CROSS_ENTROPY

    def evaluate(self, x: RawSamples, y: ArrayLike) -> dict[str, float]:
        """Return how good predictions are: `accuracy` for a classifier; `r2`, `mae` and `rmse` in the units of the
        targets for a regression; and in both cases `loss`, the mean of what training minimises. For a text they are
        means over its characters, the loss in nats, and there are `bits_per_character` and `perplexity`.

        **Arguments:** samples as for `predict`, and their true labels or values; windows of a text and their targets as
        a data set has them.
        """
        return self.scores(self.outputs(x), y)

    def scores(self, outputs: np.ndarray, y: ArrayLike) -> dict[str, float]:
        """Return what `evaluate` does, from the network's outputs."""
        schema, stored = self.schema, self.schema.stored(y)
        encoded = schema.encode(y)
        if encoded.shape != outputs.shape:
            wrong = f"y makes targets of shape {encoded.shape}, and x makes outputs of shape {outputs.shape}"
            raise DataError(wrong, "pass one target per sample, as the training data had them")
        with jax.enable_x64(outputs.dtype == np.float64):
            each = Energy(loss=self.loss).output_loss(jnp.asarray(outputs), jnp.asarray(encoded, outputs.dtype))
        loss = {"loss": float(np.asarray(each).mean(dtype=np.float64)) / (schema.context or 1)}
        if schema.task != "regression":
            more = text_scores(loss["loss"]) if schema.context and self.has_probabilities else {}
            return {"accuracy": float(np.mean(outputs.argmax(axis=-1) == stored))} | loss | more
        errors = schema.decode(outputs).reshape(outputs.shape) - stored.astype(np.float64)
        spread = stored.var(axis=0, dtype=np.float64)
        return regression_scores((errors**2).mean(axis=0), np.abs(errors).mean(axis=0), spread) | loss


def regression_scores(squares: np.ndarray, sizes: np.ndarray, spread: np.ndarray) -> dict[str, float]:
    """Return R² (mean over outputs; NaN if the targets of one are all equal), the mean absolute and the root mean
    square error, from each output's mean square and absolute error and the variance of its targets."""
    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = np.where(spread > 0, 1 - squares / spread, np.nan)
    return {"r2": float(r2.mean()), "mae": float(sizes.mean()), "rmse": float(np.sqrt(squares.mean()))}


def text_scores(nats: float) -> dict[str, float]:
    """Return the perplexity and the bits per character that a loss in nats per character means."""
    with np.errstate(over="ignore"):
        return {"perplexity": float(np.exp(nats)), "bits_per_character": nats / math.log(2)}


def _outputs(
    network: AbstractNetwork, raw: np.ndarray, normalise: Normalisation, relaxation: Relaxation | None
) -> np.ndarray:
    """Return a network's outputs for samples as stored (n, in_size), some of them at a time."""
    if raw.shape[1] != network.in_size:
        wrong = f"x has samples of {raw.shape[1]} values, and the network takes {network.in_size}"
        raise DataError(wrong, "pass samples as the training data had them")
    size = next((bucket for bucket in BUCKETS if len(raw) <= bucket), BUCKETS[-1])
    double = any(leaf.dtype == np.float64 for leaf in jax.tree.leaves(network))
    found = []
    with jax.enable_x64(double):
        policy = resolve_precision(None, network)
        network = policy.cast(network)
        for start in range(0, max(1, len(raw)), size):
            part = raw[start : start + size]
            filled = np.pad(normalise(part), ((0, size - len(part)), (0, 0)))
            outputs = _predicted(network, jnp.asarray(filled, policy.dtype), policy, relaxation)
            found.append(np.asarray(outputs)[: len(part)])
    return np.concatenate(found)


@eqx.filter_jit
def _predicted(network: AbstractNetwork, x: Inputs, precision: Precision, relaxation: Relaxation | None) -> Outputs:
    if relaxation is None:
        return network.forward_pass(x, precision)[1]
    return relaxation.settle(network, x, precision).output
