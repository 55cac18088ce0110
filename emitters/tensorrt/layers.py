"""What an engine computes in: share of layers and of multiply-adds by type.

Without a GPU an engine can't be opened, and what is known is what its network asked for: that is
called *requested*. On a GPU the engine's own inspector is asked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from converter.errors import ModelError
from emitters.tensorrt.child_network import MATRIX_LAYERS

WANTED = {"fp16": "float16", "bf16": "bfloat16", "int8": "int8"}
"""The type that a precision is about."""

_NODE = re.compile(r"\[ONNX Layer: ([^\]]*)\]")
_FORMATS = (
    (r"int8", "int8"),
    (r"fp8", "float8"),
    (r"bf16|bfloat16", "bfloat16"),
    (r"half|fp16", "float16"),
    (r"float|fp32", "float32"),
)
"""How the inspector's ``Format/Datatype`` names a type, the narrowest first."""


def requested(layers: Sequence[Mapping[str, Any]], macs: Mapping[str, int]) -> dict[str, Any]:
    """The shares of a network's types.

    Args:
        layers: As :func:`.child_network.describe` gives them.
        macs: Multiply-adds of the ONNX nodes, by name.

    Returns:
        For each type: ``layers``, how many of the matrix layers (of all, where there are none)
        compute in it; ``macs``, its share of the multiply-adds of nodes that have such a layer.
    """
    return _shares(matrix_layers(layers) or layers, macs)


def matrix_layers(layers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those of a network's layers that hold nearly all arithmetic."""
    return [layer for layer in layers if layer["kind"] in MATRIX_LAYERS]


def built(engine: Sequence[Any], macs: Mapping[str, int]) -> dict[str, Any]:
    """The same of an engine's inspected layers; empty where it tells no types."""
    known = [layer for item in engine if isinstance(item, dict) and (layer := engine_layer(item))]
    heavy = [layer for layer in known if any(node in macs for node in layer["nodes"])]
    return _shares(heavy or known, macs)


def engine_layer(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """Name, ONNX nodes, type, tactic of a layer as the inspector tells it.

    Its type is the narrowest of its inputs': a convolution that is fed int8 computes in int8,
    whatever it writes.
    """
    types = [found for tensor in item.get("Inputs", ()) if (found := _type_of(tensor))]
    if not types:
        return None
    order = [name for _, name in _FORMATS]
    return {
        "name": item.get("Name", ""),
        "kind": item.get("LayerType", ""),
        "nodes": _NODE.findall(str(item.get("Metadata", ""))),
        "type": min(types, key=order.index),
        "tactic": item.get("TacticName") or str(item.get("TacticValue", "")),
    }


def _type_of(tensor: Any) -> str:
    text = str(tensor.get("Format/Datatype", "")) if isinstance(tensor, dict) else ""
    return next((name for pattern, name in _FORMATS if re.search(pattern, text, re.I)), "")


def _shares(layers: Iterable[Mapping[str, Any]], macs: Mapping[str, int]) -> dict[str, Any]:
    layers = list(layers)
    holders = Counter(node for layer in layers for node in layer["nodes"] if node in macs)
    counts: Counter[str] = Counter(layer["type"] for layer in layers)
    work: Counter[str] = Counter()
    for layer in layers:
        for node in layer["nodes"]:
            if node in macs:
                work[layer["type"]] += macs[node] / holders[node]  # type: ignore[assignment]
    total = sum(work.values())
    return {
        name: {"layers": count, "macs": round(work[name] / total, 4) if total else None}
        for name, count in counts.most_common()
    }


def lowers(precision: str, shares: Mapping[str, Any]) -> bool:
    """Whether anything computes in a precision's type: fp16's float16, int8's int8.

    Args:
        precision: ``fp32``, ``fp16``...
        shares: As :func:`requested` or :func:`built` gives them.
    """
    found = shares.get(WANTED.get(precision, ""), {"layers": 0, "macs": 0.0})
    return bool(found["layers"]) and found["macs"] != 0.0


def require_as_requested(precision: str, asked: Mapping[str, Any], made: Mapping[str, Any]) -> None:
    """Refuses an engine in which nothing computes in what its network asked for.

    Args:
        precision: ``fp32``, ``fp16``...
        asked: The network's shares.
        made: The engine's; where empty, its inspector tells no types.

    Raises:
        ModelError: Nothing of it does.
    """
    if not made or not lowers(precision, asked) or lowers(precision, made):
        return
    raise ModelError(
        f"the network asks for {WANTED[precision]}, but nothing in the engine computes in it",
        code="precision-unavailable",
        details=[f"{name}: {item['layers']} layers" for name, item in made.items()],
        hint="Ask for fp32, or read what the builder says about the layers in build.log.",
    )


def in_words(shares: Mapping[str, Any], called: str) -> str:
    """``requested precision: 96.1% of the multiply-adds int8 (52 layers), 3.9% float32 (2)``."""
    parts = [
        f"{item['macs']:.1%} of the multiply-adds {name} ({item['layers']} layers)"
        if item["macs"] is not None
        else f"{item['layers']} layers {name}"
        for name, item in shares.items()
    ]
    return f"{called}: {', '.join(parts)}"


def unfused(engine: Sequence[Any]) -> list[str]:
    """Names of quantizing layers that are left in an engine by themselves: they did not fuse."""
    names = []
    for item in engine:
        if isinstance(item, dict):
            kind = f"{item.get('LayerType', '')} {item.get('ParameterType', '')}".lower()
            if "quantize" in kind or kind.split()[:1] == ["scale"]:
                names.append(str(item.get("Name", "")))
    return names
