"""Operators whose kernels are slow in ONNX Runtime, in forms that its CPU runs faster.

    blocked    PRelu(x, s)         Relu(x) - s Relu(-x), whose products are convolutions of one
                                   channel each
    choice     PRelu(x, s)         s x below 0, else x
    halves     Pad(x) + Conv(u)    Concat(x + Conv(u), Conv(u)): the Conv's first channels, and
                                   those that the Pad by zeros added

ONNX Runtime's CPU keeps what is between Conv, Relu, Add, pooling and Concat in blocks of channels,
and goes back to rows of pixels for anything else: ``blocked`` and ``halves`` are of these operators
alone, and ``halves``' Concat is one of whole blocks (:data:`BLOCK`). ``.ort`` files have no blocks.

All are exact: a sum of two numbers of which one is zero isn't rounded, nor is a product with -1,
and each channel of a Conv is computed by itself. They give the same number for every number and
infinity, and NaN for NaN. Only a zero may have another sign: ``choice`` is PRelu's definition, from
which the kernel differs where x is -0.0 and s is negative; ``blocked`` gives 0.0 for -0.0, and
``halves`` leaves a -0.0 that the sum with the padding makes 0.0. What ONNX Runtime then fuses (an
Add into a Conv) it rounds as it does where no PRelu or Pad keeps it from that.

Beside products in int8, what moves elements moves integers, of uint8 (:mod:`.integers`,
:mod:`.unsigned`).

Which of them are used, for which types and from which size on, says ``kernels.json``, which
``python -m bench.kernels`` measures: what is written doesn't hang on the machine at hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import prod
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir.passes import common

from converter.ir.edit import all_nodes, constant, constant_tensor, is_op
from converter.ir.model import Model
from converter.options.request import Request
from converter.passes.legalize.builder import Array, Builder, DataType, Rewrite, Value, dims, rank
from converter.passes.legalize.chain import LegalizingPass
from converter.verify.differences import ROUNDING
from emitters.onnx.integers import onto
from emitters.onnx.unsigned import is_signed, unsigned
from emitters.serving.request import serving

TABLE = resources.files(__name__.rpartition(".")[0]) / "kernels.json"

WORTH = 1.02
"""Gain from which a form is worth its nodes: medians vary by less."""

BLOCK = 16
"""Channels of a block where registers are widest (AVX-512); elsewhere 8, which divides it."""


@dataclass(frozen=True)
class Form:
    """How the nodes of an operator can be written instead.

    Attributes:
        operator: Which.
        targets: Where: ``onnx``, ``ort``.
        holds: Whether a node can be.
        rewrite: What takes its place.
    """

    operator: str
    targets: tuple[str, ...]
    holds: Callable[[onnx_ir.Node], bool]
    rewrite: Rewrite


@cache
def least() -> Mapping[str, int]:
    """By form, the elements of one sample from which on it gains, as the table says."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))["forms"]
    return {name: row["least"] for name, row in rows.items() if row["least"] is not None}


class FasterKernels(LegalizingPass):
    """Writes what is slow in ONNX Runtime's CPU provider as what isn't, in ``.onnx`` files.

    Args:
        sizes: The elements of one sample from which on a form is used, by its name; others aren't.
            None: as the table says.
    """

    summary = "operators whose kernels are slow, as others"
    name = "legalize:onnx"
    target = "onnx"

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__()
        sizes = least() if sizes is None else sizes
        self._forms = [
            (form, sizes[name])
            for name, form in FORMS.items()
            if name in sizes and self.target in form.targets
        ]

    def wanted(self, model: Model) -> bool:
        """Whether anything is slow; where integers are between, whether they are int8 next to
        products (forms of others can't be compared then)."""
        nodes = list(model.nodes())
        if any(is_op(node, *ROUNDING) for node in nodes):
            return any(map(is_signed, nodes))
        return not all(map(self.legal, nodes))

    def legal(self, node: onnx_ir.Node) -> bool:
        """Whether it has no faster form."""
        return self._form(node) is None

    def chain(self, model: onnx_ir.Model) -> None:
        """The rewrites, and what they left unused dropped."""
        rewrites = {form.operator: self._rewritten for form, _ in self._forms}
        self.same_integers = any(is_op(node, *ROUNDING) for node in all_nodes(model))
        if self.same_integers:
            self.each(model, onto, "elements moved as integers")
            self.each(model, unsigned, "int8 as uint8")
        else:
            self.legalize(model, self.legal, rewrites)
        if self.rewritten:
            common.RemoveUnusedNodesPass()(model)

    def _rewritten(self, builder: Builder, node: onnx_ir.Node) -> Any:
        form = self._form(node)
        return None if form is None else form.rewrite(builder, node)

    def _form(self, node: onnx_ir.Node) -> Form | None:
        for form, size in self._forms:
            if is_op(node, form.operator) and _elements(node) >= size and form.holds(node):
                return form
        return None


class OrtKernels(FasterKernels):
    """The same in ``.ort`` files."""

    name = "legalize:ort"
    target = "ort"


def _elements(node: onnx_ir.Node) -> float:
    """Of one sample of float32; many where sizes are free, none of other types and in functions."""
    x = node.outputs[0]
    if x.dtype != DataType.FLOAT or x.shape is None or isinstance(node.graph, onnx_ir.Function):
        return -1
    return prod(dim if isinstance(dim, int) else np.inf for dim in dims(x)[1:])


# -- PRelu --------------------------------------------------------------------------------


_BLOCKED = ("Conv", "Add", "Concat")
"""What gives blocks, or may: Add and Concat of blocks do."""


def _is_between(node: onnx_ir.Node) -> bool:
    """Whether channels of 2 axes come from what may give blocks, with a constant slope for each."""
    x, slope = node.inputs[:2]
    if x is None or x.shape is None or rank(x) != 4 or not is_op(x.producer(), *_BLOCKED):
        return False
    return _slopes(x, constant(slope)) is not None


def _slopes(x: Value, slope: Array | None) -> Array | None:
    """Finite slopes, as weights of a Conv of one channel each; None where they are others."""
    channels = dims(x)[1]
    if slope is None or not isinstance(channels, int) or not np.all(np.isfinite(slope)):
        return None
    whole = slope.reshape((1,) * (4 - slope.ndim) + slope.shape)
    if whole.shape not in ((1, 1, 1, 1), (1, channels, 1, 1)):
        return None
    return np.array(np.broadcast_to(whole.reshape(-1, 1, 1, 1), (channels, 1, 1, 1)))


def _blocked(b: Builder, node: onnx_ir.Node) -> Value:
    x = node.inputs[0]
    assert x is not None
    slopes = _slopes(x, b.constant(node.inputs[1]))
    assert slopes is not None
    each = {"group": len(slopes), "kernel_shape": [1, 1]}
    below = b.op("Relu", b.op("Conv", x, -np.ones_like(slopes), **each))
    return b.op("Add", b.op("Relu", x), b.op("Conv", below, -slopes, **each))


def _choice(b: Builder, node: onnx_ir.Node) -> Value:
    x, slope = node.inputs
    assert x is not None
    return b.op("Where", b.op("Less", x, b.number(0, x)), b.op("Mul", x, slope), x)


# -- Pad(x) + Conv(u) -----------------------------------------------------------------------


def _halves_of(node: onnx_ir.Node) -> tuple[Value, onnx_ir.Node] | None:
    """Of an Add, what a Pad adds channels of zeros to, in whole blocks, and the Conv; None where it
    isn't such a sum."""
    for pad, conv in (node.inputs[:2], node.inputs[1::-1]):
        if pad is None or conv is None or not (_is_inner(pad) and _is_inner(conv)):
            continue
        padding, convolution = pad.producer(), conv.producer()
        if is_op(padding, "Pad") and is_op(convolution, "Conv"):
            assert padding is not None and convolution is not None
            x, channels = padding.inputs[0], dims(conv)[1]
            if x is not None and _adds_blocks(padding, channels) and _is_cut(convolution):
                return x, convolution
    return None


def _is_inner(value: Value) -> bool:
    return value.shape is not None and len(value.uses()) == 1 and not value.is_graph_output()


def _adds_blocks(pad: onnx_ir.Node, channels: int | str | None) -> bool:
    """Whether a Pad by zeros only adds channels at the end, in whole blocks, to so many."""
    if pad.attributes.get_string("mode", "constant") != "constant" or len(pad.inputs) < 2:
        return False
    pads, *more = (constant(value) for value in pad.inputs[1:])
    if pads is None or pads.size != 8 or len(pad.inputs) > 3 or any(v is None or v for v in more):
        return False
    added = int(pads[5])
    alone = added > 0 and np.count_nonzero(pads) == 1
    return alone and isinstance(channels, int) and not added % BLOCK and not channels % BLOCK


def _is_cut(conv: onnx_ir.Node) -> bool:
    """Whether a Conv of one group has weights and biases that are constants, or casts of such."""
    groups = conv.attributes.get_int("group", 1)
    return groups == 1 and all(_stored(value) is not None for value in conv.inputs[1:])


def _stored(value: Value | None) -> onnx_ir.TensorProtocol | None:
    node = None if value is None else value.producer()
    return constant_tensor(node.inputs[0] if node is not None and is_op(node, "Cast") else value)


def _halves(b: Builder, node: onnx_ir.Node) -> Value:
    found = _halves_of(node)
    assert found is not None
    x, conv = found
    count, attributes = dims(x)[1], {key: item.value for key, item in conv.attributes.items()}
    assert isinstance(count, int)

    def part(which: slice) -> Value:
        operands = [_part(b, value, which) for value in conv.inputs[1:] if value is not None]
        return b.op("Conv", conv.inputs[0], *operands, **attributes)

    first = b.op("Add", x, part(slice(count)))
    return b.op("Concat", first, part(slice(count, None)), axis=1)


def _part(b: Builder, value: Value, which: slice) -> Value | Array:
    """Some channels' weights, stored as all were."""
    stored = _stored(value)
    assert stored is not None and value.dtype is not None
    kept = np.ascontiguousarray(stored.numpy()[which])
    made = b.value(kept)
    assert made is not None
    return b.cast(made, value.dtype)


FORMS: Mapping[str, Form] = {
    "blocked": Form("PRelu", ("onnx",), _is_between, _blocked),
    "choice": Form("PRelu", ("onnx", "ort"), lambda node: True, _choice),
    "halves": Form("Add", ("onnx",), lambda node: _halves_of(node) is not None, _halves),
}
"""By name, the first that holds."""


def faster(model: Model, request: Request, step: FasterKernels) -> FasterKernels | None:
    """The step, where it makes a model faster; else None.

    Args:
        model: The model as it would be written.
        request: Its ``providers``, ``instance_kind`` and ``simplify``: for GPUs, and without
            simplifying, the step is left out.
        step: What writes slow operators in other forms.
    """
    for_cpus = request.providers[:1] == ["cpu"] and serving(request).instance_kind != "gpu"
    return step if for_cpus and request.simplify and step.wanted(model) else None
