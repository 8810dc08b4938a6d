"""Texts as data sets: their windows against plain slices of the text, and files that cannot be used."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from data_helpers import publish, raises_line, write_files

from mupc import data
from mupc.data import NAMED_DATASETS, DataError, Schema

RNG = np.random.default_rng(0)
TEXT = "".join(RNG.choice(list("ab é\nЖ"), 1003))
ABC = Schema(labels=("b", "a", "c"), context=4)


@pytest.fixture
def own(tmp_path):
    (tmp_path / "mine.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path / "mine.txt"


def test_windows_are_slices_of_the_text(own):
    found = data.load(own, context=8)
    assert (found.name, found.schema.task, found.schema.labels) == ("mine", "text", ("\n", " ", "a", "b", "é", "Ж"))
    assert (found.sample_shape, found.output_shape, found.out_size, found.in_size) == ((8,), (8, 6), 48, 8)
    assert len(found.test) == 13 and len(found.train) == (1003 - 13 * 8 - 1) // 8  # 104 characters are a tenth or more
    for split, first in ((found.train, 0), (found.test, 1003 - 104 - 1)):
        for row in range(len(split)):
            start = first + 8 * row
            assert found.schema.text(split.raw[row]) == TEXT[start : start + 8]
            assert found.schema.text(split.targets[row]) == TEXT[start + 1 : start + 9]
    assert found.schema.text(found.test.targets.ravel()) == TEXT[-104:], "every character of the end is scored once"
    assert found.train.raw.dtype == np.uint8 and found.train.targets.dtype == np.int32
    np.testing.assert_array_equal(found.x_train, found.train.raw)
    assert found.y_test.shape == (13, 8, 6)
    np.testing.assert_array_equal(found.y_test.argmax(axis=-1), found.test.targets)
    np.testing.assert_array_equal(found.y_test, found.schema.encode(found.test.targets))


def test_validation_is_the_end_of_the_training_part(own):
    whole = data.load(own, context=8)
    for seed in (0, 1):
        found = whole.with_validation(12, seed)
        np.testing.assert_array_equal(found.train.raw, whole.train.raw[:-12])
        np.testing.assert_array_equal(found.validation.targets, whole.train.targets[-12:])


def test_a_text_has_64_characters_in_a_window_unless_told(own):
    assert data.load(own).sample_shape == (64,)
    assert data.load(own, task="text").in_size == 64


def test_more_than_256_characters(tmp_path):
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 300))) * 3
    (tmp_path / "han.txt").write_text(text, encoding="utf-8")
    found = data.load(tmp_path / "han.txt", context=10)
    assert found.classes == 300 and found.x_train.max() == 299
    assert found.schema.text(found.train.raw[29]) == text[290:300]


def test_tinyshakespeare(tmp_path, monkeypatch):
    entry = NAMED_DATASETS["tinyshakespeare"]
    assert (entry.train + entry.test) * 64 < entry.files[0].size < (entry.train + entry.test + 1) * 64 + 2
    assert entry.class_names == tuple(sorted(entry.class_names)) and entry.classes == 65
    play = ("ROMEO:\nO, she doth teach the torches to burn bright!\n" * 30).encode()
    with raises_line("tinyshakespeare is not in", "put there input.txt"):
        data.load("tinyshakespeare", data_dir=tmp_path)
    write_files(tmp_path / "tinyshakespeare", {"input.txt": play})
    with raises_line("input.txt does not match the published checksum", "--no-verify-data"):
        data.load("tinyshakespeare", data_dir=tmp_path)
    monkeypatch.setitem(NAMED_DATASETS, "tinyshakespeare", publish(entry, {"input.txt": play}))
    found = data.load("tinyshakespeare", data_dir=tmp_path, context=16)
    assert found.official and found.classes == 65
    assert found.schema.text(found.test.targets.ravel()) == play.decode()[-len(found.test) * 16 :]
    bad = {"input.txt": b"\xff" * 1000}
    monkeypatch.setitem(NAMED_DATASETS, "tinyshakespeare", publish(entry, bad))
    write_files(tmp_path / "tinyshakespeare", bad)
    with raises_line("it is not text in UTF-8", "mupc data fetch tinyshakespeare"):
        data.load("tinyshakespeare", data_dir=tmp_path)


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", ["it is empty", "give a file with text"]),
        (b" \n", ["it is empty"]),
        (b"\x89PNG\r\n\x1a\n\x00\xff" * 40, ["not text in UTF-8", "save it as such"]),
        (b"ab\0" * 400, ["not text in UTF-8"]),
        (b"ab" * 8, ["it has 16 characters", "at least 17", "set context to less"]),
        (b"a" * 400, ["the labels 'a' do not differ"]),
    ],
)
def test_files_that_cannot_be_used(tmp_path, content, said):
    (tmp_path / "odd.txt").write_bytes(content)
    with raises_line("odd.txt: ", *said):
        data.load(tmp_path / "odd.txt", context=8)
    assert [result.ok for result in data.check(tmp_path / "odd.txt")] == [False]


@pytest.mark.parametrize(
    "name, options, said",
    [
        ("none.txt", {}, "none.txt: there is no such file"),
        ("digits", {"context": 8}, "context has no effect on 'digits'"),
        ("a.npz", {"context": 8}, "context has no effect on 'a.npz'"),
        ("a.csv", {"context": 8}, "context has no effect on 'a.csv'"),
        ("a.txt", {"context": 0}, "context must be at least 1"),
        ("tinyshakespeare", {"context": 1.5}, "context must be"),
        ("a.txt", {"target": "b"}, "target has no effect on 'a.txt'"),
        ("a.txt", {"task": "regression"}, "task of 'a.txt' is text, got regression"),
        ("digits", {"task": "text"}, "task of 'digits' is classification, got text"),
    ],
)
def test_options_that_make_no_sense(name, options, said):
    with pytest.raises((ValueError, TypeError), match=said):
        data.load(name, **options)


def test_samples_are_texts_or_tokens():
    np.testing.assert_array_equal(ABC.read("ab"), [[1, 0, 0, 0]])
    np.testing.assert_array_equal(ABC.read(["aaaacab", "c"]), [[1, 2, 1, 0], [2, 0, 0, 0]])
    np.testing.assert_array_equal(ABC.inputs([[0, 1, 2, 0.0]]), [[0, 1, 2, 0]])
    assert ABC.decode(np.eye(3)[[[0, 2], [1, 1]]]).tolist() == [["b", "c"], ["a", "a"]]
    for x, said in [
        ("", "a text is empty"),
        ("axb", "the text has 'x'"),
        ([[0, 1, 2, 3]], "x runs from 0 to 3: pass characters 0 to 2"),
        ([[0, 1]], "shape (1, 2)"),
        ([[0.5] * 4], "x holds float64"),
    ]:
        with raises_line(said):
            ABC.read(x)
    with raises_line("y runs from -1 to 0"):
        ABC.encode([[0, 0, 0, -1]])


def test_schemas_of_texts_in_json():
    back = Schema.from_json(json.loads(json.dumps(ABC.as_json())))
    assert (back.labels, back.context, back.task) == (ABC.labels, 4, "text")
    before = {name: value for name, value in Schema(labels=(0, 1)).as_json().items() if name != "context"}
    assert Schema.from_json(before).task == "classification"
    for values in ({"context": 0}, {"context": True}, {"context": 2**31}, {"labels": None}, {"labels": ["ab", "c"]}):
        with pytest.raises(DataError):
            Schema.from_json(ABC.as_json() | values)
    with raises_line("samples have 4 and 9 values"):
        dataclasses.replace(ABC, image_shape=(3, 3))


def test_new_texts_are_read_as_windows(own):
    schema = data.load(own, context=8).schema
    raw, targets = data.read_samples(own, schema)
    assert schema.text(raw.ravel()) == TEXT[:1000] and schema.text(targets.ravel()) == TEXT[1:1001]
    own.write_text("ab", encoding="utf-8")
    with raises_line("mine.txt: it has 2 characters", "at least 9"):
        data.read_samples(own, schema)
    with raises_line("neither a .npz file nor a table"):
        data.read_samples(own, Schema())
