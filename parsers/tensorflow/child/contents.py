"""What the operators of a TensorFlow graph do to the machine, and which have no meaning in ONNX.

A graph can read and write files, open connections and call back into Python (TensorFlow's
SECURITY.md: "models are programs"). Only operators that are known to compute and nothing else
may run; what isn't listed is refused, whatever its name says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...worker.errors import WorkerError
from .graph import Graph, Used, attribute

_FLOW = """
    Assert Case CheckNumerics CheckNumericsV2 ControlTrigger EnsureShape Enter Exit FakeParam For
    Identity IdentityN If LoopCond Merge NextIteration NoOp PartitionedCall Placeholder
    PlaceholderV2 PlaceholderWithDefault PreventGradient Print RefEnter RefExit RefIdentity
    RefMerge RefNextIteration RefSelect RefSwitch Snapshot StatefulPartitionedCall StatelessCase
    StatelessIf StatelessWhile StopGradient Switch While StringFormat
"""
_STATE = """
    IsVariableInitialized ReadVariableOp ResourceGather ResourceGatherNd VarHandleOp
    VarIsInitializedOp Variable VariableShape VariableV2
    EmptyTensorList TensorArrayCloseV3 TensorArrayConcatV3 TensorArrayGatherV3 TensorArrayReadV3
    TensorArrayScatterV3 TensorArraySizeV3 TensorArraySplitV3 TensorArrayV3 TensorArrayWriteV3
    TensorListConcat TensorListConcatLists TensorListConcatV2 TensorListElementShape
    TensorListFromTensor TensorListGather TensorListGetItem TensorListLength TensorListPopBack
    TensorListPushBack TensorListPushBackBatch TensorListReserve TensorListResize
    TensorListScatter TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem
    TensorListSplit TensorListStack StackCloseV2 StackPopV2 StackPushV2 StackV2
"""
_RANDOM = """
    Multinomial ParameterizedTruncatedNormal RandomGamma RandomPoisson RandomPoissonV2
    RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt StatelessMultinomial
    StatelessParameterizedTruncatedNormal StatelessRandomBinomial StatelessRandomGammaV2
    StatelessRandomGammaV3 StatelessRandomGetAlg StatelessRandomGetKeyCounter
    StatelessRandomGetKeyCounterAlg StatelessRandomNormal StatelessRandomNormalV2
    StatelessRandomPoisson StatelessRandomUniform StatelessRandomUniformFullInt
    StatelessRandomUniformFullIntV2 StatelessRandomUniformInt StatelessRandomUniformIntV2
    StatelessRandomUniformV2 StatelessShuffle StatelessTruncatedNormal StatelessTruncatedNormalV2
    TruncatedNormal
"""
_MATHS = """
    Abs AccumulateNV2 Acos Acosh Add AddN AddV2 All Angle Any ApproximateEqual ArgMax ArgMin Asin
    Asinh Atan Atan2 Atanh BatchMatMul BatchMatMulV2 BatchMatMulV3 BesselI0 BesselI0e BesselI1
    BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Betainc
    Bincount BitwiseAnd BitwiseOr BitwiseXor Bucketize Ceil Cholesky ClipByValue Complex
    ComplexAbs Conj Cos Cosh Cross Cumprod Cumsum CumulativeLogsumexp Dawsn DenseBincount Digamma
    Div DivNoNan Einsum Equal Erf Erfc Erfinv EuclideanNorm Exp Expint Expm1 FFT FFT2D FFT3D
    Floor FloorDiv FloorMod FresnelCos FresnelSin Greater GreaterEqual HistogramFixedWidth IFFT
    IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D Igamma Igammac Imag Inv Invert IsFinite IsInf IsNan
    L2Loss LeftShift Less LessEqual Lgamma LinSpace Log Log1p LogMatrixDeterminant LogicalAnd
    LogicalNot LogicalOr Lu MatMul MatrixDeterminant MatrixExponential MatrixInverse
    MatrixLogarithm MatrixSolve MatrixSolveLs MatrixSquareRoot MatrixTriangularSolve Max Maximum
    Mean Min Minimum Mod Mul MulNoNan Ndtri Neg NextAfter NotEqual Polygamma PopulationCount Pow
    Prod Qr RFFT RFFT2D RFFT3D Range Real RealDiv Reciprocal RightShift Rint Round Rsqrt
    SegmentMax SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd SegmentProdV2
    SegmentSum SegmentSumV2 Select SelectV2 SelfAdjointEig SelfAdjointEigV2 Sigmoid Sign Sin Sinh
    SobolSample SparseMatMul SparseReduceMax SparseReduceSum SparseSegmentMean
    SparseSegmentMeanWithNumSegments SparseSegmentSqrtN SparseSegmentSqrtNWithNumSegments
    SparseSegmentSum SparseSegmentSumWithNumSegments SparseTensorDenseMatMul Spence Sqrt Square
    SquaredDifference Sub Sum Svd Tan Tanh TruncateDiv TruncateMod UnsortedSegmentMax
    UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum Xdivy Xlog1py Xlogy Zeta
"""
_ARRAYS = """
    BatchMatrixBandPart BatchToSpace BatchToSpaceND Bitcast BroadcastArgs BroadcastGradientArgs
    BroadcastTo Cast Concat ConcatOffset ConcatV2 ConjugateTranspose Const DataFormatDimMap
    DataFormatVecPermute DeepCopy DepthToSpace Diag DiagPart DynamicPartition DynamicStitch Empty
    ExpandDims ExtractImagePatches ExtractVolumePatches Fill Gather GatherNd GatherV2
    ImageProjectiveTransformV2 ImageProjectiveTransformV3 InplaceAdd InplaceSub
    InplaceUpdate InvertPermutation KthOrderStatistic ListDiff LowerBound MatrixBandPart
    MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3
    MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 MirrorPad NthElement OneHot OnesLike Pack Pad
    PadV2 ParallelConcat ParallelDynamicStitch RaggedGather RaggedRange RaggedTensorToSparse
    RaggedTensorToTensor Rank Reshape Reverse ReverseSequence ReverseV2 Roll ScatterNd
    ScatterNdNonAliasingAdd Shape ShapeN Size Slice SpaceToBatch SpaceToBatchND SpaceToDepth
    SparseAdd SparseConcat SparseFillEmptyRows SparseReorder SparseReshape SparseSlice
    SparseSoftmax SparseSplit SparseTensorDenseAdd SparseToDense Split SplitV Squeeze
    StridedSlice TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub
    TensorScatterUpdate TensorStridedSliceUpdate Tile TopK TopKV2 Transpose Unique UniqueV2
    UniqueWithCounts UniqueWithCountsV2 Unpack UnravelIndex UpperBound Where ZerosLike
"""
_NETWORKS = """
    AdjustContrastv2 AdjustHue AdjustSaturation ApproxTopK AudioSpectrogram AvgPool AvgPool3D
    BatchNormWithGlobalNormalization BiasAdd BiasAddV1 BlockLSTM BlockLSTMV2
    CombinedNonMaxSuppression Conv Conv2D Conv2DBackpropInput Conv2DBackpropInputV2 Conv3D
    Conv3DBackpropInput Conv3DBackpropInputV2 CropAndResize CTCBeamSearchDecoder
    CTCGreedyDecoder CudnnRNN CudnnRNNV2 CudnnRNNV3 DepthwiseConv2dNative Dequantize Dilation2D
    DrawBoundingBoxes DrawBoundingBoxesV2 Elu ExtractGlimpse ExtractGlimpseV2
    FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel
    FractionalAvgPool FractionalMaxPool FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3
    FusedPadConv2D FusedResizeAndPadConv2D GRUBlockCell GenerateBoundingBoxProposals HSVToRGB
    InTopK InTopKV2 LRN LSTMBlockCell LeakyRelu LogSoftmax MaxPool MaxPool3D MaxPoolV2
    MaxPoolWithArgmax Mfcc NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3
    NonMaxSuppressionV4 NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps QuantizeAndDequantize
    QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4
    QuantizeDownAndShrinkRange QuantizeV2 QuantizedAdd QuantizedAvgPool QuantizedBiasAdd
    QuantizedConcat QuantizedConcatV2 QuantizedConv2D QuantizedMatMul QuantizedMaxPool
    QuantizedMul QuantizedRelu QuantizedRelu6 QuantizedReshape QuantizedResizeBilinear RGBToHSV
    Relu Relu6 RequantizationRange Requantize ResizeArea ResizeBicubic ResizeBilinear
    ResizeNearestNeighbor ScaleAndTranslate Selu Softmax SoftmaxCrossEntropyWithLogits Softplus
    Softsign SparseSoftmaxCrossEntropyWithLogits
"""
HARMLESS = frozenset(" ".join((_FLOW, _STATE, _RANDOM, _MATHS, _ARRAYS, _NETWORKS)).split())

# No meaning outside TensorFlow: refused as such, and never run.
_FOREIGN = (
    (r".*(HashTable|LookupTable|InitializeTable).*", "lookup tables"),
    (r"(Experimental)?Parse.*Example.*|Decode(CSV|JSONExample|ProtoV2)", "parsing of records"),
    (r"Decode.*|Encode.*|ExtractJpegShape", "decoding and encoding of files"),
    (r"(Static)?Regex.*|String.*|Substr|AsString|ReduceJoin|Unicode.*|.*SegmentJoin", "text"),
    (r".*Queue.*|Barrier.*|.*Stage|.*Unstage.*", "queues"),
    (r"(Map|FlatMap|Batch|Range|Tensor|TensorSlice|Zip|Repeat|Shuffle)Dataset.*", "datasets"),
    (r"(Scalar|Histogram|Image|Audio|Tensor|Merge)Summary(V2)?", "summaries"),
    (
        r"Assign.*|Scatter(Add|Sub|Mul|Div|Min|Max|Update|Nd(Add|Sub|Update))|CountUpTo"
        r"|(Resource|Sparse|ResourceSparse)?Apply[A-Z].*|Resource(Scatter|StridedSlice).*",
        "writing of variables: a state that lasts from call to call",
    ),
)
# What is known of some that may not run; others are only not known to be harmless.
_HARMFUL = (
    (r".*PyFunc.*", "calls Python code"),
    (r"ReadFile|MatchingFiles|WholeFileReader.*|Restore.*|ImmutableConst", "reads files"),
    (r"WriteFile|Save.*|MergeV2Checkpoints|.*Summary.*", "writes files"),
    (r".*Dataset.*|.*Reader.*|.*Iterator.*|RecordInput", "reads files"),
    (r"PrintV2|Debug.*|Copy(Host)?", "can write files"),
    (r"Rpc.*|RemoteCall|.*Send.*|.*Recv.*|Collective.*", "talks to other processes"),
    (r"Xla.*|_Xla.*|TPU.*|TRTEngineOp|MlirPassthroughOp", "runs compiled code that it holds"),
)


_SAVER = re.compile(r"Save|SaveV2|Restore|RestoreV2|MergeV2Checkpoints|.*Summary.*")


def refuse(used: Sequence[Used], functions: Iterable[str], trust: bool, what: str) -> None:
    """Refuse operators that aren't known to be harmless, and those that have no meaning in ONNX.

    Args:
        used: The nodes that outputs depend on.
        functions: Names of the graph's own: a node whose operator is the name of one calls it.
        trust: Whether the user said that operators that act on the machine may run.
        what: The file, for messages.

    Raises:
        WorkerError: ``untrusted`` where there are some of the former, else ``unsupported``. Either
            way all of both are listed.
    """
    calls = {name for name in functions if not _is_registered(name)}
    nodes = [item for item in used if item.node.op not in calls]
    harmful = [] if trust else _lines(nodes, _harm)
    foreign = _lines(nodes, _foreign)
    if harmful:
        count = f"{len(harmful)} operators" if len(harmful) > 1 else "an operator"
        message = f"{what} holds {count} that may act on this machine; nothing of it was run"
        raise WorkerError("untrusted", message, harmful + foreign)
    if foreign:
        message = f"{what} uses operators that ONNX doesn't have"
        raise WorkerError("unsupported", message, foreign)


def elsewhere(graph: Graph, used: Sequence[Used]) -> list[str]:
    """Operators outside the part that is used that are known to act on the machine.

    Every SavedModel saves and restores its own variables; that isn't worth a word.
    """
    inside = {item.label for item in used}
    rest = [item for item in graph.used(graph.definition.node) if item.label not in inside]
    return _lines((i for i in rest if not _SAVER.fullmatch(i.node.op)), _known_harm)


def _is_registered(name: str) -> bool:
    """Whether a name is an operator of TensorFlow's, which a function of that name doesn't hide."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(name) is not None


def _lines(used: Iterable[Used], judge: Callable[[Any], str | None]) -> list[str]:
    found: dict[str, None] = {}
    for item in used:
        reason = judge(item.node)
        if reason:
            found[f"{item.node.op} ({item.label}): {reason}"] = None
    return list(found)


def _harm(node: Any) -> str | None:
    if node.op in HARMLESS or _foreign(node) or _prints(node):
        return None
    known = _first(_HARMFUL, node.op)
    if known is None and not _is_registered(node.op):
        return "TensorFlow doesn't know it: it is of a library that isn't loaded"
    return known or "it isn't known to be harmless"


def _known_harm(node: Any) -> str | None:
    return _harm(node) and _first(_HARMFUL, node.op)


def _prints(node: Any) -> bool:
    """Whether a node prints to the log, and not to a file."""
    return node.op == "PrintV2" and not attribute(node, "output_stream").s.startswith(b"file:")


def _foreign(node: Any) -> str | None:
    if node.op in ("Placeholder", "PlaceholderV2") and _is_text(node):
        return "an input of text"
    return None if node.op in HARMLESS else _first(_FOREIGN, node.op)


def _is_text(node: Any) -> bool:
    from tensorflow.core.framework import types_pb2

    return bool(attribute(node, "dtype").type == types_pb2.DT_STRING)


def _first(table: Iterable[tuple[str, str]], op: str) -> str | None:
    return next((reason for pattern, reason in table if re.fullmatch(pattern, op)), None)
