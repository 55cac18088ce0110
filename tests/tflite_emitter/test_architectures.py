"""Whole networks, exported by PyTorch as it does today: LiteRT against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
import pytest

from converter import plugins
from converter.ir import Model
from converter.plan import IMPORT_PASSES, SIMPLIFY_PASSES
from tests.tflite_emitter.networks import NETWORKS, Axes
from tests.tflite_emitter.running import Array, agree

torch = pytest.importorskip("torch")

IN_CHILDREN = {"onnxsim", "onnxslim", "ort-basic"}
"""Passes that take seconds, and simplify further: what is left must convert without them, too."""


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_gives_what_it_gave(name: str, tmp_path: Path) -> None:
    if "transformers" in NETWORKS[name].__code__.co_names:
        pytest.importorskip("transformers")
    torch.manual_seed(0)
    module, inputs, axes = NETWORKS[name]()
    _settle(module.eval())
    model = _simplified(_exported(module, inputs, axes))
    for feeds in _of_other_sizes({key: x.numpy() for key, x in inputs.items()}, axes):
        agree(model, feeds, tmp_path, rtol=2e-4, atol=2e-5)


def _settle(module: Any) -> None:
    """Batch norms as if they had been trained."""
    for layer in module.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.running_mean.uniform_(-0.2, 0.2)
            layer.running_var.uniform_(0.6, 1.4)


def _exported(module: Any, inputs: dict[str, Any], axes: Axes) -> onnx_ir.Model:
    free = tuple(dict.fromkeys(axes.get(name, ()), torch.export.Dim.DYNAMIC) for name in inputs)
    program = torch.onnx.export(
        module,
        tuple(inputs.values()),
        dynamo=True,
        opset_version=20,
        input_names=list(inputs),
        dynamic_shapes=((free,) if _takes_any(module) else free) if axes else None,
        verbose=False,
    )
    assert program is not None
    return onnx_ir.from_proto(program.model_proto)


def _takes_any(module: Any) -> bool:
    return "tensors" in module.forward.__code__.co_varnames[:2]


def _simplified(graph: onnx_ir.Model) -> Model:
    model = Model.wrap(graph)
    for name in ("normalize", *IMPORT_PASSES, *SIMPLIFY_PASSES):
        if name not in IN_CHILDREN:
            model.graph = plugins.load("passes", name)(model.graph).model
    return model


def _of_other_sizes(feeds: dict[str, Array], axes: Axes) -> list[dict[str, Array]]:
    """The feeds as they are, and one sample of them, half as long along free axes."""
    if not axes:
        return [feeds]
    smaller = {
        key: x[
            tuple(slice(0, max(1, n // 2) if a in axes[key] else n) for a, n in enumerate(x.shape))
        ]
        for key, x in feeds.items()
    }
    return [feeds, {key: np.ascontiguousarray(x) for key, x in smaller.items()}]
