"""Which operators a delegate leaves to LiteRT's own kernels.

XNNPACK is asked: LiteRT says what it took (``LiteRTSession.runtime``). There is no GPU delegate to
ask here, so its published list is gone by: "TFLite on GPU", ``delegates/gpu/README.md`` in
TensorFlow. That says operators with their versions; shapes, types and limits of a device may take
more away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from emitters.tflite.graph import Operator, TfliteModel
from emitters.tflite.versions import version_of

GPU: dict[str, int] = {
    **dict.fromkeys(
        ("ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "FULLY_CONNECTED", "LOGISTIC",
         "MAXIMUM", "MAX_POOL_2D", "MINIMUM", "MUL", "PAD", "PRELU", "RELU", "RELU6", "RESHAPE",
         "SOFTMAX", "STRIDED_SLICE", "SUB", "TRANSPOSE_CONV"),
        1,
    ),
    "DEPTHWISE_CONV_2D": 2,
    "RESIZE_BILINEAR": 3,
}  # fmt: skip
"""The newest version of each operator on the GPU delegate's list, for floats."""

_FOLDED = frozenset({"DEQUANTIZE"})
"""Of constants: the delegate takes them as part of the operators that they go to."""


def left_by_gpu(model: TfliteModel) -> dict[str, int]:
    """How many of each operator of a model the GPU delegate's list doesn't have; most first.

    All operators of graphs of If and While count: the delegate only sees the main graph.
    """
    main, *others = model.subgraphs
    left = [operator for operator in main.operators if not _on_the_list(operator)]
    left += [operator for graph in others for operator in graph.operators]
    return _counted(operator.op for operator in left)


def _on_the_list(operator: Operator) -> bool:
    first = operator.inputs[0] if operator.inputs else None
    if operator.op in _FOLDED and first is not None and first.is_constant:
        return True
    return version_of(operator) <= GPU.get(operator.op, 0)


def told(model: TfliteModel) -> list[str]:
    """A line for the report."""
    count = sum(len(graph.operators) for graph in model.subgraphs)
    left = left_by_gpu(model)
    if not left:
        return [f"the GPU delegate's published list has all {count} operators"]
    return [
        f"the GPU delegate's published list lacks {sum(left.values())} of {count} operators, "
        f"which stay on the CPU: {listed(left)}"
    ]


def left_by_xnnpack(left: Mapping[str, int], count: int) -> str:
    """What LiteRT says of XNNPACK, for the report."""
    if not left:
        return f"XNNPACK takes all {count} operators"
    return f"XNNPACK leaves {sum(left.values())} of {count} operators: {listed(left)}"


def told_of_all(whole: bool, count: int) -> str:
    """The same of a large file, whose operators LiteRT doesn't list."""
    return left_by_xnnpack({}, count) if whole else f"XNNPACK leaves some of {count} operators"


def listed(counts: Mapping[str, int]) -> str:
    """``3 CAST, 1 CUMSUM``."""
    return ", ".join(f"{number} {name}" for name, number in counts.items())


def _counted(names: Iterable[str]) -> dict[str, int]:
    counts = Counter(names)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
