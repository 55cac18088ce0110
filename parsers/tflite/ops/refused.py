"""Why operators without a lowering have none."""

from __future__ import annotations

from parsers.tflite.model import Operator

_FAMILIES = {
    "STABLEHLO_": "StableHLO operators in TFLite files are not supported",
    "HASHTABLE": "lookup tables are not part of the graph in ONNX",
    "Flex": "it runs TensorFlow's own kernel",
    "TFLite_Detection_PostProcess": "its non-maximum suppression per class has no counterpart "
    "in ONNX with the same results",
}
_REMEDIES = {
    "HASHTABLE": "look the strings up before the model",
    "Flex": "convert the TensorFlow model instead of this file",
    "TFLite_Detection_PostProcess": "take the outputs before it, and do it after the model",
}
_SINGLE = {
    "BITCAST": "ONNX (opset 20) has no reinterpretation of bits",
    "LSH_PROJECTION": "it hashes, which ONNX can't",
    "SKIP_GRAM": "it works on strings",
    "CALL_ONCE": "its initialization of variables could not be computed in advance",
    "VAR_HANDLE": "its variable could not be made an input and an output",
    "READ_VARIABLE": "its variable could not be made an input and an output",
    "ASSIGN_VARIABLE": "its variable could not be made an input and an output",
    "DELEGATE": "it stands for a part that a delegate ran on one device",
    "RANDOM_STANDARD_NORMAL": "random numbers can't be checked against the source's",
    "RANDOM_UNIFORM": "random numbers can't be checked against the source's",
    "MULTINOMIAL": "random numbers can't be checked against the source's",
}


def reason_for(operator: Operator) -> tuple[str, str]:
    """Why, and what can be done about it (or nothing)."""
    for start, reason in _FAMILIES.items():
        if operator.name.startswith(start):
            return reason, _REMEDIES.get(start, "")
    if operator.custom:
        return "a custom operator, whose meaning isn't in the file", ""
    return _SINGLE.get(operator.name, "Modelyard can't convert it to ONNX"), ""
