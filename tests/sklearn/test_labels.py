"""Labels of every type that classifiers give: text however NumPy holds it, booleans, integers."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas
import pytest
from sklearn import ensemble, linear_model, naive_bayes, neighbors, svm, tree

from converter.errors import UnsupportedError
from converter.runtime.worker import Worker
from tests.acceptance.cli import command
from tests.sklearn.conftest import both
from tests.sklearn.models import samples, saved, table

TEXTS = np.array(["é-yes", "no", "maybe "])
FORMS: dict[str, Any] = {
    "object": (linear_model.LogisticRegression(), lambda y: TEXTS.astype(object)[y]),
    "unicode": (svm.LinearSVC(), lambda y: TEXTS[y]),
    "category": (
        tree.DecisionTreeClassifier(), lambda y: pandas.Series(TEXTS[y], dtype="category")),
    "str": (ensemble.RandomForestClassifier(3), lambda y: pandas.Series(TEXTS[y], dtype="str")),
    "bytes": (ensemble.RandomForestClassifier(3), lambda y: np.char.encode(TEXTS, "utf-8")[y]),
    "bool": (ensemble.AdaBoostClassifier(n_estimators=3), lambda y: y > 0),
    "int8": (neighbors.KNeighborsClassifier(algorithm="brute"), lambda y: y.astype(np.int8)),
    "wide": (naive_bayes.GaussianNB(), lambda y: y * 7 - 2**53),
}  # fmt: skip
"""A classifier, and its labels of classes from 0 on."""


@pytest.mark.parametrize("form", FORMS)
def test_labels_are_the_model_s_own(form: str, worker: Worker, tmp_path: Path) -> None:
    rows, classes = table("iris")
    model, labelled = FORMS[form]
    path = saved(model.fit(rows, labelled(classes)), tmp_path / "m.joblib")
    told, wanted, found = both(worker, path, {"x": rows})[0]
    assert told == "label"
    text = form in ("object", "unicode", "category", "str", "bytes")
    assert (found.dtype.kind, wanted.dtype.kind) == (("O", "U") if text else ("i", "i"))
    assert len(set(found.tolist())) == (2 if form == "bool" else 3)
    assert np.mean(wanted.astype(found.dtype) == found) > 0.99
    given = model.predict(rows)
    given = np.char.decode(given, "utf-8") if form == "bytes" else given
    assert wanted.tolist() == given.tolist()


def test_a_label_beyond_int64_is_named(worker: Worker, tmp_path: Path) -> None:
    rows, classes = table("iris")
    model = tree.DecisionTreeClassifier().fit(rows, classes.astype(np.uint64) + np.uint64(2**63))
    with pytest.raises(UnsupportedError) as caught:
        both(worker, saved(model, tmp_path / "m.joblib"), {"x": rows})
    assert "the label 9223372036854775808 is beyond int64" in str(caught.value.items)


@pytest.mark.slow
def test_labels_of_text_pass_the_gates(tmp_path: Path) -> None:
    rows, classes = table("iris")
    model = linear_model.LogisticRegression(max_iter=300).fit(rows, TEXTS[classes])
    path = saved(model, tmp_path / "m.skops")
    csv = samples(tmp_path / "rows.csv", rows, 20)
    out = tmp_path / "out"
    command("convert", path, "--samples", csv, "--out", out, "--no-bench", code=0)
    session = onnxruntime.InferenceSession(out / "onnx" / "fp32" / "model.onnx")
    label = session.run(["label"], {"x": rows})[0]
    assert label.tolist() == model.predict(rows).tolist()
