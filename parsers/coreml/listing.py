"""What a Core ML file holds, in its own terms: operations or layers, types, sizes, quantization."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from converter.ir.listing import Listing
from parsers.coreml.opened import PROGRAM, SMALL, Opened, words

_TYPES = {
    1: ("bool", 8), 2: ("string", 0),
    10: ("float16", 16), 11: ("float32", 32), 12: ("float64", 64), 13: ("bfloat16", 16),
    21: ("int8", 8), 22: ("int16", 16), 23: ("int32", 32), 24: ("int64", 64), 25: ("int4", 4),
    31: ("uint8", 8), 32: ("uint16", 16), 33: ("uint32", 32), 34: ("uint64", 64),
    35: ("uint4", 4), 36: ("uint2", 2), 37: ("uint1", 1), 38: ("uint6", 6), 39: ("uint3", 3),
}  # fmt: skip
"""A tensor's types by their number (``MIL.proto``): name, and bits of an element."""

_QUANTIZING = ("quantize", "dequantize")
_COMPRESSED = "constexpr_"
"""What operations that unpack weights are called."""


def listing(opened: Opened, function: str | None) -> Listing:
    """What is in an open file; of a program's functions, the one that is converted."""
    if opened.stages:
        return _of_stages(opened)
    described = opened.description(function)
    inputs = [_feature(item) for item in described.input]
    outputs = [_feature(item) for item in described.output]
    version = f"specification {opened.spec.specificationVersion}"
    if opened.kind != PROGRAM:
        layers = Counter(layer.WhichOneof("layer") for layer in opened.network.layers)
        parameters, stored = _network_weights(opened.network)
        op_types = {name: {"": count} for name, count in layers.most_common()}
        form = f"Core ML neural network, {version}"
        return Listing(form, inputs, outputs, op_types, parameters, stored)
    program = opened.spec.mlProgram.functions[function or opened.function(None)]
    operations = list(_operations(program.block_specializations[program.opset]))
    parameters, stored = _program_weights(operations)
    return Listing(
        f"Core ML ML Program of {program.opset}, {version}",
        inputs,
        outputs,
        _op_types(operations),
        parameters,
        stored,
        _quantization(operations),
    )


def _of_stages(opened: Opened) -> Listing:
    """Of a pipeline, all its models together; those that are no graphs by their kind."""
    told = opened.spec.description
    op_types: dict[str, Counter[str]] = {}
    parameters, stored, quantization = 0, Counter[str](), Counter[str]()
    for stage in opened.stages:
        if stage.kind in SMALL:
            op_types.setdefault(stage.kind, Counter())[""] += 1
            continue
        own = listing(stage, None)
        parameters += own.parameters
        stored.update(own.stored)
        quantization.update(own.quantization)
        for name, types in own.op_types.items():
            op_types.setdefault(name, Counter()).update(types)
    what = f"pipeline of {len(opened.stages)} models"
    if opened.kind in SMALL:
        what = words(opened.kind)
    return Listing(
        f"Core ML {what}, specification {opened.spec.specificationVersion}",
        [_feature(item) for item in told.input],
        [_feature(item) for item in told.output],
        {name: dict(types) for name, types in op_types.items()},
        parameters,
        dict(stored.most_common()),
        dict(quantization.most_common()),
    )


def _operations(block: Any) -> Iterator[Any]:
    """The operations of a block and of those within it."""
    for operation in block.operations:
        yield operation
        for inner in operation.blocks:
            yield from _operations(inner)


def _op_types(operations: Iterable[Any]) -> dict[str, dict[str, int]]:
    """By operation, how many give which type; constants are weights, not operations."""
    found: dict[str, Counter[str]] = {}
    for operation in operations:
        if operation.type != "const":
            kind = _type(operation.outputs[0].type)[0] if operation.outputs else ""
            found.setdefault(operation.type, Counter())[kind] += 1
    order = sorted(found.items(), key=lambda item: -item[1].total())
    return {name: dict(types.most_common()) for name, types in order}


def _quantization(operations: Iterable[Any]) -> dict[str, int]:
    """How many operations quantize, dequantize or unpack weights, by what they are."""
    names = Counter(op.type for op in operations if op.type in _QUANTIZING
                    or op.type.startswith(_COMPRESSED))  # fmt: skip
    return dict(names.most_common())


def _program_weights(operations: list[Any]) -> tuple[int, Mapping[str, int]]:
    """How many numbers the weights hold as they enter a computation, and their stored bytes.

    What unpacks weights counts by what it gives, and what it is given doesn't; nor do scales.
    """
    packing = {name for op in operations for name in _given(op) if _packs(op)}
    integers = {
        name for op in operations if op.type == "dequantize" for name in _given(op, "input")
    }
    parameters, stored = 0, Counter[str]()
    for op in operations:
        for value in _held(op):
            kind, bits, size = _type(value.type)
            if size > 1:
                stored[kind] += math.ceil(bits * size / 8)
        output = op.outputs[0] if op.outputs else None
        if output is None:
            continue
        kind, _, size = _type(output.type)
        weight = op.type.startswith(_COMPRESSED) or (
            op.type == "const"
            and (output.name in integers or (output.name not in packing and "float" in kind))
        )
        if weight and size > 1 and output.name not in packing - integers:
            parameters += size
    return parameters, dict(stored.most_common())


def _packs(operation: Any) -> bool:
    return operation.type.startswith(_COMPRESSED) or operation.type in _QUANTIZING


def _given(operation: Any, parameter: str | None = None) -> Iterator[str]:
    """The names of the values that an operation is given."""
    for key, argument in operation.inputs.items():
        if parameter in (None, key):
            yield from (item.name for item in argument.arguments if item.name)


def _held(operation: Any) -> Iterator[Any]:
    """The constants that stand in an operation itself."""
    yield from operation.attributes.values()
    for argument in operation.inputs.values():
        yield from (item.value for item in argument.arguments if not item.name)


def _type(message: Any) -> tuple[str, int, int]:
    """A type's name, the bits of an element, and how many elements: 0 where a size is free."""
    if message.WhichOneof("type") != "tensorType":
        return str(message.WhichOneof("type")), 0, 0
    tensor = message.tensorType
    name, bits = _TYPES.get(tensor.dataType, (f"type {tensor.dataType}", 0))
    sizes = [int(d.constant.size) if d.HasField("constant") else 0 for d in tensor.dimensions]
    return name, bits, math.prod(sizes)


def _network_weights(message: Any) -> tuple[int, Mapping[str, int]]:
    """How many numbers a network's ``WeightParams`` hold, and their bytes by type."""
    parameters, stored = 0, Counter[str]()
    for weights in _weight_params(message):
        bits = int(weights.quantization.numberOfBits)
        if weights.floatValue:
            parameters += len(weights.floatValue)
            stored["float32"] += 4 * len(weights.floatValue)
        elif weights.float16Value:
            parameters += len(weights.float16Value) // 2
            stored["float16"] += len(weights.float16Value)
        elif weights.rawValue and bits:
            parameters += len(weights.rawValue) * 8 // bits
            stored[f"uint{bits}"] += len(weights.rawValue)
        elif weights.int8RawValue:
            parameters += len(weights.int8RawValue)
            stored["int8"] += len(weights.int8RawValue)
    return parameters, dict(stored.most_common())


def _weight_params(message: Any) -> Iterator[Any]:
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for item in value if field.is_repeated else [value]:
            if field.message_type.name == "WeightParams":
                yield item
            else:
                yield from _weight_params(item)


def _feature(feature: Any) -> dict[str, Any]:
    """An input or output as its description has it."""
    kind = feature.type.WhichOneof("Type") or "nothing"
    message: Any = getattr(feature.type, kind, None)
    if kind == "multiArrayType":
        names = {number: name for name, number in type(message).ArrayDataType.items()}
        dtype = names.get(message.dataType, "?").lower().replace("double", "float64")
        return {"name": feature.name, "dtype": dtype, "shape": list(message.shape)}
    if kind == "imageType":
        return {"name": feature.name, "dtype": "image", "shape": [message.height, message.width]}
    return {"name": feature.name, "dtype": kind.removesuffix("Type"), "shape": []}
