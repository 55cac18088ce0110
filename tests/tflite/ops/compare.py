"""One .tflite file, run by LiteRT and, imported, by ONNX Runtime."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from converter.runtime.ort import OrtSession
from parsers.tflite.importer import import_model
from parsers.tflite.model import TfliteModel
from parsers.tflite.reader import read

Array = np.ndarray[Any, Any]
STEPS = {"int8": 1, "uint8": 1, "int16": 8}
"""How many steps apart quantized results may be. The kernels for 16 bits use tables and
multipliers of 16 bits, so that their own error is several of these small steps."""


def both(content: bytes, feeds: Mapping[str, Array]) -> tuple[list[Array], list[Array]]:
    """The outputs by LiteRT, with its own kernels, and by the imported model."""
    litert = Interpreter(
        model_content=content,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    for detail in litert.get_input_details():
        litert.resize_tensor_input(detail["index"], feeds[_plain(detail["name"])].shape)
    litert.allocate_tensors()
    stored = {}
    for detail in litert.get_input_details():
        stored[detail["name"]] = _stored(feeds[_plain(detail["name"])], detail)
        litert.set_tensor(detail["index"], stored[detail["name"]])
    litert.invoke()
    wanted = [litert.get_tensor(item["index"]) for item in litert.get_output_details()]
    session = OrtSession(onnx_ir.from_proto(onnx.load_from_string(imported(read(content, "t")))))
    return wanted, list(session.run(stored).values())


def imported(model: TfliteModel) -> bytes:
    """The main subgraph as an ONNX file that onnx's checker likes."""
    main = model.subgraphs[0]
    inputs = {main.tensors[index].name: index for index in main.inputs}
    outputs = {f"output_{k}": index for k, index in enumerate(main.outputs)}
    proto = onnx_ir.to_proto(import_model(model, 0, inputs, outputs))
    onnx.checker.check_model(proto, full_check=True)
    assert [item.name for item in proto.graph.output] == list(outputs)
    content: bytes = proto.SerializeToString()
    return content


def check(wanted: list[Array], found: list[Array]) -> None:
    """Floats agree to 1e-5 of the largest, quantized ones to their steps, others exactly."""
    assert len(wanted) == len(found)
    for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
        assert (one.shape, one.dtype) == (other.shape, other.dtype), f"output {index}"
        if one.dtype == np.float32:
            limit = 1e-5 * max(1.0, float(np.abs(one).max(initial=0)))
        else:
            limit = STEPS.get(one.dtype.name, 0)
        error = np.abs(one.astype(np.float64) - other.astype(np.float64)).max(initial=0)
        assert error <= limit, f"output {index} is off by {error}, at most {limit} is right"


def _plain(name: str) -> str:
    return name.removeprefix("serving_default_").removesuffix(":0")


def _stored(array: Array, detail: dict[str, Any]) -> Array:
    """What stands for ``array`` in the tensor's type: quantized where it isn't of that type."""
    if array.dtype == detail["dtype"]:
        return array
    scale, zero = detail["quantization"]
    limits = np.iinfo(detail["dtype"])
    return np.clip(np.round(array / scale) + zero, limits.min, limits.max).astype(detail["dtype"])
