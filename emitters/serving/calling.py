"""Whether a TorchScript file can be called by names: servers give it tensors, and want tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from converter.errors import Unsupported
from converter.ir.model import Model

_TENSOR, _TUPLE = "Tensor", re.compile(r"Tuple\[Tensor(, Tensor)*\]|\(Tensor(, Tensor)*\)")


def call_problems(model: Model, server: str) -> Iterator[Unsupported]:
    """What forward takes besides tensors, or gives besides a tensor or a tuple of them."""
    file = model.source["file"]
    remedy = "serve the ONNX file: --to onnx"
    if file["problem"]:
        yield Unsupported("forward", "arguments", file["problem"], remedy)
    gives = file["returns"]
    if gives != _TENSOR and not _TUPLE.fullmatch(gives):
        why = f"it gives {gives}, and {server} takes a tensor or a tuple of tensors"
        yield Unsupported("forward", "outputs", why, remedy)
    elif gives.count(_TENSOR) != len(model.outputs):
        why = f"it gives {gives}, and the model has {len(model.outputs)} outputs"
        yield Unsupported("forward", "outputs", why, remedy)
