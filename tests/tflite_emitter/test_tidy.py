"""What is made smaller behind the lowerings."""

import gc
import time

import numpy as np
import pytest

from emitters.tflite.graph import DataType, Operator, Quant, Subgraph, Tensor
from emitters.tflite.simplify import tidy

SHAPE = (2, 3, 4)


def _tensor(name: str, shape: tuple[int, ...] = SHAPE, quant: Quant | None = None) -> Tensor:
    return Tensor(name, shape, DataType.INT8 if quant else DataType.FLOAT, quant=quant)


def _numbers(values: list[int]) -> Tensor:
    return Tensor("", (len(values),), DataType.INT32, np.asarray(values, np.int32))


def _chain(*steps: tuple[str, list[int]]) -> Subgraph:
    """RESHAPEs and TRANSPOSEs one behind the other, and a SOFTMAX at the end."""
    graph = Subgraph("main", [_tensor("x")])
    last = graph.inputs[0]
    for number, (op, values) in enumerate(steps):
        shape = [last.shape[axis] for axis in values] if op == "TRANSPOSE" else values
        made = _tensor(f"t{number}", tuple(map(int, shape)))
        graph.operators.append(Operator(op, [last, _numbers(values)], [made]))
        last = made
    graph.outputs = [_tensor("y", tuple(map(int, last.shape)))]
    graph.operators.append(Operator("SOFTMAX", [last], [graph.outputs[0]]))
    return graph


def _kinds(graph: Subgraph) -> list[str]:
    return [operator.op for operator in graph.operators]


TURN = ("TRANSPOSE", [2, 0, 1])


@pytest.mark.parametrize(("steps", "left"), [
    ([("RESHAPE", [6, 4]), ("RESHAPE", [24]), ("RESHAPE", [4, 6])], ["RESHAPE"]),
    ([("RESHAPE", [6, 4]), ("RESHAPE", [24]), ("RESHAPE", [2, 3, 4])], []),
    ([TURN] * 2, ["TRANSPOSE"]),
    ([TURN] * 3, []),
])  # fmt: skip
def test_moves_become_one_or_none(steps: list[tuple[str, list[int]]], left: list[str]) -> None:
    graph = _chain(*steps)
    tidy(graph)
    assert _kinds(graph) == [*left, "SOFTMAX"]
    x, given = graph.operators[0].inputs[0], graph.operators[0].inputs[-1]
    assert x is graph.inputs[0] and given is not None
    if left == ["TRANSPOSE"]:
        assert given.data is not None and [*given.data] == [1, 2, 0]  # [2, 0, 1] twice


def test_an_output_keeps_its_operator() -> None:
    graph = _chain(("RESHAPE", [2, 3, 4]))
    graph.outputs = [*graph.operators[0].outputs, *graph.outputs]
    tidy(graph)
    assert _kinds(graph) == ["RESHAPE", "SOFTMAX"]


def _requantized(before: Quant, after: Quant) -> list[str]:
    x, real, again = _tensor("x", quant=before), _tensor("r"), _tensor("q", quant=after)
    y = _tensor("y", quant=after)
    steps = [("DEQUANTIZE", x, real), ("QUANTIZE", real, again), ("MAX_POOL_2D", again, y)]
    graph = Subgraph("main", [x], [y], [Operator(op, [a], [b]) for op, a, b in steps])
    tidy(graph)
    return _kinds(graph)


def test_quantized_again_as_it_was() -> None:
    kept = ["DEQUANTIZE", "QUANTIZE", "MAX_POOL_2D"]
    assert _requantized(Quant.of(0.5, 3), Quant.of(0.5, 3)) == ["MAX_POOL_2D"]
    assert _requantized(Quant.of(0.5, 3), Quant.of(0.25, 3)) == kept
    assert _requantized(Quant.of(0.5, 3), Quant.of(0.5, 4)) == kept


def test_activations_are_fused_once() -> None:
    x, sums, y = _tensor("x"), _tensor("s"), _tensor("y")
    graph = Subgraph("main", [x], [y], [])
    options = {"fusedActivationFunction": 0}
    graph.operators = [Operator("ADD", [x, x], [sums], options), Operator("RELU", [sums], [y])]
    tidy(graph)
    assert _kinds(graph) == ["ADD"]
    assert graph.operators[0].options["fusedActivationFunction"] == 1
    assert graph.operators[0].outputs == [y]


def test_time_grows_with_the_operators() -> None:
    def seconds(count: int) -> float:
        graph = _chain(*[("TRANSPOSE", [2, 0, 1]), ("RESHAPE", [2, 3, 4])] * count)
        gc.collect()
        gc.disable()  # it looks at all that other tests left, and that isn't what is measured
        start = time.process_time()
        tidy(graph)
        taken = time.process_time() - start
        gc.enable()
        return taken

    few, many = min(seconds(500) for _ in range(3)), min(seconds(4000) for _ in range(3))
    assert many < 24 * few  # 8 times as many; a quadratic step would take 64 times as long
