"""A quantizer for tests of the search: weights of matrix products rounded to a few levels."""

from collections.abc import Collection

import numpy as np
import onnx_ir

from converter.analysis.macs import macs_by_node
from converter.ir.model import Model
from converter.precision.budget.sensitivity import Quantize
from converter.precision.quantized import Kept, Quantized
from tests.passes.models import ListedSamples, text_model

LAYERS, WIDTH = 8, 24
WIDE = 3
"""The layer whose matrix is four times as wide as the others', as is the one after it."""

OUTLIERS = {"fc2", "fc5"}
"""Layers with one large weight, which leaves the others few levels."""


def chain() -> Model:
    """Eight matrix products with Tanh between them."""
    rng = np.random.default_rng(5)
    sizes = [WIDTH] * (LAYERS + 1)
    sizes[WIDE + 1] = 4 * WIDTH
    nodes, weights = [], {}
    for i in range(LAYERS):
        weight = rng.standard_normal((sizes[i], sizes[i + 1])) / np.sqrt(sizes[i])
        if f"fc{i}" in OUTLIERS:
            weight[0, 0] = 25.0
        weights[f"w{i}"] = weight.astype(np.float32)
        source, result = f"t{i - 1}" if i else "x", f"t{i}" if i < LAYERS - 1 else "y"
        nodes.append(f"[fc{i}] m{i} = MatMul({source}, w{i}) [tanh{i}] {result} = Tanh(m{i})")
    return text_model(
        f"chain (float[batch,{WIDTH}] x) => (float[batch,{WIDTH}] y) {{ {' '.join(nodes)} }}",
        **weights,
    )


def noises(count: int = 12) -> ListedSamples:
    """Seeded inputs of the chain."""
    rng = np.random.default_rng(6)
    return ListedSamples(
        [{"x": rng.standard_normal((1, WIDTH)).astype(np.float32)} for _ in range(count)]
    )


def rounding(model: Model, levels: int = 127) -> Quantize:
    """Rounds constant weights of MatMul and Conv to ``levels`` values, one scale a tensor."""
    macs = macs_by_node(model, dict.fromkeys(model.symbols, 1))

    def lower(keep: Collection[str]) -> Quantized:
        made = model.copy()
        done, kept = [], []
        for node in made.graph.graph:
            if node.op_type not in ("MatMul", "Conv"):
                continue
            weight = node.inputs[1]
            assert weight is not None
            if weight.const_value is None:
                continue
            name = node.name or ""
            if name in keep:
                kept.append(Kept(name, node.op_type, "asked for", macs.get(name, 0)))
                continue
            done.append(name)
            array = weight.const_value.numpy()
            scale = np.abs(array).max() / (levels // 2)
            rounded = (np.round(array / scale) * scale).astype(np.float32)
            weight.const_value = onnx_ir.tensor(rounded, name=weight.name)
        done_macs, all_macs = sum(macs.get(name, 0) for name in done), sum(macs.values())
        return Quantized(
            made, "int8", kept=kept, lowered=done, macs=all_macs, macs_lowered=done_macs
        )

    return lower
