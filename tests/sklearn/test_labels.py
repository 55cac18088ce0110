"""Labels of every type that classifiers give: text however NumPy holds it, booleans, integers."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import skl2onnx
from sklearn import (
    ensemble,
    linear_model,
    naive_bayes,
    neighbors,
    pipeline,
    preprocessing,
    svm,
    tree,
)

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
def test_on_a_device_the_names_of_classes_go_with_their_probabilities(tmp_path: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    rows, classes = table("iris")
    model = pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.LogisticRegression()
    )
    path = saved(model.fit(rows, TEXTS[classes]), tmp_path / "m.skops")
    data = ["--samples", samples(tmp_path / "rows.csv", rows, 20)]
    out, asked = tmp_path / "out", ["convert", path, *data, "--no-bench", "--json"]
    said = command(*asked, "--to", "onnx,tflite,coreml", "--out", out, code=0)
    assert said.json["report"]["verdict"] != "failed"
    told = [alert["text"] for alert in said.json["report"]["alerts"] if alert["loud"]]
    for target in ("tflite", "coreml"):
        assert (
            f"{target} fp32: the output label is left out: it is text, which {target} can't hold; "
            "the names of the classes go along as the labels of probabilities" in told
        )
        file = out / target / "fp32" / "labels.txt"
        assert file.read_text().splitlines() == sorted(text.strip() for text in TEXTS)
    command("check", out / "tflite" / "fp32", "--against", path, *data, code=0)
    outputs = {made["target"]: made["outputs"] for made in said.json["report"]["artifacts"]}
    assert {name: [spec["name"] for spec in specs] for name, specs in outputs.items()} == {
        "onnx": ["label", "probabilities"], "tflite": ["probabilities"],
        "coreml": ["probabilities"],
    }  # fmt: skip
    runner = Interpreter(str(out / "tflite" / "fp32" / "model.tflite")).get_signature_runner()
    found = runner(x=rows)["probabilities"]
    np.testing.assert_allclose(found, model.predict_proba(rows), atol=1e-5)


def test_of_an_onnx_file_the_graph_tells_the_names_of_classes(tmp_path: Path) -> None:
    rows, classes = table("iris")
    model = linear_model.LogisticRegression(max_iter=500).fit(rows, TEXTS[classes])
    made = skl2onnx.to_onnx(model, rows[:1], options={"zipmap": False}, target_opset=18)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    line = ("convert", "m.onnx", "--samples", "random:8", "--to", "tflite", "--no-bench")
    said = command(*line, "--out", "out", cwd=tmp_path, code=0)
    assert "tflite fp32: the output label is left out: it is text" in " ".join(said.out.split())
    found = (tmp_path / "out/tflite/fp32/labels.txt").read_text().splitlines()
    assert found == [text.strip() for text in sorted(TEXTS)]
    del made.graph.output[1]
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    said = command(*line, "--out", "label", cwd=tmp_path, code=3)
    assert "a label that is text - have the model give its scores too" in " ".join(said.err.split())
