"""Scaler, Normalizer, LinearRegressor, LinearClassifier and their like: models of tables."""

import pytest

from tests.operators.cases import Case, Refused
from tests.operators.running import TARGETS, check

LINEAR = """coefficients = [0.5, -1.0, 2.0, 0.25, 0.75, -0.5, 1.5, 1.0, -2.0],
    intercepts = [0.1, -0.2, 0.3]"""
CLASSES = f"{LINEAR}, classlabels_ints = [7, -3, 4]"
NAMES = f'{LINEAR}, classlabels_strings = ["a", "b", "c"]'

# fmt: off
CASES: list[Case] = [
    Case("Scaler",
        """g (float[b, 3] x) => (float[b, 3] y) {
            y = ai.onnx.ml.Scaler <offset = [1.0, -2.0, 0.0], scale = [0.5, 2.0, 3.0]> (x) }""",
        sizes={"b": 4}),
    Case("Scaler of integers",
        """g (int64[b, 3] x) => (float[b, 3] y) {
            y = ai.onnx.ml.Scaler <offset = [1.0], scale = [0.5]> (x) }""",
        sizes={"b": 4}),
    *(
        Case(f"Normalizer by {norm}",
            f"""g (float[b, 3] x) => (float[b, 3] y) {{
                y = ai.onnx.ml.Normalizer <norm = "{norm}"> (x) }}""",
            feeds=[{"x": [[1, -2, 3], [0, 0, 0], [1e-6, 0, 0]]}])
        for norm in ("L1", "L2")
    ),
    Case("Normalizer by its largest",
        """g (float[b, 3] x) => (float[b, 3] y) {
            y = ai.onnx.ml.Normalizer <norm = "MAX"> (x) }""",
        sizes={"b": 2}, tflite=Refused("a Normalizer by MAX"), coreml=Refused("a Normalizer by MAX")),
    Case("LinearRegressor",
        f"""g (float[b, 3] x) => (float[b, 3] y) {{
            y = ai.onnx.ml.LinearRegressor <{LINEAR}, targets = 3> (x) }}""",
        sizes={"b": 4}),
    Case("LinearRegressor after Scaler",
        """g (float[b, 3] x) => (float[b, 1] y) {
            s = ai.onnx.ml.Scaler <offset = [1.0], scale = [0.5]> (x)
            y = ai.onnx.ml.LinearRegressor <coefficients = [1.0, 2.0, 3.0], intercepts = [4.0]> (s) }""",
        sizes={"b": 4}),
    *(
        Case(f"LinearClassifier {behind}",
            f"""g (float[b, 3] x) => (int64[b] label, float[b, 3] y) {{
                label, y = ai.onnx.ml.LinearClassifier <{CLASSES},
                post_transform = "{behind}"> (x) }}""",
            sizes={"b": 9})
        for behind in ("NONE", "LOGISTIC", "SOFTMAX")
    ),
    Case("LinearClassifier of integers that tie",
        f"""g (int64[b, 3] x) => (int64[b] label, float[b, 3] y) {{
            label, y = ai.onnx.ml.LinearClassifier <{CLASSES}> (x) }}""",
        feeds=[{"x": [[0, 0, 0], [1, 2, 3]]}]),
    Case("LinearClassifier whose names aren't asked for",
        f"""g (float[b, 3] x) => (float[b, 3] y) {{
            label, y = ai.onnx.ml.LinearClassifier <{NAMES}, post_transform = "SOFTMAX"> (x) }}""",
        sizes={"b": 4}),
    *(
        Case(f"LinearClassifier with {behind}",
            f"""g (float[b, 3] x) => (int64[b] label, float[b, 3] y) {{
                label, y = ai.onnx.ml.LinearClassifier <{CLASSES},
                post_transform = "{behind}"> (x) }}""",
            sizes={"b": 2}, tflite=Refused(f"a LinearClassifier with the post-transform {behind}"),
            coreml=Refused(f"a LinearClassifier with the post-transform {behind}"))
        for behind in ("PROBIT", "SOFTMAX_ZERO")
    ),
    Case("ArrayFeatureExtractor",
        """g (float[b, 3] x) => (float[b, 2] y) <int64[2] i = {2, 0}> {
            y = ai.onnx.ml.ArrayFeatureExtractor (x, i) }""",
        sizes={"b": 4}),
    Case("Binarizer",
        """g (float[b, 3] x) => (float[b, 3] y) {
            y = ai.onnx.ml.Binarizer <threshold = 0.25> (x) }""",
        feeds=[{"x": [[0.25, 0.3, -1], [0, 1, 0.2]]}]),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
