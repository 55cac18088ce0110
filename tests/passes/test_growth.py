"""How the work of passes grows with the nodes: counted, not timed."""

from collections import Counter, UserDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx_ir
import onnxslim.third_party.onnx_graphsurgeon as gs
import pytest
from onnxscript.rewriter import RewritePass
from onnxscript.rewriter.rules import common as rules
from onnxslim.core.optimization.weight_tying import find_and_remove_replaceable_constants

from converter.passes.libraries.onnxscript import OnnxscriptOptimizer
from converter.passes.libraries.slice_pairs import among_users
from converter.passes.libraries.tying import by_contents
from converter.passes.transposes.rewriting import _Rewriter
from converter.passes.transposes.search import Search
from tests.passes.models import text_model

Tie = Callable[[list[gs.Constant]], None]


class Counted(UserDict[Any, Any]):
    """Counts how often its entries are read."""

    read = 0

    def __getitem__(self, key: Any) -> Any:
        self.read += 1
        return self.data[key]


def labels_read(blocks: int) -> int:
    """How many labels a search reads where each block has two Transposes that have to stay."""
    lines = [
        f"""t{i} = Transpose<perm: ints = [0, 3, 1, 2]>(x{i})  r{i} = Relu(t{i})
        c{i} = Conv(r{i}, w)
        b{i} = Transpose<perm: ints = [0, 2, 3, 1]>(c{i})  x{i + 1} = MatMul(b{i}, m)"""
        for i in range(blocks)
    ]
    model = text_model(
        f"m (float[1,4,4,2] x0) => (float[1,4,4,2] x{blocks}) {{ {' '.join(lines)} }}",
        w=np.ones((2, 2, 1, 1), np.float32),
        m=np.ones((2, 2), np.float32),
    )
    search = Search(model.graph.graph)
    search.labels = counted = Counted(search.labels)
    search.run()
    assert counted.read > blocks  # it looked
    return counted.read


def test_a_search_for_transposes_reads_labels_in_proportion_to_the_nodes() -> None:
    assert labels_read(160) < 6 * labels_read(40)


def test_a_name_that_is_free_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each block gets a Transpose, the next one's number is tried first."""
    asked = [0]

    class Names(set[str]):
        def __contains__(self, name: object) -> bool:
            asked[0] += 1
            return super().__contains__(name)

    model = text_model("m (float[2,2] x) => (float[2,2] y) { y = Relu(x) }")
    rewriter = _Rewriter(Search(model.graph.graph), model.graph)
    monkeypatch.setattr(rewriter, "_taken", Names(rewriter._taken))
    names = [rewriter._name("Transpose") for _ in range(200)]
    assert names[:3] == ["Transpose", "Transpose_1", "Transpose_2"]
    assert 200 <= asked[0] <= 600


def constants(arrays: list[np.ndarray[Any, Any]]) -> tuple[list[gs.Constant], list[gs.Node]]:
    made = [gs.Constant(f"c{i}", array) for i, array in enumerate(arrays)]
    return made, [gs.Node("Abs", f"n{i}", inputs=[each]) for i, each in enumerate(made)]


def taken(tie: Tie, arrays: list[np.ndarray[Any, Any]]) -> list[str]:
    """The constant that each node takes after equal ones were made one."""
    made, nodes = constants(arrays)
    tie(made)
    return [node.inputs[0].name for node in nodes]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.bool_, np.object_])
def test_onnxslim_makes_the_same_constants_one(dtype: type) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-1, 2, 2).astype(dtype) for _ in range(40)]
    if np.dtype(dtype).kind == "f":
        arrays += [np.asarray(pair, dtype) for pair in ([-0.0, 1], [0.0, 1], [np.nan, 0])] * 2
    tie = find_and_remove_replaceable_constants
    assert taken(by_contents(tie), arrays) == taken(tie, arrays)
    assert len(set(taken(tie, arrays))) < len(arrays)


def test_onnxslim_compares_constants_in_proportion_to_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared, equal = [0], gs.Constant.__eq__

    def counting(one: gs.Constant, other: object) -> bool:
        compared[0] += 1
        return bool(equal(one, other))

    monkeypatch.setattr(gs.Constant, "__eq__", counting)
    arrays = [np.asarray([i // 2], np.float32) for i in range(400)]
    made, _ = constants(arrays)
    compared[0] = 0
    by_contents(find_and_remove_replaceable_constants)(made)
    assert 200 <= compared[0] < 2000


def slices_model(pairs: int) -> onnx_ir.Model:
    """Halves of one axis, in this order and the other; quarters; two of the whole."""
    ends = [(0, 4, 4, 8), (4, 8, 0, 4), (0, 4, 0, 4), (0, 4, 4, 8)]
    lines = []
    for i in range(pairs):
        a, b, c, d = ends[i % 4]
        third = f"r{i} = Slice(x{i}, i0, i4, last)" if i % 4 == 3 else f"r{i} = Relu(x{i})"
        lines.append(
            f"{third} p{i} = Slice(x{i}, i{a}, i{b}, last)  q{i} = Slice(x{i}, i{c}, i{d}, last)"
            f" s{i} = Mul(p{i}, q{i})  x{i + 1} = Concat<axis: int = 1>(s{i}, s{i})"
            f" u{i} = ReduceSum<keepdims: int = 0>(r{i})"
        )
    numbers = {name: np.asarray([int(name[1])]) for name in ("i0", "i4", "i8")}
    text = f"m (float[2,8] x0) => (float[2,8] x{pairs}, float u{pairs - 1}) {{ {' '.join(lines)} }}"
    return text_model(text, last=np.asarray([1]), **numbers).graph


def rewritten(model: onnx_ir.Model, rule: Any) -> list[str]:
    RewritePass([rule])(model)
    return [f"{node.op_type} {[value.name for value in node.inputs]}" for node in model.graph]


def test_onnxscript_splits_the_same_slices() -> None:
    rule = rules.slice_split_rule
    seen = rewritten(slices_model(12), among_users(rule))
    assert seen == rewritten(slices_model(12), rule)
    assert sum(node.startswith("Split") for node in seen) > 2


def test_onnxscript_looks_for_slices_in_proportion_to_the_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, all_of = [0], onnx_ir.Graph.__iter__

    def counting(graph: onnx_ir.Graph) -> Iterator[onnx_ir.Node]:
        for node in all_of(graph):
            seen[0] += 1
            yield node

    monkeypatch.setattr(onnx_ir.Graph, "__iter__", counting)
    counts = []
    for pairs in (20, 80):
        model, seen[0] = slices_model(pairs), 0
        matcher = among_users(rules.slice_split_rule)
        for node in list(model.graph):
            matcher.match(model, model.graph, node)
        counts.append(seen[0])
    assert counts[1] < 6 * counts[0]


def test_onnxscript_looks_at_nodes_in_proportion_to_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: Counter[int] = Counter()
    of_type = onnx_ir.Node.op_identifier

    def counted(node: onnx_ir.Node) -> Any:
        looked[count] += 1
        return of_type(node)

    monkeypatch.setattr(onnx_ir.Node, "op_identifier", counted)
    for count in (40, 160):
        lines = " ".join(f"x{i + 1} = Mul(x{i}, x{i})" for i in range(count))
        model = text_model(f"m (float[2] x0) => (float[2] x{count}) {{ {lines} }}")
        OnnxscriptOptimizer().simplify(model.graph)
    assert looked[40] < 40**2 and looked[160] < 6 * max(looked[40], 40)
