"""Models of scikit-learn, XGBoost and LightGBM by the command line, and output by output."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from converter.ir.model import Model
from converter.runtime.worker import Worker
from parsers.sklearn.child.export import down
from tests.acceptance.cli import command
from tests.sklearn.conftest import both
from tests.sklearn.models import MODELS, mixed, rows_of, samples, saved, trained

FILES = ("pipeline.skops", "forest.skops", "boosting.joblib", "svc.pkl", "kmeans.skops",
         "xgboost.json", "lightgbm.txt", "lightgbm_classes.skops")  # fmt: skip


def converted(source: Path, rows: Any, *more: str) -> dict[str, Any]:
    """The report of a conversion to ONNX whose gates all hold."""
    out = source.with_suffix("")
    csv = samples(source.with_suffix(".csv"), rows)
    command("convert", source, "--samples", csv, "--out", out, *more, code=0)
    return json.loads((out / "report.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("file", [
    pytest.param(file, marks=[pytest.mark.smoke] * (file == FILES[0])) for file in FILES
])  # fmt: skip
def test_it_is_converted_and_checked(file: str, tmp_path: Path) -> None:
    path = saved(trained(Path(file).stem), tmp_path / file)
    trust = ["--trust-source"] * (path.suffix in (".joblib", ".pkl"))
    report = converted(path, rows_of(path.stem), *trust)
    assert report["source"]["format"] == "sklearn"
    found = Model.load(path.with_suffix("") / "onnx" / "fp32" / "model.onnx")
    told = {spec.name: spec.labels for spec in found.outputs if spec.labels}
    if "probabilities" in {spec.name for spec in found.outputs}:
        assert told == {"probabilities": tuple(map(str, trained(path.stem).classes_))}


@pytest.mark.slow
def test_columns_of_text_are_inputs_of_their_own(tmp_path: Path) -> None:
    model, frame = mixed()
    converted(saved(model, tmp_path / "mixed.skops"), frame.drop(columns="unused"))
    session = onnxruntime.InferenceSession(tmp_path / "mixed" / "onnx" / "fp32" / "model.onnx")
    assert [(item.name, item.type) for item in session.get_inputs()] == [
        *(("length", "tensor(float)"), ("width", "tensor(float)"), ("colour", "tensor(string)")),
    ]


@pytest.mark.parametrize("name", MODELS)
def test_every_output_is_the_model_s_own(name: str, worker: Worker, tmp_path: Path) -> None:
    rows = rows_of(name)
    rows = np.concatenate([rows, rows + np.float32(0.1) * rows.std(0)])
    path = saved(trained(name), tmp_path / f"{name}.skops")
    for output, wanted, found in both(worker, path, {"x": rows}):
        assert (wanted.shape, wanted.dtype) == (found.shape, found.dtype), output
        if output == "label":
            assert np.mean(wanted == found) > 0.995
        else:
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize(
    "file", ["xgboost.json", "xgboost_value.ubj", "lightgbm.txt", "lightgbm_classes.txt"]
)
def test_a_booster_s_own_file_is_the_model(file: str, worker: Worker, tmp_path: Path) -> None:
    path = saved(trained(Path(file).stem), tmp_path / file)
    given = both(worker, path, {"x": rows_of(path.stem)})
    model = trained(path.stem)
    told = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    name, wanted, found = given[-1]
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(wanted.reshape(-1), told(rows_of(path.stem)).reshape(-1), rtol=1e-5)
    assert name == ("probabilities" if hasattr(model, "predict_proba") else "value")


def test_thresholds_are_rounded_down_so_that_no_float32_goes_another_way() -> None:
    exact = np.random.default_rng(5).normal(size=2000) * np.logspace(-30, 30, 2000)
    exact = np.append(exact, [1e300, -1e300, 0.0, 0.5])
    with np.errstate(over="ignore"):
        near = exact.astype(np.float32)
    rounded = np.array(down(exact), np.float32)
    assert np.any(near.astype(np.float64) > exact)
    ways = np.array([-np.inf, np.inf], np.float32)
    for value in (near, *(np.nextafter(near, way) for way in ways)):  # the closest that could
        assert np.array_equal(value <= rounded, value.astype(np.float64) <= exact)
