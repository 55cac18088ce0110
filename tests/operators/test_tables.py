"""Scaler, Normalizer, LinearRegressor, LinearClassifier and their like: models of tables."""

from tests.operators.cases import Case
from tests.operators.running import on_every_target

LINEAR = """coefficients = [0.5, -1.0, 2.0, 0.25, 0.75, -0.5, 1.5, 1.0, -2.0],
    intercepts = [0.1, -0.2, 0.3]"""
CLASSES = f"{LINEAR}, classlabels_ints = [7, -3, 4]"
NAMES = f'{LINEAR}, classlabels_strings = ["a", "b", "c"]'

# fmt: off
CASES: dict[str, Case | str] = {
    "Scaler": Case("""g (float[b, 3] x) => (float[b, 3] y) {
        y = ai.onnx.ml.Scaler <offset = [1.0, -2.0, 0.0], scale = [0.5, 2.0, 3.0]> (x) }""", "b=4"),
    "Scaler of integers": Case("""g (int64[b, 3] x) => (float[b, 3] y) {
        y = ai.onnx.ml.Scaler <offset = [1.0], scale = [0.5]> (x) }""", "b=4"),
    "Normalizer by (L1|L2)": Case("""g (float[b, 3] x) => (float[b, 3] y) {
        y = ai.onnx.ml.Normalizer <norm = "(L1|L2)"> (x) }""",
        feeds=[{"x": [[1, -2, 3], [0, 0, 0], [1e-6, 0, 0]]}]),
    "Normalizer by its largest": Case("""g (float[b, 3] x) => (float[b, 3] y) {
        y = ai.onnx.ml.Normalizer <norm = "MAX"> (x) }""", "b=2",
        tflite="!a Normalizer by MAX", coreml="!a Normalizer by MAX"),
    "LinearRegressor": Case(f"""g (float[b, 3] x) => (float[b, 3] y) {{
        y = ai.onnx.ml.LinearRegressor <{LINEAR}, targets = 3> (x) }}""", "b=4"),
    "LinearRegressor after Scaler": Case("""g (float[b, 3] x) => (float[b, 1] y) {
        s = ai.onnx.ml.Scaler <offset = [1.0], scale = [0.5]> (x)
        y = ai.onnx.ml.LinearRegressor <coefficients = [1.0, 2.0, 3.0], intercepts = [4.0]> (s) }""",
        "b=4"),
    "LinearClassifier (NONE|LOGISTIC|SOFTMAX)": Case(f"""g (float[b, 3] x)
        => (int64[b] label, float[b, 3] y) {{
        label, y = ai.onnx.ml.LinearClassifier <{CLASSES},
            post_transform = "(NONE|LOGISTIC|SOFTMAX)"> (x) }}""", "b=9"),
    "LinearClassifier of integers that tie": Case(f"""g (int64[b, 3] x)
        => (int64[b] label, float[b, 3] y) {{
        label, y = ai.onnx.ml.LinearClassifier <{CLASSES}> (x) }}""",
        feeds=[{"x": [[0, 0, 0], [1, 2, 3]]}]),
    "LinearClassifier whose names aren't asked for": Case(f"""g (float[b, 3] x) => (float[b, 3] y) {{
        label, y = ai.onnx.ml.LinearClassifier <{NAMES}, post_transform = "SOFTMAX"> (x) }}""",
        "b=4"),
    "LinearClassifier with (PROBIT|SOFTMAX_ZERO)": Case(f"""g (float[b, 3] x)
        => (int64[b] label, float[b, 3] y) {{
        label, y = ai.onnx.ml.LinearClassifier <{CLASSES},
            post_transform = "(PROBIT|SOFTMAX_ZERO)"> (x) }}""", "b=2",
        tflite="!a LinearClassifier with (PROBIT|SOFTMAX_ZERO) behind it",
        coreml="!a LinearClassifier with (PROBIT|SOFTMAX_ZERO) behind it"),
    "ArrayFeatureExtractor": Case("""g (float[b, 3] x) => (float[b, 2] y) <int64[2] i = {2, 0}> {
        y = ai.onnx.ml.ArrayFeatureExtractor (x, i) }""", "b=4"),
    "Binarizer": Case("""g (float[b, 3] x) => (float[b, 3] y) {
        y = ai.onnx.ml.Binarizer <threshold = 0.25> (x) }""",
        feeds=[{"x": [[0.25, 0.3, -1], [0, 1, 0.2]]}]),
}
# fmt: on

test_tables = on_every_target(CASES)
