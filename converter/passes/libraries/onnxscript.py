"""onnxscript's optimizer, as a pass: constant folding, also through shapes, and rewrite rules."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import onnx_ir
import onnx_ir.passes.common as common

from converter.passes.libraries.library import LibraryPass

RULES = (
    "cast_constant_of_shape_rule",
    "cast_constant_of_shape_without_value_rule",
    "collapse_slice_rule",
    "collapse_slice2_rule",
    "one_reshape_matmul_reshape_rule",
    "two_reshapes_matmul_reshape_rule",
    "materialize_reshape_shape_rule",
    "min_min_rule",
    "max_max_rule",
    "min_max_rule",
    "max_min_rule",
    "successive_clip_relu_rule",
    "successive_relu_clip_rule",
    "successive_relu_rule",
    "successive_clip_rule",
    "cast_cast_rule",
    "no_op_cast_rule",
    "no_op_expand_rule",
    "reshape_reshape_rule",
    "slice_split_rule",
    "no_op_transpose_rule",
    "transpose_transpose_rule",
    "unsqueeze_unsqueeze_rule",
    "squeeze_reshape_1d_rule",
    "no_op_dynamic_scatter_nd_rule",
    "no_op_static_scatter_nd_rule",
    "normalize_pad_format_conv_rule",
    "normalize_pad_format_conv_integer_rule",
    "fuse_pad_into_conv_rule",
    "fuse_pad_into_conv_integer_rule",
    "fuse_batchnorm_into_conv_rule",
    "fuse_batchnorm_into_conv_transpose_rule",
    "fuse_batchnorm_into_gemm_rule",
    "remove_optional_bias_from_conv_rule",
    "remove_optional_bias_from_conv_transpose_rule",
    "remove_optional_bias_from_qlinear_conv_rule",
    "remove_optional_bias_from_gemm_rule",
)
"""Its default rules, without ``mul_by_1``, ``add_0``, ``sub_0`` and ``div_by_1``: they compare
constants with a tolerance of 1e-8 (absolute) and 1e-5 (relative), and so also drop the
``+ 1e-10`` that keeps a Log finite, and a ``* 1.000005``. Exact no-ops are :mod:`.no_op`'s."""


@dataclass(frozen=True)
class OnnxscriptParameters:
    """Parameters of :class:`OnnxscriptOptimizer`.

    Attributes:
        rounds: Most times that folding and rewriting are repeated.
        rules: Names in ``onnxscript.rewriter.rules.common``.
        fold_inputs, fold_outputs: Elements above which a tensor isn't folded from, or into.
    """

    rounds: int = 2
    rules: tuple[str, ...] = RULES
    fold_inputs: int = 8192
    fold_outputs: int = 512 * 512


class OnnxscriptOptimizer(LibraryPass):
    """Runs onnxscript's constant folding, then :data:`RULES`."""

    name = "onnxscript"
    summary = "onnxscript's optimizer: folds constants through shapes and branches, rewrites"

    def __init__(self, parameters: OnnxscriptParameters | None = None) -> None:
        self.parameters = parameters or OnnxscriptParameters()

    def versions(self) -> Mapping[str, str]:
        """onnxscript's version, and onnx-ir's, which it is built on."""
        return {"onnxscript": version("onnxscript"), "onnx-ir": onnx_ir.__version__}

    def simplify(self, model: onnx_ir.Model) -> onnx_ir.Model:
        """What onnxscript makes of ``model``, in place."""
        from onnxscript import optimizer
        from onnxscript.rewriter import RewritePass
        from onnxscript.rewriter.rules import common as common_rules

        from converter.passes.libraries.slice_pairs import among_users

        rules = [getattr(common_rules, name) for name in self.parameters.rules]
        for _ in range(self.parameters.rounds):
            folded = optimizer.fold_constants(
                model,
                onnx_shape_inference=True,
                input_size_limit=self.parameters.fold_inputs,
                output_size_limit=self.parameters.fold_outputs,
            )
            rewritten = RewritePass([_by_type(among_users(rule)) for rule in rules])(model)
            common.RemoveUnusedNodesPass()(model)
            if not folded.modified and not rewritten.modified:
                break
        return model


def _by_type(rule: Any) -> Any:
    """The rule, looking at a node's type before anything else.

    As they are, rules hold every node against their whole pattern.
    """
    first, match, typed = rule._target_pattern.output_nodes[0].op, rule.match, copy(rule)

    def match_typed(model: Any, graph: Any, node: Any, **options: Any) -> Any:
        return match(model, graph, node, **options) if first.matches(node.op_type) else None

    typed.match = match_typed
    return typed
