"""Samples from a CSV."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.samples.conftest import Load, Refuse, spec

X = spec("x", "batch", 3)


@pytest.fixture
def table() -> Path:
    return Path("rows.csv")


def test_features_in_order_with_a_label(table: Path, load: Load) -> None:
    table.write_text("a,b,c,label\n1,2.5,-3e2,0\n\n4,5,6,1\n", encoding="utf-8-sig")
    first, second = samples = load(table, X)
    assert samples.labelled
    assert samples.origin == "rows.csv (2 lines)"
    assert first.feeds["x"].tolist() == [[1.0, 2.5, -300.0]]
    assert first.feeds["x"].dtype == np.float32
    assert (first.label, second.label) == (0, 1)
    assert (first.name, second.name) == ("rows.csv, line 2", "rows.csv, line 4")


def test_columns_by_name(table: Path, load: Load) -> None:
    inputs = (
        spec("age", "batch", dtype="int64"),
        spec("vip", "batch", 1, dtype="bool"),
        spec("city", "batch", 1, dtype="string"),
        spec("v", "batch", 2),
    )
    table.write_text(
        'kind,v_1,v_0,city,vip,age\ndog,4,3,"Köln, Süd",True,30.0\ncat,6,5,,0,-1\n', "utf-8-sig"
    )
    names = table.with_name("names.txt")
    names.write_text("cat\ndog\n")
    first, second = load(table, *inputs, labels="kind", label_names=str(names))
    assert first.feeds["age"].tolist() == [30]
    assert first.feeds["vip"].tolist() == [[True]]
    assert first.feeds["city"].tolist() == [["Köln, Süd"]]
    assert first.feeds["v"].tolist() == [[3.0, 4.0]]
    assert (first.label, second.label) == (1, 0)


def test_shapes_fixed_batch_and_limit(table: Path, load: Load, refuse: Refuse) -> None:
    table.write_text("a,b,c,d,y\n1,2,3,4,0\n5,6,7,8,1\n9,10,11,12,2\n")
    square = load(table, spec("x", "batch", 2, "n"), sizes={"n": 2}, labels="none")
    assert next(iter(square)).feeds["x"].tolist() == [[[1, 2], [3, 4]]]
    assert not square.labelled
    (pair,) = load(table, spec("x", 2, 4), samples_limit=2)
    assert pair.feeds["x"].shape == (2, 4)
    assert pair.label.tolist() == [0, 1]
    refuse(table, spec("x", 2, 4), says="3 lines aren't a multiple of the model's fixed batch")
    refuse(table, spec("x", "batch", 2, "n"), says=("n has no size", "--dim n=SIZE"))


@pytest.mark.parametrize(("text", "says"), [
    ("", "rows.csv is empty"),
    ("a,b,c\n", "holds no samples"),
    ("1,2,3\n4,5,6\n", "has to name the columns"),
    ("a,b,a\n1,2,3\n", "has two columns of one name: a"),
    ("a,b\n1,2\n", "x float32[batch, 3]: needs 3 columns"),
    ("a,b,c\n1,2\n", "line 2: expected 3 columns, found 2"),
    ("a,b,c\n1,2,x3\n", "line 2, column 'c': 'x3' isn't of type float32"),
    ("a,b,c\n1,,3\n", "column 'b': '' isn't of type float32"),
    ("a,b,c\n1,2,3\n1,nan,3\n", "line 3: the input 'x' holds NaN at [0, 1]"),
    ("a,b,c\n1,2,1e39\n", "holds inf at [0, 2]"),
])  # fmt: skip
def test_what_does_not_fit(table: Path, refuse: Refuse, text: str, says: str) -> None:
    table.write_text(text)
    refuse(table, X, says=("rows.csv", says))


@pytest.mark.parametrize(("dtype", "cell"), [("uint8", "256"), ("int32", "1.5"), ("bool", "2")])
def test_a_cast_that_loses_is_refused(table: Path, refuse: Refuse, dtype: str, cell: str) -> None:
    table.write_text(f"x\n{cell}\n")
    refuse(table, spec("x", "batch", 1, dtype=dtype), says=f"'{cell}' isn't of type {dtype}")


def test_columns_and_labels_that_are_not_there(table: Path, refuse: Refuse) -> None:
    table.write_text("a,b\n1,2\n")
    inputs = (spec("a", "batch"), spec("q", "batch"))
    error = refuse(table, *inputs, says=("q float32[batch]: needs 1 columns", "its columns: a, b"))
    assert "NAME[0]" in error.hint
    refuse(table, inputs[0], labels="z", says="--labels z: rows.csv has no such column")
    table.write_bytes(b"a\n\xff\xfe\n")
    refuse(table, inputs[0], says="isn't a CSV file in UTF-8")


def test_columns_that_no_input_is_called_after_are_left_out(table: Path, load: Load) -> None:
    table.write_text("b,a,c,id\n1,2,3,4\n")
    assert load(table, spec("a", "batch")).origin == "rows.csv (1 lines, without 'b', 'c', 'id')"
    trained = replace(X, columns=("a", "b", "c"))
    samples = load(table, trained)
    assert samples.origin == "rows.csv (1 lines, without 'id')"
    assert next(iter(samples)).feeds["x"].tolist() == [[2, 1, 3]]


def test_columns_that_the_model_was_trained_on_and_are_not_there(
    table: Path, refuse: Refuse
) -> None:
    table.write_text("b,a,d\n1,2,3\n")
    trained = replace(X, columns=("a", "b", "c"))
    refuse(table, trained, says=("the columns that it was trained on", "missing: 'c'"))


def test_an_empty_cell_is_nan_where_that_is_a_value(
    table: Path, load: Load, refuse: Refuse
) -> None:
    table.write_text("a,b,c\n1,,3\n4,NA,5\n")
    for sample in load(table, replace(X, missing=(1,))):
        assert np.isnan(sample.feeds["x"]).tolist() == [[False, True, False]]
    refuse(
        table, replace(X, missing=(0, 2)), says="line 2, column 'b': '' isn't of type float32, and"
    )


def test_truth_is_a_number_where_numbers_are_taken(table: Path, load: Load) -> None:
    table.write_text("a,b,c\nTrue,false,3\n")
    assert next(iter(load(table, X))).feeds["x"].tolist() == [[1, 0, 3]]


def test_names_and_texts_keep_their_blanks(table: Path, load: Load) -> None:
    table.write_text("id, city\n1, Rome \n")
    for name in (" city", "city"):
        (sample,) = load(table, spec(name, "batch", 1, dtype="string"))
        assert sample.feeds[name].tolist() == [[" Rome "]]


def test_labels_are_classes_by_their_names_even_where_those_are_numbers(
    table: Path, load: Load
) -> None:
    table.write_text("a,b,c,y\n1,2,3,30\n1,2,3,10\n")
    names = table.with_name("names.txt")
    names.write_text("10\n20\n30\n")
    assert [sample.label for sample in load(table, X, label_names=str(names))] == [2, 0]


def test_the_digest(table: Path, load: Load) -> None:
    table.write_text("a,b,c,y\n1,2,3,4\n")
    digest = load(table, X).digest
    assert load(table, X).digest == digest
    assert load(table, X, labels="none").digest != digest
