"""Rules for operators whose version hangs on more than the first input's type.

Source: ``GetBuiltinOperatorVersion`` in ``op_version.cc`` of LiteRT. The lowest version that has
what the operator uses is asked for; :mod:`emitters.tflite.versions` has the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from emitters.tflite.graph import DataType, Operator, Tensor

F32, F16, F64 = DataType.FLOAT, DataType.FLOAT16, DataType.DOUBLE
I8, I16, I32, I64 = DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64
U8, U16, U32 = DataType.UINT8, DataType.UINT16, DataType.UINT32
I4, BOOL, STRING = DataType.INT4, DataType.BOOL, DataType.STRING

_SMALL = {I8: 2}
_BOTH = {I16: 3, I8: 2}

_Rule = Callable[[Operator], int]
RULES: dict[str, _Rule] = {}


def _rule(*operators: str) -> Callable[[_Rule], _Rule]:
    def register(rule: _Rule) -> _Rule:
        RULES.update(dict.fromkeys(operators, rule))
        return rule

    return register


def _input(operator: Operator, index: int) -> Tensor | None:
    return operator.inputs[index] if index < len(operator.inputs) else None


def _type(operator: Operator, index: int = 0) -> DataType:
    tensor = _input(operator, index)
    return DataType.UNDEFINED if tensor is None else tensor.dtype


def _types(operator: Operator) -> tuple[DataType, DataType, DataType]:
    """Those of data, weights and result."""
    return _type(operator, 0), _type(operator, 1), operator.outputs[0].dtype


def _rank(operator: Operator, index: int = 0) -> int:
    tensor = _input(operator, index)
    return 0 if tensor is None else tensor.rank


def _by_channel(operator: Operator, index: int) -> bool:
    tensor = _input(operator, index)
    return tensor is not None and tensor.quant is not None and tensor.quant.scale.size > 1


def _has_scale(operator: Operator, index: int = 0) -> bool:
    tensor = _input(operator, index)
    return tensor is not None and tensor.quant is not None


def _broadcasts_widely(operator: Operator) -> bool:
    """Whether two operands of different shapes have more than four dimensions."""
    first, second = _input(operator, 0), _input(operator, 1)
    if first is None or second is None or first.shape == second.shape:
        return False
    return max(first.rank, second.rank) > 4


# -- convolutions and matrices -----------------------------------------------------------


@_rule("CONV_2D")
def _conv(operator: Operator) -> int:
    if _types(operator) == (I16, I8, I16) and operator.options.get("quantizedBiasType"):
        return 8
    x, weights = operator.inputs[0], operator.inputs[1]
    if x is not None and weights is not None and x.shape[3] != weights.shape[3]:
        return 6
    if _types(operator) == (F32, I8, F32):
        return 5 if _by_channel(operator, 1) else 2
    return {(I8, I8, I8): 3, (I8, I4, I8): 7, (I16, I8, I16): 4}.get(_types(operator), 1)


@_rule("DEPTHWISE_CONV_2D")
def _depthwise(operator: Operator) -> int:
    if _types(operator) == (I16, I8, I16):
        return 5  # the source asks for int16 weights here, which there is no kernel for
    if _types(operator) == (F32, I8, F32):
        return 6 if _by_channel(operator, 1) else 4
    if _types(operator) in ((I8, I8, I8), (I8, I4, I8)):
        return 3 if _type(operator, 1) == I8 else 7
    dilations = (operator.options.get(f"dilation{side}Factor", 1) for side in "WH")
    return 2 if any(dilation != 1 for dilation in dilations) else 1


@_rule("FULLY_CONNECTED")
def _dense(operator: Operator) -> int:
    types, options = _types(operator), operator.options
    if types == (I16, I4, I16):
        return 13
    if types == (F32, I8, F32) and _by_channel(operator, 1):
        return 12
    if types == (I16, I8, I16) and options.get("quantizedBiasType"):
        return 11
    if types == (I16, I16, I16):
        return 7
    if len(operator.inputs) == 2:
        return 6
    if options.get("keepNumDims"):
        return 5
    if types == (F32, I8, F32):
        return 9 if options.get("asymmetricQuantizeInputs") else 3
    return {(I8, I8, I8): 4, (I8, I4, I8): 10}.get(types, 1)


@_rule("TRANSPOSE_CONV")
def _transpose_conv(operator: Operator) -> int:
    # Inputs: output shape, weights, data, bias. The source looks at the first two's types here.
    if _types(operator) == (I16, I8, I16) and operator.options.get("quantizedBiasType"):
        return 5
    if operator.options.get("fusedActivationFunction"):
        return 4
    if len(operator.inputs) == 4 and operator.inputs[3] is not None:
        return 3
    return 2 if _type(operator, 1) == I8 else 1


@_rule("BATCH_MATMUL")
def _batch_matmul(operator: Operator) -> int:
    if _types(operator) == (F32, I8, F32) and operator.options.get("asymmetricQuantizeInputs"):
        return 4
    return _BOTH.get(_type(operator), 1)


@_rule("UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN", "RNN")
def _rnn(operator: Operator) -> int:
    if _type(operator, 1) == I8 and operator.outputs[0].dtype == F32:
        return 3 if operator.options.get("asymmetricQuantizeInputs") else 2
    return 1


@_rule("UNIDIRECTIONAL_SEQUENCE_LSTM")
def _lstm(operator: Operator) -> int:
    types = (_type(operator, 0), _type(operator, 2), operator.outputs[0].dtype)
    if types == (I16, I8, I16):
        return 5
    if operator.options.get("diagonalRecurrentTensors"):
        return 4
    if types == (F32, I8, F32):
        return 3 if operator.options.get("asymmetricQuantizeInputs") else 2
    return 1


# -- arithmetic --------------------------------------------------------------------------


@_rule("ADD")
def _add(operator: Operator) -> int:
    kind = _type(operator)
    if kind == I16 and not _has_scale(operator):
        return 5
    if kind == I16 and not operator.options.get("potScaleInt16", True):
        return 3
    return {I64: 4, I8: 2}.get(kind, 1)


@_rule("SUB")
def _sub(operator: Operator) -> int:
    kind = _type(operator)
    if kind == I16 and not operator.options.get("potScaleInt16", True):
        return 5
    if kind == I64:
        return 4
    if _broadcasts_widely(operator):
        return 3
    return _SMALL.get(kind, 1)


@_rule("MUL")
def _mul(operator: Operator) -> int:
    kind = _type(operator)
    if (kind == I16 and not _has_scale(operator)) or kind == U32:
        return 7
    if kind in (DataType.COMPLEX64, I64, I16):
        return {DataType.COMPLEX64: 6, I64: 5, I16: 4}[kind]
    if _rescale(operator) >= 1:
        return 3
    return _SMALL.get(kind, 1)


def _rescale(operator: Operator) -> float:
    """What a product of integers is multiplied by; 0 without scales."""
    quants = [t.quant for t in (*operator.inputs, *operator.outputs) if t is not None]
    scales = [float(quant.scale[0]) for quant in quants if quant is not None]
    if len(scales) != 3 or 0 in scales:
        return 0.0
    return scales[0] * scales[1] / scales[2]


@_rule("DIV")
def _div(operator: Operator) -> int:
    return 2 if _broadcasts_widely(operator) else 1


@_rule("MAXIMUM", "MINIMUM")
def _extreme(operator: Operator) -> int:
    if _type(operator) == I16:
        return 4
    return 3 if _broadcasts_widely(operator) else _SMALL.get(_type(operator), 1)


@_rule("ABS")
def _abs(operator: Operator) -> int:
    if _type(operator) == I16:
        return 3 if _has_scale(operator) else 4
    return {I32: 5, I8: 2, U8: 2}.get(_type(operator), 1)


# -- moving and choosing -----------------------------------------------------------------


@_rule("BROADCAST_TO")
def _broadcast_to(operator: Operator) -> int:
    # Version 1 was another operator, and was taken back.
    return 3 if _type(operator) in (I8, I16) else 2


@_rule("CAST")
def _cast(operator: Operator) -> int:
    kinds = {_type(operator), operator.outputs[0].dtype}
    if (_type(operator), operator.outputs[0].dtype) == (I4, F32):
        return 6
    for version, types in (
        (7, {DataType.BFLOAT16}), (5, {F64, F16}), (4, {U16}), (3, {I8}), (2, {U32}),
    ):  # fmt: skip
        if kinds & types:
            return version
    return 1


@_rule("DEQUANTIZE")
def _dequantize(operator: Operator) -> int:
    kind = _type(operator)
    if kind == I8:
        return 5 if _by_channel(operator, 0) else 2
    return {I4: 6, I16: 3, F16: 3}.get(kind, 1)


@_rule("QUANTIZE")
def _quantize(operator: Operator) -> int:
    result = operator.outputs[0]
    if I4 in (_type(operator), result.dtype):
        return 4
    if result.quant is not None and result.quant.scale.size > 1:
        return 3
    return 2 if result.dtype == I16 else 1


@_rule("DYNAMIC_UPDATE_SLICE")
def _update_slice(operator: Operator) -> int:
    if _type(operator) in (I16, F16):
        return {I16: 4, F16: 3}[_type(operator)]
    return 2 if _type(operator, 2) == I64 else 1


@_rule("FILL")
def _fill(operator: Operator) -> int:
    return {F16: 4, I8: 3, I16: 3, BOOL: 2, STRING: 2}.get(_type(operator, 1), 1)


@_rule("GATHER")
def _gather(operator: Operator) -> int:
    if _type(operator) == I4:
        return 7
    if _type(operator, 1) == I16:
        return 6
    if operator.options.get("batchDims"):
        return 5
    return {I16: 4, BOOL: 3, I8: 2}.get(_type(operator), 1)


@_rule("GATHER_ND")
def _gather_nd(operator: Operator) -> int:
    if _type(operator) != BOOL and _type(operator, 1) == I16:
        return 4
    return {BOOL: 5, I16: 3, STRING: 2}.get(_type(operator), 1)


@_rule("L2_NORMALIZATION")
def _l2_normalization(operator: Operator) -> int:
    return _SMALL.get(operator.outputs[0].dtype, 1)


@_rule("PAD", "PADV2")
def _pad(operator: Operator) -> int:
    if _type(operator) == BOOL:
        return 5
    return 4 if _rank(operator) > 4 else _BOTH.get(_type(operator), 1)


@_rule("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(operator: Operator) -> int:
    if _type(operator) == I16:
        return 4
    settings = ["halfPixelCenters"]
    if operator.op == "RESIZE_NEAREST_NEIGHBOR":
        settings.append("alignCorners")
    if any(operator.options.get(setting) for setting in settings):
        return 3
    return _SMALL.get(_type(operator), 1)


@_rule("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")
def _batches(operator: Operator) -> int:
    if _type(operator) == I16:
        return 4
    return 3 if _rank(operator) != 4 else _SMALL.get(_type(operator), 1)


@_rule("SELECT")
def _select(operator: Operator) -> int:
    if _type(operator) == U32:
        return 4
    if any(_rank(operator, index) == 5 for index in range(3)):
        return 3
    return _SMALL.get(_type(operator), 1)


@_rule("SLICE")
def _slice(operator: Operator) -> int:
    if _type(operator) == U32:
        return 6
    if _rank(operator) > 4:
        return 5
    return {I16: 4, STRING: 3, I8: 2}.get(_type(operator), 1)


@_rule("STRIDED_SLICE")
def _strided_slice(operator: Operator) -> int:
    options = operator.options
    if options.get("offset"):
        return 8
    if _type(operator) == U32:
        return 7
    if options.get("ellipsisMask") or options.get("newAxisMask"):
        return 6
    if _type(operator) == STRING:
        return 5
    return 4 if _rank(operator) > 4 else {BOOL: 3, I8: 2}.get(_type(operator), 1)


@_rule("SPLIT")
def _split(operator: Operator) -> int:
    return {I16: 4, I32: 3, I8: 2}.get(_type(operator, 1), 1)


@_rule("TOPK_V2")
def _top_k(operator: Operator) -> int:
    kinds = (_type(operator), _type(operator, 1), operator.outputs[1].dtype)
    return 3 if I16 in kinds else _SMALL.get(_type(operator), 1)


@_rule("TRANSPOSE")
def _transpose(operator: Operator) -> int:
    kind, rank = _type(operator), _rank(operator)
    if kind == I4:
        return 7
    if rank > 5:
        return 6
    if kind == I16:
        return 5
    return 4 if rank > 4 else {BOOL: 3, I8: 2}.get(kind, 1)


@_rule("WHERE")
def _where(operator: Operator) -> int:
    return 1 if _type(operator) == BOOL else 2
