"""What ONNX's operators are, whatever they are used for: facts of their pages at the IR's opset.

A fact holds for every member with all its attributes and types, of the first input and the first
output where nothing else is said. ``tests/test_facts.py`` runs each member. A use that not all
members are right for takes some out and says why; what a target or a kernel does is no fact, and
stands with it. Sets have no order: what is printed is sorted.
"""

from __future__ import annotations

# fmt: off

RESHAPES = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
"""The input's elements in their order, in another shape."""

REARRANGES = RESHAPES | {"DepthToSpace", "Identity", "ReverseSequence", "SpaceToDepth", "Transpose"}
"""Each of the input's elements once, in any order."""

SELECTS = frozenset({
    "Compress", "Expand", "Gather", "GatherElements", "GatherND", "Slice", "Split", "Tile"
})
"""Elements of the input, some not at all, some several times; in all outputs, which a Split has."""

MOVES = REARRANGES | SELECTS
"""Elements of the first input and nothing else, by their places, whatever they are."""

EXTREMES = frozenset({"GlobalMaxPool", "MaxPool", "ReduceMax", "ReduceMin"})
"""Each element is one of the input's: the greatest or least of some. MaxPool's second output holds
places; of no elements at all, a reduction gives the type's own least or greatest number."""

MEANS = frozenset({"AveragePool", "GlobalAveragePool", "ReduceMean"})
"""Each element is the mean of some of the input's, of zeros too where an AveragePool counts those
that it pads with; integers are cut off."""

UNARY = frozenset({
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Cast", "CastLike",
    "Ceil", "Celu", "Clip", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid",
    "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not",
    "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus",
    "Softsign", "Sqrt", "Tan", "Tanh", "ThresholdedRelu"
})
"""Each element is a function of the input's at its place, everywhere the same: other inputs are
single numbers (Clip) or there for their type (CastLike)."""

ARITHMETIC = frozenset({"Add", "Div", "Mul", "Sub"})
"""The four on two inputs, each stretched to the other by numpy's rule."""

BROADCASTS = ARITHMETIC | {
    "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Greater",
    "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Or", "Pow", "Sum",
    "Where", "Xor"
}
"""Each element is a function of all inputs' at its place, each stretched to the others by numpy's
rule. (PRelu stretches its slope alone.)"""

REDUCTIONS = frozenset({
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"
})
"""One number of all along some axes, in whatever order they are."""

POOLS = frozenset({
    "AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LpPool", "MaxPool"
})
"""One number of each window (or of all) of each channel by itself: [batch, channels, space...]."""

CHANNELS_FIRST = POOLS | {
    "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "DepthToSpace", "LRN", "MaxUnpool",
    "QLinearConv", "SpaceToDepth"
}
"""Input and output are [batch, channels, space...]. Normalizations, whose pages have any axes in
the place of space, aren't among them."""

MATRIX_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""y = W x + b of floats, W the second input and b the third (MatMul has none)."""

RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
"""Products with the second and third input, step by step along a sequence."""

WEIGHTED = MATRIX_PRODUCTS | RECURRENT
"""Those that hold nearly all weights and arithmetic."""

INTEGER_PRODUCTS = frozenset({"ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"})
"""Sums of products of integers of eight bits."""

LINEAR = MOVES | MEANS | {
    "CenterCropPad", "Col2Im", "CumSum", "DFT", "GridSample", "MaxUnpool", "Neg", "ReduceSum",
    "STFT", "Trilu"
}
"""Of floats, other inputs held: f(s x) = s f(x) for every s, and f(x + y) = f(x) + f(y)."""

HOMOGENEOUS = LINEAR | EXTREMES | {
    "Abs", "GlobalLpPool", "LeakyRelu", "LpPool", "MaxRoiPool", "PRelu", "ReduceL1", "ReduceL2",
    "Relu", "RoiAlign"
}
"""Of floats, other inputs held: f(s x) = s f(x) for every s > 0."""

NOT_NEGATIVE = frozenset({
    "Abs", "Acos", "Acosh", "Cosh", "Exp", "GlobalLpPool", "HardSigmoid", "Hardmax", "LpPool",
    "ReduceL1", "ReduceL2", "ReduceSumSquare", "Relu", "Sigmoid", "Softmax", "Softplus", "Sqrt"
})
"""Of floats, no element is below zero, whatever comes in; NaN may be."""

BOUNDED = {
    **dict.fromkeys(("HardSigmoid", "Hardmax", "Sigmoid", "Softmax"), (0.0, 1.0)),
    **dict.fromkeys(("Cos", "Erf", "Sin", "Softsign", "Tanh"), (-1.0, 1.0)),
}
"""The least and the greatest element, whatever comes in: numbers that every float type has, and
zero between them."""

INDEXES = frozenset({"ArgMax", "ArgMin", "NonMaxSuppression", "NonZero", "Shape", "Size"})
"""Sizes, counts, or places along axes, from 0 on, in int64."""

CHOOSES = frozenset({"Compress", "NonMaxSuppression", "NonZero", "TopK", "Unique"})
"""What stands where along an output's axis, or how much, hangs on elements' values: those of the
second input in Compress."""

RANDOM = frozenset({
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike"
})
"""Drawn anew in each run. (So is what a Dropout in training leaves out.)"""

GIVES_SEQUENCES = frozenset({
    "Optional", "OptionalGetElement", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
    "SequenceInsert", "SequenceMap", "SplitToSequence"
})
"""The output is a sequence or an optional, or may be one."""

SEQUENCES = GIVES_SEQUENCES | {
    "ConcatFromSequence", "OptionalHasElement", "SequenceAt", "SequenceLength"
}
"""Those, and what makes tensors of sequences and optionals."""

STRINGS = frozenset({
    "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"
})
"""Computes on strings; TfIdfVectorizer on integers too."""

TRAINING = frozenset({"Adagrad", "Adam", "Gradient", "Momentum"})
"""Steps of training, in ai.onnx.preview.training."""
