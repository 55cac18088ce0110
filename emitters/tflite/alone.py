"""A file in LiteRT and nothing else: memory, and time by operator and by layer.

XNNPACK tells its own operators, in the order of those of the file that it was given: what it made
of one goes to that one's layer. What corresponds to none (a reshape before a product, say) goes to
the layer that its neighbours have in common, and to none where these differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from converter import plugins
from converter.options.request import Request
from converter.runtime.alone import Alone
from converter.runtime.layers import filled, layer_of, tidied
from converter.runtime.session import OperatorTime
from emitters.tflite.session import signature_of

_ARENA = (
    "LiteRT's own tensors; those within XNNPACK aren't among them, and LiteRT's Python doesn't "
    "tell how much they take"
)

_RESHAPES = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")

KINDS: dict[str, tuple[str, ...]] = {
    "Convolution": ("CONV_2D", "DEPTHWISE_CONV_2D"),
    "Fully Connected": ("FULLY_CONNECTED", "CONV_2D"),
    "Dynamic Fully Connected": ("FULLY_CONNECTED", "BATCH_MATMUL"),
    "Batch Matrix Multiply": ("BATCH_MATMUL",),
    "Deconvolution": ("TRANSPOSE_CONV",),
    "Static Reshape": _RESHAPES,
    "Copy": _RESHAPES,
    "Clamp": ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"),
    "Multiply": ("MUL",),
    "Subtract": ("SUB",),
    "Divide": ("DIV",),
    "Sigmoid": ("LOGISTIC",),
    "Max Pooling": ("MAX_POOL_2D",),
    "Average Pooling": ("AVERAGE_POOL_2D", "MEAN"),
    "Global Average Pooling": ("MEAN", "AVERAGE_POOL_2D"),
    "Constant Pad": ("PAD", "PADV2"),
    "Concatenate": ("CONCATENATION",),
    "Slice": ("SLICE", "STRIDED_SLICE"),
    "Convert": ("QUANTIZE", "DEQUANTIZE", "CAST"),
    "Square Root": ("SQRT",),
    "Reciprocal Square Root": ("RSQRT",),
    "Negate": ("NEG",),
    "Ceiling": ("CEIL",),
    "HardSwish": ("HARD_SWISH",),
}
"""What XNNPACK calls an operator (``xnn_operator_type_to_string``), and which of the file's it is
made of; others are called alike."""


def alone(path: Path, request: Request) -> Alone:
    """How a file is run in a process of its own."""
    signature = signature_of(path)
    numbers = {f"{kind}s": signature[f"{kind}_numbers"] for kind in ("input", "output")}
    framework = plugins.spec("parsers", "tflite").framework
    outputs = frozenset(spec.name for spec in signature["outputs"])
    return Alone(
        framework, path, {"threads": request.threads}, "ai-edge-litert", _ARENA,
        lambda found: joined(found, outputs, ours=signature["ours"]), numbers,
    )  # fmt: skip


def joined(found: Mapping[str, Any], borders: frozenset[str], *, ours: bool) -> list[OperatorTime]:
    """Operators as they ran, with their layers.

    In a file of ours, what a node of the source was lowered to has its name, and numbers behind it.
    The user's names of the file's outputs tell no layer: what such an operator takes does.

    Args:
        found: What the profiler told, and the file's operators.
        borders: Names of the file's outputs.
        ours: Whether we wrote it.
    """
    operators, events = found["operators"], found["events"]
    names = set(found["tensors"]) if ours else set()
    layers = {
        item["index"]: _of_weights(item["inputs"])
        if item["name"] in borders
        else layer_of(tidied(item["name"], names))
        for item in operators
    }
    taken = [item for item in operators if item["delegated"]]
    ran = [at for at, event in enumerate(events) if event[2] and not event[4]]
    pairs = dict(_aligned([_kind(events[at][0]) for at in ran], taken, _is_of))
    matched = {ran[at]: taken[other]["index"] for at, other in pairs.items()}
    matched |= {at: event[1] for at, event in enumerate(events) if not (event[2] or event[4])}
    made = []
    for at, (tag, _, delegated, us, _) in enumerate(events):
        layer = layers.get(matched[at]) if at in matched else None
        place = "XNNPACK" if delegated else "LiteRT"
        made.append(OperatorTime(tag, _kind(tag), place, us, layer or "", layer is not None))
    return filled(made, ("Clamp",))  # an activation in the operator before


def _of_weights(names: Sequence[str]) -> str | None:
    """The layer whose weights an operator takes; None where none of their names tells."""
    found = (name.rpartition(".") for name in names)
    return next((layer for layer, _, kind in found if kind in ("weight", "bias")), None)


def _kind(tag: str) -> str:
    return re.split(r" \(", tag)[0]


def _is_of(kind: str, operator: Mapping[str, Any]) -> bool:
    alike = kind.upper().replace(" ", "_").replace("-", "_")
    return operator["op"] in KINDS.get(kind, (alike,))


def _aligned(
    left: Sequence[str],
    right: Sequence[Mapping[str, Any]],
    same: Callable[[str, Mapping[str, Any]], bool],
) -> list[tuple[int, int]]:
    """The longest common subsequence of both, as pairs of places."""
    lengths = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in reversed(range(len(left))):
        for j in reversed(range(len(right))):
            lengths[i][j] = (
                lengths[i + 1][j + 1] + 1
                if same(left[i], right[j])
                else max(lengths[i + 1][j], lengths[i][j + 1])
            )
    pairs, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if same(left[i], right[j]):
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs
