"""What is known of the source format sklearn without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.protocols.spec import ParserSpec
from converter.runtime.frameworks import Framework

BOOSTERS = {
    "xgboost": ("xgboost-cpu|xgboost", "onnxmltools"),
    "lightgbm": ("lightgbm", "onnxmltools"),
}
"""What the files of a booster need besides."""

SKLEARN = Framework(
    *("scikit-learn", "sklearn.child.backend:SklearnBackend", "sklearn"),
    needs=("scikit-learn", "skl2onnx", "onnx"),
    own=("scikit-learn", "skl2onnx", "onnxmltools", "xgboost-cpu", "xgboost", "lightgbm", "skops"),
    uses=("skops", "joblib", "xgboost-cpu|xgboost", "lightgbm", "onnxmltools", "pandas", "numpy"),
)

SPECS = {
    "sklearn": ParserSpec(
        framework=SKLEARN,
        extra=SKLEARN.extra,
        marks=Marks(
            suffixes=(".skops", ".joblib", ".pkl"),
            archives=((r"^schema\.json$", "a model of scikit-learn (.skops)"),),
        ),
    )
}
