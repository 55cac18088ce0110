"""A small model in ONNX Runtime, and samples for it."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx

from converter.runtime.ort import OrtSession
from converter.samples import Sample
from tests.passes.models import ListedSamples, text_model


def classifier(scale: float = 1.0, width: int = 16) -> onnx.ModelProto:
    """``logits = scale * relu(x W1) W2`` for x [batch, width], ten classes."""
    rng = np.random.default_rng(3)
    w1 = rng.normal(0, 1, (width, width)).astype(np.float32)
    w2 = (scale * rng.normal(0, 1, (width, 10))).astype(np.float32)
    text = f"""tiny (float[batch,{width}] x) => (float[batch,10] logits)
        {{ h = MatMul(x, w1)  r = Relu(h)  logits = MatMul(r, w2) }}"""
    return text_model(text, w1=w1, w2=w2).to_proto()


def open_model(folder: Path, model: onnx.ModelProto, threads: int = 1) -> OrtSession:
    """The model in ONNX Runtime, from a file."""
    path = folder / f"model{len(list(folder.iterdir()))}.onnx"
    onnx.save(model, path)
    return OrtSession(path, threads=threads)


def samples(count: int = 12, width: int = 16, labels: Any = None) -> ListedSamples:
    """Normally distributed inputs; ``labels`` one a sample."""
    inputs = np.random.default_rng(5).normal(0, 1, (count, 1, width)).astype(np.float32)
    given = labels or [None] * count
    return ListedSamples([Sample(f"sample-{i}", {"x": inputs[i]}, given[i]) for i in range(count)])
