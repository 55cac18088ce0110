"""Which types of data LiteRT's kernels move about: a file that asks for others fails when it runs.

Source: the ``switch`` over types in ``tflite/kernels/*.cc``, held against LiteRT 2.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from converter.ir.refused import Refused
from emitters.tflite.graph import DataType, Tensor

_INTEGERS = frozenset({DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64})
_USUAL = _INTEGERS | {DataType.FLOAT, DataType.UINT8}
_ALL = _USUAL | {DataType.BOOL}

_TAKES: dict[str, tuple[int, frozenset[DataType]]] = {
    "CONCATENATION": (0, _ALL | {DataType.UINT32}),
    "DYNAMIC_UPDATE_SLICE": (0, _INTEGERS | {DataType.FLOAT, DataType.BOOL}),
    "FILL": (1, _INTEGERS | {DataType.FLOAT, DataType.FLOAT16, DataType.BOOL}),
    "GATHER": (0, _ALL),
    "ONE_HOT": (2, _ALL),
    "SPLIT_V": (0, _USUAL),
    "TOPK_V2": (0, _USUAL),
}
"""By operator: which input holds the data, and what types that may have."""


def check(op: str, inputs: Sequence[Tensor | None]) -> None:
    """Looks at an operator that is to be made.

    Raises:
        Refused: Its kernel doesn't take data of this type.
    """
    place, types = _TAKES.get(op, (0, None))
    data = inputs[place] if place < len(inputs) else None
    if types is not None and data is not None and data.dtype not in types:
        name = data.dtype.name.lower()
        raise Refused(f"LiteRT's {op} doesn't take {name}", "cast to a type that it takes")
