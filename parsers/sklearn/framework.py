"""What scikit-learn's models, XGBoost's and LightGBM's need in the Python that reads them."""

from __future__ import annotations

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
