"""Which inputs of a case may be made constant: what a network holds, not what flows through it.

The official tests feed everything at run time: the shape of a Reshape, the axes of a reduction,
the weights of a Conv. In a network these are constants, and targets may want them so. A case
that is refused as it is, is tried again with them as initializers: first with what says how an
operator works (sizes, axes, counts, limits), then with weights as well. Both are told apart by
the names that ONNX's operator schemas have for inputs, never by the values of a case. What is
data in networks too stays an input: both sides of MatMul, indices, conditions, initial states,
sequence lengths, masks.
"""

import onnx

from tests.conformance.cases import Case


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SETTINGS = _words("""
axes axis shape size sizes scales roi pads constant_value repeats split starts ends steps k depth
values min max ratio training_mode output_shape image_shape block_shape
max_output_boxes_per_class iou_threshold score_threshold start limit delta
num_mel_bins dft_length sample_rate lower_edge_hertz upper_edge_hertz frame_step frame_length
""")
"""Schema names of inputs that say how an operator works."""

WEIGHTS = _words("""
W w R P weight weights bias scale Scale slope input_mean input_var window x_scale x_zero_point
y_scale y_zero_point w_scale w_zero_point a_scale a_zero_point b_scale b_zero_point
""")
"""Schema names of inputs that hold weights and scales."""

_SETTINGS_OF = {"ConstantOfShape": {"input"}, "TopK": {"K"}}
_B_IS_DATA = _words("""
Add And BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual
MatMul MatMulInteger Mod Mul Or Sub SwiGLU Xor
""")

STAGES = ("as it is", "settings", "weights")
"""What is constant, one try after the other; the last has the settings constant too."""


def constant_inputs(case: Case, stage: str) -> list[str]:
    """The names of the graph's inputs that are made initializers at a stage."""
    if stage == STAGES[0] or case.special:  # special ones have no tensors to take
        return []
    chosen = []
    for name, formal in case.parameters.items():
        setting = formal in SETTINGS or formal in _SETTINGS_OF.get(case.op, ())
        if setting or (stage == "weights" and _is_weight(case.op, formal)):
            chosen.append(name)
    return chosen


def _is_weight(op: str, formal: str) -> bool:
    if formal == "B":
        return op not in _B_IS_DATA
    return formal in WEIGHTS or (formal == "C" and op == "Gemm")


def make_constant(model: onnx.ModelProto, names: list[str],
                  values: dict[str, onnx.TensorProto]) -> None:  # fmt: skip
    """Turns inputs of ``model`` into initializers with the values that the case feeds."""
    kept = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for name in names:
        tensor = model.graph.initializer.add()
        tensor.CopyFrom(values[name])
        tensor.name = name
