"""Real models in int8: every convolution and product in ONNX Runtime's integer kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest

from converter.ir import Model
from converter.ort import OrtSession
from converter.quantize.insert import quantize
from converter.quantize.placement import place
from converter.quantize.ranges import collect
from converter.quantize.scheme import ONNXRUNTIME_CPU
from tests.passes.models import run
from tests.passes.real import real_model, real_samples
from tests.quantize.test_placement import kernels

INTEGER = {"QLinearConv", "QGemm", "QLinearMatMul", "MatMulIntegerToFloat"}


def typed(name: str) -> Model:
    """A real model with the types of all its values."""
    proto = onnx_ir.to_proto(real_model(name).graph)
    for value in (*proto.graph.input, *proto.graph.output):
        for i, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_value < 0:  # as some exporters write a free dimension
                dim.dim_param = f"{value.name}_{i}"
    proto = onnx.shape_inference.infer_shapes(proto)
    return Model(onnx_ir.from_proto(proto))


@pytest.mark.parametrize(
    ("name", "least"), [("ocr-cls", 0.99), ("ocr-rec", 0.85), ("silero-sequence", 0.98)]
)
def test_all_arithmetic_is_in_integer_kernels(name: str, least: float, tmp_path: Path) -> None:
    model, samples = typed(name), real_samples(name, 4)
    ranges = collect(model, samples, place(model, ONNXRUNTIME_CPU).tensors, few=True)
    result = quantize(model, ranges, ONNXRUNTIME_CPU)
    wanted = {"Conv", "Gemm", "MatMul"}
    count = sum(node.op_type in wanted for node in model.graph.graph)
    found = kernels(result.model, tmp_path)
    assert sum(found[op] for op in INTEGER) == count
    assert not found.keys() & (wanted | {"FusedConv", "FusedGemm", "FusedMatMul"})
    assert {kept.op for kept in result.kept}.isdisjoint(wanted)
    feeds = next(iter(samples)).feeds
    before, after = run(model, feeds), OrtSession(result.model.graph).run(feeds)
    for output, array in before.items():
        one, other = array.ravel().astype(float), after[output].ravel().astype(float)
        cosine = one @ other / np.sqrt((one @ one) * (other @ other))
        assert cosine > least, f"{output}: {cosine}"


def test_weights_that_are_computed_stay_as_they_are() -> None:
    """This file holds its weights as int8 behind a Cast and a Mul."""
    model = typed("minilm-int8")
    reasons = {kept.reason for kept in place(model, ONNXRUNTIME_CPU).kept if kept.op == "MatMul"}
    assert reasons == {"it computes with something that depends on no input"}
