from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from data_helpers import Frame, raises_line
from hypothesis import given
from hypothesis import strategies as st

from mupc import data
from mupc.data import Column, DataError, Normalisation, Schema

ANIMALS = Schema(labels=("cat", "dog", "eel"))
COLUMNS = (Column("age"), Column("colour", ("blue", "red")))
TABLE = Schema(Normalisation(mean=np.array([30, 0, 0.0]), std=np.array([10, 1, 1.0])), columns=COLUMNS)


def test_named_data_sets_have_the_names_of_their_classes():
    digits = data.load("digits")
    assert digits.schema.labels == tuple(range(10)) and digits.schema.task == "classification"
    np.testing.assert_array_equal(digits.schema.inputs(digits.test.raw), digits.x_test)
    np.testing.assert_array_equal(digits.schema.encode(digits.train.targets), digits.y_train)
    fashion = data.NAMED_DATASETS["fashion-mnist"].schema
    assert fashion.class_names[9] == "ankle boot" and fashion.decode(np.eye(10)).tolist() == list(range(10))


@pytest.mark.parametrize("labels", [("a", "b", "c"), (3, 7, 100), (0.5, 1.5, 2.0)])
def test_labels_come_back_as_they_were(labels):
    schema = Schema(labels=labels)
    y = [labels[2], labels[0], labels[0]]
    assert schema.indices(y).tolist() == [2, 0, 0] and schema.indices(y).dtype == np.int32
    assert schema.encode(np.array(y)).tolist() == [[0, 0, 1], [1, 0, 0], [1, 0, 0]]
    assert schema.decode(schema.encode(y)).tolist() == y
    assert schema.decode(np.zeros((1, 3))).dtype == np.array(labels).dtype


def test_truth_values_are_labels():
    schema = Schema(labels=(False, True))
    assert schema.decode([[0.2, 0.1], [0, 1]]).tolist() == [False, True]
    assert schema.decode([[0.2, 0.1]]).dtype == bool


def test_labels_in_other_forms_are_understood():
    schema = Schema(labels=(0, 1, 2))
    for y in (np.array([2.0, 0.0]), np.array([[2], [0]]), np.array([[0, 0, 1], [1, 0, 0]]), np.array([2, 0], ">u2"),
              np.array([np.int64(2), np.float32(0)], object)):  # fmt: skip
        assert schema.indices(y).tolist() == [2, 0]


@pytest.mark.parametrize(
    "schema, y, said",
    [
        (ANIMALS, ["dog", "fox"], ["label 'fox' of sample 1 is unknown", "use 'cat', 'dog', 'eel'"]),
        (ANIMALS, [1, 2], ["label 1 of sample 0"]),
        (Schema(labels=(0, 1)), [0, 2], ["label 2 of sample 1"]),
        (Schema(labels=(0, 1)), ["0", "1"], ["label '0'"]),
        (Schema(labels=(0, 1)), [0, np.nan], ["label nan of sample 1"]),
        (Schema(labels=(0, 1)), [[1, 1], [0, 1]], ["shape (2, 2)", "one per sample"]),
        (Schema(labels=tuple(range(9))), [9], ["use 0, 1, 2, 3, 4 …"]),
        (Schema(labels=(0, 1)), 1, ["y has shape ()"]),
        (Schema(), [0.1, np.inf], ["y has 1 values that are not finite"]),
        (Schema(), ["a", "b"], ["y holds text", "pass numbers"]),
        (Schema(target_scale=Normalisation()), np.zeros((3, 2)), ["shape (3, 2)", "pass values of shape (n, 1)"]),
    ],
)
def test_wrong_targets(schema, y, said):
    with raises_line(*said):
        schema.encode(y)


def test_values_are_scaled_and_come_back_in_the_users_units():
    price = Schema(target_scale=Normalisation(mean=200.0, std=50.0))
    assert price.task == "regression"
    assert price.encode([150, 300]).tolist() == [[-1], [2]]
    assert price.decode(np.array([[-1.0], [2.0]])).tolist() == [150, 300]
    two = Schema(target_scale=Normalisation(mean=np.array([0.0, 1.0]), std=np.array([1.0, 2.0])))
    assert two.encode([[1, 2]]).tolist() == [[1, 0.5]] and two.decode([[1, 0.5]]).tolist() == [[1, 2]]
    as_they_are = Schema()
    assert as_they_are.encode([3.0]).tolist() == [[3]] and as_they_are.decode([[3.0]]).tolist() == [[3]]


def test_the_targets_of_a_data_set_are_stored_in_the_users_units():
    split = data.Split(np.zeros((2, 3), np.float32), np.array([[150], [300]], np.float32))
    price = Schema(target_scale=Normalisation(mean=200.0, std=50.0))
    dataset = data.Dataset("prices", split, split, None, price, False, "here")
    assert dataset.y_train.tolist() == [[-1], [2]] and dataset.out_size == 1 and dataset.classes is None


def test_columns_are_found_by_name_and_encoded():
    want = [[0, 1, 0], [1, 0, 1]]
    for table in (
        {"colour": ["blue", "red"], "id": ["x", "y"], "age": [30, 40]},
        {"age": np.array(["30", "40"]), "colour": np.array(["blue", "red"])},
        Frame(age=[30, 40.0], colour=["blue", "red"]),
        [[30, "blue"], [40, "red"]],
        np.array([[30, "blue"], [40, "red"]], object),
        np.array([[30, 1, 0], [40, 0, 1]]),  # encoded already
    ):
        assert TABLE.inputs(table).tolist() == want


def test_a_data_frame_of_numbers_is_an_array_where_training_had_one():
    assert Schema().read(Frame(a=[1, 2], b=[3, 4.5])).tolist() == [[1, 3], [2, 4.5]]


NAN = float("nan")


@pytest.mark.parametrize(
    "x, said",
    [
        ({"age": [30, 40]}, ["no column 'colour'", "'age'"]),
        ({"age": [30], "color": ["red"]}, ["no column 'colour'", "did you mean 'color'?"]),
        ({"age": [30, 40], "colour": ["red", "pink"]}, ["'pink' in row 2", "use one of 'blue', 'red'"]),
        ({"age": [30, 40], "colour": ["red", ""]}, ["'colour' has no value in row 2"]),
        ({"age": [30, 40], "colour": np.array(["red", None], object)}, ["'colour' has no value in row 2"]),
        ({"age": [30, NAN], "colour": ["red", "red"]}, ["'age' has no value in row 2", "fill it in"]),
        ({"age": ["30", "", "NA"], "colour": ["red"] * 3}, ["'age' has no value in row 2 (and in 1 more)"]),
        ({"age": ["30", "old"], "colour": ["red"] * 2}, ["'age' has 'old' in row 2, and numbers in others"]),
        ({"age": ["1e99"], "colour": ["red"]}, ["'age' has 1e99, which is not finite in float32, in row 1"]),
        ({"age": [30, 40], "colour": ["red"]}, ["different lengths"]),
        ({"age": [[30], [40]], "colour": ["red"] * 2}, ["'age' has shape (2, 1)"]),
        ({"age": np.array(["2020"], "M8[Y]"), "colour": ["red"]}, ["'age' holds datetime64[Y]"]),
        (np.zeros((2, 5)), ["x has shape (2, 5)", "'age', 'colour'"]),
        ([30, "red"], ["x has shape (2,)"]),
    ],
)
def test_wrong_tables(x, said):
    with raises_line(*said):
        TABLE.read(x)


@pytest.mark.parametrize(
    "schema, x, said",
    [
        (Schema(image_shape=(2, 3)), np.zeros((4, 5)), ["samples of 5 values, and training had 6 (2 × 3)", "(n, 6)"]),
        (Schema(Normalisation(mean=np.zeros(3))), np.zeros((4, 2)), ["2 values, and training had 3"]),
        (
            Schema(image_shape=(3, 2, 2)),
            np.zeros((4, 2, 2, 3)),
            ["(2, 2, 3), and training had (3, 2, 2)", "axes"],
        ),
        (Schema(), [[1, 2], [3]], ["rows of different lengths"]),
        (Schema(), [["a", "b"]], ["x holds text"]),
        (Schema(), np.array([[1, "b"]], object), ["x holds values that are not numbers"]),
        (Schema(), [[1, NAN]], ["x has 1 values that are not finite in float32, first nan at (0, 1)"]),
        (Schema(), 3.0, ["x has shape ()"]),
        (Schema(), np.zeros((3, 0)), ["x has shape (3, 0)"]),
        (Schema(), np.zeros((2, 2), complex), ["x holds complex128"]),
        (Schema(), {"a": [1, 2]}, ["the training data were an array"]),
    ],
)
def test_wrong_samples(schema, x, said):
    with raises_line(*said):
        schema.read(x)


def test_images_in_every_form_that_means_the_same():
    x = np.arange(24).reshape(2, 1, 3, 4)
    for shape in ((3, 4), (1, 3, 4)):
        for form in (x, x[:, 0], x.reshape(2, 12)):
            np.testing.assert_array_equal(Schema(image_shape=shape).read(form), x.reshape(2, 12))


def test_no_samples_are_read_as_none():
    assert Schema(image_shape=(2, 3)).read(np.zeros((0, 2, 3), np.uint8)).shape == (0, 6)


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"labels": ("a", "a")}, "do not differ"),
        ({"labels": ("a",)}, "two or more"),
        ({"labels": (0, 1), "class_names": ("a",)}, "1 class names for 2 labels"),
        ({"class_names": ("a", "b")}, "2 class names for 0 labels"),
        ({"labels": (0, 1), "target_scale": Normalisation()}, "labels or a scale"),
        ({"image_shape": (2, 3), "normalisation": Normalisation(mean=np.zeros(5))}, "5 and 6 values"),
    ],
)
def test_schemas_that_contradict_themselves(arguments, said):
    with raises_line(said):
        Schema(**arguments)


def same(one: Schema, other: Schema) -> bool:
    return json.dumps(one.as_json()) == json.dumps(other.as_json())


def test_json_keeps_every_bit():
    values = np.random.default_rng(0).normal(size=3).astype(np.float32)
    full = Schema(
        Normalisation(1 / 255, values, np.abs(values)),
        labels=("a", "b", "é"),
        class_names=("A", "B", "C"),
        columns=COLUMNS,
        targets=("kind",),
    )
    scaled = Schema(target_scale=Normalisation(mean=values, std=0.1))
    others = (Schema(labels=(False, True)), Schema(labels=(1.0, 2.5)), data.NAMED_DATASETS["cifar10"].schema)
    for schema in (full, Schema(), scaled, ANIMALS, *others):
        back = Schema.from_json(json.loads(json.dumps(schema.as_json())))
        assert same(schema, back) and back.labels == schema.labels and back.columns == schema.columns
        assert [type(label) for label in back.labels or ()] == [type(label) for label in schema.labels or ()]
    x = np.random.default_rng(1).integers(0, 255, (4, 3)).astype(np.uint8)
    again = Schema.from_json(full.as_json())
    np.testing.assert_array_equal(again.inputs(x), full.inputs(x), strict=True)


def test_schemas_pickle():
    assert same(pickle.loads(pickle.dumps(TABLE)), TABLE)


GOOD = Schema(Normalisation(mean=np.zeros(6)), labels=(0, 1), class_names=("a", "b"), image_shape=(2, 3)).as_json()
SCALE = {"scale": 1.0, "mean": 0.0, "std": 1.0}


@pytest.mark.parametrize(
    "values",
    [
        None, [], "x", {"more": 1}, {1: 2},
        {"normalisation": None}, {"normalisation": {}}, {"normalisation": SCALE | {"std": 0}},
        {"normalisation": SCALE | {"std": 1e-60}}, {"normalisation": SCALE | {"mean": 1e300}},
        {"normalisation": SCALE | {"mean": 10**400}}, {"normalisation": SCALE | {"mean": NAN}},
        {"normalisation": SCALE | {"mean": []}}, {"normalisation": SCALE | {"mean": [[1.0]]}},
        {"normalisation": SCALE | {"mean": "1"}}, {"normalisation": SCALE | {"mean": True}},
        {"normalisation": SCALE | {"mean": [0.0] * 2, "std": [1.0] * 3}}, {"normalisation": SCALE | {"more": 1}},
        {"labels": []}, {"labels": ["a"]}, {"labels": ["a", "a"]}, {"labels": ["a", 1]}, {"labels": "ab"},
        {"labels": [1, 2**70]}, {"labels": [1.0, NAN]}, {"labels": [None, None]}, {"labels": [1, True]},
        {"labels": [0, 1], "class_names": ["a"]}, {"labels": [0, 1], "class_names": [0, 1]}, {"labels": {"a": 1}},
        {"image_shape": [8]}, {"image_shape": [8, 0]}, {"image_shape": [2, 8, 8]}, {"image_shape": [8.0, 8.0]},
        {"image_shape": 8}, {"image_shape": [True, True]}, {"image_shape": [2**40, 2]},
        {"columns": []}, {"columns": ["a"]}, {"columns": [["a", []]]}, {"columns": [["a", ["b", "b"]]]},
        {"columns": [["a", None], ["a", None]]}, {"columns": [[1, None]]}, {"columns": [["a"]]}, {"columns": [[[], 1]]},
        {"targets": [1]}, {"targets": "price"}, {"target_scale": 1.0}, GOOD | {"target_scale": SCALE},
        GOOD | {"image_shape": [5, 5]},
    ],
)  # fmt: skip
def test_json_of_nonsense_is_refused(values):
    with pytest.raises(DataError):
        Schema.from_json(values)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*SCALE, "a"]), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*GOOD, "more"]), JSON, max_size=3))
def test_json_is_read_or_refused(changes):
    try:
        schema = Schema.from_json(GOOD | changes)
    except DataError as error:
        assert "\n" not in str(error)
    else:
        assert same(Schema.from_json(schema.as_json()), schema)
