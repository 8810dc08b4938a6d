"""What memory does not have room for is refused, by a count of arrays done by hand, before anything is compiled."""

import equinox as eqx
import jax.random as jr
import numpy as np
import pytest
from chains import chain_of
from compiled import compilations

import mupc
from mupc import cli
from mupc.training import _memory, check_room

MLP = mupc.Network(in_size=4, out_size=3, width=5, hidden_layers=6, key=jr.key(0))
WEIGHTS = 4 * 5 + 5 * 5 * 5 + 5 * 3
VALUES = 4 + 6 * 5 + 3
"""Numbers in the input, the activities and the output of one sample."""
BATCH = 100
DATA = mupc.data.from_arrays(np.zeros((125, 4)), np.arange(125) % 3, test=0.2)


@pytest.mark.parametrize("network", [MLP, chain_of(MLP)], ids=["mlp", "chain"])
@pytest.mark.parametrize(
    ("algorithm", "optimiser", "state", "copies"),
    [(mupc.BP(), "adam", 3, 2), (mupc.PC(mupc.ErrorSpace()), "adam", 3, 10), (mupc.BP(), "sgd", 1, 2)],
    ids=["bp", "pc", "sgd"],
)
def test_counts(network, algorithm, optimiser, state, copies):
    config = mupc.TrainConfig(batch_size=BATCH, optimiser=optimiser)
    expected = 8 * ((2 * state + 2) * WEIGHTS + copies * BATCH * VALUES)
    found = check_room(config, network, DATA, algorithm)
    assert expected <= found < expected + 100  # and a few counters
    assert check_room(config, eqx.filter_eval_shape(lambda: network), DATA, algorithm) == found
    assert check_room(config, network, DATA, algorithm, made=3) == found + 2 * 8 * WEIGHTS


@pytest.mark.parametrize("network", [MLP, chain_of(MLP)], ids=["mlp", "chain"])
def test_training_is_refused_before_anything_is_compiled(network, monkeypatch):
    need = check_room(mupc.TrainConfig(batch_size=BATCH), network, DATA, mupc.BP())
    monkeypatch.setattr(_memory, "free_memory", lambda: need - 1)
    with compilations("advance") as compiled:
        for train in (
            lambda: mupc.fit(network, DATA, mupc.BP(), batch_size=BATCH),
            lambda: mupc.fit_many([mupc.Run(network, mupc.BP())], DATA, batch_size=BATCH),
        ):
            with pytest.raises(ValueError, match="Use a smaller batch_size or network"):
                train()
    assert not compiled
    monkeypatch.setattr(_memory, "free_memory", lambda: need)
    check_room(mupc.TrainConfig(batch_size=BATCH), network, DATA, mupc.BP())


@pytest.mark.parametrize(
    ("flags", "cure"), [(["--model", "resnet"], "Use a smaller --batch-size or network."), (["--width", "512"], "one.")]
)
def test_command_line(flags, cure, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(_memory, "free_memory", lambda: 1e6)
    assert cli.main(["train", *flags, "--out", str(tmp_path / "out")]) != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("mupc train: a network of this size needs about") and line.endswith(cure)
    assert not (tmp_path / "out").exists()
