"""Small ONNX models of text, and in-memory samples to package."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
from onnx import ModelProto, numpy_helper, parser

from converter.ir.model import IR_VERSION, OPSET, Model
from converter.options import recipe
from converter.options.request import Request
from converter.protocols.emitter import Artifact
from converter.protocols.server import Packaged
from converter.samples import Samples
from emitters.onnx.emitter import OnnxEmitter
from emitters.serving.triton.server import TritonServer
from tests.passes.models import ListedSamples

Shape = Sequence[int | str]
Array = np.ndarray[Any, Any]

BATCH_3 = ("batch", 3)


class MemorySamples(ListedSamples):
    """Samples from a list of feeds."""

    origin, digest = "memory", "0" * 64

    def __init__(self, feeds: Sequence[Mapping[str, Array]] = (),
                 label_names: tuple[str, ...] | None = None) -> None:  # fmt: skip
        super().__init__([dict(item) for item in feeds])
        self.label_names = label_names


def text_proto(text: str, **weights: Array) -> ModelProto:
    """ONNX's model of its text form without the header, as it says it; every node has a name."""
    others = [name for name in ("com.example", "com.microsoft") if f"{name}." in text]
    opsets = "".join(f', "{name}" : 1' for name in others)
    header = f'<ir_version: {IR_VERSION}, opset_import: ["" : {OPSET}{opsets}]>'
    proto = parser.parse_model(f"{header} {text}")
    for index, node in enumerate(proto.graph.node):
        node.name = node.name or f"{node.op_type}_{index}"
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    proto.graph.initializer.extend(tensors)
    return proto


def text_model(text: str, **weights: Array) -> Model:
    """The same as a Model."""
    return Model.wrap(onnx_ir.from_proto(text_proto(text, **weights)))


def of_one(node: str, shape: Shape = BATCH_3, kind: str = "float") -> str:
    """The text of a model of a node that makes ``y`` of ``x``, both of that type and shape."""
    tensor = f"{kind}[{', '.join(map(str, shape))}]" if shape else kind
    return f"tiny ({tensor} x) => ({tensor} y) {{ y = {node} }}"


def adder(shape: Shape = BATCH_3) -> Model:
    """``y = x + x``."""
    return text_model(of_one("Add(x, x)", shape))


def identity(kind: str, shape: Shape = BATCH_3) -> Model:
    """``y = x``, of any type."""
    return text_model(of_one("Identity(x)", shape, kind))


def classifier(classes: int = 4, sign: int = 1) -> Model:
    """Scores of ``classes`` classes from three numbers, each another sum of them."""
    weight = sign * np.arange(3 * classes, dtype=np.float32).reshape(3, classes)
    ends = f"tiny (float[batch, 3] x) => (float[batch, {classes}] scores)"
    return text_model(f"{ends} {{ scores = MatMul(x, w) }}", w=weight)


def samples_for(model: Model, count: int = 2, free: int = 5) -> MemorySamples:
    """Random samples that fit the model: batches of one, other free dimensions ``free``."""
    rng = np.random.default_rng(7)
    feeds: list[dict[str, Array]] = []
    for _ in range(count):
        feed: dict[str, Array] = {}
        for spec in model.inputs:
            sizes = {dim: free for dim in spec.shape or () if isinstance(dim, str)}
            feed[spec.name] = random_array(rng, spec.dtype, spec.sized({**sizes, "batch": 1}))
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
    return recipe.make_request({"source": "tiny.onnx", "name": name, **fields})


def emit(model: Model, folder: Path, request: Request | None = None) -> Artifact:
    """The model as an ONNX artifact under ``folder``."""
    return OnnxEmitter().emit(model, folder / "onnx" / "fp32", "fp32", request or make_request())


def package(model: Model, folder: Path, samples: Samples | None = None, *, name: str = "tiny",
            **fields: Any) -> Packaged:  # fmt: skip
    """The model as a Triton folder, ``<folder>/repository/<name>``."""
    request = make_request(name, **fields)
    artifact = emit(model, folder / f"artifact-{name}", request)
    chosen = samples_for(model) if samples is None else samples
    return TritonServer().package(artifact, model, chosen, request, folder / "repository")
