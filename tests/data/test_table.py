from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_helpers import Frame, raises_line
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mupc import data
from mupc.data import Column, DataError
from mupc.io.checks import ArgumentError

ROWS = 20
AREA = [30 + 7 * i % 90 for i in range(ROWS)]
CITY = [("Bern", "Köln", "Rome, IT")[i % 3] for i in range(ROWS)]
PRICE = [1000.5 * area + 20_000 * (i % 3) for i, area in enumerate(AREA)]
KIND = [("flat", "house")[i % 2] for i in range(ROWS)]


def write(folder: Path, text: str | bytes, name: str = "homes.csv") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def csv(*columns: str, delimiter: str = ",", quote: str = '"', end: str = "\n") -> str:
    """The table of homes with these columns, in this order."""
    held: dict[str, list[Any]] = {"area": AREA, "city": CITY, "price": PRICE, "kind": KIND}
    held["city"] = [f"{quote}{city}{quote}" for city in CITY]
    rows = [columns, *zip(*(held[name] for name in columns), strict=True)]
    return "".join(delimiter.join(map(str, row)) + end for row in rows)


def test_a_table_of_numbers_and_its_prices(tmp_path):
    homes = data.load(write(tmp_path, csv("area", "price")), target="price")
    assert (homes.name, homes.classes, homes.in_size, homes.out_size) == ("homes", None, 1, 1)
    assert homes.schema.columns == (Column("area"),) and homes.schema.targets == ("price",)
    assert len(homes.train) == 16 and len(homes.test) == 4 and homes.source.endswith("homes.csv")
    prices = dict(zip(AREA, PRICE, strict=True))
    for part in (homes.train, homes.test):
        np.testing.assert_allclose(part.targets[:, 0], [prices[int(area)] for area in part.raw[:, 0]], rtol=1e-6)


def test_text_is_encoded_when_asked_and_a_target_of_text_is_classes(tmp_path):
    path = write(tmp_path, csv("area", "city", "kind"))
    with raises_line("homes.csv: column 'city' holds text ('Bern', 'Köln', 'Rome, IT')", "set one_hot to encode it"):
        data.load(path, target="kind")
    homes = data.load(path, target="kind", one_hot=True, test=5, validation=3, seed=2)
    assert homes.schema.labels == ("flat", "house") and homes.in_size == 4
    assert homes.schema.columns[1].categories == ("Bern", "Köln", "Rome, IT")
    assert [len(part) for part in (homes.train, homes.test, homes.validation)] == [12, 5, 3]


@pytest.mark.parametrize(
    "text",
    [
        csv("area", "city", "kind", delimiter=";", quote=""),
        csv("area", "city", "kind", delimiter="\t", quote=""),
        csv("area", "city", "kind", end="\r\n"),
        "\ufeff" + csv("area", "city", "kind"),
        "\n" + csv("area", "city", "kind") + "\n\n",
        csv("area", "city", "kind").replace("area", " area ").replace("flat", " flat "),
    ],
)
def test_tables_in_other_dialects(tmp_path, text):
    want = data.load(write(tmp_path, csv("area", "city", "kind")), target="kind", one_hot=True)
    got = data.load(write(tmp_path, text), target="kind", one_hot=True)
    np.testing.assert_array_equal(got.train.raw, want.train.raw)
    np.testing.assert_array_equal(got.train.targets, want.train.targets)
    assert got.schema.as_json() == want.schema.as_json()


def test_several_targets_are_a_regression(tmp_path):
    homes = data.load(write(tmp_path, csv("city", "area", "price")), target=("price", "area"), one_hot=True)
    assert homes.out_size == 2 and homes.schema.targets == ("price", "area") and homes.in_size == 3
    np.testing.assert_allclose(homes.schema.decode(homes.y_test), homes.test.targets, rtol=1e-5)


def test_numbers_as_labels(tmp_path):
    path = write(tmp_path, "x,y\n" + "".join(f"{i},{(3, 700)[i % 2]}\n" for i in range(20)))
    assert data.load(path, target="y").schema.labels == (3, 700)
    with raises_line("homes.csv: target 'x' holds 20 different whole numbers", 'set task to "regression"'):
        data.load(path, target="x")
    assert data.load(path, target="x", task="regression").classes is None
    mixed = write(tmp_path, "x,y\n" + "1,7\n2,b\n" * 5)
    with raises_line("column 'y' has 'b' in row 2, and numbers in others", 'set task to "classification"'):
        data.load(mixed, target="y")
    assert data.load(mixed, target="y", task="classification").schema.labels == ("7", "b")


def test_new_tables_are_read_alike(tmp_path):
    homes = data.load(write(tmp_path, csv("area", "city", "kind")), target="kind", one_hot=True)
    new = write(tmp_path, "city;id;kind;area\nKöln;a;house;35\nBern;b;flat;120\n", "new.csv")
    raw, kinds = data.read_samples(new, homes.schema)
    assert raw.tolist() == [[35, 0, 1, 0], [120, 1, 0, 0]]
    assert homes.schema.indices(kinds).tolist() == [1, 0]
    for table in (Frame(city=["Köln", "Bern"], area=[35, 120]), {"area": ["35", "120"], "city": ["Köln", "Bern"]}):
        np.testing.assert_array_equal(homes.schema.read(table), raw)
    without = write(tmp_path, "city,area\nKöln,35\n", "new.csv")
    assert data.read_samples(without, homes.schema)[1] is None
    blank = write(tmp_path, "city,area,kind\nKöln,35,\n", "new.csv")
    assert data.read_samples(blank, homes.schema)[1] is None


def test_labels_that_look_like_numbers_stay_text(tmp_path):
    mixed = data.load(write(tmp_path, "x,y\n" + "1,7\n2,b\n" * 5), target="y", task="classification")
    _, labels = data.read_samples(write(tmp_path, "x,y\n3,7\n", "new.csv"), mixed.schema)
    assert labels.tolist() == ["7"] and mixed.schema.indices(labels).tolist() == [0]


@pytest.mark.parametrize(
    "text, said",
    [
        ("city,area\nParis,35\n", "column 'city' has 'Paris' in row 1, which the training data did not have"),
        ("city,area\nKöln,\n", "column 'area' has no value in row 1"),
        ("city,area\nKöln,35\nBern,big\n", "column 'area' has 'big' in row 2"),
        ("city,aera\nKöln,35\n", "the table has no column 'area' (it has 'city', 'aera'): did you mean 'aera'?"),
        ("city,area,kind\nKöln,35,flat\nBern,35,\n", "column 'kind' has no value in row 2"),
        ("city,area\n", "names of columns and no rows"),
    ],
)
def test_new_tables_that_do_not_fit(tmp_path, text, said):
    homes = data.load(write(tmp_path, csv("area", "city", "kind")), target="kind", one_hot=True)
    with raises_line("new.csv: ", said):
        data.read_samples(write(tmp_path, text, "new.csv"), homes.schema)


def test_a_table_for_a_model_of_arrays_is_refused(tmp_path):
    with raises_line("homes.csv: the model was not trained on a table", ".npz"):
        data.read_samples(write(tmp_path, csv("area", "price")), data.Schema())


GOOD = "a,b,y\n" + "1,2,u\n3,4,v\n" * 5
BAD: dict[str, tuple[str | bytes, dict[str, Any], list[str]]] = {
    "empty": ("", {}, ["it is empty"]),
    "blank": ("\n \n", {}, ["it is empty"]),
    "header only": ("a,b,y\n", {}, ["names of columns and no rows"]),
    "no header": ("1,2,3\n" * 9, {"target": "1"}, ["first row holds numbers ('1', '2', '3')", "add a first row"]),
    "no target": (GOOD, {"target": None}, ["no column is the target", "set target to one of 'a', 'b', 'y'"]),
    "wrong target": (GOOD.replace("y", "price"), {"target": "prize"}, ["'price'): did you mean 'price'?"]),
    "wrong targets": (GOOD, {"target": ("a", "c")}, ["no column 'c'"]),
    "text among targets": (GOOD, {"target": ("a", "y")}, ["column 'y' has 'u' in row 1, not a number"]),
    "only the target": ("y\nu\nv\n", {}, ["no columns of inputs"]),
    "twice": (GOOD.replace("b", "a", 1), {}, ["two columns named 'a'", "rename"]),
    "index of pandas": (GOOD.replace("a", "", 1), {}, ["column 1 has no name", "index=False"]),
    "ragged": (GOOD + "1,2\n", {}, ["row 11 has 2 cells for 3 columns"]),
    "long row": (GOOD + "1,2,u,\n", {}, ["row 11 has 4 cells"]),
    "empty cell": (GOOD + "1,,u\n", {}, ["column 'b' has no value in row 11"]),
    "nan": (GOOD + "nan,1,u\nNA,1,u\n", {}, ["column 'a' has no value in row 11 (and in 1 more)"]),
    "infinite": (GOOD + "inf,1,u\n", {}, ["column 'a' has inf, which is not finite in float32, in row 11"]),
    "empty target": (GOOD + "1,2,\n", {}, ["column 'y' has no value in row 11"]),
    "mixed": (GOOD + "1,x,u\n", {"one_hot": True}, ["'x' in row 11, and numbers in others"]),
    "decimal commas": ("a;y\n" + "1,5;u\n2,5;v\n" * 5, {}, ["text ('1,5', '2,5')", "write a decimal point"]),
    "one class": ("a,y\n" + "1,u\n2,u\n" * 5, {}, ["target 'y' has one class, 'u'"]),
    "one row": ("a,y\n1,u\n", {}, ["x has 1 sample:"]),
    "huge label": ("a,y\n" + "1,1\n2,99999999999999999999\n" * 5, {}, ["'y' holds whole numbers of over 64 bits"]),
    "text as values": (GOOD, {"task": "regression"}, ["target 'y' holds text ('u' first)"]),
    "open quote": (GOOD + '"1,2', {}, ["cannot be read as a table"]),
    "nul": (GOOD + "1,\0,u\n", {}, ["homes.csv"]),
    "latin": ("a,y\n1,\xe9\n".encode("latin-1"), {}, ["not text in UTF-8"]),
    "utf-16": (GOOD.encode("utf-16"), {}, ["not text in UTF-8"]),
    "a spreadsheet": (b"PK\x03\x04\xff\xfe", {}, ["not text in UTF-8"]),
    "braces": ("{a},y\n" + "1,u\n2,v\n" * 5, {"target": "{b}"}, ["(it has '{a}', 'y'): did you mean '{a}'?"]),
    "huge cell": ("a,y\n" + "1" * 200_000 + ",u\n", {}, ["cannot be read as a table (field larger"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_named_with_the_cure(tmp_path, case):
    text, options, said = BAD[case]
    with raises_line("homes.csv: ", *said):
        data.load(write(tmp_path, text), **{"target": "y"} | options)


def test_a_table_can_be_checked(tmp_path):
    (good,) = data.check(write(tmp_path, csv("area", "kind")))
    assert good.ok and good.message == "read 20 rows of 2 columns: 'area', 'kind'"
    (bad,) = data.check(write(tmp_path, ""))
    assert not bad.ok and "it is empty" in bad.message


def test_missing_files_and_options_of_other_files(tmp_path):
    with raises_line("nowhere.csv: there is no such file"):
        data.load("nowhere.csv", target="y")
    (tmp_path / "folder.csv").mkdir()
    with raises_line("folder.csv: there is no such file"):
        data.load(tmp_path / "folder.csv", target="y")
    with pytest.raises(ArgumentError, match="classes has no effect on"):
        data.load(write(tmp_path, GOOD), target="y", classes=3)
    with pytest.raises(TypeError, match="tset"):
        data.load(write(tmp_path, GOOD), target="y", tset=0.5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text('ab,;\t"\n\r{1.é-', max_size=60) | st.binary(max_size=40), one_hot=st.booleans())
def test_any_text_is_read_or_refused_in_one_line(tmp_path, text, one_hot):
    body = text if isinstance(text, bytes) else f"a,y\n{text}"
    try:
        data.load(write(tmp_path, body), target="y", one_hot=one_hot, test=0.0)
    except DataError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("name", ["table.parquet", "table.csv.gz"])
def test_other_kinds_of_file_are_named_as_such(name):
    """The target is right, the kind of file is not."""
    with raises_line(f"unknown data set '{name}'", "a folder of images or a path ending in .npz, .csv or .txt"):
        data.load(name, target="price")


def test_data_in_memory_is_not_the_name_of_a_file():
    with pytest.raises(ArgumentError, match=r"got dict\. Give data in memory to mupc.data.from_arrays\."):
        data.load({"a": [1.0, 2.0]}, target="a")  # type: ignore[arg-type]


def test_prices_as_text(tmp_path):
    table = write(tmp_path, "a,price\n" + "".join(f"{i},${i}.50\n" for i in range(10)))
    with raises_line("with 10 different labels only 0 can be spared", "or write numbers if the labels are values"):
        data.load(table, target="price")
