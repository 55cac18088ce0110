"""Small TFLite files, written by the schema's own classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from modelyard.containers.tflite import pack

Array = np.ndarray[Any, Any]

_TYPES = {"float32": "FLOAT32", "int32": "INT32", "int64": "INT64", "uint8": "UINT8"}
_TYPES |= {"int8": "INT8", "bool": "BOOL", "float16": "FLOAT16"}
_OPTIONS = {"SUM": "Reducer", "L2_POOL_2D": "Pool2D", "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNN"}
_AS_THEY_ARE = ("LSTM", "RNN", "SVDF", "2D")


def _options(name: str) -> str:
    """An operator's class of options in the schema, which may have none."""
    words = [word if word in _AS_THEY_ARE else word.capitalize() for word in name.split("_")]
    return f"{_OPTIONS.get(name, ''.join(words))}Options"


class File:
    """A model being written."""

    def __init__(self) -> None:
        self.model = schema.ModelT()
        self.model.version, self.model.description = 3, "a test"
        for name in ("operatorCodes", "subgraphs", "signatureDefs", "metadata"):
            setattr(self.model, name, [])
        self.model.buffers = [schema.BufferT()]
        self.main: Graph = None  # type: ignore[assignment]  # until it is made

    def graph(self, name: str = "main") -> Graph:
        """A further subgraph; the first is the main one."""
        made = Graph(self, name)
        self.main = self.main or made
        return made

    def signature(self, key: str, graph: Graph, inputs: Mapping[str, int],
                  outputs: Mapping[str, int]) -> None:  # fmt: skip
        """Names a subgraph's inputs and outputs."""
        ends = {"inputs": _maps(inputs), "outputs": _maps(outputs)}
        made = filled(schema.SignatureDefT(), signatureKey=key, subgraphIndex=graph.index, **ends)
        self.model.signatureDefs.append(made)

    def content(self) -> bytes:
        return pack(self.model, "test.tflite")


class Graph:
    """A subgraph being written."""

    def __init__(self, file: File, name: str) -> None:
        self._file = file
        self.index = len(file.model.subgraphs)
        self.raw = schema.SubGraphT()
        self.raw.name = name
        self.raw.tensors, self.raw.operators = [], []
        self.interface()
        file.model.subgraphs.append(self.raw)

    def interface(self, inputs: Sequence[int] = (), outputs: Sequence[int] = ()) -> None:
        self.raw.inputs = np.array(inputs, np.int32)
        self.raw.outputs = np.array(outputs, np.int32)

    def tensor(
        self, name: str, shape: Sequence[int] = (), dtype: str = "FLOAT32", *,
        data: Array | None = None, scale: Sequence[float] = (), zero: Sequence[int] = (),
        axis: int = 0, variable: bool = False, free: Sequence[int] = (),
    ) -> int:  # fmt: skip
        made = schema.TensorT()
        made.name, made.type, made.isVariable = name, getattr(schema.TensorType, dtype), variable
        made.shape = np.array(shape, np.int32)
        made.hasRank = True
        if free:
            made.shapeSignature = np.array(free, np.int32)
        if scale:
            how = made.quantization = schema.QuantizationParametersT()
            how.scale, how.zeroPoint = np.array(scale, np.float32), np.array(zero, np.int64)
            how.quantizedDimension = axis
        if data is not None:
            made.buffer = len(self._file.model.buffers)
            content = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            self._file.model.buffers.append(filled(schema.BufferT(), data=content))
        self.raw.tensors.append(made)
        return len(self.raw.tensors) - 1

    def constant(self, array: Array, **more: Any) -> int:
        name, dtype = f"c{len(self.raw.tensors)}", _TYPES[array.dtype.name]
        return self.tensor(name, array.shape, dtype, data=array, **more)

    def op(self, name: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any) -> None:
        made = schema.OperatorT()
        made.opcodeIndex = self._code(name)
        made.inputs, made.outputs = np.array(inputs, np.int32), np.array(outputs, np.int32)
        kind = _options(name)
        if hasattr(schema.BuiltinOptions, kind):
            made.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
            made.builtinOptions = filled(getattr(schema, f"{kind}T")(), **options)
        self.raw.operators.append(made)

    def _code(self, name: str) -> int:
        codes = self._file.model.operatorCodes
        number = getattr(schema.BuiltinOperator, name)
        known = [code.builtinCode for code in codes]
        if number not in known:
            old = {"deprecatedBuiltinCode": min(number, 127)}
            codes.append(filled(schema.OperatorCodeT(), builtinCode=number, **old))
        return [*known, number].index(number)

    def variable(self, name: str) -> int:
        """A handle of it."""
        handle = self.tensor(f"{name}_handle", (), "RESOURCE")
        self.op("VAR_HANDLE", [], [handle], sharedName=name, container="")
        return handle

    def read(self, handle: int, shape: Sequence[int], name: str = "read") -> int:
        value = self.tensor(name, shape)
        self.op("READ_VARIABLE", [handle], [value])
        return value

    def assign(self, handle: int, value: int) -> None:
        """Has the variable hold ``value``."""
        self.op("ASSIGN_VARIABLE", [handle, value], [])

    def add(self, one: int, other: int, shape: Sequence[int], name: str = "sum") -> int:
        made = self.tensor(name, shape)
        self.op("ADD", [one, other], [made])
        return made


def filled(made: Any, **fields: Any) -> Any:
    """An object of the schema, with these fields."""
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _maps(items: Mapping[str, int]) -> list[Any]:
    return [filled(schema.TensorMapT(), name=n, tensorIndex=index) for n, index in items.items()]


def adder() -> tuple[File, Graph]:
    """``y = x + 1``, both ``[1, 4]``."""
    file = File()
    graph = file.graph()
    x, one = graph.tensor("x", (1, 4)), graph.tensor("one", (4,), data=np.ones(4, np.float32))
    graph.interface([x], [graph.add(x, one, (1, 4), "y")])
    return file, graph


def counter(initial: Sequence[float] = (5.0, 5.0)) -> tuple[File, Graph]:
    """``y = total + x``, and ``y`` is what ``total`` is in the next run."""
    file = File()
    main, init = file.graph(), file.graph("init")
    main.op("CALL_ONCE", [], [], initSubgraphIndex=1)
    x = main.tensor("x", (1, 2))
    handle = main.variable("running/total")
    y = main.add(main.read(handle, (1, 2)), x, (1, 2), "y")
    main.assign(handle, y)
    main.interface([x], [y])
    start = init.tensor("start", (1, 2), data=np.array([initial], np.float32))
    init.assign(init.variable("running/total"), start)
    return file, main
