"""RNN, GRU and LSTM: every attribute, a target's own operations, steps written out, loops."""

from pathlib import Path

import pytest

from emitters.tflite.lowering import lower
from tests.operators.cases import Case
from tests.operators.running import on_every_target
from tests.tflite_emitter.running import emitted

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
BOTH = 'direction="bidirectional"'
HARD = 'activations=["HardSigmoid", '
SIZES = "s=1 b=2, s=11 b=1"


def node(op: str, more: str = "", steps: int | str = "s", batch: int | str = "b", *,
         extra: str = "", weight: str = "!", dtype: str = "float") -> str:  # fmt: skip
    """One operator of 4 elements and 3 hidden ones; ``extra`` are operands from the lengths on."""
    ways, rows = 1 + ("bidirectional" in more), GATES[op] * 3
    results = "y, h, c" if op == "LSTM" else "y, h"
    given = ", ".join(f"{dtype} {weight}[{ways},{dims}]" for dims in
                      (f"{rows},4", f"{rows},3", 2 * rows))  # fmt: skip
    return (f"{results} = {op}<hidden_size=3{', ' if more else ''}{more}>"
            f"({dtype}[{steps},{batch},4], {given}{extra})")  # fmt: skip


def states(op: str, ways: int, batch: int | str) -> str:
    """Operands: lengths and what the states begin as."""
    return f", int32 l[{batch}]" + f", [{ways},{batch},3]" * (2 if op == "LSTM" else 1)


# fmt: off
CASES: dict[str, Case | str] = {
    **{f"{op}, {way}, free": Case(node(op, f'direction="{way}"'), "s=1 b=2, s=11 b=1, s=33 b=1", tflite="-CAST")
       for op in GATES for way in ("forward", "reverse", "bidirectional")},
    **{f"{op} of {steps} steps with lengths and states": Case(
        node(op, BOTH, steps, 2, extra=states(op, 2, 2)), feeds={"l": [steps, steps - 3]},
        tflite="WHILE" if steps == 40 else "-WHILE") for op in GATES for steps in (4, 40)},
    **{f"{op} of 8 steps stays a loop": Case(node(op, steps=8, batch=2, extra=states(op, 1, 2)), feeds={"l": [8, 5]},
        tflite="WHILE", coreml="while_loop") for op in GATES},
    **{f"{op} of free steps with lengths and states": Case(
        node(op, BOTH, "s", 3, extra=states(op, 2, 3)), "s=10", {"l": [10, 2, 3]})
       for op in GATES},
    **{f"{op} of {steps} steps: {more}": Case(node(op, more, steps, 2), ios=(17,))
       for steps in (3, 20) for op, more in (
        ("GRU", "linear_before_reset=1"), ("GRU", "clip=0.4"),
        ("GRU", f'{HARD}"ScaledTanh"], activation_alpha=[0.3,1.2], activation_beta=[0.4,0.7]'),
        ("RNN", 'activations=["Affine"], activation_alpha=[0.5], activation_beta=[0.1]'),
        ("RNN", 'activations=["Relu"]'), ("RNN", 'activations=["Relu"], clip=2.0'),
        ("RNN", 'activations=["LeakyRelu"], activation_alpha=[0.2]'),
        ("RNN", 'activations=["ThresholdedRelu"], activation_alpha=[0.3], clip=1.5'),
        ("LSTM", "input_forget=1"), ("LSTM", "clip=0.3"),
        ("LSTM", 'activations=["Sigmoid", "Softsign", "Softsign"]'),
        ("LSTM", 'activations=["Sigmoid", "Softplus", "Tanh"]'))},
    **{f"{op}, free: {more}": Case(node(op, more), SIZES) for op, more in (
        ("GRU", "linear_before_reset=1"), ("GRU", "clip=0.3"), ("LSTM", "input_forget=1"), ("LSTM", "clip=0.3"))},
    **{f"{op} of other functions: {more}": Case(node(op, more, 4, 2)) for op, more in (
        ("LSTM", f'{HARD}"Softsign", "ScaledTanh"], activation_alpha=[0.3,1.2], activation_beta=[0.4,0.6]'),
        ("LSTM", f'{HARD}"Tanh", "Softplus"]'),
        ("GRU", f'{HARD}"ThresholdedRelu"], activation_alpha=[0.3,0.2], activation_beta=[0.4]'),
        ("GRU", 'activations=["Sigmoid", "LeakyRelu"], activation_alpha=[0.2]'))},
    "Elu and Affine": Case(
        node("LSTM", 'activations=["Sigmoid", "Elu", "Affine"], activation_alpha=[0.7,0.5], activation_beta=[0.1]', 4, 2)),
    "peepholes": Case(node("LSTM", BOTH, 18, 2, extra=", , , , ![2,9]")),
    "peepholes, free": Case(node("LSTM", extra=", , , , ![1,9]"), SIZES),
    **{f"{op}, computed weights": Case(node(op, BOTH, steps, 2, weight=""))
       for op, steps in (("RNN", 3), ("GRU", 9), ("LSTM", 3))},
    **{f"MIL's own: {op}, {way}": Case(node(op, f'direction="{way}"'), SIZES, coreml=made) for op, way, made in (
        ("LSTM", "reverse", "reverse*2 lstm*1"), ("LSTM", "bidirectional", "lstm*1 -reverse"),
        ("RNN", "bidirectional", "rnn*2 reverse*2"))},
    **{f"LSTM of {steps} steps, twice": Case(node("LSTM", "", steps, 2), feeds=[{}, {}]) for steps in (3, 20)},
    "float16": Case(node("LSTM", "", 5, 2, dtype="float16"), tol=1e-2, ios=(16, 17)),
    "quantized weights": Case("""
        v = DequantizeLinear(int8![1,12,4], $0.2); t = DequantizeLinear(int8![1,12,3], $0.2)
        y = LSTM<hidden_size=3>([5,b,4], v, t)""", "b=2", coreml="lstm"),
}
for op in GATES:
    for steps in (3, 20):
        first = node(op, f"layout=1, {BOTH}", 2, steps, extra=", , k").replace("y, h, c", "y, h, _c")
        plain = node(op, BOTH, steps, 2, extra=", , u").replace("y, h", "v, g", 1)
        CASES[f"{op} of {steps} steps, batch first"] = Case(
            f"k = Abs([2,2,3]); {first}", like=f"""k = Abs([2,2,3]); u = Transpose<perm=[1,0,2]>(k)
            t = Transpose<perm=[1,0,2]>([2,{steps},4]); {plain.replace(f"float[{steps},2,4]", "t").replace(", c", ", _c")}
            y = Transpose<perm=[2,0,1,3]>(v); h = Transpose<perm=[1,0,2]>(g)""")

test = on_every_target(CASES)


def test_many_steps_stay_a_small_file(tmp_path: Path) -> None:
    long, short = (
        emitted(Case(node("LSTM", BOTH, steps, 2)).model(), tmp_path / str(steps)).stat().st_size
        for steps in (100, 17)
    )
    assert abs(long - short) < 500


@pytest.mark.parametrize(
    ("text", "most"),
    [(node("LSTM", BOTH), 59), (node("GRU"), 33), (node("LSTM", BOTH, 20, 2), 49),
     (node("LSTM", BOTH, "s", 3, extra=states("LSTM", 2, 3)), 70)],
)  # fmt: skip
def test_a_loop_over_steps_has_no_operator_too_many(text: str, most: int) -> None:
    lowered = lower(Case(text).model())
    assert sum(len(graph.operators) for graph in lowered.model.subgraphs) == most
