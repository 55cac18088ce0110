"""Passes that hand the model to a simplifying library, and take back what it may have."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection

import onnx_ir
from onnx_ir.passes import PassResult

from converter.ir.adopt import adopt
from converter.ir.edit import attribute_int, is_op
from converter.ir.facts import ARITHMETIC, MATRIX_PRODUCTS
from converter.ir.weight_placeholders import LARGE_WEIGHT, is_large, without_weights
from converter.passes.base import SimplifyingPass
from converter.passes.cleanup.cleanup import Cleanup

SMALL_WEIGHT = 4096
"""Bytes below which any weight goes through a library."""


class LibraryError(Exception):
    """A library raised, crashed, hung, or gave something back that can't be used."""


class LibraryPass(SimplifyingPass):
    """A pass whose work is done by a library, on a copy of the model, and cleaned up after.

    Large weights that a library has no use for aren't copied through it: of a large model
    every one, else those that no operator around them could be folded into.
    """

    @abstractmethod
    def simplify(self, model: onnx_ir.Model) -> onnx_ir.Model:
        """The library's version of ``model``, which it may change.

        Raises:
            LibraryError: It can't; any other exception is taken the same way: the pipeline
                goes on without this pass.
        """

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Runs the library on a copy; ``model`` takes over what comes back."""
        keep = may_be_folded_into if not is_large(model) else is_worth_its_bytes
        light, restore = without_weights(model, SMALL_WEIGHT, keep=keep)
        result = restore(self.simplify(light))
        Cleanup().call(result)
        adopt(model, result)
        return PassResult(model, modified=True)


def is_worth_its_bytes(weight: onnx_ir.Value) -> bool:
    """Whether a weight is small enough to go through a library even if the model is large.

    One that is dequantized, or cast to a wider type, never is: folding it makes it larger.
    """
    size = weight.const_value.nbytes if weight.const_value is not None else 0
    return size < LARGE_WEIGHT and not any(_widens(node, index) for node, index in weight.uses())


def may_be_folded_into(weight: onnx_ir.Value) -> bool:
    """Whether a library could do something with this weight's numbers.

    A weight of Conv, Gemm or MatMul can take over a scale that is applied to the result by a
    normalization or by a constant. (A bias changes none, but a library may want to see the weight
    of a Conv that takes one over.) A table that Gather reads, and a weight without such a
    neighbour, can't. Anything else that uses a weight might be computed ahead.
    """
    if is_worth_its_bytes(weight):
        return True
    return any(not _uses_as_is(node, index) for node, index in weight.uses())


def _widens(node: onnx_ir.Node, index: int) -> bool:
    weight = node.inputs[index]
    if is_op(node, "DequantizeLinear"):
        return index == 0
    if not is_op(node, "Cast") or weight is None or weight.dtype is None:
        return False
    target = onnx_ir.DataType(attribute_int(node, "to", 0) or 0)
    unsized = (onnx_ir.DataType.UNDEFINED, onnx_ir.DataType.STRING)
    if target in unsized or weight.dtype in unsized:
        return False
    return target.bitwidth > weight.dtype.bitwidth


def _uses_as_is(node: onnx_ir.Node, index: int) -> bool:
    if is_op(node, "Gather"):
        return index == 0
    if _widens(node, index):
        return True
    if not is_op(node, *MATRIX_PRODUCTS) or index > 1:
        return False
    into = ARITHMETIC if is_op(node, "Conv", "ConvTranspose") else ("Div", "Mul")
    return not any(_scales(user, into) for user, _ in node.outputs[0].uses())


def _scales(node: onnx_ir.Node, into: Collection[str]) -> bool:
    if is_op(node, "BatchNormalization"):
        return True
    constants = [v is not None and v.is_initializer() for v in node.inputs]
    return is_op(node, *into) and any(constants)
