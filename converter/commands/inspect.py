"""What a model is made of: its interface, operators, parameters, multiply-adds, precision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir

from converter.analysis.activations import peak_activations
from converter.analysis.macs import node_macs
from converter.ir.listing import Listing, listing_of
from converter.ir.model import Model, spec_dict


@dataclass(frozen=True)
class Inspection:
    """The facts of one model.

    Attributes:
        name: The model's name.
        format: What the file is, or what the model becomes: ``ONNX opset 20, IR 9``.
        source: Where it came from, as far as it says.
        opset: Of an ONNX model; None where the file is of another format.
        domains: Versions of an ONNX model's other operator domains.
        inputs, outputs: Name, dtype and shape of each.
        ops: How many nodes of each of the file's own operators, most frequent first.
        op_types: The same, by the type that they compute in.
        nodes: All nodes, subgraphs included.
        parameters: Numbers in the weights, however they are stored.
        weight_bytes: Bytes of the weights.
        precisions: Share of the weights' bytes by the type that they are stored in.
        quantization: How many tensors or operations stand for real numbers, by type or name.
        macs: Multiply-adds of one inference with every free dimension 1 but those sized, the larger
            branch of an If, and bodies of Loop and Scan once; None where the file couldn't be read
            as a graph.
        macs_unknown: Operators whose multiply-adds couldn't be counted, and how many of each.
        sizes: The sizes that the count was made at.
        activations: Bytes that the tensors of one inference need at once, computed from the graph
            at those sizes; None where a tensor's size isn't known.
        history: The passes that made it, where it is a file of ours.
        unread: Why the file couldn't be read as a graph; empty where it could.
    """

    name: str
    format: str
    source: dict[str, Any]
    opset: int | None
    domains: dict[str, int]
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    ops: dict[str, int]
    op_types: dict[str, dict[str, int]]
    nodes: int
    parameters: int
    weight_bytes: int
    precisions: dict[str, float]
    quantization: dict[str, int]
    macs: int | None = None
    macs_unknown: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    activations: int | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    unread: str = ""


def inspect_model(
    model: Model, name: str, sizes: Mapping[str, int], own: Listing | None = None
) -> Inspection:
    """The facts of ``model``; free dimensions count as ``sizes`` says, else as 1.

    Args:
        model: As it was read.
        name: Its name.
        sizes: Sizes of free dimensions.
        own: What its file holds, where that isn't ONNX.
    """
    at = {symbol: sizes.get(symbol, 1) for symbol in model.symbols}
    macs, unknown = count_macs(model, at)
    held = own or listing_of(model)
    described = [
        _joined([spec_dict(spec) for spec in specs], told)
        for specs, told in ((model.inputs, held.inputs), (model.outputs, held.outputs))
    ]
    return Inspection(
        **_of_file(held, name),
        source=model.source,
        inputs=described[0],
        outputs=described[1],
        macs=macs,
        macs_unknown=unknown,
        sizes=at,
        activations=peak_activations(model, at),
        history=[record.stable() for record in model.history],
    )


def inspect_unread(own: Listing, name: str, why: str) -> Inspection:
    """The facts of a file that can't be read as a graph.

    Args:
        own: What the file's own listing says: inputs, outputs, metadata.
        name: The file as the user named it.
        why: Why it can't be read as a graph, for people.
    """
    return Inspection(
        **_of_file(own, name),
        source={},
        inputs=[dict(item) for item in own.inputs],
        outputs=[dict(item) for item in own.outputs],
        unread=why,
    )


def _of_file(held: Listing, name: str) -> dict[str, Any]:
    ops = {op: sum(types.values()) for op, types in held.op_types.items()}
    total = sum(held.stored.values())
    return {
        "name": name,
        "format": held.format,
        "opset": held.domains.get(""),
        "domains": {domain: number for domain, number in held.domains.items() if domain},
        "ops": ops,
        "op_types": {op: dict(types) for op, types in held.op_types.items()},
        "nodes": sum(ops.values()),
        "parameters": held.parameters,
        "weight_bytes": total,
        "precisions": {dtype: round(n / total, 6) for dtype, n in held.stored.items()},
        "quantization": dict(held.quantization),
    }


def _joined(specs: list[dict[str, Any]], told: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Inputs or outputs with the scales that the file has for them."""
    scales = {
        item["name"]: {key: item[key] for key in ("scale", "zero_point") if key in item}
        for item in told
    }
    return [{**spec, **scales.get(spec["name"], {})} for spec in specs]


# -- multiply-adds -------------------------------------------------------------------


def count_macs(model: Model, sizes: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """Multiply-adds of Conv, ConvTranspose, Gemm, MatMul and recurrent nodes.

    Of an If the larger branch counts. A body of a Loop or a Scan counts once.

    Args:
        model: At any opset.
        sizes: Of the symbolic dimensions by name; 1 for those it lacks.

    Returns:
        The sum, and for each such operator how many nodes couldn't be counted.
    """
    counts = node_macs(model, sizes, bodies=True)
    unknown = Counter(node.op_type for node, count in counts.items() if count is None)
    return _sum(model.graph.graph, counts), dict(unknown)


def _sum(nodes: Iterable[onnx_ir.Node], counts: Mapping[onnx_ir.Node, int | None]) -> int:
    total = 0
    for node in nodes:
        each = [
            _sum(attribute.as_graph(), counts)
            for attribute in node.attributes.values()
            if attribute.type == onnx_ir.AttributeType.GRAPH
        ]
        total += (counts.get(node) or 0) + (max(each) if node.op_type == "If" else sum(each))
    return total
