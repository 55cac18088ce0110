"""What can't be lowered is listed whole, before anything is made."""

from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from converter.errors import UnsupportedError
from parsers.tflite.importer import import_model, unsupported
from parsers.tflite.model import Operator, Subgraph, Tensor, TfliteModel
from parsers.tflite.reader import read
from tests.tflite.build import File
from tests.tflite.ops.compare import both, check, imported
from tests.tflite.ops.test_built import real


def _model(*operators: Operator, dtypes: dict[int, str] | None = None) -> TfliteModel:
    """Operators on a chain of float tensors, each from tensor i to tensor i + 1."""
    kinds = [(dtypes or {}).get(i, "float32") for i in range(len(operators) + 1)]
    tensors = [Tensor(i, f"t{i}", kind, (2, 3)) for i, kind in enumerate(kinds)]
    return TfliteModel([Subgraph(0, "main", tensors, (0,), (len(operators),), list(operators))])


def _chain(*names: str) -> TfliteModel:
    numbered = enumerate(names)
    return _model(*(Operator(i, n, n.startswith("Flex"), 1, (i,), (i + 1,)) for i, n in numbered))


def test_all_of_them_are_listed() -> None:
    """Three operators of three kinds, with one that works between them."""
    model = _chain("BITCAST", "EXP", "FlexErf", "STABLEHLO_CBRT")
    items = unsupported(model, 0)
    assert [item.op for item in items] == ["BITCAST", "FlexErf", "STABLEHLO_CBRT"]
    assert [item.node for item in items] == ["operator 0, t1", "operator 2, t3", "operator 3, t4"]
    assert "TensorFlow's own kernel" in items[1].reason and items[1].remedy
    with pytest.raises(UnsupportedError) as raised:
        import_model(model, 0, {"x": 0}, {"y": 4})
    assert raised.value.items == tuple(items)
    assert raised.value.exit_code == 3


def test_options_and_types_are_looked_at() -> None:
    fused = SimpleNamespace(fusedActivationFunction=5)
    add = Operator(0, "ADD", False, 1, (0, 0), (1,), options=fused)
    cast = Operator(1, "CAST", False, 1, (1,), (2,))
    split = Operator(2, "SPLIT", False, 1, (0, 2), (3,))
    items = unsupported(_model(add, cast, split, dtypes={2: "complex64"}), 0)
    for item, says in zip(
        items, ("SIGN_BIT", "complex64", "axis that isn't constant"), strict=True
    ):
        assert says in item.reason


def test_strings_and_outputs_that_nothing_computes() -> None:
    model = _model(Operator(0, "EQUAL", False, 1, (0, 0), (1,)), dtypes={0: "string", 1: "bool"})
    items = unsupported(model, 0)
    assert [item.op for item in items] == ["input", "EQUAL"]
    assert all("string" in item.reason for item in items)
    moved = Operator(0, "SQUEEZE", False, 1, (0,), (1,))
    items = unsupported(_model(moved, dtypes={0: "string", 1: "string"}), 0)
    assert [item.op for item in items] == ["input", "SQUEEZE", "output"]
    (item,) = unsupported(_model(Operator(0, "EXP", False, 1, (0,), (0,))), 0)
    assert (item.op, item.node) == ("output", "t1")


def _branching(inner: str) -> File:
    """If the sum of ``x`` is positive, ``inner`` of it, else its negative."""
    file = File()
    main, yes, no = file.graph(), file.graph("yes"), file.graph("no")
    for graph, name in ((yes, inner), (no, "NEG")):
        x, y = graph.tensor("x", (2, 3)), graph.tensor(f"{name}_result", (2, 3))
        graph.op(name, [x], [y])
        graph.interface([x], [y])
    x, y, total = main.tensor("x", (2, 3)), main.tensor("y", (2, 3)), main.tensor("total")
    flag = main.tensor("flag", (), "BOOL")
    main.op("SUM", [x, main.constant(np.array([0, 1], np.int32))], [total], keepDims=False)
    main.op("GREATER", [total, main.constant(np.array(0, np.float32))], [flag])
    main.op("IF", [flag, x], [y], thenSubgraphIndex=1, elseSubgraphIndex=2)
    main.interface([x], [y])
    return file


def test_subgraphs_are_looked_into_and_recursion_is_refused() -> None:
    (item,) = unsupported(read(_branching("BITCAST").content(), "test"), 0)
    assert (item.op, item.node) == ("BITCAST", "subgraph 1, operator 0, BITCAST_result")
    model = read(_branching("ABS").content(), "test")
    model.subgraphs[0].operators[2].options.elseSubgraphIndex = 0
    (item,) = unsupported(model, 0)
    assert "recursion" in item.reason


@pytest.mark.parametrize("sign", [1, -1])
def test_both_branches_run(sign: int) -> None:
    check(*both(_branching("ABS").content(), {"x": sign * (np.abs(real(2, 3)) + 1)}))


def test_names_and_free_dimensions() -> None:
    """Inner names make way for the user's; free sizes get symbols."""
    file = File()
    graph = file.graph()
    x = graph.tensor("constant", (1, 4, 3), free=(-1, 4, -1))
    y = graph.tensor("ADD_0/Add", (1, 4, 3), free=(-1, 4, -1))
    graph.op("ADD", [x, graph.constant(real(4, 1))], [y])
    graph.interface([x], [y])
    model = read(file.content(), "test")
    made = import_model(model, 0, {"constant": x}, {"ADD_0/Add": y})
    (given,), (result,) = made.graph.inputs, made.graph.outputs
    assert str(given.shape) == str(result.shape) == "[batch,4,constant_dim2]"
    assert (given.name, result.name) == ("constant", "ADD_0/Add")
    names = [value.name for node in made.graph for value in node.outputs]
    assert len({*names, *made.graph.initializers, given.name}) == len(names) + 2
    assert onnx.load_model_from_string(imported(model)).opset_import[0].version == 20
    check(*both(file.content(), {"constant": real(3, 4, 5)}))
