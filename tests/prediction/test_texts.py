"""Networks that read texts: scores, records of training, the next character and generated texts, with a network that
knows pairs of characters and oracles that count them."""

import dataclasses
import itertools
import json
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc.cli import main, predict_job
from mupc.data import Schema, Split
from mupc.data._text import windows
from mupc.training import _batches

LETTERS = "abcd"
RULE = {"a": "b", "b": "c", "c": "d", "d": "a"}  # the likeliest successor
CONTEXT = 6


class Embedding(eqx.Module):
    weight: jax.Array

    def __call__(self, tokens):
        return self.weight[tokens.astype(int)]


class Table(eqx.Module):
    weight: jax.Array

    def __call__(self, rows):
        return rows @ self.weight


def bigrams(logits):
    """The logits of the next character, from the one before it."""
    logits = jnp.asarray(logits, jnp.float32)
    return mupc.Chain([Embedding(jnp.eye(len(logits), dtype="float32")), Table(logits)], input_shape=(CONTEXT,))


def chain(count, seed=0):
    """A random text in which the successor of a letter follows it with probability 0.7, and each other with 0.1."""
    rng, text = np.random.default_rng(seed), "a"
    while len(text) < count:
        text += RULE[text[-1]] if rng.random() < 0.6 else str(rng.choice(list(LETTERS)))
    return text


LOGITS = np.log(0.1 + 0.6 * np.roll(np.eye(4), 1, axis=1))
SCHEMA = Schema(labels=tuple(LETTERS), context=CONTEXT)
MODEL = mupc.Model(bigrams(LOGITS), SCHEMA, "cross-entropy")


@pytest.fixture
def text(tmp_path):
    (tmp_path / "letters.txt").write_text(chain(1200))
    return mupc.data.load(tmp_path / "letters.txt", context=CONTEXT)


def expected(split):
    """Accuracy and loss in nats, pair by pair."""
    pairs = list(zip(split.raw.ravel(), split.targets.ravel(), strict=True))
    losses = [-math.log(0.7 if RULE[LETTERS[a]] == LETTERS[b] else 0.1) for a, b in pairs]
    right = [RULE[LETTERS[a]] == LETTERS[b] for a, b in pairs]
    return sum(right) / len(right), sum(losses) / len(losses)


def test_scores_are_by_character(text):
    accuracy, nats = expected(text.test)
    found = MODEL.evaluate(text.test.raw, text.test.targets)
    assert set(found) == {"accuracy", "loss", "perplexity", "bits_per_character"}
    assert found["accuracy"] == pytest.approx(accuracy) and found["loss"] == pytest.approx(nats, rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.e**nats, rel=1e-5)
    assert 2 ** found["bits_per_character"] == pytest.approx(found["perplexity"], rel=1e-6)
    squares = mupc.Model(bigrams(np.eye(4)), SCHEMA).evaluate(text.test.raw, text.test.targets)
    wrong = np.mean(text.test.raw != text.test.targets)
    assert set(squares) == {"accuracy", "loss"} and squares["loss"] == pytest.approx(wrong)


def test_records_of_training_are_by_character_and_the_network_learns_the_pairs(text):
    text = text.with_validation(0.2)
    energy = mupc.Energy(loss="cross-entropy")
    settings = {"energy": energy, "batch_size": 16, "rate_scaling": "none", "weight_lr": 0.1}
    result = mupc.fit(bigrams(LOGITS), text, mupc.BP(), epochs=1, **settings)
    first = result.history[0]
    for split in ("test", "validation"):
        accuracy, nats = expected(getattr(text, split))
        assert first[f"{split}_accuracy"] == pytest.approx(accuracy)
        assert first[f"{split}_loss"] == pytest.approx(nats, rel=1e-5)
        assert first[f"{split}_perplexity"] == pytest.approx(math.e**nats, rel=1e-5)
        assert first[f"{split}_bits_per_character"] == pytest.approx(nats / math.log(2), rel=1e-5)
    blank = mupc.fit(bigrams(np.zeros((4, 4))), text, mupc.BP(), epochs=10, augment=True, **settings)
    assert blank.losses[0] == pytest.approx(math.log(4), rel=1e-5)
    assert blank.last["energy"] == pytest.approx(blank.last["train_loss"], rel=1e-5)
    assert blank.last["test_loss"] < first["test_loss"] + 0.1 < blank.history[0]["test_loss"] - 0.1
    assert blank.model.generate("a", 8, temperature=0) == "bcdabcda"


def test_the_loss_of_a_text_is_cross_entropy_unless_another_is_chosen(text):
    nats = expected(text.test)[1]
    for energy in (None, mupc.Energy(output_precision=0.5)):
        run = mupc.Run(bigrams(LOGITS), mupc.BP(), energy=energy)
        alone = mupc.fit(run.network, text, run.algorithm, energy=energy, epochs=0.1)
        (together,) = mupc.fit_many([run], text, epochs=0.1)
        for result in (alone, together):
            assert result.model.loss == "cross-entropy"
            assert result.history[0]["test_loss"] == pytest.approx(nats, rel=1e-5)
    squares = mupc.fit(bigrams(LOGITS), text, mupc.BP(), energy=mupc.Energy(loss="mse"), epochs=0.1)
    assert squares.model.loss == "mse" and squares.history[0]["test_loss"] != pytest.approx(nats, rel=0.1)


def test_the_best_record_of_a_text_has_the_lowest_loss(text):
    result = mupc.fit(
        bigrams(LOGITS), text.with_validation(0.2), mupc.BP(), energy=mupc.Energy(loss="cross-entropy"),
        epochs=3, weight_lr=3.0, rate_scaling="none", batch_size=16, restore_best=True,
    )  # fmt: skip
    assert result.best["validation_loss"] == min(record["validation_loss"] for record in result.history)
    assert f"{result.best['validation_loss']:.4g} at step" in result.message


def test_augmented_windows_are_in_the_text_and_begin_anywhere():
    text = "".join(map(chr, range(100, 161)))  # every character once
    schema = Schema(labels=tuple(text), context=CONTEXT)
    split = windows(schema.tokens(text), CONTEXT)
    kind = _batches.SampleFormat(len(text), None, unsupervised=False, context=CONTEXT)
    source = _batches.BatchSource(
        _batches.padded(split.raw, 16), _batches.padded(split.targets, 16), mupc.data.Normalisation(), jr.key(0), kind,
        augments=True, batch_size=10,
    )  # fmt: skip
    draw = lambda step: source.draw(jnp.arange(10), jnp.asarray(0), step, CONTEXT)[0]  # noqa: E731
    batches = jax.vmap(draw)(jnp.arange(40))
    x, y = np.asarray(batches.x, int), np.asarray(batches.y).argmax(axis=-1)
    np.testing.assert_array_equal(x - x[:, :, :1], np.broadcast_to(np.arange(CONTEXT), x.shape))
    np.testing.assert_array_equal(y, x + 1)
    starts, rows = x[:, :, 0], 6 * np.arange(10)
    assert (starts <= rows).all() and (starts[:, 1:] > rows[:-1]).all()
    assert set(starts.ravel().tolist()) == set(range(55))


@pytest.mark.parametrize("given", ["ab", "abcdabcdab", ["dcb"], np.array([[0, 1, 2, 3, 0, 1]])])
def test_the_next_character(given):
    assert MODEL.predict(given).tolist() == ["c"]
    np.testing.assert_allclose(MODEL.predict_proba(given), [[0.1, 0.1, 0.7, 0.1]], rtol=1e-5)
    assert MODEL.outputs(given).shape == (1, CONTEXT, 4)


def test_many_texts_at_once():
    assert MODEL.predict(["a", "ab", "abc" * 9]).tolist() == ["b", "c", "d"]
    assert MODEL.predict(np.empty((0, CONTEXT), np.uint8)).shape == (0,)


def test_generated_texts_follow_the_probabilities():
    assert MODEL.generate("cab", 9, temperature=0) == "cdabcdabc"
    found = MODEL.generate("a", 200, seed=1)
    assert found[:20] == MODEL.generate("a", 20, seed=1) != MODEL.generate("a", 20, seed=2)
    follows = lambda text: np.mean([RULE[a] == b for a, b in itertools.pairwise(text)])  # noqa: E731
    assert 0.6 < follows(found) < 0.8  # 0.7, and three standard deviations
    cold = MODEL.generate("a", 50, temperature=0.3)
    sharp = 0.7 ** (1 / 0.3) / (0.7 ** (1 / 0.3) + 3 * 0.1 ** (1 / 0.3))
    assert sharp > 0.99 and follows(cold) > 0.95
    assert 0.1 < follows(MODEL.generate("a", 100, temperature=1e6)) < 0.4


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: MODEL.generate(""), "a text is empty"),
        (lambda: MODEL.generate("axe!"), "the text has '!', 'e', 'x', which the training text did not have"),
        (lambda: MODEL.generate("a", 0), "characters must be at least 1"),
        (lambda: MODEL.generate("a", temperature=-1), "temperature must be at least 0"),
        (lambda: mupc.Model(bigrams(LOGITS), SCHEMA).generate("a"), "loss is 'mse', and outputs are probabilities"),
        (
            lambda: mupc.Model(bigrams(LOGITS)).generate("a"),
            "text goes on with models of texts, and this one is of a regression",
        ),
        (lambda: mupc.Model(bigrams(LOGITS * np.nan), SCHEMA, "cross-entropy").generate("a"), "not finite"),
        (lambda: mupc.Model(bigrams(np.eye(5)), SCHEMA), "schema is for 24 outputs, and the network has 30"),
        (lambda: MODEL.evaluate("ab", [[1, 2]]), "y has shape"),
    ],
)
def test_what_cannot_be_done(call, said):
    with pytest.raises(ValueError, match=said):
        call()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x, y: (x + 3, y), r"characters of letters \(train\) run from 3 to 6: pass whole numbers 0 to 3"),
        (lambda x, y: (x, y - 1), r"labels of letters \(train\) run from -1 to 2: pass whole numbers 0 to 3"),
        (lambda x, y: (x, y[:, 0]), r"are int32 of shape \(\d+,\): pass integers of shape \(n, 6\)"),
        (lambda x, y: (x, y[:, 1:]), r"are int32 of shape \(\d+, 5\): pass integers of shape \(n, 6\)"),
        (lambda x, y: (x.astype(float), y), r"characters of letters \(train\) are float64"),
    ],
)
def test_tokens_that_are_not_there(text, change, said):
    split = Split(*change(text.train.raw.astype(np.int32), text.train.targets))
    with pytest.raises(ValueError, match=said):
        dataclasses.replace(text, train=split)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.zeros(2, int), r"must have shape \(2, 6, 4\), got \(2,\). Pass a whole number for each position, of shape"),
        (np.zeros((2, 5), int), r"must have shape \(2, 6\), got \(2, 5\). Pass a whole number for each position"),
        (np.zeros((2, 6, 3)), r"must have shape \(2, 6, 4\), got \(2, 6, 3\). .* of shape \(batch, 6\), or one-hot"),
    ],
)
def test_labels_of_a_wrong_shape(labels, said):
    with pytest.raises(ValueError, match=said):
        mupc.infer(bigrams(LOGITS), np.zeros((2, CONTEXT), int), labels, mupc.ErrorSpace())


def test_a_network_for_texts_learns_nothing_else():
    with pytest.raises(
        ValueError, match=r"outputs of shape \(6, 4\), and the data set is not a text. Load a text with"
    ):
        mupc.fit(bigrams(LOGITS), (np.zeros((20, CONTEXT)), np.arange(20) % 2), mupc.BP())


def test_a_network_without_positions_does_not_learn_texts(text):
    with pytest.raises(ValueError, match=r"the network has outputs of shape \(24,\), but letters needs \(6, 4\)"):
        mupc.fit(mupc.Network(CONTEXT, 24, 8, 2, key=jr.key(0)), text, energy=mupc.Energy(loss="cross-entropy"))


def test_a_model_continues_and_scores_texts_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(predict_job, "load", lambda path: MODEL)

    def run(*argv):
        code = main(["predict", "MODEL", *map(str, argv)])
        return code, capsys.readouterr()

    code, shown = run("--text", "ab", "--characters", 5, "--temperature", 0)
    assert code == 0 and shown.out == "abcdabc\n"
    code, shown = run("--text", "ab", "--characters", 30, "--seed", 3, "--json")
    found = json.loads(shown.out)
    assert found == {"model": "MODEL", "text": "ab", "continuation": MODEL.generate("ab", 30, seed=3)}
    (tmp_path / "new.txt").write_text("abcdabcab")
    code, shown = run(tmp_path / "new.txt", "--out", tmp_path / "new.csv")
    nats = -math.log(0.7)  # after abcdab comes bcdabc, as the rule says; what is left is no window
    assert code == 0 and f"perplexity {math.exp(nats):.4f}, {nats:.4f} nats" in shown.out
    assert (tmp_path / "new.csv").read_text().splitlines() == ["sample,predicted,text", "0,bcdabc,bcdabc"]
    for argv, said in (
        ([], "give DATA to predict, or --text to continue."),
        (["--text", "a", tmp_path / "new.txt"], "not both."),
        (["--text", "a", "--out", tmp_path / "x.json"], "--out is for the predictions of samples"),
        (["--text", "axe"], "the text has 'e', 'x'"),
        (["--text", "a", "--characters", 0], "--characters must be at least 1"),
    ):
        code, shown = run(*argv)
        assert code == 2 and said in shown.err and len(shown.err.splitlines()) == 1
