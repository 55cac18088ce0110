"""Why operators have no lowering, where it isn't that nobody wrote one."""

from __future__ import annotations

_RANDOM = (
    "TFLite's generators give other numbers than any other runtime's: what it computes can't be "
    "checked"
)
_STRINGS = "LiteRT's kernels compute on no strings"
_SEQUENCES = "TFLite has tensors alone, no sequences, optionals or maps"
_TRAINING = "it is for training"

REASONS: dict[str, str] = {
    **dict.fromkeys(
        ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
         "RandomUniformLike"), _RANDOM,
    ),
    **dict.fromkeys(
        ("LabelEncoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit",
         "TfIdfVectorizer"), _STRINGS,
    ),
    **dict.fromkeys(
        ("ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement",
         "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
         "SequenceLength", "SequenceMap", "SplitToSequence", "ZipMap"), _SEQUENCES,
    ),
    **dict.fromkeys(("Adagrad", "Adam", "Gradient", "Momentum"), _TRAINING),
}  # fmt: skip
"""By operator of ai.onnx or ai.onnx.ml."""
