"""Operators that targets for devices can't have, and why: not that nobody wrote a lowering."""

from __future__ import annotations

from converter.ir.facts import RANDOM, SEQUENCES, STRINGS, TRAINING


def reasons(random: str, strings: str, sequences: str, training: str) -> dict[str, str]:
    """Why there is no lowering, by operator of ai.onnx or ai.onnx.ml.

    Args:
        random: Why of those that make random numbers.
        strings: Why of those that compute on strings.
        sequences: Why of those that compute on sequences, optionals or maps.
        training: Why of those that train.
    """
    return {
        **dict.fromkeys(RANDOM, random),
        **dict.fromkeys(STRINGS | {"LabelEncoder"}, strings),
        **dict.fromkeys(SEQUENCES | {"ZipMap"}, sequences),
        **dict.fromkeys(TRAINING, training),
    }
