"""Operators that targets for devices can't have, and why: not that nobody wrote a lowering."""

from __future__ import annotations

_RANDOM = (
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike",
)  # fmt: skip
_STRINGS = (
    "LabelEncoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit",
    "TfIdfVectorizer",
)  # fmt: skip
_SEQUENCES = (
    "ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt",
    "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
    "SequenceMap", "SplitToSequence", "ZipMap",
)  # fmt: skip
_TRAINING = ("Adagrad", "Adam", "Gradient", "Momentum")


def reasons(random: str, strings: str, sequences: str, training: str) -> dict[str, str]:
    """Why there is no lowering, by operator of ai.onnx or ai.onnx.ml.

    Args:
        random: Why of those that make random numbers.
        strings, sequences: Why of those that compute on strings; on sequences, optionals or maps.
        training: Why of those that train.
    """
    return {
        **dict.fromkeys(_RANDOM, random),
        **dict.fromkeys(_STRINGS, strings),
        **dict.fromkeys(_SEQUENCES, sequences),
        **dict.fromkeys(_TRAINING, training),
    }
