"""Which of ONNX Runtime's optimizations fails on a model that runs without them.

ONNX Runtime leaves out optimizations by name (``disabled_optimizers``) or by level, and doesn't
list them: the names are those of ``optimizer/graph_transformer_utils.cc``, 1.31. One that another
version lacks is left out of nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

LEVELS = ("none", "basic", "extended", "layout", "all")
"""From no optimization to all of them."""

_MEMBERS = {name: f"ENABLE_{name.upper()}" for name in LEVELS[1:]}

_LISTED = """
    EliminateIdentity EliminateSlice UnsqueezeElimination EliminateDropout ExpandElimination
    CastElimination CastChainElimination PreShapeNodeElimination NoopElimination DivMulFusion
    FuseReluClip GemmSumFusion GemmTransposeFusion NotWhereFusion ConvAddFusion ConvMulFusion
    ConvBNFusion Pad_Fusion MatMul_BatchNormalization_Fusion LabelEncoderFusion ClipQuantRewrite
    ReluQuantRewrite DoubleQDQPairsRemover ConstantSharing CommonSubexpressionElimination
    ConstantFolding ConstantFoldingDQ MatMulAddFusion ReshapeFusion FreeDimensionOverrideTransformer
    GeluFusionL1 GeluFusionL2 LayerNormFusionL1 LayerNormFusionL2 SimplifiedLayerNormFusion
    QDQPropagationTransformer WeightBiasQuantization EnsureUniqueDQForNodeUnit WhereDummyDq
    TransposeOptimizer QDQSelectorActionTransformer QDQS8ToU8Transformer QDQFinalCleanupTransformer
    Avx2WeightS8ToU8Transformer GemmActivationFusion MatMulIntegerToFloatFusion
    DynamicQuantizeMatMulFusion ConvActivationFusion ConvAddActivationFusion MatMulActivationFusion
    MatMulScaleFusion MatmulTransposeFusion AttentionFusion GroupQueryAttentionFusion
    GroupQueryAttentionPreNormFusion EmbedLayerNormFusion SkipLayerNormFusion
    BiasSkipLayerNormFusion GatherSliceToSplitFusion GatherToSplitFusion GatherToSliceFusion
    BiasGeluFusion FastGeluFusion QuickGeluFusion GeluApproximation BiasSoftmaxFusion
    BiasDropoutFusion MatMulNBitsFusion MatMulNBitsMlpFusion MatMulNBitsQkvFusion
    DQMatMulNBitsFusion IdenticalChildrenConsolidation SliceConcatToSpaceToDepthFusion
    NchwcTransformer NhwcTransformer FuseInitializersTransformer RemoveDuplicateCastTransformer
"""
NAMES = tuple(_LISTED.split())
"""What may be left out by name, about in the order in which it runs."""


@dataclass(frozen=True)
class Failing:
    """What fails.

    Attributes:
        level: The least one at which the model doesn't load.
        name: The one optimization without which it loads at all of them; empty where no single
            one is to blame.
    """

    level: str
    name: str = ""

    @property
    def left_out(self) -> tuple[str, ...]:
        """The names to leave out of a session that loads it, up to :attr:`below`."""
        return (self.name,) if self.name else ()

    @property
    def below(self) -> str:
        """The level up to which the others may run."""
        return "all" if self.name else LEVELS[LEVELS.index(self.level) - 1]

    def __str__(self) -> str:
        if self.name:
            return f"ONNX Runtime's optimization {self.name} (level {self.level})"
        return f"one of ONNX Runtime's optimizations (level {self.level})"

    @property
    def remedy(self) -> str:
        """What loads it in Python."""
        if self.name:
            return f'InferenceSession(..., disabled_optimizers=["{self.name}"])'
        return f"graph_optimization_level = ORT_{_MEMBERS.get(self.below, 'DISABLE_ALL')}"


def failing(loads: Callable[[str, Sequence[str]], bool]) -> Failing | None:
    """What fails where a model doesn't load; None where it doesn't without optimizations either.

    Args:
        loads: Whether it does at a level, with these names left out. Called some ten times.
    """
    if not loads("none", ()):
        return None
    level = next((name for name in LEVELS[1:] if not loads(name, ())), None)
    if level is None:  # it loads now
        return None
    suspects: Sequence[str] = NAMES
    if not loads("all", suspects):
        return Failing(level)
    while len(suspects) > 1:
        middle = len(suspects) // 2
        halves = suspects[:middle], suspects[middle:]
        found = next((half for half in halves if loads("all", half)), None)
        if found is None:  # one in each half
            return Failing(level)
        suspects = found
    return Failing(level, suspects[0])
