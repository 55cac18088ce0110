"""ONNX's own tests of each operator, with Transposes around it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper, numpy_helper

from converter.errors import ModelError
from converter.ir import IR_VERSION, OPSET, Model
from converter.ort import OrtSession
from converter.passes.cleanup import Cleanup
from converter.passes.transposes import Transposes
from converter.passes.transposes_table import PASSED
from tests.conformance.cases import open_store
from tests.passes.models import Array


def _node_tests() -> Iterator[tuple[str, onnx.ModelProto, list[Array], list[Array]]]:
    """ONNX's own tests of the operators that Transposes pass, one node each."""
    store = open_store()
    for case in store.cases.values():
        if case.special or case.opset < 18:
            continue
        proto = store.model(case)
        if len(proto.graph.node) == 1 and proto.graph.node[0].op_type in PASSED:
            inputs = [numpy_helper.to_array(tensor) for tensor in store.inputs(case)]
            outputs = list(store.outputs(case).values())
            if all(array.dtype.kind in "fiub" for array in (*inputs, *outputs)):
                yield case.name, proto, inputs, outputs


def _between_transposes(
    proto: onnx.ModelProto, inputs: list[Array], outputs: list[Array], seed: int
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model with a Transpose before each input and behind each output; vectors of integers
    become constants."""
    rng = np.random.default_rng(seed)
    made, feeds = onnx.ModelProto(), {}
    made.CopyFrom(proto)
    made.ir_version, made.opset_import[0].version = IR_VERSION, OPSET
    nodes, taken, given = list(proto.graph.node), [], []
    for value, array in zip(proto.graph.input, inputs, strict=True):
        if array.ndim < 2 and array.dtype.kind in "iu":
            made.graph.initializer.append(numpy_helper.from_array(array, value.name))
            continue
        if array.ndim < 2:
            feeds[value.name] = array
            taken.append(value)
            continue
        name, perm = f"{value.name}_in", [int(axis) for axis in rng.permutation(array.ndim)]
        nodes.insert(0, helper.make_node("Transpose", [name], [value.name], perm=np.argsort(perm)))
        feeds[name] = np.ascontiguousarray(array.transpose(perm))
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        taken.append(helper.make_tensor_value_info(name, kind, feeds[name].shape))
    for value, array in zip(proto.graph.output, outputs, strict=True):
        if array.ndim < 2:
            given.append(value)
            continue
        name, perm = f"{value.name}_out", [int(axis) for axis in rng.permutation(array.ndim)]
        nodes.append(helper.make_node("Transpose", [value.name], [name], perm=perm))
        kind = value.type.tensor_type.elem_type
        given.append(helper.make_tensor_value_info(name, kind, None))
    for field, items in (("node", nodes), ("input", taken), ("output", given)):
        made.graph.ClearField(field)
        getattr(made.graph, field).extend(items)
    return onnx.shape_inference.infer_shapes(made, data_prop=True), feeds


@pytest.mark.slow
def test_onnx_own_tests_between_transposes() -> None:
    tried = changed = 0
    for seed, (name, proto, inputs, outputs) in enumerate(_node_tests()):
        made, feeds = _between_transposes(proto, inputs, outputs, seed)
        model = Model(onnx_ir.from_proto(made))
        Cleanup()(model.graph)
        try:
            before = OrtSession(model.graph, plain=True).run(feeds)
        except ModelError:
            continue  # a type that ONNX Runtime lacks, or that came after our opset
        modified = Transposes()(model.graph).modified
        after = OrtSession(model.graph, plain=True).run(feeds)
        for output, array in before.items():
            np.testing.assert_allclose(
                after[output].astype(array.dtype), array, rtol=2e-6, atol=2e-6, err_msg=name
            )
        tried, changed = tried + 1, changed + modified
    assert tried > 250 and changed > 100
