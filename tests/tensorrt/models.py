"""Small models for the tests of TensorRT, as Models and as files."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir

from converter.ir.model import Model
from converter.options.recipe import make_request
from converter.options.request import Request
from tests.serving.models import text_model

FLOAT, HALF = onnx_ir.DataType.FLOAT, onnx_ir.DataType.FLOAT16


def request(**options: Any) -> Request:
    """A request with these options."""
    return make_request({"source": "model.onnx", **options})


PADS = "kernel_shape=[3, 3], pads=[1, 1, 1, 1]"
CONV = "g (float[batch, 3, 16, 16] x) => (float[batch, 4, 16, 16] y) {{ {} }}"


def conv_model(dtype: onnx_ir.DataType = FLOAT, *, casts: bool = True) -> Model:
    """Two convolutions with a Relu, at a free batch; every tensor but the border of ``dtype``, with
    casts there or none."""
    rng = np.random.default_rng(0)
    kind = np.float16 if dtype == HALF else np.float32
    shapes = {"w1": (8, 3, 3, 3), "w2": (4, 8, 3, 3)}
    weights = {name: rng.normal(0, 0.2, shape).astype(kind) for name, shape in shapes.items()}
    inner = f"b = Conv<{PADS}>(a, w1) c = Relu(b) d = Conv<{PADS}>(c, w2)"
    if casts:
        inner = f"a = Cast<to={int(dtype)}>(x) {inner} y = Cast<to=1>(d)"
    else:
        inner = inner.replace("(a,", "(x,").replace("d =", "y =")
    return typed(text_model(CONV.format(inner), **weights))


def typed(model: Model) -> Model:
    """The model with the types of its inner values."""
    return Model.wrap(onnx_ir.from_proto(onnx.shape_inference.infer_shapes(model.to_proto())))


def saved(model: Model, folder: Path) -> Path:
    """``folder/model.onnx``."""
    folder.mkdir(parents=True, exist_ok=True)
    model.copy().save(folder / "model.onnx")
    return folder / "model.onnx"
