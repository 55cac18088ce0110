"""Small models, samples and feeds for the tests of passes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir

from converter.ir.model import IR_VERSION, OPSET, Model
from converter.runtime.ort import OrtSession
from converter.samples import Sample, Samples

Array = np.ndarray[Any, Any]

HEADER = f'<ir_version: {IR_VERSION}, opset_import: ["" : {OPSET}]>'


def text_model(text: str, **weights: Array) -> Model:
    """A model from onnx's text format, without its header; inner shapes inferred.

    Args:
        text: The model.
        weights: Its initializers, whether or not the text has them as inputs.
    """
    proto = onnx.parser.parse_model(HEADER + text)
    inputs = [value for value in proto.graph.input if value.name not in weights]
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    tensors = [
        onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()
    ]
    proto.graph.initializer.extend(tensors)
    model = Model(onnx_ir.from_proto(onnx.shape_inference.infer_shapes(proto)))
    for name, array in weights.items():  # arrays, as a conversion has them: not the protobuf's
        tensor = onnx_ir.Tensor(np.asarray(array), name=name)
        model.graph.graph.initializers[name].const_value = tensor
    return model


def ops(model: Model) -> Counter[str]:
    """How many nodes of each operator there are, subgraphs and functions included."""
    return Counter(node.op_type for node in model.nodes())


def run(model: Model, feeds: Mapping[str, Array]) -> dict[str, Any]:
    """The model's outputs, as it is written."""
    return OrtSession(model.graph, plain=True).run(feeds)


def noise(model: Model, seed: int = 0, **sizes: int) -> dict[str, Array]:
    """Seeded normal floats and small non-negative integers for each input; symbols are 2."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for spec in model.inputs:
        shape = tuple(sizes.get(d, 2) if isinstance(d, str) else d for d in spec.shape or ())
        values = rng.standard_normal(shape) if spec.is_float else rng.integers(0, 2, shape)
        feeds[spec.name] = np.asarray(values).astype(spec.dtype)
    return feeds


class ListedSamples(Samples):
    """Samples from a list, of feeds alone or whole."""

    origin, digest, random = "list", "", False

    def __init__(self, items: Sequence[dict[str, Array] | Sample]) -> None:
        self._samples = [
            item if isinstance(item, Sample) else Sample(f"s{i}", item)
            for i, item in enumerate(items)
        ]

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples)
