"""A TFLite model as it is in its file, in plain structures that don't know flatbuffers.

Source of the format: ``tflite.fbs`` (schema version 3), whose generated classes come with
ai-edge-litert.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Quantization:
    """How integers stand for real numbers: ``real = (stored - zero_point) * scale``.

    Attributes:
        scale: float32, one value, or one for each slice along ``axis``.
        zero_point: int64, as many as ``scale``.
        axis: The dimension that has a scale of its own for each index; None for one scale.
    """

    scale: Array
    zero_point: Array
    axis: int | None = None


@dataclass
class Tensor:
    """One tensor of a subgraph.

    Attributes:
        index: Its number in the subgraph.
        name: As in the file; neither unique nor always there.
        dtype: ``float32``, ``int8``, ``int4``, ``bool``, ``string``, ``resource``...
        shape: Sizes; -1 where the file's shape signature leaves one free.
        data: Its constant value, dense (sparse weights are unpacked), stored type; None for
            what is computed. int4 and int2 are unpacked to int8, uint4 too; bfloat16 is
            ml_dtypes', strings are an object array of bytes.
        quantization: None for a tensor whose numbers are what they say.
        is_variable: Whether it keeps its value between runs.
    """

    index: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    data: Array | None = None
    quantization: Quantization | None = None
    is_variable: bool = False


@dataclass
class Operator:
    """One operator of a subgraph.

    Attributes:
        index: Its number in the subgraph.
        name: The schema's name of the builtin (``CONV_2D``), or the custom operator's own.
        custom: Whether it is a custom operator.
        version: Of the operator.
        inputs: Tensor numbers; -1 for an optional one that is left out.
        outputs: Tensor numbers.
        options: The schema's options object (``Conv2DOptionsT``), or None.
        custom_options: A custom operator's bytes.
    """

    index: int
    name: str
    custom: bool
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any = None
    custom_options: bytes = b""


@dataclass
class Subgraph:
    """One graph: the main one, or what an IF, a WHILE or a CALL_ONCE runs."""

    index: int
    name: str
    tensors: list[Tensor]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: list[Operator]


@dataclass
class Signature:
    """A named entry: the user's names for a subgraph's inputs and outputs, in order."""

    key: str
    subgraph: int
    inputs: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)


@dataclass
class TfliteModel:
    subgraphs: list[Subgraph]
    signatures: list[Signature] = field(default_factory=list)
    description: str = ""
