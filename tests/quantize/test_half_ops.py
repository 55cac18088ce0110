"""Every operator of ONNX's own tests, brought to float16: valid, loadable, close."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

from converter.errors import ModelyardError
from converter.ir import Model
from converter.ort import OrtSession
from converter.passes.naming import name_nodes, name_values
from converter.passes.upgrade_opset import UpgradeOpset
from converter.quantize.half import to_half
from tests.quantize.minmax_limits import measured_on

Array = np.ndarray[Any, Any]

TOLERANCE = 4e-3
"""Of the largest value; float16 rounds to 5e-4."""

CASES_AN_OPERATOR = 2


def _tensor(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.WhichOneof("value") == "tensor_type")


def _float(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT)


def _suite() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found: dict[str, Any] = {}
        counts: Counter[str] = Counter()
        for one in collect_testcases(None):
            graph = one.model.graph
            ends = [*graph.input, *graph.output]
            if any(map(_float, ends)) and all(map(_tensor, ends)):
                counts[graph.node[-1].op_type] += 1
                if counts[graph.node[-1].op_type] <= CASES_AN_OPERATOR:
                    found[one.name] = one
        return found


def _prepared(one: Any) -> tuple[Model, dict[str, Array], dict[str, Array]] | None:
    """The model at the pipeline's opset, its inputs and its outputs; None where it has no form
    in that opset or ONNX Runtime can't run it in float32."""
    graph = onnx_ir.from_proto(one.model)
    graph.ir_version = min(graph.ir_version or 9, 9)
    try:
        UpgradeOpset()(graph)
        name_nodes(graph)
        name_values(graph)
        onnx.checker.check_model(onnx_ir.to_proto(graph), full_check=True)
        names = [value.name for value in one.model.graph.input]
        arrays = [
            onnx.numpy_helper.to_array(a) if isinstance(a, onnx.TensorProto) else np.asarray(a)
            for a in one.data_sets[0][0]
        ]
        feeds = dict(zip(names, arrays, strict=False))
        return Model(graph), feeds, _run(Model(graph), feeds)
    except (ModelyardError, onnx.checker.ValidationError, onnx_ir.passes.PassError):
        return None
    except onnx.shape_inference.InferenceError:
        return None


def _run(model: Model, feeds: dict[str, Array]) -> dict[str, Array]:
    # some kernels of training write into their inputs
    return OrtSession(model.graph, plain=True).run({k: v.copy() for k, v in feeds.items()})


def _differences(before: dict[str, Array], after: dict[str, Array]) -> list[str]:
    wrong = []
    for name, expected in before.items():
        found = after[name]
        if expected.dtype != found.dtype or expected.shape != found.shape:
            wrong.append(f"{name} is {found.dtype}{found.shape}")
        elif expected.dtype.kind == "f":
            finite = np.abs(expected[np.isfinite(expected)])
            limit = TOLERANCE * max(float(finite.max(initial=0.0)), 1e-3)
            if not np.allclose(found, expected, rtol=TOLERANCE, atol=limit, equal_nan=True):
                wrong.append(f"{name} is off by {np.nanmax(np.abs(found - expected))}")
        elif not (expected == found).all() and expected.dtype.kind in "iub":
            wrong.append(f"{name}: {int((expected != found).sum())} of {expected.size} differ")
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("measured", [False, True], ids=["unmeasured", "measured"])
def test_every_operator(measured: bool) -> None:
    wrong, seen, lowered_ops = [], set(), set()
    for name, one in _suite().items():
        prepared = _prepared(one)
        if prepared is None:
            continue
        model, feeds, before = prepared
        lowered = to_half(model, measured_on(model, feeds) if measured else None)
        onnx.checker.check_model(lowered.model.to_proto(), full_check=True)
        wrong += [f"{name}: {item}" for item in _differences(before, _run(lowered.model, feeds))]
        if not measured:  # ONNX Runtime's CPU provider has next to nothing for bfloat16
            narrow = to_half(model, None, dtype="bfloat16").model.to_proto()
            onnx.checker.check_model(narrow, full_check=True)
        seen |= {node.op_type for node in model.nodes()}
        stayed = {kept.node for kept in lowered.kept}
        assert all(kept.reason for kept in lowered.kept)
        lowered_ops |= {n.op_type for n in model.nodes() if n.name in lowered.lowered}
        assert not stayed & set(lowered.lowered)
    assert not wrong
    assert len(seen) > 150
    assert len(lowered_ops) > 100
