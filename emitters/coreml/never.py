"""Why operators have no lowering, where it isn't that nobody wrote one."""

from __future__ import annotations

from emitters.coreml import limits

REASONS: dict[str, str] = {
    **dict.fromkeys(
        ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
         "RandomUniformLike"), limits.RANDOM,
    ),
    **dict.fromkeys(
        ("LabelEncoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit",
         "TfIdfVectorizer"), limits.STRINGS,
    ),
    **dict.fromkeys(
        ("ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement",
         "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
         "SequenceLength", "SequenceMap", "SplitToSequence", "ZipMap"), limits.SEQUENCES,
    ),
    **dict.fromkeys(("Adagrad", "Adam", "Gradient", "Momentum"), limits.TRAINING),
}  # fmt: skip
"""By operator of ai.onnx or ai.onnx.ml."""
