"""The oldest TensorFlow Lite runtime that has all operators of a file, in their versions.

It goes into the file as metadata ``min_runtime_version``, as TensorFlow's converter has it.
Source: ``runtime_version.cc`` of LiteRT.
"""

from __future__ import annotations

from collections.abc import Iterable

NAME = "min_runtime_version"
_BYTES = 16

RUNTIMES: dict[str, str] = {
    "ABS": "1.13 2.4 2.5 2.6 2.12",
    "ADD": "1.5 1.14 2.4 2.6 2.13",
    "ARG_MAX": "1.9 1.14 2.9",
    "ARG_MIN": "1.9 1.14 2.9",
    "ASSIGN_VARIABLE": "2.6",
    "ATAN2": "2.10",
    "AVERAGE_POOL_2D": "1.5 1.14 2.3",
    "BATCH_MATMUL": "2.3 2.3 2.4 2.5",
    "BATCH_TO_SPACE_ND": "1.6 1.14 2.3 2.12",
    "BITCAST": "2.13",
    "BITWISE_XOR": "2.13",
    "BROADCAST_ARGS": "2.6",
    "BROADCAST_TO": "- 2.5 2.5",
    "CALL_ONCE": "2.5",
    "CAST": "1.5 2.7 2.8 2.9 2.12 2.15 2.17",
    "CEIL": "1.14",
    "CONCATENATION": "1.5 1.14 2.3 2.14",
    "CONV_2D": "1.5 1.14 1.14 2.3 2.4 2.9 2.11 2.15",
    "CONV_3D": "2.5",
    "CONV_3D_TRANSPOSE": "2.6",
    "COS": "1.14",
    "CUMSUM": "2.4",
    "DEPTHWISE_CONV_2D": "1.5 1.12 1.14 2.2 2.3 2.3 2.11",
    "DEPTH_TO_SPACE": "2.1 2.5",
    "DEQUANTIZE": "1.13.1 1.14 1.15 2.2 2.7 2.18",
    "DILATE": "2.15",
    "DIV": "1.6 2.3",
    "DYNAMIC_UPDATE_SLICE": "2.9 2.17 2.19 2.20",
    "ELU": "1.14",
    "EQUAL": "1.14 1.14 2.3 2.13",
    "EXP": "1.7 2.12",
    "EXPAND_DIMS": "1.10",
    "FILL": "1.13 2.3 2.5 2.12",
    "FLOOR": "1.9",
    "FLOOR_DIV": "1.14 1.14 2.13",
    "FLOOR_MOD": "1.13 2.13",
    "FULLY_CONNECTED": "1.5 1.10 1.14 1.14 2.0 2.1 2.3 2.3 2.3 2.11 2.15 2.17 2.18",
    "GATHER": "1.6 1.14 1.15 2.4 2.5 2.13 2.15",
    "GATHER_ND": "1.14 2.3 2.5 2.13 2.16",
    "GELU": "2.9 2.9",
    "GREATER": "1.14 1.14",
    "GREATER_EQUAL": "1.14 1.14 2.13",
    "HARD_SWISH": "1.15",
    "IF": "1.15",
    "L2_NORMALIZATION": "1.5 1.14",
    "L2_POOL_2D": "1.5",
    "LEAKY_RELU": "1.13.1 2.3",
    "LESS": "1.14 1.14 2.13",
    "LESS_EQUAL": "1.14 1.14",
    "LOCAL_RESPONSE_NORMALIZATION": "1.5",
    "LOG": "1.14 2.15",
    "LOGICAL_AND": "1.11",
    "LOGICAL_NOT": "1.11",
    "LOGICAL_OR": "1.11",
    "LOGISTIC": "1.14 1.14 2.3",
    "LOG_SOFTMAX": "1.14 1.14",
    "MAXIMUM": "1.14 1.14 2.3 2.3",
    "MAX_POOL_2D": "1.5 1.14 2.3",
    "MEAN": "1.6 1.14 2.4",
    "MINIMUM": "1.14 1.14 2.3 2.3",
    "MIRROR_PAD": "1.13.1 2.3 2.12",
    "MUL": "1.5 1.14 1.15 2.3 2.6 2.11 2.13",
    "MULTINOMIAL": "2.8",
    "NEG": "1.9",
    "NON_MAX_SUPPRESSION_V4": "2.1",
    "NON_MAX_SUPPRESSION_V5": "2.1",
    "NOT_EQUAL": "1.14 1.14 2.3",
    "ONE_HOT": "1.11",
    "PACK": "1.11 1.14 2.3 2.13",
    "PAD": "1.5 1.14 2.4 2.6",
    "PADV2": "1.9 1.14 2.4 2.6",
    "POW": "1.10",
    "PRELU": "1.8",
    "QUANTIZE": "1.14 1.15 2.7",
    "RANDOM_STANDARD_NORMAL": "2.8",
    "RANDOM_UNIFORM": "2.8",
    "RANGE": "1.13 2.14",
    "READ_VARIABLE": "2.6",
    "REDUCE_ALL": "2.6",
    "REDUCE_ANY": "1.11",
    "REDUCE_MAX": "1.11 1.14 2.5",
    "REDUCE_MIN": "1.11 1.14 2.5",
    "REDUCE_PROD": "1.11 2.6",
    "RELU": "1.5 2.1 2.5",
    "RELU6": "1.5 1.14 2.5",
    "RELU_0_TO_1": "2.10",
    "RELU_N1_TO_1": "1.5",
    "RESHAPE": "1.5",
    "RESIZE_BILINEAR": "1.7 1.14 2.2 2.5",
    "RESIZE_NEAREST_NEIGHBOR": "1.13.1 1.14 2.3 2.4",
    "REVERSE_SEQUENCE": "1.14",
    "REVERSE_V2": "1.14 2.2 2.5",
    "RIGHT_SHIFT": "2.13",
    "ROUND": "1.14",
    "RSQRT": "1.10 2.5 2.15",
    "SCATTER_ND": "2.1",
    "SELECT": "1.14 1.14 2.12 2.12",
    "SELECT_V2": "2.2 2.12",
    "SHAPE": "1.10",
    "SIGN": "2.11 2.12",
    "SIN": "1.9",
    "SLICE": "1.14 1.14 1.14 2.4 2.5 2.14",
    "SOFTMAX": "1.5 1.14 2.3",
    "SPACE_TO_BATCH_ND": "1.6 1.14 2.3 2.12",
    "SPACE_TO_DEPTH": "1.5 1.14",
    "SPLIT": "1.5 1.14 1.14 2.3",
    "SPLIT_V": "1.13.1 2.3",
    "SQRT": "1.10",
    "SQUARE": "1.12",
    "SQUARED_DIFFERENCE": "1.13.1 2.5",
    "SQUEEZE": "1.6 2.5",
    "STABLEHLO_ADD": "2.16",
    "STABLEHLO_MAXIMUM": "2.16",
    "STABLEHLO_MINIMUM": "2.16",
    "STABLEHLO_MULTIPLY": "2.16",
    "STABLEHLO_SCATTER": "2.15",
    "STRIDED_SLICE": "1.6 1.14 2.1 2.2 2.5 2.6 2.14 2.14",
    "SUB": "1.6 1.14 2.3 2.4 2.4",
    "SUM": "1.10 1.15",
    "TANH": "1.14 1.14 2.3",
    "TILE": "1.10.1 2.2 2.8",
    "TOPK_V2": "1.7 1.14 2.13",
    "TRANSPOSE": "1.6 1.14 1.15 2.3 2.4 2.12 2.14.4",
    "TRANSPOSE_CONV": "1.9 2.2 2.3 2.13 2.15",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "1.13.1 1.14 2.3 2.12",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "1.14 1.14 2.3",
    "UNPACK": "1.11 1.14 2.2 2.3",
    "VAR_HANDLE": "2.6",
    "WHERE": "1.14 2.8",
    "WHILE": "1.15",
    "ZEROS_LIKE": "1.12",
}
"""The runtimes that brought versions 1, 2, 3... of each operator; those that aren't listed aren't
in the source either."""


def oldest_runtime(codes: Iterable[tuple[str, int]]) -> str:
    """The runtime, as in ``2.11.0``; empty where the source knows none of the operators.

    Args:
        codes: Operators with their versions.
    """
    known = [found for op, version in codes if (found := _runtime(op, version))]
    if not known:
        return ""
    newest = max(known)
    return ".".join(map(str, (*newest, 0)[:3]))


def _runtime(op: str, version: int) -> tuple[int, ...]:
    listed = RUNTIMES.get(op, "").split()
    text = listed[version - 1] if version <= len(listed) else "-"
    return () if text == "-" else tuple(map(int, text.split(".")))


def stored(runtime: str) -> bytes:
    """The metadata's bytes: the text and zeros, 16 in all."""
    return runtime.encode().ljust(_BYTES, b"\0")
