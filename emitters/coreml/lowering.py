"""An ONNX model becomes a MIL program: prepared, then each node by its operator's lowering."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx_ir

from converter.errors import Unsupported
from converter.ir.definitions import define
from converter.ir.edit import all_nodes
from converter.ir.model import Model, dtype_from_name
from converter.ir.refused import Refused
from converter.ir.symbols import substitute
from converter.passes.legalize import REWRITES, why_illegal
from converter.passes.legalize.chain import LegalizingPass
from emitters.coreml import limits
from emitters.coreml.compressed import FUNCTIONS, pack, take_part
from emitters.coreml.context import Context, Program, Var
from emitters.coreml.images import Image
from emitters.coreml.interface import Port, free_name, ports
from emitters.coreml.never import REASONS
from emitters.coreml.quicker import quotients
from emitters.coreml.registry import is_legal, lowering_of, operators
from emitters.coreml.types import held
from emitters.lowering import operators as shared
from emitters.lowering.axes import FewerAxes, exceeds
from emitters.lowering.empties import drop_empty
from emitters.lowering.folding import fill_in, fold_constants, fold_rounds
from emitters.lowering.impossible import take_possible
from emitters.lowering.settled import settle_ranks
from emitters.lowering.walking import lower_each, name_nodes
from modelyard.containers.coreml import coremltools

BUILDING = threading.RLock()
"""Held while coremltools builds or converts: it keeps its state in its modules."""


@dataclass
class Lowered:
    """What lowering a model gave.

    Attributes:
        program: coremltools' program; not to be used where there are refusals.
        refusals: Every input, output and node that couldn't be lowered, and why.
        inputs, outputs: What the program has at its border.
        symbols: The program's symbol for each name of a free dimension.
        scores: The name of an output that the classifier takes, once more.
        classifier: What the package gives of it: the names of the class and of the scores.
        taken: Which branches alone are there, in words.
        settled: What holds at the sizes that the user gave, and not at 1, in words.
    """

    program: Any
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    refusals: list[Unsupported] = field(default_factory=list)
    symbols: dict[str, Any] = field(default_factory=dict)
    scores: str = ""
    classifier: tuple[str, str] | None = None
    taken: list[str] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)


def lower(
    model: Model,
    target: int,
    *,
    fixed: Mapping[str, int] | None = None,
    images: Mapping[str, Image] | None = None,
    scores: str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Lowered:
    """The model in MIL's operations. The model stays as it is; weights are shared.

    Args:
        model: At the pipeline's opset.
        target: The oldest system that the package is for: 15 to 18, 26.
        fixed: Sizes of free dimensions that aren't free in the package.
        images: Inputs that are images, by their names.
        scores: The output that a classifier takes, by its name.
        sizes: Of free dimensions, as the user gave them: they settle how many axes there are.
    """
    legalized = Legalize(target, fixed or {}, sizes or {}).apply(model)
    with BUILDING, quotients():
        lowered = _build(model, legalized.graph, target, fixed or {}, images or {}, scores)
    lowered.taken, lowered.settled = legalized.told["taken"], legalized.told["settled"]
    return lowered


class Legalize(LegalizingPass):
    """Brings a model to what Core ML has.

    Args:
        target: The oldest system: 15 to 18, 26.
        fixed: Sizes of free dimensions that aren't free in the package.
        sizes: Of free dimensions, as the user gave them.
    """

    name = "legalize:coreml"

    def __init__(self, target: int, fixed: Mapping[str, int], sizes: Mapping[str, int]) -> None:
        super().__init__()
        self._target, self._fixed, self._sizes = target, fixed, sizes

    def legal(self, node: onnx_ir.Node) -> bool:
        """Whether it is lowered as it is."""
        return is_legal(node, self._target) and not exceeds(node, limits.MAX_RANK)

    def chain(self, model: onnx_ir.Model) -> None:
        """Sizes fixed, operators written out, constants folded, axes settled; then the rewrites."""
        if self._fixed:
            substitute(model, self._fixed)
            fill_in(model)
            self.assumed = model.clone()
        if self.write_out(model, _has_no_lowering):
            name_nodes(model)
        self.each(model, partial(pack, target=self._target), "kept packed")
        fold_constants(model)
        self.told["taken"] = take_possible(model)
        self.told["settled"] = settle_ranks(model, self._sizes)
        if self.told["settled"]:
            self.assumed = model.clone()
        drop_empty(model)
        if self._simplify(model):
            self.each(model, take_part, "kept packed")
            fold_rounds(model)
        if any(exceeds(node, limits.MAX_RANK) for node in all_nodes(model)):
            fewer = FewerAxes(limits.MAX_RANK, model, limits.RANK)
            self.each(model, fewer.rewrite, "with five axes at most")
            fewer.finish(self.wrong)
            self._simplify(model)
            fold_rounds(model)
        define(model, FUNCTIONS)

    def _simplify(self, model: onnx_ir.Model) -> bool:
        return self.legalize(model, partial(is_legal, target=self._target))


def target_of(number: int) -> Any:
    """coremltools' target for a system's number."""
    return getattr(coremltools().target, f"iOS{number}")


def _build(
    model: Model,
    graph: onnx_ir.Model,
    target: int,
    fixed: Mapping[str, int],
    images: Mapping[str, Image],
    scores: str | None,
) -> Lowered:
    mil = coremltools().converters.mil.mil
    names: set[str] = set()
    inputs, refused = ports(model.inputs, names, fixed, images)
    outputs, more = ports(model.outputs, names, fixed)
    lowered = Lowered(mil.Program(), inputs, outputs, refused + more)
    if lowered.refusals:
        lowered.refusals += unsupported_operators(graph)
        return lowered
    program = Program(graph, target, names)
    placeholders = {port.name: _placeholder(port, lowered.symbols) for port in inputs}
    with mil.Function(placeholders, opset_version=target_of(target)) as function:
        context = Context(program)
        _take_inputs(context, graph.graph, inputs, function)
        lower_nodes(context, graph.graph, lowered.refusals)
        if not lowered.refusals:
            made = _give_outputs(context, graph.graph.outputs, outputs)
            if scores is not None:
                made.append(_scores(context, lowered, made, scores, names))
            function.set_outputs(made)
    lowered.program.add_function("main", function)
    return lowered


def _placeholder(port: Port, symbols: dict[str, Any]) -> Any:
    mil = coremltools().converters.mil.mil
    kinds = {"float32": mil.types.fp32, "float16": mil.types.fp16, "int32": mil.types.int32}
    shape: list[Any] = []
    for dim in port.shape:
        if isinstance(dim, str):
            if dim not in symbols:
                symbols[dim] = mil.get_new_symbol()
            dim = symbols[dim]
        shape.append(dim)
    return mil.Builder.placeholder(shape=tuple(shape), dtype=kinds[port.dtype])


def _take_inputs(
    context: Context, graph: onnx_ir.Graph, inputs: Sequence[Port], function: Any
) -> None:
    """The variables of the graph's inputs, as the model has them."""
    by_name = {port.spec.name: port for port in inputs}
    for value in graph.inputs:
        port = by_name.get(value.name or "")
        if port is None:  # an initializer with the name of an input
            continue
        context.node = port.name
        var = function.inputs[port.name]
        if port.image is not None:
            var = _prepared(context, var, port.image, port)
        if port.scalar:
            var = context.op("squeeze", x=var, axes=[0])
        context.give(value, context.cast(var, "bool") if port.spec.dtype == "bool" else var)


def _prepared(context: Context, pixels: Var, image: Image, port: Port) -> Var:
    """The model's input, of an image's pixels."""
    scale, bias = (np.reshape(part, (1, -1, 1, 1)) for part in (image.scale, image.bias))
    var = pixels
    if (scale != 1).any():
        var = context.op("mul", x=var, y=scale.astype(np.float32))
    if bias.any():
        var = context.op("add", x=var, y=bias.astype(np.float32))
    if image.layout.endswith("C"):
        var = context.op("transpose", x=var, perm=[0, 2, 3, 1])
    if "N" not in image.layout:
        var = context.op("squeeze", x=var, axes=[0])
    return context.cast(var, held(dtype_from_name(port.spec.dtype)))


def lower_nodes(context: Context, graph: onnx_ir.Graph, refusals: list[Unsupported]) -> bool:
    """Lowers a graph's nodes in order; see :func:`emitters.lowering.walking.lower_each`.

    Args:
        context: Where the operations go.
        graph: The main graph, or the body of an If or Loop.
        refusals: What can't be lowered is added.

    Returns:
        Whether all are lowered.
    """
    return lower_each(graph, partial(_lower_one, context), refusals)


def _lower_one(context: Context, node: onnx_ir.Node) -> None:
    context.node = node.name or node.op_type
    lowering = lowering_of(node)
    if lowering is None or why_illegal(node) is not None:
        raise Refused(*_no_lowering(node))
    lowering(context, node)
    shared.used_outputs(node, context.has, "Core ML")


def _give_outputs(
    context: Context, values: Sequence[onnx_ir.Value], outputs: Sequence[Port]
) -> list[Var]:
    """The program's outputs, called as the ports are; an operation of its own where the variable
    is an input, a constant, or another output."""
    made: list[Var] = []
    for value, port in zip(values, outputs, strict=True):
        context.node = port.name
        var = context.var(value)
        if port.dtype == "int32":
            var = context.cast(var, "int32")
        if port.scalar:
            var = context.op("expand_dims", x=var, axes=[0])
        named = var.op is None or var.val is not None or any(var is other for other in made)
        if named:
            var = context.mb.identity(x=var, name=port.name)
        var.name = port.name
        made.append(var)
    return made


def _scores(
    context: Context, lowered: Lowered, made: Sequence[Var], scores: str, names: set[str]
) -> Var:
    """The scores once more: coremltools' classifier takes an output away."""
    label = free_name("classLabel", names)
    lowered.classifier = (label, free_name(f"{label}_probs", names))
    lowered.scores = free_name(f"{label}_scores", names)
    index = next(i for i, port in enumerate(lowered.outputs) if port.spec.name == scores)
    if _are_probabilities(made[index]):
        return context.mb.identity(x=made[index], name=lowered.scores)
    lowered.taken.append(
        f"{scores} ends in neither Softmax nor Sigmoid: {lowered.classifier[1]} has its softmax"
    )
    return context.mb.softmax(x=made[index], axis=-1, name=lowered.scores)


_HANDS_ON = {
    *("cast", "dequantize", "expand_dims", "identity", "quantize", "reshape", "slice_by_index"),
    *("squeeze", "transpose"),
}


def _are_probabilities(var: Var) -> bool:
    """Whether a softmax or sigmoid made them; what hands numbers on may lie between."""
    while var.op is not None and var.op.op_type in _HANDS_ON:
        var = var.op.inputs["input" if "input" in var.op.inputs else "x"]
    return var.op is not None and var.op.op_type in ("softmax", "sigmoid")


def unsupported_operators(model: onnx_ir.Model) -> list[Unsupported]:
    """Nodes whose operator has no lowering at all: what can be said before simplifying."""
    return shared.unsupported_operators(model, operators() | REWRITES.keys(), _no_lowering)


def _has_no_lowering(node: onnx_ir.Node) -> bool:
    return node.op_type not in operators() | REWRITES.keys()


def _no_lowering(node: onnx_ir.Node) -> tuple[str, str]:
    why = why_illegal(node)
    if why is not None:
        return why.reason, why.hint
    domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}::"
    reason = REASONS.get(node.op_type) if domain in ("", "ai.onnx.ml::") else None
    return (
        reason or f"there is no lowering of {domain}{node.op_type} to Core ML",
        "replace it with operators that there is one for, or cut the model before it (--output)",
    )
