"""int8-dynamic: int8 weights, activations quantized anew at each run, through ONNX Runtime's tool.

It writes ``DynamicQuantizeLinear`` and ``MatMulInteger``, standard operators that ONNX Runtime has
kernels for. Nothing is measured beforehand, so it needs no samples.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import onnx
import onnx_ir

from converter.errors import ModelError
from converter.ir.macs import macs_by_node
from converter.ir.model import Model
from converter.precision.lowered import Kept, Lowered

OPS = ("MatMul", "Gemm")
"""Convolutions aren't among them: ConvInteger is slower than Conv in float32."""


def quantize_dynamically(
    model: Model, keep: Collection[str] = (), sizes: Mapping[str, int] | None = None
) -> Lowered:
    """The model with its matrix products in integers.

    Args:
        model: At the pipeline's opset, every node named; not changed.
        keep: Names of nodes to leave in float32.
        sizes: Of free dimensions, for counting multiply-adds; 1 for those it lacks.

    Raises:
        ModelError: It has no matrix product with a constant weight.
    """
    wanted = [node for node in model.nodes() if node.op_type in OPS and _has_weight(node)]
    if not wanted:
        raise ModelError(
            "int8-dynamic quantizes matrix products with constant weights, and the model has none",
            hint="Use --precision int8.",
        )
    made = Model.wrap(_quantized(model, keep))
    made.meanings, made.source, made.history = model.meanings, model.source, model.history
    left = {node.name for node in made.nodes() if node.op_type in OPS}
    macs = macs_by_node(model, dict.fromkeys(model.symbols, 1) | dict(sizes or {}))
    lowered = [node.name or "" for node in wanted if node.name not in left]
    kept = [
        Kept(node.name or "", node.op_type, _why(node, keep), macs.get(node.name or "", 0))
        for node in wanted
        if node.name in left
    ]
    return Lowered(
        made,
        "int8-dynamic",
        kept=kept,
        lowered=lowered,
        macs=sum(macs.values()),
        macs_lowered=sum(macs.get(name, 0) for name in lowered),
    )


def _quantized(model: Model, keep: Collection[str]) -> onnx_ir.Model:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory(prefix="modelyard-") as folder, _quiet():
        before, after = Path(folder, "before.onnx"), Path(folder, "after.onnx")
        model.copy().save(before)
        _forget_inner_shapes(before)
        quantize_dynamic(
            before,
            after,
            op_types_to_quantize=list(OPS),
            per_channel=True,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=list(keep),
            extra_options={"MatMulConstBOnly": True},
        )
        found = Model.load(after).graph
        onnx_ir.external_data.load_to_model(found)
    found.metadata_props.clear()
    found.producer_name = model.graph.producer_name
    found.producer_version = model.graph.producer_version
    return found


def _forget_inner_shapes(file: Path) -> None:
    """The tool transposes weights, and then fails on what the file says of their shapes."""
    proto = onnx.load(file, load_external_data=False)
    proto.graph.ClearField("value_info")
    onnx.save(proto, file)


@contextmanager
def _quiet() -> Iterator[None]:
    """Its advice to its own users is none to ours."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _has_weight(node: onnx_ir.Node) -> bool:
    weight = node.inputs[1]
    return weight is not None and weight.const_value is not None


def _why(node: onnx_ir.Node, keep: Collection[str]) -> str:
    return "asked for" if node.name in keep else "the quantizing tool left it"
