"""Layers that training needs, kept in what is exported.

    Given:   batch_norm(conv(x)); dropout(x, 0.5, train=False)
    Result:  Conv, BatchNormalization; Dropout (otherwise one Conv with other weights; x)

``dropout`` is a composite that torch.export decomposes to nothing, and onnxscript's optimizer takes
both away: until it is translated it is an operator of ours, and those rules rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def _dropout(input: torch.Tensor, p: float) -> torch.Tensor:
    return input.clone()


_own = torch.library.custom_op("modelyard::dropout", _dropout, mutates_args=())
_own.register_fake(lambda input, p: torch.empty_like(input))


def _translated(input: Any, p: float) -> Any:
    from onnxscript.onnx_opset import opset18 as op

    from .translations.values import scalar

    made, _ = op.Dropout(input, scalar(p, input))
    return made


def mark(program: Any) -> None:
    """Has a traced program's dropouts be ours, in place."""
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target == torch.ops.aten.dropout.default:
            node.target, node.args = torch.ops.modelyard.dropout.default, node.args[:2]
    program.graph_module.recompile()


TABLE = {torch.ops.modelyard.dropout.default: _translated}


@contextmanager
def kept() -> Iterator[None]:
    """Has onnxscript's optimizer leave both."""
    from onnxscript import rewriter
    from onnxscript.optimizer import _constant_folding
    from onnxscript.rewriter.rules.common import _fuse_batchnorm, _no_op

    drops = (_no_op.dropout_zero_rule, _no_op.dropout_inference_rule)
    resting = {id(rule) for rule in (*_fuse_batchnorm.rules, *drops)}
    rules, evaluators = rewriter._DEFAULT_REWRITE_RULES, _constant_folding.registry.op_evaluators
    rewriter._DEFAULT_REWRITE_RULES = tuple(rule for rule in rules if id(rule) not in resting)
    evaluator = evaluators.pop(("", "Dropout"), [])
    try:
        yield
    finally:
        rewriter._DEFAULT_REWRITE_RULES = rules
        evaluators["", "Dropout"] = evaluator
