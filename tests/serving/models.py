"""Small ONNX models and in-memory samples to package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
from onnx import ModelProto, NodeProto, TensorProto, helper

from converter.ir import IR_VERSION, OPSET, Model
from converter.plugins import Artifact, Packaged
from converter.request import Request
from converter.samples import Sample, Samples
from emitters.onnx import OnnxEmitter
from emitters.serving.triton import TritonServer

Shape = Sequence[int | str]
Tensors = Mapping[str, tuple[int, Shape]]
Array = np.ndarray[Any, Any]

BATCH_3 = ("batch", 3)


class MemorySamples(Samples):
    """Samples from a list of feeds."""

    def __init__(
        self,
        feeds: Sequence[Mapping[str, Array]] = (),
        label_names: tuple[str, ...] | None = None,
    ) -> None:
        self.origin = "memory"
        self.digest = "0" * 64
        self.label_names = label_names
        self._feeds = [dict(item) for item in feeds]

    def __len__(self) -> int:
        return len(self._feeds)

    def __iter__(self) -> Iterator[Sample]:
        for number, feeds in enumerate(self._feeds):
            yield Sample(f"sample-{number}", feeds)


def make_proto(
    nodes: Sequence[NodeProto],
    inputs: Tensors,
    outputs: Tensors,
    initializers: Sequence[TensorProto] = (),
) -> ModelProto:
    """ONNX's model of nodes and the element types and shapes of its tensors."""
    ends = (
        [helper.make_tensor_value_info(name, *tensor) for name, tensor in tensors.items()]
        for tensors in (inputs, outputs)
    )
    graph = helper.make_graph(nodes, "tiny", *ends, list(initializers))
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def make_model(*parts: Any) -> Model:
    """A Model of what ``make_proto`` takes."""
    return Model.wrap(onnx_ir.from_proto(make_proto(*parts)))


def adder(
    shape: Shape = BATCH_3, kind: int = TensorProto.FLOAT, name: str = "x", out: str = "y"
) -> Model:
    """``y = x + x``."""
    node = helper.make_node("Add", [name, name], [out])
    return make_model([node], {name: (kind, shape)}, {out: (kind, shape)})


def identity(kind: int, shape: Shape = BATCH_3) -> Model:
    """``y = x``, of any type."""
    node = helper.make_node("Identity", ["x"], ["y"])
    return make_model([node], {"x": (kind, shape)}, {"y": (kind, shape)})


def classifier(classes: int = 4) -> Model:
    """Scores of ``classes`` classes from three numbers, each another sum of them."""
    weight = np.arange(3 * classes, dtype=np.float32).reshape(3, classes)
    return make_model(
        [helper.make_node("MatMul", ["x", "w"], ["scores"])],
        {"x": (TensorProto.FLOAT, BATCH_3)},
        {"scores": (TensorProto.FLOAT, ("batch", classes))},
        [helper.make_tensor("w", TensorProto.FLOAT, [3, classes], weight.ravel())],
    )


def samples_for(model: Model, count: int = 2, free: int = 5) -> MemorySamples:
    """Random samples that fit the model: batches of one, other free dimensions ``free``."""
    rng = np.random.default_rng(7)
    feeds: list[dict[str, Array]] = []
    for _ in range(count):
        feed: dict[str, Array] = {}
        for spec in model.inputs:
            sizes = {dim: free for dim in spec.shape or () if isinstance(dim, str)}
            shape = spec.sized({**sizes, "batch": 1})
            feed[spec.name] = random_array(rng, spec.dtype, shape)
        feeds.append(feed)
    return MemorySamples(feeds)


def random_array(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> Array:
    """Values that every type of the name can hold."""
    values = rng.integers(0, 9, tuple(shape))
    if dtype == "string":
        texts = [f"w\N{LATIN SMALL LETTER O WITH DIAERESIS}rd {value}" for value in values.flat]
        return np.array(texts, object).reshape(values.shape)
    if dtype == "bool":
        return np.asarray(values > 4)
    return np.asarray(values / (2 if dtype.startswith("float") else 1)).astype(dtype)


def make_request(name: str = "tiny", **fields: Any) -> Request:
    """A request for a model called ``name``."""
    return Request(source="tiny.onnx", name=name, **fields)


def emit(model: Model, folder: Path, request: Request | None = None) -> Artifact:
    """The model as an ONNX artifact under ``folder``."""
    return OnnxEmitter().emit(model, folder / "onnx" / "fp32", "fp32", request or make_request())


def package(
    model: Model,
    folder: Path,
    samples: Samples | None = None,
    *,
    name: str = "tiny",
    **fields: Any,
) -> Packaged:
    """The model as a Triton folder, ``<folder>/repository/<name>``."""
    request = make_request(name, **fields)
    artifact = emit(model, folder / f"artifact-{name}", request)
    chosen = samples_for(model) if samples is None else samples
    return TritonServer().package(artifact, model, chosen, request, folder / "repository")
