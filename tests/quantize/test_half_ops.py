"""Operators of ONNX's own tests, and random graphs, brought to float16: valid, loadable, close."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import onnx
import onnx_ir
import pytest

from bench.precision_checks import pairs
from converter.errors import ModelyardError
from converter.ir.model import Model
from converter.passes.cleanup.naming import name_nodes, name_values
from converter.passes.opset.upgrade import UpgradeOpset
from converter.precision.fp16 import border as half_border
from converter.precision.fp16.half import to_half
from converter.runtime.ort import OrtSession
from tests.conformance.cases import open_store
from tests.fuzz.case import difference
from tests.fuzz.generate import generate
from tests.passes.models import Array
from tests.quantize.minmax_limits import measured_on

TOLERANCE = 4e-3
"""Of the largest value; float16 rounds to 5e-4."""

CASES_AN_OPERATOR = 2


def _suite() -> Iterator[tuple[str, onnx.ModelProto, list[Array]]]:
    """Cases that read or give floats: as many of each operator as ``CASES_AN_OPERATOR``."""
    store, counts = open_store(), Counter[str]()
    for case in store.cases.values():
        if case.special.startswith("inputs or outputs of"):
            continue
        proto = store.model(case)
        ends = [*proto.graph.input, *proto.graph.output]
        if any(v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT for v in ends):
            counts[proto.graph.node[-1].op_type] += 1
            if counts[proto.graph.node[-1].op_type] <= CASES_AN_OPERATOR:
                yield case.name, proto, [onnx.numpy_helper.to_array(t) for t in store.inputs(case)]


def _prepared(
    proto: onnx.ModelProto, arrays: list[Array]
) -> tuple[Model, dict[str, Array], dict[str, Array]] | None:
    """The model at the pipeline's opset, its inputs and its outputs; None where it has no form
    in that opset or ONNX Runtime can't run it in float32."""
    graph = onnx_ir.from_proto(proto)
    graph.ir_version = min(graph.ir_version or 9, 9)
    try:
        UpgradeOpset()(graph)
        name_nodes(graph)
        name_values(graph)
        onnx.checker.check_model(onnx_ir.to_proto(graph), full_check=True)
        feeds = dict(zip([value.name for value in proto.graph.input], arrays, strict=False))
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
    for name, proto, arrays in _suite():
        prepared = _prepared(proto, arrays)
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


COARSER = 2.0**13
"""Than float32's are float16's last places."""


@pytest.mark.parametrize("io_dtype", ["float32", "float16"])
@pytest.mark.parametrize("free_casts", [False, True])
def test_random_graphs(io_dtype: str, free_casts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if free_casts:  # so that only the nodes that were asked for stay
        monkeypatch.setattr(half_border, "CAST_BYTES", 0)
        monkeypatch.setattr(half_border, "CAST_ALONE", 0)
    for seed in range(15):
        case, rng = generate(seed, transposes=0.2), np.random.default_rng(seed)
        expected, feeds = case.expected(), dict(case.feeds[0])
        model = Model(onnx_ir.from_proto(onnx.shape_inference.infer_shapes(case.proto)))
        name_nodes(model.graph)
        name_values(model.graph)
        names = [node.name or "" for node in model.nodes()]
        keep = set(rng.choice(names, size=3, replace=False))
        ranges = measured_on(model, feeds)
        made = to_half(model, ranges, keep=keep, io_dtype=io_dtype)  # type: ignore[arg-type]
        onnx.checker.check_model(made.model.to_proto(), full_check=True)
        assert set(pairs(made.model)) <= set(pairs(model)), seed
        given = {k: v.astype(io_dtype) if v.dtype == np.float32 else v for k, v in feeds.items()}
        found = OrtSession(made.model.graph, plain=True).run(given)
        for name, value in expected.items():
            if value.kind == "float32":
                assert found[name].dtype == io_dtype
                back = found[name].astype(np.float32)
                assert not difference(name, value, 0, back, COARSER), seed
