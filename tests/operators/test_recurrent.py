"""RNN, GRU and LSTM: every attribute, a target's own operations, steps written out, loops."""

from pathlib import Path

import pytest

from emitters.tflite.lowering import lower
from tests.operators.cases import Case, Emits
from tests.operators.running import TARGETS, check
from tests.tflite_emitter.running import emitted

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
BOTH = 'direction = "bidirectional"'
HARD = 'activations = ["HardSigmoid", '
SIZES = [{"s": 1, "b": 2}, {"s": 11, "b": 1}]
FUNCTIONS = [
    ("GRU", "linear_before_reset = 1"),
    ("GRU", "clip = 0.4"),
    ("GRU", f'{HARD}"ScaledTanh"], activation_alpha = [0.3, 1.2], activation_beta = [0.4, 0.7]'),
    ("RNN", 'activations = ["Affine"], activation_alpha = [0.5], activation_beta = [0.1]'),
    ("RNN", 'activations = ["Relu"]'),
    ("RNN", 'activations = ["Relu"], clip = 2.0'),
    ("RNN", 'activations = ["LeakyRelu"], activation_alpha = [0.2]'),
    ("RNN", 'activations = ["ThresholdedRelu"], activation_alpha = [0.3], clip = 1.5'),
    ("LSTM", "input_forget = 1"),
    ("LSTM", "clip = 0.3"),
    ("LSTM", 'activations = ["Sigmoid", "Softsign", "Softsign"]'),
    ("LSTM", 'activations = ["Sigmoid", "Softplus", "Tanh"]'),
]
OTHER_FUNCTIONS = [
    (
        "LSTM",
        f'{HARD}"Softsign", "ScaledTanh"], activation_alpha = [0.3, 1.2], activation_beta = [0.4, 0.6]',
    ),
    ("LSTM", f'{HARD}"Tanh", "Softplus"]'),
    ("GRU", f'{HARD}"ThresholdedRelu"], activation_alpha = [0.3, 0.2], activation_beta = [0.4]'),
    ("GRU", 'activations = ["Sigmoid", "LeakyRelu"], activation_alpha = [0.2]'),
]


def layer(op: str, more: str = "", steps: int | str = "s", batch: int | str = "b", *,
          begun: bool = False, computed: bool = False) -> str:  # fmt: skip
    """A graph of one operator of 4 elements and 3 hidden ones.

    Args:
        more: Attributes.
        begun: Whether lengths and what the states begin as are inputs.
        computed: Whether the weights are inputs.
    """
    inputs, operands = f"float[{steps}, {batch}, 4] x", "x, w, r, b"
    if begun:
        states = ["h0", "c0"] if op == "LSTM" else ["h0"]
        shape = f"float[{1 + (BOTH in more)}, {batch}, 3]"
        inputs += f", int32[{batch}] l, " + ", ".join(f"{shape} {state}" for state in states)
        operands += ", l, " + ", ".join(states)
    weights = weights_of(op, more)
    if computed:
        inputs, weights = f"{inputs}, {weights}", ""
    results = "y, h, c" if op == "LSTM" else "y, h"
    attributes = f"hidden_size = 3{', ' if more else ''}{more}"
    return f"g ({inputs}) => ({results}) <{weights}> {{ {results} = {op} <{attributes}> ({operands}) }}"


def weights_of(op: str, more: str = "") -> str:
    """Their declarations."""
    ways, rows = 1 + (BOTH in more), GATES[op] * 3
    return f"float[{ways}, {rows}, 4] w, float[{ways}, {rows}, 3] r, float[{ways}, {2 * rows}] b"


# fmt: off
CASES: list[Case] = [
    *(
        Case(f"{op}, {way}, free", layer(op, f'direction = "{way}"'),
            sizes=[{"s": 1, "b": 2}, {"s": 11, "b": 1}, {"s": 33, "b": 1}], tflite=Emits(CAST=0))
        for op in GATES
        for way in ("forward", "reverse", "bidirectional")
    ),
    *(
        Case(f"{op} of {steps} steps with lengths and states", layer(op, BOTH, steps, 2, begun=True),
            feeds={"l": [steps, steps - 3]}, tflite=Emits("WHILE") if steps == 40 else Emits(WHILE=0))
        for op in GATES
        for steps in (4, 40)
    ),
    *(
        Case(f"{op} of 8 steps stays a loop", layer(op, steps=8, batch=2, begun=True),
            feeds={"l": [8, 5]}, tflite=Emits("WHILE"), coreml=Emits("while_loop"))
        for op in GATES
    ),
    *(
        Case(f"{op} of free steps with lengths and states", layer(op, BOTH, "s", 3, begun=True),
            sizes={"s": 10}, feeds={"l": [10, 2, 3]})
        for op in GATES
    ),
    *(
        Case(f"{op} of {steps} steps: {more}", layer(op, more, steps, 2))
        for steps in (3, 20)
        for op, more in FUNCTIONS
    ),
    *(
        Case(f"{op}, free: {more}", layer(op, more), sizes=SIZES)
        for op, more in (
            ("GRU", "linear_before_reset = 1"),
            ("GRU", "clip = 0.3"),
            ("LSTM", "input_forget = 1"),
            ("LSTM", "clip = 0.3"),
        )
    ),
    *(
        Case(f"{op} of other functions: {more}", layer(op, more, 4, 2))
        for op, more in OTHER_FUNCTIONS
    ),
    Case("Elu and Affine",
        layer(
            "LSTM",
            'activations = ["Sigmoid", "Elu", "Affine"], activation_alpha = [0.7, 0.5], activation_beta = [0.1]',
            4,
            2,
        )),
    Case("peepholes",
        f"""g (float[18, 2, 4] x) => (y, h, c) <{weights_of("LSTM", BOTH)}, float[2, 9] p> {{
            y, h, c = LSTM <hidden_size = 3, {BOTH}> (x, w, r, b, "", "", "", p)
        }}"""),
    Case("peepholes, free",
        f"""g (float[s, b, 4] x) => (y, h, c) <{weights_of("LSTM")}, float[1, 9] p> {{
            y, h, c = LSTM <hidden_size = 3> (x, w, r, b, "", "", "", p)
        }}""",
        sizes=SIZES),
    *(
        Case(f"{op}, computed weights", layer(op, BOTH, steps, 2, computed=True))
        for op, steps in (("RNN", 3), ("GRU", 9), ("LSTM", 3))
    ),
    *(
        Case(f"MIL's own: {op}, {way}", layer(op, f'direction = "{way}"'), sizes=SIZES, coreml=made)
        for op, way, made in (
            ("LSTM", "reverse", Emits(reverse=2, lstm=1)),
            ("LSTM", "bidirectional", Emits(lstm=1, reverse=0)),
            ("RNN", "bidirectional", Emits(rnn=2, reverse=2)),
        )
    ),
    *(
        Case(f"LSTM of {steps} steps, twice", layer("LSTM", "", steps, 2), feeds=[{}, {}])
        for steps in (3, 20)
    ),
    *(
        Case(f"{op} of {steps} steps, batch first",
            f"""g (float[2, {steps}, 4] x, float[2, 2, 3] h0) => (y, h) <{weights_of(op, BOTH)}> {{
                k = Abs (h0)
                y, h = {op} <hidden_size = 3, layout = 1, {BOTH}> (x, w, r, b, "", k)
            }}""",
            like=f"""g (float[2, {steps}, 4] x, float[2, 2, 3] h0) => (y, h) <{weights_of(op, BOTH)}> {{
                k = Abs (h0)
                u = Transpose <perm = [1, 0, 2]> (k)
                t = Transpose <perm = [1, 0, 2]> (x)
                v, s = {op} <hidden_size = 3, {BOTH}> (t, w, r, b, "", u)
                y = Transpose <perm = [2, 0, 1, 3]> (v)
                h = Transpose <perm = [1, 0, 2]> (s)
            }}""")
        for op in GATES
        for steps in (3, 20)
    ),
    Case("float16",
        """g (float16[5, 2, 4] x) => (y, h, c)
            <float16[1, 12, 4] w, float16[1, 12, 3] r, float16[1, 24] b> {
            y, h, c = LSTM <hidden_size = 3> (x, w, r, b)
        }""",
        tol=1e-2, ios=(16, 17)),
    Case("quantized weights",
        """g (float[5, b, 4] x) => (y) <int8[1, 12, 4] w, int8[1, 12, 3] r, float scale = {0.2}> {
            v = DequantizeLinear (w, scale)
            t = DequantizeLinear (r, scale)
            y = LSTM <hidden_size = 3> (x, v, t)
        }""",
        sizes={"b": 2}, coreml=Emits("lstm")),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)


def test_many_steps_stay_a_small_file(tmp_path: Path) -> None:
    long, short = (
        emitted(Case("", layer("LSTM", BOTH, steps, 2)).model(), tmp_path / str(steps))
        .stat()
        .st_size
        for steps in (100, 17)
    )
    assert abs(long - short) < 500


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (layer("LSTM", BOTH), 59),
        (layer("GRU"), 33),
        (layer("LSTM", BOTH, 20, 2), 49),
        (layer("LSTM", BOTH, "s", 3, begun=True), 70),
    ],
)
def test_a_loop_over_steps_has_no_operator_too_many(text: str, most: int) -> None:
    lowered = lower(Case("", text).model())
    assert sum(len(graph.operators) for graph in lowered.model.subgraphs) == most
